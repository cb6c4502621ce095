"""Environments whose steps wait: make_vec(waits=...) and env_kwargs of a model."""

import csv
import warnings

import gymnasium
import numpy as np
import pytest

import worker_envs
from envs import SMALL
from paceline import A2C, A3C, APPO, DQN, GA3C, PPO, PQN, make_vec, workers
from paceline.errors import ConfigError, PacelineError, PacelineWarning
from paceline.logger import configure


def test_waits_changes_no_result_of_a_vector():
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


def test_waits_changes_no_result_of_a_model():
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


def test_processes_wait_at_the_same_time(tmp_path):
    """Each environment has its own process unless workers is given, so all can wait at the same
    time.
    """
    for given, processes in ((0, 6), (2, 2)):
        envs = workers.make(worker_envs.Counting, 6, waits=True, workers=given, context="fork")
        assert envs.workers == processes
        envs.close()
    envs = make_vec(lambda: worker_envs.Meeting(tmp_path, 6), 6, waits=True, workers=0, context="fork")
    envs.reset(seed=1)
    for _ in range(3):
        envs.step(np.zeros(6, np.int64))  # would never end if one environment waited for another
    envs.close()


# ------------------------------------------------------------ two groups


def learnt(make, env, steps, **keywords):
    with make("MlpPolicy", env, **{**keywords, "num_envs": 4, "seed": 3}) as model:
        model.learn(steps, log_interval=None)
        return model.hashes(), model.stats


@pytest.mark.parametrize(
    ("make", "keywords"),
    [
        (DQN, {**SMALL, "learning_starts": 100}), (DQN, {**SMALL, "learning_starts": 100, "concurrent": False}),
        (A2C, {}), (PPO, {"n_steps": 32, "batch_size": 16}), (PQN, {"n_steps": 8, "batch_size": 16}),
        (A3C, {"learners": 2}), (GA3C, {}), (APPO, {"learners": 2, "n_steps": 32, "batch_size": 16}),
    ],
)  # fmt: skip
def test_groups_change_no_result(make, keywords):
    one, stats = learnt(make, "CartPole-v1", 640, **keywords)
    shares = [stats[f"utilisation_{name}"] for name in ("step", "act", "learn", "wait")]
    assert sum(shares) == pytest.approx(1) and all(0 <= share <= 1 for share in shares) and shares[2] > 0
    assert learnt(make, "CartPole-v1", 640, groups=2, **keywords)[0] == one
    assert learnt(make, "CartPole-v1", 640, groups=2, env_kwargs={"waits": True}, num_threads=1, **keywords)[0] == one


def test_logs_show_the_waiting_time(tmp_path):
    """Cores wait while a step sleeps, and the log shows it."""
    with A2C("MlpPolicy", worker_envs.Sleeping(), num_threads=1, seed=1) as model:
        model.set_logger(logger := configure(tmp_path, ["csv"]))
        model.learn(60, log_interval=1)
        logger.close()
    *_, row = csv.DictReader((tmp_path / "progress.csv").read_text().splitlines())
    shares = {name: float(row[f"time/utilisation_{name}"]) for name in ("step", "act", "learn", "wait")}
    assert sum(shares.values()) == pytest.approx(1) and shares["wait"] > 0, shares


def test_bad_numbers_of_groups_are_refused():
    with pytest.raises(ConfigError, match=r"groups: 2, must be at most num_envs \(1\)"):
        A2C("MlpPolicy", "CartPole-v1", groups=2)
    with pytest.raises(ConfigError, match="groups: 2, must be 1 where synchronized is false"):
        DQN("MlpPolicy", "CartPole-v1", num_envs=4, groups=2, synchronized=False)
    with pytest.raises(ConfigError, match="groups: 3, must be 1 to 2"):
        PPO("MlpPolicy", "CartPole-v1", num_envs=4, groups=3)
    envs = gymnasium.make_vec("CartPole-v1", 4)
    with pytest.warns(PacelineWarning, match="groups: 2, where the caller steps"), A2C("MlpPolicy", envs, groups=2) as model:
        model.learn(40)


def test_mid_batch_reset_false_resets_between_rollouts():
    def rests(**keywords):
        with PPO("MlpPolicy", "CartPole-v1", num_envs=4, n_steps=64, batch_size=32, seed=3, mid_batch_reset=False, **keywords) as model:
            model.learn(2048, log_interval=None)
            return model.hashes(), model.stats

    one, stats = rests()
    # a rollout has fewer than 256 steps, because environments that end early take no more steps
    assert stats["rollouts"] > 8
    assert rests(groups=2, num_threads=1)[0] == one
    envs = gymnasium.make_vec("CartPole-v1", 4)
    with pytest.raises(ConfigError, match="mid_batch_reset: false, must be true where the caller steps"):
        PPO("MlpPolicy", envs, mid_batch_reset=False)
