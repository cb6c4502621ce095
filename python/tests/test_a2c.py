"""A2C on built-in and on Gymnasium environments: keywords, learning, acting, files, weights."""

import inspect
import math
import re

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import paceline
from envs import MODES, Counter, Image, vector
from paceline import A2C, DQN, Policy
from paceline.a2c import settings
from paceline.callbacks import BaseCallback, CheckpointCallback
from paceline.config import Config, describe
from paceline.errors import ConfigError, NotFiniteError

TINY = {"seed": 7, "policy_kwargs": {"net_arch": [16]}}
NETS = ("mlp_extractor.policy_net.0", "mlp_extractor.value_net.0", "action_net", "value_net")


def small(**keywords):
    return A2C("MlpPolicy", "CartPole-v1", **{**TINY, "num_envs": 4, **keywords})


# ---------------------------------------------------------------- keywords


def test_constructor_arguments_equal_those_of_stable_baselines3():
    positional = (
        "policy env learning_rate n_steps gamma gae_lambda ent_coef vf_coef max_grad_norm rms_prop_eps use_rms_prop use_sde "
        "sde_sample_freq rollout_buffer_class rollout_buffer_kwargs normalize_advantage stats_window_size tensorboard_log "
        "policy_kwargs verbose seed device _init_setup_model"
    ).split()
    parameters = inspect.signature(A2C).parameters
    assert [name for name, p in parameters.items() if p.kind is not p.KEYWORD_ONLY] == positional
    defaults = {name: p.default for name, p in parameters.items()}
    want = {
        "learning_rate": 7e-4, "n_steps": 5, "gamma": 0.99, "gae_lambda": 1.0, "ent_coef": 0.0, "vf_coef": 0.5, "max_grad_norm": 0.5,
        "rms_prop_eps": 1e-5, "use_rms_prop": True, "use_sde": False, "sde_sample_freq": -1, "rollout_buffer_class": None,
        "rollout_buffer_kwargs": None, "normalize_advantage": False, "stats_window_size": 100, "tensorboard_log": None,
        "policy_kwargs": None, "verbose": 0, "seed": None, "device": "auto", "_init_setup_model": True,
    }  # fmt: skip
    assert {name: defaults[name] for name in want} == want


def test_policy_kwargs_become_settings():
    tanh, relu = type("Tanh", (), {}), type("ReLU", (), {})
    assert settings({"policy_kwargs": {"net_arch": [8, 4]}}) == {"net_arch_pi": [8, 4], "net_arch_vf": [8, 4]}
    assert settings({"policy_kwargs": {"net_arch": {"pi": [8], "vf": [16, 16]}}}) == {"net_arch_pi": [8], "net_arch_vf": [16, 16]}
    assert settings({"policy_kwargs": {"net_arch": {}}}) == {"net_arch_pi": [], "net_arch_vf": []} and not settings(
        {"policy_kwargs": {"net_arch": None}}
    )
    for given, name in ((tanh, "tanh"), (relu, "relu"), ("Tanh", "tanh"), ("relu", "relu")):
        assert settings({"policy_kwargs": {"activation_fn": given}}) == {"activation_fn": name}
    assert settings({"policy_kwargs": {"ortho_init": False}}) == {"ortho_init": False}
    assert settings({"policy_kwargs": {"share_features_extractor": False}}) == {"trunk": "separate"}
    tf = {"optimizer_class": type("RMSpropTFLike", (), {}), "optimizer_kwargs": {"eps": 1e-3, "alpha": 0.9}}
    assert settings({"policy_kwargs": tf}) == {
        "use_rms_prop": True, "rms_prop_eps_inside": True, "rms_prop_first": 1, "rms_prop_eps": 1e-3, "rms_prop_alpha": 0.9,
    }  # fmt: skip
    adam = {"optimizer_class": "Adam", "optimizer_kwargs": {"eps": 1e-7}}
    assert settings({"policy_kwargs": adam}) == {"use_rms_prop": False, "adam_eps": 1e-7}
    assert settings({"max_grad_norm": None}) == {"max_grad_norm": 0}
    assert settings({"learning_rate": "lin_0.001"}) == {
        "learning_rate": 0.001, "learning_rate_final": 0.0, "learning_rate_schedule": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"use_sde": True}, "use_sde: True, must be False: state-dependent exploration"),
        ({"sde_sample_freq": 4}, "sde_sample_freq: 4, must be -1"),
        ({"rollout_buffer_class": dict}, "rollout_buffer_class: .*must be None: the rollout's storage is the library's own"),
        ({"rollout_buffer_kwargs": {}}, "rollout_buffer_kwargs"),
        ({"policy": dict}, "policy: .*must be 'MlpPolicy'"),
        ({"policy_kwargs": {"net_arch": {"qf": [8]}}}, r"policy_kwargs\['net_arch'\]: 'qf' not known, must be 'pi' and 'vf'"),
        ({"policy_kwargs": {"net_arch": [64, {"pi": [8]}]}}, r"net_arch'\]: .*must be a list of widths"),
        ({"policy_kwargs": {"activation_fn": "elu"}}, "must be Tanh or ReLU"),
        ({"policy_kwargs": {"optimizer_class": "SGD"}}, "must be RMSprop, RMSpropTFLike or Adam"),
        ({"policy_kwargs": {"optimizer_kwargs": {"momentum": 1}}}, "momentum"),
        ({"policy_kwargs": {"dist_kwargs": {}}}, "dist_kwargs"),
        ({"policy_kwargs": {"squash_output": True}}, "squash_output.*True, must be False: in stable-baselines3 it needs gSDE"),
    ],
)
def test_unsupported_keywords_are_refused(keywords, says):
    with pytest.raises(ConfigError, match=says):
        settings(keywords)


