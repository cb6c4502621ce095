"""Short runs of examples that no other test runs."""

import re
import runpy
from pathlib import Path

import pytest

from paceline import make_vec
from paceline.errors import ConfigError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


@pytest.fixture
def example(process):
    """Runs an example's file in a separate process."""
    if not EXAMPLES.is_dir():
        pytest.skip("no checkout around the tests")

    def run(name, *arguments):
        return process(f"import runpy; runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')", *arguments, timeout=300)

    return run


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--sb3 --mode standard", "--mode standard has no task that --sb3 compares"),
        ("--sb3 --env Pendulum-v1", "--env Pendulum-v1 has no task that --sb3 compares"),
        ("--env Pendulum-v1 --mode both", "--env Pendulum-v1 with --mode both has no task"),
    ],
)
def test_learn_names_the_options_without_a_task(options, says, monkeypatch, capsys):
    if not EXAMPLES.is_dir():
        pytest.skip("no checkout around the tests")
    monkeypatch.setattr("sys.argv", ["learn.py", *options.split()])
    with pytest.raises(SystemExit):
        runpy.run_path(str(EXAMPLES / "learn.py"))["main"]()
    assert capsys.readouterr().err.endswith(f"error: {says}\n")


@pytest.mark.slow
def test_cleanrl_dqn_reports_returns_of_games(example, tmp_path):
    """A lost life ends the learner's episode but not the game; the return covers all five lives."""
    for package in ("ale_py", "cv2"):
        pytest.importorskip(package)
    try:
        make_vec("Breakout").close()
    except ConfigError as err:
        pytest.skip(f"no ROM: {err}")
    small = {"total_timesteps": 1500, "buffer_size": 2000, "learning_starts": 1450, "num_envs": 2}
    done = example("cleanrl_dqn.py", *[word for name, value in small.items() for word in (f"--{name}", value)])
    games = re.findall(r"global_step=(\d+), episodic_return=(\d+)", done.stdout)
    # Random games of Breakout last about 170 to 300 steps, and a life a fifth of that.
    assert 2 <= len(games) <= 12 and any(int(reward) > 0 for _, reward in games)
    assert list(tmp_path.glob("runs/*/model.zip"))


@pytest.mark.slow
def test_staleness_adds_runs_and_draws_them(example, tmp_path):
    pytest.importorskip("matplotlib")
    arguments = ("--seeds", "1", "--steps", "300", "--series", "GA3C,GA3C+V-trace")
    first = example("staleness.py", *arguments)
    assert len(first.stdout.splitlines()) == 16 and len((tmp_path / "staleness.jsonl").read_text().splitlines()) == 16
    assert (tmp_path / "staleness.png").stat().st_size > 10_000
    assert not example("staleness.py", *arguments).stdout  # all runs are in the file
