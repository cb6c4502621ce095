"""PPO on built-in and on Gymnasium environments: keywords, minibatches, records, files, masks.

test_a2c.py tests what PPO and A2C share.
"""

import csv
import inspect
import math
import re
import threading
import time
import zipfile

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envs import MODES, vector
from paceline import A2C, APPO, PPO, linear
from paceline.callbacks import BaseCallback
from paceline.config import Config, describe
from paceline.errors import ConfigError, PacelineWarning
from paceline.logger import configure
from paceline.ppo import settings

TINY = {"seed": 7, "policy_kwargs": {"net_arch": [16]}, "n_steps": 8, "batch_size": 16, "n_epochs": 3, "learning_rate": 0.01}


def small(**keywords):
    return PPO("MlpPolicy", "CartPole-v1", **{**TINY, "num_envs": 4, **keywords})


# ---------------------------------------------------------------- keywords


def test_constructor_arguments_equal_those_of_stable_baselines3():
    positional = (
        "policy env learning_rate n_steps batch_size n_epochs gamma gae_lambda clip_range clip_range_vf normalize_advantage ent_coef "
        "vf_coef max_grad_norm use_sde sde_sample_freq rollout_buffer_class rollout_buffer_kwargs target_kl stats_window_size "
        "tensorboard_log policy_kwargs verbose seed device _init_setup_model"
    ).split()
    parameters = inspect.signature(PPO).parameters
    assert [name for name, p in parameters.items() if p.kind is not p.KEYWORD_ONLY] == positional
    defaults = {name: p.default for name, p in parameters.items()}
    want = {
        "learning_rate": 3e-4, "n_steps": 2048, "batch_size": 64, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95, "clip_range": 0.2,
        "clip_range_vf": None, "normalize_advantage": True, "ent_coef": 0.0, "vf_coef": 0.5, "max_grad_norm": 0.5, "target_kl": None,
        "stats_window_size": 100,
    }  # fmt: skip
    assert {name: defaults[name] for name in want} == want


def test_signature_equals_that_of_installed_stable_baselines3():
    theirs = pytest.importorskip("stable_baselines3").PPO
    wanted = {name: p.default for name, p in inspect.signature(theirs).parameters.items()}
    mine = {name: p.default for name, p in inspect.signature(PPO).parameters.items() if p.kind is not p.KEYWORD_ONLY}
    assert list(wanted) == list(mine) and wanted == mine


def test_clip_ranges_are_numbers_or_schedules():
    assert settings({"clip_range": 0.1}) == {"clip_range": 0.1, "clip_range_schedule": None}
    assert settings({"clip_range": linear(0.2)}) == {"clip_range": 0.2, "clip_range_schedule": "0.0:0.2,1.0:0"}
    assert settings({"clip_range_vf": None}) == {"clip_range_vf": None, "clip_range_vf_schedule": None}
    assert settings({"clip_range_vf": lambda left: 0.2 * left}) == {"clip_range_vf": 0.2, "clip_range_vf_schedule": "0.0:0.2,1.0:0"}
    with small(clip_range=linear(0.2), clip_range_vf=0.3) as model:
        model.learn(128)
        assert model.stats["clip_range"] == 0 and model.stats["clip_range_vf"] == 0.3
    with pytest.raises(ConfigError, match="clip_range: 'wide', must be a number"):
        small(clip_range="wide")
    with pytest.raises(ConfigError, match="clip_range: -1, must be 0 to"):
        small(clip_range=-1)
    with pytest.raises(ConfigError, match="^clip_range: None, must be a number"):  # None is for clip_range_vf alone
        small(clip_range=None)


@pytest.mark.parametrize("cls", [PPO, APPO])
def test_a_schedule_without_a_number_is_a_clip_range(cls, tmp_path):
    config = Config(cls.METHOD)
    config.set("clip_range_vf_schedule", "0:0.2,1:0.1")
    config.set("n_steps", 32)
    with cls.__new__(cls) as model:
        model._build(config, "CartPole-v1", {}, keep=True)
        model.learn(32)
        model.save(tmp_path / "model")
    with cls.load(tmp_path / "model") as model:
        assert [model.clip_range_vf(left) for left in (1, 0.5, 0)] == pytest.approx([0.2, 0.15, 0.1])


