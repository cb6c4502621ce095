"""What a run is made of: the part of the keywords that every process knows."""

from __future__ import annotations

import dataclasses
import re
import uuid
from typing import Any

from .._arguments import whole
from ..errors import ConfigError
from . import _cores

# The library's name of the method of a bundle's worker, and its class in paceline.
WORKERS = {"dqn": "DQN", "a3c": "A2C", "appo": "PPO"}
# The smallest and the largest value of counts.
COUNTS = {"bundles": (1, 1000), "actors_per_bundle": (1, 1024), "actors": (0, 10_000), "envs_per_actor": (1, 1024)}


@dataclasses.dataclass(frozen=True)
class Spec:
    """Everything that a process needs to start, also when it starts again on another node.

    Ray keeps arguments of a Ray actor above 100 KB with the process that made it, so a Spec is smaller:
    parameters and experience come later.
    """

    run: str  # the name, under which attach finds the run
    id: str  # of this start of the run; pushes with another id are refused
    method: str
    policy: str
    env: str  # the name of a built-in environment
    worker: dict[str, Any]  # keywords of the class of a worker
    optimizer: dict[str, Any]  # keywords of paceline.Store
    seed: int
    size: int  # parameters
    bundles: int = 1
    shards: int = 1
    actors_per_bundle: int = 1
    num_cpus: int = 1  # cores and threads of a bundle
    pin: bool = False  # learners have cores alone
    keepers: int = 2
    copy_every: int = 100  # updates between two copies of a shard
    delay: int = 1
    bf16: bool = False
    inline_limit: int = 102_400  # bytes of a shard's parameters up to which an answer carries them
    lease: float = 600.0  # seconds
    schedule: str = "race"  # or virtual, or recorded
    order: str = ""  # the file of schedule recorded
    latency: tuple[str, ...] = ()  # of schedule virtual: step, forward, gradient, pull, push
    ledger: str = ""  # a folder for the logs of tests
    actors: int = 0  # processes that act alone; 0: bundles have actors and replay memories
    envs_per_actor: int = 1
    replay_shards: int = 1
    pull_every: int = 50  # steps of an environment of an actor between two pulls
    actor_epsilon: str = "schedule"  # or apex

    @property
    def num_envs(self) -> int:
        return self.actors * self.envs_per_actor if self.actors else self.bundles * self.actors_per_bundle

    def shared(self, name: str) -> int | None:
        """A keyword that all workers share, whole; None for other keywords."""
        if self.method != "dqn" or name not in ("buffer_size", "learning_starts"):
            return None
        if not self.actors:
            return int(self.worker[name]) * self.bundles
        return int(self.worker[name]) * (self.replay_shards if name == "buffer_size" else 1)


def name_of(given: Any) -> str:
    """The name of a run; a new one for None."""
    if given is None:
        return f"gorila-{uuid.uuid4().hex[:8]}"
    if not isinstance(given, str) or not re.fullmatch("[A-Za-z0-9._-]{1,100}", given):
        raise ConfigError(f"name: {given!r}, must be 1 to 100 letters, digits, '.', '_' and '-', or None")
    return given


def checked(
    bundles: Any, shards: Any, actors_per_bundle: Any, num_cpus: Any, pin: Any, keepers: Any, copy_every: Any, delay: Any,
    gradients: Any, inline_limit: Any, lease: Any, actors: Any, envs_per_actor: Any, replay_shards: Any, pull_every: Any,
    actor_epsilon: Any,
) -> dict[str, Any]:  # fmt: skip
    """The fields of a Spec that keywords of the same names stand for; raises ConfigError."""
    if gradients not in ("fp32", "bf16"):
        raise ConfigError(f"gradients: {gradients!r}, must be 'fp32' or 'bf16'")
    if not isinstance(lease, (int, float)) or not 1 <= lease <= 1e7:
        raise ConfigError(f"lease: {lease!r}, must be 1 to 1e7 seconds")
    actors = whole("actors", actors, *COUNTS["actors"])
    replay_shards = whole("replay_shards", replay_shards, 1, max(1, actors))
    if actor_epsilon not in ("schedule", "apex"):
        raise ConfigError(f"actor_epsilon: {actor_epsilon!r}, must be 'schedule' or 'apex'")
    if actors and actors_per_bundle != 1:
        raise ConfigError(f"actors_per_bundle: {actors_per_bundle!r}, must be 1 where actors is {actors}, as bundles then have none")
    if not actors and (envs_per_actor, replay_shards, pull_every, actor_epsilon) != (1, 1, Spec.pull_every, "schedule"):
        raise ConfigError("actors: 0, must be at least 1 with envs_per_actor, replay_shards, pull_every or actor_epsilon")
    return {
        "bundles": whole("bundles", bundles, *COUNTS["bundles"]),
        "shards": whole("shards", shards, 1, 1024),
        "actors_per_bundle": whole("actors_per_bundle", actors_per_bundle, *COUNTS["actors_per_bundle"]),
        "num_cpus": whole("num_cpus", num_cpus, 1, 1024),
        "pin": _cores.check(pin),
        "keepers": whole("keepers", keepers, 1, 8),
        "copy_every": whole("copy_every", copy_every, 1, 1_000_000),
        "delay": whole("delay", delay, 0, 63),
        "bf16": gradients == "bf16",
        "inline_limit": whole("inline_limit", inline_limit, 0, 2**31),
        "lease": float(lease),
        "actors": actors,
        "envs_per_actor": whole("envs_per_actor", envs_per_actor, *COUNTS["envs_per_actor"]),
        "replay_shards": replay_shards,
        "pull_every": whole("pull_every", pull_every, 1, 1_000_000),
        "actor_epsilon": actor_epsilon,
    }
