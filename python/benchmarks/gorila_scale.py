"""Gorila on a local Ray cluster, measured, beside what its simulator predicts: python python/benchmarks/gorila_scale.py

The simulator of `paceline bench gorila` is calibrated with one bundle, one actor and one shard: costs
of Ray come from two actors of NumPy arrays, costs of the library from the library, and two of them
are fitted to a run of one bundle: the gradient to its updates/s, Ray's own threads to its core
seconds. Points with more bundles and shards are held out: nothing is fitted to them. Each trial
calibrates and measures all points, because the machine's speed changes.
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

import _ray_costs as costs
from _command import command
from paceline import PacelineError, bench
from paceline.bench import gorila

POINTS = ((2, 1), (4, 3), (8, 4))
CORES = len(os.sched_getaffinity(0))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", default="Pong")
    parser.add_argument("--points", type=points, default=POINTS, metavar="BxS,...", help="bundles x shards (default 2x1,4x3,8x4)")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--updates", type=int, default=400, help="server updates measured at each point (default 400)")
    parser.add_argument("--visits", type=int, default=60, help="calls measured for each size of an array (default 60)")
    parser.add_argument("--costs-only", action="store_true", help="only measure the costs, for paceline bench gorila --costs")
    parser.add_argument("--costs", type=Path, help="a file for the costs")


def points(text: str) -> tuple[tuple[int, int], ...]:
    try:
        found = tuple((int(bundles), int(shards)) for bundles, shards in (part.split("x") for part in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}, must be such as 2x1,4x3") from None
    return found


def print_report(args: argparse.Namespace) -> None:
    with Local() as cluster:
        ray_costs = costs.measured(cluster.ray, args.visits)
        report = plan(args.env, ray_costs) if args.costs_only else measure(args, ray_costs)
    if args.costs:
        args.costs.write_text(json.dumps(report["plan"]["costs"], indent=1) + "\n")
    print(json.dumps(report) if args.json else text(report))


class Local:
    """A Ray cluster of one node on this machine, and this process as its driver."""

    def __enter__(self) -> Local:
        try:
            import ray
            from ray.cluster_utils import Cluster
        except ImportError:
            raise PacelineError("ray is not installed: pip install 'paceline[ray]'") from None
        self.ray = ray
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 64, "include_dashboard": False})
        ray.init(address=self.cluster.address, namespace="paceline", log_to_driver=False)
        return self

    def __exit__(self, *exc: object) -> None:
        self.ray.shutdown()
        self.cluster.shutdown()


def measure(args: argparse.Namespace, ray_costs: dict[str, float]) -> dict[str, Any]:
    trials = []
    for _ in range(args.trials):
        one = run(args.env, 1, 1, args.updates)
        fitted = calibrate(args.env, ray_costs, one)
        measured = [run(args.env, *point, args.updates)["rate"] for point in args.points]
        predicted = [simulate(fitted, *point)["result"] for point in args.points]
        trials.append({"one": one, "costs": fitted, "measured": measured, "predicted": predicted})
    rows = []
    for k, (bundles, shards) in enumerate(args.points):
        measured = [trial["measured"][k] for trial in trials]
        predicted = [trial["predicted"][k]["updates_per_second"] for trial in trials]
        ratio = statistics.median(p / m for p, m in zip(predicted, measured))
        rows.append(
            {"bundles": bundles, "shards": shards, "measured": measured, "predicted": predicted, "ratio": ratio,
             "limit": trials[0]["predicted"][k]["limit"]}
        )  # fmt: skip
    names = trials[0]["costs"]
    middle = {name: statistics.median(trial["costs"][name] for trial in trials) for name in names}
    middle["parameters"] = int(middle["parameters"])
    return plan(args.env, middle) | {"cores": CORES, "updates": args.updates, "one": [trial["one"] for trial in trials], "points": rows}


def plan(env: str, known: dict[str, float]) -> dict[str, Any]:
    """The paper's cluster, predicted."""
    import ray

    return {"ray": ray.__version__, "env": env, "plan": bench.run("gorila", {"env": env, "costs": known})}


def run(env: str, bundles: int, shards: int, updates: int) -> dict[str, float]:
    """A run: server updates a second, and core seconds of an update."""
    from paceline import Gorila

    warm = max(20 * bundles, updates // 8)
    marks: list[tuple[float, float, float]] = []  # updates, time, core seconds

    def meter(local: dict[str, Any], _: dict[str, Any]) -> bool:
        done = local["self"].stats["updates"]
        if done >= (marks[0][0] + updates if marks else warm):
            marks.append((done, time.perf_counter(), costs.core_seconds()))
        return len(marks) < 2

    with Gorila(
        "CnnPolicy", env, cluster="ray", bundles=bundles, shards=shards, learning_starts=50 * bundles, buffer_size=2000 * bundles,
        train_freq=4, delay=1, seed=1,
    ) as model:  # fmt: skip
        model.learn(10**9, callback=meter, log_interval=None)
    (before, began, spent), (after, ended, total) = marks
    return {"rate": (after - before) / (ended - began), "cores": (total - spent) / (after - before)}


def simulate(known: dict[str, float], bundles: int, shards: int) -> dict[str, Any]:
    """A prediction for this machine, whose cores all parts share."""
    return bench.run("gorila", {"bundles": bundles, "shards": shards, "cores": CORES, "scale": [], "costs": known})


def calibrate(env: str, known: dict[str, float], one: dict[str, float]) -> dict[str, float]:
    """Costs with which the simulator has the rate and the core seconds of one bundle."""
    options = {"bundles": 1, "shards": 1, "cores": CORES, "scale": [], "env": env, "costs": known}
    fitted: dict[str, float] = bench.run("gorila", options)["costs"]
    for _ in range(5):
        result = simulate(fitted | {"sigma": 0.0}, 1, 1)["result"]
        rate = result["updates_per_second"]
        cores = next(use["used"] for use in result["resources"] if use["name"] == "cores") * CORES / rate
        fitted["gradient"] = max(1e-6, fitted["gradient"] + 1 / one["rate"] - 1 / rate)
        fitted["ray"] = max(0.0, fitted["ray"] + one["cores"] - cores - max(0.0, 1 / one["rate"] - 1 / rate))
    return fitted


def text(report: dict[str, Any]) -> str:
    lines = []
    if "points" in report:
        lines += [
            f"{report['env']} on a local cluster of Ray {report['ray']}, {report['cores']} cores; medians of {len(report['one'])} trials",
            f"one bundle, one shard: {statistics.median(one['rate'] for one in report['one']):.1f} updates/s; fitted",
            f"{'bundles':>8}{'shards':>8}{'measured/s':>12}{'predicted/s':>13}{'ratio':>7}  used most",
        ]
        for p in report["points"]:
            measured, predicted = statistics.median(p["measured"]), statistics.median(p["predicted"])
            lines.append(f"{p['bundles']:>8}{p['shards']:>8}{measured:>12.1f}{predicted:>13.1f}{p['ratio']:>7.2f}  {p['limit']}")
        lines.append("")
    return "\n".join([*lines, gorila.text(report["plan"])])


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
