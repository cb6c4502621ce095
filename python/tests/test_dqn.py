"""DQN on built-in environments: learning, acting, files, weights, callbacks."""

import os
import subprocess
import sys
import threading
import time
import warnings
import zipfile

import numpy as np
import pytest

from envs import SMALL
from paceline import DQN, Policy
from paceline.callbacks import BaseCallback, CheckpointCallback, EvalCallback, StopTrainingOnRewardThreshold
from paceline.errors import (
    BusyError,
    CheckpointError,
    ConfigError,
    HandleError,
    NotFiniteError,
    OutOfMemoryError,
    PacelineError,
    PacelineWarning,
)


def small(**keywords):
    return DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "num_envs": 2, **keywords})


def test_learn_counts_and_reports():
    with small() as model:
        assert model.learn(400) is model
        stats = model.stats
        assert model.num_timesteps == stats["num_timesteps"] == 400
        assert stats["updates"] == (400 - 64) // 4 and stats["updates"] == stats["updates_due"]
        assert stats["episodes"] > 0 and np.isfinite(stats["loss"]) and stats["mean_return"] > 0
        assert stats["replay_size"] > 0 and 0.05 <= model.exploration_rate <= 1


def test_a_seed_gives_one_result_for_any_number_of_threads():
    results = set()
    for threads in (1, 2, 4):
        with small(num_envs=4, num_threads=threads) as model:
            results.add(model.learn(600).hashes())
    assert len(results) == 1
    with small(num_envs=4, seed=8) as model:
        assert model.learn(600).hashes() not in results


def test_bf16_is_saved_and_stays_close_to_fp32(tmp_path):
    with small() as model, small(precision="bf16") as rough:
        assert model.setting("precision") == "fp32"
        fine, coarse = model.learn(400).hashes(), rough.learn(400).hashes()
        assert fine.weights != coarse.weights
        rough.save(tmp_path / "model")
        with DQN.load(tmp_path / "model") as again, DQN.load(tmp_path / "model", precision="fp32") as other:
            assert again.setting("precision") == "bf16"
            obs = np.linspace(-1, 1, 40, dtype=np.float32).reshape(10, 4)
            q16, q32 = (m.policy_snapshot().q_values(obs) for m in (again, other))
        np.testing.assert_allclose(q16, q32, rtol=0.05, atol=0.05 * np.abs(q32).max())
        assert (q16 != q32).any()
    with pytest.raises(ConfigError, match='precision: "fp8", must be fp32, bf16'):
        small(precision="fp8")


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("synchronized", [False, True])
def test_every_mode_does_the_same_number_of_updates(concurrent, synchronized):
    with small(concurrent=concurrent, synchronized=synchronized) as model:
        model.learn(300)
        assert model.stats["updates"] == (300 - 64) // 4


def test_cnn_policy_learns_from_built_in_images():
    keywords = {k: v for k, v in SMALL.items() if k != "policy_kwargs"}
    with DQN("CnnPolicy", "Catch-v0", **keywords, num_envs=2) as model:
        model.learn(120)
        assert model.stats["updates"] == 14
        assert model.observation_space.shape == (4, 84, 84) and model.action_space.n == 3
        weights = model.get_parameters()["policy"]
        assert weights["q_net.features_extractor.cnn.0.weight"].shape == (32, 4, 8, 8)
        assert weights["q_net_target.features_extractor.linear.0.weight"].shape == (512, 3136)


def test_learn_continues_or_restarts_the_run():
    with small() as model:
        model.learn(200)
        model.learn(200, reset_num_timesteps=False)
        assert model.num_timesteps == 400
        model.learn(100)
        assert model.num_timesteps == 100


def test_predict_returns_the_greedy_actions():
    with small(exploration_final_eps=0.0, exploration_steps=1) as model:
        model.learn(200)
        one = np.zeros(4, np.float32)
        action, state = model.predict(one, deterministic=True)
        assert action.shape == () and action in (0, 1) and state is None
        batch = np.random.default_rng(0).normal(size=(5, 4))
        actions, _ = model.predict(batch, deterministic=True)
        assert actions.shape == (5,)
        np.testing.assert_array_equal(actions, model.predict(batch)[0])  # epsilon is 0
        with model.policy_snapshot() as policy:
            values = policy.q_values(batch)
            assert values.shape == (5, 2)
            np.testing.assert_array_equal(values.argmax(1), actions)
            np.testing.assert_array_equal(values[2], policy.q_values(batch[2]))