def test_every_setting_is_a_keyword_or_explained():
    """Python can set every setting of the library's table."""
    elsewhere = {
        "env",
        "env_options",
        "learning_rate_final",
        "learning_rate_schedule",
        "autoreset",
        "normalize_images",
        "host_data",
    }
    by_policy_kwargs = {
        "net_arch_pi", "net_arch_vf", "trunk", "activation_fn", "ortho_init", "rms_prop_alpha", "rms_prop_eps_inside", "rms_prop_first",
        "adam_eps", "log_std_init",
    }  # fmt: skip
    assert {s.name for s in describe("a2c")} - elsewhere - by_policy_kwargs <= set(A2C.keywords())


def test_python_defaults_equal_the_library_defaults():
    defaults = {name: p.default for name, p in inspect.signature(A2C).parameters.items()}
    for setting in describe("a2c"):
        mine = defaults.get(setting.name)
        if mine is None or setting.name in ("policy", "env"):
            continue
        config = Config("a2c")
        config.set(setting.name, mine)
        assert config.get(setting.name) == setting.default, setting.name
        config.close()


def test_bad_arguments_are_refused():
    with pytest.raises(TypeError, match="A2C.. got an unexpected keyword argument 'batch_size'"):
        A2C.from_preset("tuned", "CartPole-v1", batch_size=3)
    with pytest.raises(ConfigError, match="n_steps: 0"):
        small(n_steps=0)
    with pytest.raises(ConfigError, match="layers are fixed"):
        A2C("CnnPolicy", "Catch-v0", **TINY)
    with pytest.raises(ConfigError, match="use_sde"):
        small(use_sde=True)


# ---------------------------------------------------------------- learning


def test_learn_counts_and_reports():
    with small() as model:
        assert model.learn(400) is model
        stats = model.stats
        assert model.num_timesteps == stats["num_timesteps"] == 400
        assert stats["updates"] == 400 // 20 and stats["episodes"] > 0 and stats["mean_return"] > 0
        assert stats["learning_rate"] == 7e-4 and math.isfinite(stats["loss"]) and 0 < -stats["entropy_loss"] <= math.log(2) + 1e-6
        assert {"policy_loss", "value_loss"} <= set(stats)
        assert "epsilon" not in stats and not hasattr(model, "exploration_rate")


def test_a_seed_gives_one_result_for_any_number_of_threads():
    results = {small_hashes(num_threads=threads) for threads in (1, 2, 4)}
    assert len(results) == 1
    assert small_hashes(seed=8) not in results


def small_hashes(steps=600, **keywords):
    with small(**keywords) as model:
        hashes = model.learn(steps).hashes()
    assert re.fullmatch("[0-9a-f]{64}", hashes.weights)
    return hashes


