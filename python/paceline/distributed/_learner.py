"""The learner of a bundle: gradients to the shards, parameters back, and what to do when a shard fails.

A Learner knows nothing of Ray. Its Channel calls the shards.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from ..errors import StoppedError
from ..spaces import Array
from . import _records, _wire
from ._shards import APPLIED, DUPLICATE, FOREIGN, MOVED, STALE, Answer, Joined
from ._tally import Tally


class Channel(Protocol):
    """The way to the shards of one run.

    A call that fails because a shard is not there raises ShardLost.
    """

    def join(self, shard: int) -> Joined: ...
    def tell(self, shard: int, *told: Any) -> None: ...
    def push(self, shard: int, *push: Any) -> Any:
        """Sends a push without waiting; the result is for answer."""

    def answer(self, sent: Any) -> tuple[Answer, Array]:
        """Waits for the answer to a push. The array does not change."""

    def pull(self, shard: int) -> tuple[Answer, Array]: ...


class ShardLost(Exception):
    """The process of a shard has ended, or cannot be reached, and the call may be repeated."""


T = TypeVar("T")


def repeated(shard: int, call: Callable[[], T], seconds: float, stopping: Callable[[], bool] = lambda: False) -> T:
    """Repeats a call to a shard while it is lost. ShardLost after some seconds, StoppedError if the caller is stopping."""
    until = time.monotonic() + seconds
    while True:
        try:
            return call()
        except ShardLost:
            if stopping():
                raise StoppedError(f"shard {shard}: lost while the run was stopped") from None
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@dataclass
class _Flight:
    """A gradient under way."""

    step: int
    steps: int
    rate: float
    seen: list[tuple[int, int]]  # incarnation and version of each shard, of the parameters of the gradient
    sent: Array  # as encoded; retries need it
    own: list[int]  # gradients of the learner that each shard had applied to its parameters
    calls: list[Any] = field(default_factory=list)


class Learner:
    """Computes gradients with a model and exchanges them with the shards.

    model: has gradient() and adopt(); see paceline.DQN. Its parameters change only in adopt.
    delay: the gradients that may be under way while the next one is computed. With 0 every gradient
        is of the parameters that its own push brought. At most delay + 1 calls to each shard are in
        flight.
    """

    def __init__(
        self, model: Any, channel: Channel, ranges: list[tuple[int, int]], *, run: str, learner: int, delay: int = 0,
        bf16: bool = False, ledger: str = "", patience: float = 60.0,
    ) -> None:  # fmt: skip
        """ranges: (first, size) of each shard. patience: seconds for which a lost shard is waited for."""
        self.model, self.run, self.index = model, run, learner
        self._channel, self._ranges, self._delay, self._patience = channel, ranges, delay, patience
        size = sum(n for _, n in ranges)
        self._encoder = _wire.Encoder(size, bf16)
        self._buffers = [np.empty(size, np.float32) for _ in range(1 if bf16 else delay + 2)]
        self._theta: Array = np.empty(size, np.float32)
        self._flying: deque[_Flight] = deque()
        self._seen = [(0, 0)] * len(ranges)
        self._own = [0] * len(ranges)  # gradients of this learner that each shard has applied, of those that have landed
        self._updates, self._others = 0, 0
        self._begun, self._base = False, model.num_timesteps  # steps that a loaded model had taken in earlier lives
        self.told = 0  # steps of this life in the counts of shard 0
        self.step = self.life = self.steps = 0
        self.stopping = False
        self.tally = Tally()
        self._joining = [self._join(shard) for shard in range(len(ranges))]
        # Later than every life that a shard knows, and than lives that no shard remembers.
        self.life = max(int(time.time()), *(joined.life + 1 for joined in self._joining))
        self._log = _records.Log(ledger, f"learner-{learner}-{self.life}.log")
        self.pull()

    # ---------------------------------------------------------- the loop

    def begin(self, goal: int) -> None:
        """Begins the training that ends when all learners together have taken goal steps."""
        self.stopping = False
        self.pull()
        if self._base or self._begun:
            self.model.begin(max(1, goal - self._others - self.steps), reset_num_timesteps=False)
        else:
            self.model.begin(goal)  # counts from 0; adopt adds the steps of others
        self._begun = True
        self._adopt()

    def go_on(self, model: Any) -> None:
        """Takes another model, which has been loaded and was not begun here, in place of the first one."""
        self.land()
        self.model, self._base, self._begun = model, model.num_timesteps - self.steps, True
        self._adopt()

    def update(self) -> bool:
        """Takes rounds until an update is due, pushes its gradient, and adopts what has come back.

        Returns False if the model's run has ended or stop was called; then nothing is under way.
        """
        buffer = self._buffers[self.step % len(self._buffers)]
        gradient = self._gradient(buffer)
        if gradient is None:
            self.land()
            self._tell()
            return False
        self.steps, self.tally.loss = int(gradient.num_timesteps) - self._base, float(gradient.loss)
        if gradient.dropped:
            self.tally.outliers += 1
            self._adopt_again()
            return True
        self.step += 1
        self.tally.gradients += 1
        sent, rate = self._encoder.encode(buffer), float(gradient.learning_rate)
        flight = _Flight(self.step, self.steps, rate, list(self._seen), sent, list(self._own))
        flight.calls = [self._send(flight, shard) for shard in range(len(self._ranges))]
        self._flying.append(flight)
        while len(self._flying) > self._delay:
            self._land(self._flying.popleft())
        return True

    def _gradient(self, buffer: Array) -> Any:
        """The model's next gradient; None if its run has ended or stop was called."""
        while not self.stopping:
            try:
                return self.model.gradient(buffer)
            except StoppedError:  # also by a stop of an earlier run
                continue
        return None

    def _tell(self) -> None:
        """Tells shard 0 of rounds that no gradient came after."""
        self.steps = self.told = self.model.num_timesteps - self._base
        self._patiently(0, lambda: self._channel.tell(0, self.run, self.index, self.life, self.steps))

    def land(self) -> None:
        """Waits for the answers to everything under way."""
        while self._flying:
            self._land(self._flying.popleft())

    def stop(self) -> None:
        """Makes update return False; any thread may call it."""
        self.stopping = True
        self.model.stop()

    def pull(self) -> None:
        """Adopts the newest parameters of all shards."""
        for shard, (first, size) in enumerate(self._ranges):
            answer, values = self._patiently(shard, functools.partial(self._channel.pull, shard))
            self._take(first, size, values)
            self._took(shard, answer)
        self._adopt()

    # ------------------------------------------------------------ pushes

    def _send(self, flight: _Flight, shard: int) -> Any:
        first, size = self._ranges[shard]
        incarnation, seen = flight.seen[shard]
        part = flight.sent[first : first + size]
        self.tally.bytes_sent += part.nbytes
        return self._channel.push(
            shard, self.run, self.index, self.life, flight.step, incarnation, seen, flight.rate, flight.steps, part
        )  # fmt: skip

    def _land(self, flight: _Flight) -> None:
        """Takes the answers of all shards to a gradient, then adopts their parameters."""
        lag, stale = 0, False
        for shard, (first, size) in enumerate(self._ranges):
            answer, values = self._answer(flight, shard)
            how = answer.first if answer.what == DUPLICATE else answer.what
            stale |= how == STALE
            lag = max(lag, answer.lag - (self._own[shard] - flight.own[shard]))
            self._own[shard] += how == APPLIED
            self._log.write(shard, flight.step, how)
            self.told = flight.steps
            self._take(first, size, values)
            self._took(shard, answer)
        self.tally.landed(lag, stale)
        self._adopt()

    def _answer(self, flight: _Flight, shard: int) -> tuple[Answer, Array]:
        """The answer of one shard; sends the push again if the shard was lost or has moved."""
        sent, until = flight.calls[shard], time.monotonic() + self._patience
        while True:
            try:
                answer, values = self._channel.answer(sent)
                if answer.what == FOREIGN:
                    raise StoppedError(f"shard {shard}: has the parameters of another run")
                if answer.what != MOVED:
                    return answer, values
            except ShardLost:
                if time.monotonic() > until:
                    raise
            flight.seen[shard] = self._rejoin(shard, flight)
            sent = self._send(flight, shard)

    def _rejoin(self, shard: int, flight: _Flight) -> tuple[int, int]:
        """Joins a shard again; returns the incarnation and the version that flight is pushed with."""
        joined = self._join(shard)
        incarnation, seen = flight.seen[shard]
        return joined.incarnation, seen if joined.incarnation == incarnation else min(seen, joined.version)

    def _join(self, shard: int) -> Joined:
        return self._patiently(shard, lambda: self._channel.join(shard))

    def _patiently(self, shard: int, call: Callable[[], T]) -> T:
        """Also while stop is asked for: what is under way lands when the shard is back."""
        return repeated(shard, call, self._patience)

    # -------------------------------------------------------- parameters

    def _take(self, first: int, size: int, values: Array) -> None:
        """Puts the parameters of a shard in their place. Those of a single shard are used where they are."""
        if size == len(self._theta):
            self._theta = values
        else:
            self._theta[first : first + size] = values

    def _took(self, shard: int, answer: Answer) -> None:
        self._seen[shard] = answer.incarnation, answer.version
        name = f"{shard}:{answer.incarnation}"
        self.tally.seen[name] = max(answer.version, self.tally.seen.get(name, 0))
        self.tally.bytes_read += 4 * self._ranges[shard][1]
        if shard == 0:
            self._others = answer.steps - self.told
        if shard == len(self._ranges) - 1:
            # A shard that was restored has fewer updates than before; the clocks of the model never go back.
            self._updates = max(self._updates, answer.version)

    def _adopt(self) -> None:
        # The model's begin counts the updates that it knows as made before the run. Those of the shards
        # belong to the run: they come after begin, so that a new life has the run's epsilon and learning rate.
        updates = self._updates if self._begun or self._base else 0
        self.model.adopt(self._theta, updates, self._others + self.steps)

    def _adopt_again(self) -> None:
        """Goes on after a gradient that is not pushed, with the newest parameters."""
        self.land()
        self.pull()
