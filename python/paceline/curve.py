"""How the return grew while a model learnt: what learn records, and paceline.plots draws."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

MOST = 1000  # points; when there are more, every other one is dropped


class LearningCurve:
    """Points of one run in the order of time: model.learning_curve.

    title: what learnt what. seconds: since learn was called, evaluations included and the time between two calls of
    learn not. steps: of all environments together. returns: the mean return of the latest stats_window_size (100)
    episodes, NaN before the first has ended. evaluations: (seconds, steps, mean return) of each.
    """

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.title = title
        self.seconds: list[float] = []
        self.steps: list[int] = []
        self.returns: list[float] = []
        self.evaluations: list[tuple[float, int, float]] = []
        self._clock = clock
        self._began = 0.0
        self._apart = 0.05  # seconds between two points, doubled whenever there are too many

    def resume(self) -> None:
        """Goes on measuring time where the last point was."""
        self._began = self._clock() - (self.seconds[-1] if self.seconds else 0.0)

    def add(self, steps: int, mean_return: float, *, last: bool = False) -> None:
        """A point now, unless one was added shortly before; last: in any case."""
        now = self._clock() - self._began
        if self.seconds and now < self.seconds[-1] + self._apart and not last:
            return
        self.seconds.append(now)
        self.steps.append(steps)
        self.returns.append(mean_return)
        if len(self.seconds) > MOST:
            self.seconds, self.steps, self.returns = self.seconds[::2], self.steps[::2], self.returns[::2]
            self._apart *= 2

    def add_evaluation(self, steps: int, mean_return: float) -> None:
        self.evaluations.append((self._clock() - self._began, steps, mean_return))

    def seconds_at(self, steps: float) -> float:
        """When so many steps had been taken."""
        return float(np.interp(steps, self.steps, self.seconds))
