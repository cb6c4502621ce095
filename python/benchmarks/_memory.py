"""The memory of a run's processes over time, and that of Ray's own."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ray_costs import processes

Samples = list[tuple[float, float]]  # seconds and megabytes
EVERY = 10.0  # seconds between two samples; the samples are memory of the driver


class Memory:
    """Samples of the processes of a run and of all other descendants of this process, which are Ray's."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._next = clock, 0.0
        self._own: dict[tuple[str, int], Samples] = {}  # by part and pid
        self._ray: Samples = []

    def look(self, pids: Mapping[str, int | None]) -> None:
        """Takes a sample if one is due. pids: of the run's processes, such as "bundle/0"."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + EVERY
        own = {pid: name.partition("/")[0] for name, pid in pids.items() if pid} | {os.getpid(): "driver"}
        for pid, part in own.items():
            if held := megabytes(pid):
                self._own.setdefault((part, pid), []).append((now, held))
        self._ray.append((now, sum(map(megabytes, set(processes(os.getpid())) - own.keys()))))

    def slopes(self, least: float = 600.0) -> dict[str, list[float]]:
        """Megabytes an hour of each process that has lived longer than some seconds, by part."""
        found: dict[str, list[float]] = {}
        for (part, _), samples in sorted(self._own.items()):
            if samples[-1][0] - samples[0][0] > least:
                found.setdefault(part, []).append(slope(samples))
        return found

    def ray(self) -> dict[str, float]:
        """Megabytes of Ray's processes at the end, and how much more in an hour."""
        return {"megabytes": self._ray[-1][1], "slope": slope(self._ray)}


def megabytes(pid: int) -> float:
    """The memory that a process has alone, without the object store and files; 0 if it has ended."""
    try:
        resident, shared = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
    except OSError:
        return 0.0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE") / 1e6


def slope(samples: Samples) -> float:
    """Megabytes an hour: the regression line of the second half of the samples."""
    late = samples[len(samples) // 2 :]
    t, m = statistics.fmean(s[0] for s in late), statistics.fmean(s[1] for s in late)
    squares = sum((s[0] - t) ** 2 for s in late)
    return 3600 * sum((s[0] - t) * (s[1] - m) for s in late) / squares if squares else 0.0
