"""A run on a cluster, as a driver sees it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import BusyError, PacelineError, StoppedError
from ..spaces import Array
from ..store import shard_ranges
from . import _ray
from ._shards import Answer
from ._spec import Spec
from ._supervisor import Supervisor

RENEWAL = 5.0  # seconds for which the answer to a renewal of the lease is waited for
CALL = 120.0  # seconds for which a driver repeats a call to a process that starts again


class Renewal:
    """Renews the lease of a run from a thread of its own, until stop or the end of the process."""

    def __init__(self, run: Run) -> None:
        self._run, self._over = run, threading.Event()
        threading.Thread(target=self._main, name="paceline-lease", daemon=True).start()

    def _main(self) -> None:
        while not self._over.wait(self._run.spec.lease / 4):
            self._run.renew()

    def stop(self) -> None:
        self._over.set()


class Run:
    """The handle of a run. Any process of the cluster may have one; processes of the run end with stop or the lease."""

    def __init__(self, spec: Spec, supervisor: Any) -> None:
        self.spec, self._supervisor = spec, supervisor
        self.ranges = shard_ranges(spec.size, spec.shards)

    @classmethod
    def start(cls, spec: Spec, states: list[bytes]) -> Run:
        """Makes the processes of a run. states: of the shards."""
        if _ray.named(spec.run):
            raise BusyError(f"name: {spec.run!r}, is a run on this cluster, must be another name; stop({spec.run!r}) ends that run")
        ray = _ray.ray()
        supervisor = ray.remote(Supervisor).options(
            name=_ray.name(spec.run, "supervisor"), namespace=_ray.NAMESPACE, lifetime="detached", max_restarts=-1,
            max_task_retries=0, max_concurrency=8, num_cpus=_ray.LITTLE, scheduling_strategy=_ray.prefer_node(_ray.nodes()[0]),
        ).remote(spec)  # fmt: skip
        run = cls(spec, supervisor)
        try:
            run.call("call")
            for k, state in enumerate(states):
                run.shard(k, "fill", state)
            run._await_counts()
        except BaseException:
            stop(spec.run)
            raise
        return run

    @classmethod
    def attach(cls, name: str) -> Run:
        supervisor = _ray.find(name, "supervisor")
        if supervisor is None:
            raise _ray.missing(name)
        spec: Spec = patiently(name, supervisor.call.remote, lambda: _ray.missing(name))
        return cls(spec, supervisor)

    def _await_counts(self) -> None:
        """Returns when the supervisor knows the counts of the shards, which learn goes on from."""
        until = time.monotonic() + CALL
        while not self.call("status")["counted"]:
            if time.monotonic() > until:
                raise PacelineError(f"{self.spec.run}: a shard has not answered for {CALL:g} s")
            time.sleep(0.05)

    # -------------------------------------------------------------- calls

    def renew(self) -> None:
        """Renews the lease. A supervisor that cannot be reached is asked again the next time."""
        ray = _ray.ray()
        if ray.is_initialized():  # otherwise a call would start a cluster
            with contextlib.suppress(Exception):
                ray.get(self._supervisor.call.remote(), timeout=RENEWAL)

    def call(self, method: str, *arguments: Any) -> Any:
        """A call to the supervisor."""
        return self._patiently(lambda: getattr(self._supervisor, method).remote(*arguments))

    def shard(self, index: int, method: str, *arguments: Any) -> Any:
        return self._patiently(lambda: getattr(self._process("shard", index), method).remote(*arguments))

    def slow_call(self, part: str, index: int, method: str, *arguments: Any) -> Any:
        """A call to a part with a replay memory, whose saves and loads take long."""
        return self._patiently(lambda: getattr(self._process(part, index), method).remote(*arguments), seconds=600)

    def _process(self, part: str, index: int) -> Any:
        handle = _ray.find(self.spec.run, part, index)
        if handle is None:
            raise self._ended()
        return handle

    def _ended(self) -> StoppedError:
        return StoppedError(f"{self.spec.run}: has ended, by a call of stop or after a lease of {self.spec.lease:g} s without a driver")

    def _patiently(self, send: Callable[[], Any], seconds: float = CALL, read: Callable[[Any], Any] | None = None) -> Any:
        return patiently(self.spec.run, send, self._ended, seconds, read)

    # --------------------------------------------------------- parameters

    def parameters(self) -> tuple[Array, int, int]:
        """The newest parameters, the server's updates, and the steps of all learners."""
        theta, updates, steps = np.empty(self.spec.size, np.float32), 0, 0
        for k, (first, size) in enumerate(self.ranges):
            answer, values = self._pull(k)
            theta[first : first + size] = values
            updates = answer.version
            steps = answer.steps if k == 0 else steps
        return theta, updates, steps

    def _pull(self, shard: int) -> tuple[Answer, Array]:
        """A shard's answer and its parameters, which are lost with the shard's process if they came by reference."""

        def read(answer: Answer) -> tuple[Answer, Array]:
            values = answer.parameters
            return answer, values if isinstance(values, np.ndarray) else _ray.ray().get(values, timeout=CALL)

        pulled: tuple[Answer, Array] = self._patiently(lambda: self._process("shard", shard).pull.remote(self.spec.id), read=read)
        return pulled


def patiently(
    name: str, send: Callable[[], Any], ended: Callable[[], PacelineError], seconds: float = CALL, read: Callable[[Any], Any] | None = None
) -> Any:  # fmt: skip
    """Repeats a call while its process starts again. Ctrl-C interrupts it. Errors are those that the call raised there.

    ended: the error if the run `name` has no processes. read: of a result; it is repeated with the call.
    """
    ray, until = _ray.ray(), time.monotonic() + seconds
    while True:
        try:
            ref = send()
            while not ray.wait([ref], timeout=0.2)[0]:
                if time.monotonic() > until:
                    raise PacelineError(f"{name}: a process has not answered for {seconds:g} s")
            result = ray.get(ref)
            return result if read is None else read(result)
        except _ray.lost_errors() as err:
            if not _ray.named(name):
                raise ended() from None
            if time.monotonic() > until:
                raise PacelineError(f"{name}: {err}") from None
            time.sleep(0.2)
        except ray.exceptions.RayTaskError as err:
            raise _ray.cause(err) from None


def stop(name: str) -> bool:
    """Ends all processes of a run; an error names those that are left after 7 s. Returns False if there is no such run."""
    ray, names = _ray.ray(), _ray.named(name)
    if not names:
        return False
    if (supervisor := _ray.find(name, "supervisor")) is not None:
        # The supervisor first, so that it does not make again what this call ends.
        ended = supervisor.end.remote()
        ray.wait([ended], timeout=2)
        _ray.kill(supervisor)
    left = _ray.sweep(name)
    if left:
        raise PacelineError(f"{name}: {len(left)} processes have not ended: {', '.join(left[:5])}")
    return True
