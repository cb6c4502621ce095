"""From keywords, as Stable-Baselines3 spells them, to the library's settings.

A keyword that Paceline cannot honour is refused with a sentence: silently
training something else is worse than an error.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from . import _lib
from ._ffi import Option
from .errors import ConfigError
from .schedules import line

# Stable-Baselines3's keywords whose other values mean something that is not
# built: (the values that mean what Paceline does, why the others are refused).
_FIXED: dict[str, tuple[tuple[Any, ...], str]] = {
    "tau": ((1, 1.0), "the target network is copied whole every target_update_interval steps"),
    "n_steps": ((1,), "targets look one step ahead"),
    "replay_buffer_class": ((None,), "the replay memory is the library's own"),
    "replay_buffer_kwargs": ((None,), "the replay memory is the library's own"),
    "optimize_memory_usage": ((False, True), "frames are always kept once"),
    "stats_window_size": ((100,), "means are over the latest 100 episodes"),
    "device": (("auto", "cpu"), "networks run on the CPU"),
    "_init_setup_model": ((True,), "the network is made with the model"),
}

# Keywords that are the Python class's own and no setting of the library.
LOCAL = frozenset({"verbose", "tensorboard_log"})


class Setting(NamedTuple):
    """One setting of the library."""

    name: str
    type: str
    default: str
    doc: str


def describe() -> Iterator[Setting]:
    """All settings of the library with their meaning."""
    lib = _lib.lib()
    i = 0
    while True:
        option = Option()
        try:
            lib.paceline_config_describe(ctypes.byref(option), i)
        except ConfigError:
            return
        yield Setting(option.name.decode(), option.type.decode(), option.default_value.decode(), option.doc.decode())
        i += 1


class Config:
    """A table of named settings with text values, in the library."""

    def __init__(self) -> None:
        lib = _lib.lib()
        self.handle = _lib.new_handle("paceline_config_free", lib.paceline_config_new)

    def set(self, name: str, value: Any) -> None:
        _lib.lib().paceline_config_set(self.handle.value, name.encode(), spell(value).encode())

    def update(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self.set(name, value)

    def get(self, name: str) -> str:
        return _lib.take_text(_lib.lib().paceline_config_get, self.handle.value, name.encode()) or ""

    def preset(self, preset: str, env: str) -> None:
        _lib.lib().paceline_config_preset(self.handle.value, preset.encode(), env.encode())

    def load(self, path: str | os.PathLike[str]) -> None:
        _lib.lib().paceline_config_load(self.handle.value, _lib.encode(path))

    def close(self) -> None:
        self.handle.close()


def spell(value: Any) -> str:
    """A value as the text that the library reads."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, (list, tuple)):
        return ",".join(spell(v) for v in value)
    return str(value)


def settings(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Translates keywords to settings; raises ConfigError for what is not built."""
    out: dict[str, Any] = {}
    for name, value in keywords.items():
        if name in LOCAL:
            continue
        if name in _FIXED:
            allowed, why = _FIXED[name]
            if not any(value is a or value == a for a in allowed):
                raise ConfigError(f"{name}: {value!r}, must be {' or '.join(map(repr, allowed))}: {why}")
        elif name == "learning_rate":
            out["learning_rate"], out["learning_rate_final"] = line(name, value)
        elif name == "policy":
            if not isinstance(value, str):
                raise ConfigError(f"policy: {value!r}, must be 'MlpPolicy', 'CnnPolicy' or 'auto'")
            out["policy"] = value
        elif name == "policy_kwargs":
            out.update(_policy_kwargs(value or {}))
        elif name == "train_freq":
            out["train_freq"] = _train_freq(value)
        elif name == "max_grad_norm":
            out["max_grad_norm"] = 0 if value is None or value == float("inf") else value
        elif name in ("window", "num_threads", "exploration_steps", "frame_stack") and value is None:
            out[name] = 0
        else:
            out[name] = value
    if out.get("gradient_steps") == -1:
        # Stable-Baselines3: as many updates as there were transitions.
        if "train_freq" not in out:
            raise ConfigError("gradient_steps: -1, must come with train_freq, whose number of steps it stands for")
        out["gradient_steps"] = out["train_freq"]
    if "exploration_fraction" in keywords and "exploration_steps" not in keywords:
        out["exploration_steps"] = 0  # a preset's number of steps would win otherwise
    return out


def encode_options(env_kwargs: dict[str, Any]) -> bytes | None:
    """Keywords of an environment as paceline.h takes them."""
    if not env_kwargs:
        return None
    try:
        return json.dumps(env_kwargs, sort_keys=True, allow_nan=False).encode()
    except (TypeError, ValueError) as err:
        raise ConfigError(f"env_kwargs: {env_kwargs!r}, must be numbers, texts and truth values ({err})") from None


def _train_freq(value: Any) -> Any:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        count, unit = value
        if unit != "step":
            raise ConfigError(f"train_freq: {value!r}, must be in steps: updates are due by steps, not by episodes")
        return count
    return value


def _policy_kwargs(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in kwargs.items():
        if name == "net_arch":
            out["net_arch"] = list(value)
        elif name == "activation_fn":
            if _name(value) != "relu":
                raise ConfigError(f"policy_kwargs['activation_fn']: {value!r}, must be ReLU")
        elif name == "normalize_images":
            if value is not True:
                raise ConfigError(f"policy_kwargs['normalize_images']: {value!r}, must be True: pictures are divided by 255")
        elif name == "optimizer_class":
            out["optimizer"] = _name(value)
        elif name == "optimizer_kwargs":
            unknown = set(value or {}) - {"eps"}
            if unknown:
                raise ConfigError(f"policy_kwargs['optimizer_kwargs']: {sorted(unknown)} not known, must be 'eps'")
            if value and "eps" in value:
                out["optimizer_eps"] = value["eps"]
        else:
            raise ConfigError(
                f"policy_kwargs[{name!r}] is not known: must be net_arch, activation_fn, normalize_images, "
                "optimizer_class or optimizer_kwargs"
            )
    return out


def _name(value: Any) -> str:
    """The lower-case name of a class, a function or a text: torch.optim.Adam is "adam"."""
    return str(value if isinstance(value, str) else getattr(value, "__name__", value)).lower()
