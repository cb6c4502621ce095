"""python/benchmarks/gorila_faults.py and gorila_overhead.py: memory, gates and the exit status, without a cluster."""

import json
import os

import pytest

import _gates
import _memory
import gorila_faults
import gorila_overhead
from _memory import Memory, slope

REPORT = {
    "parts": {"bundle": {"kills": 3, "median": 2.0, "worst": 9.9}, "node": {"kills": 1, "median": 5.0, "worst": 5.0}},
    "detection": 14.0,
    "stats": {"updates": 1000, "lost_updates": 40, "refused": 2, "duplicates": 1},
    "ledgers": {"pushes": 3000, "lives": 5, "equal": 4, "in_flight": 1, "unequal": 0, "unknown": 0, "lost": 42},
    "lost_most": 4,
    "calls": 1,
    "kills": 66,
    "kills_wanted": 66,
    "slopes": {"bundle": [2.0, 8.0, 3.0], "driver": [0.5]},
    "ray": {"megabytes": 900.0, "slope": 50.0},
    "evaluations": [(100, 80.0), (900, 480.0), (1000, 470.0)],
    "mean_return": 470.0,
}


def test_slope_is_that_of_the_second_half():
    samples = [(10.0 * k, 100.0 - k if k < 50 else 50.0 + (k - 50) / 180) for k in range(100)]
    assert slope(samples) == pytest.approx(2.0)  # 1/180 MB in 10 s
    assert slope([(0.0, 5.0), (10.0, 5.0)]) == slope([(0.0, 5.0)]) == 0.0


def test_memory_of_the_run_and_of_ray(monkeypatch):
    now = [0.0]
    memory = Memory(lambda: now[0])
    held = {os.getpid(): 100.0, 11: 50.0, 12: 60.0, 90: 400.0, 91: 30.0}
    monkeypatch.setattr(_memory, "megabytes", lambda pid: held.get(pid, 0.0))
    monkeypatch.setattr(_memory, "processes", lambda root: iter([root, 11, 12, 90, 91]))
    pids = {"bundle/0": 11, "supervisor": 12, "shard/0": None, "shard/1": 99}
    for second in range(0, 1201, 5):  # every second look is too early for a sample
        now[0], held[11], held[90] = float(second), 50.0 + second / 60, 400.0 + second / 30
        memory.look(pids)
    slopes = memory.slopes()
    assert list(slopes) == ["bundle", "driver", "supervisor"]
    assert slopes["bundle"] == pytest.approx([60.0]) and slopes["driver"] == slopes["supervisor"] == [0.0]
    assert memory.slopes(2000.0) == {}
    assert memory.ray() == {"megabytes": pytest.approx(470.0), "slope": pytest.approx(120.0)}


def test_megabytes_of_a_process():
    assert 1 < _memory.megabytes(os.getpid()) < 100_000 and _memory.megabytes(2**30) == 0.0


@pytest.mark.parametrize(
    "change, says",
    [
        ({}, None),
        ({"parts": {"shard": {"kills": 1, "median": 1.0, "worst": 10.5}}}, "shard: back after (worst): 10.5 s, must be at most 10 s"),
        ({"kills": 65}, "kills before the end of the run: 65, must be at least 66"),
        ({"ledgers": REPORT["ledgers"] | {"unknown": 1}}, "ledgers: answers that no shard knows: 1, must be at most 0"),
        ({"ledgers": REPORT["ledgers"] | {"unequal": 1}}, "ledgers: lives that ended whole and differ: 1, must be at most 0"),
        ({"ledgers": REPORT["ledgers"] | {"in_flight": 2}}, "ledgers: answers of a life in flight: 2, must be at most 1"),
        ({"ledgers": REPORT["ledgers"] | {"lost": 45}}, "lost updates that were not said: 5, must be at most 4"),
        ({"ledgers": REPORT["ledgers"] | {"lost": 39}}, "lost updates that were not said: -1, must be at least 0"),
        ({"slopes": {"keeper": [1.0, 12.0, 1.0]}}, "keeper: memory (most): 12 MB an hour, must be at most 10 MB an hour"),
        ({"slopes": {"keeper": [float("nan")]}}, "keeper: memory (most): nan MB an hour, must be at most 10 MB an hour"),
        ({"evaluations": [(100, 474.0)]}, "mean return (most): 474, must be at least 475"),
    ],
)
def test_gates_of_faults(monkeypatch, capsys, change, says):
    monkeypatch.setattr(gorila_faults, "measured", lambda args: REPORT | change)
    assert gorila_faults.main(["--check"]) == (says is not None)
    assert capsys.readouterr().err == ("" if says is None else f"missed: {says}\n")
    assert gorila_faults.main(["--json"]) == 0  # a gate is one with --check alone
    assert json.loads(capsys.readouterr().out)["parts"]


def test_report_of_faults():
    lines = gorila_faults.text(REPORT).splitlines()
    assert "memory of bundle, 3 older than 10 minutes: +3.00 MB an hour (median), +8.00 (most)" in lines
    assert "memory of Ray's own processes: 900 MB, +50.00 MB an hour" in lines
    assert lines[-1] == "mean return 470.0 at the end, at most 480.0; at least 475 in 1 of 3 evaluations"


@pytest.mark.parametrize("ratio", [0.87, 0.849])
def test_gate_of_the_overhead(monkeypatch, capsys, ratio):
    row = {"steps": 200.0, "updates": 50.0, "bytes_sent": 6.7e6, "bytes_read": 6.7e6, "publications": 1.0}
    pair = {"process": row, "ray": row, "ratio": ratio}
    monkeypatch.setattr(gorila_overhead, "measured", lambda args: pair | {"ways": {"bf16": row}, "printed": pair | {"ratio": 0.5}})
    assert gorila_overhead.main(["--check"]) == (ratio < 0.85)
    out, err = capsys.readouterr()
    assert "pin=True" in out and "Algorithm 1 as printed: 200 steps/s, on Ray 200, 50.0% of the one process" in out and "bf16" in out
    assert err == ("missed: steps/s over those of one process: 0.849, must be at least 0.85\n" if ratio < 0.85 else "")
    assert gorila_overhead.main([]) == 0


def test_a_number_that_is_none_misses_every_gate():
    assert _gates.at_least("x", float("nan"), 1) and _gates.at_most("x", float("nan"), 1)
    assert not _gates.at_least("x", 1.0, 1) and not _gates.at_most("x", 1.0, 1)