@pytest.mark.parametrize("cls", [PPO, APPO])
def test_clip_ranges_are_functions_of_the_remaining_progress(cls, tmp_path):
    """As in stable-baselines3, also for a constant."""
    for value, at_half in ((0.1, 0.1), ((0.2, 0.1), 0.15), (linear(0.2), 0.1), (lambda left: 0.2 * left**2, 0.05)):
        with cls("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=16, clip_range=value, clip_range_vf=value) as model:
            model.save(tmp_path / "model")
            assert [clip(0.5) for clip in (model.clip_range, model.clip_range_vf)] == pytest.approx([at_half] * 2)
        with cls.load(tmp_path / "model") as model:
            assert [clip(0.5) for clip in (model.clip_range, model.clip_range_vf)] == pytest.approx([at_half] * 2, rel=1e-3)
            with pytest.raises(AttributeError, match="clip_range: read-only, is given when the model is made"):
                model.clip_range = 0.1
    with cls("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=16) as model:
        assert model.clip_range(model._current_progress_remaining) == 0.2 and model.clip_range_vf is None


def test_n_updates_is_counted_as_in_stable_baselines3(tmp_path):
    """_n_updates counts the passes over a rollout in PPO and the rollouts in A2C. target_kl skips
    passes.
    """
    keywords = {"n_steps": 16, "batch_size": 8, "num_envs": 2, "n_epochs": 3, "seed": 1}
    with PPO("MlpPolicy", "CartPole-v1", **keywords) as model:
        model.set_logger(configure(tmp_path, ["csv"]))
        model.learn(5 * 32)
        assert model._n_updates == model.stats["epochs"] == 5 * 3 and model.stats["updates"] == 5 * 3 * 4
        model.logger.close()
    rows = list(csv.DictReader((tmp_path / "progress.csv").open()))
    assert [float(row["train/n_updates"]) for row in rows if row["train/n_updates"]][-1] in (4 * 3, 5 * 3)
    with PPO("MlpPolicy", "CartPole-v1", **keywords, target_kl=1e-9) as model:
        model.learn(5 * 32)
        assert model._n_updates == 5  # one pass was started in each rollout
    with A2C("MlpPolicy", "CartPole-v1", seed=1) as model:
        model.learn(100)
        assert model._n_updates == model.stats["updates"] == 20


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"use_sde": True}, "use_sde: True, must be False"),
        ({"rollout_buffer_class": dict}, "rollout_buffer_class"),
        ({"target_kl_check": "step"}, 'target_kl_check: "step", must be minibatch, epoch'),
        ({"batch_size": 0}, "batch_size: 0, must be 1 to"),
        ({"n_epochs": 0}, "n_epochs: 0, must be 1 to"),
        ({"n_steps": 1, "num_envs": 1}, "n_steps: 1, must be more with num_envs 1 and normalize_advantage"),
        ({"policy_kwargs": {"optimizer_class": "SGD"}}, "must be RMSprop, RMSpropTFLike or Adam"),
        ({"policy_kwargs": {"optimizer_kwargs": {"alpha": 0.5}}}, r"\['alpha'\]: given, must be left out with Adam"),
    ],
)
def test_unsupported_keywords_are_refused(keywords, says):
    with pytest.raises(ConfigError, match=says):
        small(**keywords)


def test_keywords_of_other_methods_name_the_method():
    with pytest.raises(TypeError, match="'buffer_size': only DQN and Gorila have a replay memory and a target network"):
        small(buffer_size=1000)


def test_every_setting_is_a_keyword_or_explained():
    by_others = {
        "env", "env_options", "learning_rate_final", "learning_rate_schedule", "clip_range_schedule", "clip_range_vf_schedule", "autoreset",
        "normalize_images", "host_data", "net_arch_pi", "net_arch_vf", "trunk", "activation_fn", "ortho_init", "log_std_init",
        "use_rms_prop",
        "rms_prop_alpha", "rms_prop_eps", "rms_prop_eps_inside", "rms_prop_first", "adam_eps",
    }  # fmt: skip
    assert {s.name for s in describe("ppo")} - by_others <= set(PPO.keywords())