def test_every_keyword_changes_the_weights():
    results = [
        small_hashes(**keywords)
        for keywords in (
            {}, {"n_steps": 8}, {"gamma": 0.9}, {"gae_lambda": 0.9}, {"ent_coef": 0.01}, {"vf_coef": 0.25}, {"max_grad_norm": None},
            {"normalize_advantage": True}, {"use_rms_prop": False}, {"rms_prop_eps": 1e-3}, {"learning_rate": (1e-3, 0.0)},
            {"policy_kwargs": {"net_arch": [16], "activation_fn": "ReLU"}}, {"policy_kwargs": {"net_arch": [16], "ortho_init": False}},
            {"policy_kwargs": {"net_arch": [16], "optimizer_class": "RMSpropTFLike"}}, {"precision": "bf16"},
        )
    ]  # fmt: skip
    assert len(set(results)) == len(results)


def test_same_step_and_disabled_agree_in_environments_stepped_from_python():
    def run(env):
        with A2C("MlpPolicy", env, **TINY) as model:
            model.learn(300)
            assert model.num_timesteps == 300
            return model.hashes(), model.stats["updates"]

    single, updates = run(Counter())
    assert updates == 60
    same, disabled, following = (run(vector(mode)) for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP))
    assert same == disabled == (single, updates)
    # A rollout is n_steps rounds. A NEXT_STEP reset is no step: 75 episodes of 3 to 5 steps.
    assert following[0] != single and following[1] == (300 + 75) // 5
    assert run(vector(AutoresetMode.SAME_STEP, 3)) == run(vector(AutoresetMode.DISABLED, 3)) != (single, updates)


@pytest.mark.parametrize("mode", MODES)
def test_a_rollout_is_n_steps_rounds_in_every_mode(mode):
    """on_rollout_end comes every n_steps rounds, also if some rows only reset."""

    class Count(BaseCallback):
        def __init__(self):
            super().__init__()
            self.ends = []

        def _on_rollout_end(self):
            self.ends.append(self.n_calls)

    with A2C("MlpPolicy", vector(mode, 3), **TINY) as model:
        model.learn(90, count := Count())
        assert count.ends[:-1] == list(range(5, count.ends[-1], 5)) and len(count.ends) >= 6


def test_cnn_policy_learns_from_images_stepped_from_python():
    with A2C("CnnPolicy", vector(AutoresetMode.SAME_STEP, 2, Image), seed=1) as model:
        model.learn(40)
        assert model.num_timesteps == 40 and model.stats["updates"] == 4
        assert model.predict(np.zeros((40, 40, 1), np.uint8))[0] in (0, 1, 2)


def test_small_cnn_learns_from_built_in_images():
    with A2C("CnnPolicy", "Catch-v0", num_envs=2, seed=1, cnn="small") as model:
        model.learn(40)
        weights = model.get_parameters()["policy"]
        assert weights["features_extractor.cnn.0.weight"].shape == (16, 4, 8, 8)
        assert weights["action_net.weight"].shape == (3, 256) and weights["value_net.weight"].shape == (1, 256)


def test_learn_continues_or_restarts_the_run():
    with small() as model:
        model.learn(200)
        model.learn(200, reset_num_timesteps=False)
        assert model.num_timesteps == 400
        model.learn(100)
        assert model.num_timesteps == 100


def test_tuned_preset_learns_cartpole():
    """Every seed raises the mean return from about 20 to 100."""
    for seed in (1, 2):
        with A2C.from_preset("tuned", "CartPole-v1", seed=seed) as model:
            model.learn(40_000)
            assert model.evaluate(episodes=20, seed=5).mean_return > 100


# ------------------------------------------------------------------- acting


def test_predict_samples_unless_deterministic():
    with small() as one, small() as two:
        obs = np.zeros((500, 4), np.float32)
        greedy, state = one.predict(obs, deterministic=True)
        assert greedy.shape == (500,) and state is None and len(set(greedy.tolist())) == 1
        first, second = one.predict(obs)[0], one.predict(obs)[0]
        assert 150 < first.sum() < 350  # an untrained policy is nearly uniform
        assert (first != second).any()
        # The same seed and the same calls give the same actions.
        np.testing.assert_array_equal(two.predict(obs)[0], first)
        np.testing.assert_array_equal(two.predict(obs)[0], second)
        assert one.predict(obs[0])[0].shape == ()


