"""Files of installed Stable-Baselines3 (pip install 'paceline[sb3]')."""

import contextlib
import warnings

import gymnasium
import numpy as np
import pytest

import paceline
from envs import SMALL
from paceline import A2C, DQN, PPO, QRDQN
from paceline.errors import ConfigError

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")

KEYWORDS = {DQN: SMALL, A2C: {"seed": 1}}
both = pytest.mark.parametrize("cls", [DQN, A2C])


class ImageEnv(gymnasium.Env):
    """Observations are images of any shape. The environment is never stepped."""

    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, shape):
        self.observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}


@both
@pytest.mark.parametrize("policy", ["MlpPolicy", "CnnPolicy"])
def test_loaded_sb3_files_act_the_same(cls, policy, tmp_path):
    env = ImageEnv((84, 84, 1)) if policy == "CnnPolicy" else gymnasium.make("CartPole-v1")
    small = {"buffer_size": 100} if cls is DQN else {}
    theirs = getattr(sb3, cls.__name__)(policy, env, seed=3, device="cpu", **small)
    theirs.save(tmp_path / "theirs")
    obs = np.stack([env.observation_space.sample() for _ in range(20)])
    with (
        pytest.warns(paceline.PacelineWarning) if cls is DQN else contextlib.nullcontext(),
        cls.load(tmp_path / "theirs", buffer_size=200) if cls is DQN else cls.load(tmp_path / "theirs") as ours,
    ):
        np.testing.assert_array_equal(ours.predict(obs, deterministic=True)[0], theirs.predict(obs, deterministic=True)[0])
        assert ours.gamma == theirs.gamma and ours.learning_rate == theirs.learning_rate
        if cls is DQN:
            assert ours.exploration_rate == theirs.exploration_rate == 0


@pytest.mark.filterwarnings("ignore::paceline.PacelineWarning")
@pytest.mark.parametrize("policy", ["MlpPolicy", "CnnPolicy"])
@pytest.mark.parametrize(
    "cls, kwargs",
    [
        (DQN, {"normalize_images": False}),
        (A2C, {"normalize_images": False}),
        (A2C, {"share_features_extractor": False}),
        (PPO, {"share_features_extractor": False, "normalize_images": False}),
    ],
)
def test_loaded_image_networks_compute_the_same(cls, policy, kwargs, tmp_path):
    """Settings of images and extractors are loaded. The copy in PyTorch computes the same."""
    import torch

    env = ImageEnv((1, 40, 40))
    small = {"buffer_size": 100} if cls is DQN else {}
    theirs = getattr(sb3, cls.__name__)(policy, env, seed=3, device="cpu", policy_kwargs=kwargs, **small)
    if cls is not DQN:  # change one extractor: those of a new model have equal weights
        for name, array in theirs.policy.named_parameters():
            array.data += 0.01 * ("vf_features" in name)
    theirs.save(tmp_path / "theirs")
    obs = np.stack([env.observation_space.sample() for _ in range(5)])

    def computed(policy):
        tensor = torch.as_tensor(obs)
        with torch.no_grad():
            return policy.q_net(tensor) if cls is DQN else policy.predict_values(tensor)

    expected = computed(theirs.policy).numpy()
    with cls.load(tmp_path / "theirs") as ours, ours.policy_snapshot() as snapshot:
        values = snapshot.outputs(obs)["q" if cls is DQN else "value"].reshape(expected.shape)
        near = {"rtol": 0, "atol": 1e-4 * np.abs(expected).max()}
        np.testing.assert_allclose(values, expected, **near)
        np.testing.assert_allclose(computed(ours.policy).numpy(), expected, **near)
        assert ours.normalize_images is kwargs.get("normalize_images", True)