def test_predict_explores_unless_deterministic():
    with small(exploration_final_eps=1.0) as model:
        model.learn(10)
        actions, _ = model.predict(np.zeros((200, 4), np.float32))
        assert 60 < actions.sum() < 140
        assert model.predict(np.zeros((200, 4)), deterministic=True)[0].std() == 0


def test_predict_uses_weights_that_were_set():
    with small() as model:
        obs = np.random.default_rng(0).normal(size=(20, 4))
        for favourite in (0, 1):
            weights = model.get_parameters()
            weights["policy"]["q_net.q_net.2.weight"][:] = 0
            weights["policy"]["q_net.q_net.2.bias"][:] = np.eye(2)[favourite]
            model.set_parameters(weights)
            assert (model.predict(obs, deterministic=True)[0] == favourite).all()


def test_parameters_are_read_and_set_by_name():
    with small() as model:
        model.learn(100)
        weights = model.get_parameters()["policy"]
        names = [f"{net}.q_net.{layer}.{kind}" for net in ("q_net", "q_net_target") for layer in (0, 2) for kind in ("weight", "bias")]
        assert list(weights) == names
        assert weights["q_net.q_net.0.weight"].shape == (16, 4) and weights["q_net.q_net.0.weight"].dtype == np.float32
        changed = {name: value + 1 for name, value in weights.items()}
        model.set_parameters({"policy": changed})
        for name, value in model.get_parameters()["policy"].items():
            np.testing.assert_array_equal(value, changed[name])
        one = {"policy": {"q_net.q_net.2.bias": [5, 6]}}
        with pytest.raises(ConfigError, match="missing"):
            model.set_parameters(one)
        model.set_parameters(one, exact_match=False)
        assert model.get_parameters()["policy"]["q_net.q_net.2.bias"].tolist() == [5, 6]
        with pytest.raises(ConfigError, match=r"q_net.q_net.2.bias'\]: shape \(3,\), must be \(2,\)"):
            model.set_parameters({"policy": {"q_net.q_net.2.bias": [1, 2, 3]}}, exact_match=False)
        with pytest.raises(ConfigError, match="policy.other"):
            model.set_parameters({"policy": changed, "policy.other": {}})
        with pytest.raises(PacelineError, match="finite"):
            model.set_parameters({"policy": {"q_net.q_net.2.bias": [1, np.nan]}}, exact_match=False)
        with small(distribution="quantile") as other:
            for arrays in (other.get_parameters(), other.get_parameters()["policy"]):
                with pytest.raises(ConfigError, match="^parameters: "):
                    model.set_parameters(arrays, exact_match=False)


def test_a_loaded_model_acts_the_same_and_continues(tmp_path):
    path = tmp_path / "model.paceline"
    obs = np.random.default_rng(0).normal(size=(50, 4))
    with small() as model:
        model.learn(300)
        model.save(path)
        actions = model.predict(obs, deterministic=True)[0]
        weights, hashes = model.get_parameters()["policy"], model.hashes()
    with DQN.load(path) as again:
        assert again.num_timesteps == 300 and again.setting("batch_size") == "8"
        assert again.hashes()[1:] == hashes[1:]
        np.testing.assert_array_equal(again.predict(obs, deterministic=True)[0], actions)
        for name, value in again.get_parameters()["policy"].items():
            np.testing.assert_array_equal(value, weights[name])
        again.learn(200, reset_num_timesteps=False)
        assert again.num_timesteps == 500
    with Policy.load(path) as policy:
        np.testing.assert_array_equal(policy.act(obs), actions)
        policy.save(tmp_path / "policy.paceline")
    with Policy.load(tmp_path / "policy.paceline") as policy:
        np.testing.assert_array_equal(policy.act(obs), actions)


def test_weights_are_safetensors(tmp_path):
    load = pytest.importorskip("safetensors.numpy").load
    path = tmp_path / "model.paceline"
    with small() as model:
        model.save(path)
        weights = model.get_parameters()["policy"]
    with zipfile.ZipFile(path) as archive:
        sets = ("q_net", "q_net_target")
        stored = {f"{s}.{name}": value for s in sets for name, value in load(archive.read(f"{s}.safetensors")).items()}
    assert stored.keys() == weights.keys()
    for name, value in stored.items():
        np.testing.assert_array_equal(value, weights[name])


