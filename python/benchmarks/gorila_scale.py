"""Gorila on a local Ray cluster, measured, beside what its simulator predicts: python python/benchmarks/gorila_scale.py

The simulator of `paceline bench gorila` is calibrated with one bundle, one actor and one shard: the
costs of Ray come from ray_costs.py, those of the library from the library, and three are fitted to a
run: the gradient to the core seconds of the learner's thread, Ray's own threads to the core seconds
of all processes, less what they use without training, and the learner's pause to the time of an
update. Points with more bundles and shards are held out: nothing is fitted to them. Each trial
calibrates and measures all points, because the machine's speed changes.

Rates can be compared on an idle machine only. Core seconds of an update hardly depend on other
programs, and a run that saturates the cores has cores / core seconds updates a second.
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

import _cluster
import _gates
import paceline
import ray_costs
from _command import command
from paceline import bench, plots
from paceline.bench import gorila

POINTS = ((2, 1), (4, 3), (8, 4))
AWAY = 15.0  # per cent of the measured updates/s, the gate of --check
CORES = len(os.sched_getaffinity(0))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", default="Pong")
    parser.add_argument("--points", type=points, default=POINTS, metavar="BxS,...", help="bundles x shards (default 2x1,4x3,8x4)")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--updates", type=int, default=400, help="server updates measured at each point (default 400)")
    parser.add_argument("--visits", type=int, default=60, help="calls measured for each size of an array (default 60)")
    parser.add_argument("--costs", type=Path, help="a file for the fitted costs, for paceline bench gorila --costs")
    parser.add_argument("--plot", type=Path, help="a file for the figure: .png, .svg, .pdf ... (needs matplotlib)")
    parser.add_argument("--record", type=Path, help="docs/benchmarks/gorila.json: its report is drawn, and nothing is measured")
    _gates.add_argument(parser)


def points(text: str) -> tuple[tuple[int, int], ...]:
    try:
        found = tuple((int(bundles), int(shards)) for bundles, shards in (part.split("x") for part in text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}, must be such as 2x1,4x3") from None
    return found


def print_report(args: argparse.Namespace) -> list[str]:
    if args.plot:
        plots.check_format(args.plot, "--plot")
    if args.record:
        report = json.loads(args.record.read_text())["report"]
    else:
        with _cluster.local(num_cpus=64) as (ray, _):
            report = measure(args, ray_costs.measured(ray, args.visits)) | {"ray": ray.__version__}
    if args.plot:
        draw(args.plot, report)
    if args.costs:
        args.costs.write_text(json.dumps(report["plan"]["costs"], indent=1) + "\n")
    print(json.dumps(report) if args.json else text(report))
    return missed(report) if args.check else []


def missed(report: dict[str, Any]) -> list[str]:
    """A sentence for each point whose predicted updates/s are too far from the measured ones."""
    found: list[str] = []
    for p in report["points"]:
        away = 100 * abs(p["ratio"] - 1)
        found += _gates.at_most(f"{p['bundles']} bundles, {p['shards']} shards: predicted less measured updates/s", away, AWAY, "%")
    return found


def measure(args: argparse.Namespace, known: dict[str, Any]) -> dict[str, Any]:
    ones: list[dict[str, float]] = []
    fits: list[dict[str, Any]] = []
    lists = ("measured", "predicted", "measured_cores", "predicted_cores", "others")
    rows: list[dict[str, Any]] = [{"bundles": b, "shards": s} | {name: [] for name in lists} for b, s in args.points]
    for _ in range(args.trials):
        ones.append(run(args.env, 1, 1, args.updates))
        fits.append(calibrate(args.env, known, ones[-1]))
        for row in rows:
            seen = run(args.env, row["bundles"], row["shards"], args.updates)
            result = simulate(fits[-1], row["bundles"], row["shards"], ones[-1]["idle"])
            values = (seen["rate"], result["updates_per_second"], seen["cores"], result["core_seconds"], seen["others"])
            for name, value in zip(lists, values):
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


def run(env: str, bundles: int, shards: int, updates: int) -> dict[str, float]:
    """A run: server updates a second, core seconds of an update, and cores in use.

    learner: core seconds of an update of the thread that works most. idle: cores used by the run's
    processes without training. others: by other programs.
    """
    warm = max(20 * bundles, updates // 8)
    # Updates, time, core seconds of all processes, and of all programs.
    marks: list[tuple[float, float, float, float]] = []
    threads: list[dict[str, float]] = []

    def meter(local: dict[str, Any], _: dict[str, Any]) -> bool:
        done = local["self"].stats["updates"]
        if len(marks) < 2 and done >= (marks[0][0] + updates if marks else warm):
            marks.append((done, time.perf_counter(), ray_costs.core_seconds(), ray_costs.busy_seconds()))
            threads.append(ray_costs.thread_seconds())
        return len(marks) < 2

    settings: dict[str, Any] = {"learning_starts": 50 * bundles, "buffer_size": 2000 * bundles, "train_freq": 4, "seed": 1}
    make: Any = paceline.Gorila  # keywords of paceline.distributed are not in its signature
    with make("CnnPolicy", env, cluster="ray", bundles=bundles, shards=shards, delay=1, **settings) as model:
        idle = background(model)
        model.learn(10**9, callback=meter, log_interval=None)
    (before, *start), (after, *end) = marks
    seconds, cores, busy = ((e - s) / (after - before) for s, e in zip(start, end))
    others = max(0.0, busy - cores) / seconds
    learner = max(worked - threads[0].get(task, 0.0) for task, worked in threads[1].items()) / (after - before)
    return {"rate": 1 / seconds, "cores": max(0.0, cores - idle * seconds), "learner": learner, "idle": idle, "others": others}


def background(model: Any, seconds: float = 3.0) -> float:
    """Core seconds a second of all processes while nothing is trained, and the driver asks for stats as learn does."""
    while not model.run.call("status")["ready"]:
        time.sleep(0.1)
    start, began = ray_costs.core_seconds(), time.perf_counter()
    while time.perf_counter() < began + seconds:
        assert model.stats
        time.sleep(0.1)
    return (ray_costs.core_seconds() - start) / (time.perf_counter() - began)


def simulate(known: dict[str, Any], bundles: int, shards: int, idle: float) -> dict[str, Any]:
    """A prediction for this machine, whose cores all parts share, with the core seconds of a server update.

    idle: the cores that processes use without training.
    """
    cores = max(0.1, CORES - idle)
    report: dict[str, Any] = bench.run("gorila", {"bundles": bundles, "shards": shards, "cores": cores, "costs": known})
    most = next(use["most"] for use in report["result"]["resources"] if use["name"] == "cores")
    result: dict[str, Any] = report["result"] | {"core_seconds": cores / most}
    return result


def calibrate(env: str, known: dict[str, Any], one: dict[str, float]) -> dict[str, Any]:
    """Costs with which the simulator has the time and the core seconds of an update of one bundle with one shard.

    The time is that of an idle machine: other programs would make the pause too long.
    """
    options = {"bundles": 1, "shards": 1, "cores": CORES, "env": env, "costs": known}
    report = bench.run("gorila", options)
    fitted: dict[str, Any] = report["costs"]
    fitted["gradient"] = max(1e-6, one["learner"] - report["options"]["steps"] * fitted["step"])
    wanted = 1 / one["rate"]
    for _ in range(10):
        result = simulate(fitted | {"sigma": 0.0}, 1, 1, one["idle"])
        fitted["pause"] = max(0.0, fitted["pause"] + wanted - 1 / result["updates_per_second"])
        # All arrays of one shard are objects.
        fitted["ray"]["object"] = max(0.0, fitted["ray"]["object"] + one["cores"] - result["core_seconds"])
    return fitted


def draw(path: Path, report: dict[str, Any]) -> None:
    """Measured and predicted rates of clusters that share this machine's cores, beside the prediction for many machines."""
    figure = plots._figure(10, 4)
    shared, many = figure.subplots(1, 2)
    points = [{"bundles": 1, "shards": 1, "measured": [one["rate"] for one in report["one"]], "predicted": []}, *report["points"]]
    for x, point in enumerate(points):
        for name, color, mark, aside in (("measured", plots.BLUE, "o", -0.1), ("predicted", plots.ORANGE, "s", 0.1)):
            rates = point[name]
            shared.plot([x + aside] * len(rates), rates, mark, color=color, fillstyle="none", label=name if x == 1 else None)
    shared.set_xticks(range(len(points)), [f"{p['bundles']} x {p['shards']}" for p in points])
    shared.set(xlabel="bundles x shards", ylabel="updates/s", ylim=(0, None))
    shared.set_title(f"Local clusters, {report['cores']} cores for all", fontsize=10)
    shared.legend(frameon=False)
    plots._rates(many, report["plan"])
    many.set_title("Predicted: a machine for each part", fontsize=10)
    plots._save(path, figure)


