"""A frozen network that acts: no environment and no trainer needed."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_float
from typing import Any, NamedTuple

import numpy as np

from . import _ffi, _lib
from .config import encode_options
from .errors import ConfigError
from .spaces import ActionLayout, Array, ObsLayout
from .vector import NEXT_STEP, Rows, adapt


class Evaluation(NamedTuple):
    """The returns of whole episodes; std_return is the sample deviation (n - 1)."""

    episodes: int
    mean_return: float
    std_return: float
    min_return: float
    max_return: float
    mean_length: float


class Policy:
    """A network that turns observations into greedy actions.

    Made by Policy.load(path) or DQN.policy(). It never changes, and any number
    of threads may use it at once. Close it, or use it in a with statement.
    """

    def __init__(self, handle: _lib.Handle, obs: ObsLayout | None = None, actions: ActionLayout | None = None) -> None:
        """Takes over a handle; obs and actions are the environment's layouts where they are known."""
        self._handle = handle
        obs_spec, action_spec = _ffi.Spec(), _ffi.Spec()
        _lib.lib().paceline_policy_spec(ctypes.byref(obs_spec), ctypes.byref(action_spec), handle.value)
        self.obs_layout = obs or ObsLayout.of_spec(obs_spec)
        self.action_layout = actions or ActionLayout(int(action_spec.n))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """The network of a checkpoint that DQN.save or Policy.save wrote."""
        lib = _lib.lib()
        return cls(_lib.new_handle("paceline_policy_free", lib.paceline_policy_load, _lib.encode(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the weights alone, for Policy.load; an older file is kept on failure."""
        _lib.lib().paceline_policy_save(self._handle.value, _lib.encode(path))

    def act(self, observation: Any) -> Array:
        """The greedy action for one observation (a 0-d array), or for each of a batch ([n])."""
        return self._act(observation, None)

    def q_values(self, observation: Any) -> Array:
        """The Q-values of one observation, float32 [actions], or of a batch, [n, actions]."""
        rows, batched = self.obs_layout.batch(observation)
        values = np.empty((len(rows), self.action_layout.n), np.float32)
        self.act_rows(rows, values)
        return values if batched else values[0]

    def predict(self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True) -> tuple[Array, Any]:
        """As Stable-Baselines3's: (actions, state). Always greedy."""
        return self.act(observation), state

    def _act(self, observation: Any, explore: Any) -> Array:
        """explore: None, or a function of the rows' number that gives (mask, actions) to take instead."""
        rows, batched = self.obs_layout.batch(observation)
        actions = self.act_rows(rows)
        if explore is not None:
            mask, other = explore(len(rows))
            actions = np.where(mask, other, actions)
        actions = actions.astype(np.int64) + self.action_layout.start
        return actions if batched else actions.reshape(())

    def act_rows(self, rows: Array, values: Array | None = None) -> Array:
        """Greedy actions, counted from 0, for rows as the library lays them out."""
        n = len(rows)
        actions = np.empty(n, np.int32)
        if n:
            _lib.lib().paceline_policy_act(
                self._handle.value,
                n,
                rows.ctypes.data,
                None,
                None,
                actions.ctypes.data,
                None if values is None else values.ctypes.data_as(POINTER(c_float)),
            )
        return actions

    def evaluate(self, env: Any, episodes: int = 20, epsilon: float = 0.0, seed: int = 0, **env_kwargs: Any) -> Evaluation:
        """Plays whole episodes, with a random action with probability epsilon.

        env: the name of a built-in environment, which is then stepped by the
        library, made with env_kwargs, or a Gymnasium (vector) environment. Of Atari
        games whole games are played, for their whole rewards. The same arguments give
        the same result where the environment allows it.
        """
        if isinstance(env, str):
            out = _ffi.Evaluation()
            _lib.lib().paceline_policy_evaluate(
                ctypes.byref(out), self._handle.value, env.encode(), encode_options(env_kwargs), episodes, epsilon, seed % 2**64
            )
            return Evaluation(out.episodes, out.mean_return, out.std_return, out.min_return, out.max_return, out.mean_length)
        return self._evaluate_pushed(env, episodes, epsilon, seed)

    def _evaluate_pushed(self, env: Any, episodes: int, epsilon: float, seed: int) -> Evaluation:
        source = adapt(env)
        if source.layout.shape != self.obs_layout.shape or source.actions.n != self.action_layout.n:
            raise ConfigError(
                f"env: observations {source.layout.shape} and {source.actions.n} actions, "
                f"the policy has {self.obs_layout.shape} and {self.action_layout.n}"
            )
        if episodes < 1:
            raise ConfigError(f"episodes: {episodes}, must be at least 1")
        n = source.num_envs
        rows = Rows.own(n, source.layout)
        rng = np.random.default_rng(seed)
        # Each environment plays a fixed share: taking the first to finish
        # would favour short episodes.
        left = np.array([(episodes + i) // n for i in range(n)])
        returns, lengths = np.zeros(n), np.zeros(n, np.int64)
        resetting = np.zeros(n, bool)
        done_returns: list[float] = []
        done_lengths: list[int] = []
        source.reset(rows, seed=seed % 2**31)
        while left.any():
            rows.actions[...] = self.act_rows(np.ascontiguousarray(rows.obs))
            if epsilon > 0:
                coin = rng.random(n) < epsilon
                rows.actions[coin] = rng.integers(self.action_layout.n, size=n)[coin]
            source.step(rows)
            returns += np.where(resetting, 0, rows.rewards)
            lengths += ~resetting
            ended = (rows.ended != 0) & ~resetting
            for i in np.flatnonzero(ended):
                if left[i]:
                    left[i] -= 1
                    done_returns.append(float(returns[i]))
                    done_lengths.append(int(lengths[i]))
                returns[i], lengths[i] = 0, 0
            resetting = ended if source.autoreset == NEXT_STEP else np.zeros(n, bool)
        played = np.array(done_returns)
        return Evaluation(
            len(played),
            float(played.mean()),
            float(played.std(ddof=1)) if len(played) > 1 else 0.0,
            float(played.min()),
            float(played.max()),
            float(np.mean(done_lengths)),
        )

    def close(self) -> None:
        """Frees the network; closing twice is fine."""
        self._handle.close()

    def __enter__(self) -> Policy:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
