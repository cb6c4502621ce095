"""Memory for the results of vector environments.

A Block is a batch of rows in one NumPy allocation. The library's threads write it, and a step
returns views of it without a copy. A Pool reuses only Blocks without references, so the arrays of a
step never change while the user holds them, and steps allocate nothing once old results are
dropped. If Python cannot count references reliably (COUNTED is false), steps return copies.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from .. import _ffi, _lib
from ..errors import PacelineError
from ..spaces import Array, ObsLayout


class Column:
    """A column of infos: a number or a row of numbers for each environment."""

    def __init__(self, name: str, dtype: str, len: int) -> None:
        self.name, self.dtype = name, np.dtype(dtype)
        self.shape = (len,) if len else ()


class Block:
    """num_rows rows and the paceline_rows that points to them. final: adds final_obs and final_infos."""

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
        # Every view refers to root, also a view of a view: NumPy's base is the array that owns the
        # memory.
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
        """Whether only this object refers to the memory."""
        return sys.getrefcount(self.root) == self._idle

    def copy_rows(self, other: Block, rows: Array) -> None:
        """Copies some rows of another Block."""
        mine = [self.obs, self.rewards, self.terminated, self.truncated, self.started, *self.infos]
        its = [other.obs, other.rewards, other.terminated, other.truncated, other.started, *other.infos]
        for to, from_ in zip(mine, its):
            to[rows] = from_[rows]


def offer(handle: int, block: Block, offered: list[Block]) -> None:
    """Offers a Block to a vector of the library and appends it to the list of those that the library may write."""
    call = _lib.lib().paceline_vec_offer
    block.env_ids.fill(-1)
    # Python raises a Ctrl-C only at the end of a call or in a Python function. There is neither
    # between += and the effect of the call, so the library never has a Block that the list lacks,
    # or the reverse.
    try:
        offered += [block]
        call(handle, block.pointer)
    except PacelineError:
        offered.pop()
        raise


def received(offered: list[Block]) -> Block | None:
    """The first Block if paceline_vec_recv has filled it: it alone writes env_ids, the last one at the end."""
    for block in offered[:1]:
        if block.env_ids[-1] >= 0:
            return block
    return None


# A free-threaded build has no reliable reference counts while threads run without the GIL.
COUNTED = "t" not in sys.abiflags
_MOST_SPARE = 8


class Pool:
    """Blocks of one kind for reuse. Threads may share a Pool: only the thread that pops a Block has it.

    safe: reuses only Blocks without references, which needs COUNTED. Otherwise it reuses any Block.
    """

    def __init__(self, safe: bool, *kind: Any) -> None:
        self._safe, self._kind = safe, kind
        self._blocks: list[Block] = []

    def take(self) -> Block:
        """Returns a free or a new Block."""
        for _ in range(len(self._blocks)):
            try:
                block = self._blocks.pop(0)
            except IndexError:  # another thread has popped it
                break
            if not self._safe or block.idle():
                return block
            self._blocks.append(block)
        return Block(*self._kind)

    def give(self, block: Block) -> None:
        """Returns a Block to the Pool; its arrays may still have references."""
        if len(self._blocks) < _MOST_SPARE:
            self._blocks.append(block)
