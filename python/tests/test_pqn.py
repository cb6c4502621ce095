"""PQN on built-in and on Gymnasium environments: keywords, layer normalisation, epsilon, files.

test_a2c.py and test_ppo.py test what all methods share.
"""

import inspect
import math

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envs import Image, vector
from paceline import DQN, PQN
from paceline.config import Config, describe
from paceline.errors import ConfigError
from paceline.pqn import settings
from test_masks import Gated

TINY = {"seed": 7, "policy_kwargs": {"net_arch": [16]}, "n_steps": 8, "batch_size": 16, "n_epochs": 3, "learning_rate": 0.01}


def small(**keywords):
    return PQN("MlpPolicy", "CartPole-v1", **{**TINY, "num_envs": 4, **keywords})


def weights(steps=320, **keywords):
    with small(**keywords) as model:
        return model.learn(steps).hashes().weights


def test_python_defaults_equal_the_library_defaults():
    defaults = {name: p.default for name, p in inspect.signature(PQN).parameters.items()}
    for setting in describe("pqn"):
        mine = defaults.get(setting.name)
        if mine is None or setting.name in ("policy", "env"):
            continue
        config = Config("pqn")
        config.set(setting.name, mine)
        assert config.get(setting.name) == setting.default, setting.name
        config.close()
    by_others = {
        "env", "env_options", "learning_rate_final", "learning_rate_schedule", "autoreset", "normalize_images", "host_data",
        "net_arch", "activation_fn", "radam_eps",
    }  # fmt: skip
    assert {s.name for s in describe("pqn")} - by_others <= set(PQN.keywords())


def test_every_keyword_changes_the_weights():
    kwargs = {"net_arch": (8, 4), "activation_fn": "Tanh", "optimizer_kwargs": {"eps": 1e-5}}
    assert settings({"policy_kwargs": kwargs}) == {"net_arch": [8, 4], "activation_fn": "tanh", "radam_eps": 1e-5}
    for keywords, says in (
        ({"layer_norm": "batch"}, 'layer_norm: "batch", must be channels, all, none'),
        ({"q_lambda": 1.5}, "q_lambda: 1.5, must be 0 to 1"),
        ({"init": "zeros"}, 'init: "zeros", must be he_normal, orthogonal, uniform'),
        ({"policy_kwargs": {"optimizer_class": "Adam"}}, r"policy_kwargs\['optimizer_class'\]: not known"),
    ):
        with pytest.raises(ConfigError, match=says):
            small(**keywords)
    results = [
        weights(**keywords)
        for keywords in (
            {}, {"n_steps": 16}, {"batch_size": 8}, {"n_epochs": 4}, {"gamma": 0.9}, {"q_lambda": 0.1}, {"layer_norm": "none"},
            {"layer_norm_eps": 0.1}, {"init": "orthogonal"}, {"loss_coef": 1.0}, {"max_grad_norm": 0.1}, {"learning_rate": (1e-2, 0.0)},
            {"exploration_final_eps": 0.5}, {"exploration_fraction": 0.9}, {"precision": "bf16"},
        )
    ]  # fmt: skip
    assert len(set(results)) == len(results)
    assert {weights(num_threads=n) for n in (1, 2)} == {results[0]}


def test_learn_counts_and_reports():
    with small(exploration_fraction=0.5) as model:
        seen = []
        model.learn(320, lambda locals, globals: seen.append(model.exploration_rate) is None)
        stats = model.stats
        assert stats["rollouts"] == 10 and stats["updates"] == stats["updates_due"] == 10 * 3 * 2
        assert math.isfinite(stats["td_loss"]) and math.isfinite(stats["q_value"]) and stats["grad_norm"] > 0
        # Epsilon falls linearly over half of the run's 80 rounds.
        np.testing.assert_allclose(seen, np.interp(np.arange(4, 321, 4), [0, 160], [1, 0.001]), atol=1e-12)
        obs = np.zeros((400, 4), np.float32)
        assert len(set(model.predict(obs, deterministic=True)[0].tolist())) == 1


def test_layer_norms_have_parameters():
    with PQN("CnnPolicy", "Catch-v0", num_envs=2, n_steps=8, batch_size=8, seed=1, layer_norm="all") as model:
        arrays = model.learn(32).get_parameters()["policy"]
        shapes = {name: array.shape for name, array in arrays.items()}
        assert shapes["features_extractor.cnn.0.weight"] == (32, 4, 8, 8) and shapes["features_extractor.cnn.1.weight"] == (32, 20, 20)
        assert shapes["features_extractor.linear.1.bias"] == (512,) and shapes["q_net.0.weight"] == (3, 512)


def test_same_step_and_disabled_agree_in_environments_stepped_from_python():
    def run(env):
        with PQN("MlpPolicy", env, **TINY) as model:
            return model.learn(320).hashes(), model.stats["rollouts"]

    same, disabled, following = (
        run(vector(mode, 2)) for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP)
    )
    assert same == disabled and same[1] == 20 and following[0] != same[0] and following[1] > 20
    with PQN("CnnPolicy", vector(AutoresetMode.SAME_STEP, 2, Image), n_steps=8, batch_size=16, seed=1) as model:
        assert model.learn(40).num_timesteps == 48


def test_masks_are_refused():
    with (
        pytest.raises(ConfigError, match="action_masks: true, must be false: pqn does not use them"),
        PQN("MlpPolicy", Gated(), action_masks=True, **TINY),
    ):
        pass


@pytest.mark.parametrize("first", [96, 100])
def test_a_resumed_run_equals_an_uninterrupted_run(tmp_path, first):
    whole = weights(640)
    with small() as model:
        model.learn(640, callback=lambda locals, globals: model.num_timesteps < first)
        model.save(tmp_path / "half", replay=True)
        at = model.num_timesteps
    with PQN.load(tmp_path / "half") as model:
        model.learn(640 - at, reset_num_timesteps=False)
        assert model.hashes().weights == whole
    with pytest.raises(ConfigError, match="a run of 'pqn', must be of 'dqn'"):
        DQN.load(tmp_path / "half")


@pytest.mark.slow
def test_tuned_preset_learns_cartpole():
    for seed in (1, 2):
        with PQN.from_preset("tuned", "CartPole-v1", seed=seed) as model:
            model.learn(200_000)
            assert model.evaluate(episodes=20, seed=5).mean_return > 300
