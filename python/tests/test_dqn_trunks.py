"""CnnPolicy's layers other than the Nature CNN, and images of 0 and 1."""

import gymnasium
import numpy as np
import pytest

from paceline import DQN, PPO, PQN
from paceline.errors import ConfigError, PacelineWarning

TINY = {"learning_starts": 32, "buffer_size": 200, "target_update_interval": 32, "device": "cpu", "seed": 1}


class Planes(gymnasium.Env):
    """An environment of planes, uint8 [10, 10, 4] up to high."""

    def __init__(self, high):
        self.observation_space = gymnasium.spaces.Box(0, high, (10, 10, 4), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.high, self.cells = high, np.random.default_rng(0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.step(0)[0], {}

    def step(self, action):
        return self.cells.integers(0, 2, (10, 10, 4)).astype(np.uint8) * self.high, 0.0, False, False, {}


def by_hand(model, planes):
    """The Q-values of one observation [4, 10, 10] of 0 and 1."""
    w = {name.removeprefix("q_net."): array.astype(np.float64) for name, array in model.get_parameters()["policy"].items()}
    windows = np.lib.stride_tricks.sliding_window_view(planes, (3, 3), axis=(1, 2))
    kernels, bias = w["features_extractor.cnn.0.weight"], w["features_extractor.cnn.0.bias"]
    x = np.maximum(np.einsum("chwij,ocij->ohw", windows, kernels) + bias[:, None, None], 0)
    x = np.maximum(w["features_extractor.linear.0.weight"] @ x.ravel() + w["features_extractor.linear.0.bias"], 0)
    return w["q_net.0.weight"] @ x + w["q_net.0.bias"]


@pytest.mark.parametrize("high", [1, 255])
def test_planes_reach_the_network_as_0_and_1(high):
    env = Planes(high)
    with DQN("CnnPolicy", env, policy_kwargs={"trunk": "minatar"}, **TINY) as model:
        assert model.setting("cnn") == "minatar" and model.normalize_images == (high == 255)
        model.learn(80)
        obs = env.reset()[0]
        with model.policy_snapshot() as policy:
            got = policy.q_values(obs)
        np.testing.assert_allclose(got, by_hand(model, obs.transpose(2, 0, 1) / high), rtol=1e-4, atol=1e-5)


def test_normalize_images_can_be_set_for_planes():
    with DQN("CnnPolicy", Planes(1), cnn="minatar", policy_kwargs={"normalize_images": True}, **TINY) as model:
        assert model.normalize_images


def test_small_images_and_padded_convolutions():
    with DQN("CnnPolicy", "Mini-Breakout-v0", cnn="minatar", **TINY) as model:
        model.learn(80)
        assert {a.shape for a in model.get_parameters()["policy"].values() if a.ndim == 4} == {(16, 4, 3, 3)}
    for cnn in ("dopamine", "der"):
        with DQN("CnnPolicy", "Catch-v0", cnn=cnn, **TINY) as model:
            model.learn(40)
    with pytest.raises(ConfigError, match="at least 36x36 for nature_cnn"):
        DQN("CnnPolicy", "Mini-Breakout-v0", **TINY)
    with pytest.raises(ConfigError, match='cnn: resnet, must be nature, small, minatar, dopamine, der|cnn: "resnet", must be nature'):
        DQN("CnnPolicy", "Mini-Breakout-v0", cnn="resnet", **TINY)


@pytest.mark.parametrize("method", [DQN, PPO])
def test_policy_auto_fits_small_images(method, tmp_path):
    with method("auto", "Mini-Breakout-v0", device="cpu", seed=1) as model:
        assert (model.policy_name, model.setting("cnn")) == ("CnnPolicy", "minatar")
        model.save(tmp_path / "game.paceline")
    with method.load(tmp_path / "game.paceline") as model:
        assert (model.policy_name, model.setting("cnn")) == ("CnnPolicy", "minatar")


@pytest.mark.parametrize("method", [DQN, PQN])
def test_an_unknown_trunk_is_refused_by_the_name_that_was_given(method):
    with pytest.raises(ConfigError, match=r"^policy_kwargs\['trunk'\]: \"resnet\", must be nature, small, minatar"):
        method("CnnPolicy", "Mini-Breakout-v0", policy_kwargs={"trunk": "resnet"}, device="cpu")


@pytest.mark.parametrize("method, keywords", [
    (DQN, {"cnn": "minatar"}), (DQN, {"policy_kwargs": {"trunk": "minatar"}}), (PQN, {"cnn": "minatar"}), (PPO, {"cnn": "minatar"}),
])  # fmt: skip
def test_convolutions_that_are_not_used_give_a_warning(method, keywords):
    with pytest.warns(PacelineWarning, match="^cnn: minatar is not used where policy is MlpPolicy$"):
        method("MlpPolicy", "Mini-Breakout-v0", device="cpu", seed=1, **keywords).close()


@pytest.mark.parametrize("method, given", [(DQN, "tanh"), (PPO, "relu")])
def test_an_activation_that_is_not_used_gives_a_warning(method, given):
    with pytest.warns(PacelineWarning, match=f"^activation_fn: {given} is not used where policy is CnnPolicy$"):
        method("CnnPolicy", "Mini-Breakout-v0", cnn="minatar", policy_kwargs={"activation_fn": given}, device="cpu", seed=1).close()
