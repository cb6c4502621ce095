"""What a model's files keep for Python, and models made from files."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .compat._sb3_file import Saved
from .config import Config
from .envs.vector import Source, SpacesSource
from .errors import ConfigError
from .policy import Policy
from .spaces import to_kept

if TYPE_CHECKING:
    from ._model import Model

M = TypeVar("M", bound="Model")
# The Python class's own keywords with the types that they have in a file.
_LOCAL: dict[str, tuple[type, ...]] = {"verbose": (int,), "tensorboard_log": (str,), "policy_kwargs": (dict,)}


def host_data(source: Source | None, keywords: Mapping[str, Any], masks: bool) -> str:
    """What a file keeps for Python (the setting host_data): the layouts of environments that Python steps, whether it learns
    with action masks there, and the class's own keywords."""
    kept: dict[str, Any] = {} if source is None else to_kept(source.layout, source.actions) | {"action_masks": masks}
    return json.dumps({"python": kept | {"keywords": {name: keywords.get(name) for name in _LOCAL}}}, default=_plain)


def kept_keywords(text: str) -> dict[str, Any]:
    """The class's own keywords in a text of host_data's; none of a text that another host wrote."""
    try:
        kept = json.loads(text)["python"]["keywords"]
        return {name: kept[name] for name, types in _LOCAL.items() if isinstance(kept.get(name), types)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _plain(value: Any) -> Any:
    """What JSON has no form for: classes by their names, which constructors take as well, paths, NumPy's numbers."""
    if isinstance(value, type):
        return value.__name__
    if hasattr(value, "__fspath__"):
        return os.fsdecode(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)


def settings_of(path: str, cls: type[Model]) -> Config:
    """The settings of a file that a model of a class has saved."""
    config = Config.load(path)
    if config.method != cls.METHOD:
        raise ConfigError(f"{path}: a run of {config.method!r}, must be of {cls.METHOD!r} for {cls.__name__}.load")
    return config


def spaces_of(path: str, config: Config) -> SpacesSource:
    """The spaces that a model of a file was made for."""
    with Policy.load(path) as policy:
        both = policy.obs_layout.space(), policy.action_layout.space()
    return SpacesSource(*both, int(config.get("num_envs")), config.get("autoreset"))


def of_sb3(cls: type[M], saved: Saved, env: Any, keywords: dict[str, Any]) -> M:
    """The model that one of stable-baselines3's files stands for."""
    if cls.METHOD == "pqn":
        raise ConfigError("a file of stable-baselines3's, which has no PQN: must be one that PQN.save wrote")
    if saved.q_learning != (cls.METHOD == "dqn"):
        has, must = ("Q-values", "a policy and values") if saved.q_learning else ("a policy and values", "Q-values")
        raise ConfigError(f"a network with {has}, must have {must} for {cls.__name__}.load")
    if env is None:
        env = SpacesSource(*saved.spaces(), saved.num_envs)
    make: Any = cls  # each method has keywords of its own
    model: M = make(env=env, **saved.keywords_for(cls.keywords(), keywords, lambda some: _accepts(cls, some)), **keywords)
    try:
        model._take_sb3(saved)
    except BaseException:
        model.close()
        raise
    return model


def _accepts(cls: type[Model], keywords: dict[str, Any]) -> bool:
    """Whether the constructor takes these keywords, all others being its defaults."""
    config = Config(cls.METHOD)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config.update(cls._translate(keywords))
    except ConfigError:
        return False
    finally:
        config.close()
    return True
