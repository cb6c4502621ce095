"""One call of learn: the loop around the library, with its callbacks, records and evaluations.

The library steps built-in environments, in calls of at most a tenth of a second, so that Python
handles Ctrl-C. This module steps Gymnasium environments, with one act and one observe a round.
Periodic work happens at the end of the first round at or past its due step. Log records that count
episodes of built-in environments are the exception: without a callback they are written between two
calls.
"""

from __future__ import annotations

import dataclasses
import math
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _ffi
from ._arguments import MOST_STEPS, steps, whole
from ._evaluation import check, next_seed, record, synchronise
from ._native import Native
from ._replay_buffer import ReplayBuffer
from ._threads import busy
from .callbacks import as_callback, check_evaluations, continues
from .envs._episodes import Recent
from .envs._infos import truth
from .envs._layers import reports
from .envs._rows import Block, Column
from .envs._source import SAME_STEP, Source, SpacesSource
from .errors import ConfigError, StoppedError
from .logger import make_logger
from .progress import ProgressLine
from .spaces import Array, Infos

if TYPE_CHECKING:
    from ._trainer import Trainer


class Round:
    """The callbacks' locals of a round, under stable-baselines3's names."""

    def __init__(self, model: Trainer, native: Native, source: Source | None) -> None:
        self._native, self._source, self._layout, self._action_layout = native, source, model.obs_layout, model.action_layout
        self._clips = model.CLIPS
        self._began = time.monotonic()
        self._episodes = int(native.stats().episodes)
        if source is None:
            n = int(model.setting("num_envs"))
            columns = [Column(**column) for column in model.described["infos"]]
            self._names = [column.name for column in columns]
            self._block = Block(n, self._layout, columns, final=True)
            self._actions: Array = self._action_layout.rows(n)

    def read(self, episodes: int) -> Infos:
        """Reads the latest round. episodes: the number of episodes that have ended so far."""
        source = self._source
        if source is None:
            rows: Block = self._block
            self._native.rows(rows, self._actions)
            actions: Any = self._action_layout.batch(self._actions)
            infos = self._native_infos(rows)
        else:
            rows, infos = source.rows, source.each_info()
            actions = source.actions.batch(source.rows.actions)
        ended = rows.terminated | rows.truncated
        last = rows.final_obs if source is None or source.autoreset == SAME_STEP else rows.obs
        for info, limit in zip(infos, (rows.truncated & ~rows.terminated).tolist()):
            info["TimeLimit.truncated"] = limit
        for i in np.flatnonzero(ended).tolist():
            infos[i].setdefault("terminal_observation", last[i].copy())
        over = np.flatnonzero(ended).tolist()
        if source is None:
            over = [i for i in over if truth(infos[i].get("game_over", True))]  # other ends are lost lives
        elif source.recent is not None:
            over = []  # a Monitor reports episodes; other ends are lost lives
        for i, (total, length) in zip(over, self._native.episodes(episodes - self._episodes) if over else ()):
            seconds = round(time.monotonic() - self._began, 6)
            infos[i].setdefault("episode", {"r": round(total, 6), "l": length, "t": seconds})
        self._episodes = episodes
        names = ("actions", "clipped_actions") if self._clips else ("actions",)
        return {
            "new_obs": rows.obs.copy(),
            **dict.fromkeys(names, actions),
            "rewards": rows.rewards.astype(np.float32),
            "dones": ended,
            "infos": infos,
        }

    def _native_infos(self, rows: Block) -> list[Infos]:
        """The infos of built-in environments, of the episode's last step where an episode ended."""
        ended = rows.terminated | rows.truncated
        columns = [np.where(ended.reshape(-1, *[1] * (now.ndim - 1)), last, now) for now, last in zip(rows.infos, rows.final_infos)]
        values = [column.tolist() if column.ndim == 1 else column for column in columns]
        return [dict(zip(self._names, row)) for row in zip(*values)] if values else [{} for _ in ended]