def test_samples_follow_the_distribution():
    with small() as model, model.policy_snapshot() as policy:
        obs = np.array([1.0, -2.0, 0.5, 0.25], np.float32)
        out = policy.outputs(obs)
        assert out["logits"].shape == (2,) and out["value"].shape == (1,)
        # probability of action 1
        p = 1 / (1 + math.exp(float(out["logits"][0] - out["logits"][1])))
        n = 20_000
        drawn = policy.act(np.tile(obs, (n, 1)), sample=True, seed=3, counter=5)
        assert abs(drawn.mean() - p) < 5 * math.sqrt(p * (1 - p) / n)
        np.testing.assert_array_equal(drawn, policy.act(np.tile(obs, (n, 1)), sample=True, seed=3, counter=5))
        assert (drawn != policy.act(np.tile(obs, (n, 1)), sample=True, seed=3, counter=6)).any()
        with pytest.raises(ConfigError, match="q_values: this network has the outputs logits and value, must have q"):
            policy.q_values(obs)
        assert policy.predict(np.tile(obs, (100, 1)))[0].std() == 0
        assert policy.predict(np.tile(obs, (100, 1)), deterministic=False)[0].std() > 0


def test_evaluate_is_repeatable_for_a_seed():
    with small() as model:
        model.learn(100)
        greedy = model.evaluate(episodes=5, seed=1)
        assert greedy == model.evaluate(episodes=5, seed=1) and greedy.episodes == 5
        assert model.evaluate(episodes=5, seed=1, deterministic=False) != greedy
        assert model.evaluate(vector(AutoresetMode.SAME_STEP, 2, Wide), episodes=4).episodes == 4


class Wide(Counter):
    """Counter with CartPole's number of actions."""

    action_space = paceline.make("CartPole-v1").action_space


def test_evaluations_do_not_disturb_training():
    with small() as one, small() as two:
        assert one.learn(400, eval_freq=100, n_eval_episodes=2).hashes() == two.learn(400).hashes()
        assert [step for step, _ in one.evaluations] == [100, 200, 300, 400] and one.best_policy is not None
        one.best_policy.close()


# -------------------------------------------------------- weights and files


def test_parameters_have_the_names_of_stable_baselines3():
    with small(policy_kwargs={"net_arch": {"pi": [16], "vf": [8]}}) as model:
        model.learn(100)
        weights = model.get_parameters()["policy"]
        assert set(weights) == {f"{net}.{kind}" for net in NETS for kind in ("weight", "bias")}
        shapes = {name: value.shape for name, value in weights.items()}
        assert shapes["mlp_extractor.policy_net.0.weight"] == (16, 4) and shapes["mlp_extractor.value_net.0.weight"] == (8, 4)
        assert shapes["action_net.weight"] == (2, 16) and shapes["value_net.weight"] == (1, 8)
        model.set_parameters({"policy": {name: value + 1 for name, value in weights.items()}})
        for name, value in model.get_parameters()["policy"].items():
            np.testing.assert_array_equal(value, weights[name] + 1)
        with pytest.raises(ConfigError, match="missing"):
            model.set_parameters({"policy": {"action_net.bias": [5, 6]}})
        with pytest.raises(ConfigError, match="finite"):
            model.set_parameters({"policy": {"action_net.bias": [5, np.nan]}}, exact_match=False)


def test_predict_uses_weights_that_were_set():
    with small() as model:
        obs = np.random.default_rng(0).normal(size=(20, 4))
        for favourite in (0, 1):
            weights = model.get_parameters()
            weights["policy"]["action_net.weight"][:] = 0
            weights["policy"]["action_net.bias"][:] = 50 * np.eye(2)[favourite]
            model.set_parameters(weights)
            assert (model.predict(obs, deterministic=True)[0] == favourite).all()
            assert (model.predict(obs)[0] == favourite).all()


