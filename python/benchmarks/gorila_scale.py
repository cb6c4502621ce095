"""Gorila on a local Ray cluster, measured, beside what its simulator predicts: python python/benchmarks/gorila_scale.py

The simulator of `paceline bench gorila` is calibrated with one bundle, one actor and one shard: the
costs of Ray come from ray_costs.py, those of the library from the library, and two are fitted to a
run: the gradient to its updates/s, Ray's own threads to its core seconds. Points with more bundles
and shards are held out: nothing is fitted to them. Each trial calibrates and measures all points,
because the machine's speed changes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import paceline
import ray_costs
from _command import command
from paceline import bench
from paceline.bench import gorila

POINTS = ((2, 1), (4, 3), (8, 4))
CORES = len(os.sched_getaffinity(0))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", default="Pong")
    parser.add_argument("--points", type=points, default=POINTS, metavar="BxS,...", help="bundles x shards (default 2x1,4x3,8x4)")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--updates", type=int, default=400, help="server updates measured at each point (default 400)")
    parser.add_argument("--visits", type=int, default=60, help="calls measured for each size of an array (default 60)")
    parser.add_argument("--costs", type=Path, help="a file for the fitted costs, for paceline bench gorila --costs")


def points(text: str) -> tuple[tuple[int, int], ...]:
    try:
        found = tuple((int(bundles), int(shards)) for bundles, shards in (part.split("x") for part in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}, must be such as 2x1,4x3") from None
    return found


def print_report(args: argparse.Namespace) -> None:
    with ray_costs.Local() as ray:
        report = measure(args, ray_costs.measured(ray, args.visits)) | {"ray": ray.__version__}
    if args.costs:
        args.costs.write_text(json.dumps(report["plan"]["costs"], indent=1) + "\n")
    print(json.dumps(report) if args.json else text(report))


def measure(args: argparse.Namespace, known: dict[str, Any]) -> dict[str, Any]:
    ones: list[dict[str, float]] = []
    fits: list[dict[str, Any]] = []
    lists = ("measured", "predicted", "measured_cores", "predicted_cores")
    rows: list[dict[str, Any]] = [{"bundles": b, "shards": s} | {name: [] for name in lists} for b, s in args.points]
    for _ in range(args.trials):
        ones.append(run(args.env, 1, 1, args.updates))
        fits.append(calibrate(args.env, known, ones[-1]))
        for row in rows:
            seen = run(args.env, row["bundles"], row["shards"], args.updates)
            result = simulate(fits[-1], row["bundles"], row["shards"])["result"]
            for name, value in zip(lists, (seen["rate"], result["updates_per_second"], seen["cores"], core_seconds(result))):
                row[name].append(value)
            row["limit"] = result["limit"]
    for row in rows:
        row["ratio"] = _ratio(row["predicted"], row["measured"])
        row["cores_ratio"] = _ratio(row["predicted_cores"], row["measured_cores"])
    # The trial in the middle, as a whole: its costs belong together.
    middle = sorted(range(args.trials), key=lambda k: ones[k]["rate"])[args.trials // 2]
    plan = bench.run("gorila", {"env": args.env, "costs": fits[middle]})
    return {"env": args.env, "cores": CORES, "updates": args.updates, "one": ones, "points": rows, "plan": plan}


def _ratio(over: list[float], under: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(over, under))


def core_seconds(result: dict[str, Any]) -> float:
    """Predicted core seconds of a server update."""
    used: float = next(use["used"] for use in result["resources"] if use["name"] == "cores")
    return used * CORES / float(result["updates_per_second"])


def run(env: str, bundles: int, shards: int, updates: int) -> dict[str, float]:
    """A run: server updates a second, and core seconds of an update."""
    warm = max(20 * bundles, updates // 8)
    marks: list[tuple[float, float, float]] = []  # updates, time, core seconds

    def meter(local: dict[str, Any], _: dict[str, Any]) -> bool:
        done = local["self"].stats["updates"]
        if len(marks) < 2 and done >= (marks[0][0] + updates if marks else warm):
            marks.append((done, time.perf_counter(), ray_costs.core_seconds()))
        return len(marks) < 2

    settings: dict[str, Any] = {"learning_starts": 50 * bundles, "buffer_size": 2000 * bundles, "train_freq": 4, "seed": 1}
    with paceline.Gorila("CnnPolicy", env, cluster="ray", bundles=bundles, shards=shards, delay=1, **settings) as model:
        model.learn(10**9, callback=meter, log_interval=None)
    (before, began, spent), (after, ended, total) = marks
    return {"rate": (after - before) / (ended - began), "cores": (total - spent) / (after - before)}


def simulate(known: dict[str, Any], bundles: int, shards: int) -> dict[str, Any]:
    """A prediction for this machine, whose cores all parts share."""
    report: dict[str, Any] = bench.run("gorila", {"bundles": bundles, "shards": shards, "cores": CORES, "costs": known})
    return report


def calibrate(env: str, known: dict[str, Any], one: dict[str, float]) -> dict[str, Any]:
    """Costs with which the simulator has the rate and the core seconds of one bundle with one shard."""
    fitted: dict[str, Any] = bench.run("gorila", {"bundles": 1, "shards": 1, "cores": CORES, "env": env, "costs": known})["costs"]
    for _ in range(8):
        result = simulate(fitted | {"sigma": 0.0}, 1, 1)["result"]
        rate = result["updates_per_second"]
        fitted["gradient"] = max(1e-6, fitted["gradient"] + 1 / one["rate"] - 1 / rate)
    # All arrays of one shard are objects.
    fitted["ray"]["object"] = max(0.0, fitted["ray"]["object"] + one["cores"] - core_seconds(result))
    return fitted


def text(report: dict[str, Any]) -> str:
    one = statistics.median(one["rate"] for one in report["one"])
    lines = [
        f"{report['env']} on a local cluster of Ray {report['ray']}, {report['cores']} cores; medians of {len(report['one'])} trials",
        f"one bundle, one shard: {one:.1f} updates/s; the simulator is fitted to it",
        f"{'':>16}{'updates/s':>12}{'':>20}{'core ms/update':>17}",
        f"{'bundles':>8}{'shards':>8}{'measured':>12}{'predicted':>13}{'ratio':>7}{'measured':>12}{'predicted':>13}{'ratio':>7}  used most",
    ]
    for p in report["points"]:
        rates = [statistics.median(p[name]) for name in ("measured", "predicted")]
        cores = [1e3 * statistics.median(p[name]) for name in ("measured_cores", "predicted_cores")]
        lines.append(
            f"{p['bundles']:>8}{p['shards']:>8}{rates[0]:>12.1f}{rates[1]:>13.1f}{p['ratio']:>7.2f}{cores[0]:>12.1f}{cores[1]:>13.1f}"
            f"{p['cores_ratio']:>7.2f}  {p['limit']}"
        )
    return "\n".join([*lines, "", gorila.text(report["plan"])])


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
