"""Translates stable-baselines3's keywords into the settings of the library's methods.

A value that Paceline does not support raises ConfigError, because training something else silently
would be worse. Rules of a single method are in its module (dqn.py, a2c.py).
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

# Keywords of the Python class that are no settings of the library.
LOCAL = frozenset({"verbose", "tensorboard_log", "policy_kwargs", "cluster"})

Values = dict[str, object]
"""Settings by name, with values that to_text turns into text."""

Fixed = dict[str, tuple[tuple[object, ...], str]]
"""Keywords of which Paceline supports only some values: those values, and why others are refused."""

FIXED: Fixed = {
    "_init_setup_model": ((True,), "the network is made with the model"),
}

Rule = Callable[[Any], Values]
Rules = dict[str, Rule]
"""Keywords that are not settings of the same name and value, each with its translation."""


class Setting(NamedTuple):
    """One setting of the library."""

    name: str
    type: str
    default: str
    doc: str


class Preset(NamedTuple):
    """One documented table of settings.

    envs: the environments that have the preset, None for all. steps: the intended length of a run,
    0 for none.
    """

    name: str
    doc: str
    envs: list[str] | None
    steps: int


def methods() -> list[str]:
    """The names of all methods, such as "dqn"."""
    return list(_lib.take_json(_lib.lib().paceline_methods))


class Config:
    """The settings of one method, held by the library as names and texts."""

    def __init__(self, method: str = "dqn", handle: _lib.Handle | None = None) -> None:
        """Makes the method's defaults, or takes over a handle."""
        self.handle = handle or _lib.Handle("paceline_config_free", _lib.lib().paceline_config_new, _lib.encode(method))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Config:
        """The settings in a checkpoint."""
        return cls(handle=_lib.Handle("paceline_config_free", _lib.lib().paceline_config_load, _lib.encode(path)))

    @property
    def method(self) -> str:
        out = ctypes.c_char_p()
        _lib.lib().paceline_config_method(ctypes.byref(out), self.handle.value)
        return (out.value or b"").decode()

    def describe(self) -> Iterator[Setting]:
        """Yields all settings with their documentation."""
        for o in _lib.each(Option, _lib.lib().paceline_config_describe, self.handle.value):
            yield Setting(o.name.decode(), o.type.decode(), o.default_value.decode(), o.doc.decode())

    def presets(self) -> list[Preset]:
        """The method's presets."""
        return [Preset(**preset) for preset in _lib.take_json(_lib.lib().paceline_config_presets, self.handle.value)]

    def set(self, name: str, value: object) -> None:
        _lib.lib().paceline_config_set(self.handle.value, _lib.encode(name), _lib.encode(to_text(value)))

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
    """Yields all settings of a method with their documentation."""
    config = Config(method)
    yield from config.describe()
    config.close()


