"""The model of a run on a cluster: learn, callbacks, records, evaluations, files."""

from __future__ import annotations

import contextlib
import math
import time
import weakref
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from .. import _evaluation
from .._arguments import MOST_STEPS, steps, whole
from .._files import File
from ..callbacks import as_callback, continues
from ..curve import LearningCurve
from ..errors import BusyError, ConfigError, PacelineError, notice
from ..logger import Logger, make_logger
from ..policy import Evaluation, Policy
from ..progress import ProgressLine
from . import _files, _processes, _ray
from ._conducted import conduct
from ._keywords import to_json
from ._order_file import read_order
from ._run import Renewal, Run, stop
from ._spec import Spec
from ._supervisor import POLL as POLL_STATUS
from ._watch import Recovery

Self = TypeVar("Self", bound="Distributed")
_COUNTS = ("lag", "lag_most", "refused", "duplicates", "lost_updates", "lost_transitions", "lost_steps", "recoveries")
POLL = 0.1  # seconds between two looks at a run
PATIENCE = 30.0  # seconds after which processes that do not answer are named
# What the worker of the driver's process answers for all workers.
_OF_WORKER = frozenset((
    "METHOD", "METRICS", "UPDATES", "action_noise", "action_space", "clip_range", "clip_range_vf", "described", "device", "env",
    "env_name", "exploration_schedule", "get_env", "get_vec_normalize_env", "keywords", "learning_rate", "lr_schedule",
    "observation_space", "policy_aliases", "policy_class", "policy_kwargs", "recipe", "replay_buffer_kwargs", "sde_sample_freq",
    "setting", "similar_env", "train_freq", "use_sde", "use_sde_at_warmup",
))  # fmt: skip
_INSTEAD = {
    "set_parameters": "distributed.load of a checkpoint, as the parameters are the shards'",
    "replay_buffer": "save with replay=True, as the experience is in other processes",
    "save_replay_buffer": "save with replay=True, which has the experience of all processes",
    "load_replay_buffer": "distributed.load of a file that save has written with replay=True",
    "ep_info_buffer": "stats, which has the episodes of all processes",
    "ep_success_buffer": "stats, which has the episodes of all processes",
    "exploration_rate": 'stats["epsilon"], the mean of all processes',
    "set_env": "env of a new run, as every process has made its environments",
    "set_random_seed": "seed of a new run, as every process has drawn from its own",
}


