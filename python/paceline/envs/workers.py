"""Environments written in Python, stepped in worker processes or in the caller's process.

    from paceline import workers

    envs = workers.make("LunarLander-v3", num_envs=8, workers=2)
    obs, infos = envs.reset(seed=1)
    obs, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())
    envs.close()

make_vec steps such environments in the caller's process; make_vec(..., workers=2) is the same as
workers.make above. Processes are faster if a step takes longer than a message to a process and its
answer, tens of microseconds. Gymnasium's classic control and toy text take less. Physics engines,
renderers, emulators and simulators take more; for them one process for each free core is fastest.
If steps wait for a device or another program (waits=True), one process for each environment is
fastest.

A process steps several environments and is woken once for all of them. Each observation is written
once, into memory that the processes share; only infos that are not empty are pickled. A process
does not import the script that starts it. So the script needs no "if __name__ == '__main__'", and
it may come from standard input, `python -c` or a notebook. Functions and classes of the script are
sent by cloudpickle with the objects that they refer to, and so are the environments that the script
has registered with Gymnasium. Modules are imported with the same sys.path.

With batch_size below num_envs no call waits for the slowest environment:

    envs = workers.make(make_env, num_envs=16, batch_size=4)
    envs.async_reset(seed=1)
    while training:
        obs, rewards, terminated, truncated, infos = envs.recv()    # the first 4 that have finished
        envs.send(policy(obs), infos["env_id"])

Failures. If an environment raises an exception, the call that waits for it (step, recv, reset or
the constructor) raises a CallbackError, "environment 3: ValueError: ...", with

    err.index, err.indices   the first environment that failed, and all that failed in this call
    err.traceback            the traceback in the worker, also shown with the error
    err.results              the call's result with the other environments' rows; the rows of those that
                             failed have reward 0, no flag and an undefined observation
    err.__cause__            the exception itself if the environment is in the caller's process

A failed environment raises the same error at every step until it is reset, by options["reset_mask"]
or a reset of all; the other environments continue. If a process dies (os._exit, a segmentation
fault, out of memory), all its environments fail in this way; the reset of one of them starts a new
process, which makes its environments again. After an interrupt (Ctrl-C) environments may stay under
way; a reset waits for them.
"""

from __future__ import annotations

import collections
import copy as copying
import functools
import os
from collections.abc import Callable, Sequence
from multiprocessing import util
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from .. import _lib
from .._arguments import autoreset_metadata, autoreset_name, reset_mask, seed_numbers, whole
from .._threads import CallLock, Method, exclusive
from ..errors import ConfigError, ForkError
from ..spaces import Array, Infos
from . import _crew, _table
from ._crew import Crew, Local, Processes, Worker
from ._worker import Failure

__all__ = ["WorkerVecEnv", "make"]

Results = tuple[Any, Array, Array, Array, Infos]
_CONTEXTS = ("spawn", "fork")
_MOST_ENVS, _MOST_WORKERS = 65536, 1024
_MANY = {"waits": "one for each environment", "context": "one for each core"}  # the meaning of workers=0
# The states of an environment.
_NEW, _READY, _ENDED, _AWAY = range(4)
_REFUSED = {
    _NEW: "it has no episode yet, must be reset first",
    _ENDED: "its episode has ended, must be reset first",
    _AWAY: "it is under way, must be received first",
}