def test_python_defaults_equal_the_library_defaults():
    defaults = {name: p.default for name, p in inspect.signature(PPO).parameters.items()}
    for setting in describe("ppo"):
        mine = defaults.get(setting.name)
        if mine is None or setting.name in ("policy", "env"):
            continue
        config = Config("ppo")
        config.set(setting.name, mine)
        assert config.get(setting.name) == setting.default, setting.name
        config.close()


def test_odd_minibatch_sizes_give_one_warning():
    with pytest.warns(PacelineWarning, match="batch_size: 24 does not divide n_steps .* a minibatch of 8 steps"), small(batch_size=24) as m:
        assert m.learn(32).stats["updates"] == 3 * 2
    with pytest.warns(PacelineWarning, match="batch_size: 64 is more than .* whole rollouts of 32 steps"), small(batch_size=64) as m:
        assert m.batch_size == 32 and m.learn(32).stats["updates"] == 3


@pytest.mark.parametrize(
    "cls, keywords, want",
    [
        (PPO, {"policy_kwargs": {"optimizer_class": "Adam"}}, {"adam_eps": 1e-5}),
        (PPO, {"policy_kwargs": {"optimizer_kwargs": None}}, {"adam_eps": 1e-5}),
        (PPO, {"policy_kwargs": {"optimizer_kwargs": {}}}, {"adam_eps": 1e-8}),
        (PPO, {"policy_kwargs": {"optimizer_kwargs": {"weight_decay": 0}}}, {"adam_eps": 1e-8}),
        (PPO, {"policy_kwargs": {"optimizer_class": "RMSprop"}}, {"rms_prop_eps": 1e-8}),
        (A2C, {"policy_kwargs": {"optimizer_class": "RMSpropTFLike", "optimizer_kwargs": {"alpha": 0.9}}}, {"rms_prop_eps": 1e-8}),
        (A2C, {"policy_kwargs": {"optimizer_class": "RMSprop", "optimizer_kwargs": {"eps": 1e-4}}}, {"rms_prop_eps": 1e-4}),
        (A2C, {"policy_kwargs": {"optimizer_class": "RMSprop"}, "rms_prop_eps": 1e-3}, {"rms_prop_eps": 1e-3}),
        (A2C, {"policy_kwargs": {"optimizer_kwargs": {"alpha": 0.9}}}, {"rms_prop_eps": 1e-5}),
        (A2C, {"policy_kwargs": {"optimizer_kwargs": {}}, "use_rms_prop": False}, {"adam_eps": 1e-8}),
    ],
)
def test_eps_is_that_of_stable_baselines3(cls, keywords, want):
    with cls("MlpPolicy", "CartPole-v1", **keywords) as model:
        assert {name: getattr(model, name) for name in want} == want


@pytest.mark.parametrize("cls, optimizer, eps", [(PPO, "RMSprop", "rms_prop_eps"), (A2C, "Adam", "adam_eps")])
def test_optimizer_kwargs_of_load_are_those_of_the_files_optimizer(tmp_path, cls, optimizer, eps):
    path = tmp_path / "model.zip"
    with cls("MlpPolicy", "CartPole-v1", policy_kwargs={"optimizer_class": optimizer}) as model:
        model.save(path)
    with cls.load(path, policy_kwargs={"optimizer_kwargs": {"eps": 1e-3}}) as model:
        assert getattr(model, eps) == 1e-3
    alpha = {"optimizer_kwargs": {"alpha": 0.5}}
    if optimizer == "RMSprop":
        with cls.load(path, policy_kwargs=alpha) as model:
            assert model.rms_prop_alpha == 0.5
    else:
        with pytest.raises(ConfigError, match=r"\['alpha'\]: given, must be left out with Adam"):
            cls.load(path, policy_kwargs=alpha)


# ---------------------------------------------------------------- learning


def test_learn_counts_and_reports():
    with small() as model:
        stats = model.learn(320).stats
        assert stats["rollouts"] == 10 and stats["updates"] == stats["updates_due"] == 10 * 3 * 2
        assert math.isfinite(stats["loss"]) and 0 < -stats["entropy_loss"] <= math.log(2) + 1e-6
        assert stats["approx_kl"] >= 0 and 0 <= stats["clip_fraction"] <= 1 and stats["clip_range"] == 0.2
        assert "clip_range_vf" not in stats


