"""Environments whose steps wait: make_vec(waits=...), and the same in env_kwargs of a model."""

import time
import warnings

import numpy as np
import pytest

import worker_envs
from paceline import DQN, make_vec, workers
from paceline.errors import ConfigError, PacelineError


def test_rows_are_the_same():
    rng = np.random.default_rng(1)
    actions = rng.integers(0, 2, (300, 6))
    seen = []
    for keywords in ({}, {"waits": True}, {"waits": False}):
        envs = make_vec("CartPole-v1", 6, num_threads=2, autoreset_mode="same_step", **keywords)
        rows = [envs.reset(seed=3)[0]]
        for a in actions:
            obs, rewards, terminated, truncated, _ = envs.step(a)
            rows.append(np.concatenate([obs.ravel(), rewards, terminated, truncated]))
        seen.append(np.concatenate([r.ravel() for r in rows]))
        envs.close()
    assert (seen[0] == seen[1]).all() and (seen[0] == seen[2]).all()
    with pytest.raises((ConfigError, PacelineError), match="waits: 3, must be true or false"):
        make_vec("CartPole-v1", 2, waits=3)


def test_a_model_learns_the_same():
    hashes, evaluations = set(), set()
    for kwargs in (None, {"waits": True}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = DQN(
                "MlpPolicy", "CartPole-v1", num_envs=4, learning_starts=100, batch_size=16, buffer_size=1000,
                target_update_interval=100, seed=1, env_kwargs=kwargs,
            )  # fmt: skip
        with model:
            model.learn(1000, log_interval=None)
            hashes.add(str(model.hashes()))
            evaluations.add(model.evaluate(episodes=3, seed=5).mean_return)
    assert len(hashes) == 1 and len(evaluations) == 1


def test_processes_wait_at_the_same_time():
    """A process for each environment, unless their number is given; so all of them wait at once."""
    for given, processes in ((0, 6), (2, 2)):
        envs = workers.make(worker_envs.Sleeping, 6, waits=True, workers=given)
        try:
            assert envs.workers == processes
        finally:
            envs.close()
    envs = make_vec(worker_envs.Sleeping, 6, waits=True)
    try:
        envs.reset(seed=1)
        actions = np.zeros(6, np.int64)
        envs.step(actions)
        began = time.perf_counter()
        for _ in range(10):
            envs.step(actions)
        took = time.perf_counter() - began
    finally:
        envs.close()
    assert 10 * 0.02 <= took < 10 * 0.02 * 6 * 0.6