def _call(method: Method) -> Method:
    """Decorates a method for one thread at a time. It raises HandleError if another thread closes the vector."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        try:
            return method(self, *args, **keywords)
        except Exception:
            if (crew := vars(self).get("_crew")) is None or crew.stopped:
                _lib.refuse_closed("environments")
            raise

    return cast(Method, exclusive("_using")(call))


def make(
    fn_or_id: Any,
    num_envs: int,
    *,
    workers: int | None = 0,
    batch_size: int = 0,
    autoreset_mode: Any = "next_step",
    context: str | None = None,
    copy: bool = True,
    waits: bool = False,
    **env_kwargs: Any,
) -> WorkerVecEnv:
    """Makes num_envs environments in worker processes, as a gymnasium.vector.VectorEnv.

    fn_or_id: a function (or class) that makes an environment, a list of num_envs such functions, or
        the id of an environment registered with Gymnasium. cloudpickle sends the functions, so
        lambdas and local functions are allowed.
    workers: the number of processes, at most num_envs; 0 for one per core (one per environment with
        waits). A process steps its environments one after another. None: no process, the caller's
        process steps all environments in step and send.
    waits: True if steps mostly wait (for a device, a clock, another program) and compute little, so
        that more processes than cores help. The library's threads do not wait for such steps, so a
        model's updates have all cores during them.
    batch_size: environments that recv returns at once, 0 for all.
    autoreset_mode: "next_step", "same_step", "disabled" or a member of
        gymnasium.vector.AutoresetMode.
    context: how processes start: "spawn" (None), in a new interpreter, or "fork", as a copy of this
        process.
    copy: False returns observations that are views of the shared memory, valid until the next step,
        recv or reset. Batches of fewer than all environments are always copies.
    env_kwargs: keyword arguments of the function, or of gymnasium.make.
    """
    num_envs = whole("num_envs", num_envs, 1, _MOST_ENVS)
    functions: list[Callable[[], Any]]
    spec = None
    if isinstance(fn_or_id, str):
        spec = spec_of(fn_or_id)
        functions = [functools.partial(gymnasium.make, spec, **env_kwargs)] * num_envs
        spec = copying.deepcopy(spec)
        spec.kwargs.update(env_kwargs)
    else:
        functions = list(fn_or_id) if isinstance(fn_or_id, (list, tuple)) else [fn_or_id] * num_envs
        if not all(map(callable, functions)):
            raise ConfigError(f"env: {fn_or_id!r}, must be a function, a list of functions or a Gymnasium id")
        if len(functions) != num_envs:
            raise ConfigError(f"env: {len(functions)} functions, must be {num_envs}, one for each environment")
        if env_kwargs:
            functions = [functools.partial(function, **env_kwargs) for function in functions]
    batch_size = whole("batch_size", batch_size, 0, num_envs) or num_envs
    mode = autoreset_name(autoreset_mode)
    if workers is None:
        for name, value in (("waits", waits), ("context", context)):
            if value:
                raise ConfigError(f"{name}: {value!r}, must be given with workers=N (0: {_MANY[name]}): it is for worker processes")
        return WorkerVecEnv(Local(functions, mode), 0, batch_size, mode, copy, spec)
    default = _MOST_WORKERS if waits else len(os.sched_getaffinity(0))
    processes = min(whole("workers", workers, 0, _MOST_WORKERS) or default, num_envs)
    if context not in (None, *_CONTEXTS):
        raise ConfigError(f"context: {context!r}, must be {' or '.join(map(repr, _CONTEXTS))}")
    crew = Processes(functions, processes, context or _CONTEXTS[0], mode, batch_size < num_envs)
    return WorkerVecEnv(crew, processes, batch_size, mode, copy, spec)


def spec_of(id: str) -> Any:
    """Gymnasium's spec of an id; raises ConfigError if it is not registered."""
    if id.startswith("ALE/"):
        try:
            import ale_py

            gymnasium.register_envs(ale_py)
        except ImportError:
            pass  # Gymnasium's error below names the missing module
    try:
        return gymnasium.spec(id)
    except gymnasium.error.Error as err:
        raise ConfigError(f"id: {id!r}, must be registered with Gymnasium: {' '.join(str(err).split())}") from err