class Distributed:
    """A model whose bundles and shards are processes of a Ray cluster.

    num_timesteps counts the steps of all bundles, stats["updates"] the server's updates. A callback is
    called whenever the driver has heard of further steps, at most about four times a second, not after
    every round. Weights are those of the shards at the time of a call. recoveries lists the processes that
    ended and came back, and what was lost.

    The run lives on the cluster: when this process ends without close, the run goes on for `lease`
    seconds, in which paceline.distributed.attach(name) continues it. While this process lives, a thread
    renews the lease until close or detach. Ctrl-C in learn ends the run.
    """

    LOG_INTERVAL = 4
    REPLAYS = False  # save has the experience; no file of it alone is written
    CLIPS = False

    def __init__(self, run: Run, local: Any) -> None:
        """local: a worker in this process, which acts, evaluates and has the spaces; its parameters are copies."""
        self.run, self._local, self._environments = run, local, local._environments
        self._learning, self._closed = False, False
        self._status: dict[str, Any] = run.call("status")
        self._end_renewal = weakref.finalize(self, Renewal(run).stop)
        self._told = 0  # recoveries that were reported
        self._late: list[str] = []  # processes that have not answered for PATIENCE, which were named
        self._trouble = ""  # of the supervisor, the latest that was reported
        self._logger: Any = Logger()
        self._own_logger = True
        self._asked_to_stop = False
        self.recoveries: list[Recovery] = []
        self.verbose: int = run.spec.worker.get("verbose", 0)
        self.tensorboard_log: str | None = local.tensorboard_log
        self.start_time = self._first_step = 0  # of the latest learn
        self._forget_run()

    def _forget_run(self) -> None:
        self.learning_curve = LearningCurve(f"{self._local._label}, {self.method} on {self.run.spec.bundles} bundles")
        self.evaluations: list[tuple[int, Evaluation]] = []
        self.best_policy: Policy | None = None
        self.best_mean_return = float("-inf")

    def __getattr__(self, name: str) -> Any:
        """Settings and spaces are the worker's. What would read or change that worker alone is refused."""
        if name.startswith("_") or "_local" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if (shared := self.run.spec.shared(name)) is not None:
            return shared  # the driver's worker is small
        if name in _INSTEAD or (hasattr(type(self._local), name) and name not in _OF_WORKER):
            raise AttributeError(f"{name}: not on a cluster, must be {_INSTEAD.get(name, 'a setting or a method of Distributed')}")
        return getattr(self._local, name)

    def __repr__(self) -> str:
        spec = self.run.spec
        state = ", closed" if self._closed else ""
        decoupled = f"{spec.actors} actors, {spec.replay_shards} replay shards, " if spec.actors else ""
        return f"<paceline.Gorila {spec.run!r} on {self._local._label}: {decoupled}{spec.bundles} bundles, {spec.shards} shards{state}>"

    # ------------------------------------------------------------- progress

    @property
    def method(self) -> str:
        return self.run.spec.method

    @property
    def name(self) -> str:
        """The name of the run, for attach and stop."""
        return self.run.spec.run

    @property
    def n_envs(self) -> int:
        return self.run.spec.num_envs

    num_envs = n_envs

    @property
    def seed(self) -> int:
        return self.run.spec.seed

    @property
    def logger(self) -> Any:
        return self._logger

    def set_logger(self, logger: Any) -> None:
        """Sets the logger of learn; the caller closes it."""
        if self._own_logger:
            self._logger.close()
        self._logger, self._own_logger = logger, False

    @property
    def stats(self) -> dict[str, float]:
        """The counts of all processes: steps, updates, episodes, lag, refused, duplicates, lost_updates and others."""
        self._look()
        totals: dict[str, float] = self._status["totals"]
        return totals

    _shown_stats = stats

    @property
    def num_timesteps(self) -> int:
        """Steps of all bundles, as of the latest look."""
        return int(self._status["totals"]["num_timesteps"])

    @property
    def _n_updates(self) -> int:
        return int(self._status["totals"]["updates"])

    @property
    def _begun(self) -> bool:
        """Whether any driver has called learn, or the run goes on from steps of a checkpoint, as of the latest look."""
        return self._status["number"] > 0 or self.num_timesteps > 0

    def _look(self) -> None:
        """Asks the supervisor; reports what was lost."""
        self._check_open()
        before, self._status = self._status, self.run.call("status")
        if self._status["pid"] != before["pid"]:  # a later supervisor, which may lack the latest recoveries
            self._told = min(self._told, self._status["reported"])
        new = self._status["reported"] - self._told
        if new > 0:
            self._told = self._status["reported"]
            for recovery in self._status["recoveries"][-new:]:
                self.recoveries.append(recovery)
                notice(f"{self.name}: {recovery.text}")
        late = [place for place, seconds in self._status["silent"].items() if seconds > PATIENCE]
        for what, never in (("started", True), ("back", False)):
            new = [place for place in late if place not in self._late and (self._status["pids"][place] is None) == never]
            if new:
                notice(f"{self.name}: {', '.join(new)}: not {what} after {PATIENCE:g} s; {self._cores()}")
        self._late = late
        if (trouble := self._status["trouble"]) != self._trouble:
            self._trouble = trouble
            notice(f"{self.name}: a round of the supervisor failed, and its counts are old: {trouble}")
        if self._status["errors"]:
            raise PacelineError(f"{self.name}: {self._status['errors'][0]}")

    def _check_open(self) -> None:
        if self._closed:
            raise PacelineError(f"{self.name}: closed")

    def _cores(self) -> str:
        spec, there = self.run.spec, _ray.ray().cluster_resources().get("CPU", 0)
        return f"the run needs {spec.bundles * spec.num_cpus + spec.actors} cores and a little, and the cluster has {there:g}"

    # ------------------------------------------------------------- learning

    def learn(
        self: Self, total_timesteps: int, callback: Any = None, log_interval: int | None = 4, tb_log_name: str | None = None,
        reset_num_timesteps: bool = True, progress_bar: bool = False, *, eval_freq: int = 0, n_eval_episodes: int = 20,
        eval_env: Any = None,
    ) -> Self:  # fmt: skip
        """Takes total_timesteps further steps of all bundles together, and trains; see Trainer.learn.

        reset_num_timesteps: must be False after the first learn of a run, whose shards go on counting.
        eval_freq: evaluations play in a process of the cluster while training goes on.
        """
        self._check_open()
        total_timesteps, eval_freq = steps("total_timesteps", total_timesteps, 1), steps("eval_freq", eval_freq, 0)
        n_eval_episodes = whole("n_eval_episodes", n_eval_episodes, 1, 1_000_000)
        if log_interval is not None:
            log_interval = whole("log_interval", log_interval, 0, MOST_STEPS)
        if self._learning:
            raise BusyError("learn: learn is in progress, must be called before or after it")
        self._look()
        if self._begun and self.run.spec.schedule != "race":
            raise ConfigError(f"schedule: {self.run.spec.schedule}, learn may be called once, must be 'race' for more")
        if self._begun and reset_num_timesteps:
            raise ConfigError("reset_num_timesteps: True, must be False after the first learn of a run, whose shards go on counting")
        callback, first = as_callback(callback), not self._begun
        if self._own_logger:
            self._logger.close()
            self._logger = make_logger(self.verbose, self.tensorboard_log, tb_log_name or "Gorila", first)
        self.start_time, self._first_step = time.time_ns(), self.num_timesteps
        self._learning, self._asked_to_stop = True, False
        try:
            Session(self, total_timesteps, callback, log_interval, progress_bar, eval_freq, n_eval_episodes, eval_env).go()
        except KeyboardInterrupt:
            self.close()
            raise
        finally:
            self._learning = False
        return self

    def stop(self) -> None:
        """Makes the learn in progress return; any thread may call it. The processes stay.

        A run of a given order ends after the visits that were sent, and learn may not be called again.
        """
        self._asked_to_stop = True

    def dump_logs(self, iteration: int = 0) -> None:
        """Writes a log record now; for callbacks."""
        log, totals = self._logger, self._status["totals"]
        seconds = max((time.time_ns() - self.start_time) / 1e9, 1e-9)
        if totals["episodes"] and not math.isnan(totals["mean_return"]):
            log.record("rollout/ep_rew_mean", totals["mean_return"])
            log.record("rollout/ep_len_mean", totals["mean_length"])
        if not math.isnan(totals["epsilon"]):
            log.record("rollout/exploration_rate", totals["epsilon"])
        log.record("time/episodes", totals["episodes"])
        log.record("time/fps", int((totals["num_timesteps"] - self._first_step) / seconds))
        log.record("time/time_elapsed", int(seconds))
        log.record("time/total_timesteps", totals["num_timesteps"])
        for name in ("loss", "learning_rate"):
            if not math.isnan(totals[name]):
                log.record(f"train/{name}", totals[name])
        for name in _COUNTS:
            if not math.isnan(totals[name]):
                log.record(f"async/{name}", totals[name])
        log.record("train/n_updates", totals["updates"])
        log.record("train/outliers", totals["outliers"])
        log.dump(int(totals["num_timesteps"]))

    # --------------------------------------------------------------- acting

    def _current(self) -> Any:
        """The worker of this process, with the shards' newest parameters."""
        self._check_open()
        theta, updates, taken = self.run.parameters()
        self._local.adopt(theta, updates, taken)
        return self._local

    def predict(self, *args: Any, **keywords: Any) -> Any:
        """As Trainer.predict, with the newest parameters."""
        return self._current().predict(*args, **keywords)

    def policy_snapshot(self) -> Policy:
        """A frozen copy of the newest parameters. The caller closes it."""
        policy: Policy = self._current().policy_snapshot()
        return policy

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        parameters: dict[str, dict[str, Any]] = self._current().get_parameters()
        return parameters

    @property
    def policy(self) -> Any:
        return self._current().policy

    def evaluate(self, env: Any = None, episodes: int = 20, epsilon: float = 0.0, seed: int = 0, **keywords: Any) -> Evaluation:
        """As Trainer.evaluate, in this process."""
        evaluation: Evaluation = self._current().evaluate(env, episodes, epsilon, seed, **keywords)
        return evaluation

    # ---------------------------------------------------------------- files

    def save(self, path: File, exclude: object = None, include: object = None, *, replay: bool = False) -> None:
        """Writes a checkpoint for paceline.distributed.load, while training goes on.

        It has every shard at some moment of the call and, if replay is True, the experience of every
        bundle or replay shard. One that is not there is waited for. After an error of a bundle the shards
        can still be saved.
        """
        self._check_open()
        spec, totals = self.run.spec, self.run.call("status")["totals"]
        with _files.written(path) as to:
            to.head({"spec": stored(spec), "replay": bool(replay), "totals": _plain(totals)})
            for k in range(spec.shards):
                to.add("shard", k, self.run.shard(k, "state"))
            for k in range(spec.bundles if replay and not spec.actors else 0):
                to.add("bundle", k, self.run.slow_call("bundle", k, "save", True))
            for k in range(spec.replay_shards if replay and spec.actors else 0):
                to.add("replay", k, self.run.slow_call("replay", k, "save"))

    # --------------------------------------------------------------- ending

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Ends the run; an error names the processes that are left after 7 s. A second call does nothing."""
        if not self._closed:
            self._closed = True
            try:
                stop(self.name)
            finally:
                self.detach()

    def detach(self) -> None:
        """Frees what this process has of the run, which goes on; attach(name) continues it."""
        self._closed = True
        self._end_renewal()
        if self._own_logger:
            self._logger.close()
        self._local.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Session:
    """One call of learn."""

    def __init__(
        self, model: Distributed, total: int, callback: Any, log_interval: int | None, progress_bar: bool, eval_freq: int,
        n_eval_episodes: int, eval_env: Any,
    ) -> None:  # fmt: skip
        self.model, self.callback, self.log_interval = model, callback, log_interval
        self.goal = model.num_timesteps + total
        self.order = read_order(model.run.spec.order) if model.run.spec.order else None
        if self.order is not None:
            self.order.part(self.goal)  # refuses a total before the run has begun
        self.eval_freq, self.n_eval_episodes, self.eval_env = eval_freq, n_eval_episodes, eval_env
        self.episodes = int(model._status["totals"]["episodes"])
        self.records = 0
        self.next_eval = eval_freq or math.inf
        self.evaluating: tuple[Any, int, Policy] | None = None
        self.evaluator: Any = None
        self.progress = ProgressLine(self.goal, model._local._label, lambda: model._status["totals"]) if progress_bar else None
        self.locals: dict[str, Any] = {"self": model, "total_timesteps": self.goal, "infos": [], "log_interval": log_interval}

    def go(self) -> None:
        model, callback = self.model, self.callback
        model.learning_curve.resume()
        if callback is not None:
            callback.init_callback(model)
            callback.on_training_start(self.locals, globals())
            callback.on_rollout_start()
        try:
            if model.run.spec.schedule == "race":
                self._race()
            else:
                self._conduct()
            self._finish_evaluation(wait=True)
        except Exception:  # such as a callback's; the processes would train on
            with contextlib.suppress(PacelineError):
                model.run.call("halt")
            raise
        finally:
            model.learning_curve.add(model.num_timesteps, model._status["totals"]["mean_return"], last=True)
            if self.progress is not None:
                self.progress.close()
            if self.evaluator is not None:
                _ray.kill(self.evaluator)
        if callback is not None:
            callback.on_rollout_end()
            callback.on_training_end()

    def _race(self) -> None:
        """Watches the bundles until all of them have ended their part."""
        model, run = self.model, self.model.run
        number, more = run.call("begin", self.goal), True
        while True:
            time.sleep(POLL)
            more = self._between() and more
            if model._status["number"] < number:  # a later supervisor has lost it
                number = run.call("begin", self.goal, number)
            elif not model._status["running"]:
                return
            elif not model._status["halted"] and (model._asked_to_stop or not more):
                run.call("halt")

    def _conduct(self) -> None:
        """Tells bundles and shards what comes next."""
        self.model.run.call("begin", self.goal)  # the supervisor tells other drivers
        looked = time.monotonic()

        def between() -> bool:
            nonlocal looked
            if time.monotonic() <= looked + POLL:
                return True
            looked = time.monotonic()
            return self._between() and not self.model._asked_to_stop

        conduct(self.model.run, self.goal, self.order, between)
        time.sleep(2 * POLL_STATUS)  # until the supervisor has heard of the last visits
        self._between()

    def _between(self) -> bool:
        """Looks at the run and does what is due; returns False to end learning."""
        before = self.model.num_timesteps
        self.model._look()
        model, totals, more = self.model, self.model._status["totals"], True
        model.learning_curve.add(model.num_timesteps, totals["mean_return"])
        if self.progress is not None:
            self.progress.update()
        if model.num_timesteps > before and self.callback is not None:
            ended = int(totals["episodes"]) - self.episodes
            self.locals.update(dones=np.ones(max(0, ended), np.bool_), rewards=np.zeros(0, np.float32))
            self.callback.update_locals(self.locals)
            more = continues(self.callback.on_step())
        if self.log_interval and (due := (int(totals["episodes"])) // self.log_interval) > self.records:
            self.records = due
            model.dump_logs()
        self.episodes = int(totals["episodes"])
        if model.num_timesteps >= self.next_eval and self.evaluating is None:
            self.next_eval = (model.num_timesteps // self.eval_freq + 1) * self.eval_freq
            self._evaluate()
        self._finish_evaluation(wait=False)
        return more

    def _evaluate(self) -> None:
        """Sends the newest parameters to the evaluator."""
        model, ray = self.model, _ray.ray()
        if self.evaluator is None:
            self.evaluator = ray.remote(_processes.Evaluator).options(num_cpus=0).remote()
        policy = model.policy_snapshot()
        similar, options = model._local.similar_env() or (None, {})
        env = similar if self.eval_env is None else self.eval_env
        if env is None:
            raise ConfigError("eval_env: None, must be an environment to evaluate in when eval_freq is set")
        known: Mapping[str, Any] = options if env == similar else {}
        call = self.evaluator.evaluate.remote(policy, env, self.n_eval_episodes, _evaluation.next_seed(model), True, known)
        self.evaluating = call, model.num_timesteps, policy

    def _finish_evaluation(self, wait: bool) -> None:
        if self.evaluating is None:
            return
        ray, model = _ray.ray(), self.model
        call, step, policy = self.evaluating
        while not ray.wait([call], timeout=0.2 if wait else 0)[0]:
            if not wait:
                return
        self.evaluating = None
        try:
            result: Evaluation = ray.get(call)
        except _ray.lost_errors():  # the evaluator's process has ended; the next evaluation has a new one
            self.evaluator = None
            policy.close()
            return
        except ray.exceptions.RayTaskError as err:
            policy.close()
            raise _ray.cause(err) from None
        _evaluation.record(model, step, result, policy)


def stored(spec: Spec) -> dict[str, Any]:
    """The fields of a Spec that a checkpoint has."""
    fields = dict(vars(spec))
    for name in ("id", "ledger", "schedule", "order", "latency"):
        del fields[name]
    shared = {name: spec.shared(name) for name in ("buffer_size", "learning_starts")}  # load divides them again
    fields["worker"] = to_json(spec.worker | {name: number for name, number in shared.items() if number is not None})
    return fields


def _plain(totals: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in totals.items()}
