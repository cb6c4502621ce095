"""Models loaded from files of Paceline and of Stable-Baselines3 (python/tests/sb3)."""

import io
import json
import pickle
import warnings
import zipfile
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.vector import AutoresetMode

from envs import SMALL, Steps, vector
from paceline import A2C, A3C, DQN, GA3C, PQN, PacelineWarning, Policy
from paceline.errors import CheckpointError, ConfigError, MissingFileError

THEIRS = Path(__file__).parent / "sb3" / "dqn.zip"
STEPS = SMALL | {"learning_starts": 100, "exploration_final_eps": 0.25, "exploration_fraction": 0.2}


def edited(path, file=THEIRS, **changed):
    """Writes a copy of a Stable-Baselines3 file with changed values in data."""
    with zipfile.ZipFile(file) as whole, zipfile.ZipFile(path, "w") as archive:
        for name in whole.namelist():
            text = whole.read(name)
            archive.writestr(name, json.dumps(json.loads(text) | changed) if name == "data" else text)
    return path


def greedy_share(model, n=4000):
    """Returns the share of n states in which predict returns the greedy action."""
    obs = np.random.default_rng(3).uniform(-0.2, 0.2, (n, *model.observation_space.shape)).astype(np.float32)
    return float((model.predict(obs)[0] == model.predict(obs, deterministic=True)[0]).mean())


def test_predict_explores_as_in_the_saved_run(tmp_path):
    """predict uses the schedule's epsilon, also while random steps fill the empty replay memory."""
    with DQN("MlpPolicy", "CartPole-v1", **STEPS) as model:
        assert model.exploration_rate == 0 and greedy_share(model) == 1, "a new model is greedy, as in Stable-Baselines3"
        seen = []
        model.learn(400, lambda locals, globals: seen.append(model.exploration_rate) is None)
        assert seen[0] == 1 and model.exploration_rate == 0.25
        model.save(tmp_path / "model")
    with DQN.load(tmp_path / "model") as model:
        assert model.exploration_rate == 0.25 and model.stats["epsilon"] == 1
        assert greedy_share(model) == pytest.approx(0.25 / 2 + 0.75, abs=0.03)
        with pytest.warns(PacelineWarning, match="has no experience"):
            model.learn(50, reset_num_timesteps=False)
        assert model.exploration_rate == 0.25 and model.stats["epsilon"] == 1
        model.learn(10)
        assert model.exploration_rate == 1
    with DQN("MlpPolicy", "CartPole-v1", **STEPS) as model:
        model.save(tmp_path / "new")
    with DQN.load(tmp_path / "new") as model:
        assert model.exploration_rate == 0


@pytest.mark.filterwarnings("ignore::paceline.PacelineWarning")
def test_predict_explores_at_the_rate_of_an_sb3_file(tmp_path):
    with DQN.load(THEIRS) as model:
        assert model.exploration_rate == 0.05 and greedy_share(model) == pytest.approx(0.975, abs=0.015)
        model.set_env(Steps())
        assert model.exploration_rate == 0.05
        model.learn(5)
        assert model.exploration_rate == 1, "after learn it is the rate of the run"
    for wrong in ("0.05", None, 7, float("nan")):
        with DQN.load(edited(tmp_path / "theirs.zip", exploration_rate=wrong)) as model:
            assert model.exploration_rate == 0


def test_updates_start_at_once_after_experience_is_loaded(tmp_path):
    with DQN("MlpPolicy", "CartPole-v1", **STEPS) as model:
        model.learn(400)
        model.save(tmp_path / "model")
        model.save_replay_buffer(tmp_path / "buffer")
        updates = model.stats["updates"]
    with DQN.load(tmp_path / "model") as model:
        model.load_replay_buffer(tmp_path / "buffer")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.learn(40, reset_num_timesteps=False)
        assert model.stats["epsilon"] == 0.25
        assert model.stats["updates"] == updates + 40 // model.train_freq.frequency


