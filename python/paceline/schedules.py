"""Learning rates: a number, or a straight line over the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .errors import ConfigError


class Linear(NamedTuple):
    """A value that goes from start to end on a straight line; see linear()."""

    start: float
    end: float


Schedule = float | str | tuple[float, float] | Linear | Callable[[float], float]


def linear(start: float, end: float = 0.0) -> Linear:
    """A learning rate that goes from start to end over the run."""
    return Linear(float(start), float(end))


def line(name: str, value: Any) -> tuple[float, float | None]:
    """The (start, end) of a schedule; end is None for a constant.

    Accepts a number, (start, end), rl-zoo's "lin_0.001" (falls to 0), and
    Stable-Baselines3's functions of the remaining progress (1 down to 0) as
    long as they are straight lines.
    """
    if isinstance(value, tuple) and len(value) == 2:
        return _number(name, value[0]), _number(name, value[1])
    if isinstance(value, str) and value.startswith("lin_"):
        return _number(name, value[4:]), 0.0
    if callable(value):
        start, end = float(value(1.0)), float(value(0.0))
        for progress in (0.9, 0.75, 0.5, 0.25, 0.1):
            expected = end + (start - end) * progress
            if not math.isclose(value(progress), expected, rel_tol=1e-6, abs_tol=1e-12):
                raise ConfigError(
                    f"{name}: the function given is {value(progress):g} at progress {progress:g} where a straight "
                    f"line from {start:g} to {end:g} is {expected:g}: only straight lines are supported"
                )
        return start, (None if start == end else end)
    return _number(name, value), None


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{name}: {value!r}, must be a number, a pair (start, end), 'lin_<start>' or a straight-line function") from None
