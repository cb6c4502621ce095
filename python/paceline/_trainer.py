"""What learns: runs, by learn or by a loop of the caller's own, and evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, ClassVar, TypeVar

import numpy as np

from . import _ffi
from ._arguments import steps
from ._environments import Environments
from ._evaluation import borrow
from ._model import Model, constructor as constructor
from ._threads import Turn
from .config import Config
from .curve import LearningCurve
from .envs import _own_loop
from .envs.vector import Source, label
from .errors import BusyError, ConfigError, StoppedError
from .learning import Loop, Periods, learn
from .logger import Logger
from .policy import Evaluation, Policy
from .spaces import Array

Self = TypeVar("Self", bound="Trainer")
DEFAULT = -1  # log_interval: each method's own


class Trainer(Model):
    """A model that learns in an environment; see the classes of the methods, DQN, A2C and PPO."""

    LOG_INTERVAL: ClassVar[int]  # learn's by default

    def _periods(self) -> Periods:
        """How the method divides its steps."""
        raise NotImplementedError

    def _start(self, config: Config, env: Any, keywords: Mapping[str, Any], keep: bool = False) -> None:
        self._logger: Any = Logger()
        self._own_logger = True
        self._loop: Loop | None = None  # of the learn in progress
        self._learning = Turn()
        self._evaluating: Policy | None = None
        self._episodes_before = 0  # that ended before steps were counted from 0
        super()._start(config, env, keywords, keep)
        self._forget_run()

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
        every = self.LOG_INTERVAL if log_interval == DEFAULT else log_interval
        learn(
            self, total_timesteps, callback, every, tb_log_name, reset_num_timesteps, progress_bar,
            eval_freq, n_eval_episodes, eval_env,
        )  # fmt: skip
        return self

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
        """Makes the learn in progress return after the current round, without the evaluation in progress.

        Any thread may call it.
        """
        self._native.stop()
        if (policy := self._evaluating) is not None:
            policy.stop()

    def begin(
        self, total_timesteps: int, obs: object, reset_num_timesteps: bool = True, *, action_masks: object = None
    ) -> None:  # fmt: skip
        """Begins a run of so many further steps in a loop of the caller's own.

            obs, _ = envs.reset()
            model.begin(total_timesteps, obs)
            while model.num_timesteps < total_timesteps:
                actions = model.act()
                obs, rewards, terminated, truncated, infos = envs.step(actions)
                model.observe(obs, rewards, terminated, truncated, infos.get("final_obs"))

        The updates run beside such a loop as they do in learn. Arrays may be overwritten as soon as a call is back.

        obs: the first observations of all environments, [num_envs, ...]. The episodes in progress, if any, are cut.
        reset_num_timesteps: as in learn. action_masks: of these observations, [num_envs, actions], 0: may not be taken; of
        a model made with action_masks=True, whose every observe must have them, too.
        """
        source = self._stepped("begin")
        total_timesteps = steps("total_timesteps", total_timesteps, 1)
        _own_loop.write_first(source, obs, action_masks)
        flags = _ffi.RESET_ENVS | (_ffi.RESET_TIMESTEPS if reset_num_timesteps or not self._begun else 0)
        self._native.begin(total_timesteps, flags)
        self._begun, self._cut, source.needs_reset = True, False, True
        source.recent = None  # infos are not seen here
        self._native.say_notices()

    def act(self) -> Array:
        """An action for each environment, int64 [num_envs]. Ctrl-C is heard while due updates are waited for."""
        source = self._stepped("act")
        if not self._native.act(source.rows, lambda: None):
            raise StoppedError("act: stop was called while the updates that are due were waited for")
        actions: Array = source.rows.actions + np.int64(source.actions.start)
        return actions

    def observe(
        self, obs: object, rewards: object, terminated: object, truncated: object, final_obs: Any = None,
        *, action_masks: object = None, final_action_masks: object = None,
    ) -> None:  # fmt: skip
        """What the environments answered to the actions.

        obs [num_envs, ...], rewards, terminated, truncated [num_envs]. Where an episode ended, obs
        is what the environments' autoreset mode says: with NEXT_STEP the episode's last observation,
        otherwise the first of the next episode (begun by you where the mode is DISABLED), and final_obs
        has the last one: [num_envs, ...], or a list or an array of objects with None elsewhere. It is
        needed where an episode was truncated. action_masks: of obs, where begin had them;
        final_action_masks: of final_obs, None: everything may be done there.
        """
        source = self._stepped("observe")
        _own_loop.write_step(source, obs, rewards, terminated, truncated, final_obs, action_masks, final_action_masks)
        self._native.observe(source.rows, lambda: None)
        self._native.say_notices()

    def _stepped(self, call: str) -> Source:
        """The rows that a loop of the caller's own writes."""
        self._check_open()
        if self._loop is not None:
            raise BusyError(f"{call}: learn is in progress, must be called before or after it")
        if self._source is None:
            raise ConfigError(
                f"{call}: this model steps the built-in {self.env_name} itself; make it with a Gymnasium environment, or with "
                "a pair (observation_space, action_space)"
            )
        return self._source

    # ------------------------------------------- evaluation and environments

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

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Goes on with other environments of the same spaces and number.

        The episodes in progress are cut off (truncated) at the next learn. It is refused in a callback.
        """
        if self._loop is not None:
            raise BusyError("set_env: learn is in progress, must be called before or after it")
        before, now = self._environments, Environments(env, self.n_envs, None, self.REPLAYS)
        try:
            self._change(now)
        except BaseException:
            now.close()
            raise
        before.close()

    def _forget_run(self) -> None:
        self.learning_curve = LearningCurve(f"{label(self.env)}, {type(self).__name__}")
        self.evaluations: list[tuple[int, Evaluation]] = []
        self.best_policy: Policy | None = None
        self.best_mean_return = float("-inf")

    def close(self) -> None:
        """Ends the threads and frees the memory; closing twice is fine.

        best_policy stays usable. The environment given is not closed.
        """
        if self._own_logger:
            self._logger.close()
        super().close()
