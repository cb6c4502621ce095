"""Policies can be pickled and copied; models cannot."""

import copy
import multiprocessing
import pickle

import gymnasium
import numpy as np
import pytest

import paceline
from paceline import A2C, DQN, Policy
from paceline.errors import HandleError

TINY = {"seed": 3, "policy_kwargs": {"net_arch": [16]}}


@pytest.fixture
def policy():
    with DQN("MlpPolicy", "CartPole-v1", learning_starts=50, **TINY) as model:
        model.learn(400, log_interval=None)
        with model.policy_snapshot() as policy:
            yield policy


def rows(n=200):
    return np.random.default_rng(1).normal(size=(n, 4)).astype(np.float32)


def act_beside_a_model(policy, obs):
    """Acts in a process whose own objects have the same handles as the policy had."""
    with DQN("MlpPolicy", "CartPole-v1", seed=8) as model, model.policy_snapshot():
        return policy.act(obs), policy.q_values(obs)


def same(a, b):
    return np.array_equal(a.act(rows()), b.act(rows())) and np.array_equal(a.q_values(rows()), b.q_values(rows()))


def test_a_policy_can_be_pickled(policy):
    data = pickle.dumps(policy)
    with pickle.loads(data) as other:
        assert other is not policy and other._handle.value != policy._handle.value
        assert same(policy, other)
        policy.close()
        other.act(rows())  # the other policy is independent
    with pytest.raises(HandleError, match="^policy: closed$"):
        pickle.dumps(policy)


@pytest.mark.parametrize("method", [copy.copy, copy.deepcopy])
def test_a_policy_can_be_copied(policy, method):
    with method({"policy": [policy]}["policy"][0]) as other:
        assert same(policy, other)
    policy.act(rows())  # closing the copy did not close the policy


def test_a_policy_acts_the_same_in_another_process(policy):
    want = policy.act(rows()), policy.q_values(rows())
    assert len(set(want[0].tolist())) == 2, "all actions are equal, so the test proves little"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        got = pool.apply(act_beside_a_model, (policy, rows()))
    assert np.array_equal(got[0], want[0]) and np.array_equal(got[1], want[1])


def test_a_policy_acts_the_same_in_joblib_workers(policy):
    joblib = pytest.importorskip("joblib")
    for got in joblib.Parallel(n_jobs=2)(joblib.delayed(act_beside_a_model)(policy, rows()) for _ in range(2)):
        assert np.array_equal(got[0], policy.act(rows())) and np.array_equal(got[1], policy.q_values(rows()))


def test_a_pickled_policy_keeps_the_spaces():
    class Shifted(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float64)
        action_space = gymnasium.spaces.Discrete(2, start=5)

        def reset(self, seed=None, options=None):
            return np.zeros(3), {}

        def step(self, action):
            return np.zeros(3), 0.0, False, True, {}

    with DQN("MlpPolicy", Shifted(), **TINY) as model, model.policy_snapshot() as policy, pickle.loads(pickle.dumps(policy)) as other:
        obs = np.random.default_rng(2).uniform(-1, 1, (50, 3))
        assert set(other.act(obs).tolist()) <= {5, 6} and np.array_equal(other.act(obs), policy.act(obs))


@pytest.mark.parametrize("cls", [DQN, A2C])
@pytest.mark.parametrize("method", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_model_cannot_be_pickled_or_copied(cls, method):
    with cls("MlpPolicy", "CartPole-v1", **TINY) as model:
        with pytest.raises(TypeError, match=rf"a {cls.__name__} cannot be pickled or copied: .*{cls.__name__}\.load"):
            method(model)
        model.learn(50, log_interval=None)


def test_vectors_cannot_be_pickled():
    envs = paceline.make_vec("CartPole-v1", num_envs=2)
    with pytest.raises(TypeError, match="belongs to its process"):
        pickle.dumps(envs)
    envs.close()


def test_names_with_nul_are_refused(tmp_path):
    with DQN("MlpPolicy", "CartPole-v1", **TINY) as model:
        for refused in (
            lambda: model.save(f"{tmp_path}/a\0b"),
            lambda: Policy.load("a\0b"),
            lambda: DQN.load("a\0b"),
            lambda: model.setting("batch_size\0x"),
            lambda: paceline.make_vec("CartPole-v1\0x", num_envs=2),
            lambda: paceline.load_env("lib.so\0x"),
        ):
            with pytest.raises(ValueError, match="must not contain NUL"):
                refused()
    assert not list(tmp_path.iterdir())
