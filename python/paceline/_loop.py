"""A model in a loop of the caller's own: begin, then act and observe in turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _ffi
from ._arguments import steps
from .envs.vector import SAME_STEP, Source
from .errors import BusyError, ConfigError, SpaceError, StoppedError
from .spaces import Array


class OwnLoop:
    """What Trainer has for callers who step the environments themselves.

        obs, _ = envs.reset()
        model.begin(total_timesteps, obs)
        while model.num_timesteps < total_timesteps:
            actions = model.act()
            obs, rewards, terminated, truncated, infos = envs.step(actions)
            model.observe(obs, rewards, terminated, truncated, infos.get("final_obs"))

    The updates run beside such a loop as they do in learn. Arrays may be overwritten as soon
    as a call is back.
    """

    def begin(self: Any, total_timesteps: int, obs: Any, reset_num_timesteps: bool = True, *, action_masks: Any = None) -> None:
        """Begins a run of so many further steps; obs: the first observations of all environments, [num_envs, ...].

        The episodes in progress, if any, are cut. reset_num_timesteps: as in learn. action_masks: of these
        observations, [num_envs, actions], 0: may not be taken; of a model made with action_masks=True, whose
        every observe must have them, too.
        """
        source = self._stepped("begin")
        total_timesteps = steps("total_timesteps", total_timesteps, 1)
        if source.masked and action_masks is None:
            raise SpaceError("action_masks: None, must be there: the model was made with action_masks=True")
        if not source.masked and action_masks is not None:
            raise SpaceError("action_masks: given, must be None: the model was made without action_masks=True")
        if source.masked:
            self._write_masks(source, source.rows.action_masks, action_masks, "action_masks")
            for i in np.flatnonzero(~source.rows.action_masks.any(1))[:1].tolist():
                raise SpaceError(f"action_masks: none of the {source.actions.n} actions of environment {i}, must allow at least one")
        self._write(source, source.rows.obs, obs, "obs")
        flags = _ffi.RESET_ENVS
        if reset_num_timesteps or not self._begun:
            flags |= _ffi.RESET_TIMESTEPS
        self._native.begin(total_timesteps, flags)
        self._begun, self._cut, source.needs_reset = True, False, True
        source.recent = None  # infos are not seen here
        self._native.warn(stacklevel=2)

    def act(self: Any) -> Array:
        """An action for each environment, int64 [num_envs]. Ctrl-C is heard while due updates are waited for."""
        source = self._stepped("act")
        if not self._native.act(source.rows, lambda: None):
            raise StoppedError("act: stop was called while the updates that are due were waited for")
        actions: Array = source.rows.actions + np.int64(source.actions.start)
        return actions

    def observe(
        self: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, final_obs: Any = None,
        *, action_masks: Any = None, final_action_masks: Any = None,
    ) -> None:  # fmt: skip
        """What the environments answered to the actions.

        obs [num_envs, ...], rewards, terminated, truncated [num_envs]. Where an episode ended, obs
        is what the environments' autoreset mode says: with NEXT_STEP the episode's last observation,
        otherwise the first of the next episode (begun by you where the mode is DISABLED), and final_obs
        has the last one: [num_envs, ...], or a list or an array of objects with None elsewhere. It is
        needed where an episode was truncated. action_masks: of obs, where begin had them;
        final_action_masks: of final_obs, None: everything may be done there.
        """
        source = self._stepped("observe")
        rows = source.rows
        n = source.num_envs
        ends = [_column(name, values, np.bool_) for name, values in (("terminated", terminated), ("truncated", truncated))]
        numbers = _column("rewards", rewards, np.float64)
        for name, column in zip(("rewards", "terminated", "truncated"), (numbers, *ends)):
            if len(column) != n:
                raise SpaceError(f"{name}: {len(column)} values, must be {n}")
        if source.autoreset == SAME_STEP:
            if final_obs is not None and (ends[0] | ends[1]).any():
                entries = -1 if isinstance(final_obs, Mapping) or np.isscalar(final_obs) else len(final_obs)
                if entries < 1 or (n > 1 and entries != n):
                    raise SpaceError(f"final_obs: {_described(final_obs)}, must have one entry for each environment, {n}")
            for i in np.flatnonzero(ends[0] | ends[1]).tolist():
                last = None if final_obs is None else np.asarray(final_obs[i] if n > 1 or len(final_obs) == 1 else final_obs)
                if last is not None and last.dtype != object:
                    rows.final_obs[i] = source.layout.read(last, (), f"final_obs of environment {i}")
                elif ends[1][i] and not ends[0][i]:
                    raise SpaceError(f"final_obs: none of environment {i}, must be there: its episode was truncated")
                else:
                    rows.final_obs[i] = 0  # not read
        if source.masked:
            self._write_masks(source, rows.action_masks, action_masks, "action_masks")
            rows.final_action_masks[...] = 1
            if final_action_masks is not None:
                self._write_masks(source, rows.final_action_masks, final_action_masks, "final_action_masks")
        self._write(source, rows.obs, obs, "obs")
        rows.rewards[...], rows.terminated[...], rows.truncated[...] = numbers, *ends
        self._native.observe(rows, lambda: None)
        self._native.warn(stacklevel=2)

    def _stepped(self: Any, call: str) -> Source:
        self._check_open()
        if self._loop is not None:
            raise BusyError(f"{call}: learn is in progress, must be called before or after it")
        if self._source is None:
            raise ConfigError(
                f"{call}: this model steps the built-in {self.env_name} itself; make it with a Gymnasium environment, or with a pair "
                "(observation_space, action_space)"
            )
        source: Source = self._source
        return source

    def _write(self: Any, source: Source, to: Array, values: Any, what: str) -> None:
        if isinstance(values, tuple) and len(values) == 2 and isinstance(values[1], Mapping):
            raise SpaceError(f"{what}: a pair of observations and infos, as reset returns, must be the observations alone")
        array = _array(what, values)
        if source.num_envs == 1 and array.shape == source.layout.declared:
            array = array[None]
        to[...] = source.layout.read(array, (source.num_envs,), what)

    def _write_masks(self: Any, source: Source, to: Array, values: Any, what: str) -> None:
        masks = _array(what, values)
        if masks.shape != to.shape and not (source.num_envs == 1 and masks.shape == to.shape[1:]):
            raise SpaceError(f"{what}: shape {masks.shape}, must be {to.shape}")
        to[...] = masks != 0


def _array(name: str, values: Any) -> Array:
    """values as an array, where NumPy can make one of numbers."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        raise SpaceError(f"{name}: {_described(values)}, must be an array of numbers")
    return array


def _column(name: str, values: Any, dtype: Any) -> Array:
    """A number of each environment."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biufO":
            return array.astype(dtype).reshape(-1)
    except (ValueError, TypeError):  # lists of different lengths, other objects
        pass
    raise SpaceError(f"{name}: {_described(values)}, must be a number for each environment")


def _described(value: Any) -> str:
    """What was given, short enough for a sentence."""
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{value!r:.60}" if isinstance(value, (str, int, float, type(None))) else f"a {type(value).__name__}"
