"""PPO on built-in environments and on Gymnasium's: keywords, minibatches, records, files, masks.

What it shares with A2C is in test_a2c.py.
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
from paceline import A2C, PPO, linear
from paceline.callbacks import BaseCallback
from paceline.config import Config, describe
from paceline.errors import ConfigError, PacelineWarning
from paceline.logger import configure
from paceline.ppo import settings

TINY = {"seed": 7, "policy_kwargs": {"net_arch": [16]}, "n_steps": 8, "batch_size": 16, "n_epochs": 3, "learning_rate": 0.01}


def small(**keywords):
    return PPO("MlpPolicy", "CartPole-v1", **{**TINY, "num_envs": 4, **keywords})


# ---------------------------------------------------------------- keywords


def test_the_constructor_is_stable_baselines3s():
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


def test_against_stable_baselines3s_signature():
    theirs = pytest.importorskip("stable_baselines3").PPO
    wanted = {name: p.default for name, p in inspect.signature(theirs).parameters.items()}
    mine = {name: p.default for name, p in inspect.signature(PPO).parameters.items() if p.kind is not p.KEYWORD_ONLY}
    assert list(wanted) == list(mine) and wanted == mine


def test_ranges_are_numbers_or_schedules():
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


def test_updates_as_stable_baselines3_counts_them(tmp_path):
    """Its PPO counts passes over a rollout, of which target_kl may leave some out; its A2C counts rollouts."""
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
        assert model._n_updates == 5  # one begun for each rollout
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
    ],
)
def test_what_is_not_built_is_refused(keywords, says):
    with pytest.raises(ConfigError, match=says):
        small(**keywords)


def test_keywords_of_other_methods_say_whose_they_are():
    with pytest.raises(TypeError, match="'buffer_size': the replay memory and the target network are DQN's alone"):
        small(buffer_size=1000)


def test_every_setting_is_a_keyword_or_explained():
    by_others = {
        "env", "env_options", "learning_rate_final", "learning_rate_schedule", "clip_range_schedule", "clip_range_vf_schedule", "autoreset",
        "normalize_images", "host_data", "net_arch_pi", "net_arch_vf", "trunk", "activation_fn", "ortho_init",
        "use_rms_prop",
        "rms_prop_alpha", "rms_prop_eps", "rms_prop_eps_inside", "rms_prop_first", "adam_eps",
    }  # fmt: skip
    assert {s.name for s in describe("ppo")} - by_others <= set(PPO.keywords())


def test_python_defaults_are_the_librarys():
    defaults = {name: p.default for name, p in inspect.signature(PPO).parameters.items()}
    for setting in describe("ppo"):
        mine = defaults.get(setting.name)
        if mine is None or setting.name in ("policy", "env"):
            continue
        config = Config("ppo")
        config.set(setting.name, mine)
        assert config.get(setting.name) == setting.default, setting.name
        config.close()


def test_odd_sizes_of_minibatches_are_said_once():
    with pytest.warns(PacelineWarning, match="batch_size: 24 does not divide n_steps .* a minibatch of 8 steps"), small(batch_size=24) as m:
        assert m.learn(32).stats["updates"] == 3 * 2
    with pytest.warns(PacelineWarning, match="batch_size: 64 is more than .* whole rollouts of 32 steps"), small(batch_size=64) as m:
        assert m.batch_size == 32 and m.learn(32).stats["updates"] == 3


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
        # The first minibatch of an update is of the policy that acted.
        assert model.learn(320).stats["updates"] == 10
        assert model.stats["rollouts"] == 10
    with small(target_kl=1e-9, target_kl_check="epoch") as model:
        assert model.learn(320).stats["updates"] == 10 * 2


def weights(steps=320, **keywords):
    with small(**keywords) as model:
        return model.learn(steps).hashes().weights


def test_keywords_change_what_is_learnt():
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


def test_environments_stepped_from_python():
    def run(env):
        with PPO("MlpPolicy", env, **TINY) as model:
            model.learn(320)
            return model.hashes(), model.stats["rollouts"], model.num_timesteps

    same, disabled, following = (
        run(vector(mode, 2)) for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP)
    )
    assert same == disabled and same[1:] == (20, 320)
    # In NEXT_STEP a round that resets is no step, so that more rounds are needed.
    assert following[0] != same[0] and following[1] > 20 and following[2] == 320


@pytest.mark.parametrize("mode", MODES)
def test_rollouts_are_counted_in_rounds(mode):
    class Count(BaseCallback):
        def __init__(self):
            super().__init__()
            self.ends = []

        def _on_rollout_end(self):
            self.ends.append(self.n_calls)

    with PPO("MlpPolicy", vector(mode, 3), **TINY, target_kl=1e-9) as model:
        model.learn(90, count := Count())
        assert count.ends[:-1] == list(range(8, count.ends[-1], 8)) and len(count.ends) >= 3


def test_it_learns():
    for seed in (1, 2):
        with PPO.from_preset("tuned", "CartPole-v1", seed=seed) as model:
            model.learn(40_000)
            assert model.evaluate(episodes=20, seed=5).mean_return > 150


@pytest.mark.slow
def test_a_stop_is_heard_in_mid_update_and_nothing_is_lost(tmp_path):
    """An update of some seconds, stopped, saved, and continued in both: the bits of a run that was not stopped."""
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
        # 16 minibatches an epoch: the update was in progress, and is not finished for a look.
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
def test_save_and_resume_bit_for_bit(tmp_path, first):
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


def test_records_have_stable_baselines3s_keys(capsys):
    with small(verbose=1) as model:
        model.learn(96)
    out = capsys.readouterr().out
    assert re.findall(r"iterations +\| (\d+)", out) == ["1", "2", "3"]
    for key in (
        "ep_rew_mean", "fps", "total_timesteps", "approx_kl", "clip_fraction", "clip_range", "entropy_loss", "explained_variance",
        "learning_rate", "loss", "n_updates", "policy_gradient_loss", "value_loss",
    ):  # fmt: skip
        assert f"|    {key} " in out, key


# ------------------------------------------------- stable-baselines3's files


def test_a_file_of_stable_baselines3(tmp_path):
    theirs = pytest.importorskip("stable_baselines3")
    reference = theirs.PPO("MlpPolicy", "CartPole-v1", n_steps=64, n_epochs=2, clip_range=0.1, seed=0).learn(128)
    reference.save(tmp_path / "theirs")
    obs = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    with PPO.load(tmp_path / "theirs") as model:
        np.testing.assert_array_equal(reference.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0])
        assert (model.n_steps, model.n_epochs, model.clip_range, model.setting("clip_range_vf")) == (64, 2, 0.1, "")
        torch = pytest.importorskip("torch")
        with torch.no_grad():
            mine, value = model.policy.get_distribution(torch.as_tensor(obs)), model.policy.predict_values(torch.as_tensor(obs))
            np.testing.assert_array_equal(
                mine.distribution.logits, reference.policy.get_distribution(torch.as_tensor(obs)).distribution.logits
            )
            np.testing.assert_array_equal(value, reference.policy.predict_values(torch.as_tensor(obs)))


def test_schedules_of_such_a_file():
    from paceline.compat._sb3_file import _scheduled

    assert _scheduled({"value_schedule": "ConstantSchedule(val=0.2)"}) == 0.2
    assert _scheduled({"value_schedule": "LinearSchedule(start=0.001, end=1e-05, end_fraction=1.0)"}) == (0.001, 1e-5)
    assert _scheduled({"value_schedule": "LinearSchedule(start=0.001, end=1e-05, end_fraction=0.1)"}) is None
    assert _scheduled({":type:": "function"}) is None


def test_a_checkpoint_in_mid_update_has_a_part_for_it(tmp_path):
    """So that files of other moments stay as they are."""
    with small() as model:
        model.learn(64)
        model.save(tmp_path / "a", replay=True)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert "update.json" not in archive.namelist()
