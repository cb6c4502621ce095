"""From keywords, as Stable-Baselines3 spells them, to the settings of the library's methods.

A keyword that Paceline cannot honour is refused with a sentence: silently
training something else is worse than an error. What one method alone has is in that
method's module (dqn.py, a2c.py).
"""

from __future__ import annotations

import ctypes
import difflib
import json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from . import _lib
from ._ffi import Option
from .errors import ConfigError
from .schedules import Points, points

# Keywords that are the Python class's own and no setting of the library.
LOCAL = frozenset({"verbose", "tensorboard_log", "policy_kwargs"})

Values = dict[str, object]
"""Settings with values that spell writes as the library reads them."""

Fixed = dict[str, tuple[tuple[object, ...], str]]
"""Stable-Baselines3's keywords whose other values mean something that is not built: the
values that mean what Paceline does, and why the others are refused."""

FIXED: Fixed = {
    "_init_setup_model": ((True,), "the network is made with the model"),
}

Rule = Callable[[Any], Values]
Rules = dict[str, Rule]
"""Keywords that are not settings of the same name and value: what turns one into settings."""


class Setting(NamedTuple):
    """One setting of the library."""

    name: str
    type: str
    default: str
    doc: str


class Preset(NamedTuple):
    """One documented table of settings.

    envs: the environments that it exists for, None for any. steps: how many a run is meant to take, 0 for any number.
    """

    name: str
    doc: str
    envs: list[str] | None
    steps: int


def methods() -> list[str]:
    """The names of all methods: "dqn" and so on."""
    return list(_lib.take_json(_lib.lib().paceline_methods))


class Config:
    """A table of named settings of one method with text values, in the library."""

    def __init__(self, method: str = "dqn", handle: _lib.Handle | None = None) -> None:
        """The method's defaults, or what a handle has, which it takes over."""
        self.handle = handle or _lib.new_handle("paceline_config_free", _lib.lib().paceline_config_new, _lib.encode(method))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Config:
        """The settings that a checkpoint holds, of the method that it names."""
        return cls(handle=_lib.new_handle("paceline_config_free", _lib.lib().paceline_config_load, _lib.encode(path)))

    @property
    def method(self) -> str:
        out = ctypes.c_char_p()
        _lib.lib().paceline_config_method(ctypes.byref(out), self.handle.value)
        return (out.value or b"").decode()

    def describe(self) -> Iterator[Setting]:
        """All settings with their meaning."""
        for o in _lib.each(Option, _lib.lib().paceline_config_describe, self.handle.value):
            yield Setting(o.name.decode(), o.type.decode(), o.default_value.decode(), o.doc.decode())

    def presets(self) -> list[Preset]:
        """The method's documented tables of settings."""
        return [Preset(**preset) for preset in _lib.take_json(_lib.lib().paceline_config_presets, self.handle.value)]

    def set(self, name: str, value: object) -> None:
        _lib.lib().paceline_config_set(self.handle.value, _lib.encode(name), _lib.encode(spell(value)))

    def update(self, values: Mapping[str, object]) -> None:
        for name, value in values.items():
            self.set(name, value)

    def get(self, name: str) -> str:
        return _lib.take_text(_lib.lib().paceline_config_get, self.handle.value, _lib.encode(name)) or ""

    def preset(self, preset: str, env: str) -> None:
        _lib.lib().paceline_config_preset(self.handle.value, _lib.encode(preset), _lib.encode(env))

    def close(self) -> None:
        self.handle.close()


def describe(method: str = "dqn") -> Iterator[Setting]:
    """All settings of a method with their meaning."""
    config = Config(method)
    yield from config.describe()
    config.close()


