"""What presets have on a cluster alone."""

from __future__ import annotations

from typing import Any

from ..envs import _ids
from ..envs.registration import ATARI
from ..envs.vec import library_name

# What presets have that were chosen in one process, where a bundle waits for the answers to its push before it
# computes again. On Ray, Catch-v0 has -0.4 on seed 1 with delay=1 (a mean lag of 6.2 updates), and 1.0 with 0 (3.2).
TUNED: dict[str, Any] = {"delay": 0}

# DQN's preset fastdqn with actors in processes of their own, which keep the epsilons of Ape-X.
FASTDQN: dict[str, Any] = {"bundles": 1, "actor_epsilon": "apex"}

# Ape-X DQN (Horgan et al. 2018, "Distributed Prioritized Experience Replay", sections 4 and C). The paper gives no
# train_freq: its learner has 19 minibatches a second, and its 360 actors 12,500 transitions. Its loss is half of
# "squared"; RMSProp divides the factor out.
APEX: dict[str, Any] = {
    "bundles": 1, "actor_epsilon": "apex", "pull_every": 100, "train_freq": 658, "gradient_steps": 1, "buffer_size": 2_000_000,
    "learning_starts": 50_000, "batch_size": 512, "gamma": 0.99, "n_steps": 3, "double_q": True, "dueling": True,
    "target_update_interval": 2500, "prioritized": "dqn_zoo", "priority_alpha": 0.6, "priority_beta": 0.4, "priority_beta_final": 0.4,
    "optimizer": "rmsprop_mnih", "optimizer_eps": 1.5e-7, "learning_rate": 0.00025 / 4, "loss": "squared", "max_grad_norm": 40,
    "outliers": 0, "max_staleness": 0,
}  # fmt: skip


def apex(env: str) -> dict[str, Any]:
    """The keywords of preset "apex" in an environment, without actors."""
    name = (library_name(env) or env).removeprefix("atari/").replace("_", "").lower()
    game = name in {game.lower() for game in ATARI} or _ids.atari(env) is not None
    return APEX | ({"env_kwargs": {"recipe": "mnih2015"}} if game else {})
