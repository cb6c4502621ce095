"""What every method shares: making a model, learning, acting, weights, files."""

from __future__ import annotations

import ctypes
import functools
import inspect
import json
import secrets
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import NoneType
from typing import Any, ClassVar, TypeVar, cast

from . import _ffi, _lib
from ._arguments import MOST_STEPS, steps, whole
from ._attributes import Attributes
from ._checkpoints import Checkpoints, host_data, kept_keywords
from ._environments import Environments
from ._evaluation import borrow, check
from ._loop import OwnLoop
from ._native import Native
from ._threads import Turn, busy
from .callbacks import as_callback, check_evaluations
from .config import Config, check_keywords, check_layers
from .curve import LearningCurve
from .envs._episodes import Recent
from .envs._layers import reports
from .envs.vector import Source, built_in, label
from .errors import BusyError, ConfigError
from .learning import Loop, Periods
from .logger import Logger, make_logger
from .parameters import Parameters
from .policy import Evaluation, Policy
from .spaces import ActionLayout, Array, ObsLayout

Self = TypeVar("Self", bound="Trainer")
Init = TypeVar("Init", bound=Callable[..., None])
# Of env_kwargs what vectors take, and not their environments.
_OF_VECTORS = frozenset({"batch_size", "context", "copy", "decorrelation_steps", "num_threads", "waits", "workers"})
DEFAULT = -1  # log_interval: each method's own


