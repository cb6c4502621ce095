"""Learning rates: a number, a straight line over the run, or a function of the remaining progress."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .errors import ConfigError, notice


class Linear(NamedTuple):
    """A schedule that goes from start to end on a straight line; see linear()."""

    start: float
    end: float


Schedule = float | str | tuple[float, float] | Linear | Callable[[float], float]

Points = list[tuple[float, float]]
"""(share of the run, value) pairs; shares ascend from 0 to 1, with straight lines between the points."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """Points as a function of the remaining progress, which goes from 1 to 0."""

    at: tuple[tuple[float, float], ...]

    def __call__(self, progress_remaining: float) -> float:
        import numpy as np  # import paceline must not import NumPy

        shares, values = zip(*self.at)
        return float(np.interp(1 - progress_remaining, shares, values))


MOST = 2048  # the library's limit of points


def linear(start: float, end: float = 0.0) -> Linear:
    """A schedule that goes from start at step 0 to end at the end of the run; see learn's total_timesteps."""
    return Linear(float(start), float(end))


def points(name: str, value: Any) -> Points:
    """The points of a schedule: one for a constant, two for a straight line.

    value: a number, (start, end), rl-zoo's "lin_0.001" (falls to 0), or a stable-baselines3
    function of the remaining progress, which goes from 1 to 0. The lines follow a function within
    5e-4 of its value, or as closely as 2,048 points allow. A jump becomes a line of 1e-9 of the
    run.
    """
    if isinstance(value, Curve):
        return list(value.at)
    if isinstance(value, tuple) and len(value) == 2:
        return [(0.0, _number(name, value[0], value)), (1.0, _number(name, value[1], value))]
    if isinstance(value, str) and value.startswith("lin_"):
        return [(0.0, _number(name, value[4:], value)), (1.0, 0.0)]
    if callable(value):
        return _sampled(name, value)
    return [(0.0, _number(name, value, value))]


def function(name: str, value: Schedule) -> Callable[[float], float]:
    """A schedule as a function of the remaining progress, which goes from 1 to 0."""
    return value if callable(value) else Curve(tuple(points(name, value)))


def of_settings(setting: Callable[[str], str], name: str, last: str = "") -> Schedule:
    """The schedule in the library's settings of a name: a number, a straight line to last or a function."""
    if curve := setting(f"{name}_schedule"):  # the number may be empty then
        shares_and_values = (point.split(":") for point in curve.split(","))
        return Curve(tuple((float(share), float(value)) for share, value in shares_and_values))
    first = float(setting(name))
    return linear(first, float(last)) if last else first


def _sampled(name: str, function: Callable[[float], Any]) -> Points:
    """Lines within 5e-4 of a function's value, or else the closest with MOST points, which a warning reports."""

    def at(share: float) -> float:
        returned = function(1.0 - share)
        value = _number(name, returned, returned)
        if not math.isfinite(value):
            raise ConfigError(f"{name}: the function is {value} at a remaining progress of {1.0 - share:g}, must be finite")
        return value

    largest = max(abs(at(k / 1000)) for k in range(1001))

    def close(y: float) -> float:
        return 5e-4 * abs(y) + 1e-10 * largest

    out = _lines(at, close, merged=False) or _lines(at, close, merged=True)
    for share in _SHARES:
        if out is None and (out := _lines(at, lambda y, off=share * largest: off, merged=True)) is not None:  # type: ignore[misc]
            notice(
                f"{name}: the function bends often: {len(out)} points with straight lines between them replace it, "
                f"with an error of up to about {100 * share:g} % of its largest value ({largest:g})",
            )
    if out is None:
        raise ConfigError(f"{name}: the function bends too often, must be close to at most {MOST - 1} straight lines")
    return out[:1] if len(out) == 2 and out[0][1] == out[1][1] else out


_SHARES = (5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # errors to try, as shares of the largest value


def _lines(at: Callable[[float], float], allowed: Callable[[float], float], merged: bool) -> Points | None:
    """Bisects the run until each straight line is within allowed(value) of the function, checked at 1,000 shares.

    Returns None if that needs more than MOST points. merged: drops points inside a constant
    stretch.
    """

    def near(a: float, first: float, b: float, last: float) -> bool:
        checks = max(3, int(1000 * (b - a)))
        inner = ((at(a + (b - a) * k / checks), first + (last - first) * k / checks) for k in range(1, checks))
        return b - a < 1e-9 or all(abs(line - y) <= allowed(y) for y, line in inner)

    out: Points = [(0.0, at(0.0))]
    ends = [(1.0, at(1.0))]  # a stack of the ends of open parts
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


def _number(name: str, value: Any, given: Any) -> float:
    """value, which is given or a part of it, as a float."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name}: {given!r}, must be a number, a pair (start, end), 'lin_<start>' or a function of the remaining progress"
        ) from None
