"""Memory for the results of vector environments.

A Block is a batch of rows in one piece of NumPy's memory, which the library's
threads write and the user sees: nothing is copied on the way. What a step returns
are views of a Block. A Pool hands out Blocks that nothing refers to any more, so the
arrays of one step stay as they are for as long as anything refers to them, and
steps allocate nothing as soon as old results are dropped. Where it cannot be known
what refers to them (COUNTED), what a step returns are copies.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from .. import _ffi
from ..spaces import Array, ObsLayout


class Column:
    """What an environment reports beside its observation: a number, or a row of them."""

    def __init__(self, name: str, dtype: str, len: int) -> None:
        self.name, self.dtype = name, np.dtype(dtype)
        self.shape = (len,) if len else ()


class Block:
    """num_rows rows and the paceline_rows that points to them; final: with final_obs and final_infos."""

    def __init__(self, num_rows: int, layout: ObsLayout, columns: list[Column], final: bool) -> None:
        self._divide(num_rows, layout, columns, final)
        self.struct = self._struct(num_rows)
        self.pointer = ctypes.byref(self.struct)
        self._idle = sys.getrefcount(self.root)

    def _divide(self, n: int, layout: ObsLayout, columns: list[Column], final: bool) -> None:
        obs = ((n, *layout.declared), layout.dtype)
        infos = [((n, *c.shape), c.dtype) for c in columns]
        one = np.dtype(np.uint8)
        parts = [obs, ((n,), np.dtype(np.float64)), ((3, n), one), ((n,), np.dtype(np.int32)), *infos]
        if final:
            parts += [obs, *infos]
        sizes = [int(np.prod(shape)) * dtype.itemsize for shape, dtype in parts]
        offsets = np.cumsum([0] + [-(-size // 64) * 64 for size in sizes])
        # Everything refers to root, also views of views: NumPy keeps the array that owns the memory.
        self.root = root = np.zeros(int(offsets[-1]), np.uint8)
        views = [root[o : o + s].view(dtype).reshape(shape) for (shape, dtype), s, o in zip(parts, sizes, offsets.tolist())]
        self.obs, self.rewards, flags, self.env_ids = views[:4]
        self.terminated, self.truncated, self.started = flags.view(np.bool_)
        self.infos = views[4 : 4 + len(infos)]
        self.final_obs = views[4 + len(infos)] if final else self.obs[:0]
        self.final_infos = views[5 + len(infos) :] if final else []

    def _struct(self, n: int) -> _ffi.Rows:
        rows = _ffi.Rows(num_rows=n)
        for name in ("obs", "final_obs", "rewards", "terminated", "truncated", "started", "env_ids"):
            array = getattr(self, name)
            if array.size:
                setattr(rows, name, array.ctypes.data)
        for name in ("infos", "final_infos"):
            arrays = getattr(self, name)
            if arrays:
                setattr(rows, name, (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays)))
        return rows

    def idle(self) -> bool:
        """Whether nobody but this object refers to the memory."""
        return sys.getrefcount(self.root) == self._idle

    def keep(self, other: Block, rows: Array) -> None:
        """Takes some rows of another Block."""
        mine = [self.obs, self.rewards, self.terminated, self.truncated, self.started, *self.infos]
        its = [other.obs, other.rewards, other.terminated, other.truncated, other.started, *other.infos]
        for to, from_ in zip(mine, its):
            to[rows] = from_[rows]


# References cannot be counted where threads run without the interpreter's lock, in an interpreter that can turn it off.
COUNTED = "t" not in sys.abiflags
_MOST_SPARE = 8


class Pool:
    """Blocks of one kind. Without safe they are handed out again whatever refers to them; with it COUNTED must be true.
    Threads may share a Pool: a Block is in the list or with the one who popped it."""

    def __init__(self, safe: bool, *kind: Any) -> None:
        self._safe, self._kind = safe, kind
        self._blocks: list[Block] = []

    def take(self) -> Block:
        """A Block that nothing refers to."""
        for _ in range(len(self._blocks)):
            try:
                block = self._blocks.pop(0)
            except IndexError:  # another thread has it
                break
            if not self._safe or block.idle():
                return block
            self._blocks.append(block)
        return Block(*self._kind)

    def give(self, block: Block) -> None:
        """Takes back a Block; there may still be references to its arrays."""
        if len(self._blocks) < _MOST_SPARE:
            self._blocks.append(block)
