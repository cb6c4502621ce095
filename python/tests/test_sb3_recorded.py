"""Comparisons with results that python/tests/sb3/record.py recorded from Stable-Baselines3. Needs
neither SB3 nor torch.
"""

import csv
import inspect
import io
import json
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from envs import Steps
from paceline import A2C, DQN, PPO, PacelineWarning, callbacks
from paceline.errors import CheckpointError, ConfigError
from paceline.logger import configure

HERE = Path(__file__).parent / "sb3"
RECORDED = json.loads((HERE / "recorded.json").read_text())
CLASSES = {"DQN": DQN, "A2C": A2C, "PPO": PPO}
SMALL = {"DQN": {"learning_starts": 10, "buffer_size": 100, "batch_size": 4}, "A2C": {}, "PPO": {"n_steps": 20, "batch_size": 10}}
each = pytest.mark.parametrize("name", list(CLASSES))


@pytest.mark.parametrize("path", list(RECORDED["signatures"]))
def test_every_argument_has_its_default(path):
    of, _, name = path.partition(".")
    function = getattr(callbacks, name) if of == "callbacks" else CLASSES[of] if name == "__init__" else getattr(CLASSES[of], name)
    ours = inspect.signature(function).parameters
    assert not set(RECORDED["signatures"][path]) - set(ours)
    for argument, default in RECORDED["signatures"][path].items():
        if default is None or argument not in ours or argument in ("log_interval", "tb_log_name"):
            continue  # defaults of learn that depend on the method: 4 or 100, "DQN" or "A2C"
        assert ours[argument].default == default, argument


@each
def test_models_have_every_attribute(name):
    """Parts of SB3's own loop and of batch normalisation are excluded."""
    with CLASSES[name]("MlpPolicy", Steps(), **SMALL[name]) as model:
        model.learn(1)
        absent = {"train", "collect_rollouts", "batch_norm_stats", "batch_norm_stats_target", "rollout_buffer"}
        needs_torch = {"policy", "q_net", "q_net_target"}
        for attribute in set(RECORDED["attributes"][name]) - absent - needs_torch:
            getattr(model, attribute)


@each
def test_loggers_find_the_hyperparameters(name):
    """vars(model) has the hyperparameters for W&B, MLflow and TensorBoard, before and after
    learning.
    """
    with CLASSES[name]("MlpPolicy", Steps(), seed=1, **SMALL[name]) as model:
        for _ in range(2):
            shown = vars(model)
            assert {key: shown[key] for key in RECORDED["hyperparameters"][name]} == RECORDED["hyperparameters"][name]
            assert shown["gamma"] == model.gamma and shown["n_envs"] == 1 and "policy" not in shown
            model.learn(40)
        model.save(file := io.BytesIO())
    file.seek(0)
    with CLASSES[name].load(file, verbose=1) as model:
        assert vars(model)["gamma"] == 0.99 and vars(model)["verbose"] == 1


@each
def test_callbacks_get_the_recorded_values(name, tmp_path):
    expected = RECORDED["seen"][name]
    rounds = []

    class Look(callbacks.BaseCallback):
        def _on_step(self):
            info = dict(self.locals["infos"][0])
            last = info.pop("terminal_observation", None)
            if "episode" in info:
                info["episode"] = {key: info["episode"][key] for key in ("r", "l")}
            rounds.append(
                {
                    "n_calls": self.n_calls,
                    "num_timesteps": self.num_timesteps,
                    "reward": float(self.locals["rewards"][0]),
                    "done": bool(self.locals["dones"][0]),
                    "new_obs": self.locals["new_obs"].tolist(),
                    "info": info,
                    "last": None if last is None else last.tolist(),
                }
            )
            return True

    with CLASSES[name]("MlpPolicy", Steps(), **SMALL[name]) as model:
        model.set_logger(logger := configure(tmp_path, ["csv"]))
        model.learn(40, callback=Look(), log_interval=1)
        # updates are concurrent with the steps, so the first may come after step 40
        model.learn(400, log_interval=1)
        logger.close()
    assert rounds == expected["rounds"]
    columns = next(csv.reader((tmp_path / "progress.csv").read_text().splitlines()))

    # NaN if all returns are equal
    assert {c for c in expected["columns"] if c not in columns} <= {"train/explained_variance"}


@each
def test_callbacks_end_learning_at_the_recorded_step(name, tmp_path):
    expected = RECORDED["seen"][name]
    with CLASSES[name]("MlpPolicy", Steps(), **SMALL[name]) as model:
        assert model.learn(1000, callback=callbacks.StopTrainingOnMaxEpisodes(5)).num_timesteps == expected["stopped"]
        evaluation = callbacks.EvalCallback(Steps(), n_eval_episodes=2, eval_freq=10, log_path=tmp_path, verbose=0)
        model.learn(40, callback=evaluation)
    npz = np.load(tmp_path / "evaluations.npz")
    assert sorted(npz) == sorted(expected["evaluations"])
    for key, values in expected["evaluations"].items():
        # SB3 does not reset before an evaluation, so the order differs
        assert np.sort(npz[key]).tolist() == np.sort(values).tolist()