def spell(value: object) -> str:
    """A value as the text that the library reads."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, (list, tuple)):
        return ",".join(spell(v) for v in value) or "none"
    return str(value)


# Keywords of other libraries and methods, with what there is instead.
_ELSEWHERE = {
    **dict.fromkeys(
        (
            "prioritized_replay",
            "prioritized_replay_alpha",
            "prioritized_replay_beta0",
            "prioritized_replay_beta_iters",
            "prioritized_replay_eps",
        ),
        "transitions are drawn uniformly: prioritised replay is not built",
    ),
    "double_q": "Double Q-learning is DQN's alone",
    "dueling": "the network has one stream: dueling networks are not built",
    "param_noise": "exploration is epsilon-greedy: noisy networks are not built",
    "n_quantiles": "Q-values are means: distributions are not built",
    "create_eval_env": "learn(eval_freq=..., eval_env=...) evaluates",
    "n_cpu_tf_sess": "num_threads is the number of threads",
    **dict.fromkeys(
        ("buffer_size", "learning_starts", "train_freq", "gradient_steps", "tau", "target_update_interval"),
        "the replay memory and the target network are DQN's alone",
    ),
    "clip_range": "the clipped objective is PPO's alone",
    "n_epochs": "passes over a rollout are PPO's alone",
}


def check_keywords(method: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises TypeError for a keyword that is not known, with the one that is meant or what there is instead."""
    for name in given:
        if name in known:
            continue
        near = difflib.get_close_matches(name, list(known), 1)
        more = _ELSEWHERE.get(name) or (f"did you mean {near[0]}?" if near else "")
        raise TypeError(f"{method}() got an unexpected keyword argument {name!r}" + (f": {more}" if more else ""))


def translate(keywords: Mapping[str, Any], fixed: Fixed, rules: Rules, policy: Rules) -> Values:
    """The settings that keywords stand for; raises ConfigError for what is not built.

    fixed and rules: what a method has beside FIXED and RULES. A keyword that none of them
    names is the setting of that name. policy: the rules of policy_kwargs beside
    POLICY, whose settings replace those of other keywords.
    """
    fixed, rules = FIXED | fixed, RULES | rules
    out: Values = {}
    for name, value in keywords.items():
        if name in LOCAL:
            continue
        if name in fixed:
            allowed, why = fixed[name]
            if not any(value is a or value == a for a in allowed):
                raise ConfigError(f"{name}: {value!r}, must be {' or '.join(map(repr, allowed))}: {why}")
        elif name in rules:
            out.update(rules[name](value))
        else:
            out[name] = value
    policy = POLICY | policy
    kwargs = keywords.get("policy_kwargs")
    if not isinstance(kwargs, (Mapping, type(None))):
        raise ConfigError(f"policy_kwargs: {kwargs!r}, must be a dict: {', '.join(policy)}")
    for name, value in (kwargs or {}).items():
        if name not in policy:
            raise ConfigError(f"policy_kwargs[{name!r}] is not known: must be {' or '.join(', '.join(policy).rsplit(', ', 1))}")
        out.update(policy[name](value))
    return out


def along(name: str, value: Any) -> Values:
    """The settings of a value that is constant or follows a schedule."""
    at = points(name, value)
    return {name: at[0][1], f"{name}_schedule": _curve(at) if len(at) > 1 else None}


def _curve(at: Points) -> str:
    return ",".join(f"{share!r}:{value:.9g}" for share, value in at)


def _learning_rate(value: Any) -> Values:
    rate = points("learning_rate", value)
    return {
        "learning_rate": rate[0][1],
        "learning_rate_final": rate[1][1] if len(rate) == 2 else None,
        "learning_rate_schedule": _curve(rate) if len(rate) > 2 else None,
    }


def _policy(value: object) -> Values:
    """A name, or one of Stable-Baselines3's own classes: DQNPolicy and ActorCriticPolicy are their MlpPolicy."""
    if isinstance(value, type) and value.__module__.startswith("stable_baselines3.") and "MultiInput" not in value.__name__:
        value = "CnnPolicy" if "Cnn" in value.__name__ else "MlpPolicy"
    name = value if isinstance(value, str) else getattr(value, "__name__", "")
    if "Lstm" in name or "Recurrent" in name:
        raise ConfigError(f"policy: {value!r}, must be 'MlpPolicy', 'CnnPolicy' or 'auto': recurrent networks are not built")
    if not isinstance(value, str):
        raise ConfigError(f"policy: {value!r}, must be 'MlpPolicy', 'CnnPolicy' or 'auto': networks of one's own are not built")
    return {"policy": value}


