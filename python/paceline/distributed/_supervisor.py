"""The supervisor: the detached Ray actor that makes, watches and ends the processes of a run."""

from __future__ import annotations

import os
import pickle
import threading
import time
from typing import Any

from . import _decoupled, _processes, _ray
from ._keepers import Keeper
from ._spec import Spec
from ._watch import Watch

POLL = 0.25  # seconds between two rounds of questions
SAVE = 1.0  # seconds between two copies of the counts at the keepers
WORKERS = ("actor", "bundle")  # the parts that begin and end
RESUME = 10.0  # seconds for which a supervisor that starts again waits for the keepers
STARTING = 120.0  # seconds in which a driver makes its first call, whatever the lease


class Supervisor:
    """Keeps a run alive without its driver, and ends it when no driver has called for spec.lease seconds.

    Ray starts a process of the run again when it ends, this one as well: the supervisor finds the
    others by their names, and keepers have its counts. The parameters are with the shards and the keepers, never here.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec, self._watch, self._lock = spec, Watch(), threading.Lock()
        self._called = time.monotonic()
        self._handles: dict[tuple[str, int], Any] = {}
        self._asked: dict[Any, tuple[str, int]] = {}
        self._number = self._goal = 0  # of the latest begin
        self._halted = 0  # the latest begin that was halted
        # Keepers take the saves of a later supervisor, also of one that found no keeper when it started.
        self._started, self._saves, self._saved = time.time_ns(), 0, 0.0
        self._saving: dict[int, Any] = {}  # the latest save sent to each keeper
        self._driven = False  # a driver has asked for a status
        self._ended, self._trouble = False, ""
        self._make()
        if _ray.ray().get_runtime_context().was_current_actor_reconstructed:
            self._resume()
        threading.Thread(target=self._main, name="paceline-supervisor", daemon=True).start()

    # ----------------------------------------------------------- processes

    def _make(self) -> None:
        """Makes the processes that are not there."""
        spec, ray = self.spec, _ray.ray()
        nodes = _ray.nodes()
        for part, cls, number, options in (
            ("keeper", Keeper, spec.keepers, {"num_cpus": _ray.LITTLE, "max_concurrency": 2}),
            ("shard", _processes.ParameterServerShard, spec.shards, {"num_cpus": 0}),
            ("replay", _decoupled.Replay, spec.replay_shards if spec.actors else 0, {"num_cpus": 0}),
            ("bundle", _processes.Bundle, spec.bundles, {"num_cpus": spec.num_cpus, "max_concurrency": 4}),
            ("actor", _decoupled.ActorProcess, spec.actors, {"num_cpus": 1, "max_concurrency": 4}),
        ):
            remote = ray.remote(cls)
            for k in range(number):
                arguments = (spec.id,) if part == "keeper" else (spec, k)
                # A keeper on the head, whose loss ends the run anyway, and one on another node: a node that is
                # lost never has all copies of a shard.
                where = _ray.prefer_node(nodes[k % len(nodes)]) if part == "keeper" else "SPREAD"
                self._handles[part, k] = remote.options(
                    name=_ray.name(spec.run, part, k), namespace=_ray.NAMESPACE, lifetime="detached", get_if_exists=True,
                    max_restarts=-1, max_task_retries=0, scheduling_strategy=where, **options,
                ).remote(*arguments)  # fmt: skip

    def _main(self) -> None:
        """Asks every process for its status, again and again."""
        while not self._ended:
            began = time.monotonic()
            try:
                self._round()
            except Exception as err:  # the run goes on without its counts
                self._trouble = f"{type(err).__name__}: {err}"  # which the driver says
            if time.monotonic() > self._called + (self.spec.lease if self._driven else max(self.spec.lease, STARTING)):
                self.end()
            time.sleep(max(0.0, began + POLL - time.monotonic()))

    def _round(self) -> None:
        ray, waiting = _ray.ray(), set(self._asked.values())
        for place, handle in self._handles.items():
            if place not in waiting:
                self._asked[handle.status.remote()] = place
        done, _ = ray.wait(list(self._asked), num_returns=len(self._asked), timeout=POLL)
        for ref in done:
            part, index = self._asked.pop(ref)
            try:
                status = ray.get(ref)
            except _ray.lost_errors():
                with self._lock:
                    self._watch.failed(part, index)
                continue
            except Exception as err:  # it lives and cannot say how it is; the others are asked nevertheless
                if not (known := self._watch.status(part, index)):
                    raise
                status = known | {"error": f"{type(_ray.cause(err)).__name__}: {_ray.cause(err)}"}
            with self._lock:
                new = self._watch.answered(part, index, status)
            if new and part == "keeper":
                self._copy()
            if new and (part, index) == ("shard", 0):
                self._tell()
            waits = part in WORKERS and status["life"] and status["begun"] < self._number and not status["error"]
            if waits and self._number > self._halted:
                self._handles[part, index].begin.remote(self._number, self._goal)
        with self._lock:
            reported = self._watch.reported
            self._watch.settle()
            reported = self._watch.reported - reported
        if reported or time.monotonic() > self._saved + SAVE:
            self._save()

    def _copy(self) -> None:
        """Gives a new keeper copies of all shards."""
        for (part, index), handle in self._handles.items():
            if part == "shard" and "version" in self._watch.status("shard", index):
                handle.copy.remote()

    def _tell(self) -> None:
        """Tells a new process of shard 0 the steps that its copy does not have, also of lives that are over."""
        for told in self._watch.told(self.spec.bundles):
            self._handles["shard", 0].tell.remote(self.spec.id, *told)

    def _save(self, wait: float = 0.0) -> None:
        """Gives the keepers what a later supervisor of this run needs. wait: seconds to wait for one of them.

        Without wait a keeper that has not answered the save before gets none.
        """
        ray = _ray.ray()
        with self._lock:
            self._saves, self._saved = self._saves + 1, time.monotonic()
            age = self._started, self._saves
            called = time.time() - (time.monotonic() - self._called)
            state = pickle.dumps((self._number, self._goal, self._halted, self._driven, called, self._watch))
            sent = list(self._saving.values())
            late = ray.wait(sent, num_returns=len(sent), timeout=0)[1] if sent else []
            for (part, k), handle in self._handles.items():
                if part == "keeper" and (wait or self._saving.get(k) not in late):
                    self._saving[k] = handle.remember.remote(self.spec.id, age, state)
            sent = list(self._saving.values())
        if wait:
            ray.wait(sent, num_returns=1, timeout=wait)

    def _resume(self) -> None:
        """Goes on where the supervisor before this one was."""
        asked = [handle.remembered.remote(self.spec.id) for (part, _), handle in self._handles.items() if part == "keeper"]
        if kept := _ray.gathered(asked, RESUME):
            (started, _), state = max(kept)
            self._started = max(self._started, started + 1)  # clocks of nodes differ
            self._number, self._goal, self._halted, self._driven, called, self._watch = pickle.loads(state)
            # Time for the next call is left, as drivers could not call meanwhile: they call every quarter of the lease.
            self._called = time.monotonic() - min(max(0.0, time.time() - called), max(0.0, 0.75 * self.spec.lease - RESUME))

    # -------------------------------------------------------------- driver

    def call(self) -> Spec:
        """Renews the lease; returns the spec."""
        self._called = time.monotonic()
        return self.spec

    def begin(self, goal: int, number: int = 0) -> int:
        """Lets all bundles train until they have taken goal steps together; returns the number of this begin.

        number: of the same begin at an earlier supervisor, whose counts are lost.
        """
        self._called = time.monotonic()
        with self._lock:
            self._number, self._goal = max(self._number + 1, number), goal
            if self.spec.schedule != "race":  # the driver begins the bundles and sends every visit
                self._halted = self._number
        self._save(wait=RESUME)
        return self._number

    def status(self) -> dict[str, Any]:
        """The counts, the latest events and the state of the run; renews the lease."""
        self._called, self._driven = time.monotonic(), True
        with self._lock:
            workers = [place for place in self._handles if place[0] in WORKERS]
            living = [self._watch.status(*place) for place in self._handles if place[0] in (*WORKERS, "replay")]
            up = [self._watch.status(*place) for place in workers if self._watch.up(*place)]
            idle = all(b["begun"] == self._number and not b["running"] for b in up) and bool(up)
            halted = self._number <= self._halted
            return {
                "number": self._number,
                "halted": halted,
                "running": any(b["running"] for b in up) if halted else bool(self._number) and not idle,
                "ready": all(one.get("life") or one.get("error") for one in living),
                "counted": all("version" in self._watch.status("shard", k) for k in range(self.spec.shards)),
                "totals": self._watch.totals(),
                "recoveries": list(self._watch.recoveries),
                "reported": self._watch.reported,
                "errors": self._watch.errors(),
                "trouble": self._trouble,
                "down": self._watch.down(),
                "pids": {f"{part}/{k}": self._watch.status(part, k).get("pid") for part, k in self._handles},
                "pid": os.getpid(),
                "silent": {f"{part}/{k}": self._watch.silent(part, k) for part, k in self._handles},
            }

    def halt(self) -> None:
        """Ends the training in progress in all bundles and actors."""
        with self._lock:
            self._halted = self._number
        for (part, _), handle in self._handles.items():
            if part in WORKERS:
                handle.halt.remote(self._halted)
        self._save(wait=RESUME)

    def end(self) -> None:
        """Ends every process of the run, this one last."""
        self._ended = True
        for part in (*WORKERS, "replay", "shard", "keeper"):
            for (kind, _), handle in self._handles.items():
                if kind == part:
                    _ray.kill(handle)
        if (own := _ray.find(self.spec.run, "supervisor")) is not None:
            _ray.kill(own)
