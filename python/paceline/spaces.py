"""Converts Gymnasium's spaces to the library's specs, and observations to the library's rows.

The library knows images (uint8 [C, H, W]) and vectors (float32 [n]). [H, W] and [H, W, C] images
become [C, H, W], other dtypes become float32, other shapes are flattened, and Discrete and
MultiDiscrete are one-hot encoded, as in stable-baselines3.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _ffi
from ._actions import ActionLayout as ActionLayout
from .errors import ConfigError, SpaceError, notice

if TYPE_CHECKING:
    import gymnasium

Array = npt.NDArray[Any]
Infos = dict[str, Any]  # an environment's infos, its keywords, or the options of a reset


class ObsLayout:
    """The layout of one environment's observations in the library's rows.

    declared, source: the environment's shape and dtype. channels_last: images are [H, W, C].
    counts, first: for Discrete and MultiDiscrete, the number of choices and the lowest choice of
    each entry.
    image: whether rows are bytes; None: true for uint8 of two or three axes.
    """

    def __init__(
        self,
        declared: tuple[int, ...],
        source: np.dtype[Any],
        channels_last: bool = False,
        counts: tuple[int, ...] = (),
        first: tuple[int, ...] = (),
        image: bool | None = None,
    ) -> None:
        self.declared, self.source, self.channels_last, self.counts, self.first = declared, source, channels_last, counts, first
        self.image = source == np.uint8 and len(declared) in (2, 3) and not counts if image is None else image
        if self.image:
            self.dtype: np.dtype[Any] = np.dtype(np.uint8)
            shape = (1, *declared) if len(declared) == 2 else declared
            self.shape: tuple[int, ...] = (shape[2], shape[0], shape[1]) if channels_last else shape
        else:
            self.dtype = np.dtype(np.float32)
            self.shape = (sum(counts) if counts else int(np.prod(declared, dtype=np.int64)),)
        self.planes = False  # whether the numbers of an image are 0 or 1
        self.noticed = False  # whether the warning about a changed value was given

    @classmethod
    def of_space(cls, space: gymnasium.Space[Any]) -> ObsLayout:
        """The layout of a Gymnasium space; raises ConfigError for Dict, Tuple and other composite spaces."""
        from gymnasium import spaces

        if isinstance(space, spaces.Discrete):
            return cls((), np.dtype(space.dtype), counts=(int(space.n),), first=(int(space.start),))
        if isinstance(space, spaces.MultiDiscrete):
            counts, first = (tuple(np.asarray(n).reshape(-1).tolist()) for n in (space.nvec, space.start))
            return cls(tuple(space.nvec.shape), np.dtype(space.dtype), counts=counts, first=first)
        if not isinstance(space, (spaces.Box, spaces.MultiBinary)):
            raise ConfigError(
                f"observation space: {type(space).__name__}, must be Box, Discrete, MultiDiscrete or MultiBinary; "
                "gymnasium.wrappers.FlattenObservation makes a Box of it"
            )
        shape, dtype = tuple(int(n) for n in space.shape), np.dtype(space.dtype)
        if any(n < 1 for n in shape):
            raise ConfigError(f"observation space: shape {shape}, must have no empty axis")
        if dtype.kind not in "fiub":
            raise ConfigError(f"observation space: dtype {dtype}, must be of numbers or bool")
        # The smallest axis of an image is its channels: the last one in [84, 84, 3], the first in
        # [4, 84, 84].
        layout = cls(shape, dtype, channels_last=dtype == np.uint8 and len(shape) == 3 and shape[2] < shape[0] and shape[2] <= shape[1])
        layout.planes = layout.image and isinstance(space, spaces.Box) and bool(np.all(space.high <= 1))
        return layout

    def check_convolutions(self) -> None:
        """Raises ConfigError for boolean observations and for bytes that are no image, which convolutions do not take."""
        if self.source.kind == "b":
            raise ConfigError(
                "observation space: dtype bool, must be uint8 for CnnPolicy; "
                "gymnasium.wrappers.DtypeObservation(env, numpy.uint8) converts bool"
            )
        if self.source == np.uint8 and not self.image and not self.counts:
            raise ConfigError(f"observation space: shape {self.declared}, must be of two or three axes for CnnPolicy")

    @classmethod
    def of_spec(cls, spec: _ffi.Spec) -> ObsLayout:
        is_bytes = spec.dtype == _ffi.UINT8
        return cls(tuple(spec.shape[: spec.ndim]), np.dtype(np.uint8 if is_bytes else np.float32), image=is_bytes)

    def spec(self) -> _ffi.Spec:
        dtype = _ffi.UINT8 if self.dtype == np.uint8 else _ffi.FLOAT32
        return _ffi.Spec(kind=_ffi.BOX, dtype=dtype, ndim=len(self.shape), shape=(ctypes.c_int64 * 4)(*self.shape))

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def space(self, low: Any = -np.inf, high: Any = np.inf) -> Any:
        """The Gymnasium space. low, high: the bounds of a float32 space."""
        from gymnasium import spaces

        if self.counts:
            if not self.declared:
                return spaces.Discrete(self.counts[0], start=self.first[0])
            counts, first = (np.reshape(n, self.declared) for n in (self.counts, self.first))
            return spaces.MultiDiscrete(counts, dtype=self.source.type, start=first)
        if self.image:
            return spaces.Box(0, 255, self.declared, np.uint8)
        return spaces.Box(low, high, self.declared, np.float32)

    def read(self, observations: object, rows: tuple[int, ...], what: str) -> Array:
        """Converts observations [*rows, *declared] to the library's rows; the result may be a view.

        rows: (n,), or () for one observation. Raises SpaceError for observations outside the space.
        """
        obs = self._numbers(observations, what)
        if obs.shape != rows + self.declared:
            raise SpaceError(f"{what}: observation of shape {obs.shape}, its space says {rows + self.declared}")
        obs = self._cast(obs, what)
        return self._arranged(obs) if rows else self._arranged(obs[None])[0]

    def _numbers(self, observations: object, what: str) -> Array:
        """observations as an array; raises SpaceError if NumPy cannot make one."""
        try:
            return np.asarray(observations)
        except ValueError as err:  # rows of different lengths
            kind = f"a {type(observations).__name__} of parts that differ in shape"
            raise SpaceError(f"{what}: observation is {kind}, its space says {self.declared}") from err

    def _cast(self, obs: Array, what: str) -> Array:
        """Casts numbers to the rows' dtype; choices stay as they are. Warns once of a value that the dtype cannot hold."""
        if obs.dtype == (self.dtype if not self.counts else self.source):
            return obs
        if obs.dtype.kind not in ("fiub" if self.dtype == np.float32 and not self.counts else "iub"):
            raise SpaceError(f"{what}: observation of dtype {obs.dtype}, its space says {self.source}")
        if self.counts:
            return obs
        if self.image:
            self._check_values(obs, (obs >= 0) & (obs <= 255), what, "must be 0 to 255")
            return obs.astype(np.uint8)
        if obs.dtype.kind == "f" and self.source.kind != "f":
            self._check_values(obs, obs == np.floor(obs), what, "must be a whole number")
        with np.errstate(all="ignore"):
            out = obs.astype(np.float32)
            if not self.noticed and obs.dtype.itemsize >= 4 and obs.dtype.kind != "b":
                if obs.dtype.kind == "f":
                    changed = np.isinf(out) & np.isfinite(obs)
                else:  # a float32 above the integer's range cannot be cast back, so it is compared first
                    changed = (out >= float(np.iinfo(obs.dtype).max)) | (out.astype(obs.dtype) != obs)
                if changed.any():
                    self.noticed = True
                    notice(f"{what}: observation with {obs[changed].flat[0]}, which float32 cannot hold, becomes {out[changed].flat[0]}")
        return out

    def _check_values(self, obs: Array, right: Array, what: str, must: str) -> None:
        if not right.all():
            raise SpaceError(f"{what}: observation of dtype {obs.dtype} with {obs[~right].flat[0]}, {must}: its space says {self.source}")

    def _arranged(self, obs: Array) -> Array:
        """A batch of observations in the library's order of axes; the result may be a view."""
        if self.counts:
            return self._ones(obs.reshape(len(obs), -1))
        if self.channels_last:
            obs = np.moveaxis(obs, -1, -3)
        return obs.reshape((obs.shape[0], *self.shape))

    def _ones(self, choices: Array) -> Array:
        """The one-hot encoding of choices."""
        chosen = choices - np.asarray(self.first)
        wrong = np.argwhere((chosen < 0) | (chosen >= np.asarray(self.counts)))
        if len(wrong):
            i, k = wrong[0]
            raise SpaceError(f"observation {choices[i, k]}, must be {self.first[k]} to {self.first[k] + self.counts[k] - 1}")
        out = np.zeros((len(choices), *self.shape), np.float32)
        np.put_along_axis(out, chosen.astype(np.int64) + np.cumsum((0, *self.counts[:-1])), 1, axis=1)
        return out

    def batch(self, observation: object) -> tuple[Array, bool]:
        """(contiguous rows, whether observation is a batch) of the argument of predict."""
        if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], Mapping):
            raise SpaceError("observation: a tuple (observation, info), must be the observation alone: obs, info = env.reset()")
        obs = self._cast(self._numbers(observation, "observation"), "observation")
        for layout in self._forms():
            batched = obs.ndim == len(layout.declared) + 1
            if obs.shape[int(batched) :] == layout.declared and obs.ndim >= len(layout.declared):
                rows = layout._arranged(obs if batched else obs[None])
                return np.ascontiguousarray(rows, dtype=self.dtype), batched
        raise SpaceError(f"observation: shape {obs.shape}, must be {self.declared}, for a batch with an axis of n in front")

    def _forms(self) -> list[ObsLayout]:
        """The accepted layouts: the declared one, and for images [C, H, W], [H, W, C] and [H, W]."""
        forms = [self]
        if self.image and len(self.shape) == 3:
            c, h, w = self.shape
            forms += [ObsLayout((c, h, w), self.source), ObsLayout((h, w, c), self.source, channels_last=True)]
            if c == 1:
                forms.append(ObsLayout((h, w), self.source))
        return forms


