"""Stepper, which steps environments one after another, and the worker process of workers.py.

Parent and worker share the Table, row i for environment i. One side owns a row at a time: the
worker owns it from the message that starts environment i until the message that reports it
finished, the parent owns it at other times. So the rows need no lock, and observations, actions,
rewards and flags are written once. Infos and values without a fixed size (text, graphs, sequences)
go through the pipe.

A message to the worker is (verb, environments, payload). The payload is pickled separately, so that
an unreadable one fails its environments and not the process. The message "memory" is followed by
the Table's file descriptor. A message from the worker is (finished environments, notes,
observations, failures). The worker ends when the pipe is closed.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import sys
import traceback
import weakref
from collections.abc import Callable
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle
import gymnasium

from . import _infos, _table
from ._table import Table


class Made(NamedTuple):
    """A worker's report after it has made its environments."""

    metadata: dict[str, Any]
    render_mode: str | None
    # (environment, observation space, action space) of the first environment and of those that
    # differ from it.
    spaces: list[tuple[int, Any, Any]]


class Failure(NamedTuple):
    """The exception of an environment: one line and the traceback."""

    environment: int
    text: str
    trace: str
    cause: BaseException | None = None  # the exception itself if it was raised in this process

    @classmethod
    def of(cls, environment: int, err: BaseException) -> Failure:
        text = " ".join("".join(traceback.format_exception_only(err)).split())
        return cls(environment, text, "".join(traceback.format_exception(err)))


class Job(NamedTuple):
    """The data that starts a worker."""

    functions: bytes
    first: int
    num_envs: int
    autoreset: str
    # Whether the worker reports each finished environment at once, or all of a message together.
    each: bool
    # The result of _spawn.registered for a new interpreter; b"" for a forked process.
    registered: bytes = b""


# The parents' ends of all pipes. A forked worker closes its copies, which would keep the pipes
# open.
ends: weakref.WeakSet[Connection] = weakref.WeakSet()


def main(conn: Connection, job: Job) -> None:
    """Runs a worker process."""
    # A terminal sends Ctrl-C to every process; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for end in list(ends):
        end.close()
    worker = _Worker(conn, job)
    try:
        if worker.make():
            worker.serve()
    except (EOFError, OSError):
        pass  # the parent has closed the pipe or has ended
    finally:
        worker.close()


