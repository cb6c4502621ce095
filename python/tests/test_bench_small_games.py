"""python/benchmarks/small_games.py: the summary of runs, and the command."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import pytest

import small_games


def run(method: str, seed: int, mean: float | None, game: str = "Breakout", steps: int = 10) -> dict[str, object]:
    return {"method": method, "game": game, "seed": seed, "steps": steps, "return": mean}


def test_a_summary_compares_means_of_the_same_steps():
    runs = [run("dqn", 2, 1.0), run("dqn", 1, 3.0), run("qr", 1, 2.0), run("c51", 1, 1.5), run("c51", 1, 9.0, steps=20)]
    runs += [run("dqn", 1, None, "Freeway"), run("qr", 1, 1.0, "Freeway"), run("qr", 2, 2.0)]
    entries = small_games.summary(runs, ["Breakout", "Freeway", "Asterix"], 10)
    assert entries[0]["dqn"] == {"seeds": [1, 2], "returns": [3.0, 1.0], "mean": 2.0}
    assert entries[2] == {"game": "Asterix", "steps": 10}
    # Freeway does not count for QR: no episode of DQN has ended there. C51 has fewer seeds than DQN.
    assert small_games.wins(small_games.summary([*runs, run("c51", 2, 4.0)], ["Breakout"], 10), "c51") == 1
    assert (small_games.wins(entries, "qr"), small_games.wins(entries, "c51"), small_games.wins(entries, "pqn")) == (1, 0, 0)
    assert "qr: at or above dqn on 1 of 3" in small_games.text({"entries": entries, "rates": [], "minutes": []})
    timed = [r | {"machine": machine, "cpu_seconds": seconds} for r, machine, seconds in zip(runs, "aaab", (60.0, 180.0, 30.0, 90.0))]
    of = [{"method": "dqn", "machine": "a", "runs": 2, "minutes": 2.0}, {"method": "qr", "machine": "a", "runs": 1, "minutes": 0.5}]
    assert small_games.minutes([*timed, *runs], 10) == [{"method": "c51", "machine": "b", "runs": 1, "minutes": 1.5}, *of]
    assert "dqn: 2.0 minutes (median of 2) on a" in small_games.text({"entries": entries, "rates": [], "minutes": of})


@pytest.mark.parametrize("method", small_games.METHODS)
def test_each_method_runs(method, capsys):
    assert small_games.main(["--one", method, "Asterix", "1", "4096"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["method"], report["game"], report["steps"]) == (method, "Asterix", 4096)
    assert report["return"] is not None and report["cpu_seconds"] > 0
    assert report["settings"]["cnn"] == "minatar" and "core" in report["machine"] and report["commit"]


def test_runs_that_are_there_are_not_repeated_and_rates_are_measured(tmp_path, capsys):
    file = tmp_path / "runs.jsonl"
    file.write_text(json.dumps(run("dqn", 1, 3.0) | {"settings": small_games.settings("dqn", "Breakout")}) + "\n")
    command = ["--runs", str(file), "--games", "Breakout", "--methods", "dqn", "--seeds", "1", "--steps", "10", "--json"]
    assert small_games.main([*command, "--rates", "1000"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(file.read_text().splitlines()) == 1 and report["entries"][0]["dqn"]["returns"] == [3.0]
    assert all(report["rates"][0][what] > 0 for what in ("env", "dqn", "pqn"))


def test_rates_count_the_steps_of_whole_rollouts(monkeypatch):
    monkeypatch.setattr(small_games, "time", SimpleNamespace(perf_counter=itertools.count().__next__))  # each run takes a second
    (entry,) = small_games.rates(["Breakout"], 1000, 1.0)
    assert (entry["dqn"], entry["pqn"]) == (1000, 128 * 32)


def test_a_run_with_other_settings_is_repeated(tmp_path, capsys):
    file = tmp_path / "runs.jsonl"
    now = small_games.settings("dqn", "Breakout")
    assert not {"env", "seed", "num_threads"} & set(now) and now != small_games.settings("qr", "Breakout")
    # Another learning rate, and a line of a version that did not write its settings.
    old = [run("dqn", 1, 3.0, steps=1100) | {"settings": now | {"learning_rate": "0.1"}}, run("dqn", 1, 4.0, steps=1100)]
    file.write_text("".join(json.dumps(r) + "\n" for r in old))
    command = ["--runs", str(file), "--games", "Breakout", "--methods", "dqn", "--seeds", "1", "--steps", "1100", "--json"]
    for _ in range(2):  # the second time the new run is there
        assert small_games.main(command) == 0
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert lines[:2] == old and [r["settings"] for r in lines[2:]] == [now]
        assert json.loads(capsys.readouterr().out)["entries"][0]["dqn"]["returns"] == [lines[2]["return"]]


@pytest.mark.parametrize(
    "words, text",
    [
        (["--games", "Pong"], "--games: 'Pong', must be of Asterix, Breakout, Freeway, Seaquest, SpaceInvaders"),
        (["--methods", "ppo"], "--methods: 'ppo', must be of dqn, c51, qr, pqn"),
        (["--steps", "0"], "--steps: 0, must be at least 1"),
        (["--seeds", "a"], "--seeds: 'a', must be whole numbers from 0 on with commas, such as 1,2,3"),
        (["--seeds", ""], "--seeds: '', must be whole numbers from 0 on with commas, such as 1,2,3"),
    ],
)
def test_bad_arguments_are_refused(words, text, capsys):
    assert small_games.main(words) == 1
    assert capsys.readouterr().err == f"paceline: {text}\n"
