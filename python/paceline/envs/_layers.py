"""What an environment stepped from Python is wrapped in, and which environments are inside it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

_PACKAGES = ("gymnasium", "stable_baselines3")
_REPORTING = ("Monitor", "VecMonitor", "RecordEpisodeStatistics")


def layers(env: Any) -> Iterator[Any]:
    """env, what it is a wrapper of, and so on."""
    import gymnasium

    yield env
    if isinstance(env, (gymnasium.Wrapper, gymnasium.vector.VectorWrapper)):
        yield from layers(env.env)
    elif (inner := getattr(env, "venv", None)) is not None:  # stable-baselines3's
        yield from layers(inner)


def normalizers(env: Any) -> list[Any]:
    """stable-baselines3's VecNormalize among its layers, from the outside in; none of a name."""
    return [layer for layer in layers(env) if _is(layer, ("VecNormalize",))]


def reports(env: Any) -> bool:
    """Whether infos["episode"] is known to come: from a Monitor or VecMonitor of stable-baselines3's or a
    RecordEpisodeStatistics of Gymnasium's. Those in other processes are not all seen from here."""
    inner = env
    for inner in layers(env):
        if _is(inner, _REPORTING) and getattr(inner, "_stats_key", "episode") == "episode":
            return True
    monitor = sys.modules.get("stable_baselines3.common.monitor")
    if monitor is not None and hasattr(env, "env_is_wrapped") and all(env.env_is_wrapped(monitor.Monitor)):
        return True
    envs = _members(inner)
    return bool(envs) and all(map(reports, envs))


def innermost(env: Any) -> list[Any]:
    """The environments inside all wrappers and vectors of this process."""
    *_, inner = layers(env)
    return [each for member in _members(inner) for each in innermost(member)] or [inner]


def shared(env: Any, other: Any) -> bool:
    """Whether a step of the one is a step in the other."""
    theirs = {id(each) for each in innermost(other)}
    return any(id(each) in theirs for each in innermost(env))


def _members(vector: Any) -> list[Any]:
    """What a vector in this process is made of; [] of anything else."""
    import gymnasium

    from .vector import is_sb3

    envs = getattr(vector, "envs", None) if isinstance(vector, gymnasium.vector.VectorEnv) or is_sb3(vector) else None
    return list(envs) if isinstance(envs, (list, tuple)) else [] if envs is None else [envs]


def _is(env: Any, names: tuple[str, ...]) -> bool:
    """Whether it is of a class of Gymnasium's or stable-baselines3's of one of these names, or derives from it."""
    return any(cls.__name__ in names and cls.__module__.partition(".")[0] in _PACKAGES for cls in type(env).__mro__)