def test_a_loaded_model_acts_the_same_and_continues(tmp_path):
    path = tmp_path / "model.paceline"
    obs = np.random.default_rng(0).normal(size=(50, 4))
    with small() as model:
        model.learn(300)
        model.save(path)
        actions, hashes = model.predict(obs, deterministic=True)[0], model.hashes()
    with A2C.load(path) as again:
        assert again.num_timesteps == 300 and again.setting("n_steps") == "5" and again.hashes() == hashes
        np.testing.assert_array_equal(again.predict(obs, deterministic=True)[0], actions)
        again.learn(200, reset_num_timesteps=False)
        assert again.num_timesteps == 500
    with Policy.load(path) as policy:
        np.testing.assert_array_equal(policy.act(obs), actions)
        with Policy.from_bytes(policy.to_bytes()) as copy:
            np.testing.assert_array_equal(copy.act(obs), actions)
    with pytest.raises(ConfigError, match=r"a run of 'a2c', must be of 'dqn' for DQN.load"):
        DQN.load(path)
    with pytest.raises(ConfigError, match=r"a run of 'dqn', must be of 'a2c' for A2C.load"), DQN("auto", "CartPole-v1") as other:
        other.save(path)
        A2C.load(path)


@pytest.mark.parametrize("first", [300, 332])  # at the end of a rollout and inside one
def test_a_resumed_run_equals_an_uninterrupted_run(tmp_path, first):
    keywords = {"learning_rate": 1e-3, "normalize_advantage": True}
    whole = small_hashes(640, **keywords)
    with small(**keywords) as model:
        model.learn(640, callback=lambda local, _: local["self"].num_timesteps < first)
        assert model.num_timesteps == first
        model.save(tmp_path / "half", replay=True)
    with A2C.load(tmp_path / "half") as model:
        model.learn(640 - first, reset_num_timesteps=False)
        assert model.hashes() == whole


def test_learn_ends_with_a_whole_rollout():
    with small() as model:
        rollout = int(model.setting("n_steps")) * int(model.setting("num_envs"))
        for k, total in enumerate((1, rollout, rollout + 1)):
            want = rollout * (1, 2, 4)[k]
            model.learn(total, reset_num_timesteps=k == 0)
            assert model.num_timesteps == want and model.stats["rollouts"] == want // rollout
            assert model.stats["updates"] == want // rollout
    # A schedule ends at total_timesteps; later updates use its last value, 0.
    with small(learning_rate=(1e-3, 0.0)) as model:
        model.learn(2 * rollout + 1, callback=lambda local, _: local["self"].num_timesteps <= 2 * rollout)
        assert model.num_timesteps > 2 * rollout
        weights = model.hashes()
    assert small_hashes(2 * rollout + 1, learning_rate=(1e-3, 0.0)) == weights


def test_learn_takes_as_many_steps_as_stable_baselines3():
    sb3 = pytest.importorskip("stable_baselines3")
    for total in (1, 20, 64):
        with A2C("MlpPolicy", "CartPole-v1", num_envs=4) as model:
            theirs = sb3.A2C("MlpPolicy", sb3.common.env_util.make_vec_env("CartPole-v1", 4), device="cpu")
            for _ in range(2):
                theirs.learn(total, reset_num_timesteps=False)
                model.learn(total, reset_num_timesteps=False)
                assert model.num_timesteps == theirs.num_timesteps


def test_a_loss_that_is_not_finite_is_reported(tmp_path):
    with small() as model:
        huge = {name: np.full_like(value, 1e30) for name, value in model.get_parameters()["policy"].items()}
        model.set_parameters({"policy": huge})
        with pytest.raises(NotFiniteError, match="at step"):
            model.learn(400)
        model.save(tmp_path / "model")


# ------------------------------------------------------ callbacks and records


def test_callbacks_see_rollouts():
    class Look(BaseCallback):
        events = []

        def _on_rollout_start(self):
            self.events.append("start")

        def _on_step(self):
            self.events.append(self.num_timesteps)
            return True

        def _on_rollout_end(self):
            self.events.append("end")

    with small(n_steps=2) as model:
        model.learn(16, Look())
    assert Look.events == ["start", 4, 8, "end", "start", 12, 16, "end"]


def test_checkpoint_callback_writes_loadable_files(tmp_path):
    with small() as model:
        model.learn(200, CheckpointCallback(100, tmp_path, save_replay_buffer=True))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rl_model_100_steps.zip", "rl_model_200_steps.zip"]
    A2C.load(tmp_path / "rl_model_100_steps.zip").close()


