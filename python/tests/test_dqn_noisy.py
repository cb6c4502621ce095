"""DQN with noisy networks."""

import numpy as np
import pytest

from envs import SMALL
from paceline import A2C, DQN
from paceline.errors import ConfigError

RAINBOW = {
    "distribution": "categorical",
    "n_atoms": 11,
    "v_min": 0.0,
    "v_max": 50.0,
    "dueling": True,
    "double_q": True,
    "n_steps": 3,
    "prioritized": "dqn_zoo",
}
IMPLICIT = {
    "policy_kwargs": {"net_arch": [16, 16]},
    "distribution": "implicit",
    "n_tau": 6,
    "n_tau_target": 5,
    "n_tau_act": 4,
    "n_cosines": 8,
    "dueling": True,
}


def small(**keywords):
    noise = {"noisy": True, "exploration_initial_eps": 0.0, "exploration_final_eps": 0.0}
    return DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "num_envs": 2, **noise, **keywords})


@pytest.mark.parametrize("more", [{}, RAINBOW, {"munchausen": True}, IMPLICIT, {"concurrent": False, "actor": "online"}])
def test_a_seed_gives_one_result_also_after_a_load(more, tmp_path):
    results = set()
    for threads in (1, 2):
        with small(num_threads=threads, **more) as model:
            model.learn(300)
            model.save(tmp_path / "run.paceline", replay=True)
            results.add(model.learn(200, reset_num_timesteps=False).hashes())
    with DQN.load(tmp_path / "run.paceline") as loaded:
        assert loaded.noisy is True
        results.add(loaded.learn(200, reset_num_timesteps=False).hashes())
        assert np.isfinite(loaded.stats["loss"])
    assert len(results) == 1


def test_predict_and_policies_have_no_noise(tmp_path):
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    with small(policy_kwargs={"net_arch": [16]}, noisy_sigma=0.25) as model:
        first = model.get_parameters()["policy"]
        np.testing.assert_array_equal(first["q_net.q_net.0.weight_sigma"], np.full((16, 4), 0.125, np.float32))
        np.testing.assert_array_equal(first["q_net.q_net.2.bias_sigma"], np.full(2, 0.0625, np.float32))
        model.learn(300)
        weights = {name: array.astype(np.float64) for name, array in model.get_parameters()["policy"].items()}
        assert (weights["q_net.q_net.0.weight_sigma"] != 0.125).any()
        hidden = np.maximum(obs @ weights["q_net.q_net.0.weight"].T + weights["q_net.q_net.0.bias"], 0)
        want = hidden @ weights["q_net.q_net.2.weight"].T + weights["q_net.q_net.2.bias"]
        with model.policy_snapshot() as policy:
            np.testing.assert_allclose(policy.q_values(obs), want, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(model.predict(obs, deterministic=True)[0], want.argmax(axis=1))
        with pytest.raises(ConfigError, match="stable-baselines3 has no policy with noise"):
            model.policy.state_dict()


def test_refusals():
    for keywords, message in (
        ({"synchronized": False}, "noisy: true, must be false where synchronized is false"),
        ({"learners": 1}, "noisy: true, must be false where learners is 1"),
        ({"noisy_sigma": 0.0}, "noisy_sigma: 0, must be 1e-06 to 1000"),
    ):
        with pytest.raises(ConfigError, match=message):
            small(**keywords)
    with pytest.raises(TypeError, match="'noisy': only DQN has noisy networks"):
        A2C("MlpPolicy", "CartPole-v1", noisy=True)