@pytest.mark.parametrize("first", [320, 330, 333])  # at the ends of windows and inside one
def test_a_resumed_run_equals_an_uninterrupted_run(tmp_path, first):
    keywords = {"num_envs": 2, "exploration_steps": 300, "learning_rate": 1e-3}
    with small(**keywords) as model:
        whole = model.learn(640).hashes()
    with small(**keywords) as model:
        model.learn(first)
        model.save(tmp_path / "half", replay=True)
    with DQN.load(tmp_path / "half") as model:
        model.learn(640 - model.num_timesteps, reset_num_timesteps=False)
        assert model.num_timesteps == 640
        assert model.hashes() == whole


def test_bad_checkpoints_are_refused(tmp_path):
    path = tmp_path / "model.zip"
    with small() as model:
        model.learn(100)
        model.save(path, replay=True)
        whole = path.read_bytes()
        for name, content in {"empty": b"", "truncated": whole[: len(whole) // 2], "foreign": b"PK\x03\x04 nonsense" * 50}.items():
            bad = tmp_path / name
            bad.write_bytes(content)
            with pytest.raises(PacelineError) as caught:
                DQN.load(bad)
            assert name in str(caught.value) and "\n" not in str(caught.value)
        with pytest.raises(CheckpointError, match=r"nothing-here: no such file, and no .*nothing-here\.zip") as caught:
            DQN.load(tmp_path / "nothing-here")
        assert isinstance(caught.value, FileNotFoundError)
        with pytest.raises(OSError, match="model"):
            model.save(path / "model")
        assert model.num_timesteps == 100


def test_paths_that_are_no_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("folder", "folder.zip"):
        (tmp_path / name).mkdir()
    with small() as model:
        for path in ("", "logs/", ".."):
            with pytest.raises(ConfigError, match=f"^path: '{path}', must be a file$"):
                model.save(path)
        with pytest.raises(CheckpointError, match=r"^/dev/null/x\.zip: not written: "):
            model.save("/dev/null/x")
    for path in ("folder", "folder.zip", "/dev/null"):
        with pytest.raises(CheckpointError, match="a folder or a device, must be a file$") as caught:
            DQN.load(path, env="CartPole-v1")
        assert not isinstance(caught.value, FileNotFoundError)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "folder.zip"]


def test_full_disk_keeps_the_old_file(tmp_path):
    with small() as model:
        model.save(tmp_path / "model")
        before = (tmp_path / "model.zip").read_bytes()
        with pytest.raises(OSError):
            model.save("/dev/full/model")
        assert (tmp_path / "model.zip").read_bytes() == before
        model.learn(100)


def test_presets_set_values_and_keywords_override_them():
    with DQN.from_preset("tuned", "CartPole-v1", num_envs=4, seed=3, exploration_fraction=0.3, learning_rate=1e-4) as model:
        settings = {
            name: model.setting(name) for name in ("net_arch", "num_envs", "seed", "exploration_steps", "learning_rate_final", "batch_size")
        }
        assert settings == {
            "net_arch": "128,128", "num_envs": "4", "seed": "3", "exploration_steps": "0", "learning_rate_final": "", "batch_size": "64",
        }  # fmt: skip
    with pytest.raises(ConfigError, match="tuned"):
        DQN.from_preset("tuned", "Nothing-v0")
    with pytest.raises(TypeError, match="batchsize"):
        DQN.from_preset("tuned", "CartPole-v1", batchsize=3)


def test_evaluations_store_the_best_policy():
    with small() as model:
        model.learn(400, eval_freq=100, n_eval_episodes=3)
        assert [step for step, _ in model.evaluations] == [100, 200, 300, 400]
        best = max(result.mean_return for _, result in model.evaluations)
        assert model.best_mean_return == best and model.best_policy is not None
        assert model.best_policy.evaluate("CartPole-v1", 2).episodes == 2
    assert model.best_policy.act(np.zeros(4)) in (0, 1)  # the policy outlives the model
    model.best_policy.close()


def test_evaluation_does_not_disturb_training():
    with small() as one, small() as two:
        assert one.learn(400, eval_freq=64).hashes() == two.learn(400).hashes()


def test_callbacks_are_called_every_step_and_end_learning():
    class Count(BaseCallback):
        calls = []

        def _on_training_start(self):
            self.calls.append("start")

        def _on_step(self):
            self.calls.append(self.num_timesteps)
            assert self.model.num_timesteps == self.num_timesteps and self.n_calls == len(self.calls) - 1
            return self.num_timesteps < 100

        def _on_training_end(self):
            self.calls.append("end")

    seen = []
    with small() as model:
        model.learn(400, [Count(), lambda locals_, globals_: seen.append(locals_["total_timesteps"])])
        assert Count.calls == ["start", *range(2, 101, 2), "end"] and model.num_timesteps == 100
        assert set(seen) == {400}


def test_callbacks_do_not_change_the_result():
    with small() as one, small() as two:
        assert one.learn(300, lambda *_: True).hashes() == two.learn(300).hashes()


def test_checkpoint_and_evaluation_callbacks_write_files(tmp_path):
    stop = StopTrainingOnRewardThreshold(1.0)
    evaluation = EvalCallback("CartPole-v1", stop, n_eval_episodes=2, eval_freq=150, best_model_save_path=tmp_path, verbose=0)
    with small() as model:
        model.learn(400, [CheckpointCallback(100, tmp_path / "saved"), evaluation])
        assert model.num_timesteps == 150
    assert [p.name for p in (tmp_path / "saved").iterdir()] == ["rl_model_100_steps.zip"]
    Policy.load(tmp_path / "best_model").close()
    DQN.load(tmp_path / "best_model").close()


def test_an_exception_in_a_callback_leaves_a_usable_model(tmp_path):
    def fail(locals_, globals_):
        raise RuntimeError("mine")

    with small() as model:
        with pytest.raises(RuntimeError, match="mine"):
            model.learn(300, fail)
        model.save(tmp_path / "model")
        model.learn(300, reset_num_timesteps=False)


def test_a_loss_that_is_not_finite_is_reported_with_its_step(tmp_path):
    with small() as model:
        huge = {name: np.full_like(value, 1e30) for name, value in model.get_parameters()["policy"].items()}
        model.set_parameters({"policy": huge})
        with pytest.raises(NotFiniteError, match=r"loss: .* at step \d+ \(update 1\)") as caught:
            model.learn(400)
        assert isinstance(caught.value, ValueError)  # rl-zoo prunes a trial of hyper-parameters after a ValueError
        model.save(tmp_path / "model")


def test_a_second_call_during_a_run_is_refused():
    from paceline import _lib

    with small() as model:
        model.learn(100)
        run = _lib.lib().paceline_trainer_run
        thread = threading.Thread(target=run, args=(None, model._native.value, 10**8, 20_000))
        thread.start()
        before = model.num_timesteps  # reads are always allowed
        while model.num_timesteps == before:
            time.sleep(0.001)
        with pytest.raises(BusyError):
            model.save("nowhere")
        with pytest.raises(BusyError):
            model.get_parameters()
        model.stop()
        thread.join()


def test_stop_from_another_thread_ends_learn():
    with small() as model:

        def stop():
            while model.num_timesteps == 0:
                time.sleep(0.001)
            model.stop()

        thread = threading.Thread(target=stop)
        thread.start()
        model.learn(10**9)
        assert 0 < model.num_timesteps < 10**9
        thread.join()
        model.learn(100)


def test_logs_have_the_keys_of_stable_baselines3(tmp_path, capsys):
    pytest.importorskip("tensorboard")
    with small(verbose=1, tensorboard_log=str(tmp_path)) as model:
        model.learn(300)
        model.learn(200)
    out = capsys.readouterr().out
    for key in ("ep_rew_mean", "ep_len_mean", "exploration_rate", "fps", "total_timesteps", "loss", "n_updates"):
        assert f"|    {key}" in out
    assert sorted(p.name for p in tmp_path.iterdir()) == ["DQN_1", "DQN_2"]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "DQN_1"))
    events.Reload()
    assert {"rollout/ep_rew_mean", "time/fps", "train/loss"} <= set(events.Tags()["scalars"])