def test_log_interval_counts_rollouts(capsys):
    with small(verbose=1) as model:
        model.learn(400, log_interval=5)
    out = capsys.readouterr().out
    assert re.findall(r"iterations +\| (\d+)", out) == ["5", "10", "15", "20"]
    for key in ("ep_rew_mean", "ep_len_mean", "fps", "total_timesteps", "learning_rate", "policy_loss", "value_loss", "n_updates"):
        assert f"|    {key}" in out
    assert "exploration_rate" not in out


def test_progress_bar_shows_steps_and_loss(capsys):
    with small() as model:
        model.learn(200, progress_bar=True)
    err = capsys.readouterr().err
    assert "200 / 200 steps" in err and "loss" in err and "epsilon" not in err


@pytest.mark.slow
def test_commands_train_and_evaluate_a2c(process, tmp_path):
    call = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
    assert "a2c        paceline.A2C\n" in process(call, "methods").stdout
    assert "n_steps (int, default 5)" in process(call, "options", "--method", "a2c").stdout
    assert "tuned" in process(call, "presets", "--method", "a2c").stdout
    arguments = ("--method", "a2c", "--steps", 800, "--seed", 1, "--set", "num_envs=4", "--set", "n_steps=8", "--save", "model")
    process(call, "train", "CartPole-v1", *arguments)
    with A2C.load(tmp_path / "model") as model:
        assert model.num_timesteps == 800 and model.setting("n_steps") == "8"
    assert "mean_return" in process(call, "evaluate", "model", "CartPole-v1", "--episodes", 3).stdout


def test_stable_baselines3_acts_the_same_with_our_weights():
    """The weights' names, shapes and initialisation are equal; SB3 acts the same with them."""
    theirs = pytest.importorskip("stable_baselines3")
    import gymnasium
    import torch

    reference = theirs.A2C("MlpPolicy", gymnasium.make("CartPole-v1"), seed=0)
    with A2C("MlpPolicy", "CartPole-v1", num_envs=2, seed=3) as model:
        model.learn(200)
        mine = model.get_parameters()
        state = reference.policy.state_dict()
        assert {name: tuple(value.shape) for name, value in state.items()} == {n: v.shape for n, v in mine["policy"].items()}
        reference.policy.load_state_dict({name: torch.from_numpy(value) for name, value in mine["policy"].items()})
        obs = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
        np.testing.assert_array_equal(reference.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0])


# ------------------------------------------------------------------ V-trace


def test_vtrace_updates_once_per_window():
    keywords = {"vtrace": True, "n_steps": 8, "vtrace_groups": 2, "vtrace_steps": 2}
    with small(**keywords) as model:
        ends = []
        model.learn(4 * 40, lambda locals, globals: ends.append(model.stats["rollouts"]) is None)
        assert ends == [0] * 7 + [1 + (n - 8) // 2 for n in range(8, 41)]  # the first window has 8 rounds, later ones two
        assert model.stats["updates"] == ends[-1]
    results = {small_hashes(**keywords), small_hashes(n_steps=8)}
    results |= {small_hashes(**{**keywords, "vtrace_rho": 0.5}), small_hashes(**{**keywords, "vtrace_c": 0.5})}
    assert len(results) == len(results | {small_hashes(**keywords, num_threads=1)}) == 4
    with pytest.raises(ConfigError, match=r"vtrace_groups: 3, must divide num_envs \(4\)"):
        small(**{**keywords, "vtrace_groups": 3})
    with A2C.from_preset("cule", "Catch-v0", num_envs=20, seed=1) as model:
        assert (model.cnn, model.n_steps, model.vtrace_groups) == ("cule", 20, 20)
        assert model.get_parameters()["policy"]["features_extractor.cnn.4.weight"].shape == (32, 64, 3, 3)
        assert model.learn(25 * 20).stats["updates"] == 6


def test_vtrace_learns_cartpole():
    with A2C.from_preset("tuned", "CartPole-v1", seed=1, vtrace=True, vtrace_groups=4, vtrace_steps=8) as model:
        model.learn(60_000)
        assert model.evaluate(episodes=20, seed=5).mean_return > 100
