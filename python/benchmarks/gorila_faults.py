"""Kills processes and nodes of a Gorila run on a local Ray cluster: python python/benchmarks/gorila_faults.py

It prints how long it takes until training is back, what was lost, whether the ledgers of shards and
learners agree, how the memory of the run's processes and of Ray's grows, and what the policy returns:
every --evaluate seconds, and at the end.
The kills end when the run does. Then --steps is too small for this machine, and --check says so.
A kill comes at least --rest seconds after the last recovery. Training is back when the process works again
and a further gradient has landed on all shards; one of its own where it is a bundle. With --actors actors and replay memories
are processes of their own, and are killed, too. Needs paceline[ray].
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
from pathlib import Path
from typing import Any

import _cluster
import _gates
from _command import command
from _gates import at_least, at_most
from _ledgers import compare
from _memory import Memory
from paceline import Gorila, PacelineError
from paceline.distributed import _ray

PARTS = ("bundle", "shard", "keeper", "supervisor")
APART = (*PARTS, "actor", "replay")

# Gates of --check, for an idle machine.
BACK = 10.0  # seconds; of a node after Ray has declared it dead
SLOPE = 10.0  # megabytes an hour of every process; our choice
RETURN = 475.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=60, help="processes to kill (default 60)")
    parser.add_argument("--nodes", type=int, default=6, help="worker nodes to lose (default 6)")
    parser.add_argument("--minutes", type=float, default=30.0, help="the kills are spread over this time (default 30)")
    parser.add_argument("--rest", type=float, default=10.0, help="least seconds between a recovery and the next kill (default 10)")
    parser.add_argument("--steps", type=int, default=2_000_000, help="of the run, which must outlast the kills (default 2,000,000)")
    parser.add_argument("--bundles", type=int, default=4)
    parser.add_argument("--shards", type=int, default=3)
    parser.add_argument("--actors", type=int, default=0, help="actors that are apart, with two replay shards (default 0: in the bundles)")
    parser.add_argument("--copy-every", type=int, default=100)
    parser.add_argument("--evaluate", type=float, default=60.0, help="seconds between two evaluations of 20 episodes (default 60)")
    parser.add_argument("--seed", type=int, default=1)
    _gates.add_argument(parser)


class Trial:
    """One run with its kills."""

    def __init__(self, args: argparse.Namespace, cluster: Any, ledger: Path) -> None:
        self.args, self.cluster, self.ledger = args, cluster, ledger
        self.random = random.Random(args.seed)
        self.parts = APART if args.actors else PARTS
        self.workers = [self._node() for _ in range(2)]
        apart: dict[str, Any] = {"actors": args.actors, "replay_shards": min(2, args.actors)} if args.actors else {}
        # The preset is for 100,000 steps. A run of millions needs a target that moves more slowly.
        self.model = Gorila.from_preset(
            "tuned", "CartPole-v1", cluster="ray", bundles=args.bundles, shards=args.shards, copy_every=args.copy_every,
            train_freq=4, target_update_interval=1000, seed=args.seed, ledger=str(ledger), **apart,
        )  # fmt: skip
        self.memory = Memory()
        self.kills: list[dict[str, Any]] = []
        self.evaluations: list[tuple[int, float]] = []  # updates and mean returns
        self.evaluated = time.monotonic()

    def _node(self) -> Any:
        """A new node, which has cores to spare for the processes of one that is lost."""
        return self.cluster.add_node(num_cpus=4 + self.args.actors, object_store_memory=2**27)

    def go(self) -> dict[str, Any]:
        run, args = self.model.run, self.args
        run.call("begin", args.steps)
        self._until(lambda: self.model.stats["updates"] > 100, 120, "the first updates")
        began, total = time.monotonic(), args.kills + args.nodes
        pause = 60 * args.minutes / max(1, total)
        nodes = set(self.random.sample(range(total), args.nodes))
        for n in range(total):
            self._wait(began + n * pause)
            if self._over():
                break
            if n in nodes:
                self._lose_node()
            else:
                self._kill(self.parts[n % len(self.parts)])
            self._wait(time.monotonic() + args.rest)
        self._until(self._over, 7200, "the end of the run")
        time.sleep(2)
        return self._report()

    def _kill(self, part: str) -> None:
        status = self.model.run.call("status")
        if part == "supervisor":
            name, pid = part, status["pid"]
        else:
            name, pid = self.random.choice([(n, p) for n, p in status["pids"].items() if n.startswith(part) and p])
        began, updates = time.monotonic(), self.model.stats
        gone, lives = len(self.model.recoveries), self._lives(name)
        os.kill(pid, signal.SIGKILL)
        if part == "supervisor":
            self._until(lambda: self._answers(updates) or self._over(), 60, name)
            seconds, lost = time.monotonic() - began, 0
        else:
            self._until(lambda: any(f"{r.part}/{r.number}" == name for r in self._recoveries(gone)), 120, name)
            lost = next(r for r in self._recoveries(gone) if f"{r.part}/{r.number}" == name).lost
            marks = self.model.stats["gradients"]
            self._until(lambda: (self._trains(marks) and (part != "bundle" or self._lives(name) > lives)) or self._over(), 60, name)
            seconds = time.monotonic() - began
        self.kills.append({"part": part, "name": name, "seconds": seconds, "lost": lost})
        self._print(self.kills[-1])

    def _lose_node(self) -> None:
        node = self.workers.pop(0)
        alive = sum(n["Alive"] for n in _ray.ray().nodes())
        began, gone = time.monotonic(), len(self.model.recoveries)
        self.cluster.remove_node(node, allow_graceful=False)
        self._until(lambda: sum(n["Alive"] for n in _ray.ray().nodes()) < alive, 120, "the end of a node")
        declared = time.monotonic()
        self._until(lambda: not self.model.run.call("status")["down"], 120, "what was on a node")
        marks = self.model.stats["gradients"]
        self._until(lambda: self._trains(marks) or self._over(), 60, "training after the loss of a node")
        seconds = time.monotonic() - declared
        self._wait(time.monotonic() + 2)  # until every learner has heard of the shards that are back
        lost = sum(recovery.lost for recovery in self._recoveries(gone) if recovery.part == "shard")
        self.kills.append({"part": "node", "name": "node", "seconds": seconds, "lost": lost, "detection": declared - began})
        self._print(self.kills[-1])
        self.workers.append(self._node())

    def _recoveries(self, first: int) -> list[Any]:
        """Those that came after the first ones."""
        self.model.stats  # noqa: B018 - looks
        found: list[Any] = self.model.recoveries[first:]
        return found

    def _trains(self, gradients: int) -> bool:
        """Whether more gradients than this have landed."""
        return bool(self.model.stats["gradients"] > gradients)

    def _lives(self, name: str) -> int:
        """The lives of a bundle that have had an answer; 0 for other parts."""
        part, _, index = name.partition("/")
        return sum(log.stat().st_size > 0 for log in self.ledger.glob(f"learner-{index}-*.log")) if part == "bundle" else 0

    def _answers(self, before: dict[str, float]) -> bool:
        return bool(self.model.stats["gradients"] > 0 and self.model.stats["updates"] > before["updates"])

    def _wait(self, until: float) -> None:
        while True:
            self._look()
            if time.monotonic() >= until:
                return
            time.sleep(0.5)

    def _until(self, condition: Any, seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise PacelineError(f"{what}: not there within {seconds:g} s")
            time.sleep(0.1)

    def _over(self) -> bool:
        """Whether the run has ended; looks meanwhile."""
        self._look()
        return not self.model.run.call("status")["running"]

    def _look(self) -> None:
        if time.monotonic() >= self.evaluated + self.args.evaluate:
            self._evaluate()
        status = self.model.run.call("status")
        self.memory.look(status["pids"] | {"supervisor": status["pid"]})

    def _evaluate(self) -> float:
        updates = int(self.model.stats["updates"])
        self.evaluations.append((updates, self.model.evaluate(episodes=20).mean_return))
        self.evaluated = time.monotonic()
        self._say(f"     {updates:,} updates: mean return {self.evaluations[-1][1]:.1f}")
        return self.evaluations[-1][1]

    def _print(self, kill: dict[str, Any]) -> None:
        self._say(f"{len(self.kills):>3}  {kill['name']:<12} back after {kill['seconds']:5.1f} s, lost {kill['lost']}")

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr if self.args.json else sys.stdout, flush=True)

    def _lost_most(self) -> int:
        """Of the updates that shards have lost, those whose answers may have been under way: no learner has heard of them."""
        ends = sum(recovery.part == "shard" for recovery in self.model.recoveries)
        return int(ends * self.args.bundles * (self.model.run.spec.delay + 1))

    def _report(self) -> dict[str, Any]:
        stats, ledgers = self.model.stats, compare(self.ledger)
        mean_return = self._evaluate()
        parts = {}
        for part in sorted({kill["part"] for kill in self.kills}):
            times = [kill["seconds"] for kill in self.kills if kill["part"] == part]
            parts[part] = {"kills": len(times), "median": statistics.median(times), "worst": max(times)}
        detections = [kill["detection"] for kill in self.kills if "detection" in kill]
        return {
            "kills": len(self.kills),
            "kills_wanted": self.args.kills + self.args.nodes,
            "parts": parts,
            "detection": statistics.median(detections) if detections else None,
            "stats": stats,
            "ledgers": ledgers._asdict(),
            "lost_most": self._lost_most(),
            "calls": self.model.run.spec.delay + 1,
            "slopes": self.memory.slopes(),
            "ray": self.memory.ray(),
            "evaluations": self.evaluations,
            "mean_return": mean_return,
        }


def missed(report: dict[str, Any]) -> list[str]:
    """A sentence for each gate that a report misses."""
    found = at_least("kills before the end of the run", report["kills"], report["kills_wanted"])
    for part, row in report["parts"].items():
        found += at_most(f"{part}: back after (worst)", row["worst"], BACK, "s")
    ledgers, unsaid = report["ledgers"], report["ledgers"]["lost"] - report["stats"]["lost_updates"]
    found += at_most("ledgers: answers that no shard knows", ledgers["unknown"], 0)
    found += at_most("ledgers: lives that ended whole and differ", ledgers["unequal"], 0)
    found += at_most("ledgers: answers of a life in flight", ledgers["in_flight"], report["calls"])
    found += at_least("lost updates that were not said", unsaid, 0)
    found += at_most("lost updates that were not said", unsaid, report["lost_most"])
    for part, slopes in report["slopes"].items():
        found += at_most(f"{part}: memory (most)", max(slopes), SLOPE, "MB an hour")
    return found + at_least("mean return (most)", max(value for _, value in report["evaluations"]), RETURN)


def print_report(args: argparse.Namespace) -> list[str]:
    report = measured(args)
    print(json.dumps(report, indent=2) if args.json else text(report))
    return missed(report) if args.check else []


def measured(args: argparse.Namespace) -> dict[str, Any]:
    head = {"num_cpus": 4 + args.actors, "object_store_memory": 2**27}
    with _cluster.local(**head) as (_, cluster), tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial = Trial(args, cluster, Path(folder))
        with trial.model:
            return trial.go()


def text(report: dict[str, Any]) -> str:
    lines = [
        f"{part:<12} {row['kills']:>3} kills, back after {row['median']:.1f} s (median), {row['worst']:.1f} s (worst)"
        for part, row in report["parts"].items()
    ]
    if report["detection"] is not None:
        lines.append(f"Ray declares a node dead after {report['detection']:.1f} s (median)")
    stats, ledgers = report["stats"], report["ledgers"]
    lines += [
        f"{stats['updates']:,} updates, {stats['lost_updates']} lost, {stats['refused']} refused, {stats['duplicates']} duplicates",
        f"ledgers: {ledgers['pushes']:,} pushes of {ledgers['lives']} lives, {ledgers['equal']} lives equal, {ledgers['unequal']} that "
        f"ended whole not, at most {ledgers['in_flight']} in flight, {ledgers['unknown']} unknown, {ledgers['lost']} updates lost",
    ]
    for part, slopes in report["slopes"].items():
        middle, most = statistics.median(slopes), max(slopes)
        lines.append(f"memory of {part}, {len(slopes)} older than 10 minutes: {middle:+.2f} MB an hour (median), {most:+.2f} (most)")
    ray, returns = report["ray"], [value for _, value in report["evaluations"]]
    lines.append(f"memory of Ray's own processes: {ray['megabytes']:,.0f} MB, {ray['slope']:+.2f} MB an hour")
    most, high = max(returns), sum(value >= RETURN for value in returns)
    lines.append(
        f"mean return {report['mean_return']:.1f} at the end, at most {most:.1f}; "
        f"at least {RETURN:g} in {high} of {len(returns)} evaluations"
    )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