def test_progress_bar_shows_epsilon_and_loss(capsys):
    with small() as model:
        model.learn(300, progress_bar=True)
    err = capsys.readouterr().err
    assert "300 / 300 steps" in err and "steps/s" in err and "epsilon" in err and "loss" in err


def test_closed_models_refuse_calls():
    model = small()
    policy = model.policy_snapshot()
    for thing in (model, policy, model):
        thing.close()
    for use in (lambda: model.learn(10), lambda: model.predict(np.zeros(4)), lambda: model.save("x"), lambda: model.stats,
                model.evaluate, model.get_env, lambda: model.replay_buffer.size()):  # fmt: skip
        with pytest.raises(HandleError, match="^model: closed$"):
            use()
    with pytest.raises(HandleError, match="^policy: closed$"):
        policy.act(np.zeros(4))


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"actor": "online"}, "actor: online, must be target or snapshot"),
        ({"gamma": 1.5}, "gamma: 1.5"),
        ({"window": 1}, "window: 1, must be at least num_envs"),
        ({"num_envs": 0}, "num_envs: 0"),
    ],
)
def test_bad_settings_are_refused(keywords, says):
    with pytest.raises(ConfigError, match=says):
        small(**keywords)


def test_bad_arguments_are_refused():
    with pytest.raises(ConfigError, match="CartPole-v1"):
        DQN("MlpPolicy", "CartPole-v7")
    with pytest.raises(ConfigError, match="env: builtins.int, must be the name"):
        DQN("MlpPolicy", 3)
    with pytest.raises(ConfigError, match="layers are fixed"):
        DQN("CnnPolicy", "Catch-v0", **SMALL)
    with pytest.raises(TypeError):
        DQN("MlpPolicy", "CartPole-v1", batchsize=3)
    with small() as model:
        with pytest.raises(ConfigError, match="total_timesteps: 0, must be a number, at least 1"):
            model.learn(0)
        with pytest.raises(ConfigError, match="which the library steps for this model"):
            model.set_env("Acrobot-v1")


