"""Callbacks in Stable-Baselines3's shape.

Its own callback objects work too, as long as they use model,
num_timesteps, n_calls, locals and logger only: nothing here derives from them.
A callback makes learning return to Python after every round, and keeps the
trainer from running ahead of what it may read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .logger import Logger

__all__ = ["BaseCallback", "CallbackList", "CheckpointCallback", "EvalCallback", "StopTrainingOnRewardThreshold"]


class BaseCallback:
    """Derive from this and define _on_step; return False from it to end learning.

    n_calls counts rounds (one step of every environment), num_timesteps steps.
    locals has total_timesteps and, for environments stepped from Python,
    new_obs, rewards, dones and infos of the round.
    """

    def __init__(self, verbose: int = 0) -> None:
        self.verbose = verbose
        self.model: Any = None  # the DQN, A2C ... that learns; set by init_callback
        self.n_calls = 0
        self.num_timesteps = 0
        self.locals: dict[str, Any] = {}
        self.globals: dict[str, Any] = {}
        self.parent: BaseCallback | None = None

    @property
    def training_env(self) -> Any:
        return self.model.get_env()

    @property
    def logger(self) -> Logger:
        logger: Logger = self.model.logger
        return logger

    def init_callback(self, model: Any) -> None:
        self.model = model
        self._init_callback()

    def on_training_start(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        self.locals, self.globals = locals_, globals_
        self.num_timesteps = self.model.num_timesteps
        self._on_training_start()

    def on_rollout_start(self) -> None:
        self._on_rollout_start()

    def on_step(self) -> bool:
        self.n_calls += 1
        self.num_timesteps = self.model.num_timesteps
        return self._on_step()

    def on_rollout_end(self) -> None:
        self._on_rollout_end()

    def on_training_end(self) -> None:
        self._on_training_end()

    def update_locals(self, locals_: dict[str, Any]) -> None:
        self.locals.update(locals_)
        self.update_child_locals(locals_)

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        pass

    def _on_step(self) -> bool:
        return True

    def _nothing(self) -> None:
        """What the other hooks do where a class does not define them."""

    _init_callback = _on_training_start = _on_rollout_start = _on_rollout_end = _on_training_end = _nothing


class CallbackList(BaseCallback):
    """Several callbacks in order; learning ends when one of them says so."""

    def __init__(self, callbacks: Iterable[Any]) -> None:
        super().__init__()
        self.callbacks = list(callbacks)

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
        return all([callback.on_step() for callback in self.callbacks])  # noqa: C419 - each of them is called

    def _on_rollout_end(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_end()

    def _on_training_end(self) -> None:
        for callback in self.callbacks:
            callback.on_training_end()

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        for callback in self.callbacks:
            callback.update_locals(locals_)


class FunctionCallback(BaseCallback):
    """A plain function (locals, globals) -> bool or None."""

    def __init__(self, function: Callable[[dict[str, Any], dict[str, Any]], Any]) -> None:
        super().__init__()
        self._function = function

    def _on_step(self) -> bool:
        return self._function(self.locals, self.globals) is not False


class _Periodic(BaseCallback):
    """Something that is due every so many steps, at the first round end at or past it."""

    def __init__(self, every: int, verbose: int = 0) -> None:
        super().__init__(verbose)
        if every < 1:
            raise ValueError(f"period: {every} steps, must be at least 1")
        self.every = every
        self._next = 0

    def _on_training_start(self) -> None:
        self._next = (self.num_timesteps // self.every + 1) * self.every

    def _on_step(self) -> bool:
        if self.num_timesteps < self._next:
            return True
        self._next = (self.num_timesteps // self.every + 1) * self.every
        return self._on_event()

    def _on_event(self) -> bool:
        raise NotImplementedError


class CheckpointCallback(_Periodic):
    """Saves the model every save_freq steps as <save_path>/<name_prefix>_<steps>_steps.paceline.

    save_freq counts steps, of all environments together (Stable-Baselines3
    counts vector steps).
    """

    def __init__(
        self,
        save_freq: int,
        save_path: str | os.PathLike[str],
        name_prefix: str = "rl_model",
        save_replay_buffer: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(save_freq, verbose)
        self.save_path = Path(save_path)
        self.name_prefix = name_prefix
        self.save_replay_buffer = save_replay_buffer

    def _init_callback(self) -> None:
        self.save_path.mkdir(parents=True, exist_ok=True)

    def _on_event(self) -> bool:
        path = self.save_path / f"{self.name_prefix}_{self.num_timesteps}_steps.paceline"
        self.model.save(path, self.save_replay_buffer)
        if self.verbose:
            print(f"saved {path}")
        return True


class EvalCallback(_Periodic):
    """Plays n_eval_episodes greedy episodes of eval_env every eval_freq steps.

    eval_env: the name of a built-in environment or a Gymnasium one. The best
    weights go to <best_model_save_path>/best_model.paceline (a Policy).
    callback_on_new_best may end learning. eval_freq counts steps, of all
    environments together. learn(eval_freq=...) does the same with no callback,
    and keeps the trainer concurrent.
    """

    def __init__(
        self,
        eval_env: Any,
        callback_on_new_best: BaseCallback | None = None,
        n_eval_episodes: int = 5,
        eval_freq: int = 10000,
        best_model_save_path: str | os.PathLike[str] | None = None,
        verbose: int = 1,
    ) -> None:
        super().__init__(eval_freq, verbose)
        self.eval_env = eval_env
        self.callback = callback_on_new_best
        self.n_eval_episodes = n_eval_episodes
        self.best_model_save_path = best_model_save_path
        self.best_mean_reward = float("-inf")
        self.last_mean_reward = float("-inf")
        self.evaluations: list[tuple[int, float]] = []

    def _init_callback(self) -> None:
        if self.callback is not None:
            self.callback.parent = self
            self.callback.init_callback(self.model)

    def _on_event(self) -> bool:
        with self.model.policy_snapshot() as policy:
            seed = self.model.seed + self.num_timesteps
            result = self.model.evaluate(self.eval_env, self.n_eval_episodes, seed=seed, policy=policy)
            self.last_mean_reward = result.mean_return
            self.evaluations.append((self.num_timesteps, result.mean_return))
            self.logger.record("eval/mean_reward", result.mean_return)
            self.logger.record("eval/mean_ep_length", result.mean_length)
            if self.verbose:
                print(f"evaluation at {self.num_timesteps} steps: {result.mean_return:.2f} +/- {result.std_return:.2f}")
            if result.mean_return <= self.best_mean_reward:
                return True
            self.best_mean_reward = result.mean_return
            if self.best_model_save_path is not None:
                folder = Path(self.best_model_save_path)
                folder.mkdir(parents=True, exist_ok=True)
                policy.save(folder / "best_model.paceline")
        return self.callback.on_step() if self.callback is not None else True


class StopTrainingOnRewardThreshold(BaseCallback):
    """For EvalCallback(callback_on_new_best=...): ends learning at a mean return."""

    def __init__(self, reward_threshold: float, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.reward_threshold = reward_threshold

    def _on_step(self) -> bool:
        parent = self.parent
        assert isinstance(parent, EvalCallback), "belongs into EvalCallback(callback_on_new_best=...)"
        return parent.best_mean_reward < self.reward_threshold


def as_callback(callback: Any) -> Any:
    """None, an object, a function or a list of them, as one object (or None)."""
    if callback is None:
        return None
    if isinstance(callback, (list, tuple)):
        return CallbackList(as_callback(c) for c in callback)
    if hasattr(callback, "on_step"):
        return callback
    if callable(callback):
        return FunctionCallback(callback)
    raise TypeError(f"callback: {type(callback).__name__}, must be a callback object, a function or a list of them")