def test_target_kl_ends_updates():
    with small(target_kl=1e-9) as model:
        # In the first minibatch of an update the policy is the one that acted, so its KL is 0.
        assert model.learn(320).stats["updates"] == 10
        assert model.stats["rollouts"] == 10
    with small(target_kl=1e-9, target_kl_check="epoch") as model:
        assert model.learn(320).stats["updates"] == 10 * 2


def weights(steps=320, **keywords):
    with small(**keywords) as model:
        return model.learn(steps).hashes().weights


def test_every_keyword_changes_the_weights():
    results = [
        weights(**keywords)
        for keywords in (
            {}, {"n_steps": 16}, {"batch_size": 8}, {"n_epochs": 4}, {"gamma": 0.9}, {"gae_lambda": 0.9}, {"clip_range": 0.01},
            {"clip_range_vf": 0.01}, {"clip_range_vf": 0.01, "clip_range_vf_largest": True}, {"normalize_advantage": False},
            {"ent_coef": 0.1}, {"vf_coef": 0.25}, {"max_grad_norm": None}, {"target_kl": 0.001}, {"learning_rate": (1e-2, 0.0)},
            {"policy_kwargs": {"net_arch": [16], "optimizer_class": "RMSprop"}}, {"precision": "bf16"},
        )
    ]  # fmt: skip
    assert len(set(results)) == len(results)
    assert {weights(num_threads=n) for n in (1, 2)} == {results[0]}


def test_same_step_and_disabled_agree_in_environments_stepped_from_python():
    def run(env):
        with PPO("MlpPolicy", env, **TINY) as model:
            model.learn(320)
            return model.hashes(), model.stats["rollouts"], model.num_timesteps

    same, disabled, following = (
        run(vector(mode, 2)) for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP)
    )
    assert same == disabled and same[1:] == (20, 320)
    # In NEXT_STEP a round that resets is no step, so more rounds are needed.
    assert following[0] != same[0] and following[1] > 20 and following[2] == 320


@pytest.mark.parametrize("mode", MODES)
def test_a_rollout_is_n_steps_rounds_in_every_mode(mode):
    class Count(BaseCallback):
        def __init__(self):
            super().__init__()
            self.ends = []

        def _on_rollout_end(self):
            self.ends.append(self.n_calls)

    with PPO("MlpPolicy", vector(mode, 3), **TINY, target_kl=1e-9) as model:
        model.learn(90, count := Count())
        assert count.ends[:-1] == list(range(8, count.ends[-1], 8)) and len(count.ends) >= 3


@pytest.mark.slow
def test_tuned_preset_learns_cartpole():
    for seed in (1, 2):
        with PPO.from_preset("tuned", "CartPole-v1", seed=seed) as model:
            model.learn(40_000)
            assert model.evaluate(episodes=20, seed=5).mean_return > 150


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_tuned_preset_solves_pendulum(seed):
    with PPO.from_preset("tuned", "Pendulum-v1", seed=seed) as model:
        model.learn(100_000)
        assert model.evaluate(episodes=100, seed=seed).mean_return >= -200


@pytest.mark.slow
def test_a_run_stopped_inside_an_update_continues_with_the_same_bits(tmp_path):
    """A run that is stopped in a long update, saved and continued equals an uninterrupted run.

    The stopped model and the loaded model continue.
    """
    heavy = {**TINY, "n_steps": 128, "batch_size": 32, "n_epochs": 40, "policy_kwargs": {"net_arch": [512, 512]}, "num_envs": 4}
    with PPO("MlpPolicy", "CartPole-v1", **heavy) as model:
        whole = model.learn(1024).hashes()
        updates = model.stats["updates"]
    with PPO("MlpPolicy", "CartPole-v1", **heavy) as model:

        def stop():
            while model.stats["updates"] == 0:
                time.sleep(0.01)
            model.stop()

        stopper = threading.Thread(target=stop)
        stopper.start()
        model.learn(1024)
        stopper.join()
        # An epoch has 16 minibatches: the update is unfinished, and reading stats does not finish
        # it.
        done = model.stats["updates"]
        assert 0 < done < updates and done % (16 * 40)
        model.save(tmp_path / "half", replay=True)
        assert model.stats["updates"] == done
        left = 1024 - model.num_timesteps
        with PPO.load(tmp_path / "half") as other:
            assert other.stats["updates"] == done
            for m in (model, other):
                if left:
                    m.learn(left, reset_num_timesteps=False)
                else:
                    m.hashes()
            assert model.hashes() == other.hashes() == whole


