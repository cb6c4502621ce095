"""The model of a learner without environments, whose minibatches come from the replay shards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, Protocol

from .. import _ffi
from ..errors import StoppedError
from ..spaces import Array
from ..store import Gradient
from ._learner import ShardLost
from ._memory import Drawn

IDLE = 0.01  # seconds between two questions where no update is due
NEWS = 0.2  # seconds between two questions for the steps of all actors


class Replays(Protocol):
    """The way to the replay shards of a run. A call that fails because a shard is not there raises ShardLost."""

    def draw(self, shard: int, beta: float) -> Any:
        """Asks for a minibatch without waiting; the result is for drawn."""

    def drawn(self, sent: Any) -> Drawn | None:
        """Waits for a minibatch; None: no update is due. Raises the error of Memory.draw."""

    def errors(self, shard: int, life: int, identities: Array, errors: Array) -> None:
        """Sends errors; waits for those sent before."""


class Sampled:
    """What a Learner needs of a model: begin, gradient, adopt and stop.

    Minibatches come from the shards in turn; each is of one shard. The next one is asked for while a
    gradient is computed, so one call is in flight, and the priorities of a minibatch do not have the errors
    of the one before.
    """

    num_timesteps = 0  # a learner takes no steps; actors tell theirs

    def __init__(self, model: Any, replays: Replays, shards: int, first: int, total: Callable[[], int]) -> None:
        """first: the shard of the first minibatch. total: asks for the steps of all actors."""
        self.model, self._replays, self._shards, self._turn = model, replays, shards, first % shards
        self._ask_total, self._total, self._asked = total, 0, 0.0
        self._goal, self._stopped = 0, False
        self._sent: Any = None
        self._prioritized = model.setting("prioritized") != "none"

    def begin(self, total: int, reset_num_timesteps: bool = True) -> None:
        self._goal, self._stopped = total if reset_num_timesteps else self._total + total, False
        self.model._native.begin(total, _ffi.RESET_TIMESTEPS | _ffi.RESET_ENVS if reset_num_timesteps else 0)

    def adopt(self, parameters: Array, updates: int, steps: int) -> None:
        self._total = steps
        self.model.adopt(parameters, updates, steps)

    def stop(self) -> None:
        """Makes the gradient in progress, or the next one, raise StoppedError."""
        self._stopped = True

    def gradient(self, out: Array) -> Gradient | None:
        """The gradient of the next update that is due; None when all actors have taken their steps and none is due."""
        found = self._next()
        if found is None:
            return None
        shard, drawn = found
        gradient: Gradient
        gradient, errors = self.model.gradient_of(drawn.batch, out)
        if self._prioritized and not gradient.dropped:
            with contextlib.suppress(ShardLost):  # with the transitions
                self._replays.errors(shard, drawn.life, drawn.batch.identities, errors)
        return gradient

    def _next(self) -> tuple[int, Drawn] | None:
        """The next minibatch and its shard."""
        refused = 0
        while True:
            if self._stopped:
                self._stopped = False  # a stop that comes late, after the next begin, ends one gradient alone
                raise StoppedError("gradient: stop was called")
            shard = self._turn
            if self._sent is None:
                self._sent = self._replays.draw(shard, self._beta())
            sent, self._sent = self._sent, None
            self._turn = (shard + 1) % self._shards
            try:
                drawn = self._replays.drawn(sent)
            except ShardLost:
                drawn = None
            if drawn is not None:
                self._sent = self._replays.draw(self._turn, self._beta())
                return shard, drawn
            refused += 1
            if refused % self._shards == 0:
                if refused > self._shards and self._total >= self._goal:
                    return None
                self._hear()
                time.sleep(IDLE)

    def _hear(self) -> None:
        """Asks for the steps of all actors, now and then."""
        if (now := time.monotonic()) > self._asked + NEWS:
            self._asked = now
            with contextlib.suppress(ShardLost):
                self._total = max(self._total, self._ask_total())

    def _beta(self) -> float:
        """The exponent of importance weights: a straight line over the steps."""
        if not self._prioritized:
            return 0.0
        first, last = (float(self.model.setting(name)) for name in ("priority_beta", "priority_beta_final"))
        steps = int(self.model.setting("priority_beta_steps")) or max(self._goal, 1)
        return first + (last - first) * min(1.0, self._total / steps)

    @property
    def stats(self) -> dict[str, float]:
        return {"learning_rate": self.model._native.metric("train/learning_rate")}

    def close(self) -> None:
        self.model.close()
