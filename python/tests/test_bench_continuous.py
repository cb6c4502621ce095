"""python/benchmarks/continuous.py: the summary of runs, and the command."""

from __future__ import annotations

import json

import pytest

import continuous


def run(library: str, seed: int, mean: float, steps: int = 10) -> dict[str, object]:
    return {"method": "ppo", "env": "Pendulum-v1", "library": library, "seed": seed, "steps": steps, "return": mean}


def test_a_summary_has_means_their_errors_and_the_difference_in_errors():
    runs = [run("paceline", 1, 3.0), run("paceline", 2, 5.0), run("stable-baselines3", 1, 9.0, steps=20)]
    assert continuous.summary(runs, {0: 10}) == []
    runs += [run("stable-baselines3", 1, 0.0), run("stable-baselines3", 2, 2.0)]
    (entry,) = continuous.summary(runs, {0: 10, 1: 10})
    assert entry["paceline"]["mean"] == 4.0 and entry["paceline"]["error"] == pytest.approx(1.0)
    assert entry["stable-baselines3"]["returns"] == [0.0, 2.0]
    assert entry["difference_in_errors"] == pytest.approx(3 / 2**0.5)
    assert "4.0 +- 1.0" in continuous.text([entry])


def test_a_run_that_is_in_the_file_is_not_repeated(tmp_path, capsys):
    file = tmp_path / "runs.jsonl"
    lines = [run("paceline", 1, 3.0), run("stable-baselines3", 1, 0.0)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert continuous.main(["--runs", str(file), "--rows", "ppo:Pendulum-v1", "--seeds", "1", "--most-steps", "10", "--json"]) == 0
    assert len(file.read_text().splitlines()) == 2
    assert json.loads(capsys.readouterr().out)["entries"][0]["paceline"]["returns"] == [3.0]


def test_a_row_has_a_length_of_its_own(tmp_path, capsys, monkeypatch):
    rows = []
    monkeypatch.setattr(continuous, "train", lambda file, lengths, *more: rows.append(lengths))
    names = "ppo:Pendulum-v1,a2c:LunarLanderContinuous-v3,ppo:BipedalWalker-v3"
    command = ["--runs", str(tmp_path / "r"), "--rows", names, "--most-steps"]
    assert continuous.main([*command, "1000000,a2c:LunarLanderContinuous-v3=300000"]) == 0
    assert list(rows[0].values()) == [100_000, 300_000, 1_000_000]
    capsys.readouterr()
    for bad in "many", "a2c:Ant=5", "ppo:Pendulum-v1=0":
        assert continuous.main([*command, bad]) == 1
        assert capsys.readouterr().err.startswith(f"paceline: --most-steps: '{bad}', must be N, or NAME=N with a name of ")


def test_speed_is_the_median_ratio_of_turns_of_whole_rollouts(monkeypatch):
    seconds = iter([8.0, 1.0, 2.0, 4.0, 3.0, 1.0])
    calls = []

    def one(library, number, seed, steps, episodes, core):
        calls.append((library, steps, episodes))
        return json.dumps({"seconds": next(seconds)})

    monkeypatch.setattr(continuous, "_one", one)
    report = continuous.speed(0, 3)
    assert [call[0] == "paceline" for call in calls] == [False, True, True, False, False, True]
    assert report["steps"] == 8192 and {call[1:] for call in calls} == {(8192, 0)} and report["times_as_fast"] == 3.0


def test_an_unknown_row_is_refused(tmp_path, capsys):
    assert continuous.main(["--runs", str(tmp_path / "runs.jsonl"), "--rows", "ppo:Ant"]) == 1
    assert capsys.readouterr().err.startswith("paceline: --rows: 'ppo:Ant', must be of ppo:Pendulum-v1, ")


def test_a_run_of_the_library_reports_its_return(tmp_path, capsys):
    assert continuous.main(["--runs", str(tmp_path / "r"), "--episodes", "1", "--one", "paceline", "5", "1", "64"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["method"], report["env"], report["steps"]) == ("a2c", "MountainCarContinuous-v0", 64)
    assert report["return"] < 100 and report["cpu_seconds"] > 0
