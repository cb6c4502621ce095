"""The processes of a run that train: Ray actors around Shard and Learner, the channel between them, and the evaluator."""

from __future__ import annotations

import functools
import io
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from ..errors import PacelineError, StoppedError
from ..spaces import Array
from ..store import Store, shard_ranges
from . import _cores, _ray
from ._learner import Learner, ShardLost
from ._ordered import Leg, Part, Pulled, broken
from ._shards import Answer, Joined, Shard
from ._spec import WORKERS, Spec

WAIT = 20.0  # seconds after which a call to a shard counts as lost


class ParameterServerShard:
    """A shard in a process of its own.

    It has parameters after fill. When Ray starts the process again, it takes its newest copy from a
    keeper and goes on, with one incarnation more.
    """

    def __init__(self, spec: Spec, index: int) -> None:
        self._spec, self._index = spec, index
        self._shard: Shard | None = None
        self._copying: dict[int, Any] = {}  # the copy under way to each keeper
        self._cores = _cores.Claims() if spec.pin else None
        self._lost = False  # it had parameters, and no keeper has them
        if (state := self._newest()) is not None:
            self._take(state, again=True)
            self.copy(wait=True)  # so that a later start has another incarnation
        else:
            self._lost = bool(_ray.ray().get_runtime_context().was_current_actor_reconstructed)

    def fill(self, state: bytes) -> None:
        """Takes the first state of a run, unless the shard has one."""
        if self._shard is None:
            self._take(state, again=False)
            self._lost = False
            self.copy(wait=True)

    def ready(self) -> bool:
        return self._shard is not None

    def join(self, run: str, learner: int) -> Joined:
        if self._cores is not None:  # a bundle claims its cores before it joins
            _cores.all_stay(self._cores.rest())
        return self._filled().join(run, learner)

    def tell(self, *told: Any) -> None:
        self._filled().tell(*told)

    def push(self, *push: Any) -> Answer:
        return self._filled().push(*push)

    def pull(self, run: str) -> Answer:
        return self._filled().pull(run)

    def push_in_order(self, learner: int, number: int, leg: Leg, gradient: Array) -> None:
        self._filled().push_in_order(learner, number, leg, gradient)

    def pull_in_order(self, learner: int) -> Pulled:
        return self._filled().pull_in_order(learner)

    def tell_in_order(self, steps: int) -> None:
        self._filled().tell_in_order(steps)

    def state(self) -> bytes:
        return self._filled().state()

    def status(self) -> dict[str, Any]:
        error = "its parameters are lost with all copies, load a checkpoint" if self._lost else ""
        return {"pid": os.getpid(), "error": error} | ({} if self._shard is None else self._shard.status())

    def copy(self, wait: bool = False) -> None:
        """Gives the keepers a copy."""
        shard = self._filled()
        self._keep(shard.age, shard.state(), wait)

    def _filled(self) -> Shard:
        if self._shard is None:
            raise _ray.NotReady
        return self._shard

    def _take(self, state: bytes, again: bool) -> None:
        spec = self._spec
        first, size = shard_ranges(spec.size, spec.shards)[self._index]
        store = Store(np.zeros(first + size, np.float32), first, **spec.optimizer)  # restore replaces it
        self._shard = Shard(spec.id, self._index, store, self._publish, self._keep, spec.copy_every, spec.ledger)
        self._shard.restore(state, again=again)

    def _publish(self, parameters: Array) -> Any:
        """The array itself if it travels in the answer, else a reference to it in the object store."""
        return parameters if parameters.nbytes <= self._spec.inline_limit else _ray.ray().put(parameters)

    def _keepers(self) -> dict[int, Any]:
        return {k: keeper for k in range(self._spec.keepers) if (keeper := _ray.find(self._spec.run, "keeper", k)) is not None}

    def _keep(self, age: tuple[int, int], state: bytes, wait: bool = False) -> None:
        """Sends a state to the keepers, but to none that has not answered the one before. wait: for one of them."""
        ray, sent = _ray.ray(), list(self._copying.values())
        left = ray.wait(sent, num_returns=len(sent), timeout=0)[1] if sent else []
        self._copying = {k: call for k, call in self._copying.items() if call in left}
        if free := {k: keeper for k, keeper in self._keepers().items() if k not in self._copying}:
            data = ray.put(state)
            self._copying |= {k: keeper.keep.remote(self._spec.id, self._index, age, data) for k, keeper in free.items()}
        if wait and self._copying:
            ray.wait(list(self._copying.values()), num_returns=1, timeout=WAIT)

    def _newest(self) -> bytes | None:
        """The newest state that a keeper has of this shard."""
        kept = _ray.gathered([keeper.newest.remote(self._spec.id, self._index) for keeper in self._keepers().values()], WAIT)
        return max(kept)[1] if kept else None


