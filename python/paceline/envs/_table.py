"""The memory that a vector of environments shares with its worker processes.

A Table has an array of n rows for every value of a fixed size, row i for environment i. A Dict or
Tuple space has a dict or a tuple of arrays ("a tree"). The functions here read and write rows of
trees.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array

from ..errors import ConfigError
from ..spaces import Array

_ALIGN = 64
_LEAVES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def fixed(space: Any) -> bool:
    """Whether all elements of the space have one size, so that Table has rows for them."""
    if isinstance(space, spaces.Dict):
        return all(fixed(part) for part in space.spaces.values())
    if isinstance(space, spaces.Tuple):
        return all(fixed(part) for part in space.spaces)
    return isinstance(space, _LEAVES)


class Table:
    """The arrays of n environments in one block of memory.

    obs, actions: an array [n, ...], or a tree of such arrays for a Dict or Tuple space; None if the
    space is not fixed().
    """

    def __init__(self, n: int, observation_space: Any, action_space: Any, memory: mmap.mmap | None = None) -> None:
        """memory: the shared memory; None allocates private arrays. size is the number of bytes needed."""
        self._memory, self.size = memory, 0
        self.rewards = self._array((n,), np.float64)
        self.terminated, self.truncated = self._array((n,), np.bool_), self._array((n,), np.bool_)
        self.obs, self.actions = (
            create_empty_array(space, n, fn=self._array) if fixed(space) else None for space in (observation_space, action_space)
        )

    def _array(self, shape: tuple[int, ...], dtype: Any) -> Array:
        at = -(-self.size // _ALIGN) * _ALIGN
        self.size = at + int(np.prod(shape)) * np.dtype(dtype).itemsize
        if self._memory is None:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, self._memory, at)


def write(views: Any, value: Any) -> None:
    """Writes an observation into its row; raises ValueError for another shape or an integer that the row's dtype cannot hold."""
    if isinstance(views, dict):
        for key, view in views.items():
            write(view, value[key])
    elif isinstance(views, tuple):
        for view, part in zip(views, value, strict=True):
            write(view, part)
    else:
        if np.shape(value) != views.shape:
            raise ValueError(f"observation: shape {np.shape(value)}, must be {views.shape}")
        np.copyto(views, value, casting="same_kind")
        if views.dtype.kind in "iu" and getattr(value, "dtype", None) != views.dtype:
            given = np.asarray(value)  # it may be a tensor of another library
            wrong = views != given  # the cast wraps integers
            if wrong.any():
                raise ValueError(f"observation: {given[wrong].flat[0]}, must be a number of {views.dtype}")


def each(tree: Any, function: Callable[[Array], Any]) -> Any:
    """A tree with function(array) in place of each array."""
    if isinstance(tree, dict):
        return {key: each(part, function) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(each(part, function) for part in tree)
    return function(tree)


def matched(name: str, tree: Any, actions: Any, count: int) -> list[tuple[Array, Array]]:
    """(array, actions for count of its rows) for each array of the tree; raises ConfigError if they do not fit."""
    if isinstance(tree, (dict, tuple)):
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        fits = isinstance(actions, dict) if isinstance(tree, dict) else isinstance(actions, (tuple, list))
        if not fits or set(keys) != set(actions if isinstance(tree, dict) else range(len(actions))):
            raise ConfigError(f"{name}: {type(actions).__name__}, must be a {type(tree).__name__} with {keys}")
        return [pair for key in keys for pair in matched(f"{name}[{key!r}]", tree[key], actions[key], count)]
    given = np.asarray(actions)
    shape = (count, *tree.shape[1:])
    if given.shape != shape or not np.can_cast(given.dtype, tree.dtype, "same_kind"):
        raise ConfigError(f"{name}: {given.dtype} of shape {given.shape}, must be {tree.dtype} of shape {shape}")
    if given.dtype != tree.dtype:
        exact, given = given, given.astype(tree.dtype)
        if tree.dtype.kind in "iu" and (given != exact).any():
            raise ConfigError(f"{name}: {exact[given != exact].flat[0]}, must be a number of {tree.dtype}")
    return [(tree, given)]