def layouts_to_json(obs: ObsLayout, actions: ActionLayout) -> dict[str, Any]:
    """Both layouts as JSON values for checkpoints; see layouts_from_text."""
    of_obs = {"shape": obs.declared, "dtype": obs.source.name, "channels_last": obs.channels_last, "counts": obs.counts, "first": obs.first}
    kept = {"obs": of_obs, "first_action": actions.start}
    return kept if actions.n else kept | {"action": actions.to_json()}


def layouts_from_text(text: str, obs: _ffi.Spec, action: _ffi.Spec) -> tuple[ObsLayout, ActionLayout]:
    """The layouts in a text of _checkpoints.host_data; for any other text, those of the library's specs."""
    own = ObsLayout.of_spec(obs), ActionLayout.of_spec(action)
    try:
        kept = json.loads(text)["python"]
        o: Mapping[str, Any] = kept["obs"]
        layout = ObsLayout(tuple(o["shape"]), np.dtype(o["dtype"]), o["channels_last"], tuple(o["counts"]), tuple(o["first"]))
        actions = ActionLayout(own[1].n, int(kept["first_action"])) if own[1].n else own[1].with_form(kept["action"])
    except (ValueError, KeyError, TypeError):
        return own
    return (layout, actions) if layout.shape == own[0].shape else own


def masks_from_text(text: str) -> bool | None:
    """Whether a network learnt with action masks, from a text of _checkpoints.host_data; None: unknown."""
    try:
        kept = json.loads(text)["python"]["action_masks"]
    except (ValueError, KeyError, TypeError):
        return None
    return kept if isinstance(kept, bool) else None


def check_spaces(name: str, obs: ObsLayout, actions: ActionLayout, of_obs: ObsLayout, of_actions: ActionLayout) -> None:
    """Raises ConfigError if a policy with layouts of_obs and of_actions cannot act in an environment.

    name: the argument's name in the message.
    """
    if obs.shape != of_obs.shape or actions.key != of_actions.key:
        raise ConfigError(f"{name}: observations {obs.shape} and {actions}, must be {of_obs.shape} and {of_actions.key}")
    actions.check_bounds(name, of_actions)
