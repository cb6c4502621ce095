"""`paceline bench ga3c | tuner | async | latency`: the tables, and a file of durations that a run reads."""

import json

import pytest

from paceline import A3C, PacelineError
from paceline.bench import laboratory
from paceline.cli import main


def report(capsys, *arguments):
    assert main(["bench", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_measured_durations_are_a_latency_file(capsys, tmp_path):
    file = tmp_path / "latency.json"
    out = report(capsys, "latency", "--method", "a3c", "--num-envs", 2, "--steps", 200, "--out", file)
    durations = json.loads(file.read_text())
    assert set(durations) == {"step", "forward", "gradient", "pull", "push"} == {line.split()[0] for line in out.splitlines()}
    with A3C("MlpPolicy", "CartPole-v1", num_envs=4, learners=2, latency_file=str(file), seed=1) as model:
        assert model.learn(100).num_timesteps >= 100


def test_models_of_the_papers_machines_are_settings(capsys, tmp_path):
    out = report(capsys, "latency", "--machine", "System III", "--method", "a3c")
    settings = dict(line.split("=") for line in out.splitlines())
    assert settings["learners"] == settings["num_envs"] == "16"
    assert "latency_device=4\n" in report(capsys, "latency", "--machine", "System II")
    assert main(["bench", "latency", "--machine", "System II", "--out", str(tmp_path / "x")]) == 1
    assert "must not be given with --machine" in capsys.readouterr().err


def test_schedules_are_compared(capsys, tmp_path):
    file = tmp_path / "report.json"
    short = ("--turns", 2, "--seconds", 0.02, "--set", "n_steps=4", "--report", file)
    out = report(capsys, "async", "--learners", "2", "--envs", "1,2", *short)
    assert [line.split()[:2] for line in out.splitlines()[2:4]] == [["2", "1"], ["2", "2"]]
    assert json.loads(file.read_text())["options"]["settings"] == {"n_steps": "4"}


@pytest.mark.slow
def test_tuner_and_machines_are_beside_the_paper(capsys):
    out = report(capsys, "tuner", "--machines", "System II", "--forms", "paper", "--seeds", 1, "--periods", 2, "--period-s", 1)
    assert "System II: best of the grid 4/" in out and "paper    0 of 1 seeds reach 0.95" in out
    out = report(capsys, "ga3c", "--env", "", "--seconds", 1)
    lines = {line[:16].strip(): line[16:].split() for line in out.splitlines()}
    assert lines["paper: GA3C PPS"] == ["1,361", "728", "1,248"] and lines["NP, NT, NA"] == ["2,2,128"] * 3
    assert all(float(share.rstrip("%")) <= 100 for share in lines["lag 64 and more"])


def test_wrong_arguments_are_one_sentence(capsys):
    assert main(["bench", "tuner", "--seeds", "0"]) == 1
    assert "seeds 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["bench", "async", "--set", "n_steps"])
    assert "'n_steps', must be NAME=VALUE" in capsys.readouterr().err
    with pytest.raises(PacelineError, match="method"):
        from paceline import bench

        bench.run("latency", {"method": "dqn"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ga3c", "--seconds", "nan"), "seconds: nan, must be finite"),
        (("async", "--seconds", "inf"), "seconds: inf, must be finite"),
        (("latency", "--steps", str(10**20)), f"steps: {10**20}, must be -9223372036854775808 to 9223372036854775807"),
    ],
)
def test_numbers_that_json_cannot_have_are_refused(capsys, arguments, said):
    assert main(["bench", *arguments]) == 1
    assert capsys.readouterr().err == f"paceline: {said}\n"


def test_text_of_races():
    names = ("pps", "tps", "prediction_batch", "training_batch", "prediction_queue", "training_queue", "cycle_ms", "most_update_ms", "lag")
    flow = dict.fromkeys(names, 2.0) | {"predictors": 2, "trainers": 2, "agents": 32, "lag_most": 9.0, "lags": [0.125] * 8}
    a2c = {"name": "a2c", "joined": 0, "flow": None, "median": 4000.0, "vs_a2c": 1.0}
    races = [{"name": "ga3c", "joined": 20, "flow": flow, "median": 2000.0, "vs_a2c": 0.5}, a2c]
    text = laboratory.ga3c_text({"machines": [], "races": races})
    assert "GA3C, segments joined to 20 steps        2,000 steps/s, 0.50 of A2C's" in text and "12.5%" in text