def constructor(init: Init) -> Init:
    """The __init__ of a method's class, of which only the signature counts: it is the table of the method's keywords."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def make(self: Trainer, *args: Any, **keywords: Any) -> None:
        check_keywords(type(self).__name__, keywords, signature.parameters)
        given = signature.bind(self, *args, **keywords)
        given.apply_defaults()
        self._start(Config(self.METHOD), given.arguments["env"], {name: given.arguments[name] for name in self.keywords()})

    return cast(Init, make)


class Trainer(Attributes, Environments, OwnLoop, Checkpoints):
    """A model that learns in an environment; see the classes of the methods, DQN, A2C and PPO."""

    METHOD: ClassVar[str]  # the library's name for it
    LOG_INTERVAL: ClassVar[int]  # learn's by default
    REPLAYS: ClassVar[bool] = False  # whether it learns from what was observed long before
    METRICS: ClassVar[Mapping[str, str]] = {}  # keys in stats of metrics that are not called as their name ends

    # --------------------------------------------- what a method's class says

    @staticmethod
    def _translate(keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that the constructor's keywords stand for."""
        raise NotImplementedError

    def _periods(self) -> Periods:
        """How the method divides its steps."""
        raise NotImplementedError

    def _exploring(self) -> dict[str, Any]:
        """Policy.act's keywords for predict where it is not deterministic."""
        raise NotImplementedError

    def _print_made(self) -> None:
        """Prints what was made, where verbose asks for it."""

    # ------------------------------------------------------------- making it

    @classmethod
    def keywords(cls) -> list[str]:
        """The constructor's keywords, those of from_preset and load too."""
        return [name for name in inspect.signature(cls).parameters if name != "env"]

    @classmethod
    def from_preset(cls: type[Self], preset: str, env: Any, **overrides: Any) -> Self:
        """A model with a documented table of settings, any of which a keyword overrides.

        `paceline presets` lists the tables, "tuned" (values that solve built-in
        environments) and those of papers; `paceline preset NAME ENV` prints one.
        """
        config = Config(cls.METHOD)
        config.preset(preset, built_in(env)[0] or getattr(getattr(env, "spec", None), "id", None) or "")
        self = cls.__new__(cls)
        self._start(config, env, overrides, keep=True)
        return self

    def _start(self, config: Config, env: Any, keywords: Mapping[str, Any], keep: bool = False) -> None:
        """Makes the trainer. keep: settings that no keyword names stay the config's, not the defaults."""
        check_keywords(type(self).__name__, keywords, self.keywords())
        given = dict(keywords)
        self._given = kept_keywords(config.get("host_data")) | dict(keywords)
        self._given_seed: int | None = given.pop("seed", None)
        self.verbose: int = self._given.get("verbose", 0)
        self.tensorboard_log: str | None = self._given.get("tensorboard_log")
        source = self._environment(env, given, config, keep)
        if self._given_seed is not None or not keep:
            config.set("seed", secrets.randbits(31) if self._given_seed is None else self._given_seed)
        settings = self._translate(given)
        config.update(settings)
        self._logger: Any = Logger()
        self._own_logger = True
        self._forget_run()
        self._episodes_before = 0  # that ended before steps were counted from 0
        self._begun = False
        self._acting: Policy | None = None
        self._evaluating: Policy | None = None
        self._acting_key: tuple[int, ...] = ()
        self._predictions = 0
        self._draws: Any = None  # replay_buffer's random numbers
        self._notified: set[str] = set()  # what its policies have said
        self._own_env: Any = None
        self._loop: Loop | None = None  # of the learn in progress
        self._learning = Turn()
        self._cut = False  # experience was loaded: the episodes in progress are no part of it
        self._make(config, source)
        try:
            check_layers((keywords.get("policy_kwargs") or {}).get("net_arch"), self.policy_name, settings)
        except ConfigError:
            self.close()
            raise
        self._native.warn(stacklevel=3)  # the line that called the constructor, from_preset or load
        if self.verbose:
            self._print_made()

    def _make(self, config: Config, source: Source | None) -> None:
        """Makes the library's trainer, and closes config."""
        spec = None if source is None else (source.layout.spec(), source.actions.spec())
        config.set("host_data", host_data(source, self._given, config.get("action_masks") == "true"))
        self._native = Native(config, spec)
        _lib.close_at_exit(self)
        config.close()
        self._source = source
        self._describe(source)

    def _describe(self, source: Source | None) -> None:
        """Keeps what does not change while the trainer lives."""
        lib, handle = _lib.lib(), self._native.handle
        self._config = Config(handle=_lib.new_handle("paceline_config_free", lib.paceline_trainer_config, handle.value))
        self._seed = int(self.setting("seed"))
        self.policy_name = self.setting("policy")
        self.described: dict[str, Any] = _lib.take_json(lib.paceline_trainer_describe, handle.value)
        self.recipe = f"{self.described['recipe']} {self.described['recipe_hash']}".strip()
        self.sets = [set["name"] for set in self.described["sets"]]
        self._parameters = Parameters(handle, self.described["sets"])
        if source is None:
            obs, action = _ffi.Spec(), _ffi.Spec()
            lib.paceline_trainer_spec(ctypes.byref(obs), ctypes.byref(action), handle.value)
            self.obs_layout, self.action_layout = ObsLayout.of_spec(obs), ActionLayout(int(action.n))
        else:
            self.obs_layout, self.action_layout = source.layout, source.actions
            self._read_masks(source)
        self._copies: Any = None  # of the networks, for policy
        self._show()
        self.ep_success_buffer: deque[float] = deque(maxlen=int(self.setting("stats_window_size")))  # infos["is_success"] of episodes

    def _read_masks(self, source: Source) -> None:
        """Has masks read where the setting action_masks says so."""
        if self.setting("action_masks") == "true":
            source.masked = True
            source.rows.use_masks()

    def setting(self, name: str) -> str:
        """A setting of the library as it acts ("auto" replaced by what it stands for), as text; `paceline options` lists them."""
        return self._config.get(name)

    # ---------------------------------------------------------------- learning

    def learn(
        self: Self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = DEFAULT,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        *,
        eval_freq: int = 0,
        n_eval_episodes: int = 20,
        eval_env: Any = None,
    ) -> Self:
        """Takes total_timesteps further steps, warm-up included, and trains.

        total_timesteps: of all environments together. Methods that learn from rollouts end
            with a whole one, as in stable-baselines3: the number is rounded up to that (schedules
            are over, and stay, at the number given). Schedules (learning_rate, clip_range, epsilon) are functions of
            the remaining progress, 1 - num_timesteps / (num_timesteps at the start + total_timesteps), as in
            stable-baselines3. A rate that is 0 in every update is reported by a warning, once.
        callback: objects in stable-baselines3's shape, functions (locals,
            globals) -> bool, or a list of them, called after every round. A falsy result but None ends learning.
        log_interval: between two log records, as in stable-baselines3: 4 episodes
            for DQN, 100 rollouts for A2C, 1 for PPO (None: no records).
        tb_log_name: of the run's folder in tensorboard_log; "DQN" for DQN.
        reset_num_timesteps: count from 0, with a new warm-up; False goes on counting. So in a loop of
            learn(n, reset_num_timesteps=False) the rates rise again at each call, and learn(rest, reset_num_timesteps=False)
            after an interruption gives the bits of a run that was never stopped.
        eval_freq: every so many steps n_eval_episodes greedy episodes are
            played, in environments of their own for a built-in env, else in
            eval_env, which is not the one to learn in, and is in a VecNormalize where that one is.
            The results are in model.evaluations, a list of (num_timesteps, Evaluation); the best weights in model.best_policy,
            their mean in model.best_mean_return.

        model.learning_curve has what the episodes returned over the run's time;
        paceline.plots draws it, and paceline.videos shows the agent.

        Ctrl-C raises KeyboardInterrupt within a second; the model is then
        usable as it stands, and learn(rest, reset_num_timesteps=False) goes on.
        """
        self._check_open()
        total_timesteps, eval_freq = steps("total_timesteps", total_timesteps, 1), steps("eval_freq", eval_freq, 0)
        n_eval_episodes = whole("n_eval_episodes", n_eval_episodes, 1, 1_000_000)
        if log_interval not in (None, DEFAULT):
            log_interval = whole("log_interval", log_interval, 0, MOST_STEPS)
        if not isinstance(tb_log_name, (str, NoneType)):
            raise ConfigError(f"tb_log_name: {tb_log_name!r}, must be a str or None")
        if eval_freq and eval_env is None and self.similar_env() is None:
            raise ConfigError("eval_env: None, must be an environment of its own to evaluate in when eval_freq is set")
        if not self._learning.acquire(False):
            raise busy()
        try:
            if self._loop is not None:
                raise BusyError("learn: learn is in progress, must be called before or after it")
            self._warn_of_copies()
            # All that can be refused is refused before the run before is forgotten.
            callback = as_callback(callback)
            check_evaluations(self, callback)
            if eval_freq and eval_env is not None:
                check(self, eval_env)
            source = self._source
            if source is not None:
                source.check()
            logger, run_name = self._logger, tb_log_name or type(self).__name__
            if self._own_logger:
                logger = make_logger(self.verbose, self.tensorboard_log, run_name, reset_num_timesteps)
            try:
                self._begin_run(total_timesteps, reset_num_timesteps)
            except BaseException:
                if self._own_logger:
                    logger.close()
                raise
            if self._own_logger:
                self._logger.close()  # of the learn before: callers write to it until now
            self._logger = logger
            self.start_time = time.time_ns()
            every = self.LOG_INTERVAL if log_interval == DEFAULT else log_interval
            try:
                self._loop = Loop(
                    self, self._native, source, self._periods(), total_timesteps, callback, every, progress_bar,
                    eval_freq, n_eval_episodes, eval_env, run_name, reset_num_timesteps,
                )  # fmt: skip
                self._loop.run()
            finally:
                self._loop = None
            return self
        finally:
            self._learning.release()

    def _begin_run(self, total_timesteps: int, reset_num_timesteps: bool) -> None:
        """Begins a run, or goes on with the one before. Where that fails, the one before stays as it is."""
        source = self._source
        anew = reset_num_timesteps or not self._begun
        flags = _ffi.RESET_ENVS if self._cut or (source is not None and source.needs_reset) else 0
        if anew:
            flags = _ffi.RESET_TIMESTEPS | _ffi.RESET_ENVS
        try:
            if source is not None and flags & _ffi.RESET_ENVS:
                source.reset(None if self._begun else self._given_seed)
            self._native.begin(total_timesteps, flags)
        except BaseException:
            if source is not None and flags & _ffi.RESET_ENVS:
                source.needs_reset = True  # the trainer knows nothing of the episodes begun
            raise
        if anew:
            self._forget_run()
            self._episodes_before = int(self._native.stats().episodes)
            self.ep_success_buffer.clear()
        if source is not None and (anew or source.recent is None):
            source.recent = Recent(int(self.setting("stats_window_size"))) if reports(source.env) else None
        self._begun, self._cut = True, False

    def dump_logs(self, iteration: int = 0) -> None:
        """In a callback: writes the record that log_interval asks for, now."""
        if self._loop is not None:
            self._loop.log()

    @property
    def logger(self) -> Any:
        """Where record and dump go: see paceline.logger. Learn's own stays open until the next learn or close."""
        return self._logger

    def set_logger(self, logger: Any) -> None:
        """Has learn write to a logger of paceline.logger.configure's or stable-baselines3's, which stays the caller's."""
        for method in ("record", "dump"):
            if not callable(getattr(logger, method, None)):
                raise ConfigError(f"logger: {logger!r}, must have the method {method}, as those of paceline.logger.configure have")
        if self._own_logger:
            self._logger.close()
        self._logger, self._own_logger = logger, False

    def stop(self) -> None:
        """Makes the learn in progress return after the current round, without the evaluation in progress. Any thread may call it."""
        self._native.stop()
        if (policy := self._evaluating) is not None:
            policy.stop()

    # ------------------------------------------------------------------ acting

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[Array, Any]:
        """(actions, state) for one observation or a batch.

        deterministic: greedy actions. Otherwise for each row by itself as while
        learning: DQN's is with probability model.exploration_rate a random action, A2C's and PPO's are
        drawn from their distribution; model.seed and the number of calls decide what is
        drawn. Images may be [C, H, W], [H, W, C] or [H, W]. action_masks: as in Policy.act.
        """
        policy = self._current_policy()
        if deterministic:
            return policy.act(observation, action_masks=action_masks), state
        self._predictions += 1
        drawn = policy.act(observation, seed=self.seed, counter=self._predictions, action_masks=action_masks, **self._exploring())
        return drawn, state

    def policy_snapshot(self) -> Policy:
        """A frozen copy of the network as it is at this step; close it after use."""
        self._check_open()
        self._native.finish()
        handle = _lib.new_handle("paceline_policy_free", _lib.lib().paceline_policy_from_trainer, self._native.value)
        policy = Policy(handle, self.obs_layout, self.action_layout)
        policy.notified = self._notified
        return policy

    def evaluate(
        self,
        env: Any = None,
        episodes: int = 20,
        epsilon: float = 0.0,
        seed: int = 0,
        *,
        deterministic: bool = True,
        policy: Policy | None = None,
    ) -> Evaluation:
        """Plays whole episodes with the network as it is, or with policy; see Policy.evaluate.

        env: None, or the model's own name, for environments like those that it learns in, where it was made with a
            name or an id. The environment that it learns in itself is refused while it learns; afterwards the next learn
            begins with a reset.
        """
        similar, options = self.similar_env() or (None, {})
        if env is None and similar is None:
            raise ConfigError("env: None, must be an environment of its own to evaluate in")
        env = similar if env is None else env
        borrow(self, env)
        if not (isinstance(env, str) and env == similar):
            options = {}
        with nullcontext(policy) if policy is not None else self.policy_snapshot() as now:
            self._evaluating = now
            try:
                return now.evaluate(env, episodes, epsilon, seed, deterministic, **options)
            finally:
                self._evaluating = None

    def similar_env(self) -> tuple[str, dict[str, Any]] | None:
        """(name, keywords) of one environment like those that it learns in: the library's name, or the id that it was
        made with; None where it was given environments."""
        made: tuple[str, dict[str, Any]] | None = self._made_of
        if self.env_name is not None:
            made = self.env_name, json.loads(self.setting("env_options") or "{}")
        return made and (made[0], {name: value for name, value in made[1].items() if name not in _OF_VECTORS})

    def _current_policy(self) -> Policy:
        """A policy with the weights of this step, copied only when they have changed."""
        stats = self._native.stats()
        key = (int(stats.num_timesteps), int(stats.updates))
        if self._acting is None or key != self._acting_key:
            policy = self.policy_snapshot()
            if self._acting is not None:
                self._acting.close()
            self._acting, self._acting_key = policy, (key[0], int(self._native.stats().updates))
        return self._acting

    # -------------------------------------------------------------- where it is

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

    @property
    def observation_space(self) -> Any:
        return self.obs_layout.space() if self._source is None else self._source.spaces()[0]

    @property
    def action_space(self) -> Any:
        return self.action_layout.space() if self._source is None else self._source.spaces()[1]

    # ------------------------------------------------------ weights and files

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """{"policy": {name: array}}, copies, in stable-baselines3's names and shapes.

        "policy.optimizer" has the optimiser's param_groups as PyTorch's state_dict() has them, and no state: that of
        the parameters is in save's files alone.
        """
        self._native.finish()
        return {"policy": self._parameters.read(), "policy.optimizer": self._optimizer()}

    # ------------------------------------------------------------------ ending

    @property
    def closed(self) -> bool:
        return self._native.handle.closed

    def close(self) -> None:
        """Ends the threads and frees the memory; closing twice is fine.

        best_policy stays usable. The environment given is not closed.
        """
        if self._acting is not None:
            self._acting.close()
            self._acting = None
        if self._made_env is not None:
            self._made_env.close()
        if self._own_logger:
            self._logger.close()
        self._native.handle.close()
        self._config.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        native = self.__dict__.get("_native")
        if native is not None and not native.handle.closed and native.handle.owned:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)
            self.close()

    _exit = __del__

    def __reduce__(self) -> Any:
        name = type(self).__name__
        raise TypeError(
            f"a {name} cannot be pickled or copied: it has threads and environments of this process; "
            f"save(path, replay=True) and {name}.load(path) there, or pickle its policy_snapshot()"
        )

    def __repr__(self) -> str:
        return f"<paceline.{type(self).__name__} on {label(self._env)}{', closed' if self.closed else ''}>"

    def _check_open(self) -> None:
        if self.closed:
            _lib.refuse_closed("model")

    def _forget_run(self) -> None:
        self.learning_curve = LearningCurve(f"{label(self._env)}, {type(self).__name__}")
        self.evaluations: list[tuple[int, Evaluation]] = []
        self.best_policy: Policy | None = None
        self.best_mean_return = float("-inf")
