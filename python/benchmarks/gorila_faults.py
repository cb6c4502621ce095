"""Kills processes and nodes of a Gorila run on a local Ray cluster: python python/benchmarks/gorila_faults.py

It prints how long each part takes to come back, what was lost, whether the ledgers of shards and
learners agree, how the memory of the run's processes grows, and what the policy returns: every --evaluate
seconds, and at the end.
A kill comes at least --rest seconds after the last recovery. Needs paceline[ray].
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from _command import command
from _ledgers import compare
from paceline import Gorila
from paceline.distributed import _ray

PARTS = ("bundle", "shard", "keeper", "supervisor")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=60, help="processes to kill (default 60)")
    parser.add_argument("--nodes", type=int, default=6, help="worker nodes to lose (default 6)")
    parser.add_argument("--minutes", type=float, default=30.0, help="the kills are spread over this time (default 30)")
    parser.add_argument("--rest", type=float, default=10.0, help="least seconds between a recovery and the next kill (default 10)")
    parser.add_argument("--steps", type=int, default=2_000_000, help="of the run, which must outlast the kills (default 2,000,000)")
    parser.add_argument("--bundles", type=int, default=4)
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--copy-every", type=int, default=100)
    parser.add_argument("--evaluate", type=float, default=60.0, help="seconds between two evaluations of 20 episodes (default 60)")
    parser.add_argument("--seed", type=int, default=1)


class Trial:
    """One run with its kills."""

    def __init__(self, args: argparse.Namespace, cluster: Any, ledger: Path) -> None:
        self.args, self.cluster, self.ledger = args, cluster, ledger
        self.random = random.Random(args.seed)
        self.workers = [cluster.add_node(num_cpus=4, object_store_memory=2**27) for _ in range(2)]
        # The preset is for 100,000 steps. A run of millions needs a target that moves more slowly.
        self.model = Gorila.from_preset(
            "tuned", "CartPole-v1", cluster="ray", bundles=args.bundles, shards=args.shards, copy_every=args.copy_every,
            train_freq=4, target_update_interval=1000, seed=args.seed, ledger=str(ledger),
        )  # fmt: skip
        self.memory: dict[int, list[tuple[float, float]]] = {}  # megabytes by pid and time
        self.kills: list[dict[str, Any]] = []
        self.evaluations: list[tuple[int, float]] = []  # updates and mean returns
        self.evaluated = time.monotonic()

    def go(self) -> dict[str, Any]:
        run, args = self.model.run, self.args
        run.call("begin", args.steps)
        self._until(lambda: self.model.stats["updates"] > 100, 120)
        began, total = time.monotonic(), args.kills + args.nodes
        pause = 60 * args.minutes / max(1, total)
        nodes = set(self.random.sample(range(total), args.nodes))
        for n in range(total):
            self._wait(began + n * pause)
            if n in nodes:
                self._lose_node()
            else:
                self._kill(PARTS[n % len(PARTS)] if n % 8 else "bundle")
            self._wait(time.monotonic() + args.rest)
        self._until(lambda: not run.call("status")["running"], 7200)
        time.sleep(2)
        return self._report()

    def _kill(self, part: str) -> None:
        status = self.model.run.call("status")
        if part == "supervisor":
            name, pid = part, status["pid"]
        else:
            name, pid = self.random.choice([(n, p) for n, p in status["pids"].items() if n.startswith(part) and p])
        began, updates = time.monotonic(), self.model.stats
        gone = len(self.model.recoveries)
        os.kill(pid, signal.SIGKILL)
        if part == "supervisor":
            self._until(lambda: self._answers(updates), 60)
            seconds, lost = time.monotonic() - began, 0
        else:
            self._until(lambda: any(f"{r.part}/{r.number}" == name for r in self._recoveries(gone)), 120)
            recovery = next(r for r in self._recoveries(gone) if f"{r.part}/{r.number}" == name)
            seconds, lost = recovery.seconds, recovery.lost
        self.kills.append({"part": part, "name": name, "seconds": seconds, "lost": lost})
        self._print(self.kills[-1])

    def _lose_node(self) -> None:
        node = self.workers.pop(0)
        alive = sum(n["Alive"] for n in _ray.ray().nodes())
        began, gone = time.monotonic(), len(self.model.recoveries)
        self.cluster.remove_node(node, allow_graceful=False)
        self._until(lambda: sum(n["Alive"] for n in _ray.ray().nodes()) < alive, 120)
        declared = time.monotonic()
        self._until(lambda: not self.model.run.call("status")["down"], 120)
        marks = self.model.stats["gradients"]
        self._until(lambda: self.model.stats["gradients"] > marks, 60)
        seconds = time.monotonic() - declared
        self._wait(time.monotonic() + 2)  # until every learner has heard of the shards that are back
        lost = sum(recovery.lost for recovery in self._recoveries(gone) if recovery.part == "shard")
        self.kills.append({"part": "node", "name": "node", "seconds": seconds, "lost": lost, "detection": declared - began})
        self._print(self.kills[-1])
        self.workers.append(self.cluster.add_node(num_cpus=4, object_store_memory=2**27))

    def _recoveries(self, first: int) -> list[Any]:
        """Those that came after the first ones."""
        self.model.stats  # noqa: B018 - looks
        found: list[Any] = self.model.recoveries[first:]
        return found

    def _answers(self, before: dict[str, float]) -> bool:
        return bool(self.model.stats["gradients"] > 0 and self.model.stats["updates"] > before["updates"])

    def _wait(self, until: float) -> None:
        while True:
            self._look()
            if time.monotonic() >= until:
                return
            time.sleep(0.5)

    def _until(self, condition: Any, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"no recovery within {seconds:g} s: {self.model.run.call('status')}")
            time.sleep(0.1)

    def _look(self) -> None:
        if time.monotonic() >= self.evaluated + self.args.evaluate:
            self._evaluate()
        for pid in self.model.run.call("status")["pids"].values():
            if pid and os.path.exists(f"/proc/{pid}/statm"):
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                self.memory.setdefault(pid, []).append((time.monotonic(), pages * 4096 / 1e6))

    def _evaluate(self) -> float:
        updates = int(self.model.stats["updates"])
        self.evaluations.append((updates, self.model.evaluate(episodes=20).mean_return))
        self.evaluated = time.monotonic()
        if not self.args.json:
            print(f"     {updates:,} updates: mean return {self.evaluations[-1][1]:.1f}", flush=True)
        return self.evaluations[-1][1]

    def _print(self, kill: dict[str, Any]) -> None:
        if not self.args.json:
            print(f"{len(self.kills):>3}  {kill['name']:<12} back after {kill['seconds']:5.1f} s, lost {kill['lost']}", flush=True)

    def _report(self) -> dict[str, Any]:
        stats, ledgers = self.model.stats, compare(self.ledger)
        mean_return = self._evaluate()
        slopes = [slope(samples) for samples in self.memory.values() if samples[-1][0] - samples[0][0] > 600]
        parts = {}
        for part in sorted({kill["part"] for kill in self.kills}):
            times = [kill["seconds"] for kill in self.kills if kill["part"] == part]
            parts[part] = {"kills": len(times), "median": statistics.median(times), "worst": max(times)}
        detections = [kill["detection"] for kill in self.kills if "detection" in kill]
        return {
            "parts": parts,
            "detection": statistics.median(detections) if detections else None,
            "stats": stats,
            "ledgers": ledgers._asdict(),
            "slopes": slopes,
            "evaluations": self.evaluations,
            "mean_return": mean_return,
        }


def slope(samples: list[tuple[float, float]]) -> float:
    """Megabytes per hour: the regression line of the second half of the samples."""
    late = samples[len(samples) // 2 :]
    t, m = statistics.fmean(s[0] for s in late), statistics.fmean(s[1] for s in late)
    squares = sum((s[0] - t) ** 2 for s in late)
    return 3600 * sum((s[0] - t) * (s[1] - m) for s in late) / squares if squares else 0.0


def print_report(args: argparse.Namespace) -> None:
    ray: Any = _ray.ray()
    make: Any = import_module("ray.cluster_utils").Cluster
    cluster = make(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False, "object_store_memory": 2**27})
    ray.init(address=cluster.address, namespace="paceline", log_to_driver=False)
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial = Trial(args, cluster, Path(folder))
            with trial.model:
                report = trial.go()
    finally:
        ray.shutdown()
        cluster.shutdown()
    if args.json:
        print(json.dumps(report, indent=2))
        return
    for part, row in report["parts"].items():
        print(f"{part:<12} {row['kills']:>3} kills, back after {row['median']:.1f} s (median), {row['worst']:.1f} s (worst)")
    if report["detection"] is not None:
        print(f"Ray declares a node dead after {report['detection']:.1f} s (median)")
    stats, ledgers = report["stats"], report["ledgers"]
    print(f"{stats['updates']:,} updates, {stats['lost_updates']} lost, {stats['refused']} refused, {stats['duplicates']} duplicates")
    print(
        f"ledgers: {ledgers['pushes']:,} pushes of {ledgers['lives']} lives, {ledgers['equal']} lives equal, "
        f"at most {ledgers['in_flight']} in flight, {ledgers['unknown']} unknown, {ledgers['lost']} updates lost"
    )
    if report["slopes"]:
        print(f"memory of processes older than 10 minutes: {statistics.median(report['slopes']):+.2f} MB an hour (median)")
    returns = [value for _, value in report["evaluations"]]
    most, high = max(returns), sum(value >= 475 for value in returns)
    print(f"mean return {report['mean_return']:.1f} at the end, at most {most:.1f}; at least 475 in {high} of {len(returns)} evaluations")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
