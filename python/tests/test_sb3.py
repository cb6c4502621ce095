"""Beside stable-baselines3 itself, where it is installed (pip install 'paceline[sb3]')."""

import numpy as np
import pytest

from envs import SMALL
from paceline import DQN

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")


def test_weights_of_theirs_are_weights_of_ours():
    theirs = sb3.DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [16]}, seed=3, device="cpu")
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as ours:
        assert list(ours.get_parameters()["policy"]) == list(theirs.get_parameters()["policy"])
        ours.set_parameters(theirs.get_parameters(), exact_match=False)
        obs = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
        np.testing.assert_array_equal(ours.predict(obs, deterministic=True)[0], theirs.predict(obs, deterministic=True)[0])
        one = ours.predict(obs[0], deterministic=True)[0], theirs.predict(obs[0], deterministic=True)[0]
        assert one[0] == one[1] and one[0].shape == one[1].shape


def test_the_convolutions_too():
    import gymnasium

    class Image(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
        action_space = gymnasium.spaces.Discrete(5)

        def reset(self, *, seed=None, options=None):
            return self.observation_space.sample(), {}

    theirs = sb3.DQN("CnnPolicy", Image(), buffer_size=100, seed=3, device="cpu")
    with DQN("CnnPolicy", Image(), buffer_size=100, learning_starts=50) as ours:
        assert list(ours.get_parameters()["policy"]) == list(theirs.get_parameters()["policy"])
        ours.set_parameters(theirs.get_parameters(), exact_match=False)
        obs = np.random.default_rng(0).integers(0, 256, (8, 4, 84, 84), np.uint8)
        with ours.policy_snapshot() as policy:
            values = policy.q_values(obs)
        import torch

        expected = theirs.q_net(torch.as_tensor(obs)).detach().numpy()
        np.testing.assert_allclose(values, expected, atol=1e-4 * np.abs(expected).max())


def test_their_callbacks(tmp_path):
    from stable_baselines3.common import callbacks

    class Count(callbacks.BaseCallback):
        def _on_step(self):
            self.logger.record("mine/steps", self.num_timesteps)
            return True

    count = Count()
    every = callbacks.EveryNTimesteps(100, callbacks.CheckpointCallback(1, str(tmp_path)))
    with DQN("MlpPolicy", "CartPole-v1", num_envs=2, **SMALL) as model:
        model.learn(250, callbacks.CallbackList([count, every]))
    assert count.n_calls == 125 and count.num_timesteps == 250
    assert len(list(tmp_path.iterdir())) == 2


def test_their_evaluation():
    import gymnasium
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        mean, _ = evaluate_policy(model, Monitor(gymnasium.make("CartPole-v1")), n_eval_episodes=3)
        assert mean >= 5