def to_text(value: object) -> str:
    """The library's text for a value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, (list, tuple)):
        return ",".join(to_text(v) for v in value) or "none"
    return str(value)


# Keywords of other libraries and methods, with the end of the error message.
_ELSEWHERE = {
    **dict.fromkeys(
        (
            "prioritized_replay",
            "prioritized_replay_alpha",
            "prioritized_replay_beta0",
            "prioritized_replay_beta_iters",
            "prioritized_replay_eps",
        ),
        "DQN has prioritized, priority_alpha and priority_beta",
    ),
    "double_q": "only DQN and Gorila have Double Q-learning",
    "n_step_tails": "only DQN and Gorila have a replay memory",
    **dict.fromkeys(
        (
            "prioritized",
            "priority_alpha",
            "priority_beta",
            "priority_beta_final",
            "priority_beta_steps",
            "priority_update",
        ),
        "only DQN, and Gorila with cluster='ray', have prioritised replay",
    ),
    **dict.fromkeys(("dueling", "dueling_rescaled"), "only DQN and Gorila have dueling networks"),
    "param_noise": "DQN has noisy, the noise of Noisy networks",
    **dict.fromkeys(("noisy", "noisy_sigma"), "only DQN has noisy networks"),
    **dict.fromkeys(("munchausen", "munchausen_alpha", "munchausen_tau", "munchausen_clip"), "only DQN and Gorila have Munchausen targets"),
    **dict.fromkeys(
        ("distribution", "n_atoms", "v_min", "v_max", "least_prob"),
        "only DQN and Gorila have a choice of distributions; QRDQN has quantiles",
    ),
    **dict.fromkeys(("n_quantiles", "kappa"), "only DQN, QRDQN and Gorila have quantiles"),
    **dict.fromkeys(("n_tau", "n_tau_target", "n_tau_act", "n_cosines"), "only DQN and Gorila have implicit quantiles"),
    "create_eval_env": "learn(eval_freq=..., eval_env=...) evaluates",
    "n_cpu_tf_sess": "num_threads is the number of threads",
    **dict.fromkeys(
        ("buffer_size", "learning_starts", "train_freq", "gradient_steps", "tau", "target_update_interval"),
        "only DQN and Gorila have a replay memory and a target network",
    ),
    "clip_range": "only PPO and APPO have a clipped objective",
    "n_epochs": "only PPO, APPO and PQN make several passes over a rollout",
    **dict.fromkeys(("vtrace_groups", "vtrace_steps"), "only A2C and A3C have groups of V-trace"),
    **dict.fromkeys(("vtrace", "vtrace_rho", "vtrace_c"), "only A2C, A3C, APPO, GA3C and PPO have V-trace"),
    "pull_period": "only A3C and APPO have a pull_period",
    **dict.fromkeys(
        ("learners", "rule", "sync_period", "adam_time"),
        "only A3C, APPO and DQN have several learners; Gorila has bundles",
    ),
    **dict.fromkeys(("shards", "max_staleness"), "only A3C, APPO, DQN and Gorila have a store of parameters"),
    "bundles": "only Gorila has bundles",
    "clock": "only DQN has a clock; Gorila always counts updates",
    "outliers": "only DQN and Gorila drop outliers",
    "trunk": "cnn names the convolutions, such as cnn='minatar'",
    **dict.fromkeys(("updates", "outside_learners", "outside_learner"), "only A2C, DQN and PPO have updates from outside"),
    **dict.fromkeys(("schedule", "order"), "only A3C, APPO, DQN, GA3C and Gorila are asynchronous"),
    **dict.fromkeys(("predictors", "trainers", "min_training_batch", "tuner"), "only GA3C has predictors and trainers"),
    **dict.fromkeys(("normalize_obs", "normalize_reward"), "only A2C, A3C, APPO and PPO normalise"),
}


def check_keywords(method: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises TypeError for an unknown keyword; the message suggests a similar name or an alternative."""
    for name in given:
        if name in known:
            continue
        near = difflib.get_close_matches(name, list(known), 1)
        more = _ELSEWHERE.get(name) or (f"did you mean {near[0]}?" if near else "")
        raise TypeError(f"{method}() got an unexpected keyword argument {name!r}" + (f": {more}" if more else ""))


def translate(keywords: Mapping[str, Any], fixed: Fixed, rules: Rules, policy: Rules) -> Values:
    """The settings that keywords stand for; raises ConfigError for an unsupported value.

    fixed, rules: the method's additions to FIXED and RULES. A keyword in neither is the setting of
    the same name. policy: the method's rules for policy_kwargs in addition to POLICY; their
    settings override those of other keywords.
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
        if name in _EXTRACTORS:
            raise ConfigError(f"policy_kwargs[{name!r}]: {value!r}, must not be given: custom networks are not supported")
        if name not in policy:
            raise ConfigError(f"policy_kwargs[{name!r}]: not known, must be {' or '.join(', '.join(policy).rsplit(', ', 1))}")
        out.update(policy[name](value))
    return out


def scheduled(name: str, value: Any) -> Values:
    """The settings of a constant or a schedule."""
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
    """The rule of policy: a name or a class of stable-baselines3 or sb3-contrib, such as ActorCriticPolicy for MlpPolicy."""
    known = "stable_baselines3.", "sb3_contrib.qrdqn."
    if isinstance(value, type) and value.__module__.startswith(known) and "MultiInput" not in value.__name__:
        value = "CnnPolicy" if "Cnn" in value.__name__ else "MlpPolicy"
    name = value if isinstance(value, str) else getattr(value, "__name__", "")
    if "Lstm" in name or "Recurrent" in name:
        raise ConfigError(f"policy: {value!r}, must be 'MlpPolicy', 'CnnPolicy' or 'auto': recurrent networks are not supported")
    if not isinstance(value, str):
        raise ConfigError(f"policy: {value!r}, must be 'MlpPolicy', 'CnnPolicy' or 'auto': custom networks are not supported")
    return {"policy": value}


def zero_for_none(name: str) -> Rule:
    """The rule of a setting for which None means 0, the library's choice."""
    return lambda value: {name: 0 if value is None else value}


