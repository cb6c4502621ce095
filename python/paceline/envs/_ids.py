"""Resolves the name of an environment: a built-in one, or one that Gymnasium makes.

Atari games have many ids, each with other wrappers or settings. If a model learns in one of them,
the library's own game replaces it, and a warning names the recipe.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, NamedTuple

from ..errors import ConfigError, notice
from . import registration

# (suffix of the id, prefix of the id, the project that uses it, the closest keywords)
_ATARI: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("NoFrameskip-v4", "", "stable-baselines3's and CleanRL's games", {"recipe": "sb3"}),
    ("-v5", "ALE/", "ale-py's games", {"repeat_action_probability": 0.25}),
    ("-v5", "", "EnvPool's games", {"noop_min": 1, "noop_max": 31, "reward_clipping": False}),
)


class Meaning(NamedTuple):
    """name: the built-in environment, or None if gymnasium.make makes it. env_kwargs: its keywords."""

    name: str | None
    env_kwargs: dict[str, Any]


def atari(id: str) -> tuple[str, dict[str, Any], str] | None:
    """(game, keywords, project) of another project's id of an Atari game, or None."""
    for end, begin, project, keywords in _ATARI:
        game = id.removeprefix(begin).removesuffix(end)
        ours = game.replace("TicTacToe3D", "TicTacToe3d")  # ale-py's spelling, and EnvPool's
        if id == begin + game + end and ours in registration.ATARI:
            return ours, keywords, project
    return None


def meaning(id: str) -> Meaning:
    """The environment that an id stands for. The library refuses an unknown id later."""
    from .vec import library_name

    if name := library_name(id):
        return Meaning(name, {})
    if known := atari(id):
        game, keywords, project = known
        arguments = ", ".join([repr(game), *(f"{name}={value!r}" for name, value in keywords.items())])
        notice(f"{id!r}: an id of {project}, the library's own {arguments} replaces it")
        return Meaning(game, keywords)
    try:
        return Meaning(None if in_gymnasium(id) else id, {})
    except ConfigError as err:
        raise ConfigError(f"env{str(err).removeprefix('id')}") from err


def resolved(env: Any, num_envs: int | None, env_kwargs: dict[str, Any] | None) -> tuple[Any, Any, dict[str, Any]]:
    """(environment, Gymnasium environment made here or None, keywords of a built-in environment).

    A name becomes the name of a built-in environment with the keywords of the id, or the
    environment that Gymnasium makes, which the caller closes. Objects stay as they are. Raises
    ConfigError for keywords that this function sets itself.
    """
    given = env_kwargs or {}
    if not isinstance(env, str):
        return env, None, given
    name, with_id = meaning(env)
    if name is not None:
        return name, None, with_id | given
    made = _made(env, num_envs, given)
    return made, made, {}


def _made(id: str, num_envs: int | None, env_kwargs: dict[str, Any]) -> Any:
    """The Gymnasium environment of an id, or a vector of several."""
    import gymnasium

    from .vec import make_vec

    for name in ("id", "num_envs", "autoreset_mode"):
        if name in env_kwargs:
            raise ConfigError(f"env_kwargs[{name!r}]: {env_kwargs[name]!r}, must be left out: the library sets it")
    if num_envs is not None and num_envs > 1:
        return make_vec(id, num_envs, autoreset_mode="same_step", **env_kwargs)
    if "workers" in env_kwargs:
        given = env_kwargs["workers"]
        raise ConfigError(f"env_kwargs['workers']: {given!r}, must be left out for one environment: the caller's process steps it")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*render_mode.*not in the possible render_modes")
            with contextlib.suppress(TypeError):  # of an environment without this keyword
                return gymnasium.make(id, **{"render_mode": "rgb_array", **env_kwargs})  # as in stable-baselines3
        return gymnasium.make(id, **env_kwargs)
    except gymnasium.error.Error as err:  # mostly a missing package
        raise ConfigError(f"env: {id!r}, Gymnasium cannot make this environment: {' '.join(str(err).split())}") from err


def in_gymnasium(id: str) -> bool:
    """Whether gymnasium.make knows an id; raises ConfigError if it knows only another version of it."""
    from gymnasium.error import DeprecatedEnv, VersionNotFound

    from .workers import spec_of

    try:
        spec_of(id)
    except ConfigError as err:
        ours = id.rpartition("-v")[0] in {name.rpartition("-v")[0] for name in registration.CLASSIC}
        if isinstance(err.__cause__, (DeprecatedEnv, VersionNotFound)) and not ours:
            raise
        return False
    return True
