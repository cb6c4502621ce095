"""Writes the arguments of Trainer.begin and Trainer.observe into the rows of a Source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import SpaceError
from ..spaces import Array
from ._source import SAME_STEP, Source


def write_first(source: Source, obs: object, action_masks: object) -> None:
    """Writes the first observations of a run."""
    if source.masked and action_masks is None:
        raise SpaceError("action_masks: None, must be given: the model was made with action_masks=True")
    _refuse_masks(source, action_masks, "action_masks")
    if source.masked:
        _write_masks(source, source.rows.action_masks, action_masks, "action_masks")
        if (none := source.actions.without_action(source.rows.action_masks)) is not None:
            i, branch, count = none
            where = "" if source.actions.n else f" of branch {branch}"
            raise SpaceError(f"action_masks: none of the {count} actions{where} of environment {i}, must allow at least one")
    _write(source, source.rows.obs, obs, "obs")


def write_step(
    source: Source, obs: object, rewards: object, terminated: object, truncated: object, final_obs: Any,
    action_masks: object, final_action_masks: object,
) -> None:  # fmt: skip
    """Writes the results of a step."""
    rows, n = source.rows, source.num_envs
    _refuse_masks(source, action_masks, "action_masks")
    _refuse_masks(source, final_action_masks, "final_action_masks")
    columns = {
        "rewards": _column("rewards", rewards, np.float64),
        "terminated": _column("terminated", terminated, np.bool_),
        "truncated": _column("truncated", truncated, np.bool_),
    }
    for name, column in columns.items():
        if len(column) != n:
            raise SpaceError(f"{name}: {len(column)} values, must be {n}")
    if source.autoreset == SAME_STEP:
        _write_last(source, columns["terminated"], columns["truncated"], final_obs)
    if source.masked:
        _write_masks(source, rows.action_masks, action_masks, "action_masks")
        rows.final_action_masks[...] = 1
        if final_action_masks is not None:
            _write_masks(source, rows.final_action_masks, final_action_masks, "final_action_masks")
    _write(source, rows.obs, obs, "obs")
    rows.rewards[...], rows.terminated[...], rows.truncated[...] = columns.values()


def _write_last(source: Source, terminated: Array, truncated: Array, final_obs: Any) -> None:
    """Writes the last observations of the episodes that ended; a terminated episode needs none."""
    n, ended = source.num_envs, np.flatnonzero(terminated | truncated).tolist()
    if final_obs is not None and ended:
        if n == 1 and _is_single(source, final_obs):
            final_obs = [final_obs]
        try:
            entries = -1 if isinstance(final_obs, Mapping) else len(final_obs)
        except TypeError:  # a number
            entries = -1
        if entries != n:
            raise SpaceError(f"final_obs: {_described(final_obs)}, must have one entry for each environment, {n}")
    for i in ended:
        last = None if final_obs is None else np.asarray(final_obs[i])
        if last is not None and last.dtype != object:
            source.rows.final_obs[i] = source.layout.read(last, (), f"final_obs of environment {i}")
        elif truncated[i] and not terminated[i]:
            raise SpaceError(f"final_obs: None for environment {i}, must be an observation: its episode was truncated")
        else:
            source.rows.final_obs[i] = 0  # the library does not read it


def _is_single(source: Source, obs: object) -> bool:
    """Whether obs is one environment's observation, without an axis of environments."""
    try:
        array = np.asarray(obs)
    except ValueError:  # lists of different lengths
        return False
    # An array of objects of shape (1,) has an observation as its entry.
    return array.shape == source.layout.declared and array.dtype != object


def _write(source: Source, to: Array, values: object, what: str) -> None:
    if isinstance(values, tuple) and len(values) == 2 and isinstance(values[1], Mapping):
        raise SpaceError(f"{what}: a pair of observations and infos, as reset returns, must be the observations alone")
    array = _array(what, values)
    if source.num_envs == 1 and array.shape == source.layout.declared:
        array = array[None]
    to[...] = source.layout.read(array, (source.num_envs,), what)


def _refuse_masks(source: Source, masks: object, what: str) -> None:
    if not source.masked and masks is not None:
        raise SpaceError(f"{what}: given, must be None: the model was made without action_masks=True")


def read_masks(what: str, values: object) -> Array:
    """Action masks as an array of numbers; NaN neither allows nor forbids an action and is refused."""
    masks = _array(what, values)
    if np.isnan(masks).any():
        raise SpaceError(f"{what}: has NaN, must be 0 for each forbidden action and another number for each allowed one")
    return masks


def _write_masks(source: Source, to: Array, values: object, what: str) -> None:
    masks = read_masks(what, values)
    if masks.shape != to.shape and not (source.num_envs == 1 and masks.shape == to.shape[1:]):
        raise SpaceError(f"{what}: shape {masks.shape}, must be {to.shape}")
    to[...] = masks != 0


def _array(name: str, values: object) -> Array:
    """values as an array of numbers; raises SpaceError if NumPy cannot make one."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        raise SpaceError(f"{name}: {_described(values)}, must be an array of numbers")
    return array


def _column(name: str, values: object, dtype: type[np.generic]) -> Array:
    """values as an array of one number for each environment."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biufO":
            return array.astype(dtype).reshape(-1)
    except (ValueError, TypeError):  # lists of different lengths, other objects
        pass
    raise SpaceError(f"{name}: {_described(values)}, must be a number for each environment")


def _described(value: object) -> str:
    """A short description of a value for a message."""
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return f"{value!r:.60}" if isinstance(value, (str, int, float, type(None))) else f"a {type(value).__name__}"
