"""Stepper, which steps a few environments one after another, and the process of workers.py that is one.

Table is memory that both sides see, row i for environment i. A row belongs to
one side at a time: to the worker from the message that sends environment i off
until the message that says it is back, to the parent otherwise. So nothing is
locked, and observations, actions, rewards and flags are written once. Infos,
and whatever has no fixed size (text, graphs, sequences), go by the pipe.

A message to the worker is (verb, environments, payload), the payload pickled on
its own so that one that cannot be read is the fault of those environments and not
the end of the process. One of them, "memory", is followed by Table's file
descriptor. A message from it is (environments that are back, notes,
observations, failures). The pipe's end is the worker's end.
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

from . import _table
from ._table import Table


class Made(NamedTuple):
    """What a worker says once it has made its environments."""

    metadata: dict[str, Any]
    render_mode: str | None
    # (environment, observation space, action space) of its first, and of each that differs from it.
    spaces: list[tuple[int, Any, Any]]


class Failure(NamedTuple):
    """An environment that raised: one line, and the traceback."""

    environment: int
    text: str
    trace: str
    cause: BaseException | None = None  # where it was raised in this process

    @classmethod
    def of(cls, environment: int, err: BaseException) -> Failure:
        text = " ".join("".join(traceback.format_exception_only(err)).split())
        return cls(environment, text, "".join(traceback.format_exception(err)))


class Job(NamedTuple):
    """What a worker is started with."""

    functions: bytes
    first: int
    num_envs: int
    autoreset: str
    # Says after each environment that it is back, not once for all of a message.
    each: bool
    # Of a new interpreter: see _spawn.registered. b"": it knows everything.
    registered: bytes = b""


# The parents' ends of all pipes. A forked worker holds copies, which would keep pipes open.
ends: weakref.WeakSet[Connection] = weakref.WeakSet()


def main(conn: Connection, job: Job) -> None:
    """The process."""
    # Ctrl-C goes to every process of a terminal, and it is the parent's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for end in list(ends):
        end.close()
    worker = _Worker(conn, job)
    try:
        if worker.make():
            worker.serve()
    except (EOFError, OSError):
        pass  # the parent has closed the pipe, or is gone
    finally:
        worker.close()


class Stepper:
    """Environments by their numbers, which write into the table what has a row there, and say the rest by note and show."""

    def __init__(self, autoreset: str) -> None:
        self.envs: dict[int, gymnasium.Env[Any, Any]] = {}
        self._autoreset = autoreset
        self._verbs: dict[str, Callable[..., None]] = {
            "step": self._step, "reset": self._reset, "call": self._call, "set_attr": self._set_attr,
        }  # fmt: skip

    def note(self, i: int, value: Any) -> None:
        """Says something of environment i: the info of a step, the answer to a call."""
        raise NotImplementedError

    def show(self, i: int, obs: Any) -> None:
        """Says an observation that has no row."""
        raise NotImplementedError

    def keep(self, obs: Any) -> Any:
        """An observation that a reset must not change any more."""
        raise NotImplementedError

    def add(self, i: int, function: Callable[[], Any]) -> None:
        """Makes environment i."""
        env = function()
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"the function returned {type(env).__name__}, must be a gymnasium.Env")
        self.envs[i] = env

    def describe(self) -> Made:
        """What the environments are, once all are made."""
        kinds = [(i, env.observation_space, env.action_space) for i, env in self.envs.items()]
        differing = [kind for kind in kinds[1:] if kind[1:] != kinds[0][1:]]
        first = self.envs[kinds[0][0]]
        return Made(dict(first.metadata or {}), first.render_mode, [kinds[0], *differing])

    def use(self, table: Table) -> None:
        """Steps and resets write there from now on."""
        self._table = table
        self._views = None
        if table.obs is not None:
            self._views = {i: _table.each(table.obs, lambda rows: rows[i, ...]) for i in self.envs}  # noqa: B023 - called at once
        self._ended = dict.fromkeys(self.envs, False)

    def act(self, verb: str, k: int, i: int, arguments: tuple[Any, ...]) -> None:
        """Does what a message asks, in environment i, the k-th of the message's."""
        self._verbs[verb](k, i, *arguments)

    def _step(self, k: int, i: int, actions: Any = None) -> None:
        env = self.envs[i]
        if self._ended[i] and self._autoreset == "next_step":
            obs, info = env.reset()
            self._ended[i] = False
            self._put(i, obs, 0.0, False, False, info)
            return
        # Copied: an environment may keep its action.
        action = _table.each(self._table.actions, lambda rows: rows[i].copy()) if actions is None else actions[k]
        obs, reward, terminated, truncated, info = env.step(action)
        ended = self._ended[i] = bool(terminated or truncated)
        if ended and self._autoreset == "same_step":
            # Kept before the reset, which may write into the same arrays.
            self.note(i, {"final_obs": self.keep(obs), "final_info": info})
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
    """The Stepper of a process; what it says is pickled at once."""

    def __init__(self, conn: Connection, job: Job) -> None:
        super().__init__(job.autoreset)
        self._conn, self._job = conn, job
        # What the next message will say.
        self._back: list[int] = []
        self._notes: list[tuple[int, bytes]] = []
        self._observations: list[tuple[int, bytes]] = []
        self._failures: list[Failure] = []

    def note(self, i: int, value: Any) -> None:
        self._notes.append((i, _pickled(value)))

    def show(self, i: int, obs: Any) -> None:
        self._observations.append((i, _pickled(obs)))

    def keep(self, obs: Any) -> Any:
        return obs

    def make(self) -> bool:
        """Makes the environments and maps the table; false after a failure, which is reported."""
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
                except BaseException as err:  # sys.exit() in an environment is its failure too
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
                traceback.print_exc()  # nobody listens any more


def _learn(registered: bytes) -> None:
    """Takes over _spawn.registered."""
    specs, names = pickle.loads(registered)
    for known, new in ((vars(sys.modules["__main__"]), names), (gymnasium.registry, specs)):
        for name, value in new.items():
            try:
                known[name] = pickle.loads(value)
            except Exception:
                continue  # an environment that needs it says so


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception:
        # Slower; takes objects of classes that came with the function, of a script or a notebook.
        return bytes(cloudpickle.dumps(value))
