"""One call of DQN.learn: the loop around the library, and what falls due in it.

Built-in environments are stepped by the library, in calls of a tenth of a
second so that Ctrl-C is heard; Gymnasium environments are stepped here, one act
and one observe a round. Everything periodic happens at the first round end at
or past its due step.
"""

from __future__ import annotations

import ctypes
import math
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _ffi, _lib
from .callbacks import as_callback
from .errors import ConfigError, StoppedError
from .progress import ProgressLine
from .vector import SAME_STEP

if TYPE_CHECKING:
    from .dqn import DQN

POLL_MS = 100


def _label(model: DQN) -> str:
    """A short name of what is learnt: a built-in environment's, a Gymnasium id, or a class."""
    spec = getattr(model.get_env(), "spec", None)
    return model.env_name or getattr(spec, "id", None) or type(model.get_env()).__name__


class Course:
    """The state of one call of learn."""

    def __init__(
        self,
        model: DQN,
        total_timesteps: int,
        callback: Any,
        log_interval: int | None,
        eval_freq: int,
        n_eval_episodes: int,
        eval_env: Any,
        progress_bar: bool,
    ) -> None:
        self.model = model
        self.lib = _lib.lib()
        self.callback = as_callback(callback)
        self.log_interval = log_interval
        self.eval_freq = eval_freq
        self.n_eval_episodes = n_eval_episodes
        self.eval_env = model.env_name if eval_env is None else eval_env
        if eval_freq and not self.eval_env:
            raise ConfigError("eval_env: None, must be an environment of its own to evaluate in when eval_freq is set")
        self.stats = model._read_stats()
        self.end = self.stats.num_timesteps + total_timesteps
        self.next_eval = self._after(self.stats.num_timesteps)
        self.progress = ProgressLine(self.end, self.stats.num_timesteps, _label(model)) if progress_bar else None
        self.started = (time.monotonic(), self.stats.num_timesteps)
        self.logged_episodes = self.stats.episodes
        self.windows, self.window_began = self.stats.windows, self.stats.num_timesteps
        self.locals: dict[str, Any] = {"self": model, "total_timesteps": self.end}

    def run(self) -> None:
        """Takes the course's steps; on an exception the model stays usable where it is."""
        callback = self.callback
        if callback is not None:
            callback.init_callback(self.model)
            callback.on_training_start(self.locals, globals())
            callback.on_rollout_start()
        try:
            while self.stats.num_timesteps < self.end and not self.model._stop_asked:
                before = self.stats.num_timesteps
                stepped = self._run_native() if self.model._source is None else self._run_pushed()
                if stepped and callback is not None:
                    if self._rollout_ended(before):
                        callback.on_rollout_end()
                        callback.on_rollout_start()
                    if not self._on_step():
                        break
                self._between()
            if not self.model._stop_asked:
                self._await_updates()
                self.lib.paceline_trainer_settle(self.model._trainer.value)
                self.stats = self.model._read_stats()
            self._between()
        except BaseException:
            # Leaves the trainer's thread with no more than the update in hand.
            self.lib.paceline_trainer_stop(self.model._trainer.value)
            raise
        finally:
            if self.progress is not None:
                self.progress.close(self.stats)
        if callback is not None:
            callback.on_rollout_end()
            callback.on_training_end()

    def _run_native(self) -> bool:
        """Steps until something is due, or for a tenth of a second; False if all of it was waiting."""
        before = self.stats.num_timesteps
        steps = 1 if self.callback is not None else min(self.end, self.next_eval) - self.stats.num_timesteps
        self.lib.paceline_trainer_run(self.model._trainer.value, int(steps), POLL_MS, ctypes.byref(self.stats))
        return bool(self.stats.num_timesteps > before)

    def _run_pushed(self) -> bool:
        """One round of environments stepped from Python; False if it was stopped before."""
        model, trainer = self.model, self.model._trainer.value
        source, rows = model._source, model._rows
        assert source is not None and rows is not None
        self._await_window()
        try:
            self.lib.paceline_trainer_act(trainer)
        except StoppedError:
            return False
        try:
            source.step(rows)
            if self.stats.num_timesteps + source.num_envs >= self.end:
                self._await_updates()  # the course's last observe finishes them
            self._observe()
        except BaseException:
            model._needs_reset = True  # the round cannot be finished
            raise
        return True

    def _observe(self) -> None:
        """Ends the round; a stop meanwhile is heeded after it."""
        while True:
            try:
                self.lib.paceline_trainer_observe(self.model._trainer.value, ctypes.byref(self.stats))
                return
            except StoppedError:
                pass

    def _await_window(self) -> None:
        """Waits for the trainer here, where Ctrl-C is heard, if the coming act would.

        Act ends a window by waiting for the window's updates. The window's end
        is known here to within a round.
        """
        model, stats = self.model, self.stats
        if stats.windows != self.windows:
            self.windows, self.window_began = stats.windows, stats.num_timesteps
        assert model._source is not None
        if stats.num_timesteps - self.window_began >= model._window - 2 * model._source.num_envs:
            self._await_updates()

    def _await_updates(self) -> None:
        """Returns when the updates due are done, or are not coming along.

        Without concurrent the calls into the library do them, a few at a time.
        """
        stats, progressed = self.stats, time.monotonic()
        if not self.model._concurrent:
            return
        while stats.updates < stats.updates_due and not self.model._stop_asked:
            before = stats.updates
            time.sleep(0.001)
            self.lib.paceline_trainer_stats(ctypes.byref(stats), self.model._trainer.value)
            if self.progress is not None:
                self.progress.update(stats)
            now = time.monotonic()
            if stats.updates > before:
                progressed = now
            elif now - progressed > 1:
                return  # the call that waits for it will say why

    def _on_step(self) -> bool:
        if self.model._source is not None:
            self._round_locals()
        self.callback.update_locals(self.locals)
        more: bool = self.callback.on_step() is not False
        return more

    def _round_locals(self) -> None:
        """What Stable-Baselines3's callbacks look for after a round."""
        source, rows = self.model._source, self.model._rows
        assert source is not None and rows is not None
        infos: list[dict[str, Any]] = [{} for _ in range(source.num_envs)]
        for i in np.flatnonzero(rows.ended):
            last = rows.final_obs if source.autoreset == SAME_STEP else rows.obs
            infos[i]["terminal_observation"] = last[i].copy()
            infos[i]["TimeLimit.truncated"] = rows.ended[i] == _ffi.TRUNCATED
        self.locals.update(
            new_obs=rows.obs.copy(),
            actions=rows.actions.copy(),
            rewards=rows.rewards.copy(),
            dones=rows.ended != 0,
            infos=infos,
            vector_infos=source.infos,
        )

    def _rollout_ended(self, before: int) -> bool:
        every = self.model._rollout
        return bool(self.stats.num_timesteps // every > before // every)

    def _after(self, step: int) -> float:
        """The first step past this one at which an evaluation is due."""
        return math.inf if not self.eval_freq else (step // self.eval_freq + 1) * self.eval_freq

    def _between(self) -> None:
        """What is due between two calls into the library."""
        if self.stats.num_timesteps >= self.next_eval:
            self.next_eval = self._after(self.stats.num_timesteps)
            self._await_updates()
            self._evaluate()
        self.model._warn_notices()
        if self.progress is not None:
            self.progress.update(self.stats)
        if self.log_interval and self.stats.episodes - self.logged_episodes >= self.log_interval:
            self.logged_episodes = self.stats.episodes
            self._log()

    def _evaluate(self) -> None:
        model, step = self.model, int(self.stats.num_timesteps)
        policy = model.policy_snapshot()
        seed = model._evaluation_seed(len(model.evaluations))
        result = model._evaluate(policy, self.eval_env, self.n_eval_episodes, seed=seed)
        model.evaluations.append((step, result))
        model.logger.record("eval/mean_reward", result.mean_return)
        model.logger.record("eval/mean_ep_length", result.mean_length)
        if model.best_policy is None or result.mean_return > model.best_mean_return:
            if model.best_policy is not None:
                model.best_policy.close()
            model.best_policy, model.best_mean_return = policy, result.mean_return
        else:
            policy.close()

    def _log(self) -> None:
        s, log = self.stats, self.model.logger
        seconds = max(time.monotonic() - self.started[0], 1e-9)
        log.record("rollout/ep_rew_mean", s.mean_return)
        log.record("rollout/ep_len_mean", s.mean_length)
        log.record("rollout/exploration_rate", s.epsilon)
        if self.model.recipe:
            log.record("env/recipe", self.model.recipe)
        log.record("time/episodes", s.episodes)
        log.record("time/fps", int((s.num_timesteps - self.started[1]) / seconds))
        log.record("time/time_elapsed", int(seconds))
        log.record("time/total_timesteps", s.num_timesteps)
        if s.updates:
            log.record("train/learning_rate", s.learning_rate)
            log.record("train/loss", s.loss)
            log.record("train/n_updates", s.updates)
        log.dump(s.num_timesteps)
