"""A run in a given order on a cluster: the driver's side."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ..errors import PacelineError, StoppedError
from . import _ray
from ._order_file import Order
from ._ordered import Conductor, Leg, recorded, virtual
from ._run import Run
from ._virtual import Latency


class RayProcesses:
    """The processes of a run as Ray actors. between: called while the driver waits; returns False to end the run."""

    def __init__(self, run: Run, between: Callable[[], bool]) -> None:
        spec = run.spec
        self._bundles = [_ray.find(spec.run, "bundle", k) for k in range(spec.bundles)]
        self._shards = [_ray.find(spec.run, "shard", k) for k in range(spec.shards)]
        self._between, self._pushes = between, deque[Any]()

    def begin(self, total: int) -> bool:
        """Waits until all bundles have begun. Returns False if the run is to end before."""
        calls = [bundle.begin_in_order.remote(total) for bundle in self._bundles]
        if not self._done(calls):
            return False
        _ray.ray().get(calls)
        return True

    def leg(self, learner: int, steps: int, pulled: list[Any]) -> list[Any]:
        legs: list[Any] = self._bundles[learner].leg.options(num_returns=1 + len(self._shards)).remote(steps, *pulled)
        return legs

    def wait(self, leg: Any) -> Leg | None:
        if not (self._done([leg]) and self._between()):
            return None
        result: Leg = _ray.ray().get(leg)
        while self._pushes and _ray.ray().wait([self._pushes[0]], timeout=0)[0]:
            _ray.ray().get(self._pushes.popleft())  # raises the error of a push
        return result

    def push(self, shard: int, learner: int, number: int, leg: Any, gradient: Any) -> None:
        self._pushes.append(self._shards[shard].push_in_order.remote(learner, number, leg, gradient))

    def pull(self, shard: int, learner: int) -> Any:
        return self._shards[shard].pull_in_order.remote(learner)

    def end(self, steps: int) -> None:
        """Waits for all visits. steps: those that all learners have taken."""
        self._finish(list(self._pushes))
        self._finish([shard.tell_in_order.remote(steps) for shard in self._shards])

    def _done(self, calls: list[Any]) -> bool:
        """Waits for calls. Returns False if the run is to end before they are done."""
        ray = _ray.ray()
        while calls:
            done, calls = ray.wait(calls, num_returns=len(calls), timeout=0.1)
            if calls:
                ray.get(done)  # raises the error of a call while others wait
                if not self._between():
                    return False
        return True

    def _finish(self, calls: list[Any]) -> None:
        """Waits for calls, also if the run is to end: the visits were sent."""
        while not self._done(calls):
            pass
        _ray.ray().get(calls)


def conduct(run: Run, total: int, order: Order | None, between: Callable[[], bool]) -> None:
    """Trains for total steps of all learners, in an order or in the virtual one. A process that ends, ends the run.

    between: called while the driver waits. If it returns False, the visits that were sent are the last ones.
    """
    try:
        _conduct(run, total, order, RayProcesses(run, between))
    except _ray.lost_errors():
        raise StoppedError(f"{run.spec.run}: a process has ended, a run of a given order cannot go on") from None
    except PacelineError as err:
        raise _ray.cause(err) from None


def _conduct(run: Run, total: int, order: Order | None, processes: RayProcesses) -> None:
    spec = run.spec
    if not processes.begin(total):
        return
    conductor = Conductor(processes, spec.bundles, spec.shards)
    if order is None:
        every = spec.worker["train_freq"]  # a number, or (number, "step")
        first = -(-int(every[0] if isinstance(every, tuple) else every) // spec.actors_per_bundle)
        latency, envs = Latency.of(spec.latency), spec.actors_per_bundle
        taken = sum(virtual(conductor, latency, spec.seed, spec.bundles, spec.shards, envs, total, first))
    else:
        visits, taken = order.part(total)
        if (stopped := recorded(conductor, visits, spec.bundles)) is not None:
            taken = stopped
    processes.end(taken)
