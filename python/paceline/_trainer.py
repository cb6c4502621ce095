"""Trainer: models that learn, by learn or in the caller's loop, and their evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Any, ClassVar, TypeVar

import numpy as np

from . import _ffi
from ._arguments import MOST_STEPS, array, steps, whole
from ._environments import Environments
from ._evaluation import borrow
from ._model import Model, constructor as constructor
from ._threads import CallLock
from .config import Config
from .curve import LearningCurve
from .envs import _own_loop
from .envs._lent import is_lent
from .envs._source import Source, SpacesSource
from .errors import ConfigError, PacelineError, StoppedError
from .learning import LearnRequest, Periods, begin, learn
from .logger import Logger
from .policy import Evaluation, Policy
from .spaces import Array
from .store import Gradient

Self = TypeVar("Self", bound="Trainer")
DEFAULT = -1  # log_interval: the method's LOG_INTERVAL


class Trainer(Model):
    """A model that learns in an environment; see the classes of the methods, such as DQN, A2C and PPO."""

    LOG_INTERVAL: ClassVar[int]  # the default of learn's log_interval

    def _periods(self) -> Periods:
        """The periods of the method's callbacks and log records."""
        raise NotImplementedError

    def _build(self, config: Config, env: Any, keywords: Mapping[str, Any], keep: bool = False) -> None:
        self._logger: Any = Logger()
        self._own_logger = True
        self._learning = CallLock()
        self._evaluating: Policy | None = None
        self._stops = 0
        self._interrupted = ""  # see _half
        super()._build(config, env, keywords, keep)
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

        total_timesteps: steps of all environments together. Methods that learn from rollouts go on
            to the end of a rollout, as stable-baselines3 does. The learners of A3C and APPO have
            rollouts of their own: each finishes its rollout in progress. With rule="mean" all take a
            rollout that one of them has begun. Schedules end at the number given.
            Schedules (learning_rate, clip_range, epsilon) are functions of the remaining progress,
            1 - num_timesteps / (num_timesteps at the start + total_timesteps). A warning reports a
            rate that is 0 in every update.
        callback: a stable-baselines3 callback object, a function (locals, globals) -> bool, or a
            list of them, called after every round. A falsy result other than None ends learning.
        log_interval: episodes (DQN, GA3C) or rollouts (other methods) between two log records; None: no
            records. The default is 4 for DQN, 100 for A2C, A3C and GA3C, 1 for PPO, APPO and PQN.
            In built-in environments without a callback, records that count episodes are written at
            most about ten times a second, at steps that depend on the clock.
        tb_log_name: the name of the run's folder in tensorboard_log; None: the class name.
        reset_num_timesteps: True counts steps and episodes from 0 and repeats the warm-up. False
            continues the counts. In a loop of learn(n, reset_num_timesteps=False) the schedules
            rise again at each call. After an interruption
            learn(remaining_steps, reset_num_timesteps=False) gives the same bits as a run without
            the interruption.
        eval_freq: steps between two evaluations, 0 for none. An evaluation plays n_eval_episodes
            greedy episodes. Results are in model.evaluations, a list of (num_timesteps,
            Evaluation); the best weights are in model.best_policy, their mean return in
            model.best_mean_return.
        eval_env: the environment of evaluations. None: a new environment of the model's kind, if
            the model was made with a name or an id. It must not be the environment that the model
            learns in, and must be in a VecNormalize if and only if that environment is.

        model.learning_curve has the returns over the run's time; paceline.plots draws it, and
        paceline.videos records the agent.

        Ctrl-C raises KeyboardInterrupt within a second. The model stays usable, and
        learn(remaining_steps, reset_num_timesteps=False) continues the run.
        """
        self._check_open()
        if self._from_outside():
            raise ConfigError("updates: outside, must be own for learn; gradient and adopt train this model")
        every = self.LOG_INTERVAL if log_interval == DEFAULT else log_interval
        request = LearnRequest(
            total_timesteps, callback, every, tb_log_name, reset_num_timesteps, progress_bar, eval_freq, n_eval_episodes, eval_env
        )
        learn(self, request)
        return self

    def dump_logs(self, iteration: int = 0) -> None:
        """Writes a log record now; for callbacks. iteration is ignored."""
        if self._loop is not None:
            self._loop.log()

    @property
    def logger(self) -> Any:
        """The logger of record and dump; see paceline.logger. It stays open until the next learn or close.

        During learn its name_to_value has the latest update's "train/loss" and other metrics, as in stable-baselines3.
        """
        if self._loop is not None:
            self._loop.record_metrics()
        return self._logger

    def set_logger(self, logger: Any) -> None:
        """Sets the logger of learn: from paceline.logger.configure or stable-baselines3. The caller closes it."""
        for method in ("record", "dump"):
            if not callable(getattr(logger, method, None)):
                raise ConfigError(f"logger: {logger!r}, must have the method {method}; paceline.logger.configure makes a logger")
        if self._own_logger:
            self._logger.close()
        self._logger, self._own_logger = logger, False

    def stop(self) -> None:
        """Makes the learn in progress return after the current round; an evaluation in progress is abandoned.

        Any thread may call it.
        """
        try:
            self._native.stop()
        finally:
            self._stop_evaluation()

    def _stop_evaluation(self) -> None:
        self._stops += 1
        if (policy := self._evaluating) is not None:
            with suppress(PacelineError):  # the evaluation has just ended, or is the parent process's
                policy.stop()

    def proposal(self) -> str:
        """One line: which of num_threads, groups, window and their neighbours would make this run faster, or that none would.

        It is about the latest learn or begin, from its first update on. A second must have been
        measured. Nothing is changed: a proposal is for the next model. "changes the results" marks
        settings that are more than a matter of speed. A callback may ask during learn.

        DQN, A2C, PPO and PQN have proposals. The other methods, and DQN with learners, say that they have none.
        """
        self._check_open()
        return self._native.proposal()

    def begin(
        self, total_timesteps: int, obs: object = None, reset_num_timesteps: bool = True, *, action_masks: object = None
    ) -> None:  # fmt: skip
        """Begins a run of total_timesteps further steps in a loop that the caller writes.

        A model with updates="outside" takes no obs; see gradient. A model whose environments the
        caller steps has this loop:

            obs, _ = envs.reset()
            model.begin(total_timesteps, obs)
            while model.num_timesteps < total_timesteps:
                actions = model.act()
                obs, rewards, terminated, truncated, infos = envs.step(actions)
                model.observe(obs, rewards, terminated, truncated, infos.get("final_obs"))

        The updates run concurrently with the loop, as in learn. The caller may overwrite arrays as
        soon as a call returns.

        obs: the first observations of all environments, [num_envs, ...]. Episodes in progress are
            cut.
        reset_num_timesteps: as in learn.
        action_masks: the masks of obs, [num_envs, actions], 0 for a forbidden action; the masks of
            several branches follow one another. A model made with action_masks=True needs them here
            and in every observe; other models refuse them.
        """
        if self._from_outside():
            return self._begin_outside(steps("total_timesteps", total_timesteps, 1), obs, reset_num_timesteps)
        source = self._stepped("begin")
        total_timesteps = steps("total_timesteps", total_timesteps, 1)
        _own_loop.write_first(source, obs, action_masks)
        self._interrupted = ""
        flags = _ffi.RESET_ENVS | (_ffi.RESET_TIMESTEPS if reset_num_timesteps or not self._begun else 0)
        self._native.begin(total_timesteps, flags)
        self._begun, self._cut_episodes, source.needs_reset = True, False, True
        self._env_seed = None  # the caller has reset the environments
        source.recent = None  # observe has no infos, so no Monitor reports episodes
        self._native.warn_of_notices()

    def act(self) -> Any:
        """Returns an action for each environment, for a Discrete space int64 [num_envs], for a Box [num_envs, ...] within its bounds.

        Ctrl-C interrupts a wait for due updates. The call can be made again then.
        """
        source = self._stepped("act")

        def act() -> None:
            if not self._native.act(source.rows, lambda: None):
                raise StoppedError("act: stop was called while act waited for due updates")

        return self._half("act: called twice without observe between", act, lambda: source.actions.batch(source.rows.actions))

    def observe(
        self, obs: object, rewards: object, terminated: object, truncated: object, final_obs: Any = None,
        *, action_masks: object = None, final_action_masks: object = None,
    ) -> None:  # fmt: skip
        """Records the environments' answers to the latest actions. After Ctrl-C the call can be made again.

        obs: [num_envs, ...]. Where an episode ended, the mode NEXT_STEP has the episode's last
            observation. The other modes have the first observation of the next episode; with
            DISABLED the caller resets the environment before observe.
        rewards, terminated, truncated: [num_envs].
        final_obs: the last observations of episodes that ended, in modes other than NEXT_STEP:
            [num_envs, ...], or a list or an object array with None elsewhere. A truncated episode
            needs it.
            The observations of a single environment, here and in obs, need no axis of
            environments.
        action_masks: the masks of obs, required if begin had masks.
        final_action_masks: the masks of final_obs; None allows every action.
        """
        source = self._stepped("observe")
        _own_loop.write_step(source, obs, rewards, terminated, truncated, final_obs, action_masks, final_action_masks)
        self._half("observe: must follow act", lambda: self._native.observe(source.rows, lambda: None), self._native.warn_of_notices)

    def _half(self, done: str, call: Callable[[], None], last: Callable[[], Any]) -> Any:
        """Makes a call of the library and returns last().

        done: the message with which the library refuses the call a second time. It is no error after a
            Ctrl-C in the same call.
        """
        try:
            try:
                call()
            except ConfigError as err:
                if not self._interrupted == done == str(err):
                    raise
            result = last()
        except PacelineError:
            raise
        except BaseException:
            self._interrupted = done
            raise
        self._interrupted = ""
        return result

    def _stepped(self, call: str) -> Source:
        """The source of begin, act and observe; refuses a model that steps its environments itself."""
        self._check_open()
        self._refuse_during_learn(call)
        if self._source is None:
            raise ConfigError(
                f"{call}: env {self.env_name!r}, must be a Gymnasium environment or a pair (observation_space, action_space): "
                "the library steps built-in environments itself"
            )
        return self._source

    # ---------------------------------------------------- updates from outside

    def _from_outside(self) -> bool:
        try:
            return self.setting("updates") == "outside"
        except ConfigError:  # a method without the setting
            return False

    def _begin_outside(self, total_timesteps: int, obs: object, reset_num_timesteps: bool) -> None:
        self._check_open()
        if obs is not None:
            raise ConfigError("obs: must be None where updates is outside: gradient steps the environments")
        if self._source is not None:
            self._source.check()
        begin(self, total_timesteps, reset_num_timesteps)
        self._native.warn_of_notices()

    def _first_seed(self) -> int | None:
        """The seed for the next reset of environments that Python steps. Learner k of K has those of environment k * num_envs on.

        None if the model has reset its environments: they continue with their own random numbers.
        """
        if self._env_seed is None or not self._from_outside():
            return self._env_seed
        return self._env_seed + int(self.setting("outside_learner")) * self.n_envs

    def _outside_round(self, source: Source) -> None:
        """Steps environments that Python steps."""
        try:
            self._native.act(source.rows, lambda: None)  # waits for nothing, so no stop ends it
            source.step()
            self._native.observe(source.rows, lambda: None)
        except BaseException:
            source.needs_reset = True  # the round is incomplete
            raise

    def gradient(self, out: Array | None = None) -> Gradient | None:
        """Takes steps until an update is due and returns its gradient; None when the run has ended.

        For models with updates="outside": the caller applies the gradients, in a paceline.Store or
        anywhere else, and brings the parameters back.

            store = paceline.Store(model.flat_parameters(), optimizer="adagrad")
            model.begin(total_timesteps)
            seen = 0
            while (g := model.gradient()) is not None:
                if not g.dropped:
                    store.push(g.grad, g.learning_rate, seen, key=(0, 0, g.number))
                parameters, seen = store.pull()
                model.adopt(parameters, updates=seen)

        Such a loop is bit-identical to learn with updates="own". With A2C and PPO it also ends with the
        end of a rollout. A second call before adopt gives the gradient of the next update at the same
        parameters. After a load of a file of save(replay=True) the loop goes on without begin.

        out: a contiguous float32 array [n] for the gradient, with n the size of flat_parameters; None: a new
            one. Gradient.grad is this array.

        A loss that is not finite raises NotFiniteError, as do later calls until adopt. stop raises
        StoppedError in a call in progress or, if there is none, in the next one. Ctrl-C interrupts the call,
        and the next one goes on: a gradient that the interrupted call has computed is returned by the next
        one, so do not write to out before it. Where Python steps the environments, the episodes in progress
        may be lost: the next call then raises ConfigError, and begin(..., reset_num_timesteps=False) goes on.
        """
        self._check_open()
        out = self._gradient_array(out)
        if isinstance(self._source, SpacesSource):
            raise ConfigError(
                "gradient: env None, must be an environment: call set_env; gradient_of takes minibatches that come from elsewhere"
            )
        if self._source is not None and self._source.needs_reset:
            raise ConfigError("gradient: no run was begun, or its latest round was interrupted; call begin first")
        while (info := self._native.gradient(out)).state == _ffi.GRADIENT_LATER:
            assert self._source is not None
            self._outside_round(self._source)
        self._native.warn_of_notices()
        gradient = None if info.state == _ffi.GRADIENT_NONE else self._gradient(out, info)
        self._native.gradient_given = None
        return gradient

    def _gradient_array(self, out: Array | None) -> Array:
        """out, or a new array for a gradient."""
        size = self._native.parameters.sizes[self.sets[0]]
        if out is None:
            return np.empty(size, np.float32)
        if not (isinstance(out, np.ndarray) and out.dtype == np.float32 and out.flags.c_contiguous and out.flags.writeable):
            raise ConfigError("out: must be a contiguous NumPy array of float32 that can be written")
        if out.size != size:
            raise ConfigError(f"out: {out.size} numbers, must be {size}, those of {self.sets[0]}")
        return out

    @staticmethod
    def _gradient(out: Array, info: _ffi.Gradient) -> Gradient:
        return Gradient(
            out, info.number, info.updates, info.num_timesteps, info.loss, info.learning_rate, info.rows,
            dropped=info.state == _ffi.GRADIENT_DROPPED,
        )  # fmt: skip

    def adopt(self, parameters: Any, updates: int, steps: int | None = None) -> None:
        """Overwrites the parameters of a model with updates="outside", in the order of flat_parameters.

        parameters: an array or a torch tensor of n finite real numbers, of any shape, with n the size of
            flat_parameters. They are converted to float32; a contiguous array of float32 is not copied.
        updates: the updates of all learners that the parameters have seen, such as a store's version.
            DQN's clock="updates" follows it. A number below an earlier one counts as that one.
        steps: num_timesteps of all learners, which schedules and the end of the run follow; None: unchanged.
        """
        self._check_open()
        flat = np.ascontiguousarray(array("parameters", parameters)).reshape(-1)
        if flat.size != (size := self._native.parameters.sizes[self.sets[0]]):
            raise ConfigError(f"parameters: {flat.size} numbers, must be {size}, those of {self.sets[0]}")
        known = -1 if steps is None else whole("steps", steps, 0, 2 * MOST_STEPS)
        self._native.adopt(flat, whole("updates", updates, 0, MOST_STEPS), known)
        self._acting_key = ()

    def flat_parameters(self) -> Array:
        """A copy of the parameters that learn: float32 [n], in the order of gradient and adopt."""
        self._check_open()
        self._native.finish()
        return self._native.parameters.flat(self.sets[0])

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
        """Plays whole episodes with the current network, or with policy; see Policy.evaluate.

        env: None or the model's own name for a new environment of the model's kind, if the model
            was made with a name or an id. The environment that the model learns in is refused
            during learn. At other times it is allowed, and the next learn begins with a reset.
        """
        before = self._stops
        similar, options = self.similar_env() or (None, {})
        if env is None and similar is None:
            raise ConfigError("env: None, must be an environment to evaluate in, other than the one that the model learns in")
        env = similar if env is None else env
        borrow(self, env)
        if not (isinstance(env, str) and env == similar):
            options = {}
        with nullcontext(policy) if policy is not None else self.policy_snapshot() as now:
            stops = now._stops
            self._evaluating = now
            if self._stops != before:  # stop was called before it could find the policy
                now.stop()
            try:
                return now._evaluate(stops, env, episodes, epsilon, seed, deterministic, None, 0, options)
            finally:
                self._evaluating = None

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Changes to other environments with the same spaces and the same number, or keeps those of env and get_env.

        The next learn cuts (truncates) the episodes in progress. During learn the call raises
        BusyError.
        """
        self._refuse_during_learn("set_env")
        self._check_open()
        if self._source is not None and env is not None and (env is self._environments.env or is_lent(env, self._source)):
            self._source.check()
            self._source.needs_reset = True
            return
        before, now = self._environments, Environments(env, self.n_envs, None, self.REPLAYS)
        try:
            self._change_environments(now)
        except BaseException:
            with suppress(Exception):  # an error of close does not replace the exception
                now.close()
            raise
        now.take_over(before)
        before.close()

    def _forget_run(self) -> None:
        self.learning_curve = LearningCurve(f"{self._label}, {type(self).__name__}")
        self.evaluations: list[tuple[int, Evaluation]] = []
        self.best_policy: Policy | None = None
        self.best_mean_return = float("-inf")

    def close(self) -> None:
        """Ends the threads and frees the memory. A second call does nothing.

        best_policy stays usable. The caller's environment stays open. An evaluation in progress is abandoned.
        """
        self._stop_evaluation()
        if self._own_logger:
            self._logger.close()
        super().close()