@pytest.mark.parametrize("first", [96, 100])
def test_a_resumed_run_equals_an_uninterrupted_run(tmp_path, first):
    whole = weights(640, clip_range=linear(0.2))
    with small(clip_range=linear(0.2)) as model:
        model.learn(640, callback=lambda locals, globals: model.num_timesteps < first)
        model.save(tmp_path / "half", replay=True)
        at = model.num_timesteps
    with PPO.load(tmp_path / "half") as model:
        model.learn(640 - at, reset_num_timesteps=False)
        assert model.hashes().weights == whole
    with pytest.raises(ConfigError, match="a run of 'ppo', must be of 'a2c'"):
        A2C.load(tmp_path / "half")


def test_records_have_the_keys_of_stable_baselines3(capsys):
    with small(verbose=1) as model:
        model.learn(96)
    out = capsys.readouterr().out
    assert re.findall(r"iterations +\| (\d+)", out) == ["1", "2", "3"]
    for key in (
        "ep_rew_mean", "fps", "total_timesteps", "approx_kl", "clip_fraction", "clip_range", "entropy_loss", "explained_variance",
        "learning_rate", "loss", "n_updates", "policy_gradient_loss", "value_loss",
    ):  # fmt: skip
        assert f"|    {key} " in out, key
    assert "|    std " not in out


@pytest.mark.parametrize("model_class", [PPO, A2C])
def test_records_of_box_actions_have_the_standard_deviation(model_class, capsys):
    with model_class("MlpPolicy", "Pendulum-v1", n_steps=64, seed=1, verbose=1, policy_kwargs={"log_std_init": -1.0}) as model:
        model.learn(640, log_interval=1)
        std = float(np.exp(model.get_parameters()["policy"]["log_std"]).mean())
        assert model.stats["std"] == pytest.approx(std, rel=1e-6)
    assert re.search(r"\|    std  +\| 0\.\d", capsys.readouterr().out)


# ------------------------------------------------- stable-baselines3's files


def test_a_loaded_sb3_file_acts_the_same(tmp_path):
    theirs = pytest.importorskip("stable_baselines3")
    reference = theirs.PPO("MlpPolicy", "CartPole-v1", n_steps=64, n_epochs=2, clip_range=0.1, seed=0).learn(128)
    reference.save(tmp_path / "theirs")
    obs = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    with PPO.load(tmp_path / "theirs") as model:
        np.testing.assert_array_equal(reference.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0])
        assert (model.n_steps, model.n_epochs, model.clip_range(0.5), model.clip_range_vf) == (64, 2, 0.1, None)
        torch = pytest.importorskip("torch")
        with torch.no_grad():
            mine, value = model.policy.get_distribution(torch.as_tensor(obs)), model.policy.predict_values(torch.as_tensor(obs))
            np.testing.assert_array_equal(
                mine.distribution.logits, reference.policy.get_distribution(torch.as_tensor(obs)).distribution.logits
            )
            np.testing.assert_array_equal(value, reference.policy.predict_values(torch.as_tensor(obs)))


def test_schedules_of_an_sb3_file_are_read():
    from paceline.compat._sb3_file import _scheduled

    assert _scheduled({"value_schedule": "ConstantSchedule(val=0.2)"}) == 0.2
    assert _scheduled({"value_schedule": "LinearSchedule(start=0.001, end=1e-05, end_fraction=1.0)"}) == (0.001, 1e-5)
    assert _scheduled({"value_schedule": "LinearSchedule(start=0.001, end=1e-05, end_fraction=0.1)"}) is None
    assert _scheduled({":type:": "function"}) is None


def test_only_checkpoints_inside_an_update_have_update_json(tmp_path):
    """Files saved outside an update do not change."""
    with small() as model:
        model.learn(64)
        model.save(tmp_path / "a", replay=True)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert "update.json" not in archive.namelist()
