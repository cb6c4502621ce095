"""What a model can be asked: stable-baselines3's attributes, which its scripts and callbacks read."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ._environments import Environments
from ._native import Native
from .config import describe
from .envs._episodes import Recent
from .envs._layers import normalizers
from .envs.vector import Source
from .errors import ConfigError
from .schedules import Schedule, by_progress, of_settings, points

_READ: dict[str, Callable[[str], object]] = {
    "bool": lambda text: text == "true",
    "int": int,
    "float": lambda text: float(text) if text else None,
    "ints": lambda text: [int(n) for n in text.split(",") if n not in ("", "none")],
}

# What vars(model) has beside the constructor's keywords.
_SHOWN = (
    "action_noise", "action_space", "device", "lr_schedule", "n_envs", "observation_space", "policy_class", "sde_sample_freq",
    "use_sde", "use_sde_at_warmup",
)  # fmt: skip
# Keywords that learn looks at each time.
_ASSIGNABLE = frozenset({"verbose", "tensorboard_log"})
_CHANGED_BY = {"env": "set_env", "logger": "set_logger"}


class Attributes:
    """What Trainer has beside its methods. Settings are there by their names, read-only."""

    METHOD: ClassVar[str]  # the library's name for it
    METRICS: ClassVar[Mapping[str, str]] = {}  # keys in stats of metrics that are not called as their name ends
    UPDATES: ClassVar[str] = ""  # the metric that counts updates as stable-baselines3 does, where it counts others

    _native: Native
    _environments: Environments
    _given: dict[str, Any]  # the constructor's, from_preset's or load's keywords, and those that a file keeps
    _seed: int
    policy_name: str

    use_sde = use_sde_at_warmup = False
    sde_sample_freq = -1
    action_noise = None
    policy_aliases: tuple[str, ...] = ("MlpPolicy", "CnnPolicy")
    start_time = 0  # of the latest learn, in nanoseconds

    if not TYPE_CHECKING:  # what is built on this is checked; the methods' classes say it again, for their users

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
        """Refuses what would be read back and have no effect; other names are the user's."""
        why = _read_only(type(self)).get(name)  # type: ignore[arg-type] # classes are hashable
        if why is not None:
            raise AttributeError(f"{name}: read-only{why}")
        object.__setattr__(self, name, value)

    def setting(self, name: str) -> str:
        """A setting of the library as it acts, as text: "auto" is replaced. `paceline options` lists the settings."""
        return self._native.config.get(name)

    @classmethod
    def keywords(cls) -> list[str]:
        """The constructor's keywords, those of from_preset and load too."""
        return [name for name in inspect.signature(cls).parameters if name != "env"]

    def _show(self) -> None:
        """Puts the hyper-parameters where loggers that record them look, vars(model)."""
        for name in (*constructor_parameters(type(self)), *_SHOWN):
            if name[0] != "_" and name not in ("env", "policy", *_ASSIGNABLE) and hasattr(self, name):
                self.__dict__[name] = getattr(self, name)

    # ------------------------------------------------- where it is

    @property
    def num_timesteps(self) -> int:
        """Steps taken, of all environments together, warm-up included."""
        return int(self._native.stats().num_timesteps)

    @property
    def stats(self) -> dict[str, float]:
        """Every field of paceline_stats by its name, and the method's metrics ("loss", "learning_rate" ...).

        mean_return and mean_length are of the rewards and episodes that the model learnt from; where a Monitor in the
        environments reports others, the records (rollout/ep_rew_mean), ep_info_buffer and learning_curve have those.
        """
        stats = self._native.stats()
        numbers: dict[str, float] = {name: getattr(stats, name) for name, *_ in stats._fields_[1:]}
        for metric, value in self._native.metrics():
            group, _, name = metric.partition("/") if "/" in metric else ("", "", metric)
            # What stands in no group is a count: "windows", "replay_size".
            numbers[self.METRICS.get(metric, name)] = value if group else int(value)
        return numbers

    def _shown_stats(self) -> dict[str, float]:
        """stats, with the mean_return and mean_length of ep_info_buffer."""
        shown = self.stats
        if (recent := self._recent) is not None:
            shown |= {"mean_return": recent.mean_return, "mean_length": recent.mean_length}
        return shown

    @property
    def _recent(self) -> Recent | None:
        """The episodes that a Monitor has reported."""
        return None if self._source is None else self._source.recent

    @property
    def ep_info_buffer(self) -> deque[dict[str, float]]:
        """{"r": return, "l": length} of the latest episodes, oldest first: as a Monitor reports them, where there is one."""
        most = int(self.setting("stats_window_size"))
        episodes = self._native.episodes(most) if self._recent is None else self._recent.episodes
        return deque(({"r": total, "l": length} for total, length in episodes), maxlen=most)

    @property
    def _n_updates(self) -> int:
        """Updates as stable-baselines3 counts them: passes over a rollout in PPO, minibatches elsewhere."""
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

    # ------------------------------------------- what it was made with

    @property
    def seed(self) -> int:
        """Of everything random, the one given or the one picked."""
        return self._seed

    @property
    def n_envs(self) -> int:
        return int(self.setting("num_envs"))

    @property
    def learning_rate(self) -> Schedule:
        """As it was given, or as a file or a preset has it: a number or a schedule."""
        given: Schedule | None = self._given.get("learning_rate")
        return of_settings(self.setting, "learning_rate") if given is None else given

    @property
    def lr_schedule(self) -> Callable[[float], float]:
        """Of the remaining progress, 1 down to 0."""
        given = self.learning_rate
        return given if callable(given) else by_progress(points("learning_rate", given))

    @property
    def device(self) -> Any:
        """What computes the networks, "cpu" or "cuda:0": a torch.device where torch is in use, else its name."""
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
        """The names of the sets of parameters."""
        return self._native.sets

    @property
    def described(self) -> dict[str, Any]:
        """What paceline_trainer_describe says."""
        return self._native.described

    @property
    def recipe(self) -> str:
        """The name and the hash of the environments' recipe; "" where they have none."""
        return f"{self.described['recipe']} {self.described['recipe_hash']}".strip()

    def _optimizer(self) -> dict[str, Any]:
        """The optimiser as torch's state_dict() has it, without the state of its parameters."""

        def has(name: str) -> Any:
            return getattr(self, name, None)

        group: dict[str, Any] = {"lr": float(self.lr_schedule(self._current_progress_remaining)), "weight_decay": 0}
        rms = has("use_rms_prop") or str(has("optimizer")).startswith("rmsprop")
        eps = has("optimizer_eps") or has("radam_eps") or has("rms_prop_eps" if rms else "adam_eps")
        if rms:
            centered = has("optimizer") not in (None, "rmsprop")
            group |= {"alpha": has("rms_prop_alpha") or 0.99, "momentum": 0, "centered": centered}
        else:
            group |= {"betas": (0.9, 0.999), "amsgrad": False}
        names = [name for name in self._native.parameters.layout if not name.startswith("q_net_target.")]
        return {"state": {}, "param_groups": [group | {"eps": eps or 1e-8, "params": list(range(len(names)))}]}

    # --------------------------------------------------- environments

    @property
    def _source(self) -> Source | None:
        return self._environments.source

    @property
    def env_name(self) -> str | None:
        """The name of environments that the library steps."""
        return self._environments.name

    @property
    def env(self) -> Any:
        """The environment as it was given: an object, a name, or None."""
        return self._environments.env

    def get_vec_normalize_env(self) -> Any:
        """stable-baselines3's VecNormalize around the environments, or None."""
        return next(iter(normalizers(self.env)), None)

    def set_random_seed(self, seed: int | None = None) -> None:
        """Refused unless it is the model's own: the one seed of a model is given when it is made."""
        if seed not in (None, self.seed):
            raise ConfigError(f"seed: {seed}, must be given when the model is made ({type(self).__name__}(..., seed={seed}))")


def constructor_parameters(cls: type[Attributes]) -> Mapping[str, inspect.Parameter]:
    """Those of the constructor of the method's class, of which the user may have derived one with keywords of its own."""
    return inspect.signature(next(base for base in cls.__mro__ if "METHOD" in vars(base))).parameters


@functools.cache
def _read_only(cls: type[Attributes]) -> dict[str, str]:
    """The names that cannot be assigned to in a model of a class, each with what the sentence says after "read-only"."""
    computed = [name for name in dir(cls) if isinstance(value := getattr(cls, name), property) and value.fset is None]
    given = {"lr_schedule", *_settings(cls.METHOD), *constructor_parameters(cls)} - _ASSIGNABLE - {"env"}
    changed = {name: f", {call} changes it" for name, call in _CHANGED_BY.items()}
    return dict.fromkeys(computed, "") | dict.fromkeys(given, ", is given when the model is made") | changed


@functools.cache
def _settings(method: str) -> dict[str, str]:
    """The type of each setting of a method, by its name."""
    return {setting.name: setting.type for setting in describe(method)}
