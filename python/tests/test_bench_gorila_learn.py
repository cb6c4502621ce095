"""python/benchmarks/gorila_learn.py: short runs with a stand-in for Ray, and the exit status."""

import contextlib
import json
import math

import pytest

import gorila_learn
import gorila_values
from fake_ray import Ray
from gorila_learn import Rise, Task
from paceline.distributed import _ray


@pytest.fixture
def ray(monkeypatch):
    fake = Ray()
    monkeypatch.setattr(_ray, "ray", lambda: fake)
    monkeypatch.setattr(_ray, "prefer_node", lambda node: None)
    monkeypatch.setattr(gorila_learn._cluster, "local", lambda **_: contextlib.nullcontext())
    return fake


@pytest.mark.parametrize("threshold, status", [(-1.5, 0), (1.5, 1)])
def test_a_return_below_its_threshold_fails(ray, monkeypatch, capsys, threshold, status):
    monkeypatch.setattr(gorila_learn, "TASKS", {"Catch-v0": Task("Catch-v0", 1500, threshold, (1,))})
    assert gorila_learn.main(["--tasks", "Catch-v0", "--json"]) == status
    out, err = capsys.readouterr()
    (row,) = json.loads(out)
    assert row["env"] == "Catch-v0" and -1 <= row["number"] <= 1 and row["updates"] > 0 and not ray.actors
    assert err.startswith("missed: Catch-v0, seed 1: mean return: ") == bool(status)


def test_the_rise_of_a_game(ray, monkeypatch):
    monkeypatch.setitem(gorila_values.SETTINGS, "learning_starts", 100)
    monkeypatch.setitem(gorila_values.SETTINGS, "env_kwargs", None)
    on = {"cluster": "ray", "bundles": 2, "shards": 2, "seed": 1}
    rise, updates = gorila_learn.risen(Task("Catch-v0", 4000, 3.0, (1,)), on)
    assert -2 <= rise <= 2 and updates > 100


def test_a_rise_is_between_the_first_and_the_latest_episodes():
    rise = Rise(3.0)
    assert rise.goes_on({"episodes": 99, "mean_return": -21.0}) and math.isnan(rise.first)
    assert rise.goes_on({"episodes": 100, "mean_return": -20.0}) and rise.goes_on({"episodes": 150, "mean_return": -10.0})
    assert math.isnan(rise.latest)
    assert rise.goes_on({"episodes": 300, "mean_return": -18.0}) and rise.latest == 2.0
    assert not rise.goes_on({"episodes": 400, "mean_return": -16.5}) and rise.latest == 3.5
    assert not rise.goes_on({"episodes": 401, "mean_return": -20.0}) and rise.latest == 3.5


def test_wrong_tasks_are_one_sentence(capsys):
    assert gorila_learn.main(["--tasks", "Breakout"]) == 1
    assert capsys.readouterr().err == "paceline: --tasks: 'Breakout', must be of CartPole-v1, Catch-v0, Pong\n"