@pytest.mark.parametrize("file", ["dqn", "a2c", "ppo"])
def test_sb3_files_give_the_recorded_actions(file, tmp_path):
    recorded = RECORDED["files"][file]
    obs = np.array(recorded["obs"], np.float32)
    shutil.copy(HERE / f"{file}.zip", tmp_path)
    with pytest.warns(PacelineWarning, match="train_freq as Python objects") if file == "dqn" else _nothing():
        model = CLASSES[file.upper()].load(tmp_path / file)
    with model:
        assert model.predict(obs, deterministic=True)[0].tolist() == recorded["actions"]
        with model.policy_snapshot() as policy:
            for head, values in policy.outputs(obs).items():
                theirs = np.array(recorded["outputs"][head]).reshape(values.shape)
                if head == "logits":  # SB3 records log-probabilities
                    values = values - np.log(np.exp(values).sum(1, keepdims=True))
                np.testing.assert_allclose(values, theirs, atol=1e-5)
        if file == "dqn":
            assert model.net_arch == [16, 8] and model.activation_fn == "tanh" and model.buffer_size == 100 and model.batch_size == 4
        else:
            assert model.net_arch_pi == [8] and model.net_arch_vf == [6, 4] and model.activation_fn == "relu"
        if file == "ppo":
            assert (model.n_steps, model.batch_size, model.target_kl) == (20, 10, 0.5)
            assert [model.setting(name) for name in ("clip_range", "clip_range_vf")] == ["0.1", "0.3"]
        with pytest.raises(ConfigError, match="call set_env"):
            model.learn(10)
        model.set_env(Steps())
        model.learn(50)
    other = A2C if file == "dqn" else DQN
    with pytest.raises(ConfigError, match=f"must have .* for {other.__name__}.load"):
        other.load(HERE / f"{file}.zip")


@pytest.mark.parametrize("file", ["dqn", "a2c", "ppo"])
@pytest.mark.filterwarnings("ignore::paceline.PacelineWarning")
def test_files_of_sb3_1_0_to_1_4_are_loaded(file, tmp_path):
    """Files of versions 1.0 to 1.4 have gym's spaces: other attribute names and no start."""
    old = {"_shape": "shape", "_np_random": "np_random"}
    with zipfile.ZipFile(HERE / f"{file}.zip") as new, zipfile.ZipFile(tmp_path / "old.zip", "w") as archive:
        data = json.loads(new.read("data"))
        for name in ("observation_space", "action_space"):
            space = {old.get(key, key): value for key, value in data[name].items() if key not in ("start", "low_repr", "high_repr")}
            data[name] = space | {":type:": space[":type:"].replace("gymnasium", "gym")}
        data["action_space"]["n"] = int(data["action_space"]["n"])
        archive.writestr("data", json.dumps(data))
        archive.writestr("policy.pth", new.read("policy.pth"))
    recorded = RECORDED["files"][file]
    with CLASSES[file.upper()].load(tmp_path / "old") as model:
        assert model.observation_space.shape == (2,) and model.action_space.n == 2
        assert model.predict(np.array(recorded["obs"], np.float32), deterministic=True)[0].tolist() == recorded["actions"]
    data["observation_space"] = {":type:": "<class 'gym.spaces.multi_binary.MultiBinary'>", "shape": [2], "dtype": "int8", "n": 2}
    with zipfile.ZipFile(tmp_path / "bits.zip", "w") as archive, zipfile.ZipFile(HERE / f"{file}.zip") as new:
        archive.writestr("data", json.dumps(data))
        archive.writestr("policy.pth", new.read("policy.pth"))
    with CLASSES[file.upper()].load(tmp_path / "bits") as model:
        assert model.observation_space.shape == (2,)
    del data["observation_space"]["shape"]
    with zipfile.ZipFile(tmp_path / "none.zip", "w") as archive, zipfile.ZipFile(HERE / f"{file}.zip") as new:
        archive.writestr("data", json.dumps(data))
        archive.writestr("policy.pth", new.read("policy.pth"))
    with pytest.raises(CheckpointError, match="a damaged file of stable-baselines3"):
        CLASSES[file.upper()].load(tmp_path / "none")


def _nothing():
    import contextlib

    return contextlib.nullcontext()


class Harmful:
    def __reduce__(self):
        return print, ("this must not run",)


def test_no_code_of_a_file_is_run(tmp_path, capsys):
    """A pickle that names an unexpected object is refused, and damage gives one line."""
    with zipfile.ZipFile(HERE / "dqn.zip") as whole:
        entries = {name: whole.read(name) for name in whole.namelist()}

    def written(**changed):
        path = tmp_path / "bad.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in (entries | changed).items():
                archive.writestr(name, data)
        return path

    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"q_net.q_net.0.weight": Harmful()}))
    for changed in (
        {"policy.pth": inner.getvalue()},
        {"policy.pth": entries["policy.pth"][:-500]},
        {"policy.pth": b"nonsense"},
        {"data": b"{"},
        {"data": b"[]"},
        {"data": entries["data"].replace(b"Discrete", b"Dict")},
    ):
        with pytest.raises((CheckpointError, ConfigError)) as caught:
            DQN.load(written(**changed))
        assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""
    for name in ("features_extractor_class", "features_extractor_kwargs", "squash_output"):
        data = json.loads(entries["data"])
        data["policy_kwargs"][name] = "<class 'mine.Extractor'>"
        says = "not known" if name == "squash_output" else ".*, must not be given: custom networks"
        with pytest.warns(PacelineWarning), pytest.raises(ConfigError, match=rf"policy_kwargs\['{name}'\]: {says}"):
            DQN.load(written(data=json.dumps(data).encode()))
    data = json.loads(entries["data"])
    data["gamma"] = "0.5"  # a string is no number, so the default is used
    with pytest.warns(PacelineWarning), DQN.load(written(data=json.dumps(data).encode())) as model:
        assert model.gamma == 0.99
