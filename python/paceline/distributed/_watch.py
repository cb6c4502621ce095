"""What a supervisor has seen of a run's processes: failures, recoveries, losses, counts."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Recovery(NamedTuple):
    """A process that ended and works again. seconds: from its last answer to its next one."""

    part: str
    number: int
    seconds: float
    lost: int  # updates of a shard, transitions of a bundle or a replay, copies of a keeper, at most so many steps of an actor
    text: str


class _Seen:
    """What is known of one process."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = {}
        self.failed = math.nan  # when it was lost
        self.back = math.nan  # when it answered again, until its recovery is reported
        self.last = math.nan  # when it answered last
        self.first = math.nan  # the same, before the failure whose recovery is not reported
        self.held: Any = 0  # what it had before the failure
        self.known: int | None = None  # the latest incarnation of a shard whose loss is reported


class Watch:
    """Statuses of processes by (part, index); parts are "shard", "bundle", "keeper", "actor" and "replay"."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """clock: a later supervisor, which may be on another node, goes on with the times of the one before."""
        self._clock, self._began = clock, clock()
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._lives: dict[tuple[str, int], dict[int, dict[str, Any]]] = {}  # bundle or actor, life: the latest status
        self._versions: dict[str, int] = {}  # "shard:incarnation": the largest version that a process has seen
        self._answers: dict[tuple[int, int], dict[str, int]] = {}  # shard, incarnation: its largest counts of answers
        self._lost = {"updates": 0, "transitions": 0, "steps": 0}
        self.recoveries: deque[Recovery] = deque(maxlen=200)
        self.reported = 0  # recoveries so far

    def failed(self, part: str, index: int) -> None:
        """A call to the process has failed, or another process has its place."""
        seen = self._of(part, index)
        if math.isnan(seen.failed):
            seen.failed = self._clock()
            if math.isnan(seen.back):
                seen.first = seen.failed if math.isnan(seen.last) else seen.last
                seen.held = _held(part, seen.status)
            seen.back = math.nan

    def answered(self, part: str, index: int, status: dict[str, Any]) -> bool:
        """The process has answered. Returns True if it is another process than before, or the first one."""
        seen = self._of(part, index)
        before = seen.status
        new = status.get("pid") != before.get("pid")
        if new and before:  # also if it ended and started between two calls
            self.failed(part, index)
        seen.status = status
        if part in ("bundle", "actor") and status.get("life"):
            lives = self._lives.setdefault((part, index), {})
            lives[status["life"]] = status
        if part == "shard" and "version" in status:
            self._saw({f"{index}:{status['incarnation']}": status["version"]})
            seen.known = status["incarnation"] if seen.known is None else seen.known
            for incarnation, counts in status.get("counts", {}).items():
                most = self._answers.setdefault((index, incarnation), {})
                most.update({name: max(count, most.get(name, 0)) for name, count in counts.items()})
        self._saw(status.get("seen", {}))
        if _works(part, status) and not math.isnan(seen.failed):
            seen.failed, seen.back = math.nan, self._clock()
        if math.isnan(seen.failed):
            seen.last = self._clock()
        return new

    def settle(self) -> None:
        """Reports recoveries whose losses are known by now."""
        for (part, index), seen in self._seen.items():
            if math.isnan(seen.back) or (part == "shard" and not self._heard(index, seen.status["incarnation"])):
                continue
            for lost in self._losses(index, seen) if part == "shard" else [int(seen.held)]:
                self._report(part, index, max(0.0, seen.back - seen.first), lost)
            seen.back = math.nan

    def _report(self, part: str, index: int, seconds: float, lost: int) -> None:
        what = _WHAT[part]
        if what in self._lost:
            self._lost[what] += lost
        text = f"{part} {index} lost {'at most ' * (part == 'actor')}{lost} {what}, back after {seconds:.1f} s"
        self.recoveries.append(Recovery(part, index, seconds, lost, text))
        self.reported += 1

    def _saw(self, versions: Mapping[str, int]) -> None:
        for name, version in versions.items():
            self._versions[name] = max(version, self._versions.get(name, 0))

    def _heard(self, shard: int, incarnation: int) -> bool:
        """Whether every learner that trains has an answer of this incarnation, and so none to come from an earlier one."""
        name = f"{shard}:{incarnation}"
        bundles = [seen.status for (part, k), seen in self._seen.items() if part == "bundle" and self.up(part, k)]
        return all(name in bundle.get("seen", ()) for bundle in bundles if bundle.get("running"))

    def _losses(self, shard: int, seen: _Seen) -> list[int]:
        """The updates that each unreported end of a shard has lost: what was seen of the version, less what was restored."""
        losses, first = [], 0
        for incarnation, version in seen.status["restored"]:
            if seen.known is not None and incarnation > seen.known:
                losses.append(max(0, self._versions.get(f"{shard}:{incarnation - 1}", first) - version))
            first = version
        seen.known = seen.status["incarnation"]
        return losses

    def status(self, part: str, index: int) -> dict[str, Any]:
        return self._of(part, index).status

    def silent(self, part: str, index: int) -> float:
        """The seconds for which a process does not answer: since its end, or since the start of the run if it never has."""
        seen = self._of(part, index)
        if self.up(part, index):
            return 0.0
        return max(0.0, self._clock() - (self._began if math.isnan(seen.failed) else seen.failed))

    def down(self) -> list[str]:
        """The processes that do not answer, as "bundle 2"."""
        return [f"{part} {index}" for (part, index), seen in sorted(self._seen.items()) if not math.isnan(seen.failed)]

    def up(self, part: str, index: int) -> bool:
        """Whether the process has answered and no call to it has failed since."""
        seen = self._of(part, index)
        return bool(seen.status) and math.isnan(seen.failed)

    def errors(self) -> list[str]:
        """The errors with which the run cannot go on."""
        return [f"{part} {k}: {s.status['error']}" for (part, k), s in sorted(self._seen.items()) if s.status.get("error")]

    def _of(self, part: str, index: int) -> _Seen:
        return self._seen.setdefault((part, index), _Seen())

    # ------------------------------------------------------------ counts

    def _learners(self, part: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The statuses of all lives, and of the latest life of each process."""
        of = [lives for (kind, _), lives in self._lives.items() if kind == part]
        return [status for lives in of for status in lives.values()], [lives[max(lives)] for lives in of if lives]

    def told(self, bundles: int) -> list[tuple[int, int, int]]:
        """(learner, life, steps) of what bundles and actors have told shard 0. bundles: how many there are."""
        return [
            (index if part == "bundle" else bundles + index, life, status["told"])
            for (part, index), lives in self._lives.items()
            for life, status in lives.items()
            if status.get("told")
        ]

    def _count(self, name: str) -> int:
        """An answer's count of all shards and incarnations."""
        return sum(counts.get(name, 0) for counts in self._answers.values())

    def totals(self) -> dict[str, float]:
        """The counts of the whole run, under the names of a model's stats."""
        shards = [self._seen[key].status for key in sorted(self._seen) if key[0] == "shard"]
        lives, latest = self._learners("bundle")
        decoupled = any(part == "actor" for part, _ in self._seen)
        acting, now_acting = self._learners("actor") if decoupled else (lives, latest)
        replays = [seen.status for (part, _), seen in self._seen.items() if part == "replay"] or latest
        pushes = _sum(lives, "applied") + _sum(lives, "stale")
        played = [s["mean_return"] for s in now_acting if s.get("episodes") and not math.isnan(s.get("mean_return", math.nan))]
        lengths = [s["mean_length"] for s in now_acting if s.get("episodes") and not math.isnan(s.get("mean_length", math.nan))]
        return {
            "num_timesteps": int(shards[0].get("steps", 0)) if shards else 0,
            "updates": int(shards[-1].get("version", 0)) if shards else 0,
            "gradients": _sum(lives, "gradients"),
            "episodes": _sum(acting, "episodes"),
            "mean_return": _mean(played),
            "mean_length": _mean(lengths),
            "loss": _mean([s["loss"] for s in latest if not math.isnan(s.get("loss", math.nan))]),
            "epsilon": _mean([s["epsilon"] for s in now_acting if not math.isnan(s.get("epsilon", math.nan))]),
            "learning_rate": _mean([s["learning_rate"] for s in latest if not math.isnan(s.get("learning_rate", math.nan))]),
            "lag": _sum(lives, "lag_sum") / pushes if pushes else math.nan,
            "lag_most": max((s.get("lag_most", 0) for s in lives), default=0),
            "refused": self._count("stale"),
            "outliers": _sum(lives, "outliers"),
            "duplicates": self._count("duplicate"),
            "foreign": self._count("foreign"),
            "lost_updates": self._lost["updates"],
            "lost_transitions": self._lost["transitions"],
            "lost_steps": self._lost["steps"],
            "replay_size": _sum(replays, "replay_size"),
            "bytes_sent": _sum(lives, "bytes_sent"),
            "bytes_read": _sum(lives, "bytes_read"),
            "publications": _sum(shards, "publications"),
            "pulls": _sum(shards, "pulls"),
            "recoveries": self.reported,
        }


_WHAT = {"shard": "updates", "bundle": "transitions", "replay": "transitions", "keeper": "copies", "actor": "steps"}


def _works(part: str, status: Mapping[str, Any]) -> bool:
    """Whether a process that answers also does its work."""
    return {"shard": "version" in status, "keeper": True}.get(part, bool(status.get("life")))


def _held(part: str, status: Mapping[str, Any]) -> int:
    if part == "keeper":
        return len(status.get("copies", ()))
    return int(status.get("unsent" if part == "actor" else "replay_size", 0))


def _sum(rows: list[dict[str, Any]], name: str) -> int:
    return int(sum(row.get(name, 0) for row in rows))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
