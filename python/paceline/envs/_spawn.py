"""A worker's process, in a new interpreter that never imports the caller's main module.

multiprocessing's own children run the main module again: a script then needs a guard, and
standard input, `python -c` and a notebook cannot be run again. Ours begin with multiprocessing's
command line, search path, arguments, key and resource tracker, and with that import left out.
What a worker needs of the main module is carried: Job.functions by cloudpickle, and `registered`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from multiprocessing import resource_tracker, spawn
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle
import gymnasium

from ..errors import ConfigError
from . import _worker
from ._worker import Job

_BEGINS = "must call multiprocessing.freeze_support() before anything else"
_MAIN = ("__main__", "__mp_main__")  # the latter is its name in children of multiprocessing's


class Spawned:
    """What _crew uses of multiprocessing.Process."""

    def __init__(self, conn: Connection, job: Job, name: str) -> None:
        if spawn.is_forking(sys.argv):
            raise ConfigError(f"workers: this is the process of a worker, and {_program()} {_BEGINS}")
        if not _program():
            raise ConfigError("workers: sys.executable is not known; multiprocessing.set_executable names an interpreter for them")
        data = spawn.get_preparation_data(name)
        data = {key: value for key, value in data.items() if not key.startswith("init_main")}
        data["authkey"] = bytes(data["authkey"])
        start = pickle.dumps(data) + pickle.dumps(_Start(conn.fileno(), job))
        tracker: Any = resource_tracker.getfd()
        read, write = os.pipe()
        try:
            command = spawn.get_command_line(tracker_fd=tracker, pipe_handle=read)
            self._popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(read, tracker, conn.fileno()))
        except BaseException:
            os.close(write)
            raise
        finally:
            os.close(read)
        self.pid, self.kill, self.terminate = self._popen.pid, self._popen.kill, self._popen.terminate
        # If the process has ended already, the end of its other pipe shows it.
        with contextlib.suppress(BrokenPipeError), open(write, "wb") as pipe:
            pipe.write(start)

    @property
    def exitcode(self) -> int | None:
        """None while it runs; minus the signal that ended it."""
        return self._popen.poll()

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end, for so many seconds at most."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout)

    def close(self) -> None:
        """Does nothing: it has been waited for."""


class _Start(NamedTuple):
    """What multiprocessing's command line reads behind the preparation, and runs."""

    fd: int
    job: Job

    def _bootstrap(self, parent_sentinel: int) -> int:
        os.close(parent_sentinel)
        _worker.main(Connection(self.fd), self.job)
        return 0


def hint() -> str:
    """Why a process may have ended before it began: what multiprocessing starts is no Python."""
    python = not getattr(sys, "frozen", False) and "python" in os.path.basename(_program())
    return "" if python else f": {_program()}, which is started as one, is no Python interpreter; if it is a frozen program, it {_BEGINS}"


def _program() -> str:
    return os.fsdecode((sys.executable if getattr(sys, "frozen", False) else spawn.get_executable()) or "")


def pickled(value: Any) -> bytes:
    """cloudpickle.dumps, by which what the main module defines goes by value, in children of multiprocessing's, too."""
    main = sys.modules["__main__"]
    if main.__name__ != _MAIN[1] or main.__name__ in cloudpickle.list_registry_pickle_by_value():
        return bytes(cloudpickle.dumps(value))
    cloudpickle.register_pickle_by_value(main)
    try:
        return bytes(cloudpickle.dumps(value))
    finally:
        cloudpickle.unregister_pickle_by_value(main)


def registered() -> bytes:
    """What is registered with Gymnasium, for Job.registered: ({id: spec}, {name: object of the main module that specs mean by
    it}), each pickled alone. What cannot be pickled is left out."""
    specs, main = dict(gymnasium.registry), vars(sys.modules["__main__"])
    points = {
        point.partition(":")[2]
        for spec in specs.values()
        for point in (spec.entry_point, spec.vector_entry_point, *(wrapper.entry_point for wrapper in spec.additional_wrappers))
        if isinstance(point, str) and point.partition(":")[0] in _MAIN
    }
    return pickle.dumps((_each(specs), _each({name: main[name] for name in points & main.keys()})))


def _each(values: dict[str, Any]) -> dict[str, bytes]:
    out = {}
    for name, value in values.items():
        try:
            out[name] = pickled(value)
        except Exception:
            continue
    return out
