"""Env: one built-in environment as a gymnasium.Env."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ..errors import ConfigError
from ..spaces import Array, Infos
from .vec import in_python, make_vec

__all__ = ["Env", "make"]


def make(id: str, *, render_mode: str | None = None, **env_kwargs: Any) -> Env:
    """Makes one built-in environment. env_kwargs: the keywords of make_vec for a single environment.

    Raises ConfigError for other environments; gymnasium.make makes these.
    """
    return Env(id, render_mode=render_mode, **env_kwargs)


class Env(gymnasium.Env[Array, Any]):
    """A vector of one environment without its first axis. Later calls do not change returned arrays."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, id: str, *, render_mode: str | None = None, **env_kwargs: Any) -> None:
        if in_python(id):
            raise ConfigError(f"id: {id!r}, must be a built-in environment; use gymnasium.make or make_vec for others")
        self._envs = make_vec(id, 1, num_threads=1, autoreset_mode="disabled", render_mode=render_mode, **env_kwargs)
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space
        self.render_mode = render_mode
        self.metadata = {k: v for k, v in self._envs.metadata.items() if k != "autoreset_mode"}

    def reset(self, *, seed: int | None = None, options: Infos | None = None) -> tuple[Array, Infos]:
        """Begins an episode; options are ignored.

        After a lost life (episodic_life) the game continues, unless a seed is given. Otherwise a
        game begins.
        """
        if seed is not None:
            super().reset(seed=seed)
        obs, infos = self._envs.reset(seed=seed, options={"reset_mask": np.ones(1, bool)})
        return obs[0], _first(infos)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Infos]:
        hybrid = isinstance(self.action_space, spaces.Tuple)
        batch = tuple(np.asarray(part)[None] for part in action) if hybrid else np.asarray(action)[None]
        obs, rewards, terminated, truncated, infos = self._envs.step(batch)
        return obs[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), _first(infos)

    def render(self) -> Any:
        """An image, uint8 [height, width, 3]."""
        images = self._envs.render()
        return None if images is None else images[0]

    def get_action_meanings(self) -> list[str]:
        """The names of the actions of an Atari or Mini game, ["NOOP", "FIRE" ...]; [] for other environments."""
        return list(self._envs.get_action_meanings())

    def clone_state(self) -> bytes:
        """The complete state, random generators included."""
        return self._envs.clone_state(0)  # type: ignore[no-any-return]

    def restore_state(self, state: bytes) -> None:
        """Continues from a state of clone_state."""
        self._envs.restore_state(state, 0)

    def close(self) -> None:
        self._envs.close()


def _first(infos: Infos) -> Infos:
    """The only entry of each column; scalars become Python numbers."""
    return {name: column[0] if column.ndim > 1 else column[:1].tolist()[0] for name, column in infos.items() if name[0] != "_"}
