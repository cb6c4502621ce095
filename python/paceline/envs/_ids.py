"""What the name of an environment stands for: one of the library's, or one that Gymnasium makes.

Atari games have many ids, each of which means wrappers or settings of its own. Where one of
them names an environment to learn in, the library plays the game, and says once with which
recipe.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import ConfigError, notice
from . import registration

# (what an id ends with, what it begins with, whose id it is, the keywords that come nearest)
_ATARI: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("NoFrameskip-v4", "", "stable-baselines3's and CleanRL's games", {"recipe": "sb3"}),
    ("-v5", "ALE/", "ale-py's games", {"repeat_action_probability": 0.25}),
    ("-v5", "", "EnvPool's games", {"noop_min": 1, "noop_max": 31, "reward_clipping": False}),
)


class Meaning(NamedTuple):
    """name: the library's, or None of one that gymnasium.make makes; env_kwargs: its keywords besides."""

    name: str | None
    env_kwargs: dict[str, Any]


def atari(id: str) -> tuple[str, dict[str, Any], str] | None:
    """(game, keywords, whose id) of another project's id of an Atari game."""
    for end, begin, whose, keywords in _ATARI:
        game = id.removeprefix(begin).removesuffix(end)
        if id == begin + game + end and game in registration.ATARI:
            return game, keywords, whose
    return None


def meaning(id: str) -> Meaning:
    """What an id to learn in stands for; an unknown one is left for the library to refuse."""
    from .vec import library_name

    if name := library_name(id):
        return Meaning(name, {})
    if known := atari(id):
        game, keywords, whose = known
        said = ", ".join([repr(game), *(f"{name}={value!r}" for name, value in keywords.items())])
        notice(f"{id!r} is one of {whose}: the library's own, {said}, stands for it")
        return Meaning(game, keywords)
    try:
        return Meaning(None if in_gymnasium(id) else id, {})
    except ConfigError as err:
        raise ConfigError(f"env{str(err).removeprefix('id')}") from err


def resolved(env: Any, num_envs: int | None, env_kwargs: dict[str, Any] | None) -> tuple[Any, Any, dict[str, Any]]:
    """(environment, what was made for it, keywords): a name becomes one of the library's, with the keywords that it
    stands for, or what Gymnasium makes of it, which is the caller's to close; anything else stays as it is."""
    given = env_kwargs or {}
    if not isinstance(env, str):
        return env, None, given
    name, with_id = meaning(env)
    if name is not None:
        return name, None, with_id | given
    made = _made(env, num_envs, given)
    return made, made, {}


def _made(id: str, num_envs: int | None, env_kwargs: dict[str, Any]) -> Any:
    """The environment of Gymnasium's that an id names, or a vector of several."""
    import gymnasium

    from .vec import make_vec

    if num_envs is not None and num_envs > 1:
        return make_vec(id, num_envs, autoreset_mode="same_step", **env_kwargs)
    try:
        return gymnasium.make(id, **env_kwargs)
    except gymnasium.error.Error as err:  # a package that it needs is missing, in most cases
        raise ConfigError(f"env: {id!r}, an environment of Gymnasium's that cannot be made: {' '.join(str(err).split())}") from err


def in_gymnasium(id: str) -> bool:
    """Whether gymnasium.make knows it; refuses another version of one that it knows and the library does not."""
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
