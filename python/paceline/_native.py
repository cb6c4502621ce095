"""The library's trainer while it runs: nothing of one method of learning, and nothing of files.

Calls that may have to wait ask the library again every tenth of a second, so that
Ctrl-C is heard, and call waiting() in between.
"""

from __future__ import annotations

import contextlib
import ctypes
import warnings
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_double, c_int64
from typing import Any

import numpy as np

from . import _ffi, _lib
from .config import Config
from .envs._rows import Block
from .envs.vector import Rows
from .errors import PacelineError, PacelineWarning, StoppedError, TimeOutError

POLL_MS = 100  # the longest that one call into the library takes


class Native:
    """Owns one paceline_trainer. One thread at a time; stop, stats and metrics from any."""

    def __init__(self, config: Config, spec: tuple[_ffi.Spec, _ffi.Spec] | None = None) -> None:
        """spec: of observations and actions, where the caller steps the environments."""
        lib = _lib.lib()
        if spec is None:
            self.handle = _lib.new_handle("paceline_trainer_free", lib.paceline_trainer_new, config.handle.value)
        else:
            obs, action = map(ctypes.byref, spec)
            self.handle = _lib.new_handle("paceline_trainer_free", lib.paceline_trainer_new_push, config.handle.value, obs, action)
        self.stopped = False  # since the latest begin

    @property
    def value(self) -> int:
        """The handle as the library takes it."""
        return self.handle.value

    def stats(self) -> _ffi.Stats:
        """The counters that every method has."""
        stats = _ffi.Stats()
        _lib.lib().paceline_trainer_stats(ctypes.byref(stats), self.value)
        return stats

    def metrics(self) -> Iterator[tuple[str, float]]:
        """The method's own numbers, each with its name, as they were when the latest call ended; NaN: none yet."""
        for metric in _lib.each(_ffi.Metric, _lib.lib().paceline_trainer_metric, self.value):
            yield metric.name.decode(), metric.value

    def warn(self, stacklevel: int) -> None:
        """Makes warnings of the library's notices. stacklevel: whose line they name, 1 for the caller's, as in warnings.warn."""
        while (text := _lib.take_text(_lib.lib().paceline_trainer_notice, self.value)) is not None:
            warnings.warn(text, PacelineWarning, stacklevel=stacklevel + 1)

    def rows(self, block: Block, actions: Any) -> None:
        """Copies what the latest round gave, of environments that the library steps; actions: int32 [num_envs]."""
        _lib.lib().paceline_trainer_rows(block.pointer, actions.ctypes.data, self.value)

    def episodes(self, most: int) -> list[tuple[float, int]]:
        """(return, length) of the latest episodes, up to so many, oldest first."""
        returns, lengths, n = np.empty(most), np.empty(most, np.int64), ctypes.c_size_t(most)
        to = returns.ctypes.data_as(POINTER(c_double)), lengths.ctypes.data_as(POINTER(c_int64))
        _lib.lib().paceline_trainer_episodes(*to, ctypes.byref(n), self.value)
        return list(zip(returns[: n.value].tolist(), lengths[: n.value].tolist()))

    def begin(self, total_timesteps: int, flags: int) -> None:
        """Begins a run; flags: RESET_TIMESTEPS, RESET_ENVS."""
        _lib.lib().paceline_trainer_begin(self.value, total_timesteps, flags)
        self.stopped = False

    def run(self, stats: _ffi.Stats, steps: int) -> None:
        """Takes up to so many steps, for up to a tenth of a second; stats says where it then stands."""
        _lib.lib().paceline_trainer_run(ctypes.byref(stats), self.value, steps, POLL_MS)

    def act(self, rows: Rows, waiting: Callable[[], None]) -> bool:
        """Writes rows.actions; False if it was stopped before."""
        try:
            self._wait(waiting, _lib.lib().paceline_trainer_act, rows.pointer, rows.actions.ctypes.data)
        except StoppedError:
            return False
        return True

    def observe(self, rows: Rows, waiting: Callable[[], None]) -> None:
        """Ends the round; a stop meanwhile takes effect after it."""
        while True:
            try:
                return self._wait(waiting, _lib.lib().paceline_trainer_observe, rows.pointer)
            except StoppedError:
                pass

    def settle(self, waiting: Callable[[], None] = lambda: None) -> None:
        """Returns when the updates due at this step are done. After a stop nothing is waited for."""
        self._wait(waiting, _lib.lib().paceline_trainer_settle)

    def _wait(self, waiting: Callable[[], None], call: Callable[..., Any], *arguments: Any) -> None:
        while True:
            try:
                call(self.value, *arguments, POLL_MS)
                return
            except TimeOutError:
                waiting()

    def finish(self) -> None:
        """Settles before a call that would otherwise do so, and not hear Ctrl-C meanwhile; that call reports what failed."""
        with contextlib.suppress(PacelineError):
            self.settle()

    def stop(self) -> None:
        """Ends the run in progress after the round and the update at hand."""
        self.stopped = True
        _lib.lib().paceline_trainer_stop(self.value)

    def hash(self, part: str) -> str:
        """The SHA-256 of the experience ("replay") or of a set of parameters."""
        self.finish()
        return _lib.take_text(_lib.lib().paceline_trainer_hash, self.value, _lib.encode(part)) or ""
