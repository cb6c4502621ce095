"""Models of Stable-Baselines3's scripts, without Stable-Baselines3: layers, attributes,
environments, files.
"""

import io

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from envs import SMALL
from paceline import A2C, A3C, APPO, DQN, GA3C, PPO, PQN, Policy
from paceline._checkpoints import stored_keywords
from paceline._model import Model
from paceline.errors import BusyError, ConfigError, SpaceError

KEYWORDS = {DQN: SMALL, A2C: {"seed": 1}}
both = pytest.mark.parametrize("cls", [DQN, A2C])


@pytest.mark.parametrize("cls", [DQN, A2C, PQN])
def test_bad_net_arch_is_refused(cls):
    more = {"buffer_size": 100} if cls is DQN else {"n_steps": 128} if cls is PQN else {}
    image = spaces.Box(0, 255, (1, 40, 40), np.uint8), spaces.Discrete(2)
    linear = [[], *([{"pi": [], "vf": []}] if cls is A2C else [])]
    for net_arch in (64, "64", [64, "a"], [64, {"pi": [8]}], [[64]]):
        with pytest.raises(ConfigError, match=r"policy_kwargs\['net_arch'\]: .*, must be a list of widths, such as \[64, 64\]"):
            cls("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": net_arch})
    cls("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": None}, **more).close()
    for net_arch in linear:  # as in SB3, CnnPolicy has no such layers
        cls("CnnPolicy", image, policy_kwargs={"net_arch": net_arch}, **more).close()
    with pytest.raises(ConfigError, match="must be empty: CnnPolicy's layers are fixed"):
        cls("CnnPolicy", image, policy_kwargs={"net_arch": [8]}, **more)


LINEAR = {DQN: [[]], PQN: [[]], A2C: [[], {}, {"pi": [6]}, [{"vf": [5]}], [{"pi": [6], "vf": [5, 4]}]]}
LINEAR |= {A3C: [{}], APPO: [{}], GA3C: [{}], PPO: LINEAR[A2C]}


@pytest.mark.parametrize("cls, net_arch", [(cls, net_arch) for cls, every in LINEAR.items() for net_arch in every])
def test_a_model_has_the_layers_of_net_arch(cls, net_arch, tmp_path):
    """An empty net_arch is a linear network. It learns, is saved, and continues with the same bits.

    Its outputs follow from its weights.
    """
    more = {
        DQN: SMALL,
        PQN: {"n_steps": 64, "num_envs": 2},
        PPO: {"n_steps": 32, "batch_size": 32},
        APPO: {"n_steps": 32, "batch_size": 32},
    }.get(cls, {})
    keywords = {**more, "policy_kwargs": {"net_arch": net_arch}, "seed": 1}
    widths = (net_arch[0] if net_arch and isinstance(net_arch, list) else net_arch) or {}
    with cls("MlpPolicy", "CartPole-v1", **keywords) as model, cls("MlpPolicy", "CartPole-v1", **keywords) as other:
        if cls in (DQN, PQN):
            assert model.net_arch == []
        else:
            assert (model.net_arch_pi, model.net_arch_vf) == (widths.get("pi", []), widths.get("vf", []))
        before = model.get_parameters()["policy"]
        for learner in (model, other):
            learner.learn(640)
        after = model.get_parameters()["policy"]
        assert any((before[name] != after[name]).any() for name in before)
        obs = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
        with model.policy_snapshot() as policy:
            for head, values in policy.outputs(obs).items():
                name = {"q": "q_net.q_net.0" if cls is DQN else "q_net.0", "logits": "action_net", "value": "value_net"}[head]
                if not widths.get({"logits": "pi", "value": "vf"}.get(head)):
                    np.testing.assert_allclose(values, obs @ after[f"{name}.weight"].T + after[f"{name}.bias"], atol=1e-4, rtol=1e-4)
        model.save(tmp_path / "model", replay=True)
        with cls.load(tmp_path / "model") as loaded, Policy.load(tmp_path / "model") as policy:
            np.testing.assert_array_equal(policy.act(obs), model.predict(obs, deterministic=True)[0])
            for learner in (loaded, other):
                learner.learn(640, reset_num_timesteps=False)
            assert loaded.hashes() == other.hashes()
        with cls("MlpPolicy", "CartPole-v1", **keywords, precision="bf16") as rounded:
            rounded.learn(128)


