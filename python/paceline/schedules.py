"""Learning rates: a number, a straight line over the run, or a function of the remaining progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .errors import ConfigError, notice


class Linear(NamedTuple):
    """A value that goes from start to end on a straight line; see linear()."""

    start: float
    end: float


Schedule = float | str | tuple[float, float] | Linear | Callable[[float], float]

Points = list[tuple[float, float]]
"""Values at shares of a run, ascending from 0 to 1, with straight lines between them."""

MOST = 2048  # points that the library takes


def linear(start: float, end: float = 0.0) -> Linear:
    """A learning rate that goes from start to end, from step 0 to the end of the run; see learn's total_timesteps."""
    return Linear(float(start), float(end))


def points(name: str, value: Any) -> Points:
    """A schedule as points: one for a constant, two for a straight line.

    Accepts a number, (start, end), rl-zoo's "lin_0.001" (falls to 0), and
    Stable-Baselines3's functions of the remaining progress (1 down to 0). Lines
    follow a function to 5e-4 of its value, or as near as 2,048 points come to it; at a jump they are 1e-9 of the run wide.
    """
    if isinstance(value, tuple) and len(value) == 2:
        return [(0.0, _number(name, value[0])), (1.0, _number(name, value[1]))]
    if isinstance(value, str) and value.startswith("lin_"):
        return [(0.0, _number(name, value[4:])), (1.0, 0.0)]
    if callable(value):
        return _sampled(name, value)
    return [(0.0, _number(name, value))]


def by_progress(at: Points) -> Callable[[float], float]:
    """Points as a function of the remaining progress."""
    import numpy as np  # here, as importing the package imports no NumPy

    shares, values = zip(*at)
    return lambda progress_remaining: float(np.interp(1 - progress_remaining, shares, values))


def of_settings(setting: Callable[[str], str], name: str) -> Schedule:
    """The schedule that the library's settings of a name stand for: a number, a straight line, or a function."""
    first, last, curve = float(setting(name)), setting(f"{name}_final"), setting(f"{name}_schedule")
    if curve:
        shares_and_values = (point.split(":") for point in curve.split(","))
        return by_progress([(float(share), float(value)) for share, value in shares_and_values])
    return linear(first, float(last)) if last else first


def _sampled(name: str, function: Callable[[float], Any]) -> Points:
    """Lines within 5e-4 of a function's value; where that takes too many, as near as MOST points come, which a warning reports."""

    def at(share: float) -> float:
        value = _number(name, function(1.0 - share))
        if not math.isfinite(value):
            raise ConfigError(f"{name}: the function given is {value} at a remaining progress of {1.0 - share:g}, must be finite")
        return value

    largest = max(abs(at(k / 1000)) for k in range(1001))

    def close(y: float) -> float:
        return 5e-4 * abs(y) + 1e-10 * largest

    out = _lines(at, close, merged=False) or _lines(at, close, merged=True)
    for share in _SHARES:
        if out is None and (out := _lines(at, lambda y, off=share * largest: off, merged=True)) is not None:  # type: ignore[misc]
            notice(
                f"{name}: the function given bends often: {len(out)} points with straight lines between them stand for it, "
                f"which are up to about {100 * share:g} % of its largest value ({largest:g}) away from it",
            )
    if out is None:
        raise ConfigError(f"{name}: the function given bends too often, must be near {MOST - 1} straight lines")
    return out[:1] if len(out) == 2 and out[0][1] == out[1][1] else out


_SHARES = (5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the largest value, how far off lines may be


def _lines(at: Callable[[float], float], allowed: Callable[[float], float], merged: bool) -> Points | None:
    """Halves the run where a straight line is further from the function than allowed for its value, at 1,000 shares of it;
    None where it takes more than MOST points. merged: without points in the middle of a constant stretch."""

    def near(a: float, first: float, b: float, last: float) -> bool:
        checks = max(3, int(1000 * (b - a)))
        inner = ((at(a + (b - a) * k / checks), first + (last - first) * k / checks) for k in range(1, checks))
        return b - a < 1e-9 or all(abs(line - y) <= allowed(y) for y, line in inner)

    out: Points = [(0.0, at(0.0))]
    ends = [(1.0, at(1.0))]  # of the parts to do, the next one last
    while ends:
        if near(*out[-1], *ends[-1]):
            out.append(ends.pop())
            if merged and len(out) > 2 and out[-3][1] == out[-2][1] == out[-1][1]:
                del out[-2]
            if len(out) > MOST:
                return None
        else:
            middle = (out[-1][0] + ends[-1][0]) / 2
            ends.append((middle, at(middle)))
    return out


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name}: {value!r}, must be a number, a pair (start, end), 'lin_<start>' or a function of the remaining progress"
        ) from None
