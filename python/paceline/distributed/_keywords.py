"""Keywords of a bundle's model: what every process and a checkpoint can have."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..schedules import Curve, Linear, points

_SCHEDULES = ("learning_rate", "clip_range", "clip_range_vf")
_TUPLE, _CURVE = "tuple()", "Curve()"  # keys of the objects that stand for these in JSON


def plain(name: str, value: Any) -> Any:
    """The value in Python's own numbers, texts, lists, tuples and dicts; a function of the remaining progress is a schedule.

    Other objects raise ConfigError: a checkpoint, which has no pickles, could not have them.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str, Linear, Curve)):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, Mapping):
        return {str(key): plain(f"{name}[{key!r}]", one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(name, one) for one in value]
    if isinstance(value, tuple):
        return tuple(plain(name, one) for one in value)
    if isinstance(value, type) or (name.startswith("policy_kwargs[") and hasattr(value, "__name__")):
        return value.__name__  # the library knows torch.nn.Tanh and torch.tanh by their names
    if name in _SCHEDULES and callable(value):
        return _schedule(name, value)
    if name == "device":
        return str(value)
    raise ConfigError(f"{name}: {value!r}, must be a number, a text, a list, a tuple, a dict or a class on a cluster")


def _schedule(name: str, function: Any) -> float | Linear | Curve:
    """The straight lines that replace a function."""
    at = points(name, function)
    if len(at) == 1:
        return at[0][1]
    return Linear(at[0][1], at[1][1]) if len(at) == 2 else Curve(tuple(at))


def to_json(value: Any) -> Any:
    """What from_json makes the same value of."""
    if isinstance(value, Curve):
        return {_CURVE: [list(point) for point in value.at]}
    if isinstance(value, tuple):
        return {_TUPLE: [to_json(one) for one in value]}
    if isinstance(value, list):
        return [to_json(one) for one in value]
    if isinstance(value, dict):
        return {key: to_json(one) for key, one in value.items()}
    return value


def from_json(value: Any) -> Any:
    """The value of to_json. Raises ValueError or TypeError for a schedule that no run has."""
    if isinstance(value, list):
        return [from_json(one) for one in value]
    if not isinstance(value, dict):
        return value
    if list(value) == [_TUPLE]:
        return tuple(from_json(one) for one in value[_TUPLE])
    if list(value) == [_CURVE]:
        return _curve(value[_CURVE])
    return {key: from_json(one) for key, one in value.items()}


def _curve(at: Any) -> Curve:
    pairs = tuple((float(share), float(value)) for share, value in at)
    if len(pairs) < 3 or not all(math.isfinite(number) for pair in pairs for number in pair):
        raise ValueError("a schedule that no run has")
    return Curve(pairs)