def test_a_replay_memory_that_does_not_fit_is_refused():
    with pytest.raises(OutOfMemoryError, match="buffer_size|replay") as caught:
        DQN("CnnPolicy", "Catch-v0", buffer_size=10**9, learning_starts=100)
    assert isinstance(caught.value, MemoryError)
    assert sum(word[0].isdigit() for word in str(caught.value).replace("(", " ").split()) >= 2


def test_the_warm_up_lasts_at_least_a_minibatch():
    with pytest.warns(PacelineWarning, match="learning_starts: 0 is below batch_size and acts as 128"):
        model = small(learning_starts=0, batch_size=128)
    with model:
        model.learn(200, log_interval=None)
        assert model.setting("learning_starts") == "128" and model.stats["updates"] > 0


def test_notices_are_warnings():
    with pytest.warns(PacelineWarning, match="target_update_interval") as caught:
        DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "target_update_interval": 10}).close()
        DQN.from_preset("tuned", "CartPole-v1", target_update_interval=10).close()
    # the lines that made the models
    assert [warning.filename for warning in caught] == [__file__, __file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small().close()


def test_isa_portable_gives_one_result_on_every_path(tmp_path):
    """The weights do not depend on the processor's instructions. The setting is saved. Unknown
    settings are refused.
    """
    keywords = {**SMALL, "num_envs": 2, "policy_kwargs": {"net_arch": [64]}}
    with DQN("MlpPolicy", "CartPole-v1", isa="portable", **keywords) as model:
        weights = model.learn(400).hashes().weights
        model.save(tmp_path / "model")
    with DQN.load(tmp_path / "model") as again:
        assert again.setting("isa") == "portable"
    script = f"""
from paceline import DQN
for isa in "portable", "auto":
    with DQN("MlpPolicy", "CartPole-v1", isa=isa, **{keywords!r}) as model:
        print(model.learn(400).hashes().weights)
"""
    for path in "generic", "portable":
        environment = {**os.environ, "PACELINE_ISA": path}
        run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=True)
        assert run.stdout.split() == [weights, weights]
    with pytest.raises(ConfigError, match='isa: "fast", must be auto, portable'):
        small(isa="fast")
