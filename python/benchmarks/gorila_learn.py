"""What Gorila on a local Ray cluster learns: python python/benchmarks/gorila_learn.py

CartPole-v1 and Catch-v0 have the preset "tuned" and seeds 1 to 3; a run's number is the mean return of
100 episodes at its end. Pong has seed 1 and the small network; its number is the mean return of the
latest 100 episodes less that of the first 100, and the run ends when it is reached. The exit status is
1 if a number is below its threshold. Needs paceline[ray], and a ROM for Pong.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from typing import Any, NamedTuple

import _cluster
import gorila_values
from _command import command
from _gates import at_least
from paceline import Gorila, PacelineError


class Task(NamedTuple):
    env: str
    steps: int
    threshold: float
    seeds: tuple[int, ...]


UPDATES = 400_000  # of Pong, at most
FIRST = 100  # episodes
TASKS = {
    task.env: task
    for task in (
        Task("CartPole-v1", 100_000, 475.0, (1, 2, 3)),
        Task("Catch-v0", 10_000, 0.9, (1, 2, 3)),
        Task("Pong", 4 * UPDATES + 5_000, 3.0, (1,)),
    )
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", default=",".join(TASKS), help="names with commas between them (default: all)")
    parser.add_argument("--bundles", type=int, default=4)
    parser.add_argument("--shards", type=int, default=3)


def learned(task: Task, seed: int, bundles: int, shards: int) -> dict[str, Any]:
    """The number of a run on the cluster, its updates and its seconds."""
    began, on = time.monotonic(), {"cluster": "ray", "bundles": bundles, "shards": shards, "seed": seed}
    run = risen if task.env == "Pong" else tuned
    number, updates = run(task, on)
    return {
        "env": task.env,
        "seed": seed,
        "number": number,
        "threshold": task.threshold,
        "updates": updates,
        "seconds": time.monotonic() - began,
    }


def tuned(task: Task, on: dict[str, Any]) -> tuple[float, int]:
    """The mean return of 100 episodes at the end."""
    with Gorila.from_preset("tuned", task.env, **on) as model:
        model.learn(task.steps, log_interval=None)
        return model.evaluate(episodes=100, seed=on["seed"]).mean_return, int(model.stats["updates"])


def risen(task: Task, on: dict[str, Any]) -> tuple[float, int]:
    """How much higher the mean return of the latest episodes is than that of the first ones."""
    settings = {**gorila_values.SETTINGS, "stats_window_size": FIRST // on["bundles"], "delay": 0}  # a window is of a bundle
    settings.pop("num_threads")  # keyword num_cpus
    rise = Rise(task.threshold)
    make: Any = Gorila  # keywords of paceline.distributed are not in its signature
    with make("CnnPolicy", task.env, **settings | on) as model:
        model.learn(task.steps, callback=lambda local, _: rise.goes_on(local["self"].stats), log_interval=None)
        rise.goes_on(model.stats)
        return rise.latest, int(model.stats["updates"])


class Rise:
    """The rise of the mean return of the latest episodes above that of the first ones."""

    def __init__(self, wanted: float) -> None:
        self.wanted, self.first, self.latest = wanted, math.nan, math.nan

    def goes_on(self, stats: dict[str, float]) -> bool:
        """Whether the rise is not there yet. The first and the latest episodes have none in common."""
        if self.latest >= self.wanted:
            return False
        if math.isnan(self.first) and stats["episodes"] >= FIRST:
            self.first = stats["mean_return"]
        if stats["episodes"] >= 2 * FIRST:
            self.latest = stats["mean_return"] - self.first
        return not self.latest >= self.wanted


def print_report(args: argparse.Namespace) -> list[str]:
    names = args.tasks.split(",")
    for name in names:
        if name not in TASKS:
            raise PacelineError(f"--tasks: {name!r}, must be of {', '.join(TASKS)}")
    rows, missed = [], []
    with _cluster.local(num_cpus=64), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for task in map(TASKS.__getitem__, names):
            for seed in task.seeds:
                row = learned(task, seed, args.bundles, args.shards)
                rows.append(row)
                what = "rise of the mean return" if task.env == "Pong" else "mean return"
                missed += at_least(f"{task.env}, seed {seed}: {what}", row["number"], task.threshold)
                if not args.json:
                    print(line(row), flush=True)
    if args.json:
        print(json.dumps(rows))
    return missed


def line(row: dict[str, Any]) -> str:
    told = f"{row['number']:8.2f}, needed {row['threshold']:5g}   {row['updates']:9,} updates   {row['seconds']:7.1f} s"
    return f"{row['env']:<12} seed {row['seed']}   {told}"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
