"""One line that reports how learning goes, rewritten in place."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import TextIO

RATE_SECONDS = 5.0


class ProgressLine:
    """Steps, steps/s (of the last few seconds), return, and epsilon and loss where the method has them.

    On a terminal the line is rewritten in place ten times a second; elsewhere a
    new one is written every five seconds.
    """

    def __init__(self, total: int, start: int = 0, label: str = "", out: TextIO | None = None) -> None:
        self.total, self.label = total, label
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._period = 0.1 if self._live else 5.0
        self._recent: deque[tuple[float, int]] = deque([(time.monotonic(), start)])
        self._next = self._recent[0][0] + self._period
        self._written = -1
        self._width = 0

    def due(self) -> bool:
        """Whether update would write a line now."""
        return time.monotonic() >= self._next

    def update(self, stats: Mapping[str, float]) -> None:
        """Writes the line; stats: a model's."""
        now, steps = time.monotonic(), int(stats["num_timesteps"])
        self._next, self._written = now + self._period, steps
        recent = self._recent
        while len(recent) > 1 and now - recent[1][0] > RATE_SECONDS:
            recent.popleft()
        rate = (steps - recent[0][1]) / max(now - recent[0][0], 1e-9)
        recent.append((now, steps))
        text = (
            f"{self.label:<12} {steps:>9,} / {self.total:,} steps  {rate:>7,.0f} steps/s  return {_number(stats['mean_return'], '8.2f'):>8}"
        )
        for name, form in (("epsilon", ".3f"), ("loss", ".5f")):
            if name in stats:
                text += f"  {name} {_number(stats[name], form)}"
        if self._live:
            self._out.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._out.write(text + "\n")
        self._out.flush()

    def close(self, stats: Mapping[str, float]) -> None:
        """Writes the line a last time, where steps have been taken since, and ends it."""
        if stats["num_timesteps"] != self._written:
            self.update(stats)
        if self._live:
            self._out.write("\n")
            self._out.flush()


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else format(value, form)
