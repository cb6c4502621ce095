"""Callbacks with stable-baselines3's interface, called after every round.

Callback objects of stable-baselines3 work as well. Periods of the classes here (save_freq,
eval_freq) count steps of all environments together; stable-baselines3's classes count calls.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ._arguments import whole
from ._evaluation import check, check_other, synchronise
from .errors import ConfigError, StoppedError
from .logger import Logger
from .policy import Evaluation
from .progress import ProgressLine

Variables = dict[str, Any]  # variables of learn by name

__all__ = [
    "BaseCallback",
    "CallbackList",
    "CheckpointCallback",
    "ConvertCallback",
    "EvalCallback",
    "EventCallback",
    "EveryNTimesteps",
    "LogEveryNTimesteps",
    "ProgressBarCallback",
    "StopTrainingOnMaxEpisodes",
    "StopTrainingOnNoModelImprovement",
    "StopTrainingOnRewardThreshold",
]


class BaseCallback:
    """The base class of callbacks; subclasses define _on_step.

    Learning ends when _on_step returns a falsy value such as False, 0 or np.False_; None continues.
    n_calls counts rounds (one step of every environment), num_timesteps counts steps. locals has
    learn's keywords, env (model.get_env()), DQN's replay_buffer, and the round's new_obs, actions (a
    Box's are clipped to its bounds; A2C and PPO have them as clipped_actions, too), rewards, dones
    and infos. infos has a dict for each environment. At the end of an episode the dict has also
    "terminal_observation", "TimeLimit.truncated" and "episode", {"r": return, "l": length, "t": seconds}.
    """

    def __init__(self, verbose: int = 0) -> None:
        self.verbose = verbose
        self.model: Any = None  # set by init_callback
        self.n_calls = 0
        self.num_timesteps = 0
        self.locals: Variables = {}
        self.globals: Variables = {}
        self.parent = None

    @property
    def parent(self) -> BaseCallback | None:
        """The callback that calls this one; a weak reference."""
        return self._parent()

    @parent.setter
    def parent(self, parent: BaseCallback | None) -> None:
        self._parent: Callable[[], BaseCallback | None] = weakref.ref(parent) if parent is not None else lambda: None

    def __getstate__(self) -> Variables:
        return self.__dict__ | {"_parent": self.parent}

    def __setstate__(self, state: Variables) -> None:
        self.__dict__.update(state)
        self.parent = state["_parent"]

    @property
    def training_env(self) -> Any:
        """The result of model.get_env()."""
        return self.model.get_env()

    @property
    def logger(self) -> Logger:
        logger: Logger = self.model.logger
        return logger

    def init_callback(self, model: Any) -> None:
        self.model = model
        self._init_callback()

    def on_training_start(self, locals_: Variables, globals_: Variables) -> None:
        self.locals, self.globals = locals_, globals_
        self.num_timesteps = self.model.num_timesteps
        self._on_training_start()

    def on_rollout_start(self) -> None:
        self._on_rollout_start()

    def on_step(self) -> bool:
        self.n_calls += 1
        self.num_timesteps = self.model.num_timesteps
        return continues(self._on_step())

    def on_rollout_end(self) -> None:
        self._on_rollout_end()

    def on_training_end(self) -> None:
        self._on_training_end()

    def update_locals(self, locals_: Variables) -> None:
        self.locals.update(locals_)
        self.update_child_locals(locals_)

    def update_child_locals(self, locals_: Variables) -> None:
        pass

    def _on_step(self) -> bool:
        return True

    def _nothing(self) -> None:
        """The default of the other hooks."""

    _init_callback = _on_training_start = _on_rollout_start = _on_rollout_end = _on_training_end = _nothing


class CallbackList(BaseCallback):
    """Calls several callbacks in order; learning ends when any of them ends it."""

    def __init__(self, callbacks: Iterable[Any]) -> None:
        super().__init__()
        self.callbacks = [as_callback(callback) for callback in callbacks]

    def _init_callback(self) -> None:
        for callback in self.callbacks:
            callback.init_callback(self.model)

    def _on_training_start(self) -> None:
        for callback in self.callbacks:
            callback.on_training_start(self.locals, self.globals)

    def _on_rollout_start(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_start()

    def _on_step(self) -> bool:
        return all([continues(callback.on_step()) for callback in self.callbacks])  # noqa: C419 - all callbacks must run

    def _on_rollout_end(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_end()

    def _on_training_end(self) -> None:
        for callback in self.callbacks:
            callback.on_training_end()

    def update_child_locals(self, locals_: Variables) -> None:
        for callback in self.callbacks:
            callback.update_locals(locals_)


class ConvertCallback(BaseCallback):
    """A callback of a function (locals, globals) -> bool or None, whose result means the same as _on_step's."""

    def __init__(self, callback: Callable[[Variables, Variables], Any], verbose: int = 0) -> None:
        super().__init__(verbose)
        self.callback = callback

    def _on_step(self) -> bool:
        return continues(self.callback(self.locals, self.globals))