def zero_for_none(name: str) -> Rule:
    """The rule of a setting whose 0 leaves the choice to the library."""
    return lambda value: {name: 0 if value is None else value}


RULES: Rules = {
    "learning_rate": _learning_rate,
    "policy": _policy,
    "device": lambda value: {"device": str(value)},  # a torch.device is the text of its name
    "max_grad_norm": lambda value: {"max_grad_norm": 0 if value is None or value == float("inf") else value},
    "num_threads": zero_for_none("num_threads"),
    "frame_stack": zero_for_none("frame_stack"),
}
"""The rules of keywords that every method has."""


def encode_options(env_kwargs: dict[str, Any]) -> bytes | None:
    """Keywords of an environment as paceline.h takes them."""
    if not env_kwargs:
        return None
    try:
        return json.dumps(env_kwargs, sort_keys=True, allow_nan=False).encode()
    except (TypeError, ValueError) as err:
        raise ConfigError(f"env_kwargs: {env_kwargs!r}, must be numbers, texts and truth values ({err})") from None


def class_name(value: object) -> str:
    """The lower-case name of a class, a function or a text: torch.optim.Adam is "adam"."""
    return str(value if isinstance(value, str) else getattr(value, "__name__", value)).lower()


def one_of(name: str, classes: Mapping[str, Values]) -> Rule:
    """The rule of an entry of policy_kwargs that is one of these classes, each with the settings that mean the same."""
    meanings = {known.lower(): meaning for known, meaning in classes.items()}

    def rule(value: object) -> Values:
        if class_name(value) not in meanings:
            allowed = " or ".join(", ".join(classes).rsplit(", ", 1))
            raise ConfigError(f"policy_kwargs[{name!r}]: {value!r}, must be {allowed}")
        return meanings[class_name(value)]

    return rule


POLICY: Rules = {"normalize_images": lambda value: {"normalize_images": value}}
"""The rules of policy_kwargs that every method has."""


def widths(value: Any) -> list[int]:
    """The widths of a policy's hidden layers, of policy_kwargs["net_arch"] or a part of it."""
    try:
        if isinstance(value, (str, bytes, Mapping)):
            raise TypeError
        return [operator.index(width) for width in value]
    except TypeError:
        raise ConfigError(f"policy_kwargs['net_arch']: {value!r}, must be a list of widths, such as [64, 64]") from None


def check_layers(given: object, policy: str, settings: Mapping[str, object]) -> None:
    """Refuses hidden layers that a policy cannot have. given: policy_kwargs["net_arch"]; settings: what was made of it."""
    layers = [value for name, value in settings.items() if name.startswith("net_arch")]
    if policy == "CnnPolicy" and any(layers):
        raise ConfigError(f"policy_kwargs['net_arch']: {given!r}, must be empty: CnnPolicy's layers are fixed")


ACTIVATION = one_of("activation_fn", {name: {"activation_fn": name.lower()} for name in ("Tanh", "ReLU")})
"""The rule of policy_kwargs["activation_fn"]."""


def optimizer_kwargs(names: Mapping[str, str]) -> Rule:
    """The rule of policy_kwargs["optimizer_kwargs"]: PyTorch's names, each with the setting's."""

    def rule(value: Mapping[str, Any] | None) -> Values:
        given = {name: number for name, number in (value or {}).items() if (name, number) != ("weight_decay", 0)}
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise ConfigError(f"policy_kwargs['optimizer_kwargs']: {unknown} not known, must be {' or '.join(map(repr, names))}")
        return {names[name]: number for name, number in given.items()}

    return rule