def test_a_program_that_only_acts_loads_without_a_replay_memory(tmp_path):
    """rl-zoo's enjoy loads with buffer_size=1, and its search of hyper-parameters deletes env before the model."""
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        model.learn(200).save(tmp_path / "model")
    with pytest.warns(PacelineWarning, match="buffer_size: 1 acts as 8, the least with batch_size 8 and num_envs 1"):
        loaded = DQN.load(tmp_path / "model", buffer_size=1)
    assert loaded.predict([0.0, 0.0, 0.0, 0.0])[0] in (0, 1) and loaded.env.num_envs == 1
    del loaded.env
    loaded.close()


def test_experience_is_loaded_with_its_priorities(tmp_path):
    """A transition of a large error is still drawn often; in a model of other priorities it is not, which a warning says."""
    space = spaces.Box(-100, 100, (1,), np.float32), spaces.Discrete(2)
    keywords = {"num_envs": 1, "seed": 1, "updates": "outside", "clock": "updates", "concurrent": False, "batch_size": 64,
                "learning_starts": 64, "buffer_size": 200, "prioritized": "kaixhin", "priority_alpha": 1.0}  # fmt: skip

    def share(model):
        return np.mean([(model.replay_buffer.draw(0.0).obs[:, 0] == 7).mean() for _ in range(5)])

    with DQN("MlpPolicy", space, **keywords) as model:
        buffer = model.replay_buffer
        buffer.add_steps(0, np.arange(101, dtype=np.float32)[:, None], [0] * 100, [0.0] * 100, begins=True, truncated=True)
        for _ in range(40):
            batch = buffer.draw(0.0)
            buffer.set_errors(batch.identities, np.where(batch.obs[:, 0] == 7, 100, 0.01))
        assert share(model) > 0.9
        model.save_replay_buffer(tmp_path / "buffer")
    with DQN("MlpPolicy", space, **keywords) as model, warnings.catch_warnings():
        warnings.simplefilter("error")
        model.load_replay_buffer(tmp_path / "buffer")
        assert share(model) > 0.9
    with DQN("MlpPolicy", space, **{**keywords, "priority_alpha": 0.5}) as model:
        with pytest.warns(PacelineWarning, match="^priority_alpha: priorities saved with 1, must be 0.5; the transitions of the file"):
            model.load_replay_buffer(tmp_path / "buffer")
        assert share(model) < 0.1


def test_a_file_without_experience_gives_one_warning(tmp_path):
    with DQN("MlpPolicy", "CartPole-v1", **STEPS) as model:
        model.learn(400).save(tmp_path / "model")
        model.save(tmp_path / "whole", replay=True)
        updates = model.stats["updates"]
    with DQN.load(tmp_path / "model") as model:
        with pytest.warns(PacelineWarning, match="no experience: 100 steps with random actions fill the replay memory") as caught:
            model.learn(40, reset_num_timesteps=False)
            model.learn(20, reset_num_timesteps=False)
        assert len(caught) == 1 and caught[0].filename == __file__ and model.stats["updates"] == updates
    with DQN.load(tmp_path / "whole") as model, warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(40, reset_num_timesteps=False)
        assert model.stats["updates"] > updates
    with DQN.load(tmp_path / "model") as model, warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(40)  # a new run


