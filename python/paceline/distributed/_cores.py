"""Cores of a machine for learners alone (setting pin).

A learner computes all the time, and the threads of Ray and of shards wake thousands of times a second. Where they
share a core with a learner, each of them interrupts it. So a bundle claims cores. The learner's thread stays on
these cores, and the other threads of bundles and shards stay on the rest.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable
from typing import Any

from ..errors import ConfigError


def check(pin: Any) -> bool:
    """The setting pin; raises ConfigError."""
    if not isinstance(pin, bool):
        raise ConfigError(f"pin: {pin!r}, must be True or False")
    if pin and not hasattr(os, "sched_setaffinity"):
        raise ConfigError("pin: True, must be False on an operating system that does not bind threads to cores")
    return pin


class Claims:
    """The claims of all runs on a machine: a locked file for each core.

    The kernel unlocks the files of a process that ends, however it ends.
    """

    def __init__(self, folder: str | None = None, cores: Iterable[int] | None = None) -> None:
        """cores: those that the process may use; None: those of the calling thread."""
        self._folder = folder or tempfile.gettempdir()
        self.cores = sorted(os.sched_getaffinity(0) if cores is None else cores)
        self._held: dict[int, int] = {}  # files that are locked, by core

    def claim(self, count: int) -> set[int]:
        """Claims count cores; none if no core would be left for other threads."""
        self.release()
        lock = self._lock("all", wait=True)
        try:
            for core in self.cores:
                if len(self._held) <= count and (file := self._lock(str(core))) is not None:
                    self._held[core] = file
            if len(self._held) <= count:
                self.release()
            else:
                os.close(self._held.popitem()[1])  # the one that is left
            return set(self._held)
        finally:
            if lock is not None:
                os.close(lock)

    def rest(self) -> set[int]:
        """The cores without a claim; all of them if every core has one."""
        free = set()
        lock = self._lock("all", wait=True)
        for core in self.cores:
            if (file := self._lock(str(core))) is not None:
                free.add(core)
                os.close(file)
        if lock is not None:
            os.close(lock)
        return free or set(self.cores)

    def release(self) -> None:
        while self._held:
            os.close(self._held.popitem()[1])

    def _lock(self, what: str, wait: bool = False) -> int | None:
        """A file that this process has locked; None if another one has, or if the file cannot be opened."""
        path = os.path.join(self._folder, f"paceline-core-{what}.lock")
        try:
            try:
                file = os.open(path, os.O_RDONLY)  # also where another user has made it
            except FileNotFoundError:
                file = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            os.close(file)
            return None
        return file


def stay(cores: set[int], thread: int = 0) -> None:
    """Binds a thread, by default the caller's, to cores. What it starts from then on is bound, too."""
    try:
        os.sched_setaffinity(thread, cores)
    except OSError:  # the thread has ended, or the cores are no longer allowed
        return


def all_stay(cores: set[int], but: int = 0) -> None:
    """Binds all threads of the process to cores, but one."""
    for thread in map(int, os.listdir("/proc/self/task")):
        if thread != but:
            stay(cores, thread)