class WorkerVecEnv(gymnasium.vector.VectorEnv[Any, Any, Array]):
    """Environments in worker processes or in the caller's process; make makes it. See the module for failures.

    One thread may use it at a time; another thread gets a BusyError. With worker processes only the
    process that made it may use it.
    """

    def __init__(self, crew: Crew, workers: int, batch_size: int, autoreset: str, copy: bool, spec: Any = None) -> None:
        self.num_envs, self.batch_size, self.workers, self.copy, self.spec = crew.num_envs, batch_size, workers, copy, spec
        self._order = list(range(self.num_envs))
        self._pid = os.getpid()
        self._using = CallLock()
        self._crew = crew
        # multiprocessing calls this at exit, before it waits for processes, and when the object is
        # collected.
        self._finalizer = util.Finalize(self, crew.stop, exitpriority=10)
        self._table = crew.table
        self.single_observation_space, self.single_action_space = crew.observation_space, crew.action_space
        self.observation_space: Any = batch_space(crew.observation_space, self.num_envs)
        self.action_space: Any = batch_space(crew.action_space, self.num_envs)
        self.render_mode = crew.render_mode
        self.metadata = {**crew.metadata, "autoreset_mode": autoreset_metadata(autoreset)}
        self._ends = autoreset == "disabled"
        self._state = np.full(self.num_envs, _NEW, np.int8)
        self._last = self._order
        self._asking = False
        self._everyone = [crew.message(worker, worker.indices, "step") for worker in crew.workers]
        # Observations of spaces without a fixed size, which have no rows in the Table.
        self._objects: list[Any] = [None] * self.num_envs
        # Gymnasium builds infos for num_envs environments; a smaller batch needs a vector of its
        # size.
        self._batch: Any = gymnasium.vector.VectorEnv()
        self._batch.num_envs = batch_size

    # ---------------------------------------------------------------- resets

    @_call
    def reset(self, *, seed: int | Sequence[int | None] | Array | None = None, options: Infos | None = None) -> tuple[Any, Infos]:
        """Begins an episode in every environment, or where options["reset_mask"] (bool [num_envs]) is true.

        seed: an int s for s, s+1, ... in the environments' order, or one seed for each.
            Each is 0 to 2**64 - 1.
        options: other entries go to each environment's reset.

        The call waits for the environments to reset that are under way and drops their results;
        other environments stay under way. Returns (obs, infos) of all num_envs environments. Rows
        outside the mask are unchanged; rows of environments under way are undefined.
        """
        indices = self._begin(seed, options)
        crew = self._crew
        crew.wait(indices)
        received = set(indices)
        crew.done = collections.deque(i for i in crew.done if i not in received)
        infos, failed = self._settle(self, indices)
        results = self._observations(self._order), infos
        if failed:
            raise _crew.error(failed.values(), results)
        return results

    @_call
    def async_reset(self, seed: int | Sequence[int | None] | Array | None = None, options: Infos | None = None) -> None:
        """Starts a reset; recv returns the first observations."""
        self._begin(seed, options)

    def _begin(self, seed: int | Sequence[int | None] | Array | None, options: Infos | None) -> list[int]:
        self._check_open()
        mask, rest = self._mask(options)
        seeds = [int(number) if given else None for number, given in zip(*seed_numbers(seed, self.num_envs))]
        indices = [int(i) for i in np.flatnonzero(mask)]
        crew = self._crew
        groups = self._groups(indices)
        messages = [crew.message(worker, group, "reset", "options", [seeds[i] for i in group], rest) for worker, group in groups]
        crew.wait(indices)
        crew.forget(indices)
        dead = [worker for worker, _ in groups if worker.dead is not None]
        self._state[mask] = _NEW
        if dead:
            crew.restart(dead)
        if len(indices) == self.num_envs:
            self._last = indices
        for i in indices:
            crew.broken.pop(i, None)
        self._state[mask] = _AWAY
        crew.send(messages)
        return indices

    def _mask(self, options: Infos | None) -> tuple[Array, Infos | None]:
        """(mask of the environments to reset, the options of their resets)."""
        if options is not None and not isinstance(options, dict):
            raise ConfigError(f"options: {type(options).__name__}, must be a dict")
        if options is None or "reset_mask" not in options:
            return np.ones(self.num_envs, bool), options
        rest = dict(options)
        mask = reset_mask({"reset_mask": rest.pop("reset_mask")}, self.num_envs)
        if self._table.obs is None and any(not mask[i] and self._objects[i] is None for i in self._order):
            raise ConfigError("options['reset_mask']: some environment has no episode yet, the first reset must be of all environments")
        return mask, rest

    # ----------------------------------------------------------------- steps

    @_call
    def step(self, actions: Any, env_id: object = None) -> Results:
        """Does send and recv. If the batch is all environments, infos have no env_id, as in Gymnasium."""
        self._check_open()
        indices = self._indices(env_id)
        coming = self._crew.expected + len(indices)
        if coming < self.batch_size:
            raise ConfigError(f"env_id: {coming} environments would be under way, must be at least batch_size, {self.batch_size}")
        self._send(indices, actions)
        return self._receive(self.batch_size < self.num_envs)

    @_call
    def send(self, actions: Any, env_id: object = None) -> None:
        """Starts a step of some environments.

        env_id: the environments in the order of actions; None: those of the last recv, or all after
            a reset of all. If one of them is under way or must be reset first, no environment
            steps.
        """
        self._check_open()
        self._send(self._indices(env_id), actions)

    @_call
    def recv(self) -> Results:
        """Waits until batch_size environments have finished and returns their rows.

        Returns (obs, rewards float64, terminated, truncated, infos). Rows are in the order of
        completion; with batch_size == num_envs they are in the environments' order.
        infos["env_id"], int32 [batch_size], has the environment of each row. Rows of a reset have
        reward 0 and no flag.
        """
        self._check_open()
        expected = self._crew.expected
        if expected < self.batch_size:
            raise ConfigError(f"recv: {expected} environments are under way, must be at least batch_size, {self.batch_size}")
        return self._receive(True)

    def _indices(self, env_id: object) -> list[int]:
        if env_id is None:
            return self._last
        given = np.asarray(env_id)
        if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
            raise ConfigError(f"env_id: {given.dtype} of shape {given.shape}, must be a row of at least one whole number")
        indices: list[int] = given.tolist()
        for i in indices:
            if not 0 <= i < self.num_envs:
                raise ConfigError(f"env_id: {i}, must be 0 to {self.num_envs - 1}")
        if len(set(indices)) < len(indices):
            raise ConfigError(f"env_id: {indices}, must be different numbers")
        return indices

    def _send(self, indices: list[int], actions: Any) -> None:
        crew, count = self._crew, len(indices)
        if crew.broken:
            self._refuse_broken(indices)
        if (self._state != _READY).any():
            for i in indices:
                if self._state[i] != _READY:
                    raise ConfigError(f"environment {i}: {_REFUSED[int(self._state[i])]}")
        everyone = indices == self._order
        at = slice(None) if everyone else indices
        if self._table.actions is not None:
            for rows, given in _table.matched("actions", self._table.actions, actions, count):
                rows[at] = given
            messages = self._everyone if everyone else [crew.message(*group, "step") for group in self._groups(indices)]
        else:
            items = list(iterate(self.action_space, actions))
            if len(items) != count:
                raise ConfigError(f"actions: {len(items)}, must be {count}, one for each environment")
            of = dict(zip(indices, items))
            messages = [crew.message(*group, "step", "actions", [of[i] for i in group[1]]) for group in self._groups(indices)]
        self._state[at] = _AWAY
        crew.send(messages)

    def _refuse_broken(self, indices: Sequence[int]) -> None:
        broken = [self._crew.broken[i] for i in indices if i in self._crew.broken]
        if broken:
            raise _crew.error(failure._replace(text=f"{failure.text}; it must be reset first") for failure in broken)

    def _groups(self, indices: Sequence[int]) -> list[tuple[Worker, list[int]]]:
        """The environments of each worker."""
        groups: dict[int, tuple[Worker, list[int]]] = {}
        for i in indices:
            worker = self._crew.owner[i]
            groups.setdefault(id(worker), (worker, []))[1].append(i)
        return list(groups.values())

    # --------------------------------------------------------------- results

    def _receive(self, named: bool) -> Results:
        crew, table, count = self._crew, self._table, self.batch_size
        while len(crew.done) < count:
            crew.receive()
        indices = [crew.done.popleft() for _ in range(count)]
        if count == self.num_envs:
            indices = self._order
        self._last = indices
        infos, failed = self._settle(self._batch, indices)
        if named:
            infos["env_id"], infos["_env_id"] = np.array(indices, np.int32), np.ones(count, bool)
        at: Any = slice(None) if count == self.num_envs else indices
        columns = table.rewards[at].copy(), table.terminated[at].copy(), table.truncated[at].copy()
        results = (self._observations(indices), *columns, infos)
        if failed:
            raise _crew.error(failed.values(), results)
        return results

    def _settle(self, vector: Any, indices: list[int]) -> tuple[Infos, dict[int, Failure]]:
        """(infos, failures) of finished environments, which may then step again.

        vector: the vector that builds the infos. The environments' states are set last, so that
        they must be reset if an exception (Ctrl-C) interrupts this method.
        """
        crew, table = self._crew, self._table
        infos: Infos = {}
        failed = {i: crew.failures.pop(i) for i in indices if i in crew.failures} if crew.failures else {}
        for i, failure in failed.items():
            crew.broken[i] = failure
            table.rewards[i], table.terminated[i], table.truncated[i] = 0, False, False
            crew.notes.pop(i, None)
        for k, i in enumerate(indices) if crew.notes else ():
            for note in crew.notes.pop(i, ()):
                infos = vector._add_info(infos, crew.read(note), i if vector is self else k)
        for i in indices if crew.observations else ():
            if i in crew.observations:
                self._objects[i] = crew.read(crew.observations.pop(i))
        at: Any = slice(None) if indices is self._order else indices
        self._state[at] = np.where(table.terminated[at] | table.truncated[at], _ENDED, _READY) if self._ends else _READY
        return infos, failed

    def _observations(self, indices: Sequence[int]) -> Any:
        if self._table.obs is None:
            items = [self._objects[i] for i in indices]
            out: Any = create_empty_array(self.single_observation_space, len(items))
            return concatenate(self.single_observation_space, items, out)
        if len(indices) < self.num_envs:
            return _table.each(self._table.obs, lambda rows: rows[indices])
        return _table.each(self._table.obs, np.copy) if self.copy else _table.each(self._table.obs, lambda rows: rows)

    # ----------------------------------------------- single environments

    @property
    def envs(self) -> list[Any]:
        """The environment objects if the caller's process steps them; [] with worker processes."""
        self._check_open()
        return self._crew.envs if isinstance(self._crew, Local) else []

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of each environment, or returns its attribute; no environment may be under way."""
        if name in ("reset", "step", "close"):
            raise ConfigError(f"name: {name!r}, must not be reset, step or close: the vector has its own")
        return self._ask("call", name, args, kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """The attribute of each environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of each environment: to one value, or to a list or tuple of num_envs values."""
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ConfigError(f"values: {len(values)}, must be {self.num_envs}, one for each environment")
        self._ask("set_attr", name, list(values))

    def render(self) -> tuple[Any, ...]:
        """The rendered frame of each environment."""
        return self.call("render")

    @property
    def np_random_seed(self) -> Any:
        """The environments' seeds, as in Gymnasium's vectors."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> Any:
        """Copies of the environments' generators, as in Gymnasium's vectors."""
        return self.get_attr("np_random")

    @_call
    def _ask(self, verb: str, *payload: Any) -> tuple[Any, ...]:
        self._check_open()
        crew = self._crew
        away = np.flatnonzero(self._state == _AWAY)
        if len(away):
            raise ConfigError(f"environment {away[0]}: {_REFUSED[_AWAY]}")
        self._refuse_broken([i for i in self._order if crew.owner[i].dead is not None])
        messages = []
        for worker in crew.workers:
            own = payload if verb == "call" else (payload[0], [payload[1][i] for i in worker.indices])
            messages.append(crew.message(worker, worker.indices, verb, "arguments", *own))
        self._asking = True
        crew.send(messages)
        crew.wait(self._order)
        answers = tuple(crew.read(note) for i in self._order for note in crew.notes.get(i, ()))
        failed = crew.forget(self._order)
        self._asking = False
        if failed:
            raise _crew.error(failed.values())
        return answers

    # ---------------------------------------------------------------- ending

    def _check_open(self) -> None:
        if self.closed:
            _lib.refuse_closed("environments")
        if self.workers and os.getpid() != self._pid:
            raise ForkError("environments: made by the parent process, must be used there")
        if self._asking:  # a call was interrupted: its remaining answers must be dropped
            self._crew.wait(self._order)
            self._crew.forget(self._order)
            self._asking = False

    def close_extras(self, *, timeout: float | None = 5.0, terminate: bool = False) -> None:
        """Closes the environments and ends the processes; terminates those busy after timeout seconds (None: never), or at once."""
        self._crew.stop(0.0 if terminate else timeout)
        self._finalizer.cancel()
        del self._table, self._crew  # the memory is freed when no view of it is left

    def __repr__(self) -> str:
        name = f"{self.spec.id}, " if self.spec is not None else ""
        return f"WorkerVecEnv({name}num_envs={self.num_envs}, workers={self.workers}{', closed' if self.closed else ''})"