@pytest.mark.parametrize("replay", [True, False])
@pytest.mark.filterwarnings("ignore:.*no experience")
def test_a_continuation_in_gymnasium_environments_is_repeated(replay, tmp_path):
    """Environments that a loaded model resets for the first time get a seed, which is not that of the first episodes."""

    def make():
        firsts.extend([First(gymnasium.make("CartPole-v1")) for _ in range(2)])
        return vector(AutoresetMode.SAME_STEP, 2, lambda i: firsts[i - 2])

    class First(gymnasium.Wrapper):
        def reset(self, **keywords):
            obs, info = super().reset(**keywords)
            self.seen = getattr(self, "seen", obs)
            return obs, info

    firsts = []
    with DQN("MlpPolicy", make(), **STEPS) as model:
        model.learn(200).save(tmp_path / "model", replay=replay)

    def hashes():
        with DQN.load(tmp_path / "model", make()) as model:
            return model.learn(300, reset_num_timesteps=False).hashes()

    assert hashes() == hashes()
    begun, first, second = (np.stack([env.seen for env in firsts[i : i + 2]]) for i in (0, 2, 4))
    assert (first == second).all() and (first != begun).any(axis=1).all()


@pytest.fixture
def pole():
    """The id of an environment that only Gymnasium makes."""
    gymnasium.register("Pole-v0", CartPoleEnv, max_episode_steps=100)
    yield "Pole-v0"
    del gymnasium.registry["Pole-v0"]


def test_an_id_has_the_number_of_environments_of_the_file(pole, tmp_path):
    with DQN("MlpPolicy", pole, num_envs=3, **STEPS) as model:
        model.learn(200).save(tmp_path / "model", replay=True)
        space = model.observation_space, model.action_space
    for env in (pole, space):
        with DQN.load(tmp_path / "model", env) as model:
            assert model.n_envs == 3
    with pytest.raises(ConfigError, match='num_envs: the checkpoint has "3", this trainer has "2"'):
        DQN.load(tmp_path / "model", pole, num_envs=2)


@pytest.mark.filterwarnings("ignore:cnn")
def test_an_id_has_the_number_of_environments_of_the_preset(pole):
    with A3C.from_preset("mnih2016", pole, policy="MlpPolicy") as model:
        assert model.n_envs == 16
    with A3C.from_preset("mnih2016", pole, policy="MlpPolicy", num_envs=32) as model:
        assert model.n_envs == 32


def test_methods_without_replay_memory_give_no_warning(tmp_path):
    with A2C("MlpPolicy", "CartPole-v1", seed=1) as model:
        model.learn(100).save(tmp_path / "model")
    with A2C.load(tmp_path / "model") as model, warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(40, reset_num_timesteps=False)


def test_unsupported_training_settings_do_not_prevent_acting(tmp_path):
    obs = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)
    kwargs = json.loads(zipfile.ZipFile(THEIRS).read("data"))["policy_kwargs"]
    with pytest.warns(PacelineWarning, match="train_freq as Python objects"), DQN.load(THEIRS) as model:
        expected = model.predict(obs, deterministic=True)[0]
    rms = kwargs | {"optimizer_class": "<class 'torch.optim.rmsprop.RMSprop'>", "optimizer_kwargs": {"alpha": 0.95, "eps": 1e-3}}
    for changed, says, has in (
        ({"n_steps": 3}, "train_freq", {"n_steps": 3}),
        ({"policy_kwargs": rms}, "alpha=0.95 of RMSprop, not supported", {"optimizer": "rmsprop", "optimizer_eps": 1e-3}),
        ({"policy_kwargs": kwargs | {"optimizer_kwargs": "{...}"}}, "optimizer_kwargs=", {"optimizer": "adam"}),
        ({"_stats_window_size": 7, "gradient_steps": -1}, "train_freq", {"stats_window_size": 7, "gradient_steps": 4}),
    ):
        path = edited(tmp_path / "theirs.zip", **changed)
        with pytest.warns(PacelineWarning, match=says), DQN.load(path) as model:
            assert {name: getattr(model, name) for name in has} == has
            assert (model.predict(obs, deterministic=True)[0] == expected).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DQN.load(edited(tmp_path / "theirs.zip", n_steps=3), train_freq=1).close()