class EventCallback(BaseCallback):
    """Calls another callback at each of its events."""

    def __init__(self, callback: BaseCallback | None = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.callback = callback
        if callback is not None:
            callback.parent = self

    def init_callback(self, model: Any) -> None:
        super().init_callback(model)
        if self.callback is not None:
            self.callback.init_callback(model)

    def _on_training_start(self) -> None:
        if self.callback is not None:
            self.callback.on_training_start(self.locals, self.globals)

    def _on_event(self) -> bool:
        return self.callback is None or continues(self.callback.on_step())

    def update_child_locals(self, locals_: Variables) -> None:
        if self.callback is not None:
            self.callback.update_locals(locals_)


class EveryNTimesteps(EventCallback):
    """Calls another callback every n_steps steps, at the end of the first round at or past the due step."""

    def __init__(self, n_steps: int, callback: BaseCallback | None = None, verbose: int = 0) -> None:
        super().__init__(callback, verbose)
        if n_steps < 1:
            raise ConfigError(f"period: {n_steps} steps, must be at least 1")
        self.n_steps = n_steps
        self.last_time_trigger = 0  # num_timesteps at the latest event or at the start of learning

    def _on_training_start(self) -> None:
        super()._on_training_start()
        self.last_time_trigger = self.num_timesteps

    def _on_step(self) -> bool:
        if self.num_timesteps // self.n_steps <= self.last_time_trigger // self.n_steps:
            return True
        self.last_time_trigger = self.num_timesteps
        return self._on_event()


class LogEveryNTimesteps(EveryNTimesteps):
    """Writes a log record every n_steps steps, in addition to those of log_interval."""

    def __init__(self, n_steps: int) -> None:
        super().__init__(n_steps)

    def _on_event(self) -> bool:
        return self._log_data(self.locals, self.globals)

    def _log_data(self, _locals: Variables, _globals: Variables) -> bool:
        self.model.dump_logs()
        return True


class CheckpointCallback(EveryNTimesteps):
    """Saves the model every save_freq steps as <save_path>/<name_prefix>_<steps>_steps.zip.

    save_replay_buffer: True saves the experience as well, so that learning continues with the same
        bits. For DQN, <name_prefix>_replay_buffer_<steps>_steps.pkl, for load_replay_buffer, is a
        hard link to the same file.
    """

    def __init__(
        self,
        save_freq: int,
        save_path: str | os.PathLike[str],
        name_prefix: str = "rl_model",
        save_replay_buffer: bool = False,
        save_vecnormalize: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(save_freq, None, verbose)
        self.save_path = Path(save_path)
        self.name_prefix = name_prefix
        self.save_replay_buffer = save_replay_buffer
        self.save_vecnormalize = save_vecnormalize

    save_freq = property(lambda self: self.n_steps, lambda self, steps: setattr(self, "n_steps", steps), doc="n_steps.")

    def _init_callback(self) -> None:
        self.save_path.mkdir(parents=True, exist_ok=True)

    def _checkpoint_path(self, checkpoint_type: str = "", extension: str = "") -> str:
        """The path of a file of this step. checkpoint_type: "", "replay_buffer_" or "vecnormalize_"."""
        return str(self.save_path / f"{self.name_prefix}_{checkpoint_type}{self.num_timesteps}_steps.{extension}")

    def _on_event(self) -> bool:
        path = self._checkpoint_path(extension="zip")
        self.model.save(path, replay=self.save_replay_buffer)
        if self.save_replay_buffer and self.model.REPLAYS:
            buffer = Path(self._checkpoint_path("replay_buffer_", "pkl"))
            try:
                buffer.unlink(missing_ok=True)
                buffer.hardlink_to(path)
            except OSError:  # a file system without hard links
                self.model.save_replay_buffer(buffer)
        normalize = self.model.get_vec_normalize_env() if self.save_vecnormalize else None
        if normalize is not None:
            normalize.save(self._checkpoint_path("vecnormalize_", "pkl"))
        if self.verbose:
            print(f"saved {path}")
        return True


class EvalCallback(EveryNTimesteps):
    """Plays n_eval_episodes greedy episodes of eval_env every eval_freq steps; never if eval_freq is 0 or less.

    eval_env: the name of a built-in environment, a Gymnasium (vector) environment or a VecEnv of
        stable-baselines3. It must not be the environment that the model learns in, and must be in a
        VecNormalize if and only if that environment is; the statistics are copied before each
        evaluation.
    callback_on_new_best: called after an evaluation with the best mean return so far.
    callback_after_eval: called after every evaluation. Both callbacks may end learning.
    log_path: writes <log_path>/evaluations.npz: timesteps [n], results and ep_lengths
        [n, n_eval_episodes], and successes if infos have "is_success" at the end of episodes. The
        attributes evaluations_timesteps, evaluations_results, evaluations_length and
        evaluations_successes have the same values, also without log_path.
    best_model_save_path: saves the best model as <best_model_save_path>/best_model.zip, for load
        and Policy.load.
    deterministic: False draws actions from the network's distribution.

    learn(eval_freq=...) evaluates without a callback, so the library need not return after every
    round.
    """

    def __init__(
        self,
        eval_env: Any,
        callback_on_new_best: BaseCallback | None = None,
        callback_after_eval: BaseCallback | None = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10000,
        log_path: str | os.PathLike[str] | None = None,
        best_model_save_path: str | os.PathLike[str] | None = None,
        deterministic: bool = True,
        render: bool = False,
        verbose: int = 1,
        warn: bool = True,
    ) -> None:
        super().__init__(max(eval_freq, 1), callback_after_eval, verbose)
        self.eval_freq = eval_freq
        if render:
            raise ConfigError("render: True, must be False; gymnasium.wrappers.RecordVideo around eval_env records episodes")
        self.eval_env = eval_env
        self.callback_on_new_best = callback_on_new_best
        self.n_eval_episodes = whole("n_eval_episodes", n_eval_episodes, 1, 1_000_000)
        self.log_path = None if log_path is None else os.path.join(log_path, "evaluations")
        self.best_model_save_path = best_model_save_path
        self.deterministic, self.render, self.warn = deterministic, render, warn
        self.best_mean_reward = float("-inf")
        self.last_mean_reward = float("-inf")
        self.evaluations: list[tuple[int, Evaluation]] = []
        self.evaluations_timesteps: list[int] = []
        self.evaluations_results: list[list[float]] = []
        self.evaluations_length: list[list[int]] = []
        self.evaluations_successes: list[list[float]] = []
        self._is_success_buffer: list[float] = []  # the latest evaluation's successes
        if callback_on_new_best is not None:
            callback_on_new_best.parent = self

    def _init_callback(self) -> None:
        for folder in (self.best_model_save_path, self.log_path and os.path.dirname(self.log_path)):
            if folder is not None:
                Path(folder).mkdir(parents=True, exist_ok=True)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.init_callback(self.model)

    def _on_step(self) -> bool:
        if self.eval_freq <= 0:
            return True
        self.n_steps = self.eval_freq
        # A subclass with its own _on_step may expect evaluations as stable-baselines3 counts them,
        # by calls.
        if type(self)._on_step is not EvalCallback._on_step and self.n_calls % self.eval_freq == 0:
            self.last_time_trigger = self.num_timesteps
            return self._on_event()
        return super()._on_step()

    def _log_success_callback(self, locals_: Variables, globals_: Variables) -> None:
        """The callback of stable-baselines3's evaluate_policy, for subclasses that call it."""
        success = locals_["info"].get("is_success")
        if locals_["done"] and success is not None:
            self._is_success_buffer.append(success)

    def _on_event(self) -> bool:
        model, step = self.model, self.num_timesteps
        synchronise(model, self.eval_env)
        try:
            result = model.evaluate(self.eval_env, self.n_eval_episodes, seed=model.seed + step, deterministic=self.deterministic)
        except StoppedError:  # by model.stop
            return False
        self.last_mean_reward = result.mean_return
        self.evaluations.append((step, result))
        self.evaluations_timesteps.append(step)
        self.evaluations_results.append(list(result.returns))
        self.evaluations_length.append(list(result.lengths))
        self._is_success_buffer = list(result.successes)
        columns: Variables = {"timesteps": self.evaluations_timesteps, "results": self.evaluations_results}
        columns["ep_lengths"] = self.evaluations_length
        if self._is_success_buffer:
            self.evaluations_successes.append(self._is_success_buffer)
            if len({len(row) for row in self.evaluations_successes}) == 1:  # an array needs rows of one length
                columns["successes"] = self.evaluations_successes
        if self.log_path is not None:
            np.savez(self.log_path, **columns)
        if self.verbose:
            print(f"evaluation at {step} steps: {result.mean_return:.2f} +/- {result.std_return:.2f}")
        self.logger.record("eval/mean_reward", result.mean_return)
        self.logger.record("eval/mean_ep_length", result.mean_length)
        if result.successes:
            self.logger.record("eval/success_rate", float(np.mean(result.successes)))
        self.logger.record("time/total_timesteps", step, exclude="tensorboard")
        self.logger.dump(step)
        more = True
        if result.mean_return > self.best_mean_reward:
            self.best_mean_reward = result.mean_return
            if self.best_model_save_path is not None:
                model.save(Path(self.best_model_save_path) / "best_model")
            if self.callback_on_new_best is not None:
                more = continues(self.callback_on_new_best.on_step())
        return super()._on_event() and more

    def update_child_locals(self, locals_: Variables) -> None:
        super().update_child_locals(locals_)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.update_locals(locals_)


class StopTrainingOnRewardThreshold(BaseCallback):
    """Ends learning at a mean return of reward_threshold; for EvalCallback(callback_on_new_best=...)."""

    def __init__(self, reward_threshold: float, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.reward_threshold = reward_threshold

    def _on_step(self) -> bool:
        parent: Any = self.parent
        assert parent is not None, "belongs into EvalCallback(callback_on_new_best=...)"
        return bool(parent.best_mean_reward < self.reward_threshold)


class StopTrainingOnNoModelImprovement(BaseCallback):
    """Ends learning after more than max_no_improvement_evals evaluations in a row, the first min_evals aside, without a new best."""

    def __init__(self, max_no_improvement_evals: int, min_evals: int = 0, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.max_no_improvement_evals, self.min_evals = max_no_improvement_evals, min_evals
        self.last_best_mean_reward = float("-inf")
        self.no_improvement_evals = 0

    def _on_step(self) -> bool:
        parent: Any = self.parent
        assert parent is not None, "belongs into EvalCallback(callback_after_eval=...)"
        better = parent.best_mean_reward > self.last_best_mean_reward
        self.last_best_mean_reward = parent.best_mean_reward
        if self.n_calls <= self.min_evals:
            return True
        self.no_improvement_evals = 0 if better else self.no_improvement_evals + 1
        return self.no_improvement_evals <= self.max_no_improvement_evals


class StopTrainingOnMaxEpisodes(BaseCallback):
    """Ends learning after max_episodes * n_envs episodes of all environments together."""

    def __init__(self, max_episodes: int, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.max_episodes = self._total_max_episodes = max_episodes
        self.n_episodes = 0

    def _init_callback(self) -> None:
        self._total_max_episodes = self.max_episodes * self.model.n_envs

    def _on_step(self) -> bool:
        self.n_episodes += int(np.sum(self.locals["dones"]))
        return self.n_episodes < self._total_max_episodes


class ProgressBarCallback(BaseCallback):
    """Prints the progress line of learn(progress_bar=True)."""

    def _on_training_start(self) -> None:
        model = self.model
        self._line = ProgressLine(self.locals["total_timesteps"], repr(model), model._shown_stats)

    def _on_step(self) -> bool:
        self._line.update()
        return True

    def _on_training_end(self) -> None:
        self._line.close()


def continues(result: object) -> bool:
    """Whether learning continues after a callback's result; see BaseCallback."""
    return result is None or bool(result)


def as_callback(callback: Any) -> Any:
    """One callback object for None, an object, a function or a list of them; None stays None."""
    if callback is None:
        return None
    if isinstance(callback, (list, tuple)):
        return CallbackList(callback)
    if hasattr(callback, "on_step"):
        return callback
    if callable(callback):
        return ConvertCallback(callback)
    raise TypeError(f"callback: {type(callback).__name__}, must be a callback object, a function or a list of them")


def check_evaluations(model: Any, callback: Any) -> None:
    """Checks the environments of evaluation callbacks, also nested ones, before learning begins."""
    if isinstance(callback, EvalCallback):
        check(model, callback.eval_env)
    elif any(cls.__name__ == "EvalCallback" for cls in type(callback).__mro__):  # stable-baselines3's
        check_other(model, callback.eval_env, "eval_env")
    inside = getattr(callback, "callbacks", None)
    of_events = [getattr(callback, name, None) for name in ("callback", "callback_on_new_best")]
    for child in [*(inside if isinstance(inside, (list, tuple)) else ()), *of_events]:
        if hasattr(child, "on_step"):
            check_evaluations(model, child)
