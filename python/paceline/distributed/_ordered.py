"""Runs in a given order: virtual, or that of an order file.

In a race bundles visit the shards in the order in which they arrive. In a given order the driver
sends every visit in its turn. Ray does the calls of one caller to one process in the order in which
they were sent, and a call waits for the results that it takes. So the driver waits for no visit, and
learners compute concurrently.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..errors import ConfigError
from ..spaces import Array
from ._tally import Tally
from ._virtual import Clock, Latency, Visit


class Leg(NamedTuple):
    """What a learner has computed: its steps so far, and the learning rate. ended: its run has.

    dropped: the gradient was dropped because of its loss. Its visits push nothing, and pull.
    """

    steps: int
    rate: float
    dropped: bool = False
    ended: bool = False


class Pulled(NamedTuple):
    """A shard's parameters, and what became of the learner's push before them.

    lag: updates between the pull before and the push; None if nothing was pushed.
    stale: the push was refused because of max_staleness.
    """

    version: int
    parameters: Array
    lag: int | None = None
    stale: bool = False


def broken(part: str, index: int) -> str:
    """What a process says that has started again."""
    return f"{part} {index}: has started again, a run of a given order cannot go on"


class Step(NamedTuple):
    """A visit in its turn. steps: T, the steps of all learners, at a pull of shard 0."""

    learner: int
    shard: int
    push: bool
    steps: int = 0


class Processes(Protocol):
    """The processes of a run, as a Conductor calls them. leg, push and pull return results to come."""

    def leg(self, learner: int, steps: int, pulled: list[Any]) -> list[Any]:
        """[Leg, the gradient's part of each shard], after adopting what was pulled, if anything."""

    def wait(self, leg: Any) -> Leg | None:
        """The leg; None if the run is to end before it."""

    def push(self, shard: int, learner: int, number: int, leg: Any, gradient: Any) -> None:
        """Nothing is pushed if the leg's gradient was dropped."""

    def pull(self, shard: int, learner: int) -> Any: ...


class Conductor:
    """Makes the legs and visits of all learners."""

    def __init__(self, processes: Processes, learners: int, shards: int) -> None:
        self._processes, self._shards = processes, shards
        self._pulled: list[list[Any]] = [[] for _ in range(learners)]
        self._steps, self._number = [0] * learners, [0] * learners
        self._legs: list[list[Any]] = [[] for _ in range(learners)]

    def start(self, learner: int) -> Callable[[], Leg | None]:
        """Begins the next leg of a learner; returns a call that waits for it."""
        self._legs[learner] = leg = self._processes.leg(learner, self._steps[learner], self._pulled[learner])
        self._pulled[learner] = []
        return lambda: self._processes.wait(leg[0])

    def visit(self, step: Step) -> bool:
        """Sends a visit. Returns True if it was the last one of its leg."""
        k, shard = step.learner, step.shard
        if step.push:
            self._number[k] += shard == 0
            self._processes.push(shard, k, self._number[k], self._legs[k][0], self._legs[k][1 + shard])
            return False
        if shard == 0:
            self._steps[k] = step.steps
        self._pulled[k].append(self._processes.pull(shard, k))
        return shard == self._shards - 1


def virtual(
    conductor: Conductor, latency: Latency, seed: int, learners: int, shards: int, envs: int, until: int, first: int
) -> list[int]:  # fmt: skip
    """Runs in virtual order; returns the steps that each learner has taken.

    envs: environments of a learner. first: rounds to an update without a warm-up. A learner of the
    library plans so many before it knows of its warm-up; it then drops their visits.
    until: T at which the run ends, unless a wait ends it before. The first round before which T has
    reached it is not taken, and no visit after that round.
    """
    clocks = [Clock(latency, seed, k, shards) for k in range(learners)]
    legs = {k: conductor.start(k) for k in range(learners)}
    known, left, taken = [0] * learners, [0] * learners, [0] * learners  # steps of legs, events left, steps of rounds
    events: list[Visit] = []
    while True:
        for k in sorted(legs):  # all legs are planned before the next event happens
            if (leg := legs.pop(k)()) is None:
                return taken
            # The rounds of a learner whose run has ended still come before the end, which another one decides.
            rounds = 1 + -(-(until - sum(taken)) // envs) if leg.ended else (leg.steps - known[k]) // envs
            planned: list[Visit] = []
            if not known[k] and rounds > first:
                planned, rounds = clocks[k].leg(first)[:first], rounds - first  # the time of dropped visits passes
            planned += list(clocks[k].rounds(rounds)) if leg.ended else clocks[k].leg(rounds)
            known[k] = leg.steps
            left[k] = len(planned)
            for event in planned:
                heapq.heappush(events, event)
        if legs:
            continue
        event = heapq.heappop(events)
        k = event.learner
        left[k] -= 1
        if event.shard >= 0:
            conductor.visit(Step(k, event.shard, event.push, sum(taken)))
        elif sum(taken) >= until:
            return taken
        else:
            taken[k] += envs
        if not left[k]:
            legs[k] = conductor.start(k)


def recorded(conductor: Conductor, steps: Iterable[Step], learners: int) -> int | None:
    """Makes the visits of an order file. Returns T of the latest pull if the run is to end before its last visit, else None."""
    legs = [conductor.start(k) for k in range(learners)]
    taken = 0
    for step in steps:
        if step.push and step.shard == 0:  # the wait bounds the calls under way
            if (leg := legs[step.learner]()) is None:
                return taken
            if leg.ended:
                raise ConfigError(f"order: learner {step.learner} has ended, the order has further visits: the settings or calls differ")
        taken = max(taken, step.steps)
        if conductor.visit(step):
            legs[step.learner] = conductor.start(step.learner)
    return None


class Part:
    """A learner in a given order: what the process of a bundle does in each leg."""

    def __init__(self, model: Any, ranges: list[tuple[int, int]], tally: Tally) -> None:
        self._model, self._ranges, self._tally = model, ranges, tally
        self._theta = np.empty(sum(size for _, size in ranges), np.float32)

    def leg(self, steps: int, pulled: list[Pulled]) -> list[Any]:
        """See Processes. pulled: of each shard."""
        model = self._model
        if pulled:
            for (first, size), one in zip(self._ranges, pulled):
                self._theta[first : first + size] = one.parameters
            self._count(pulled)
            model.adopt(self._theta, pulled[-1].version, steps)
        if (gradient := model.gradient()) is None:
            return [Leg(0, 0.0, ended=True), *(None for _ in self._ranges)]
        self._tally.loss = float(gradient.loss)
        self._tally.outliers += bool(gradient.dropped)
        leg = Leg(int(gradient.num_timesteps), float(gradient.learning_rate), bool(gradient.dropped))
        return [leg, *(gradient.grad[first : first + size] for first, size in self._ranges)]

    def _count(self, pulled: list[Pulled]) -> None:
        """Counts the gradient whose pushes came before."""
        if lags := [one.lag for one in pulled if one.lag is not None]:
            self._tally.gradients += 1
            self._tally.landed(max(lags), any(one.stale for one in pulled))