class Locals(dict[str, Any]):
    """The locals of callbacks; "env" and "replay_buffer" are made at their first use.

    The callback refers to this dict, so the dict has a weak reference to the callback: a cycle
    would keep both, and the model, alive until a garbage collection.
    """

    def __init__(self, model: Trainer, callback: Any, values: dict[str, Any]) -> None:
        super().__init__(values)
        self._callback = (lambda: None) if callback is None else weakref.ref(callback)
        self._lazy: dict[str, Callable[[], Any]] = {"env": model.get_env}
        if model.REPLAYS:
            self._lazy["replay_buffer"] = lambda: ReplayBuffer(model)

    def __missing__(self, key: str) -> Any:
        if key == "callback":
            return self._callback()
        if key not in self._lazy:
            raise KeyError(key)
        self[key] = self._lazy[key]()
        return self[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._lazy or key == "callback"

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default


class Periods(NamedTuple):
    """The rollouts of a method, for callbacks and log records."""

    rollout: int  # steps of all environments between two calls of on_rollout_start
    counted: bool  # updates learn from rollouts: log_interval counts rollouts; else it counts episodes
    # The library counts rollouts of all environments, and learn ends with one. If counted and not whole, each
    # learner has rollouts of its own, and ends with one of them.
    whole: bool = False


@dataclasses.dataclass
class LearnRequest:
    """The keywords of Trainer.learn. check makes the numbers ints; learn converts callback and names the run."""

    total_timesteps: int
    callback: Any  # in a Loop the result of as_callback
    log_interval: int | None
    tb_log_name: str | None  # in a Loop a str
    reset_num_timesteps: bool
    progress_bar: bool
    eval_freq: int
    n_eval_episodes: int
    eval_env: Any

    def check(self, model: Trainer) -> None:
        """Checks the keywords, apart from callback and the spaces of eval_env."""
        self.total_timesteps, self.eval_freq = steps("total_timesteps", self.total_timesteps, 1), steps("eval_freq", self.eval_freq, 0)
        self.n_eval_episodes = whole("n_eval_episodes", self.n_eval_episodes, 1, 1_000_000)
        if self.log_interval is not None:
            self.log_interval = whole("log_interval", self.log_interval, 0, MOST_STEPS)
        if not isinstance(self.tb_log_name, (str, type(None))):
            raise ConfigError(f"tb_log_name: {self.tb_log_name!r}, must be a str or None")
        if self.eval_freq and self.eval_env is None and model.similar_env() is None:
            raise ConfigError("eval_env: None, must be an environment to evaluate in when eval_freq is set")


def learn(model: Trainer, request: LearnRequest) -> None:
    """Does Trainer.learn."""
    request.check(model)
    if not model._learning.acquire(False):
        raise busy()
    try:
        model._refuse_during_learn("learn")
        model._warn_of_copies()
        # All checks come before begin, which forgets the previous run's results.
        request.callback = as_callback(request.callback)
        check_evaluations(model, request.callback)
        if request.eval_freq and request.eval_env is not None:
            check(model, request.eval_env)
        source = model._source
        if source is not None:
            source.check()
        logger, request.tb_log_name = model._logger, request.tb_log_name or type(model).__name__
        if model._own_logger:
            logger = make_logger(model.verbose, model.tensorboard_log, request.tb_log_name, request.reset_num_timesteps)
        try:
            begin(model, request.total_timesteps, request.reset_num_timesteps)
        except BaseException:
            if model._own_logger:
                with suppress(Exception):  # an error of close does not replace the exception
                    logger.close()
            raise
        if model._own_logger:
            model._logger.close()  # the previous learn's logger stays open until here
        model._logger = logger
        model.start_time = time.time_ns()
        try:
            model._loop = Loop(model, model._native, source, model._periods(), request)
            if source is not None:
                source.learning = True
            model._loop.run()
        finally:
            model._loop = None
            if source is not None:
                source.learning = False
    finally:
        model._learning.release()


def begin(model: Trainer, total_timesteps: int, reset_num_timesteps: bool) -> None:
    """Begins a run or continues the previous one. On an error the previous run stays as it was."""
    source = model._source
    if isinstance(source, SpacesSource) and model._from_outside():
        source = None  # a learner that steps no environments: see DQN.gradient_of
    new_run = reset_num_timesteps or not model._begun
    flags = _ffi.RESET_ENVS if model._cut_episodes or (source is not None and source.needs_reset) else 0
    if new_run:
        flags = _ffi.RESET_TIMESTEPS | _ffi.RESET_ENVS
    try:
        if source is not None and flags & _ffi.RESET_ENVS:
            source.reset(model._first_seed())
        model._native.begin(total_timesteps, flags)
    except BaseException:
        if source is not None and flags & _ffi.RESET_ENVS:
            source.needs_reset = True  # the trainer has no record of the episodes just begun
        raise
    if new_run:
        model._forget_run()
        model.ep_success_buffer.clear()
    if source is not None and (new_run or source.recent is None):
        source.recent = Recent(int(model.setting("stats_window_size"))) if reports(source.env) else None
    model._begun, model._cut_episodes, model._env_seed = True, False, None


@dataclasses.dataclass
class Loop:
    """The state of one call of learn."""

    model: Trainer
    native: Native
    source: Source | None
    periods: Periods
    request: LearnRequest

    def __post_init__(self) -> None:
        self.stats = self.native.stats()
        self.end = self.stats.num_timesteps + self.request.total_timesteps
        self.next_eval = self._after(self.stats.num_timesteps)
        self.progress: ProgressLine | None = None
        if self.request.progress_bar:
            self.progress = ProgressLine(self.end, self.model._label, self.model._shown_stats)
        self.curve = self.model.learning_curve
        self.curve.resume()
        self._point(last=True)
        self.started = (time.monotonic(), self.stats.num_timesteps)
        self.first = self._countable()
        self.records = self._due_records()
        self.recorded = 0  # the updates when the metrics were recorded; 0: the logger does not have them
        self.in_rollout = False
        self.filled = False  # the latest library call or round ended a rollout
        keywords = ("log_interval", "tb_log_name", "reset_num_timesteps", "progress_bar")
        known = {"self": self.model, "total_timesteps": self.end, **{name: getattr(self.request, name) for name in keywords}}
        self.locals: dict[str, Any] = Locals(self.model, self.request.callback, known)
        self.round = None if self.request.callback is None else Round(self.model, self.native, self.source)

    def run(self) -> None:
        """Takes the run's steps. After an exception the model stays usable at its current step."""
        callback = self.request.callback
        if callback is not None:
            callback.init_callback(self.model)
            callback.on_training_start(self.locals, globals())
        try:
            while not self._over() and not self.native.stopped:
                before = self._rollouts()
                if callback is not None and not self.in_rollout and not self._ending():
                    self.in_rollout = True
                    callback.on_rollout_start()
                stepped = self._run_native() if self.source is None else self._run_pushed(self.source)
                self.filled = self._rollouts() > before
                if callback is not None and not self._called_back(stepped):
                    break
                self._between()
            if not self.native.stopped:
                self.native.settle(self._waiting)
                self.stats = self.native.stats()
            self._between()
        except BaseException:
            # An error of a model that was closed, or of a forked child's, does not replace the exception.
            with suppress(Exception):
                self.native.stop()  # the trainer thread then ends after the update in progress
            with suppress(Exception):
                self._finish()
            raise
        self._finish()
        if callback is not None:
            if self.in_rollout:
                callback.on_rollout_end()
            callback.on_training_end()

    def _finish(self) -> None:
        self.record_metrics()
        self._point(last=True)
        if self.progress is not None:
            self.progress.close()

    def _over(self) -> bool:
        """Whether all steps are taken. Rounds may have fewer steps than environments, so rollouts end at any step."""
        if self._ending():
            return self.native.metric("async/unfinished") == 0
        return self.stats.num_timesteps >= self.end and (self.filled or not self.periods.whole)

    def _ending(self) -> bool:
        """Whether the steps are taken but for the rollouts in progress of learners that have their own."""
        return self.stats.num_timesteps >= self.end and self.periods.counted and not self.periods.whole

    def _run_native(self) -> bool:
        """Steps until periodic work is due, for at most POLL_MS. Returns False if no step was taken."""
        before = self.stats.num_timesteps
        until, rollouts = min(self.end, self.next_eval, self._next_log()), 0
        if self.periods.whole:
            last = self.end - self.periods.rollout  # a rollout that begins before this step ends at or before self.end
            until, rollouts = min(self.next_eval, last), self._until_log()
            if before >= last:
                until, rollouts = min(self.next_eval, before + MOST_STEPS), 1
        elif self._ending():
            until, rollouts = min(self.next_eval, before + MOST_STEPS), 1
        if self.request.callback is not None:
            until, rollouts = before + 1, 1  # a round, or the rounds without a step that end a rollout
        self.native.run(self.stats, int(until - before), rollouts)
        return bool(self.stats.num_timesteps > before)

    def _run_pushed(self, source: Source) -> bool:
        """Takes one round of environments that Python steps. Returns False if the run was stopped before."""
        try:
            if not self.native.act(source.rows, self._waiting):
                return False
            source.step()
            self.native.observe(source.rows, self._waiting)
        except BaseException:
            source.needs_reset = True  # the round is incomplete
            raise
        self.stats = self.native.stats()
        if episodes := source.reported():
            if source.recent is None:  # the Monitor is in another process, so reports() did not find it
                source.recent = Recent(int(self.model.setting("stats_window_size")))
            source.recent.add(episodes)
        self.model.ep_success_buffer.extend(source.successes())
        return True

    def _waiting(self) -> None:
        """Updates the progress line while a library call waits."""
        if self.progress is not None:
            self.progress.update()

    def _called_back(self, stepped: bool) -> bool:
        """Runs the callback after a round. stepped: the round has a step. Returns False to end learning."""
        assert self.round is not None
        callback, more = self.request.callback, True
        if stepped:
            self.locals.update(self.round.read(int(self.stats.episodes)))
            callback.update_locals(self.locals)
            more = continues(callback.on_step())
        if self.filled:
            self.in_rollout = False
            callback.on_rollout_end()
        return more

    def _after(self, step: int) -> float:
        """The first step after `step` at which an evaluation is due."""
        every = self.request.eval_freq
        return (step // every + 1) * every if every else math.inf

    def _next_log(self) -> float:
        """The step of the next log record; infinite if it is not known or no record is due."""
        if not self.request.log_interval or not self.periods.counted or self.periods.whole:
            return math.inf
        every = self.periods.rollout
        return int(self.stats.num_timesteps // every + self._until_log()) * every

    def _until_log(self) -> int:
        """The number of rollouts to the next log record; 0 without records."""
        every = self.request.log_interval
        return every - (self._countable() - self.first) % every if every else 0

    def _rollouts(self) -> int:
        """The number of rollouts that have ended."""
        if self.periods.counted:
            return int(self.native.metric("rollouts"))
        return int(self.stats.num_timesteps // self.periods.rollout)

    def _countable(self) -> int:
        """The episodes or rollouts so far, as log_interval counts them."""
        return self._rollouts() if self.periods.counted else int(self.stats.episodes)

    def _due_records(self) -> int:
        """The number of log records due so far.

        As in stable-baselines3, rollouts count from 0 in every learn; episodes count from 0 when
        steps do.
        """
        since = self.first if self.periods.counted else 0
        return (self._countable() - since) // self.request.log_interval if self.request.log_interval else 0

    def _between(self) -> None:
        """Does the periodic work that is due between two library calls."""
        if self.stats.num_timesteps >= self.next_eval:
            self.next_eval = self._after(self.stats.num_timesteps)
            self.native.settle(self._waiting)
            self._evaluate()
        self.native.warn_of_notices()
        self._point()
        if self.progress is not None:
            self.progress.update()
        if (due := self._due_records()) > self.records:
            self.records = due
            self.log()

    @property
    def _returned(self) -> _ffi.Stats | Recent:
        """The source of mean_return and mean_length: a Monitor's episodes, else the library's counters."""
        recent = None if self.source is None else self.source.recent
        return self.stats if recent is None else recent

    def _point(self, last: bool = False) -> None:
        self.curve.add(int(self.stats.num_timesteps), self._returned.mean_return, last=last)

    def _evaluate(self) -> None:
        model, step = self.model, int(self.stats.num_timesteps)
        synchronise(model, self.request.eval_env)
        policy = model.policy_snapshot()
        try:
            result = model.evaluate(self.request.eval_env, self.request.n_eval_episodes, seed=next_seed(model), policy=policy)
        except StoppedError:  # by model.stop, which ends learning
            policy.close()
            return
        record(model, step, result, policy)

    def log(self) -> None:
        """Writes a log record."""
        s, log, returned = self.stats, self.model._logger, self._returned
        seconds = max(time.monotonic() - self.started[0], 1e-9)
        if s.episodes and not math.isnan(returned.mean_length):
            log.record("rollout/ep_rew_mean", returned.mean_return)
            log.record("rollout/ep_len_mean", returned.mean_length)
        if self.model.ep_success_buffer:
            log.record("rollout/success_rate", fmean(self.model.ep_success_buffer))
        if self.model.recipe:
            log.record("env/recipe", self.model.recipe)
        log.record("time/episodes", s.episodes)
        if self.periods.counted:
            log.record("time/iterations", self._countable() - self.first)
        log.record("time/fps", int((s.num_timesteps - self.started[1]) / seconds))
        log.record("time/time_elapsed", int(seconds))
        log.record("time/total_timesteps", s.num_timesteps)
        self._record_metrics()
        log.dump(s.num_timesteps)
        self.recorded = 0

    def record_metrics(self) -> None:
        """Records the method's metrics for readers of the logger, unless they are there since the latest update."""
        if self.stats.updates != self.recorded:
            self._record_metrics()

    def _record_metrics(self) -> None:
        log, updates = self.model._logger, self.stats.updates
        self.recorded = updates
        for name, value in self.native.metrics():
            # The groups that stable-baselines3 logs; "train" only after the first update.
            group, slash, _ = name.partition("/")
            if slash and group != "predict" and not math.isnan(value) and (updates or group != "train"):
                log.record(name, value)
        if updates:
            log.record("train/n_updates", self.model._n_updates)
