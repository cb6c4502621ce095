"""A worker process in a new interpreter that does not import the caller's main module.

A child of multiprocessing runs the main module again. A script then needs a guard, and standard
input, `python -c` or a notebook cannot be run again. The processes here get multiprocessing's
command line, search path, arguments, key and resource tracker, without that import. Objects of the
main module are sent to them: Job.functions by cloudpickle, and `registered`.
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
_MAIN = ("__main__", "__mp_main__")  # the latter is the main module's name in children of multiprocessing


class Spawned:
    """The part of multiprocessing.Process that _crew uses."""

    def __init__(self, conn: Connection, job: Job, name: str) -> None:
        if spawn.is_forking(sys.argv):
            raise ConfigError(f"workers: this is the process of a worker, and {_program()} {_BEGINS}")
        if not _program():
            raise ConfigError("workers: sys.executable is empty, must be set: multiprocessing.set_executable names an interpreter")
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
        # A process that has ended already is detected by the end of its other pipe.
        with contextlib.suppress(BrokenPipeError), open(write, "wb") as pipe:
            pipe.write(start)

    @property
    def exitcode(self) -> int | None:
        """None while the process runs; minus the signal that ended it."""
        return self._popen.poll()

    def join(self, timeout: float | None = None) -> None:
        """Waits for the process's end, for at most timeout seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(timeout)

    def close(self) -> None:
        """Does nothing, because join has released the process."""


class _Start(NamedTuple):
    """The object that multiprocessing's command line reads after the preparation data and runs."""

    fd: int
    job: Job

    def _bootstrap(self, parent_sentinel: int) -> int:
        os.close(parent_sentinel)
        _worker.main(Connection(self.fd), self.job)
        return 0


def hint() -> str:
    """The end of an error message if the program that multiprocessing starts is no Python interpreter, else ""."""
    python = not getattr(sys, "frozen", False) and "python" in os.path.basename(_program())
    return "" if python else f": {_program()}, which starts worker processes, must be a Python interpreter; a frozen program {_BEGINS}"


def _program() -> str:
    return os.fsdecode((sys.executable if getattr(sys, "frozen", False) else spawn.get_executable()) or "")


def pickled(value: Any) -> bytes:
    """cloudpickle.dumps that pickles the main module's objects by value, in children of multiprocessing as well."""
    main = sys.modules["__main__"]
    if main.__name__ != _MAIN[1] or main.__name__ in cloudpickle.list_registry_pickle_by_value():
        return bytes(cloudpickle.dumps(value))
    cloudpickle.register_pickle_by_value(main)
    try:
        return bytes(cloudpickle.dumps(value))
    finally:
        cloudpickle.unregister_pickle_by_value(main)


def registered() -> bytes:
    """Gymnasium's registry for Job.registered: ({id: spec}, {name: object of the main module that specs name}).

    Each entry is pickled alone; an entry that cannot be pickled is left out.
    """
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