class Stepper:
    """Steps environments. Values with a row in the Table are written there; note and show report the others."""

    def __init__(self, autoreset: str) -> None:
        self.envs: dict[int, gymnasium.Env[Any, Any]] = {}
        self._autoreset = autoreset
        self._verbs: dict[str, Callable[..., None]] = {
            "step": self._step, "reset": self._reset, "call": self._call, "set_attr": self._set_attr,
        }  # fmt: skip

    def note(self, i: int, value: Any) -> None:
        """Reports a value of environment i: the info of a step or the result of a call."""
        raise NotImplementedError

    def show(self, i: int, obs: Any) -> None:
        """Reports an observation that has no row."""
        raise NotImplementedError

    def copied(self, obs: Any) -> Any:
        """The observation, copied if a reset could change it."""
        raise NotImplementedError

    def add(self, i: int, function: Callable[[], Any]) -> None:
        """Makes environment i."""
        env = function()
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"the function returned {type(env).__name__}, must be a gymnasium.Env")
        self.envs[i] = env

    def describe(self) -> Made:
        """Describes the environments after all are made."""
        kinds = [(i, env.observation_space, env.action_space) for i, env in self.envs.items()]
        differing = [kind for kind in kinds[1:] if kind[1:] != kinds[0][1:]]
        first = self.envs[kinds[0][0]]
        return Made(dict(first.metadata or {}), first.render_mode, [kinds[0], *differing])

    def use(self, table: Table) -> None:
        """Sets the Table that steps and resets write."""
        self._table = table
        self._views = None
        if table.obs is not None:
            self._views = {i: _table.each(table.obs, lambda rows: rows[i, ...]) for i in self.envs}  # noqa: B023 - called at once
        self._ended = dict.fromkeys(self.envs, False)

    def act(self, verb: str, k: int, i: int, arguments: tuple[Any, ...]) -> None:
        """Does a message's verb in environment i, the k-th of the message."""
        self._verbs[verb](k, i, *arguments)

    def _step(self, k: int, i: int, actions: Any = None) -> None:
        env = self.envs[i]
        if self._ended[i] and self._autoreset == "next_step":
            obs, info = env.reset()
            self._ended[i] = False
            self._put(i, obs, 0.0, False, False, info)
            return
        # A copy, because an environment may keep a reference to its action.
        action = _table.each(self._table.actions, lambda rows: rows[i].copy()) if actions is None else actions[k]
        obs, reward, terminated, truncated, info = env.step(action)
        ended = self._ended[i] = bool(terminated or truncated)
        if ended and self._autoreset == "same_step":
            if self._views is not None:
                _table.write(self._views[i], obs)  # checks it; the reset's observation replaces it
            # Copied before the reset, which may write into the same arrays.
            self.note(i, {"final_obs": self.copied(obs), "final_info": _infos.copied(info)})
            obs, info = env.reset()
        self._put(i, obs, reward, terminated, truncated, info)

    def _reset(self, k: int, i: int, seeds: list[int | None], options: dict[str, Any] | None) -> None:
        obs, info = self.envs[i].reset(seed=seeds[k], options=options)
        self._ended[i] = False
        self._put(i, obs, 0.0, False, False, info)

    def _put(self, i: int, obs: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> None:
        table = self._table
        if self._views is not None:
            _table.write(self._views[i], obs)
        else:
            self.show(i, obs)
        table.rewards[i], table.terminated[i], table.truncated[i] = reward, terminated, truncated
        if not isinstance(info, dict):
            raise TypeError(f"info: {type(info).__name__}, must be a dict")
        if info:
            self.note(i, info)

    def _call(self, k: int, i: int, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        value = self.envs[i].get_wrapper_attr(name)
        if callable(value):
            value = value(*arguments, **keywords)
        self.note(i, value)

    def _set_attr(self, k: int, i: int, name: str, values: list[Any]) -> None:
        self.envs[i].set_wrapper_attr(name, values[k])


class _Worker(Stepper):
    """The Stepper of a worker process; it pickles its reports at once."""

    def __init__(self, conn: Connection, job: Job) -> None:
        super().__init__(job.autoreset)
        self._conn, self._job = conn, job
        # The contents of the next message.
        self._back: list[int] = []
        self._notes: list[tuple[int, bytes]] = []
        self._observations: list[tuple[int, bytes]] = []
        self._failures: list[Failure] = []

    def note(self, i: int, value: Any) -> None:
        self._notes.append((i, _pickled(value)))

    def show(self, i: int, obs: Any) -> None:
        self._observations.append((i, _pickled(obs)))

    def copied(self, obs: Any) -> Any:
        return obs

    def make(self) -> bool:
        """Makes the environments and maps the table. Returns False after a failure, which is reported."""
        index = self._job.first
        try:
            if self._job.registered:
                _learn(self._job.registered)
            for index, function in enumerate(pickle.loads(self._job.functions), self._job.first):
                self.add(index, function)
            made = self.describe()
            answer = cloudpickle.dumps(made)
        except BaseException as err:
            self._conn.send_bytes(pickle.dumps(Failure.of(index, err)))
            return False
        self._conn.send_bytes(answer)
        verb, *_ = pickle.loads(self._conn.recv_bytes())
        if verb == "close":
            return False
        fd = reduction.recv_handle(self._conn)
        layout = self._job.num_envs, *made.spaces[0][1:]
        self.use(Table(*layout, mmap.mmap(fd, Table(*layout).size)))
        os.close(fd)
        return True

    def serve(self) -> None:
        while True:
            verb, indices, payload = pickle.loads(self._conn.recv_bytes())
            if verb == "close":
                return
            try:
                arguments = pickle.loads(payload) if payload else ()
            except Exception as err:
                self._failures = [Failure.of(i, err) for i in indices]
                self._back, indices = indices, []
            for k, i in enumerate(indices):
                try:
                    self.act(verb, k, i, arguments)
                except BaseException as err:  # sys.exit() in an environment counts as a failure
                    self._failures.append(Failure.of(i, err))
                self._back.append(i)
                if self._job.each:
                    self._say()
            if self._back:
                self._say()

    def _say(self) -> None:
        self._conn.send_bytes(pickle.dumps((self._back, self._notes, self._observations, self._failures)))
        self._back, self._notes, self._observations, self._failures = [], [], [], []

    def close(self) -> None:
        for env in self.envs.values():
            try:
                env.close()
            except Exception:
                traceback.print_exc()  # the parent no longer reads the pipe


def _learn(registered: bytes) -> None:
    """Registers the entries of _spawn.registered with Gymnasium."""
    specs, names = pickle.loads(registered)
    for known, new in ((vars(sys.modules["__main__"]), names), (gymnasium.registry, specs)):
        for name, value in new.items():
            try:
                known[name] = pickle.loads(value)
            except Exception:
                continue  # an environment that needs it fails later with a clear error


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception:
        # cloudpickle is slower, but can pickle objects of classes that a script or a notebook
        # defines.
        return bytes(cloudpickle.dumps(value))
