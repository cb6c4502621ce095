"""The learning curve that learn records and paceline.plots draws."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

MOST = 1000  # points; above that, every other point is dropped


class LearningCurve:
    """The points of one run in the order of time: model.learning_curve.

    title: the environment and the method. seconds: time in learn, evaluations included, without the
    time between two calls. steps: steps of all environments together. returns: the mean return of
    the latest stats_window_size (100) episodes, NaN before the first episode has ended.
    evaluations: (seconds, steps, mean return) of each evaluation.
    """

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.title = title
        self.seconds: list[float] = []
        self.steps: list[int] = []
        self.returns: list[float] = []
        self.evaluations: list[tuple[float, int, float]] = []
        self._clock = clock
        self._began = 0.0
        self._interval = 0.05  # seconds between two points, doubled when points are dropped

    def resume(self) -> None:
        """Continues the time from the last point."""
        self._began = self._clock() - (self.seconds[-1] if self.seconds else 0.0)

    def add(self, steps: int, mean_return: float, *, last: bool = False) -> None:
        """Adds a point, unless the previous one is too recent. last: adds it in any case."""
        now = self._clock() - self._began
        if self.seconds and now < self.seconds[-1] + self._interval and not last:
            return
        self.seconds.append(now)
        self.steps.append(steps)
        self.returns.append(mean_return)
        if len(self.seconds) > MOST:
            self.seconds, self.steps, self.returns = self.seconds[::2], self.steps[::2], self.returns[::2]
            self._interval *= 2

    def add_evaluation(self, steps: int, mean_return: float) -> None:
        self.evaluations.append((self._clock() - self._began, steps, mean_return))

    def seconds_at(self, steps: float) -> float:
        """The time at which `steps` steps had been taken."""
        return float(np.interp(steps, self.steps, self.seconds))