RULES: Rules = {
    "learning_rate": _learning_rate,
    "policy": _policy,
    "device": lambda value: {"device": str(value)},  # str of a torch.device is its name
    "max_grad_norm": lambda value: {"max_grad_norm": 0 if value is None or value == float("inf") else value},
    "num_threads": zero_for_none("num_threads"),
    "frame_stack": zero_for_none("frame_stack"),
}
"""The rules of keywords that every method has."""


def encode_options(env_kwargs: dict[str, Any]) -> bytes | None:
    """An environment's keywords as the JSON text that paceline.h takes; None for no keywords."""
    if not env_kwargs:
        return None
    try:
        return json.dumps(env_kwargs, sort_keys=True, allow_nan=False).encode()
    except (TypeError, ValueError) as err:
        raise ConfigError(f"env_kwargs: {env_kwargs!r}, must be values of JSON ({err})") from None


def class_name(value: object) -> str:
    """The lower-case name of a class or a function, or a text in lower case: "adam" for torch.optim.Adam."""
    return str(value if isinstance(value, str) else getattr(value, "__name__", value)).lower()


def one_of(name: str, classes: Mapping[str, Values]) -> Rule:
    """The rule of an entry of policy_kwargs that is one of these classes, each with its settings."""
    meanings = {known.lower(): meaning for known, meaning in classes.items()}

    def rule(value: object) -> Values:
        if class_name(value) not in meanings:
            allowed = " or ".join(", ".join(classes).rsplit(", ", 1))
            raise ConfigError(f"policy_kwargs[{name!r}]: {value!r}, must be {allowed}")
        return meanings[class_name(value)]

    return rule


def alias(method: str, name: str, setting: str, of: Callable[[Any], Any] = lambda value: value) -> Rule:
    """The rule of an entry of policy_kwargs that is a setting of another name.

    name: of the entry, or a path such as "optimizer_kwargs.eps"; an error names it. of: the setting's value.
    """
    entry = "policy_kwargs" + "".join(f"[{part!r}]" for part in name.split("."))

    def rule(value: object) -> Values:
        config, wanted = Config(method), of(value)
        try:
            config.set(setting, wanted)
        except ConfigError as err:
            raise ConfigError(f"{entry}{str(err).removeprefix(setting)}") from None
        finally:
            config.close()
        return {setting: wanted}

    return rule


POLICY: Rules = {"normalize_images": lambda value: {"normalize_images": value}}
"""The rules of policy_kwargs that every method has."""

_EXTRACTORS = ("features_extractor_class", "features_extractor_kwargs")  # policy_kwargs of custom networks


def widths(value: Any) -> list[int]:
    """The widths of hidden layers in policy_kwargs["net_arch"] or in an entry of it."""
    try:
        if isinstance(value, (str, bytes, Mapping)):
            raise TypeError
        return [operator.index(width) for width in value]
    except TypeError:
        raise ConfigError(f"policy_kwargs['net_arch']: {value!r}, must be a list of widths, such as [64, 64]") from None


def check_layers(given: object, policy: str, settings: Mapping[str, object]) -> None:
    """Refuses hidden layers for CnnPolicy. given: policy_kwargs["net_arch"]; settings: its translation."""
    layers = [value for name, value in settings.items() if name.startswith("net_arch")]
    if policy == "CnnPolicy" and any(layers):
        raise ConfigError(f"policy_kwargs['net_arch']: {given!r}, must be empty: CnnPolicy's layers are fixed")


ACTIVATION = one_of("activation_fn", {name: {"activation_fn": name.lower()} for name in ("Tanh", "ReLU")})
"""The rule of policy_kwargs["activation_fn"]."""


def optimizer_kwargs(rules: Rules) -> Rule:
    """The rule of policy_kwargs["optimizer_kwargs"]. rules: those of PyTorch's names."""

    def rule(value: object) -> Values:
        if not isinstance(value, (Mapping, type(None))):
            raise ConfigError(f"policy_kwargs['optimizer_kwargs']: {value!r}, must be a dict of {' or '.join(map(repr, rules))}")
        out: Values = {}
        for name, number in (value or {}).items():
            if name in rules:
                out.update(rules[name](number))
            elif (name, number) != ("weight_decay", 0):
                raise ConfigError(f"policy_kwargs['optimizer_kwargs'][{name!r}]: not known, must be {' or '.join(map(repr, rules))}")
        return out

    return rule