# ----------------------------------------------------------------- attributes


@both
def test_settings_cannot_be_assigned(cls):
    """An assignment would have no effect on training."""
    with cls("MlpPolicy", "CartPole-v1", **KEYWORDS[cls]) as model:
        fixed = {
            "gamma": 0.1,
            "num_envs": 2,
            "policy_kwargs": {},
            "learning_rate": 1.0,
            "lr_schedule": None,
            "seed": 3,
            "n_steps": 9,
            "device": "cpu",
        }
        fixed |= {"tau": 0.5, "train_freq": 1, "replay_buffer_class": None} if cls is DQN else {"ent_coef": 10.0, "use_sde": True}
        for name, value in fixed.items():
            before = getattr(model, name)
            with pytest.raises(AttributeError, match=f"^{name}: read-only, is given when the model is made$"):
                setattr(model, name, value)
            assert name == "lr_schedule" or getattr(model, name) == before
        for name in ("num_timesteps", "n_envs", "stats", "_n_updates", "observation_space", "ep_info_buffer"):
            with pytest.raises(AttributeError, match=f"^{name}: read-only$"):
                setattr(model, name, 1)
        with pytest.raises(AttributeError, match="env: read-only, set_env changes it"):
            model.env = None
        model.foo = model._bar = model.verbose = 1
        model.tensorboard_log = None
        assert (model.foo, model._bar, model.verbose) == (1, 1, 1)
        model.learn(100)

    class Mine(cls):
        """A user's subclass with attributes."""

        limit = 3

        def keep(self, value):
            self.kept = self.limit = value

    with Mine("MlpPolicy", "CartPole-v1", **KEYWORDS[cls]) as model:
        model.keep(5)
        assert model.kept == model.limit == 5


# --------------------------------------------------------------- environments


class Started(gymnasium.Env):
    """Both spaces start at `start`. Episodes have 6 steps. calls counts all steps."""

    def __init__(self, start=0):
        self.observation_space, self.action_space = spaces.Discrete(4, start=start), spaces.Discrete(2, start=start)
        self.start, self.calls = start, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.start, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.steps, self.calls = self.steps + 1, self.calls + 1
        return self.start + self.steps % 4, 1.0, self.steps == 6, False, {}


@both
def test_set_env_changes_the_start_of_the_spaces(cls, tmp_path):
    """The new spaces have the same sizes. predict and saved files use the new start at once."""
    with cls("MlpPolicy", Started(), **KEYWORDS[cls]) as model:
        model.learn(100)
        rows = np.arange(4)
        actions = model.predict(rows, deterministic=True)[0]
        weights = model.hashes()
        for env in (
            Started(5),
            Started(5),
            gymnasium.vector.SyncVectorEnv([lambda: Started(9)], autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP),
        ):
            model.set_env(env)
            start = model.action_space.start
            assert model.hashes() == weights and model.num_timesteps == 100
            assert model.predict(rows + start, deterministic=True)[0].tolist() == (actions + start).tolist()
            with pytest.raises(SpaceError, match=f"observation 0, must be {start} to {start + 3}"):
                model.predict(rows)
            model.save(tmp_path / "model")
            for loaded in (cls.load(tmp_path / "model"), Policy.load(tmp_path / "model")):
                with loaded:
                    assert loaded.predict(rows + start, deterministic=True)[0].tolist() == (actions + start).tolist()
        model.learn(100, reset_num_timesteps=False)
        assert model.num_timesteps == 200


