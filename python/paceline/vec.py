"""Built-in environments as a Gymnasium vector environment.

    import paceline

    envs = paceline.make_vec("Pong", num_envs=8)
    obs, infos = envs.reset(seed=1)
    obs, rewards, terminated, truncated, infos = envs.step(envs.action_space.sample())

The library's threads step them, in one call for all. Arrays that reset and step
return are the caller's: no later step changes them.
"""

from __future__ import annotations

import ctypes
import operator
import secrets
from ctypes import POINTER, c_uint8, c_uint64
from typing import Any, Sequence

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from . import _ffi, _lib
from .errors import ConfigError, HandleError
from .spaces import ActionLayout, Array, ObsLayout, gymnasium_spaces
from .vector import Rows

__all__ = ["VecEnv", "make_vec"]

_MODES = {"next_step": _ffi.NEXT_STEP, "same_step": _ffi.SAME_STEP, "disabled": _ffi.DISABLED}
_MOST_ENVS, _MOST_THREADS = 65536, 1024
_SEEDS = 2**64


def make_vec(id: str, num_envs: int = 1, *, num_threads: int = 0, autoreset: Any = "next_step") -> VecEnv:
    """num_envs copies of a built-in environment, as a gymnasium.vector.VectorEnv.

    id: "CartPole-v1", "Catch-v0", ... or an Atari game: "Pong" or "atari/pong",
        "SpaceInvaders" or "atari/space_invaders", whose ROM must be there.
    num_threads: threads that step them, 0 for one per core. Results are the same
        for any number.
    autoreset: "next_step", "same_step", "disabled" or a member of
        gymnasium.vector.AutoresetMode: what happens to an environment whose
        episode has ended. It is in metadata["autoreset_mode"].
    """
    if not isinstance(id, str):
        raise ConfigError(f"id: {id!r}, must be the name of a built-in environment, such as 'CartPole-v1'")
    num_envs = _whole("num_envs", num_envs, 1, _MOST_ENVS)
    num_threads = _whole("num_threads", num_threads, 0, _MOST_THREADS)
    mode = _mode(autoreset)
    lib = _lib.lib()
    return VecEnv(
        _lib.new_handle("paceline_vec_free", lib.paceline_vec_new, id.encode(), num_envs, num_threads, _MODES[mode]), id, mode
    )