@pytest.mark.filterwarnings("ignore::paceline.PacelineWarning")
def test_policy_kwargs_of_sb3_files_are_loaded_or_refused(tmp_path):
    """Known settings are loaded, and settings for training are left out with a warning.

    Other settings and unknown arrays are refused by name.
    """
    import torch
    from stable_baselines3.common.torch_layers import FlattenExtractor

    def saved(cls=sb3.A2C, **keywords):
        cls("MlpPolicy", "CartPole-v1", device="cpu", **keywords).save(tmp_path / "theirs")
        return tmp_path / "theirs"

    with A2C.load(saved(rms_prop_eps=1e-3)) as model:
        assert model.use_rms_prop and model.rms_prop_eps == 1e-3
    with A2C.load(saved(use_rms_prop=False, policy_kwargs={"ortho_init": False})) as model:
        assert not model.use_rms_prop and not model.ortho_init and model.adam_eps == 1e-5
    with PPO.load(saved(sb3.PPO, policy_kwargs={"optimizer_kwargs": {"eps": 1e-4}})) as model:
        assert model.adam_eps == 1e-4
    for cls, kwargs in (
        (sb3.PPO, {"optimizer_kwargs": {}}), (sb3.PPO, {"optimizer_class": torch.optim.RMSprop}),
        (sb3.A2C, {"optimizer_class": torch.optim.RMSprop}),
        (sb3.A2C, {"optimizer_class": torch.optim.Adam, "optimizer_kwargs": {"weight_decay": 0}}),
    ):  # fmt: skip
        with getattr(paceline, cls.__name__).load(saved(cls, policy_kwargs=kwargs)) as model:
            assert (model.rms_prop_eps if model.use_rms_prop else model.adam_eps) == 1e-8
    extractor = {"features_extractor_class": FlattenExtractor}
    with pytest.raises(ConfigError, match=r"policy_kwargs\['features_extractor_class'\]: .*, must not be given: custom networks"):
        A2C.load(saved(policy_kwargs=extractor))
    decay = {"optimizer_kwargs": {"weight_decay": 1e-4, "eps": 1e-4}}
    rms = {"optimizer_class": torch.optim.RMSprop, "optimizer_kwargs": {"alpha": 0.95, "eps": 1e-4}}
    for cls, keywords, says, has in (
        (sb3.PPO, {"policy_kwargs": decay}, "weight_decay=0.0001 of Adam, not supported", {"adam_eps": 1e-4}),
        (sb3.A2C, {"policy_kwargs": {"optimizer_class": torch.optim.AdamW}}, "AdamW, not supported", {"use_rms_prop": False}),
        (sb3.DQN, {"policy_kwargs": {"optimizer_class": torch.optim.AdamW}}, "AdamW, not supported", {"optimizer": "adam"}),
        (sb3.DQN, {"policy_kwargs": rms}, "alpha=0.95 of RMSprop, not supported", {"optimizer": "rmsprop", "optimizer_eps": 1e-4}),
        (sb3.DQN, {"n_steps": 3, "gradient_steps": -1}, "train_freq as Python objects", {"n_steps": 3, "gradient_steps": 4}),
        (sb3.DQN, {"stats_window_size": 7}, "train_freq as Python objects", {"stats_window_size": 7}),
    ):  # fmt: skip
        with (
            pytest.warns(paceline.PacelineWarning, match=says) as caught,
            getattr(paceline, cls.__name__).load(saved(cls, **keywords)) as model,
        ):
            assert {name: getattr(model, name) for name in has} == has
        assert {warning.filename for warning in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DQN.load(saved(sb3.DQN, n_steps=3), train_freq=4).close()
    for cls in (sb3.A2C, sb3.DQN):
        theirs = cls("MlpPolicy", "CartPole-v1", device="cpu")
        theirs.policy.register_parameter("of_my_own", torch.nn.Parameter(torch.ones(3)))
        theirs.save(tmp_path / "theirs")
        with pytest.raises(ConfigError, match="policy.pth: has 'of_my_own', must have .* alone: custom layers"):
            getattr(paceline, cls.__name__).load(tmp_path / "theirs")


@pytest.mark.filterwarnings("ignore::paceline.PacelineWarning")
@pytest.mark.filterwarnings("ignore::paceline.PacelineWarning")
@pytest.mark.parametrize("policy", ["MlpPolicy", "CnnPolicy"])
def test_loaded_files_of_sb3_contrib_s_qrdqn_act_the_same(policy, tmp_path):
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed")
    env = ImageEnv((84, 84, 1)) if policy == "CnnPolicy" else gymnasium.make("CartPole-v1")
    theirs = contrib.QRDQN(policy, env, seed=3, device="cpu", buffer_size=100, policy_kwargs={"n_quantiles": 21})
    theirs.save(tmp_path / "theirs")
    obs = np.stack([env.observation_space.sample() for _ in range(50)])
    want = theirs.predict(obs, deterministic=True)[0]
    for cls in (QRDQN, DQN):
        with cls.load(tmp_path / "theirs", buffer_size=200, device="cpu") as ours:
            np.testing.assert_array_equal(ours.predict(obs, deterministic=True)[0], want)
            assert ours.n_quantiles == 21 and ours.learning_rate == theirs.learning_rate and ours.setting("optimizer_eps") == "0.0003125"
            assert ours.setting("distribution") == "quantile" and ours.setting("max_grad_norm") == "0"


def test_networks_of_the_other_class_are_refused(tmp_path):
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed")
    sb3.DQN("MlpPolicy", "CartPole-v1", buffer_size=100).save(tmp_path / "dqn")
    contrib.QRDQN("MlpPolicy", "CartPole-v1", buffer_size=100).save(tmp_path / "qrdqn")
    with pytest.raises(ConfigError, match="dqn.zip: a network with Q-values, must have quantiles for QRDQN.load"):
        QRDQN.load(tmp_path / "dqn", buffer_size=200)
    with QRDQN("MlpPolicy", "CartPole-v1", buffer_size=200) as ours:
        with pytest.raises(ConfigError, match="dqn.zip: a network with Q-values, must have quantiles for set_parameters"):
            ours.set_parameters(tmp_path / "dqn")
        with pytest.raises(ConfigError, match="^parameters: has "):
            ours.set_parameters(tmp_path / "dqn", exact_match=False)
    with pytest.raises(ConfigError, match="qrdqn.zip: a network with quantiles, must have Q-values for DQN.load"):
        DQN.load(tmp_path / "qrdqn", buffer_size=200, distribution="none")


def test_a_loaded_sb3_file_keeps_its_exploration_rate(tmp_path):
    theirs = sb3.DQN("MlpPolicy", "CartPole-v1", device="cpu", buffer_size=100, exploration_fraction=0.5).learn(50)
    theirs.save(tmp_path / "theirs")
    with DQN.load(tmp_path / "theirs") as ours:
        assert ours.exploration_rate == theirs.exploration_rate and 0 < ours.exploration_rate < 0.2


def test_a_space_of_bools_is_loaded(tmp_path):
    class Bits(ImageEnv):
        def __init__(self):
            self.observation_space = gymnasium.spaces.Box(0, 1, (5,), np.bool_)

    sb3.A2C("MlpPolicy", Bits(), device="cpu").save(tmp_path / "theirs")
    with A2C.load(tmp_path / "theirs") as model:
        assert model.observation_space == Bits().observation_space
        model.predict(np.ones(5, bool))


def test_spaces_that_need_an_env_say_so(tmp_path):
    class Choices(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.MultiDiscrete([3, 2]), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.int64), {}

        def step(self, action):
            return np.array([2, 1]), 1.0, False, True, {}

    theirs = sb3.PPO("MlpPolicy", Choices(), seed=3, device="cpu")
    theirs.save(tmp_path / "theirs")
    obs = np.stack([Choices.observation_space.sample() for _ in range(10)])
    with PPO.load(tmp_path / "theirs") as ours:
        assert ours.observation_space == Choices.observation_space
        np.testing.assert_array_equal(ours.predict(obs, deterministic=True)[0], theirs.predict(obs, deterministic=True)[0])
    with PPO.load(tmp_path / "theirs", env=Choices(), n_steps=8, batch_size=8) as ours:
        np.testing.assert_array_equal(ours.predict(obs, deterministic=True)[0], theirs.predict(obs, deterministic=True)[0])
        ours.learn(16)


@pytest.mark.filterwarnings("ignore::paceline.PacelineWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    "cls, net_arch", [(DQN, []), *((A2C, arch) for arch in ([], {}, {"pi": [18]}, {"vf": [7, 6]}, [{"pi": [5], "vf": []}]))]
)
def test_linear_networks_equal_those_of_sb3(cls, net_arch, tmp_path):
    """Names and shapes are equal. A loaded file and a copy in PyTorch compute the same."""
    import torch

    small = {"buffer_size": 100} if cls is DQN else {}
    keywords = {**small, "policy_kwargs": {"net_arch": net_arch}, "device": "cpu"}
    # SB3 adds an optimiser with weight_decay=0 to policy_kwargs
    theirs = getattr(sb3, cls.__name__)("MlpPolicy", "CartPole-v1", **keywords)
    theirs.save(tmp_path / "linear")
    obs = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
    with cls.load(tmp_path / "linear") as loaded, cls("MlpPolicy", "CartPole-v1", **keywords) as ours:
        np.testing.assert_array_equal(loaded.predict(obs, deterministic=True)[0], theirs.predict(obs, deterministic=True)[0])
        shapes = {name: tuple(tensor.shape) for name, tensor in theirs.policy.state_dict().items()}
        assert {name: array.shape for name, array in ours.get_parameters()["policy"].items()} == shapes
        theirs.set_parameters({"policy": {n: torch.as_tensor(a) for n, a in ours.get_parameters()["policy"].items()}}, exact_match=False)
        for policy in (theirs.policy, ours.policy):
            np.testing.assert_array_equal(policy.predict(obs, deterministic=True)[0], ours.predict(obs, deterministic=True)[0])