@both
def test_set_env_keeps_the_device(cls, monkeypatch):
    """A file holds "auto" for the device. The new trainer's settings have the device of the old one."""
    seen = []

    def made(self, config, source):
        seen.append([config.get(name) for name in names])
        return original(self, config, source)

    names = ["device", "replay_device"] if cls.REPLAYS else ["device"]
    with cls("MlpPolicy", "CartPole-v1", **KEYWORDS[cls], **dict.fromkeys(names, "cpu")) as model:
        original = Model._make_native
        monkeypatch.setattr(Model, "_make_native", made)
        model.set_env(gymnasium.make("CartPole-v1"))
        model.learn(20)
    assert seen == [["cpu"] * len(names)]


@both
def test_set_env_before_the_first_run_keeps_the_seed(cls):
    """The first reset uses the model's seed, also if set_env has replaced the trainer."""
    for first in ("CartPole-v1", Started(3)):
        env = gymnasium.make("CartPole-v1") if first == "CartPole-v1" else Started(5)
        with cls("MlpPolicy", first, **{**KEYWORDS[cls], "seed": 11}) as model:
            model.set_env(env)
            model.learn(50)
            assert env.unwrapped.np_random_seed == 11


@both
def test_set_env_in_a_callback_is_refused(cls):
    """Otherwise the run would continue in the old environment or with a closed trainer."""
    env, other = Started(), Started()
    for first, second in ((env, other), (gymnasium.make("CartPole-v1"), "CartPole-v1"), ("CartPole-v1", gymnasium.make("CartPole-v1"))):
        with cls("MlpPolicy", first, **KEYWORDS[cls]) as model:
            with pytest.raises(BusyError, match="set_env: learn is in progress, must be called before or after it"):
                model.learn(60, callback=lambda *_: model.set_env(second))  # noqa: B023 - called in this iteration
            assert model._environments.env is first
            model.learn(20, reset_num_timesteps=False)
            model.set_env(second)
            model.learn(20, reset_num_timesteps=False)
    assert env.calls >= 21 and other.calls >= 20


def test_set_env_refuses_what_the_constructor_refuses():
    class VecNormalize(gymnasium.vector.VectorWrapper):
        """Has the name of SB3's VecNormalize, which may not be installed."""

    VecNormalize.__module__ = "stable_baselines3.common.vec_env.vec_normalize"
    normalized = VecNormalize(gymnasium.vector.SyncVectorEnv([Started]))
    with DQN("MlpPolicy", Started(), **SMALL) as model:
        env = model.env
        with pytest.raises(ConfigError, match="env: a VecNormalize, must be another wrapper"):
            model.set_env(normalized)
        assert model.env is env
        model.learn(20)
    with A2C("MlpPolicy", Started()) as model:
        model.set_env(normalized)
        assert model.get_vec_normalize_env() is normalized


# ---------------------------------------------------------------------- files


