"""What Ray costs: Gorila on a local cluster of one bundle and one shard, and in one process.

    python python/benchmarks/gorila_overhead.py

Both have the same cores, an update for --train-freq steps, and a delay of at most --delay updates.
Trials alternate. It prints the steps/s of both, their ratio, and the bytes of an update. With --ways it
also prints Algorithm 1 as the paper prints it, with an update and a pull for every step and no delay, and
other ways to send parameters and gradients. Needs paceline[ray], and a ROM for Atari games.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from typing import Any

import _cluster
import _gates
from _command import command
from paceline import Gorila
from paceline.distributed import start

RATIO = 0.85  # the least steps/s of Ray over those of one process, the gate of --check

# name: keywords of paceline.distributed.start
WAYS: dict[str, dict[str, Any]] = {
    "fp32, 1 shard": {},
    "the same without pin": {"pin": False},
    "bf16, 1 shard": {"gradients": "bf16"},
    "fp32, 1 shard, in answers": {"inline_limit": 2**30},
    "fp32, 31 shards": {"shards": 31},
    "fp32, 68 shards, in answers": {"shards": 68},
    "bf16, 68 shards, in answers": {"shards": 68, "gradients": "bf16"},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", default="Pong")
    parser.add_argument("--threads", type=int, default=1, help="threads of the bundle, and of the process (default 1)")
    parser.add_argument("--train-freq", type=int, default=4)
    parser.add_argument("--delay", type=int, default=1)
    parser.add_argument("--pin", action=argparse.BooleanOptionalAction, default=True, help="the learner has a core alone (setting pin)")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds measured in each trial (default 10)")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--ways", action="store_true", help="also other ways to send")
    _gates.add_argument(parser)


def keywords(args: argparse.Namespace) -> dict[str, Any]:
    image = not args.env.startswith(("CartPole", "Acrobot", "MountainCar"))
    return {
        "policy": "CnnPolicy" if image else "MlpPolicy", "env": args.env, "bundles": 1, "learning_starts": 500, "buffer_size": 10_000,
        "train_freq": args.train_freq, "learning_rate": 1e-4, "seed": 1, "max_staleness": 0, "outliers": 0,
    }  # fmt: skip


def in_process(args: argparse.Namespace) -> dict[str, float]:
    """Steps/s of the one process, after the warm-up."""
    with Gorila(num_threads=args.threads, shards=1, schedule="race", **keywords(args)) as model:
        model.learn(600)
        began = time.monotonic()
        model.learn(200, reset_num_timesteps=False)
        steps = max(200, int(200 / (time.monotonic() - began) * args.seconds))
        began, updates = time.monotonic(), model.stats["updates"]
        model.learn(steps, reset_num_timesteps=False)
        seconds = time.monotonic() - began
        return {"steps": steps / seconds, "updates": (model.stats["updates"] - updates) / seconds}


def on_ray(args: argparse.Namespace, **way: Any) -> dict[str, float]:
    """Steps/s of a run on the cluster, after the warm-up."""
    given = {"shards": 1, "delay": args.delay, "pin": args.pin, **keywords(args), **way}
    with start(num_cpus=args.threads, copy_every=1_000_000, **given) as model:
        model.run.call("begin", 2**40)
        while model.stats["updates"] < 20:
            time.sleep(0.2)
        before, began = model.stats, time.monotonic()
        time.sleep(args.seconds)
        after, seconds = model.stats, time.monotonic() - began
        model.run.call("halt")
        updates = after["updates"] - before["updates"]

        def each(name: str) -> float:
            return (after[name] - before[name]) / max(1, updates)

        return {
            "steps": (after["num_timesteps"] - before["num_timesteps"]) / seconds,
            "updates": updates / seconds,
            "bytes_sent": each("bytes_sent"),
            "bytes_read": each("bytes_read"),
            "publications": each("publications"),
        }


def median(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def print_report(args: argparse.Namespace) -> list[str]:
    report = measured(args)
    print(json.dumps(report, indent=2) if args.json else text(args, report))
    return _gates.at_least("steps/s over those of one process", report["ratio"], RATIO) if args.check else []


def measured(args: argparse.Namespace) -> dict[str, Any]:
    with _cluster.local(num_cpus=2, object_store_memory=2**29), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = in_turns(args)
        if args.ways:
            report["printed"] = in_turns(argparse.Namespace(**{**vars(args), "train_freq": 1, "delay": 0}))
        ways = {name: median([on_ray(args, **way) for _ in range(args.trials)]) for name, way in WAYS.items()} if args.ways else {}
    return report | {"ways": ways}


def in_turns(args: argparse.Namespace) -> dict[str, Any]:
    """Medians of one process and of Ray, and of the ratios of their steps/s."""
    one: list[dict[str, float]] = []
    many: list[dict[str, float]] = []
    for _ in range(args.trials):
        one.append(in_process(args))
        many.append(on_ray(args))
    ratio = statistics.median(b["steps"] / a["steps"] for a, b in zip(one, many))
    return {"process": median(one), "ray": median(many), "ratio": ratio}


def text(args: argparse.Namespace, report: dict[str, Any]) -> str:
    a, b = report["process"], report["ray"]
    lines = [
        f"{args.env}, train_freq={args.train_freq}, delay={args.delay}, pin={args.pin}",
        f"medians of {args.trials} trials of {args.seconds:g} s",
        f"one process      {a['steps']:8,.0f} steps/s  {a['updates']:7,.1f} updates/s",
        f"Ray, 1 x 1 x 1   {b['steps']:8,.0f} steps/s  {b['updates']:7,.1f} updates/s   {report['ratio']:.1%} of the one process",
        f"bytes of an update: {b['bytes_sent']:,.0f} of the gradient, {b['bytes_read']:,.0f} of parameters, {b['publications']:.2f} puts",
    ]
    if "printed" in report:
        at = report["printed"]
        rates = f"{at['process']['steps']:,.0f} steps/s, on Ray {at['ray']['steps']:,.0f}"
        lines.append(f"Algorithm 1 as printed: {rates}, {at['ratio']:.1%} of the one process")
    for name, row in report["ways"].items():
        sent, read = row["bytes_sent"], row["bytes_read"]
        lines.append(f"{name:<30} {row['steps']:8,.0f} steps/s  {sent:12,.0f} + {read:,.0f} bytes, {row['publications']:.2f} puts")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
