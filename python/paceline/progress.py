"""The progress line of learn."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping

RATE_SECONDS = 10.0


class Rate:
    """The growth of a count per second over the last ten seconds.

    It is the slope of the regression line through all samples. The difference of two samples would
    fluctuate, because methods take steps and updates in bursts.
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()

    def add(self, seconds: float, count: float) -> None:
        """Adds a sample. seconds must be later than in earlier samples."""
        self._samples.append((seconds, count))
        while len(self._samples) > 2 and self._samples[0][0] < seconds - RATE_SECONDS:
            self._samples.popleft()

    def per_second(self) -> float:
        """The rate; NaN with fewer than two samples. At least two samples count, however old."""
        n = len(self._samples)
        mean_time = sum(seconds for seconds, _ in self._samples) / max(n, 1)
        squares = sum((seconds - mean_time) ** 2 for seconds, _ in self._samples)
        if squares <= 0:
            return math.nan
        return sum((seconds - mean_time) * count for seconds, count in self._samples) / squares


class ProgressLine:
    """A line with steps, steps/s, updates/s, mean return, elapsed and remaining time, epsilon and loss.

    The rates are of the last ten seconds, the return of the latest episodes. epsilon and loss
    appear if the method has them. On a terminal the line is rewritten in place ten times a second;
    elsewhere a new line is written every ten seconds.
    """

    def __init__(
        self, total: int, label: str, stats: Callable[[], Mapping[str, float]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """stats: returns a model's current stats."""
        self.total, self.label, self._stats, self._clock = total, label, stats, clock
        self._out = sys.stderr  # None if it was closed: no line is written
        self._live = self._out is not None and self._out.isatty()
        self._period = 0.1 if self._live else RATE_SECONDS
        self._began = self._sampled = self._wrote = clock()
        self._steps, self._updates = Rate(), Rate()
        self._sample(self._began, stats())
        self._written = -1
        self._width = 0

    def update(self) -> None:
        """Writes the line if it is due."""
        now = self._clock()
        if self._out is None or now < self._sampled + 0.1:
            return
        stats = self._stats()
        self._sample(now, stats)
        if now >= self._wrote + self._period:
            self._write(now, stats)

    def _sample(self, now: float, stats: Mapping[str, float]) -> None:
        self._sampled = now
        self._steps.add(now, stats["num_timesteps"])
        self._updates.add(now, stats["updates"])

    def _write(self, now: float, stats: Mapping[str, float]) -> None:
        steps, rate = int(stats["num_timesteps"]), self._steps.per_second()
        self._wrote, self._written = now, steps
        passed = _time(now - self._began)
        if steps < self.total and rate > 0:
            passed += f", {_time((self.total - steps) / rate)} left"
        text = (
            f"{self.label:<12} {steps:>9,} / {self.total:,} steps  {_number(rate, ',.0f'):>7} steps/s  "
            f"{_number(self._updates.per_second(), ',.0f'):>5} updates/s  return {_number(stats['mean_return'], '.2f'):>7}  {passed}"
        )
        for name, form in (("epsilon", ".3f"), ("loss", ".5f")):
            if name in stats:
                text += f"  {name} {_number(stats[name], form)}"
        if self._live:
            # "\r" cannot rewrite a line that wraps, so the line must fit into the terminal.
            text = text[: shutil.get_terminal_size().columns - 1]
            self._out.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._out.write(text + "\n")
        self._out.flush()

    def close(self) -> None:
        """Writes the line again if steps were taken since, and ends it."""
        if self._out is None:
            return
        now, stats = self._clock(), self._stats()
        if stats["num_timesteps"] != self._written:
            self._sample(now, stats)
            self._write(now, stats)
        if self._live:
            self._out.write("\n")
            self._out.flush()


def _time(seconds: float) -> str:
    """A duration as 1:02:03 or 2:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