def text(report: dict[str, Any]) -> str:
    rate, cores, learner = (statistics.median(one[name] for one in report["one"]) for name in ("rate", "cores", "learner"))
    lines = [
        f"{report['env']} on a local cluster of Ray {report['ray']}, {report['cores']} cores; medians of {len(report['one'])} trials",
        f"one bundle, one shard: {rate:.1f} updates/s, {1e3 * cores:.1f} core ms an update, {1e3 * learner:.1f} of them the learner's",
        f"{'':>16}{'updates/s':>12}{'':>20}{'core ms/update':>17}",
        f"{'bundles':>8}{'shards':>8}" + 2 * f"{'measured':>12}{'predicted':>13}{'ratio':>7}" + "  others, cores",
    ]
    for p in report["points"]:
        rates = [statistics.median(p[name]) for name in ("measured", "predicted")]
        work = [1e3 * statistics.median(p[name]) for name in ("measured_cores", "predicted_cores")]
        lines.append(
            f"{p['bundles']:>8}{p['shards']:>8}{rates[0]:>12.1f}{rates[1]:>13.1f}{p['ratio']:>7.2f}{work[0]:>12.1f}{work[1]:>13.1f}"
            f"{p['cores_ratio']:>7.2f}{statistics.median(p['others']):>15.1f}"
        )
    return "\n".join([*lines, "", gorila.text(report["plan"])])


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
