"""An actor: it acts with a copy of the parameters and sends its steps to a replay shard.

An Actor knows nothing of Ray. Its Channel calls the shards.
"""

from __future__ import annotations

import functools
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..errors import StoppedError
from ..spaces import Array
from ._learner import ShardLost, T, repeated
from ._memory import Piece
from ._shards import Answer
from ._spec import Spec

HELD = 0.02  # seconds between two questions of an actor that waits for learners


class Channel(Protocol):
    """The way to the shards of a run. A call that fails because a shard is not there raises ShardLost."""

    def pull(self, shard: int) -> tuple[Answer, Array]: ...
    def tell(self, shard: int, *told: Any) -> None: ...
    def add(self, *send: Any) -> Any:
        """Sends steps to the actor's replay shard without waiting; the result is for added."""

    def added(self, sent: Any) -> bool:
        """Waits for a send; returns whether the actor must wait for learners."""

    def held(self) -> bool:
        """Asks the same once more."""


def apex_epsilon(actor: int, actors: int) -> float:
    """The epsilon that an actor keeps (Horgan et al. 2018): 0.4^(1 + 7 i / (N - 1)) for actor i of N; 0.4 if there is one."""
    return float(0.4 ** (1 + 7 * actor / max(1, actors - 1)))


class Actor:
    """Steps envs_per_actor environments.

    After every pull_every steps of each environment it sends them, and pulls the parameters. One send is
    in flight while the next steps are taken, so an actor that ends loses at most the steps of two sends.
    """

    def __init__(
        self, envs: Any, model: Any, channel: Channel, ranges: list[tuple[int, int]], spec: Spec, index: int, patience: float = 60.0
    ) -> None:  # fmt: skip
        """envs: a vector environment in mode same_step. model: turns parameters into policies. patience: as of Learner."""
        self._envs, self._model, self._channel, self._ranges = envs, model, channel, ranges
        self._spec, self._index, self._patience = spec, index, patience
        self.life = time.time_ns() // 1_000_000
        self._seed = int(np.random.SeedSequence([spec.seed, index, self.life]).generate_state(1)[0])
        self._theta = np.empty(sum(n for _, n in ranges), np.float32)
        self._policy: Any = None
        self._versions: tuple[tuple[int, int], ...] = ()
        self.updates = self.total = 0  # of all learners; steps of all actors
        self.steps = self.acknowledged = 0  # of this life: taken, and known to be in the memory
        self._rounds = self._number = self._goal = 0
        self._sent: tuple[Any, int, list[Piece]] | None = None
        self._taken: list[Piece] = []  # steps that are not sent yet, also from one play to the next
        self._obs: Array | None = None
        n = envs.num_envs
        self._begins = [True] * n
        self._returns, self._lengths = np.zeros(n), np.zeros(n, np.int64)
        self._played: deque[tuple[float, int]] = deque(maxlen=int(model.setting("stats_window_size")))
        self.episodes = 0
        self.epsilon = math.nan
        self.stopping = False

    # ------------------------------------------------------------ the loop

    def begin(self, goal: int) -> None:
        """Begins the play that ends when all actors together have taken goal steps."""
        self.stopping, self._goal = False, goal

    def play(self) -> None:
        """Plays until the goal is reached, or stop was called since begin."""
        try:
            self._pull()
            while not self.stopping and self.total < self._goal:
                self._taken = self._taken or self._act()
                held = self._settle()
                self._number += 1
                pieces, self._taken = self._taken, []
                self._sent = self._channel.add(self._index, self.life, self._number, pieces), self._number, pieces
                while held and not self.stopping:
                    time.sleep(HELD)
                    held = self._held()
                self._pull()
            self._settle()
            self._pull()
        except StoppedError:
            return

    def stop(self) -> None:
        """Makes play return; any thread may call it."""
        self.stopping = True

    def _settle(self) -> bool:
        """Waits for the send in flight, repeats it if the shard was lost, and tells parameter shard 0 of its steps."""
        if self._sent is None:
            return False
        sent, number, pieces = self._sent
        while True:
            try:
                held = self._channel.added(sent)
                break
            except ShardLost:  # the supervisor says so; there is nothing to do without it
                if self.stopping:
                    raise StoppedError(f"actor {self._index}: a replay shard was lost while the run was stopped") from None
                time.sleep(0.1)
                sent = self._channel.add(self._index, self.life, number, pieces)
        self._sent = None
        self.acknowledged += sum(len(piece.rewards) for piece in pieces)
        told = self._spec.id, self._spec.bundles + self._index, self.life, self.acknowledged
        self._patiently(0, lambda: self._channel.tell(0, *told))
        return held

    def _held(self) -> bool:
        """Whether the learners have still too few updates. A shard that is lost says so at the next send."""
        try:
            return self._channel.held()
        except ShardLost:
            return False

    def _pull(self) -> None:
        """Takes the newest parameters, if there are newer ones."""
        versions = []
        for shard, (first, size) in enumerate(self._ranges):
            answer, values = self._patiently(shard, functools.partial(self._channel.pull, shard))
            self._theta[first : first + size] = values
            versions.append((answer.incarnation, answer.version))
            if shard == 0:
                self.total = answer.steps
        self.updates = max(self.updates, versions[-1][1])
        if tuple(versions) != self._versions:
            self._model.adopt(self._theta, self.updates)
            before, self._policy = self._policy, self._model.policy_snapshot()
            self._versions = tuple(versions)
            if before is not None:
                before.close()

    def _patiently(self, shard: int, call: Callable[[], T]) -> T:
        return repeated(shard, call, self._patience, lambda: self.stopping)

    # -------------------------------------------------------------- acting

    def _epsilon(self) -> float:
        """The probability of a random action."""
        if self._spec.actor_epsilon == "apex":
            return apex_epsilon(self._index, self._spec.actors)
        if not self.updates:
            return 1.0  # learning_starts
        setting = self._model.setting
        first, last, steps = (float(setting(f"exploration_{name}")) for name in ("initial_eps", "final_eps", "steps"))
        if not steps:
            starts = int(self._spec.worker["learning_starts"])
            asked = max(0, self._goal - starts) // int(setting("train_freq")) * int(setting("gradient_steps"))
            steps = float(setting("exploration_fraction")) * asked
        return first + (last - first) * min(1.0, self.updates / max(steps, 1.0))

    def _act(self) -> list[Piece]:
        """Takes pull_every steps in every environment."""
        envs, n = self._envs, self._envs.num_envs
        if self._obs is None:
            self._obs, _ = envs.reset(seed=self._seed)
        self.epsilon = self._epsilon()
        starts, pieces = [0] * n, []
        seen: list[Array] = [self._obs]
        chosen: list[Array] = []
        paid: list[Array] = []

        def piece(env: int, last: Any, terminated: bool, truncated: bool) -> Piece:
            rows = slice(starts[env], len(paid))
            obs = np.stack([row[env] for row in seen[rows]] + [last])
            actions = np.array([row[env] for row in chosen[rows]])
            rewards = np.array([row[env] for row in paid[rows]], np.float32)
            made = Piece(env, obs, actions, rewards, self._begins[env], terminated, truncated)
            starts[env], self._begins[env] = len(paid), terminated or truncated
            return made

        for _ in range(self._spec.pull_every):
            actions = self._policy.act(self._obs, epsilon=self.epsilon, seed=self._seed, counter=self._rounds)
            self._rounds += 1
            obs, rewards, terminated, truncated, infos = envs.step(actions)
            chosen.append(actions)
            paid.append(rewards)
            over = terminated | truncated
            self._count(rewards, over, infos)
            for env in np.flatnonzero(over):
                last = obs[env] if terminated[env] else infos["final_obs"][env]
                pieces.append(piece(int(env), last, bool(terminated[env]), bool(truncated[env])))
            seen.append(obs)
            self._obs = obs
        pieces += [piece(env, self._obs[env], False, False) for env in range(n) if starts[env] < len(paid)]
        self.steps += n * len(paid)
        return pieces

    def _count(self, rewards: Array, over: Array, infos: dict[str, Any]) -> None:
        """Counts returns, of whole games if the environment says where they end."""
        final = infos.get("final_info", {})
        ended = infos.get("_final_info", over)  # not where a life was lost and the game goes on

        def now(name: str, otherwise: Array) -> Array:
            if name not in infos:
                return otherwise
            return np.where(ended, final[name], infos[name]) if name in final else infos[name]

        self._returns += now("raw_reward", rewards)
        self._lengths += 1
        for env in np.flatnonzero(over & now("game_over", over).astype(bool)):
            self._played.append((float(self._returns[env]), int(self._lengths[env])))
            self._returns[env] = self._lengths[env] = 0
            self.episodes += 1

    def status(self) -> dict[str, Any]:
        played = list(self._played)
        return {
            "life": self.life,
            "steps": self.steps,
            "told": self.acknowledged,
            "unsent": 2 * self._spec.pull_every * self._envs.num_envs,
            "episodes": self.episodes,
            "mean_return": sum(r for r, _ in played) / len(played) if played else math.nan,
            "mean_length": sum(n for _, n in played) / len(played) if played else math.nan,
            "epsilon": self.epsilon,
        }

    def close(self) -> None:
        self._envs.close()
        self._model.close()
        if self._policy is not None:
            self._policy.close()