@pytest.mark.filterwarnings("ignore::paceline.PacelineWarning")
def test_a_space_of_bools_is_loaded(tmp_path):
    data = json.loads(zipfile.ZipFile(THEIRS).read("data"))
    with DQN.load(edited(tmp_path / "theirs.zip", observation_space=data["observation_space"] | {"dtype": "bool"})) as model:
        assert model.observation_space == spaces.Box(0, 1, (2,), np.bool_)
        model.predict(np.ones((3, 2), bool))


# ------------------------------------------------------- weights from files


@pytest.mark.parametrize("cls", [DQN, A2C, A3C, GA3C, PQN])
@pytest.mark.filterwarnings("ignore:batch_size")
def test_set_parameters_reads_files(cls, tmp_path):
    keywords = {"seed": 1, "policy_kwargs": {"net_arch": [16]}}
    with cls("MlpPolicy", "CartPole-v1", **keywords) as model, cls("MlpPolicy", "CartPole-v1", **keywords | {"seed": 2}) as other:
        model.learn(200)
        weights = model.get_parameters()["policy"]
        model.save(tmp_path / "model", replay=True)
        with model.policy_snapshot() as policy:
            policy.save(tmp_path / "policy.zip")
        buffer = io.BytesIO()
        model.save(buffer)
        for file in (tmp_path / "model.zip", str(tmp_path / "model"), buffer):
            with cls("MlpPolicy", "CartPole-v1", num_envs=3, **keywords) as third:
                third.set_parameters(file)
                read = third.get_parameters()["policy"]
                assert all((read[name] == weights[name]).all() for name in weights)
        other.set_parameters(tmp_path / "policy", exact_match=False)
        obs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
        assert (other.predict(obs, deterministic=True)[0] == model.predict(obs, deterministic=True)[0]).all()
        if cls is DQN:
            with pytest.raises(ConfigError, match=r"missing \['q_net_target"):
                other.set_parameters(tmp_path / "policy")
        data = (tmp_path / "model.zip").read_bytes()
        for bad in (data[:-30], data[:200], b"nonsense", data.replace(b"F32", b"F3\x00", 1)):
            (tmp_path / "bad.zip").write_bytes(bad)
            with pytest.raises(CheckpointError, match="not a whole checkpoint"):
                other.set_parameters(tmp_path / "bad.zip")
        with pytest.raises(MissingFileError):
            other.set_parameters(tmp_path / "none")
        with pytest.raises(ConfigError, match="or a path"):
            other.set_parameters(7)


def retyped(text, names):
    return text.replace(b'"F32"', b'"I32"', 1)


def halved(text, names):
    return text.replace(b'"F32"', b'"F16"', 1)


def overlapping(text, names):
    header = json.loads(text)
    begin, end = header[names[1]]["data_offsets"]
    return text.replace(b"[%d,%d]" % (begin, end), b"[%d,%d]" % (begin - 4, end - 4))


def negative(text, names):
    begin, end = json.loads(text)[names[1]]["data_offsets"]
    return text.replace(b"[%d,%d]" % (begin, end), b"[%d,%d]" % (-8, -4))


def longer(text, names):
    return text[:-1] + b',"__metadata__":{"format":"pt"}}'


@pytest.mark.parametrize("change", [retyped, halved, overlapping, negative, longer])
@pytest.mark.parametrize("set", ["q_net", "q_net_target"])  # q_net acts, so the library reads it; Python reads q_net_target
def test_set_parameters_refuses_changed_files(set, change, tmp_path):
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        before = model.hashes().weights
        model.save(tmp_path / "model.zip")
        with zipfile.ZipFile(tmp_path / "model.zip") as whole, zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
            for name in whole.namelist():
                data = whole.read(name)
                if name == f"{set}.safetensors":
                    size = int.from_bytes(data[:8], "little")
                    text = data[8 : 8 + size].rstrip(b" ")
                    tensors = list(json.loads(text))
                    text = change(text, tensors).ljust(size)
                    assert text != data[8 : 8 + size]
                    data = len(text).to_bytes(8, "little") + text + data[8 + size :]
                archive.writestr(name, data)
        with pytest.raises(CheckpointError, match="not a whole checkpoint"):
            DQN.load(tmp_path / "bad.zip").close()
        tensor = tensors[0] if change in (retyped, halved) else tensors[1]
        says = f"tensor '{tensor}': " if set == "q_net_target" and change != longer else "not a whole checkpoint of paceline: "
        for exact in (True, False):
            with pytest.raises(CheckpointError, match=says):
                model.set_parameters(tmp_path / "bad.zip", exact_match=exact)
        assert model.hashes().weights == before


