"""Learning curves: the recorded points and the plots."""

import math

import numpy as np
import pytest

from envs import SMALL
from paceline import DQN, plots
from paceline.curve import MOST, LearningCurve
from paceline.errors import ConfigError

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("matplotlib")


class Clock:
    now = 50.0

    def __call__(self):
        return self.now


def curve_of(seconds, apart=0.1, rate=1000):
    clock = Clock()
    curve = LearningCurve("Pong, PPO", clock)
    curve.resume()
    for i in range(round(seconds / apart) + 1):
        clock.now = 50 + i * apart
        curve.add(round(i * apart * rate), math.nan if i < 10 else i * apart)
    return clock, curve


def test_points_are_thinned_evenly():
    clock, curve = curve_of(2000)
    assert MOST / 2 <= len(curve.seconds) == len(curve.steps) == len(curve.returns) <= MOST
    assert curve.seconds[0] == 0 and curve.seconds[-1] > 1990
    apart = np.diff(curve.seconds)
    assert apart.min() > 0.4 * apart.max()
    assert curve.steps == [round(1000 * s) for s in curve.seconds]
    before = len(curve.seconds)
    curve.add(2_000_000, 1.0)
    assert len(curve.seconds) == before  # the latest point is recent, so no point is added
    curve.add(2_000_000, 1.0, last=True)
    assert len(curve.seconds) == before + 1 and curve.seconds_at(1_000_000) == pytest.approx(1000)


def test_time_between_two_calls_does_not_count():
    clock, curve = curve_of(10)
    clock.now += 3600
    curve.resume()
    clock.now += 5
    curve.add(15_000, 1.0)
    curve.add_evaluation(15_000, 2.0)
    assert curve.seconds[-1] == pytest.approx(15) and curve.evaluations == [(pytest.approx(15), 15_000, 2.0)]


def test_learn_records_returns_and_evaluations():
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        model.learn(400, eval_freq=200, n_eval_episodes=2)
        curve = model.learning_curve
        assert curve.title == "CartPole-v1, DQN" and curve.steps[0] == 0 and curve.steps[-1] == 400
        assert math.isnan(curve.returns[0]) and curve.returns[-1] == model.stats["mean_return"]
        assert [(step, value) for _, step, value in curve.evaluations] == [(s, r.mean_return) for s, r in model.evaluations]
        assert 0 < curve.evaluations[0][0] <= curve.evaluations[1][0] <= curve.seconds[-1]
        model.learn(100, reset_num_timesteps=False)
        assert model.learning_curve is curve and curve.steps[-1] == 500 and curve.seconds == sorted(curve.seconds)
        model.learn(50)
        assert model.learning_curve is not curve and model.learning_curve.steps[-1] == 50


def axes_of(monkeypatch, path, *curves):
    """Returns the axes of the figure that is drawn."""
    from matplotlib.figure import Figure

    drawn = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **keywords: (drawn.append(self), save(self, *args, **keywords)))
    plots.save_curves(path, *curves)
    return drawn[0].axes


def test_axes_show_minutes_below_and_steps_above(monkeypatch, tmp_path):
    clock, curve = curve_of(600)
    curve.add_evaluation(600_000, 7.0)
    below, above = axes_of(monkeypatch, tmp_path / "curve.png", curve)
    assert (below.get_xlabel(), below.get_ylabel(), above.get_xlabel()) == ("minutes", "mean return", "steps")
    minutes, returns = below.lines[0].get_data()
    assert minutes[-1] == pytest.approx(10, rel=0.01) and returns[-1] == pytest.approx(600, rel=0.01)
    assert np.array(below.lines[1].get_data()).T.tolist() == [[10, 7]]
    assert below.get_xlim() == above.get_xlim()
    at = {label.get_text(): tick for tick, label in zip(above.get_xticks(), above.get_xticklabels())}
    assert at["300k"] == pytest.approx(5, rel=0.01) and at["0"] == 0 and 4 <= len(at) <= 8
    with Image.open(tmp_path / "curve.png") as image:
        assert image.format == "PNG" and image.width > image.height > 300


def test_several_curves_are_side_by_side(tmp_path):
    curves = [curve_of(seconds)[1] for seconds in (0.2, 5, 100)] + [LearningCurve("nothing yet")]
    plots.save_curves(tmp_path / "one.png", curves[1])
    plots.save_curves(tmp_path / "all.png", *curves)
    with Image.open(tmp_path / "one.png") as one, Image.open(tmp_path / "all.png") as four:
        assert four.width > 3 * one.width and four.height == one.height
    with pytest.raises(ConfigError, match="curves: none"):
        plots.save_curves(tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_plotting_does_not_import_pyplot(process):
    process("""
import sys
from paceline import plots
from paceline.curve import LearningCurve
assert not {"matplotlib", "PIL"} & set(sys.modules)
plots.save_curves("curve.png", LearningCurve("nothing"))
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
""")


def test_missing_matplotlib_is_named(process):
    done = process(
        """
import sys
sys.modules["matplotlib"] = None
from paceline import plots
from paceline.curve import LearningCurve
plots.save_curves("curve.png", LearningCurve("nothing"))
""",
        check=False,
    )
    assert "ConfigError: plots: needs the package matplotlib (pip install 'paceline[plot]')" in done.stderr
