"""The library's trainer: a handle and the calls on it.

A call that waits returns to Python every tenth of a second, so that Python handles Ctrl-C and
waiting() is called.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_double, c_float, c_int64
from typing import Any

import numpy as np

from . import _ffi, _lib
from .config import Config
from .envs._rows import Block
from .envs._source import Rows
from .errors import PacelineError, StoppedError, TimeOutError, notice
from .parameters import Parameters
from .spaces import ActionLayout, Array, ObsLayout

POLL_MS = 100  # milliseconds after which a waiting call into the library returns


class Native:
    """Owns one paceline_trainer. One thread may use it at a time; any thread may call stop, stats and metrics.

    config: the settings, with "auto" replaced. described: the result of paceline_trainer_describe.
    sets: the names of the parameter sets.
    """

    def __init__(self, config: Config, spec: tuple[_ffi.Spec, _ffi.Spec] | None = None) -> None:
        """spec: the specs of observations and actions if Python steps the environments, else None."""
        lib = _lib.lib()
        if spec is None:
            self.handle = _lib.Handle("paceline_trainer_free", lib.paceline_trainer_new, config.handle.value)
        else:
            obs, action = map(ctypes.byref, spec)
            new = lib.paceline_trainer_new_push
            self.handle = _lib.Handle("paceline_trainer_free", new, config.handle.value, obs, action)
        self.stopped = False  # since the latest begin
        self.gradient_given: tuple[Array, _ffi.Gradient] | None = None
        self.config = Config(handle=_lib.Handle("paceline_config_free", lib.paceline_trainer_config, self.value))
        self.described: dict[str, Any] = _lib.take_json(lib.paceline_trainer_describe, self.value)
        self.sets: list[str] = [set["name"] for set in self.described["sets"]]
        self.parameters = Parameters(self.handle, self.described["sets"])
        self._metrics: dict[str, int] = {}  # the library's index of each metric that was read

    @property
    def value(self) -> int:
        """The handle's number, the first argument of the library's calls."""
        return self.handle.value

    def layouts(self) -> tuple[ObsLayout, ActionLayout]:
        """The layouts of built-in environments."""
        obs, action = _ffi.Spec(), _ffi.Spec()
        _lib.lib().paceline_trainer_spec(ctypes.byref(obs), ctypes.byref(action), self.value)
        return ObsLayout.of_spec(obs), ActionLayout.of_spec(action)

    def close(self) -> None:
        """Ends the threads and frees the memory. A second call does nothing."""
        self.handle.close()
        self.config.close()

    # -------------------------------------------------------- progress

    def stats(self) -> _ffi.Stats:
        """The counters that all methods share."""
        stats = _ffi.Stats()
        _lib.lib().paceline_trainer_stats(ctypes.byref(stats), self.value)
        return stats

    def metric(self, name: str) -> float:
        """A metric of the method after the latest call; NaN before its first value."""
        lib, metric = _lib.lib(), _ffi.Metric()
        if name not in self._metrics:
            index = ctypes.c_size_t()
            lib.paceline_trainer_metric_index(ctypes.byref(index), self.value, name.encode())
            self._metrics[name] = index.value
        lib.paceline_trainer_metric(ctypes.byref(metric), self.value, self._metrics[name])
        return float(metric.value)

    def metrics(self) -> Iterator[tuple[str, float]]:
        """Yields (name, value) of every metric of the method."""
        for metric in _lib.each(_ffi.Metric, _lib.lib().paceline_trainer_metric, self.value):
            yield metric.name.decode(), metric.value

    def warn_of_notices(self) -> None:
        """Turns the library's notices into Python warnings."""
        while (text := _lib.take_text(_lib.lib().paceline_trainer_notice, self.value)) is not None:
            notice(text)

    def proposal(self) -> str:
        """Which settings would make the run faster."""
        return _lib.take_text(_lib.lib().paceline_trainer_proposal, self.value) or ""

    def episodes(self, most: int) -> list[tuple[float, int]]:
        """(return, length) of the latest episodes, at most `most`, oldest first."""
        returns, lengths, n = np.empty(most), np.empty(most, np.int64), ctypes.c_size_t(most)
        to = returns.ctypes.data_as(POINTER(c_double)), lengths.ctypes.data_as(POINTER(c_int64))
        _lib.lib().paceline_trainer_episodes(*to, ctypes.byref(n), self.value)
        return list(zip(returns[: n.value].tolist(), lengths[: n.value].tolist()))

    # --------------------------------------------------------- learning

    def begin(self, total_timesteps: int, flags: int) -> None:
        """Begins a run. flags: a sum of RESET_TIMESTEPS and RESET_ENVS."""
        self.gradient_given = None
        self.stopped = False  # before the call: a stop during the call ends this run
        _lib.lib().paceline_trainer_begin(self.value, total_timesteps, flags)

    def run(self, stats: _ffi.Stats, steps: int, rollouts: int = 0) -> None:
        """Takes at most `steps` steps, for at most POLL_MS, and writes the counters to stats.

        rollouts: returns at the round that fills the last of so many rollouts, before its update; 0: no limit.
        """
        _lib.lib().paceline_trainer_run_rollouts(ctypes.byref(stats), self.value, rollouts, steps, POLL_MS)

    def rows(self, block: Block, actions: Array) -> None:
        """Copies the rows and the actions (see ActionLayout.rows) of the latest round of built-in environments."""
        _lib.lib().paceline_trainer_rows(block.pointer, actions.ctypes.data, self.value)

    def act(self, rows: Rows, waiting: Callable[[], None]) -> bool:
        """Writes rows.actions. Returns False if the run was stopped before that."""
        try:
            self._wait(waiting, _lib.lib().paceline_trainer_act, rows.pointer, rows.actions.ctypes.data)
        except StoppedError:
            return False
        return True

    def observe(self, rows: Rows, waiting: Callable[[], None]) -> None:
        """Records the round. A stop during the call takes effect after the round."""
        while True:
            try:
                return self._wait(waiting, _lib.lib().paceline_trainer_observe, rows.pointer)
            except StoppedError:
                pass

    def settle(self, waiting: Callable[[], None] = lambda: None) -> None:
        """Waits until the updates due at this step are done; after a stop it does not wait."""
        self._wait(waiting, _lib.lib().paceline_trainer_settle)

    def _wait(self, waiting: Callable[[], None], call: Callable[..., object], *arguments: object) -> None:
        while True:
            try:
                call(self.value, *arguments, POLL_MS)
                return
            except TimeOutError:
                waiting()

    def finish(self) -> None:
        """Settles before a library call that would wait for the updates without reacting to Ctrl-C.

        An error is suppressed, because that call reports it.
        """
        with contextlib.suppress(PacelineError):
            self.settle()

    def stop(self) -> None:
        """Ends the run in progress after its current round and update."""
        self.stopped = True
        _lib.lib().paceline_trainer_stop(self.value)

    # ---------------------------------------------- updates from outside

    def gradient(self, out: Array) -> _ffi.Gradient:
        """Takes rounds until an update is due and writes its gradient. out: float32, of the size of the first set.

        Once the library has given a gradient, every call returns it until the caller has set
        gradient_given to None. So a Ctrl-C loses no gradient.
        """
        if (given := self.gradient_given) is not None and given[1].state in (_ffi.GRADIENT_READY, _ffi.GRADIENT_DROPPED):
            if given[0] is not out:
                out[...] = given[0]
            return given[1]
        info = _ffi.Gradient()
        self.gradient_given = out, info
        to = out.ctypes.data_as(POINTER(c_float))
        while True:
            try:
                _lib.lib().paceline_trainer_gradient(to, out.size, ctypes.byref(info), self.value, POLL_MS)
                return info
            except TimeOutError:
                pass  # lets Python handle Ctrl-C

    def adopt(self, parameters: Array, updates: int, steps: int) -> None:
        """Overwrites the first set."""
        _lib.lib().paceline_trainer_adopt(self.value, parameters.ctypes.data_as(POINTER(c_float)), parameters.size, updates, steps)

    # ------------------- actors, replay memories and learners that are decoupled

    def add_steps(self, env: int, steps: _ffi.Steps) -> None:
        _lib.lib().paceline_trainer_add_steps(self.value, env, ctypes.byref(steps))

    def draw(self, to: _ffi.Minibatch, beta: float) -> None:
        _lib.lib().paceline_trainer_draw(ctypes.byref(to), self.value, beta)

    def set_errors(self, identities: Array, errors: Array) -> None:
        """identities: int64; errors: float32."""
        of = identities.ctypes.data_as(POINTER(c_int64)), errors.ctypes.data_as(POINTER(c_float))
        _lib.lib().paceline_trainer_set_errors(self.value, *of, identities.size)

    def gradient_of(self, out: Array, info: _ffi.Gradient, batch: _ffi.Minibatch) -> None:
        to = out.ctypes.data_as(POINTER(c_float))
        _lib.lib().paceline_trainer_gradient_of(to, out.size, ctypes.byref(info), self.value, ctypes.byref(batch))

    # ------------------------------- reading and writing state, after the updates that are due

    def hash(self, part: str) -> str:
        """The SHA-256 of the experience (part "replay") or of a parameter set."""
        self.finish()
        return _lib.take_text(_lib.lib().paceline_trainer_hash, self.value, _lib.encode(part)) or ""

    def snapshot(self) -> _lib.Handle:
        """A new paceline_policy with a copy of the current network."""
        self.finish()
        return _lib.Handle("paceline_policy_free", _lib.lib().paceline_policy_from_trainer, self.value)

    def save(self, path: str, experience: bool) -> None:
        self.finish()
        _lib.lib().paceline_trainer_save(self.value, _lib.encode(path), _ffi.SAVE_EXPERIENCE if experience else 0)

    def save_order(self, path: str) -> None:
        """Writes the order of the learners' visits to the store."""
        self.finish()
        _lib.lib().paceline_trainer_save_order(self.value, _lib.encode(path))

    def save_trace(self, path: str) -> None:
        """Writes the proposals of the tuner."""
        self.finish()
        _lib.lib().paceline_trainer_save_trace(self.value, _lib.encode(path))

    def load(self, path: str) -> None:
        self.gradient_given = None
        _lib.lib().paceline_trainer_load(self.value, _lib.encode(path))

    def load_experience(self, path: str) -> None:
        _lib.lib().paceline_trainer_load_experience(self.value, _lib.encode(path))

    def read_transitions(self, to: _ffi.Transitions, numbers: Array) -> None:
        """Copies transitions to the rows of `to`. numbers: int64, the transition of each row."""
        self.finish()
        at = numbers.ctypes.data_as(POINTER(c_int64))
        _lib.lib().paceline_trainer_read_transitions(ctypes.byref(to), self.value, at)

    def add_transitions(self, rows: _ffi.Transitions) -> None:
        self.finish()
        _lib.lib().paceline_trainer_add_transitions(self.value, ctypes.byref(rows))
