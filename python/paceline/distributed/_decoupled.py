"""The processes of a run whose actors, replay memory and learners are decoupled: Ray actors around Memory and Actor."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from typing import Any

from ..errors import PacelineError
from ..spaces import Array
from ..store import shard_ranges
from . import _ray
from ._actor import Actor
from ._memory import Drawn, Memory, actors_of, shard_of
from ._processes import RayChannel
from ._sampled import Sampled
from ._spec import Spec

_SMALL = 1024  # transitions of a model whose replay memory has no use


class ReplayChannel(RayChannel):
    """The way to the parameter shards and the replay shards. replay: the shard that an actor sends its steps to.

    A replay shard that saves its transitions may be busy for minutes, so its calls have no time limit.
    """

    def __init__(self, spec: Spec, replay: int = 0) -> None:
        super().__init__(spec)
        self._replays = [_ray.find(spec.run, "replay", k) for k in range(spec.replay_shards)]
        self._own, self._errors = self._replays[replay], None

    def add(self, *send: Any) -> Any:
        return self._own.add.remote(self._spec.id, *send)

    def added(self, sent: Any) -> bool:
        return bool(self._get(sent, None))

    def held(self) -> bool:
        return bool(self._get(self._own.held.remote(self._spec.id), None))

    def draw(self, shard: int, beta: float) -> Any:
        return self._replays[shard].draw.remote(self._spec.id, beta)

    def drawn(self, sent: Any) -> Drawn | None:
        drawn: Drawn | None = self._get(sent, None)
        return drawn

    def errors(self, shard: int, life: int, identities: Array, errors: Array) -> None:
        before, self._errors = self._errors, self._replays[shard].errors.remote(self._spec.id, life, identities, errors)
        if before is not None:
            self._get(before, None)


class Replay:
    """A shard of the replay memory, in a process of its own.

    When Ray starts the process again, it is empty: keepers have no copies of experience, which is large and
    soon replaced. It fills again up to its share of learning_starts before a learner draws from it.
    """

    def __init__(self, spec: Spec, index: int) -> None:
        self._index, self._error = index, ""
        self._made: Memory | None = None
        try:
            self._made = Memory(memory_model(spec, index), spec, index)
        except Exception as err:  # Ray would not start a process again whose constructor fails
            self._error = f"{type(err).__name__}: {err}"

    @property
    def _memory(self) -> Memory:
        if self._made is None:
            raise PacelineError(f"replay {self._index}: {self._error}")
        return self._made

    def add(self, *send: Any) -> bool:
        return self._memory.add(*send)

    def held(self, run: str) -> bool:
        return self._memory.held(run)

    def draw(self, run: str, beta: float) -> Drawn | None:
        return self._memory.draw(run, beta)

    def errors(self, *given: Any) -> None:
        self._memory.errors(*given)

    def save(self) -> bytes:
        return self._memory.state()

    def load(self, state: bytes) -> None:
        self._memory.restore(state)

    def status(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "error": self._error} | (self._made.status() if self._made is not None else {})


class ActorProcess:
    """A process with an Actor, which plays in a thread of its own."""

    def __init__(self, spec: Spec, index: int) -> None:
        self._spec, self._index = spec, index
        self._begins: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        self._actor: Actor | None = None
        self._running, self._error = False, ""
        self._asked = self._begun = self._halted = 0  # numbers of the latest begin, the latest that the thread has seen, the latest halt
        threading.Thread(target=self._main, name="paceline-actor", daemon=True).start()

    def _main(self) -> None:
        import paceline

        try:
            spec, index = self._spec, self._index
            envs = paceline.make_vec(
                spec.env, spec.envs_per_actor, num_threads=1, autoreset_mode="same_step", **spec.worker.get("env_kwargs") or {}
            )
            ranges = shard_ranges(spec.size, spec.shards)
            channel = ReplayChannel(spec, shard_of(index, spec.replay_shards))
            self._actor = Actor(envs, model_without_envs(spec, 1, num_threads=1), channel, ranges, spec, index)
            while True:
                number, goal = self._begins.get()
                self._actor.begin(goal)
                if number <= self._halted:  # begin has undone a stop that came before it
                    self._actor.stop()
                # status reads begun before running: no actor that has begun seems idle before its first step.
                self._running, self._begun = True, number
                self._actor.play()
                self._running = False
        except BaseException as err:  # the thread's end must be seen
            self._error, self._running = f"{type(err).__name__}: {err}", False

    def begin(self, number: int, goal: int) -> None:
        """Plays until all actors together have taken goal steps. number: of this begin; each begins once."""
        if number > self._asked:
            self._asked = number
            self._begins.put((number, goal))

    def halt(self, number: int) -> None:
        """Ends the training of a begin, also if begin comes later; everything under way lands."""
        self._halted = max(self._halted, number)
        if self._actor is not None:
            self._actor.stop()

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "pid": os.getpid(), "error": self._error, "begun": self._begun, "running": self._running, "life": 0,
        }  # fmt: skip
        return status | (self._actor.status() if self._actor is not None else {})


def model_without_envs(spec: Spec, num_envs: int, **keywords: Any) -> Any:
    """A model of the run's network that steps nothing."""
    import paceline

    with contextlib.closing(paceline.make_vec(spec.env, 1, **spec.worker.get("env_kwargs") or {})) as envs:
        spaces = envs.single_observation_space, envs.single_action_space
    batch = int(spec.worker.get("batch_size", 32))
    small = {"buffer_size": max(_SMALL, batch), "learning_starts": min(int(spec.worker["learning_starts"]), _SMALL)}
    given = {name: value for name, value in spec.worker.items() if name not in ("env_kwargs", "verbose")}
    return paceline.DQN(spec.policy, spaces, num_envs=num_envs, seed=spec.seed, updates="outside", **{**given, **small, **keywords})


def memory_model(spec: Spec, index: int) -> Any:
    """The model of a replay shard."""
    return model_without_envs(
        spec, actors_of(index, spec) * spec.envs_per_actor, buffer_size=int(spec.worker["buffer_size"]), num_threads=1,
        outside_learners=spec.replay_shards, outside_learner=index,
    )  # fmt: skip


def sampled(spec: Spec, index: int) -> Sampled:
    """The model of a learner."""
    channel = ReplayChannel(spec)
    # Only the schedules know learning_starts here. It is the learner's share, which the library raises to batch_size.
    starts = max(-(-int(spec.worker["learning_starts"]) // spec.bundles), int(spec.worker.get("batch_size", 32)))
    model = model_without_envs(
        spec, 1, num_threads=spec.num_cpus, learning_starts=starts, outside_learners=spec.bundles, outside_learner=index
    )
    return Sampled(model, channel, spec.replay_shards, index, lambda: channel.join(0).steps)