class RayChannel:
    """A Learner's way to shards that are Ray actors.

    One thread of its own sends the pushes, because Ray copies a gradient to the object store before a call of it
    returns, and another one fetches the answers. The learner goes on meanwhile.
    """

    def __init__(self, spec: Spec, learner: int = 0, cores: set[int] | None = None) -> None:
        """learner: for which join asks. cores: those of the two threads; None: those of the caller."""
        self._spec, self._learner = spec, learner
        self._shards = [_ray.find(spec.run, "shard", k) for k in range(spec.shards)]
        bind = functools.partial(_cores.stay, cores) if cores else None
        self._sender = ThreadPoolExecutor(1, "paceline-send", initializer=bind)
        self._reader = ThreadPoolExecutor(1, "paceline-read", initializer=bind)

    def join(self, shard: int) -> Joined:
        joined: Joined = self._get(self._shards[shard].join.remote(self._spec.id, self._learner))
        return joined

    def tell(self, shard: int, *told: Any) -> None:
        self._get(self._shards[shard].tell.remote(*told))

    def push(self, shard: int, *push: Any) -> Any:
        sent = self._sender.submit(self._shards[shard].push.remote, *push)
        return self._reader.submit(lambda: self._read(sent.result()))

    def answer(self, sent: Any) -> tuple[Answer, Array]:
        read: tuple[Answer, Array] = sent.result()
        return read

    def pull(self, shard: int) -> tuple[Answer, Array]:
        return self._read(self._shards[shard].pull.remote(self._spec.id))

    def _read(self, ref: Any) -> tuple[Answer, Array]:
        """Waits for an answer, and for its parameters, which stay in the object store while the array lives."""
        answer: Answer = self._get(ref)
        parameters = answer.parameters
        by_reference = parameters is not None and not isinstance(parameters, np.ndarray)
        return answer, self._get(parameters) if by_reference else parameters

    def _get(self, ref: Any, timeout: float | None = WAIT) -> Any:
        """Waits for a result; ShardLost if its process is gone or has no parameters yet, else the error of the call."""
        try:
            return _ray.ray().get(ref, timeout=timeout)
        except _ray.lost_errors() as err:
            raise ShardLost(str(err)) from None
        except _ray.ray().exceptions.RayTaskError as err:
            raise _ray.cause(err) from None


