"""python/benchmarks/ray_costs.py: what is fitted to the measured calls, and the command."""

import json
import os
import threading

import pytest

import ray_costs


def test_a_call_an_object_and_a_byte_are_fitted():
    seen = {size: {"push": 3e-4 + 1e-9 * size + (1e-3 if size > ray_costs.INLINE else 0)} for size in ray_costs.SIZES}
    cost = ray_costs.fitted("push", seen)
    assert cost == pytest.approx({"call": 3e-4, "object": 1e-3, "byte": 1e-9})
    objects = {size: at for size, at in seen.items() if size > ray_costs.INLINE}
    assert ray_costs.fitted("push", objects) == pytest.approx({"call": 1.3e-3, "object": 0, "byte": 1e-9})


def test_costs_are_not_negative():
    falling = {size: {"get": 1e-3 - 1e-10 * size} for size in ray_costs.SIZES}
    cost = ray_costs.fitted("get", falling)
    assert cost["byte"] == cost["object"] == 0 and 0 < cost["call"] <= 1e-3


def test_processes_of_this_one():
    assert os.getpid() in set(ray_costs.processes(os.getpid()))
    before = ray_costs.thread_seconds()[str(threading.get_native_id())]
    while ray_costs.thread_seconds()[str(threading.get_native_id())] < before + 0.02:
        pass
    assert ray_costs.core_seconds() >= sum(ray_costs.thread_seconds().values()) - 0.1 > 0


def test_measured(capsys):
    pytest.importorskip("ray")
    assert ray_costs.main(["--json", "--visits", "4"]) == 0
    costs = json.loads(capsys.readouterr().out)
    assert set(costs) == {"push", "visit", "get", "wait", "ray", "keep", "message", "inline"}
    for name in ("push", "visit", "get"):
        assert 0 < costs[name]["call"] < 1 and min(costs[name].values()) >= 0
