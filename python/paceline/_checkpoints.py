"""The Python entries of checkpoints, and models made from checkpoints."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .compat._sb3_file import Saved
from .config import Config
from .envs._source import Source, SpacesSource
from .errors import ConfigError
from .policy import Policy
from .spaces import ActionLayout, layouts_to_json

if TYPE_CHECKING:
    from ._model import Model

M = TypeVar("M", bound="Model")
# Keywords of the Python class that a file stores, with their types in JSON.
_LOCAL: dict[str, tuple[type, ...]] = {"verbose": (int,), "tensorboard_log": (str,), "policy_kwargs": (dict,)}


def host_data(source: Source | None, keywords: Mapping[str, Any], masks: bool) -> str:
    """The setting host_data, which a file stores: JSON with the class's keywords.

    If Python steps the environments, it also has their layouts and whether the model reads action
    masks.
    """
    kept: dict[str, Any] = {} if source is None else layouts_to_json(source.layout, source.actions) | {"action_masks": masks}
    return json.dumps({"python": kept | {"keywords": {name: keywords.get(name) for name in _LOCAL}}}, default=_plain)


def stored_keywords(text: str) -> dict[str, Any]:
    """The class's keywords in a text of host_data; {} for a text from another host language."""
    try:
        kept = json.loads(text)["python"]["keywords"]
        return {name: kept[name] for name, types in _LOCAL.items() if isinstance(kept.get(name), types)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _plain(value: Any) -> Any:
    """Converts values that JSON cannot hold: classes to names, which constructors accept, paths to str, NumPy scalars."""
    if isinstance(value, type):
        return value.__name__
    if hasattr(value, "__fspath__"):
        return os.fsdecode(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)


def settings_of(path: str, cls: type[Model]) -> Config:
    """The settings of a checkpoint; raises ConfigError if a model of another class saved it."""
    config = Config.load(path)
    if config.method != cls.METHOD:
        raise ConfigError(f"{path}: a run of {config.method!r}, must be of {cls.METHOD!r} for {cls.__name__}.load")
    return config


def spaces_of(path: str, config: Config) -> SpacesSource:
    """The spaces of the environments that a saved model was made for."""
    with Policy.load(path) as policy:
        both = policy.obs_layout.space(), policy.action_layout.space()
    return SpacesSource(*both, int(config.get("num_envs")), config.get("autoreset"))


def check_bounds(path: str, actions: ActionLayout) -> None:
    """Raises ConfigError if the bounds of a box differ from those of the model in a file."""
    if len(actions.low):
        with Policy.load(path) as policy:
            if policy.action_layout.key == actions.key:
                actions.check_bounds("env", policy.action_layout)


def of_sb3(cls: type[M], saved: Saved, env: Any, keywords: dict[str, Any]) -> M:
    """A model with the settings and the weights of a stable-baselines3 file."""
    if cls.METHOD == "pqn":
        raise ConfigError("a file of stable-baselines3's, which has no PQN: must be one that PQN.save wrote")
    q_learning = cls.METHOD in ("dqn", "gorila")
    saved.refuse_other_network(q_learning, q_learning and saved.quantiles, f"{cls.__name__}.load")
    saved.refuse_actions()
    given = env
    if env is None:
        env = SpacesSource(*saved.spaces(), saved.num_envs)
    make: Any = cls  # the keywords differ by method
    model: M = make(env=env, **saved.keywords_for(cls.keywords(), keywords, lambda some: _accepts(cls, some)), **keywords)
    try:
        if q_learning:
            saved.refuse_other_network(True, model.setting("distribution") == "quantile", f"{cls.__name__}.load")
        theirs = None if given is None else saved.box_actions()
        if theirs is not None and (layout := ActionLayout.of_space(theirs)).key == model.action_layout.key:
            model.action_layout.check_bounds("env", layout)
        model._take_sb3(saved)
    except BaseException:
        model._abandon()
        raise
    return model


def _accepts(cls: type[Model], keywords: dict[str, Any]) -> bool:
    """Whether the constructor accepts these keywords with defaults for all others."""
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
