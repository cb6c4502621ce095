"""Measuring scripts of examples/python: their results, and the committed file."""

import csv
import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from paceline import PPO

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="no checkout around the tests")


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / "python" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore::paceline.PacelineWarning")
def test_zoo_runs_unchanged_keywords(monkeypatch):
    zoo = load("zoo")
    monkeypatch.setitem(zoo.ZOO, "CartPole-v1", (1500, zoo.ZOO["CartPole-v1"][1]))
    _, mean, seconds = zoo.run("paceline", "CartPole-v1", 1)
    assert 8 <= mean <= 500 and seconds > 0


def test_zoo_compares_means(capsys):
    zoo = load("zoo")
    rows = [
        {"library": library, "env": "Acrobot-v1", "mean_return": str(mean), "seconds": "1"}
        for library, means in (("paceline", (-80, -84)), ("stable-baselines3", (-75, -79)))
        for mean in means
    ]
    zoo.table(rows)
    assert "ours is below by 5.0, standard error 2.8: not as good" in capsys.readouterr().out
    rows[0]["mean_return"] = "-78"
    zoo.table(rows)
    assert "ours is below by 4.0, standard error 3.6: not as good" in capsys.readouterr().out
    rows[1]["mean_return"] = "-70"
    zoo.table(rows)
    assert "ours is above by 3.0, standard error 4.5: as good" in capsys.readouterr().out


def test_zoo_results_are_as_good_as_stable_baselines3(capsys):
    zoo = load("zoo")
    rows = list(csv.DictReader(zoo.FILE.read_text().splitlines()))
    counts = Counter((row["library"], row["env"]) for row in rows)
    for env in zoo.ZOO:
        for library in ("paceline", "stable-baselines3"):
            assert counts[library, env] == (20 if env == "CartPole-v1" else 5)
    assert len({(row["library"], row["env"], row["seed"]) for row in rows}) == len(rows)
    zoo.table(rows)
    said = capsys.readouterr().out
    assert said.count(": as good") == len(zoo.ZOO) and "not as good" not in said


def test_pong_minutes_ends_with_a_confirmed_mean(monkeypatch, capsys):
    minutes = load("pong_minutes")
    monkeypatch.setattr(minutes, "GAMES", 2)
    played = iter([-1.0, 1.0, 0.0, 1.0, 1.0])
    with PPO("MlpPolicy", "CartPole-v1", num_envs=2, n_steps=50, batch_size=100, n_epochs=1, seed=1) as model:

        def evaluate(**keywords):
            assert keywords["episodes"] == 2 and keywords["deterministic"] is False
            return type("Result", (), {"mean_return": next(played)})

        monkeypatch.setattr(model, "evaluate", evaluate)
        monkeypatch.setattr(minutes, "WANTED", 1.0)
        wins = minutes.UntilItWins(300, None)
        model.learn(5000, callback=wins)
        assert model.num_timesteps == 900 and wins.won() and 0 < wins.minutes() < 1
    assert capsys.readouterr().out.count("minutes") == 3


def test_pong_minutes_go_on_after_a_stop(monkeypatch, capsys, tmp_path):
    minutes = load("pong_minutes")
    monkeypatch.setattr(minutes, "GAME", "CartPole-v1")
    played = iter([1.0, KeyboardInterrupt(), 20.0, 20.0])

    def evaluate(model, **keywords):
        result = next(played)
        if isinstance(result, BaseException):
            raise result
        return type("Result", (), {"mean_return": result})

    monkeypatch.setattr(PPO, "evaluate", evaluate)
    file = tmp_path / "run.paceline"
    arguments = (PPO, "tuned", 1, 100_000, 100_000, 2000, file)
    with pytest.raises(KeyboardInterrupt):
        minutes.run(*arguments)
    assert file.exists() and "steps" in capsys.readouterr().out
    assert minutes.run(*arguments) != "not reached"
    (line,) = capsys.readouterr().out.splitlines()
    assert 6000 <= int(line.split()[0].replace(",", "")) < 8000 and line.endswith("20.00   20.00")