@pytest.mark.filterwarnings("error")
def test_wrong_parameters_are_refused_in_a_sentence():
    name = "q_net.q_net.2.bias"
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        before = model.get_parameters()["policy"]
        for bad, says in (
            (np.ones(2) + 1j, "complex128, must be an array of real numbers"),
            ("x", "str_, must be an array of real numbers"),
            (["1", "2"], "str_, must be an array of real numbers"),
            ([[1], [2, 3]], "list, must be an array of real numbers"),
            (None, "object_, must be an array of real numbers"),
            ([1, 1e300], "has inf, must be finite in float32"),
        ):
            for given in ({"policy": {name: bad}}, {name: bad}):
                with pytest.raises(ConfigError, match=rf"^parameters\['policy'\]\['{name}'\]: {says}$"):
                    model.set_parameters(given, exact_match=False)
        for given in ({"policy": {1: 2}}, {"policy": {**before, 1: 2}}, {**before, 1: 2}, {"policy": before, 1: 2, "a": 3}):
            for exact in (True, False):
                with pytest.raises(ConfigError, match="^parameters: the name 1, must be a str$"):
                    model.set_parameters(given, exact_match=exact)
        with pytest.raises(ConfigError, match=r"^parameters\['policy'\]: int, must be a dict of arrays$"):
            model.set_parameters({"policy": 5})
        for after, array in zip(model.get_parameters()["policy"].values(), before.values(), strict=True):
            np.testing.assert_array_equal(after, array)


def test_set_parameters_reads_sb3_files():
    with DQN("MlpPolicy", Steps(), policy_kwargs={"net_arch": [16, 8], "activation_fn": "tanh"}, buffer_size=100) as model:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.set_parameters(THEIRS)
        with pytest.warns(PacelineWarning), DQN.load(THEIRS) as loaded:
            assert model.hashes().weights == loaded.hashes().weights
        assert model.exploration_rate == 0
    with A2C("MlpPolicy", Steps()) as model, pytest.raises(ConfigError, match="dqn.zip: a network with Q-values, must have a policy"):
        model.set_parameters(THEIRS)
    with DQN("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [16]}, buffer_size=100) as model:
        with A2C("MlpPolicy", "CartPole-v1") as other, pytest.raises(CheckpointError, match="has none of this model's weights"):
            model.save(buffer := io.BytesIO())
            other.set_parameters(buffer)
        with pytest.raises(ConfigError, match="policy.pth: has 'q_net.q_net.4.bias', must have"):
            model.set_parameters(THEIRS)


def test_foreign_files_are_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"a model of stable-baselines3, .*load it with DQN.load, A2C.load or PPO.load"):
        Policy.load(THEIRS)
    path = tmp_path / "buffer.pkl"
    path.write_bytes(pickle.dumps({"observations": np.zeros(3)}))
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        with pytest.raises(CheckpointError, match="a pickle, as stable-baselines3's save_replay_buffer writes.*for load_replay_buffer"):
            model.load_replay_buffer(path)
        with pytest.raises(CheckpointError, match="a model of stable-baselines3, .*has no experience"):
            model.load_replay_buffer(THEIRS)
        for load in (DQN.load, Policy.load, model.set_parameters):
            with pytest.raises(CheckpointError, match="a pickle, as"):
                load(path)