def _whole(name: str, value: Any, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise ConfigError(f"{name}: {value!r}, must be {least} to {most}")
    return number


def _mode(autoreset: Any) -> str:
    """A name of _MODES for that name or Gymnasium's: a member of its enumeration, or the member's value."""
    value = getattr(autoreset, "value", autoreset)
    for name in _MODES:
        if value in (name, _gymnasium_name(name)):
            return name
    raise ConfigError(f"autoreset: {autoreset!r}, must be {', '.join(map(repr, _MODES))} or one of gymnasium.vector.AutoresetMode")


def _gymnasium_name(mode: str) -> str:
    return mode.title().replace("_", "")


class VecEnv(gymnasium.vector.VectorEnv[Array, Array, Array]):
    """Environments of one kind, stepped together by the library. make_vec makes them.

    One thread at a time may use it.
    """

    def __init__(self, handle: _lib.Handle, id: str, autoreset: str) -> None:
        """Takes over a handle of paceline_vec_new."""
        self._handle = handle
        self.id = id
        lib = _lib.lib()
        obs, action = _ffi.Spec(), _ffi.Spec()
        lib.paceline_vec_spec(ctypes.byref(obs), ctypes.byref(action), handle.value)
        layout, self._actions = ObsLayout.of_spec(obs), ActionLayout(int(action.n))
        self._rows = Rows.shared(lib.paceline_vec_buffers, handle, layout)
        self._step = lib.paceline_vec_step
        self.num_envs = len(self._rows.ended)
        self._seeded = np.zeros(self.num_envs, bool)
        self.single_observation_space, self.single_action_space = gymnasium_spaces(layout, self._actions)
        self.observation_space: spaces.Space[Array] = batch_space(self.single_observation_space, self.num_envs)
        self.action_space: spaces.Space[Array] = batch_space(self.single_action_space, self.num_envs)
        self._final = autoreset == "same_step"
        # Gymnasium 1.0 has no such enumeration, and only the mode of that name.
        members = getattr(gymnasium.vector, "AutoresetMode", str)
        self.metadata = {"autoreset_mode": members(_gymnasium_name(autoreset))}

    # ------------------------------------------------------------- episodes

    def reset(
        self, *, seed: int | Sequence[int | None] | Array | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begins an episode everywhere, or where options["reset_mask"] (bool [num_envs]) is true.

        seed: s, for s, s+1, ... in the environments' order, or one for each. An
        environment without a seed goes on along its random numbers, which begin
        anywhere unless it was ever seeded.

        Returns (obs, {}); rows that the mask leaves out are as they were.
        """
        self._check_open()
        chosen = self._mask(options)
        seeds, given = self._seeds(seed, chosen)
        for rows, numbers in ((chosen & given, seeds), (chosen & ~given, None)):
            if rows.any():
                _lib.lib().paceline_vec_reset(
                    self._handle.value,
                    None if numbers is None else numbers.ctypes.data_as(POINTER(c_uint64)),
                    rows.ctypes.data_as(POINTER(c_uint8)),
                )
        return self._rows.obs.copy(), {}

    def _mask(self, options: dict[str, Any] | None) -> Array:
        """The environments to reset."""
        if not options:
            return np.ones(self.num_envs, bool)
        unknown = set(options) - {"reset_mask"}
        if unknown:
            raise ConfigError(f"options: {sorted(unknown)[0]!r} is not known, must be 'reset_mask'")
        given = options["reset_mask"]
        mask = np.asarray(given)
        if not isinstance(given, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            what = f"{mask.dtype} of shape {mask.shape}" if isinstance(given, np.ndarray) else type(given).__name__
            raise ConfigError(f"options['reset_mask']: {what}, must be a NumPy array, bool of shape {(self.num_envs,)}")
        if not mask.any():
            raise ConfigError("options['reset_mask']: no entry is true, at least one must be")
        return mask

    def _seeds(self, seed: Any, chosen: Array) -> tuple[Array, Array]:
        """(seeds, which of the chosen environments get theirs)."""
        seeds, given = np.zeros(self.num_envs, np.uint64), np.zeros(self.num_envs, bool)
        if seed is not None and np.ndim(seed) == 0:
            self._follow(seeds, self._seed(seed))
            given[:] = True
        elif seed is not None:
            if len(seed) != self.num_envs:
                raise ConfigError(f"seed: {len(seed)} numbers, must be {self.num_envs}, one for each environment")
            for i, number in enumerate(seed):
                if number is not None:
                    seeds[i], given[i] = self._seed(number), True
        never = chosen & ~(given | self._seeded)
        if never.any():
            others = np.empty_like(seeds)
            self._follow(others, secrets.randbits(31))
            seeds[never], given[never] = others[never], True
        given &= chosen
        self._seeded |= given
        return seeds, given

    def _follow(self, seeds: Array, first: int) -> None:
        """first, first + 1, ..., and makes first the vector's own seed (np_random_seed)."""
        super().reset(seed=first)
        seeds[:] = [(first + i) % _SEEDS for i in range(self.num_envs)]

    @staticmethod
    def _seed(seed: Any) -> int:
        return _whole("seed", seed, 0, _SEEDS - 1)

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """Takes one action in every environment.

        Returns (obs, rewards float64 [num_envs], terminated, truncated, infos). Nothing moves
        if an action is out of range. In "same_step", infos has what Gymnasium says: final_obs
        (objects, None where no episode ended) and final_info, under the masks _final_obs and _final_info.
        """
        self._check_open()
        rows = self._rows
        self._take(actions)
        self._step(self._handle.value)
        ended = rows.ended
        infos: dict[str, Any] = {}
        if self._final and ended.any():
            infos = self._final_infos(ended != 0)
        return (
            rows.obs.copy(),
            rows.rewards.astype(np.float64),
            (ended & _ffi.TERMINATED) != 0,
            (ended & _ffi.TRUNCATED) != 0,
            infos,
        )

    def _take(self, actions: Any) -> None:
        given, taken = np.asarray(actions), self._rows.actions
        if given.shape != taken.shape or given.dtype.kind not in "iu":
            raise ConfigError(f"actions: {given.dtype} of shape {given.shape}, must be whole numbers of shape {taken.shape}")
        taken[...] = given
        if given.dtype != taken.dtype and (taken != given).any():  # more than 32 bits
            i = int(np.flatnonzero(taken != given)[0])
            raise ConfigError(f"environment {i}: action: {given[i]}, must be 0 to {self._actions.n - 1}")

    def _final_infos(self, mask: Array) -> dict[str, Any]:
        last = np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(mask):
            last[i] = self._rows.final_obs[i].copy()
        return {"final_obs": last, "_final_obs": mask, "final_info": {}, "_final_info": mask.copy()}

    # --------------------------------------------------------------- ending

    def _check_open(self) -> None:
        if self.closed:
            raise HandleError("environments: closed")

    def close_extras(self, **kwargs: Any) -> None:
        """Frees the environments. Closing twice is fine; a closed one refuses to step."""
        self._handle.close()

    def __repr__(self) -> str:
        return f"VecEnv({self.id}, num_envs={self.num_envs}{', closed' if self.closed else ''})"
