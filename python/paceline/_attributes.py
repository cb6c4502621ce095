"""Stable-Baselines3's attributes of a model: what its scripts and callbacks read."""

from __future__ import annotations

import functools
import sys
import warnings
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._replay_buffer import ReplayBuffer
from .config import describe
from .envs._layers import normalizers
from .errors import ConfigError, PacelineWarning
from .schedules import by_progress, of_settings, points

if TYPE_CHECKING:
    pass

_READ: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: text == "true",
    "int": int,
    "float": lambda text: float(text) if text else None,
    "ints": lambda text: [int(n) for n in text.split(",") if n not in ("", "none")],
}


class TrainFreq(NamedTuple):
    """How often updates are due: every so many steps."""

    frequency: int
    unit: str


# What vars(model) has beside the constructor's keywords.
_SHOWN = (
    "action_noise", "action_space", "device", "lr_schedule", "n_envs", "observation_space", "policy_class", "sde_sample_freq",
    "use_sde", "use_sde_at_warmup",
)  # fmt: skip
# Keywords that learn looks at each time.
_ASSIGNABLE = frozenset({"verbose", "tensorboard_log"})
_CHANGED_BY = {"env": "set_env", "logger": "set_logger"}


class Attributes:
    """What Trainer has beside its methods of its own. Settings are there by their names, read-only."""

    _seed: int

    use_sde = use_sde_at_warmup = False
    sde_sample_freq = -1
    action_noise = None
    policy_aliases: tuple[str, ...] = ("MlpPolicy", "CnnPolicy")
    start_time = 0  # of the latest learn, in nanoseconds

    def __getattr__(self: Any, name: str) -> Any:
        if not name.startswith("_") and "_config" in self.__dict__:
            kind = _settings(self.METHOD).get(name)
            if kind is not None:
                return _READ.get(kind, str)(self.setting(name))
            if name in self._given:
                return self._given[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self: Any, name: str, value: Any) -> None:
        """Refuses what would be read back and have no effect; other names are the user's."""
        cls: Any = type(self)
        why = _read_only(cls).get(name)
        if why is not None:
            raise AttributeError(f"{name}: read-only{why}")
        object.__setattr__(self, name, value)

    def _show(self: Any) -> None:
        """Puts the hyper-parameters where loggers that record them look, vars(model)."""
        for name in (*_method(type(self)).keywords(), *_SHOWN):
            if name[0] != "_" and name not in ("policy", *_ASSIGNABLE) and hasattr(self, name):
                self.__dict__[name] = getattr(self, name)

    def _optimizer(self: Any) -> dict[str, Any]:
        """The optimiser as torch's state_dict() has it, without the state of its parameters."""

        def has(name: str) -> Any:
            return getattr(self, name, None)

        group: dict[str, Any] = {"lr": float(self.lr_schedule(self._current_progress_remaining)), "weight_decay": 0}
        rms = has("use_rms_prop") or str(has("optimizer")).startswith("rmsprop")
        eps = has("optimizer_eps") or has("radam_eps") or has("rms_prop_eps" if rms else "adam_eps")
        if rms:
            group |= {"alpha": has("rms_prop_alpha") or 0.99, "momentum": 0, "centered": has("optimizer") not in (None, "rmsprop")}
        else:
            group |= {"betas": (0.9, 0.999), "amsgrad": False}
        names = [name for name in self._parameters.layout if not name.startswith("q_net_target.")]
        return {"state": {}, "param_groups": [group | {"eps": eps or 1e-8, "params": list(range(len(names)))}]}

    @property
    def seed(self) -> int:
        """Of everything random, the one given or the one picked."""
        return self._seed

    @property
    def n_envs(self: Any) -> int:
        return int(self.setting("num_envs"))

    @property
    def learning_rate(self: Any) -> Any:
        """As it was given, or as a file or a preset has it: a number or a schedule."""
        return self._given["learning_rate"] if "learning_rate" in self._given else of_settings(self.setting, "learning_rate")

    @property
    def lr_schedule(self: Any) -> Callable[[float], float]:
        """Of the remaining progress, 1 down to 0."""
        given = self.learning_rate
        return given if callable(given) else by_progress(points("learning_rate", given))

    @property
    def exploration_schedule(self: Any) -> Callable[[float], float]:
        """Epsilon by the remaining progress, 1 down to 0."""
        first, last = self.exploration_initial_eps, self.exploration_final_eps
        part = self.exploration_steps / max(self._total_timesteps, 1) or self.exploration_fraction
        return lambda progress_remaining: float(np.interp(1 - progress_remaining, (0, part), (first, last)))

    @property
    def device(self) -> Any:
        """What computes the networks, "cpu" or "cuda:0": a torch.device where torch is in use, else its name."""
        torch, name = sys.modules.get("torch"), self._config.get("device")
        return name if torch is None else torch.device(name)

    @property
    def env(self: Any) -> Any:
        """The environment as it was given: an object, a name, or None."""
        return self._env

    @property
    def policy_kwargs(self: Any) -> dict[str, Any]:
        return dict(self._given.get("policy_kwargs") or {})

    @property
    def policy_class(self: Any) -> str:
        return str(self.policy_name)

    @property
    def train_freq(self: Any) -> TrainFreq:
        return TrainFreq(int(self.setting("train_freq")), "step")

    @property
    def replay_buffer(self: Any) -> ReplayBuffer:
        if "replay_size" not in self.stats:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'replay_buffer'")
        return ReplayBuffer(self)

    @property
    def replay_buffer_kwargs(self) -> dict[str, Any]:
        return {}

    @property
    def ep_info_buffer(self: Any) -> deque[dict[str, float]]:
        """{"r": return, "l": length} of the latest episodes, oldest first: as a Monitor reports them, where there is one."""
        most = int(self.setting("stats_window_size"))
        recent = None if self._source is None else self._source.recent
        episodes = self._native.episodes(most) if recent is None else recent.episodes
        return deque(({"r": total, "l": length} for total, length in episodes), maxlen=most)

    def _shown_stats(self: Any) -> dict[str, float]:
        """stats, with the mean_return and mean_length of ep_info_buffer."""
        shown: dict[str, float] = self.stats
        if self._source is not None and (recent := self._source.recent) is not None:
            shown |= {"mean_return": recent.mean_return, "mean_length": recent.mean_length}
        return shown

    @property
    def _n_updates(self: Any) -> int:
        """Updates as stable-baselines3 counts them: passes over a rollout in PPO, minibatches elsewhere."""
        if self.METHOD == "ppo":
            return next(int(value) for name, value in self._native.metrics() if name == "epochs")
        return int(self._native.stats().updates)

    @property
    def _episode_num(self: Any) -> int:
        return int(self._native.stats().episodes)

    @property
    def _total_timesteps(self: Any) -> int:
        return int(self._native.stats().total_timesteps)

    @property
    def _current_progress_remaining(self: Any) -> float:
        return 1 - float(self.num_timesteps) / max(int(self._total_timesteps), 1)

    @property
    def policy(self: Any) -> Any:
        """A copy of the networks as a torch module with stable-baselines3's parameter names; needs torch, and
        stable-baselines3 for all of its policy's methods.

        It is the same object until the model's weights change, and its parameters can be optimised, as in behaviour
        cloning. The model does not see that before model.set_parameters(model.policy.state_dict()).
        """
        if self._copies is None:
            from .compat._torch import Copies

            self._copies = Copies(self)
        return self._copies.current(self.get_parameters()["policy"])

    def _warn_of_copies(self: Any) -> None:
        """Says that learn does not see how the caller has trained policy."""
        if self._copies is not None and self._copies.trained():
            warnings.warn(
                "model.policy was changed, and is a copy: learn goes on from the model's weights; "
                "model.set_parameters(model.policy.state_dict()) gives the model those of the copy",
                PacelineWarning,
                stacklevel=3,  # the line that called learn
            )

    @property
    def q_net(self: Any) -> Any:
        """The online network of policy."""
        return self._of_policy("q_net")

    @property
    def q_net_target(self: Any) -> Any:
        """The target network of policy."""
        return self._of_policy("q_net_target")

    def _of_policy(self: Any, name: str) -> Any:
        if name not in self.sets:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.policy, name)

    def get_vec_normalize_env(self: Any) -> Any:
        """stable-baselines3's VecNormalize around the environments, or None."""
        return next(iter(normalizers(self._env)), None)

    def set_random_seed(self: Any, seed: int | None = None) -> None:
        """Refused unless it is the model's own: the one seed of a model is given when it is made."""
        if seed not in (None, self.seed):
            raise ConfigError(f"seed: {seed}, must be given when the model is made ({type(self).__name__}(..., seed={seed}))")


@functools.cache
def _read_only(cls: Any) -> dict[str, str]:
    """The names that cannot be assigned to in a model of a class, each with what the sentence says after "read-only"."""
    computed = [name for name in dir(cls) if isinstance(value := getattr(cls, name), property) and value.fset is None]
    given = {"lr_schedule", *_settings(cls.METHOD), *_method(cls).keywords()} - _ASSIGNABLE
    changed = {name: f", {call} changes it" for name, call in _CHANGED_BY.items()}
    return dict.fromkeys(computed, "") | dict.fromkeys(given, ", is given when the model is made") | changed


def _method(cls: Any) -> Any:
    """The method's class, of one that the user derived from it, which may have keywords of its own."""
    return next(base for base in cls.__mro__ if "METHOD" in vars(base))


@functools.cache
def _settings(method: str) -> dict[str, str]:
    """The type of each setting of a method, by its name."""
    return {setting.name: setting.type for setting in describe(method)}
