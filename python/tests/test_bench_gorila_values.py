"""python/benchmarks/gorila_values.py: the combinations, the summary, and the command."""

from __future__ import annotations

import json

import pytest

import gorila_values

VALUES = {"learning_rate": 0.01, "optimizer_eps": 1e-10, "max_staleness": 20.0, "outliers": 6.0, "latency_gradient": "0.001:0.5"}


def run(game: str, seed: int, mean: float, **values: float) -> dict[str, object]:
    return {"game": game, "seed": seed, "updates": 10, **VALUES, **values, "return": mean, "refused": 1, "dropped": 2}


def test_each_value_is_tried_with_the_first_of_the_others():
    combinations = gorila_values.grid({"learning_rate": [0.01, 0.02], "outliers": [6.0, 0.0]}, "0.001:2")
    assert combinations == [
        {"learning_rate": 0.01, "outliers": 6.0, "latency_gradient": "0.001:2"},
        {"learning_rate": 0.02, "outliers": 6.0, "latency_gradient": "0.001:2"},
        {"learning_rate": 0.01, "outliers": 0.0, "latency_gradient": "0.001:2"},
    ]


def test_a_summary_has_the_returns_of_all_seeds():
    runs = [run("Catch-v0", 2, 1.0), run("Catch-v0", 1, 3.0), run("Pong", 1, -20.0), run("Catch-v0", 1, 9.0, outliers=0.0)]
    entry, other = reversed(gorila_values.summary(runs))  # outliers 6 after outliers 0
    assert entry["returns"] == {"Catch-v0": [3.0, 1.0], "Pong": [-20.0]} and other["returns"] == {"Catch-v0": [9.0]}
    assert (entry["refused"], entry["dropped"]) == pytest.approx((0.1 / 3, 0.2))
    told = (
        "outliers 6, latency_gradient 0.001:0.5: Catch-v0 3.00, 1.00   Pong -20.00   refused 3.33 % of pushes, dropped 20.00 % of gradients"
    )
    assert told in gorila_values.text([entry])


def test_a_run_is_made_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(gorila_values, "_one", lambda game, seed, updates, values, core: json.dumps(run(game, seed, 1.0, **values)) + "\n")
    words = [
        "--runs",
        str(tmp_path / "runs.jsonl"),
        "--games",
        "Pong",
        "--updates",
        "10",
        "--eps",
        "1e-10",
        "--staleness",
        "20",
        "--outliers",
        "6",
    ]
    assert gorila_values.main([*words, "--learning-rates", "0.01"]) == 0
    assert gorila_values.main([*words, "--learning-rates", "0.01,0.02", "--json"]) == 0
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 2
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [e["values"]["learning_rate"] for e in report["entries"]] == [0.01, 0.02]


def test_values_reach_the_model(monkeypatch):
    monkeypatch.setitem(gorila_values.SETTINGS, "learning_starts", 100)
    monkeypatch.setitem(gorila_values.SETTINGS, "env_kwargs", None)
    report = gorila_values.run("Catch-v0", 1, 100, {**VALUES, "max_staleness": 1})
    assert report["refused"] > 0 and report["return"] is not None and report["curve"][-1] == report["return"]


@pytest.mark.parametrize(
    "words, text",
    [
        (["--eps", "small"], "--eps: 'small', must be numbers with commas"),
        (["--updates", "0"], "--updates: 0, must be at least 1"),
    ],
)
def test_bad_arguments_are_refused(words, text, capsys):
    assert gorila_values.main(words) == 1
    assert capsys.readouterr().err == f"paceline: {text}\n"
