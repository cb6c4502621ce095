"""Gymnasium's action spaces as the library's specs, and actions in memory as both have them.

In the library an action is integers counted from 0, one or one for each branch, then the float32
of a box. A Discrete is one integer; a MultiDiscrete or MultiBinary has a branch for each entry; a
Tuple or Dict of one of these and a Box is hybrid.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _ffi
from .errors import ConfigError

if TYPE_CHECKING:
    import gymnasium

Array = npt.NDArray[Any]

_MOST = 2**31 - 1  # values of all integers together
_ALLOWED = "must be Discrete, MultiDiscrete, MultiBinary, Box, or a Tuple or Dict of one Box and one of the others"


class _Ints(NamedTuple):
    """The integers of a space: their shape (() of a Discrete), their lowest values, and whether they are a MultiBinary's."""

    shape: tuple[int, ...] = ()
    first: tuple[int, ...] = (0,)
    dtype: str = "int64"
    binary: bool = False


class _Box(NamedTuple):
    """The numbers of a space."""

    shape: tuple[int, ...]
    dtype: str = "float32"


class ActionLayout:
    """How an action is laid out in a row, and which space it is of.

    n: the number of actions of a Discrete space, else 0; branches: the numbers of values of the other
    integers; low, high: float32, the bounds of the box. keys: those of (integers, box) in a Dict, or
    their places in a Tuple.
    """

    def __init__(self, n: int = 0, start: int = 0) -> None:
        self.n = n
        self.branches: tuple[int, ...] = ()
        self.low: Array = np.zeros(0, np.float32)
        self.high: Array = self.low
        self._ints: _Ints | None = _Ints(first=(start,)) if n else None
        self._box: _Box | None = None
        self.keys: tuple[Any, Any] | None = None
        self._is_dict = self._box_first = False  # of a Tuple or Dict

    # ------------------------------------------------------------ spaces

    @classmethod
    def of_space(cls, space: gymnasium.Space[Any]) -> ActionLayout:
        """The layout for a Gymnasium space."""
        from gymnasium import spaces

        layout = cls()
        parts: dict[Any, Any] = {None: space}
        if isinstance(space, spaces.Dict):
            layout._is_dict, parts = True, dict(space.spaces)
            for key in parts:
                if not isinstance(key, (str, int)):  # a file keeps the keys as JSON
                    raise ConfigError(f"action space: key {key!r} of a Dict, must be a str or an int")
        elif isinstance(space, spaces.Tuple):
            parts = dict(enumerate(space.spaces))
        kinds = {key: isinstance(part, spaces.Box) for key, part in parts.items()}
        if (None not in parts and len(parts) != 2) or (len(parts) == 2 and sum(kinds.values()) != 1):
            raise ConfigError(f"action space: {space}, {_ALLOWED}")
        for part in parts.values():
            layout._add(part, None in parts)
        if None not in parts:
            box, ints = sorted(parts, key=lambda key: not kinds[key])
            layout.keys, layout._box_first = (ints, box), next(iter(parts)) == box
        return layout

    def _add(self, part: Any, alone: bool) -> None:
        from gymnasium import spaces

        if isinstance(part, spaces.Box):
            self._add_box(part)
        elif isinstance(part, spaces.Discrete):
            self._ints = _Ints((), (int(part.start),), part.dtype.name)
            if alone:
                self.n = int(part.n)
            else:
                self.branches = (int(part.n),)
        elif isinstance(part, (spaces.MultiDiscrete, spaces.MultiBinary)):
            shape = tuple(map(int, part.shape))
            counts, first = np.full(shape, 2), np.zeros(shape, np.int64)  # a MultiBinary's
            if isinstance(part, spaces.MultiDiscrete):
                counts, first = np.asarray(part.nvec), np.asarray(part.start)
            if counts.size == 0:
                raise ConfigError(f"action space: {part}, must have at least one entry")
            self.branches = tuple(counts.reshape(-1).tolist())
            self._ints = _Ints(shape, tuple(first.reshape(-1).tolist()), part.dtype.name, isinstance(part, spaces.MultiBinary))
        else:
            raise ConfigError(f"action space: {part}, {_ALLOWED}")
        if self._ints is not None and not (min(self.counts, default=0) >= 1 and sum(self.counts) <= _MOST):
            raise ConfigError(f"action space: {part}, must have at least one value in each entry and at most {_MOST} in all entries")

    def _add_box(self, part: Any) -> None:
        if part.dtype.kind != "f":
            raise ConfigError(f"action space: a Box of {part.dtype}, must be of float32 or float64")
        low, high = (np.asarray(bound).reshape(-1) for bound in (part.low, part.high))
        if not low.size:
            raise ConfigError(f"action space: a Box of shape {part.shape}, must have no empty axis")
        if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
            raise ConfigError(f"action space: {part}, must have no NaN in its bounds and no low above its high")
        self._box = _Box(tuple(map(int, part.shape)), part.dtype.name)
        self.low, self.high = _within(low, high)

    @classmethod
    def of_spec(cls, spec: _ffi.Spec) -> ActionLayout:
        """The layout of the library's own environments: with branches and a box a Tuple."""
        layout = cls(int(spec.n))
        if spec.kind in (_ffi.MULTI_DISCRETE, _ffi.HYBRID):
            layout.branches = tuple(_numbers(spec.branches, ctypes.c_int32, int(spec.num_branches)).tolist())
            layout._ints = _Ints((len(layout.branches),), (0,) * len(layout.branches))
        if spec.kind in (_ffi.BOX, _ffi.HYBRID):
            size = int(spec.shape[0])
            layout.low, layout.high = (_numbers(bound, ctypes.c_float, size) for bound in (spec.low, spec.high))
            layout._box = _Box((size,))
        if spec.kind == _ffi.HYBRID:
            layout.keys = 0, 1
        return layout

    def spec(self) -> _ffi.Spec:
        kind = _ffi.DISCRETE if self.n else _ffi.HYBRID if self.keys else _ffi.BOX if self._box else _ffi.MULTI_DISCRETE
        spec = _ffi.Spec(kind=kind, dtype=_ffi.FLOAT32 if self._box else _ffi.INT32, n=self.n)
        branches = np.array(self.branches, np.int32)
        if self.branches:
            spec.branches, spec.num_branches = branches.ctypes.data, len(branches)
        if self._box:
            spec.ndim, spec.shape[0] = 1, len(self.low)
            spec.low, spec.high = self.low.ctypes.data, self.high.ctypes.data
        spec.kept = branches, self.low, self.high
        return spec

    def space(self) -> Any:
        """The Gymnasium space."""
        from gymnasium import spaces

        parts: list[Any] = []
        if (ints := self._ints) is not None:
            if ints.shape == ():
                parts.append(spaces.Discrete(self.n or self.branches[0], start=ints.first[0]))
            elif ints.binary:
                parts.append(spaces.MultiBinary(ints.shape if len(ints.shape) > 1 else ints.shape[0]))
            else:
                counts, first = (np.reshape(x, ints.shape) for x in (self.branches, ints.first))
                parts.append(spaces.MultiDiscrete(counts, dtype=np.dtype(ints.dtype).type, start=first))
        if (box := self._box) is not None:
            low, high = (bound.reshape(box.shape).astype(box.dtype) for bound in (self.low, self.high))
            parts.append(spaces.Box(low, high, box.shape, np.dtype(box.dtype).type))
        if self.keys is None:
            return parts[0]
        together = self._in_order(self.keys, parts)
        return spaces.Dict(list(together.items())) if self._is_dict else spaces.Tuple(list(together.values()))

    def _in_order(self, keys: tuple[Any, Any], parts: list[Any]) -> dict[Any, Any]:
        """The parts (integers, box) of a Tuple or Dict by their keys, in the space's order."""
        pairs = list(zip(keys, parts))
        return dict(reversed(pairs) if self._box_first else pairs)

    # ------------------------------------------- what else depends on it

    @property
    def start(self) -> int:
        """The lowest action of a Discrete space."""
        return self._ints.first[0] if self.n and self._ints else 0

    @functools.cached_property
    def _lowest(self) -> Any:
        """start as a number of the space's dtype."""
        return np.dtype(self._ints.dtype if self._ints else np.int64).type(self.start)

    @property
    def binary(self) -> bool:
        """Whether the integers are a MultiBinary's."""
        return self._ints is not None and self._ints.binary

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of values of each integer."""
        return (self.n,) if self.n else self.branches

    @property
    def mask_size(self) -> int:
        """Bytes of an action mask."""
        return sum(self.counts)

    @property
    def key(self) -> Any:
        """Equal for layouts of which the library sees no difference but bounds: for errors, too."""
        if self.n:
            return self.n
        kinds = [f"branches of {list(self.branches)}"] * bool(self.branches) + [f"a box of {len(self.low)}"] * bool(self._box)
        return " and ".join(kinds)

    def __str__(self) -> str:
        return f"{self.n} actions" if self.n else str(self.key)

    def check_bounds(self, name: str, of: ActionLayout) -> None:
        """Raises ConfigError if the box has other bounds than that of a model's layout. name: the argument."""
        for bound in ("low", "high"):
            given, must = getattr(self, bound), getattr(of, bound)
            if not np.array_equal(given, must):
                k = int(np.flatnonzero(given != must)[0])
                raise ConfigError(f"{name}: {bound}[{k}] of its actions is {given[k]}, must be {must[k]} as in the model")

    def without_action(self, masks: Array) -> tuple[int, int, int] | None:
        """(row, branch, number of actions) of the first branch of which masks [n, mask_size] allow nothing."""
        at = 0
        for branch, count in enumerate(self.counts):
            none = np.flatnonzero(~masks[:, at : at + count].any(1))
            if len(none):
                return int(none[0]), branch, count
            at += count
        return None

    def to_json(self) -> dict[str, Any]:
        """The space's form, for JSON; the rest is in a spec."""
        keys = list(self.keys) if self.keys else None
        return {"ints": self._ints, "box": self._box, "keys": keys, "dict": self._is_dict, "box_first": self._box_first}

    def with_form(self, kept: Mapping[str, Any]) -> ActionLayout:
        """This layout of a spec, with a form of to_json. Raises an error if the form does not fit."""
        layout = ActionLayout(self.n)
        layout.branches, layout.low, layout.high = self.branches, self.low, self.high
        if kept["ints"] is not None:
            shape, first, dtype, binary = kept["ints"]
            layout._ints = _Ints(tuple(map(int, shape)), tuple(map(int, first)), np.dtype(dtype).name, bool(binary))
        if kept["box"] is not None:
            shape, dtype = kept["box"]
            layout._box = _Box(tuple(map(int, shape)), np.dtype(dtype).name)
        if kept["keys"]:
            ints_key, box_key = layout.keys = tuple(kept["keys"])
            # Older files have no flags; the keys of their Dicts are str and sorted.
            layout._is_dict = bool(kept.get("dict", isinstance(box_key, str)))
            layout._box_first = bool(kept.get("box_first", str(box_key) < str(ints_key)))
        sizes = [0 if part is None else int(np.prod(part.shape)) for part in (layout._ints, layout._box)]
        if sizes != [len(self.counts), len(self.low)] or (layout.keys is None) != (0 in sizes):
            raise ValueError("action space of another form")
        return layout

    # ------------------------------------------------------------- actions

    def rows(self, n: int) -> Array:
        """Memory for n actions: int32 [n] of a Discrete, int32 [n, branches], float32 [n, size of the box], or words of both."""
        if self.n:
            return np.zeros(n, np.int32)
        dtype = np.int32 if not self._box else np.float32 if not self.branches else np.uint32
        return np.zeros((n, len(self.branches) + len(self.low)), dtype)

    def parts(self, rows: Array) -> list[Array]:
        """Views of the integers and of the box of rows, where there are any; integers [n, branches], or [n] of a Discrete."""
        if self.keys is None:
            return [rows]
        b = len(self.branches)
        return [rows.view(np.int32)[:, :b], rows.view(np.float32)[:, b:]]

    def batch(self, rows: Array) -> Any:
        """A copy of rows as actions of the space, all of them together as a vector environment of Gymnasium's takes them."""
        if self.n:  # most environments
            return rows.astype(self._lowest.dtype) + self._lowest
        parts = self.parts(rows)
        if (ints := self._ints) is not None:
            first = np.array(ints.first, ints.dtype).reshape(ints.shape)
            parts[0] = parts[0].reshape((len(rows), *ints.shape)).astype(ints.dtype) + first
        if (box := self._box) is not None:
            parts[-1] = parts[-1].reshape((len(rows), *box.shape)).astype(box.dtype)
        if self.keys is None:
            return parts[0]
        together = self._in_order(self.keys, parts)
        return together if self._is_dict else tuple(together.values())

    def only(self, rows: Array) -> Any:
        """The action of the only row."""
        return int(rows[0]) + self.start if self.n else self.one(self.batch(rows), 0)

    def one(self, batch: Any, i: int) -> Any:
        """The action of row i of what batch returned."""
        if isinstance(batch, tuple):
            return tuple(_entry(part, i) for part in batch)
        if isinstance(batch, dict):
            return {key: _entry(part, i) for key, part in batch.items()}
        return int(batch[i]) if self.n else _entry(batch, i)


def _entry(part: Array, i: int) -> Any:
    """Entry i, which stays as it is."""
    return part[i].copy() if part.ndim > 1 else part[i]


def _numbers(address: int | None, kind: Any, n: int) -> Array:
    """A copy of n numbers of the library's."""
    return np.array(ctypes.cast(ctypes.c_void_p(address), ctypes.POINTER(kind))[:n], np.int32 if kind is ctypes.c_int32 else np.float32)


def _within(low: Array, high: Array) -> tuple[Array, Array]:
    """Bounds as float32 that lie within those of float64, as far as there are such."""
    with np.errstate(over="ignore"):
        low32, high32 = low.astype(np.float32), high.astype(np.float32)
    inner_low = np.where(low32 < low, np.nextafter(low32, np.float32(np.inf)), low32)
    inner_high = np.where(high32 > high, np.nextafter(high32, np.float32(-np.inf)), high32)
    crossed = inner_low > inner_high
    return np.where(crossed, low32, inner_low), np.where(crossed, high32, inner_high)