class Bundle:
    """Actors, replay memory and learner of the paper's bundled mode, in one process; the learner alone where actors are decoupled.

    The learner has a thread of its own. Calls that need the model are done by that thread between
    two gradients.
    """

    def __init__(self, spec: Spec, index: int) -> None:
        self._spec, self._index = spec, index
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._learner: Learner | None = None
        self._model: Any = None
        self._part: Part | None = None  # of a given order
        self._running, self._error = False, ""
        self._asked = self._begun = self._halted = 0  # numbers of the latest begin, the latest that the thread has seen, the latest halt
        threading.Thread(target=self._main, name="paceline-bundle", daemon=True).start()

    def _main(self) -> None:
        from ._decoupled import sampled

        try:
            rest = self._claim() if self._spec.pin else None
            self._model = sampled(self._spec, self._index) if self._spec.actors else worker(self._spec, self._index)
            ranges = shard_ranges(self._spec.size, self._spec.shards)
            self._learner = Learner(
                self._model, RayChannel(self._spec, self._index, rest), ranges, run=self._spec.id, learner=self._index,
                delay=self._spec.delay, bf16=self._spec.bf16, ledger=self._spec.ledger,
            )  # fmt: skip
            while True:
                while not (self._running and self._jobs.empty()):
                    self._jobs.get()()
                self._running = self._learner.update()
        except BaseException as err:  # the thread's end must be seen
            self._error, self._running = f"{type(err).__name__}: {err}", False

    def _claim(self) -> set[int] | None:
        """Binds this thread to cores for it alone, and the process's others to the rest; returns the rest."""
        self._claims = _cores.Claims()
        mine = self._claims.claim(self._spec.num_cpus)
        if not mine:
            return None
        rest = self._claims.rest()
        _cores.all_stay(rest, but=threading.get_native_id())
        _cores.stay(mine)
        return rest

    def _do(self, job: Callable[[Learner], Any]) -> Any:
        """Does a job on the learner's thread; returns its result."""
        done: Future[Any] = Future()

        def run() -> None:
            try:
                assert self._learner is not None
                done.set_result(job(self._learner))
            except BaseException as err:  # for the caller
                done.set_exception(err)

        self._jobs.put(run)
        while not done.done():
            if self._error:
                raise PacelineError(f"bundle {self._index}: {self._error}")
            try:
                return done.result(timeout=0.2)
            except TimeoutError:
                continue
        return done.result()

    def begin(self, number: int, goal: int) -> None:
        """Trains until all learners together have taken goal steps; does not wait. number: of this begin; each begins once."""

        def job() -> None:
            assert self._learner is not None
            try:
                self._learner.begin(goal)
            except ShardLost:
                self._asked = self._begun  # the supervisor asks again
                return
            if number <= self._halted:  # begin has undone a stop that came before it
                self._learner.stop()
            # status reads begun before running: no bundle that has begun seems idle before its first update.
            self._running, self._begun = True, number

        if number > self._asked:
            self._asked = number
            self._jobs.put(job)

    def begin_in_order(self, total: int) -> None:
        """Begins a run of a given order, whose legs come one by one."""
        ranges = shard_ranges(self._spec.size, self._spec.shards)

        def job(learner: Learner) -> None:
            self._model.begin(total)
            self._part = Part(self._model, ranges, learner.tally)

        self._do(job)

    def leg(self, steps: int, *pulled: Pulled) -> list[Any]:
        """See Part.leg."""
        if (part := self._part) is None:
            raise StoppedError(broken("bundle", self._index))
        result: list[Any] = self._do(lambda _: part.leg(steps, list(pulled)))
        return result

    def halt(self, number: int) -> None:
        """Ends the training of a begin, also if begin comes later; everything under way lands."""
        self._halted = max(self._halted, number)
        if self._learner is not None:
            self._learner.stop()

    def save(self, experience: bool) -> bytes:
        """A checkpoint of the worker, as the model's save writes it. Training goes on afterwards."""

        def job(learner: Learner) -> bytes:
            to = io.BytesIO()
            self._model.save(to, replay=experience)
            return to.getvalue()

        saved: bytes = self._do(job)
        return saved

    def load(self, state: bytes) -> None:
        """Goes on from a checkpoint of a worker, which has the experience and the states of environments."""

        def job(learner: Learner) -> None:
            model = type(self._model).load(
                io.BytesIO(state), num_threads=self._spec.num_cpus, outside_learners=self._spec.bundles, outside_learner=self._index
            )
            before, self._model = self._model, model  # status reads the model meanwhile
            before.close()
            learner.go_on(model)

        self._do(job)

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "pid": os.getpid(),
            "error": self._error,
            "begun": self._begun,
            "running": self._running,
            "life": 0,
        }
        learner = self._learner
        if learner is not None:
            try:
                native = self._model.stats
            except PacelineError:  # no model answers after a failure of the library, which error tells
                native = {}
            status |= vars(learner.tally) | {"seen": dict(learner.tally.seen), "life": learner.life, "told": learner.told}
            status |= {name: native[name] for name in ("episodes", "mean_return", "mean_length") if name in native}
            status["replay_size"] = native.get("replay_size", 0)
            status |= {name: native.get(name, float("nan")) for name in ("epsilon", "learning_rate")}
        return status


def worker(spec: Spec, index: int) -> Any:
    """The model of a bundle: learner `index` of all. The driver alone prints, so verbose is 0."""
    import paceline

    make = getattr(paceline, WORKERS[spec.method])
    return make(
        spec.policy, spec.env, num_envs=spec.actors_per_bundle, num_threads=spec.num_cpus, seed=spec.seed, updates="outside",
        outside_learners=spec.bundles, outside_learner=index, **spec.worker | {"verbose": 0},
    )  # fmt: skip


class Evaluator:
    """Plays greedy episodes with policies that it is given."""

    def evaluate(self, policy: Any, env: Any, episodes: int, seed: int, deterministic: bool, options: dict[str, Any]) -> Any:
        with policy:
            return policy.evaluate(env, episodes, 0.0, seed, deterministic, **options)
