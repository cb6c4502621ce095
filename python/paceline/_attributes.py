"""The attributes of a model that stable-baselines3's scripts and callbacks read."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ._environments import Environments
from ._native import Native
from .config import describe
from .envs._episodes import Recent
from .envs._layers import normalizers
from .envs._source import Source, label
from .errors import ConfigError
from .schedules import Schedule, function, of_settings

_READ: dict[str, Callable[[str], object]] = {
    "bool": lambda text: text == "true",
    "int": int,
    "float": lambda text: float(text) if text else None,
    "ints": lambda text: [int(n) for n in text.split(",") if n not in ("", "none")],
}

# Attributes that vars(model) has in addition to the constructor's keywords.
_SHOWN = (
    "action_noise", "action_space", "device", "lr_schedule", "n_envs", "observation_space", "policy_class", "sde_sample_freq",
    "use_sde", "use_sde_at_warmup",
)  # fmt: skip
# Keywords that learn reads at every call.
_ASSIGNABLE = frozenset({"verbose", "tensorboard_log"})
_CHANGED_BY = {"env": "set_env", "logger": "set_logger"}

_OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adam": {"betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False},
    "radam": {"betas": (0.9, 0.999), "eps": 1e-8},
    "adagrad": {"lr_decay": 0, "eps": 1e-10, "initial_accumulator_value": 0},
    "rmsprop": {"alpha": 0.99, "eps": 1e-8, "momentum": 0, "centered": False},
    "rmsprop_lasagne": {"alpha": 0.95, "eps": 1e-6, "momentum": 0, "centered": False},
    "rmsprop_mnih": {"alpha": 0.95, "eps": 0.01, "momentum": 0, "centered": True},
    "rmsprop_keras": {"alpha": 0.95, "eps": 0.01, "momentum": 0, "centered": True},
}
"""The defaults of the library's optimisers under PyTorch's names (core/nn/optimizer.go, core/agents/dqn/dqn.go)."""


class Attributes:
    """The attributes of Trainer. Every setting of the method is a read-only attribute."""

    METHOD: ClassVar[str]  # the method's name in the library
    METRICS: ClassVar[Mapping[str, str]] = {}  # keys of stats that differ from the last part of a metric's name
    UPDATES: ClassVar[str] = ""  # the metric behind _n_updates; "": the library's count of updates

    _native: Native
    _environments: Environments
    _given: dict[str, Any]  # the keywords of the constructor, from_preset or load, and those of a loaded file
    _seed: int
    policy_name: str

    use_sde = use_sde_at_warmup = False
    sde_sample_freq = -1
    action_noise = None
    policy_aliases: tuple[str, ...] = ("MlpPolicy", "CnnPolicy")
    start_time = 0  # when the latest learn began, in nanoseconds since the epoch

    # Hidden from type checkers, so that they check this package; the methods' classes declare it
    # for users.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and "_native" in self.__dict__:
                if (kind := _settings(self.METHOD).get(name)) is not None:
                    return _READ.get(kind, str)(self.setting(name))
                if name in self._given:
                    return self._given[name]
                if (parameter := constructor_parameters(type(self)).get(name)) is not None:
                    return parameter.default
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        """Refuses to set the model's own attributes, which would have no effect; other names may be set."""
        why = _read_only(type(self)).get(name)  # type: ignore[arg-type] # classes are hashable
        if why is not None:
            raise AttributeError(f"{name}: read-only{why}")
        object.__setattr__(self, name, value)

    def setting(self, name: str) -> str:
        """A setting of the library as text. "auto" is replaced by the value chosen. `paceline options` lists the settings."""
        return self._native.config.get(name)

    @classmethod
    def keywords(cls) -> list[str]:
        """The constructor's keywords; from_preset and load take them as well."""
        return [name for name in inspect.signature(cls).parameters if name != "env"]

    def _show(self) -> None:
        """Puts the hyper-parameters into vars(model), where loggers look for them."""
        for name in (*constructor_parameters(type(self)), *_SHOWN):
            if name[0] != "_" and name not in ("env", "policy", *_ASSIGNABLE) and hasattr(self, name):
                self.__dict__[name] = getattr(self, name)

    # ------------------------------------------------- progress

    @property
    def num_timesteps(self) -> int:
        """Steps taken by all environments together, warm-up included."""
        return int(self._native.stats().num_timesteps)

    @property
    def stats(self) -> dict[str, float]:
        """Every field of paceline_stats by its name, and the method's metrics ("loss", "learning_rate" ...).

        mean_return and mean_length count the rewards and episodes that the model learns from. If a
        Monitor in the environments reports other episodes, the log records (rollout/ep_rew_mean),
        ep_info_buffer and learning_curve have the Monitor's.
        """
        stats = self._native.stats()
        numbers: dict[str, float] = {name: getattr(stats, name) for name, *_ in stats._fields_[1:]}
        for metric, value in self._native.metrics():
            group, _, name = metric.partition("/") if "/" in metric else ("", "", metric)
            # Metrics without a group are counts: "windows", "replay_size".
            numbers[self.METRICS.get(metric, name)] = value if group else int(value)
        return numbers

    def _shown_stats(self) -> dict[str, float]:
        """stats with the mean_return and mean_length of the Monitor's episodes, if a Monitor reports them."""
        shown = self.stats
        if (recent := self._recent) is not None:
            shown |= {"mean_return": recent.mean_return, "mean_length": recent.mean_length}
        return shown

    @property
    def _recent(self) -> Recent | None:
        """The episodes that a Monitor reported; None without a Monitor."""
        return None if self._source is None else self._source.recent

    @property
    def ep_info_buffer(self) -> deque[dict[str, float]]:
        """{"r": return, "l": length} of the latest episodes, oldest first. A Monitor's episodes take precedence."""
        most = int(self.setting("stats_window_size"))
        episodes = self._native.episodes(most) if self._recent is None else self._recent.episodes
        return deque(({"r": total, "l": length} for total, length in episodes), maxlen=most)

    @property
    def _n_updates(self) -> int:
        """Updates as stable-baselines3 counts them: PPO's epochs, other methods' minibatches."""
        return int(self._native.metric(self.UPDATES) if self.UPDATES else self._native.stats().updates)

    @property
    def _episode_num(self) -> int:
        return int(self._native.stats().episodes)

    @property
    def _total_timesteps(self) -> int:
        return int(self._native.stats().total_timesteps)

    @property
    def _current_progress_remaining(self) -> float:
        return 1 - float(self.num_timesteps) / max(self._total_timesteps, 1)

    # ------------------------------------------- configuration

    @property
    def seed(self) -> int:
        """The seed of everything random: the caller's, or the one drawn when the model was made."""
        return self._seed

    @property
    def n_envs(self) -> int:
        return int(self.setting("num_envs"))

    @property
    def learning_rate(self) -> Schedule:
        """The learning rate of the constructor, the file or the preset: a number or a schedule."""
        given: Schedule | None = self._given.get("learning_rate")
        return of_settings(self.setting, "learning_rate", self.setting("learning_rate_final")) if given is None else given

    @property
    def lr_schedule(self) -> Callable[[float], float]:
        """The learning rate as a function of the remaining progress, which goes from 1 to 0."""
        return function("learning_rate", self.learning_rate)

    @property
    def device(self) -> Any:
        """The device of the networks, "cpu" or "cuda:0": a torch.device if torch is imported, else a str."""
        torch, name = sys.modules.get("torch"), self.setting("device")
        return name if torch is None else torch.device(name)

    @property
    def policy_kwargs(self) -> dict[str, Any]:
        return dict(self._given.get("policy_kwargs") or {})

    @property
    def policy_class(self) -> str:
        return self.policy_name

    @property
    def sets(self) -> list[str]:
        """The names of the parameter sets."""
        return self._native.sets

    @property
    def described(self) -> dict[str, Any]:
        """The description that paceline_trainer_describe returns."""
        return self._native.described

    @property
    def recipe(self) -> str:
        """The name and the hash of the environments' recipe; "" for environments without a recipe."""
        return f"{self.described['recipe']} {self.described['recipe_hash']}".strip()

    def _optimizer(self) -> dict[str, Any]:
        """The optimiser in the form of torch's state_dict(), with an empty "state"."""

        def has(name: str) -> Any:
            return getattr(self, name, None)

        name = has("optimizer") or ("rmsprop" if has("use_rms_prop") else "radam" if has("radam_eps") else "adam")
        group = {"lr": float(self.lr_schedule(self._current_progress_remaining)), "weight_decay": 0, **_OPTIMIZERS[name]}
        if has("use_rms_prop"):
            group |= {"alpha": has("rms_prop_alpha"), "eps": has("rms_prop_eps")}
        elif eps := has("optimizer_eps") or has("radam_eps") or has("adam_eps"):
            group["eps"] = eps
        names = [name for name in self._native.parameters.layout if not name.startswith("q_net_target.")]
        return {"state": {}, "param_groups": [group | {"params": list(range(len(names)))}]}

    # --------------------------------------------------- environments

    @property
    def _source(self) -> Source | None:
        return self._environments.source

    @property
    def env_name(self) -> str | None:
        """The name of the built-in environment; None if Python steps the environments."""
        return self._environments.name

    def get_env(self) -> Any:
        """Returns the environments as a stable-baselines3 VecEnv if that package is installed.

        Without stable-baselines3, or if it does not support the autoreset mode, the result has the
        class and the attributes of the object that the caller gave. For built-in environments the
        result is a new vector of the same kind, without stable-baselines3 one from make_vec.

        Environments that Python steps are the model's own. A reset or a step of the result cuts the
        model's episodes: the next learn begins with a reset. During learn it raises BusyError, so
        evaluations in callbacks need other environments. The model does not see steps of the
        caller's own object: call set_env after them, and take none during learn. The same holds for
        the result if its class has __slots__ or comes from an extension module.
        """
        return self._environments.vec_env(self.n_envs, self.seed, self._env_options())

    @property
    def env(self) -> Any:
        """The result of get_env."""
        return self.get_env()

    @env.deleter
    def env(self) -> None:
        """Does nothing. rl-zoo deletes the attribute before the model."""

    @property
    def _label(self) -> str:
        """A short name of the environments."""
        return label(self._environments.env)

    def _env_options(self) -> dict[str, Any]:
        """The keywords of the built-in environments."""
        return dict(json.loads(self.setting("env_options") or "{}"))

    def get_vec_normalize_env(self) -> Any:
        """stable-baselines3's VecNormalize around the environments, or None."""
        return next(iter(normalizers(self._environments.env)), None)

    def set_random_seed(self, seed: int | None = None) -> None:
        """Raises ConfigError unless seed is None or the model's seed, which is fixed at construction."""
        if seed not in (None, self.seed):
            raise ConfigError(f"seed: {seed}, must be given when the model is made ({type(self).__name__}(..., seed={seed}))")


def constructor_parameters(cls: type[Attributes]) -> Mapping[str, inspect.Parameter]:
    """The parameters of the method's constructor; a subclass of the user's may have other keywords."""
    return inspect.signature(next(base for base in cls.__mro__ if "METHOD" in vars(base))).parameters


@functools.cache
def _read_only(cls: type[Attributes]) -> dict[str, str]:
    """The attributes of a class that cannot be assigned to, each with the end of its error message."""
    computed = [name for name in dir(cls) if isinstance(value := getattr(cls, name), property) and value.fset is None]
    given = {"lr_schedule", *_settings(cls.METHOD), *constructor_parameters(cls)} - _ASSIGNABLE - {"env"}
    changed = {name: f", {call} changes it" for name, call in _CHANGED_BY.items()}
    return dict.fromkeys(computed, "") | dict.fromkeys(given, ", is given when the model is made") | changed


@functools.cache
def _settings(method: str) -> dict[str, str]:
    """The type of each setting of a method, by the setting's name."""
    return {setting.name: setting.type for setting in describe(method)}
