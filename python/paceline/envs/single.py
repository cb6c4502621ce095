"""Env: one environment of the library's as a gymnasium.Env."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from ..spaces import Array, Infos
from .vec import make_vec

__all__ = ["Env", "make"]


def make(id: str, *, render_mode: str | None = None, **env_kwargs: Any) -> Env:
    """A single environment; the keywords are those of make_vec that mean one environment."""
    return Env(id, render_mode=render_mode, **env_kwargs)


class Env(gymnasium.Env[Array, Any]):
    """A vector of one without its first axis. Arrays that it returns stay as they are."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, id: str, *, render_mode: str | None = None, **env_kwargs: Any) -> None:
        self._envs = make_vec(id, 1, num_threads=1, autoreset_mode="disabled", render_mode=render_mode, **env_kwargs)
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space
        self.render_mode = render_mode
        self.metadata = {k: v for k, v in self._envs.metadata.items() if k != "autoreset_mode"}

    def reset(self, *, seed: int | None = None, options: Infos | None = None) -> tuple[Array, Infos]:
        """Begins an episode; options are not read. After an episode that ended with a lost life (episodic_life) it goes on
        with the game, unless a seed is given; otherwise it begins one."""
        if seed is not None:
            super().reset(seed=seed)
        obs, infos = self._envs.reset(seed=seed, options={"reset_mask": np.ones(1, bool)})
        return obs[0], _first(infos)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Infos]:
        obs, rewards, terminated, truncated, infos = self._envs.step(np.asarray(action)[None])
        return obs[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), _first(infos)

    def render(self) -> Any:
        """An image, uint8 [height, width, 3]."""
        images = self._envs.render()
        return None if images is None else images[0]

    def get_action_meanings(self) -> list[str]:
        """What an Atari game's actions are called, ["NOOP", "FIRE" ...]."""
        return list(self._envs.get_action_meanings())

    def clone_state(self) -> bytes:
        """All that the future depends on."""
        return self._envs.clone_state(0)  # type: ignore[no-any-return]

    def restore_state(self, state: bytes) -> None:
        """Goes on from a state of clone_state."""
        self._envs.restore_state(state, 0)

    def close(self) -> None:
        self._envs.close()


def _first(infos: Infos) -> Infos:
    """Of each column its only entry, as a number of Python's where it is one."""
    return {name: column[0] if column.ndim > 1 else column[:1].tolist()[0] for name, column in infos.items() if name[0] != "_"}