@both
@pytest.mark.parametrize("env", ["CartPole-v1", "of Gymnasium's"])
def test_files_keep_the_arguments_of_the_constructor(cls, env, tmp_path):
    layers = {DQN: [16], A2C: {"pi": [8], "vf": [16]}}[cls]
    kwargs = {"net_arch": layers, "activation_fn": type("Tanh", (), {}), "optimizer_kwargs": {"eps": np.float64(1e-4)}}
    keywords = {"verbose": 1, "tensorboard_log": tmp_path / "logs", "policy_kwargs": kwargs}
    env = env if env == "CartPole-v1" else gymnasium.make("CartPole-v1")
    as_text = {**kwargs, "activation_fn": "Tanh"}
    with cls("MlpPolicy", env, **{**KEYWORDS[cls], **keywords}) as model:
        assert model.policy_kwargs == kwargs
        model.save(tmp_path / "model")
    with cls.load(tmp_path / "model", env) as model:
        assert model.verbose == 1 and model.tensorboard_log == str(tmp_path / "logs") and model.policy_kwargs == as_text
        model.set_env(gymnasium.make("CartPole-v1"))
        model.save(tmp_path / "again")
    with cls.load(tmp_path / "again", verbose=0) as model:
        assert model.verbose == 0 and model.tensorboard_log == str(tmp_path / "logs") and model.policy_kwargs == as_text
        # the constructor accepts the loaded value
        again = cls("MlpPolicy", "CartPole-v1", policy_kwargs=model.policy_kwargs)
        assert again.setting("activation_fn") == "tanh"
        again.close()
        obs = np.zeros(4, np.float32)
        with Policy.load(tmp_path / "again") as policy:
            assert policy.predict(obs)[0] == model.predict(obs, deterministic=True)[0]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"python": {"keywords": 3}}', '{"python": {"keywords": {"verbose": "x", "policy_kwargs": 1}}}']
)
def test_data_of_other_hosts_is_ignored(text):
    assert stored_keywords(text) == {}


@pytest.mark.parametrize("rate", [1e-3, (1e-3, 1e-5), lambda progress: 1e-3 * progress**2], ids=["constant", "line", "curve"])
def test_loaded_models_keep_their_schedules(rate, tmp_path):
    with A2C("MlpPolicy", "CartPole-v1", learning_rate=rate) as model:
        model.save(tmp_path / "model")
        expected = [model.lr_schedule(progress) for progress in (1.0, 0.5, 0.1, 0.0)]
        assert model.learning_rate is rate
    with A2C.load(tmp_path / "model") as model:
        np.testing.assert_allclose([model.lr_schedule(progress) for progress in (1.0, 0.5, 0.1, 0.0)], expected, rtol=1e-3, atol=1e-9)
        assert callable(rate) or model.learning_rate == rate
    with A2C.load(tmp_path / "model", learning_rate=0.5) as model:
        assert model.learning_rate == model.lr_schedule(0.3) == 0.5


@both
@pytest.mark.filterwarnings("ignore:the file loaded has no experience")
def test_num_envs_can_change_without_experience(cls, tmp_path):
    """A file with experience is refused; the message names set_parameters, which works."""
    with cls("MlpPolicy", "CartPole-v1", **KEYWORDS[cls], num_envs=4) as model:
        model.learn(99).save(tmp_path / "model", replay=True)
        model.save(tmp_path / "without")
        at = model.num_timesteps
        weights = model.hashes().weights
    path, env = tmp_path / "model", gymnasium.make("CartPole-v1")
    for given in ({"env": env}, {"num_envs": 1}):
        with pytest.raises(ConfigError, match='num_envs: the checkpoint has "4", this trainer has "1", must be .*set_parameters'):
            cls.load(path, **given)
    with cls("MlpPolicy", env, policy_kwargs=KEYWORDS[cls].get("policy_kwargs")) as model:
        model.set_parameters(path)
        assert model.hashes().weights == weights
        model.learn(20)
    for given in ({"env": env}, {"num_envs": 1}, {"num_envs": 6}, {"env": gymnasium.make_vec("CartPole-v1", 3)}):
        with cls.load(tmp_path / "without", **given) as model:
            assert model.hashes().weights == weights and model.num_timesteps == at
            assert model.n_envs == given.get("num_envs", getattr(given.get("env"), "num_envs", 1))
            model.learn(60, reset_num_timesteps=False)
            assert model.num_timesteps >= at + 60
            model.save(tmp_path / "again", replay=True)
            cls.load(tmp_path / "again").close()


@both
def test_file_objects_are_read_from_their_start(cls):
    buffer = io.BytesIO()
    with cls("MlpPolicy", "CartPole-v1", **KEYWORDS[cls]) as model:
        model.save(buffer)
        weights = model.hashes().weights
    for _ in range(2):
        with cls.load(buffer) as model:
            assert model.hashes().weights == weights
