"""Gymnasium's spaces as the library's specs, and observations as its rows.

The library knows images (uint8 [C, H, W]) and vectors (float32 [n]). Here
[H, W] and [H, W, C] images become [C, H, W], float64 becomes float32, and
other shapes are laid flat.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _ffi
from .errors import ConfigError, SpaceError

if TYPE_CHECKING:
    import gymnasium

Array = npt.NDArray[Any]


class ObsLayout:
    """How one environment's observations are laid out in a row that the library reads."""

    def __init__(self, declared: tuple[int, ...], source: np.dtype[Any], channels_last: bool = False) -> None:
        self.declared = declared  # shape the environment gives
        self.source = source  # dtype it gives
        self.channels_last = channels_last
        if source == np.uint8:
            self.dtype: np.dtype[Any] = np.dtype(np.uint8)
            shape = declared if len(declared) > 2 else (1, *declared)
            self.shape: tuple[int, ...] = (shape[2], shape[0], shape[1]) if channels_last else shape
        else:
            self.dtype = np.dtype(np.float32)
            self.shape = (int(np.prod(declared, dtype=np.int64)),)

    @classmethod
    def of_space(cls, space: gymnasium.Space[Any]) -> ObsLayout:
        """The layout for a Gymnasium space; refuses all but Box of uint8 or float."""
        from gymnasium import spaces

        if not isinstance(space, spaces.Box):
            raise ConfigError(f"observation space: {type(space).__name__}, must be Box")
        shape, dtype = tuple(int(n) for n in space.shape), np.dtype(space.dtype)
        if any(n < 1 for n in shape) or not shape:
            raise ConfigError(f"observation space: shape {shape}, must have at least one axis and no empty one")
        if dtype == np.uint8:
            if len(shape) not in (2, 3):
                raise ConfigError(f"observation space: uint8 of shape {shape}, must be [H, W], [H, W, C] or [C, H, W]")
            return cls(shape, dtype, channels_last=len(shape) == 3 and _channels_last(shape))
        if dtype.kind != "f":
            raise ConfigError(f"observation space: dtype {dtype}, must be uint8 or float")
        return cls(shape, dtype)

    @classmethod
    def of_spec(cls, spec: _ffi.Spec) -> ObsLayout:
        shape = tuple(spec.shape[: spec.ndim])
        return cls(shape, np.dtype(np.uint8 if spec.dtype == _ffi.UINT8 else np.float32))

    def spec(self) -> _ffi.Spec:
        spec = _ffi.Spec(kind=_ffi.BOX, ndim=len(self.shape))
        spec.dtype = _ffi.UINT8 if self.dtype == np.uint8 else _ffi.FLOAT32
        spec.shape = (ctypes.c_int64 * 4)(*self.shape)
        return spec

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def space(self, low: Any = -np.inf, high: Any = np.inf) -> Any:
        """The Gymnasium space; low and high: of numbers that are no image's."""
        from gymnasium import spaces

        if self.dtype == np.uint8:
            return spaces.Box(0, 255, self.declared, np.uint8)
        return spaces.Box(low, high, self.declared, np.float32)

    def check(self, obs: Array, rows: tuple[int, ...], what: str) -> None:
        """Refuses observations that do not keep to the space."""
        if obs.shape != rows + self.declared:
            raise SpaceError(f"{what}: observation of shape {obs.shape}, its space says {rows + self.declared}")
        if obs.dtype != self.source and not (obs.dtype.kind == "f" and self.source.kind == "f"):
            raise SpaceError(f"{what}: observation of dtype {obs.dtype}, its space says {self.source}")

    def rows(self, obs: Array) -> Array:
        """A batch of the environment's observations, arranged as the library's; may be a view."""
        if self.channels_last:
            obs = np.moveaxis(obs, -1, -3)
        return obs.reshape((obs.shape[0], *self.shape))

    def batch(self, observation: Any) -> tuple[Array, bool]:
        """(contiguous rows, whether it was a batch) of what a user hands to predict."""
        obs = np.asarray(observation)
        if obs.dtype != self.source and not (obs.dtype.kind in "fiu" and self.source.kind == "f"):
            raise SpaceError(f"observation: dtype {obs.dtype}, must be {self.source}")
        for layout in self._forms():
            batched = obs.ndim == len(layout.declared) + 1
            if obs.shape[int(batched) :] == layout.declared and obs.ndim >= len(layout.declared):
                rows = layout.rows(obs if batched else obs[None])
                return np.ascontiguousarray(rows, dtype=self.dtype), batched
        raise SpaceError(f"observation: shape {obs.shape}, must be {self.declared}, or that with an axis of n in front")

    def _forms(self) -> list[ObsLayout]:
        """The declared form, and for images [C, H, W], [H, W, C] and [H, W] as well."""
        forms = [self]
        if self.dtype == np.uint8:
            c, h, w = self.shape
            forms += [ObsLayout((c, h, w), self.source), ObsLayout((h, w, c), self.source, channels_last=True)]
            if c == 1:
                forms.append(ObsLayout((h, w), self.source))
        return forms


def _channels_last(shape: tuple[int, ...]) -> bool:
    """Whether an image's smallest axis is its last: [84, 84, 3], but not [4, 84, 84]."""
    return shape[2] < shape[0] and shape[2] <= shape[1]


class ActionLayout:
    """A Discrete space: the library counts actions from 0, the space from start."""

    def __init__(self, n: int, start: int = 0) -> None:
        self.n, self.start = n, start

    @classmethod
    def of_space(cls, space: gymnasium.Space[Any]) -> ActionLayout:
        from gymnasium import spaces

        if not isinstance(space, spaces.Discrete):
            raise ConfigError(f"action space: {type(space).__name__}, must be Discrete")
        return cls(int(space.n), int(space.start))

    def spec(self) -> _ffi.Spec:
        return _ffi.Spec(kind=_ffi.DISCRETE, dtype=_ffi.INT32, n=self.n)

    def space(self) -> Any:
        """The Gymnasium space."""
        from gymnasium import spaces

        return spaces.Discrete(self.n, start=self.start)
