"""A shard of the replay memory that actors send their steps to and learners draw from.

A Memory knows nothing of Ray. It is a paceline.DQN of which no run is begun.
"""

from __future__ import annotations

import io
import time
from typing import Any, NamedTuple

from .._replay_buffer import Minibatch
from ..errors import CheckpointError, ConfigError
from ..spaces import Array
from . import _records
from ._spec import Spec

AHEAD = 16  # updates for each learner by which actors may be ahead, besides two sends of each actor


class Piece(NamedTuple):
    """Consecutive steps of one environment of an actor; see ReplayBuffer.add_steps.

    obs[0] is the last observation of the piece before, unless begins is true.
    """

    env: int
    obs: Array
    actions: Array
    rewards: Array
    begins: bool
    terminated: bool
    truncated: bool


class Drawn(NamedTuple):
    """A minibatch. life: of the memory, for errors."""

    life: int
    batch: Minibatch


def shard_of(actor: int, replay_shards: int) -> int:
    """The shard that an actor sends its steps to."""
    return actor % replay_shards


def actors_of(shard: int, spec: Spec) -> int:
    """The number of actors that send their steps to a shard."""
    return len(range(shard, spec.actors, spec.replay_shards))


class Memory:
    """One shard. Updates are due as in DQN: gradient_steps at every train_freq steps after learning_starts.

    draw gives a minibatch for every update that is due, to any learner. held says that the
    learners have too few updates, and that the actors of the shard wait: so the ratio of steps and
    updates is that of the settings, whichever of both is faster.

    n_step_tails may leave no transition that can be drawn. Then no actor waits, because further steps
    may bring one. draw raises DQN's error if there is none after the steps of DQN's first update and
    n_steps more of each environment of the shard. Only steps of the shard count, because other shards
    may have longer episodes. The n_steps more are for an episode whose start an earlier process had.
    """

    def __init__(self, model: Any, spec: Spec, index: int) -> None:
        """model: with num_envs = actors_of(index, spec) * envs_per_actor."""
        self.model, self._run, self._index = model, spec.id, index
        self._envs, self._shards = spec.envs_per_actor, spec.replay_shards
        self._freq, self._steps = int(model.setting("train_freq")), int(model.setting("gradient_steps"))
        starts, n_steps = int(spec.worker["learning_starts"]), int(model.setting("n_steps"))
        self._starts = max(-(-starts // spec.replay_shards), int(model.setting("batch_size")), n_steps * model.n_envs)
        first = max(starts, n_steps * spec.num_envs)  # of DQN
        self._enough = first + n_steps * model.n_envs
        self._slack = 2 * spec.pull_every * model.n_envs + AHEAD * spec.bundles * self._freq // self._steps
        self._open = [False] * model.n_envs
        self._drawable = True  # at the latest draw that was due
        self._latest: dict[int, tuple[int, int]] = {}  # (life, number) of each actor's latest send
        self.life = time.time_ns() // 1_000_000
        self.added = self.drawn = 0

    def add(self, run: str, actor: int, life: int, number: int, pieces: list[Piece]) -> bool:
        """Adds an actor's pieces; returns held. A send with the same life and number as an earlier one changes nothing."""
        self._check(run)
        if (life, number) > self._latest.get(actor, (0, 0)):
            first = actor // self._shards * self._envs
            for piece in pieces:
                env = first + piece.env
                begins = piece.begins or not self._open[env]  # this process knows no step before
                self.model.replay_buffer.add_steps(
                    env, piece.obs, piece.actions, piece.rewards, begins=begins, terminated=piece.terminated, truncated=piece.truncated
                )
                self._open[env] = not (piece.terminated or piece.truncated)
                self.added += len(piece.rewards)
            self._latest[actor] = life, number
        return self.held(run)

    def held(self, run: str) -> bool:
        """Whether actors wait for learners."""
        self._check(run)
        if not self._drawable or not self._due():
            return False
        ahead = self.added - self._starts - self.drawn * self._freq // self._steps
        return bool(ahead > self._slack)

    def draw(self, run: str, beta: float) -> Drawn | None:
        """The minibatch of the next update; None if none is due or nothing can be drawn yet.

        beta: as in ReplayBuffer.draw. Raises ConfigError if nothing can be drawn from enough steps.
        """
        self._check(run)
        if not self._due():
            return None
        try:
            batch = self.model.replay_buffer.draw(beta)
        except ConfigError:
            self._drawable = False
            if self.added >= self._enough:
                raise
            return None
        self._drawable = True
        self.drawn += 1
        return Drawn(self.life, batch)

    def _due(self) -> bool:
        """Whether an update is due. While none is, an actor that waited for learners would wait for ever."""
        due: int = max(0, self.added - self._starts) // self._freq * self._steps
        return self.drawn < due

    def errors(self, run: str, life: int, identities: Array, errors: Array) -> None:
        """Makes priorities; errors of transitions of an earlier process are passed over."""
        self._check(run)
        if life == self.life:
            self.model.replay_buffer.set_errors(identities, errors)

    def _check(self, run: str) -> None:
        if run != self._run:
            raise CheckpointError(f"replay {self._index}: of run {self._run}, must be of {run}")

    # -------------------------------------------------------------- state

    def state(self) -> bytes:
        """The transitions, the priorities and the counts."""
        to = io.BytesIO()
        self.model.save(to, replay=True)
        return _records.pack({"index": self._index, "counts": [self.added, self.drawn]}, to.getvalue())

    def restore(self, state: bytes) -> None:
        what = f"replay {self._index}"
        head, body = _records.unpack(state, what)
        if head.get("index") != self._index:
            raise CheckpointError(f"{what}: a state of replay {head.get('index')!r}")
        added, drawn = _records.counts_of(head, "counts", what, 2)
        model = self.model
        spaces = model.observation_space, model.action_space
        loaded = type(model).load(
            io.BytesIO(body), spaces, num_envs=model.n_envs, num_threads=int(model.setting("num_threads")),
            outside_learners=self._shards, outside_learner=self._index,
        )  # fmt: skip
        self.model, self.added, self.drawn = loaded, added, drawn
        model.close()
        self._open = [False] * loaded.n_envs

    def status(self) -> dict[str, Any]:
        return {"life": self.life, "added": self.added, "drawn": self.drawn, "replay_size": self.model.replay_buffer.size()}
