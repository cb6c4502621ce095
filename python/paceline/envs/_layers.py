"""The wrappers of an environment that Python steps, and the environments inside them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

_PACKAGES = ("gymnasium", "stable_baselines3")
_REPORTING = ("Monitor", "VecMonitor", "RecordEpisodeStatistics")


def layers(env: Any) -> Iterator[Any]:
    """Yields env, then each environment that the previous one wraps."""
    import gymnasium

    yield env
    if isinstance(env, (gymnasium.Wrapper, gymnasium.vector.VectorWrapper)):
        yield from layers(env.env)
    elif (inner := getattr(env, "venv", None)) is not None:  # a wrapper of stable-baselines3
        yield from layers(inner)


def normalizers(env: Any) -> list[Any]:
    """The VecNormalize wrappers among env's layers, from the outside in; [] for a name."""
    return [layer for layer in layers(env) if _is(layer, ("VecNormalize",))]


def reports(env: Any) -> bool:
    """Whether env contains a Monitor, a VecMonitor or a RecordEpisodeStatistics, which report infos["episode"].

    Wrappers in other processes may be missed.
    """
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
    """Whether env and other share an environment, so that a step of one is a step of the other."""
    theirs = {_identity(each) for each in innermost(other)}
    return any(_identity(each) in theirs for each in innermost(env))


def _identity(env: Any) -> int:
    """The id of env's __dict__, which the results of _lent.lent share with env; of env itself if it has none."""
    return id(getattr(env, "__dict__", env))


def _members(vector: Any) -> list[Any]:
    """The environments of a vector in this process; [] for anything else."""
    import gymnasium

    from ._source import is_sb3

    if getattr(vector, "closed", False):  # a closed vector of worker processes refuses envs
        return []
    envs = getattr(vector, "envs", None) if isinstance(vector, gymnasium.vector.VectorEnv) or is_sb3(vector) else None
    return list(envs) if isinstance(envs, (list, tuple)) else [] if envs is None else [envs]


def _is(env: Any, names: tuple[str, ...]) -> bool:
    """Whether env is an instance of a Gymnasium or stable-baselines3 class with one of these names."""
    return any(cls.__name__ in names and cls.__module__.partition(".")[0] in _PACKAGES for cls in type(env).__mro__)
