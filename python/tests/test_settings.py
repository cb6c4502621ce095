"""Effects of settings in DQN and in the other methods that have them."""

import json

import gymnasium
import numpy as np
import pytest

from envs import SMALL
from paceline import A2C, A3C, APPO, DQN, GA3C, PPO, PQN, Policy, make
from paceline.errors import ConfigError, PacelineError, PacelineWarning


def small(**keywords):
    return DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "num_envs": 2, **keywords})


def test_tau_moves_the_target_towards_the_online_network():
    with pytest.warns(PacelineWarning, match="tau: 0.1 makes concurrent default to False") as caught:
        model = small(tau=0.1, target_update_interval=8)
    assert caught[0].filename == __file__ and len(caught) == 1
    with model:
        assert model.setting("concurrent") == "false" and model.setting("tau") == "0.1"
        before = model.get_parameters()["policy"]["q_net_target.q_net.0.weight"].copy()
        model.learn(200, log_interval=None)
        weights = model.get_parameters()["policy"]
        moved, ahead = (abs(weights[f"{net}.q_net.0.weight"] - before).max() for net in ("q_net_target", "q_net"))
        assert 0 < moved < ahead
    with pytest.raises(ConfigError, match="tau: 2, must be 1e-06 to 1"):
        small(tau=2.0)


@pytest.mark.parametrize("update", ["update", "window"])
def test_prioritised_replay_goes_on_after_a_load(update, tmp_path):
    keywords = {"prioritized": "dqn_zoo", "n_steps": 3, "n_step_tails": "drop_truncated", "priority_beta_final": 0.9, "device": "cpu"}
    keywords["priority_update"] = update
    with small(**keywords) as model:
        assert model.setting("priority_update") == update
        names = ("prioritized", "n_steps", "n_step_tails", "priority_alpha", "priority_beta", "priority_beta_final", "priority_beta_steps")
        assert [model.setting(name) for name in names] == ["dqn_zoo", "3", "drop_truncated", "0.6", "0.4", "0.9", "0"]
        model.learn(400, log_interval=None, callback=lambda here, _: here["self"].num_timesteps < 200)
        model.save(tmp_path / "half", replay=True)
        with DQN.load(tmp_path / "half") as again:
            for each in model, again:
                each.learn(200, reset_num_timesteps=False, log_interval=None)
            assert model.hashes() == again.hashes()
    with small() as uniform:
        assert uniform.setting("prioritized") == "none" and uniform.n_steps == 1
    with pytest.raises(ConfigError, match='^prioritized: "per", must be '):
        small(prioritized="per")
    with pytest.raises(ConfigError, match="^n_steps: 0, must be 1 to 1000"):
        small(n_steps=0)


@pytest.mark.parametrize("name, f", [("Tanh", np.tanh), ("ReLU", lambda x: np.maximum(x, 0))])
def test_activation_fn_selects_the_activation(name, f, tmp_path):
    obs = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    with small(policy_kwargs={"net_arch": [16], "activation_fn": type(name, (), {})}) as model:
        model.learn(100, log_interval=None).save(tmp_path / "run")
        w = {key.removeprefix("q_net.q_net."): value for key, value in model.get_parameters()["policy"].items()}
        want = f(obs @ w["0.weight"].T + w["0.bias"]) @ w["2.weight"].T + w["2.bias"]
        with model.policy_snapshot() as policy, Policy.load(tmp_path / "run") as loaded:
            assert np.allclose(policy.q_values(obs), want, atol=1e-5)
            assert np.array_equal(policy.q_values(obs), loaded.q_values(obs))


def test_any_learning_rate_function_is_saved(tmp_path):
    def rate(progress):
        return 1e-3 * 0.01 ** (1 - progress)

    with small(learning_rate=rate) as model:
        model.learn(400, log_interval=None, callback=lambda here, _: here["self"].num_timesteps < 200)
        assert model.stats["learning_rate"] == pytest.approx(rate(1 - model.num_timesteps / 400), rel=1e-3)
        model.save(tmp_path / "half", replay=True)
        with DQN.load(tmp_path / "half") as again, DQN.load(tmp_path / "half", learning_rate=1e-4) as other:
            for each in model, again, other:
                each.learn(200, reset_num_timesteps=False, log_interval=None)
            assert model.hashes() == again.hashes() and again.stats["learning_rate"] == pytest.approx(1e-5, rel=1e-2)
            assert other.setting("learning_rate_schedule") == ""


@pytest.mark.parametrize(
    "method, keywords", [(DQN, {"buffer_size": 200, "learning_starts": 64}), pytest.param(A2C, {}, marks=pytest.mark.slow)]
)
def test_normalize_images_false_keeps_pixel_values(method, keywords, tmp_path):
    kwargs = {"policy_kwargs": {"normalize_images": False}}
    with method("CnnPolicy", "Catch-v0", seed=1, **keywords, **kwargs) as raw, method("CnnPolicy", "Catch-v0", seed=1, **keywords) as usual:
        obs = np.random.default_rng(1).integers(0, 256, (3, *raw.obs_layout.shape), np.uint8)
        weights = usual.get_parameters()["policy"]
        raw.set_parameters({"policy": {name: w / 255 if name.endswith("cnn.0.weight") else w for name, w in weights.items()}})
        raw.save(tmp_path / "run")
        with (
            raw.policy_snapshot() as a,
            usual.policy_snapshot() as b,
            Policy.load(tmp_path / "run") as c,
            Policy.from_bytes(a.to_bytes()) as d,
        ):
            for name, want in b.outputs(obs).items():
                assert np.allclose(a.outputs(obs)[name], want, atol=1e-5)
                for other in c, d:
                    assert np.array_equal(a.outputs(obs)[name], other.outputs(obs)[name])
        raw.learn(100, log_interval=None)
        with pytest.raises(ConfigError, match='normalize_images: the checkpoint has "false", this trainer has "true"'):
            method.load(tmp_path / "run", policy_kwargs={"normalize_images": True})


@pytest.mark.parametrize("method", [DQN, A2C])
def test_stats_window_size_limits_the_means(method):
    with method("MlpPolicy", "CartPole-v1", seed=1, stats_window_size=5) as model:
        model.learn(1000, log_interval=None)
        assert model.stats_window_size == 5 == model.ep_info_buffer.maxlen == len(model.ep_info_buffer) < model.stats["episodes"]
        assert model.stats["mean_return"] == pytest.approx(sum(e["r"] for e in model.ep_info_buffer) / 5)
    with pytest.raises(ConfigError, match="stats_window_size: 0, must be 1 to 10000"):
        method("MlpPolicy", "CartPole-v1", stats_window_size=0)


def test_dead_units_give_a_metric_and_a_warning():
    with small(policy_kwargs={"net_arch": [16, 8]}, window=400, target_update_interval=400) as model:
        model.set_parameters({"policy": {"q_net.q_net.2.bias": np.full(8, -1e6, np.float32)}}, exact_match=False)
        assert np.isnan(model.stats["dead_units/q_net.0"])
        with pytest.warns(PacelineWarning) as caught:
            model.learn(11_000, log_interval=None)
        said = [str(w.message) for w in caught]
        assert len(said) == 2 and "every unit of q_net.2 is 0" in said[0] and "no longer depends on the state" in said[1]
        assert model.stats["dead_units/q_net.0"] < 1 == model.stats["dead_units/q_net.2"]


def test_preset_sb3_equals_the_default_keywords():
    with (
        DQN.from_preset("sb3", "CartPole-v1", seed=1, buffer_size=1000) as preset,
        DQN("MlpPolicy", "CartPole-v1", seed=1, buffer_size=1000, concurrent=False, synchronized=False) as keywords,
    ):
        assert preset.learn(500, log_interval=None).hashes() == keywords.learn(500, log_interval=None).hashes()


@pytest.mark.slow
def test_very_long_names_are_refused(tmp_path):
    from paceline import bench, make_vec

    big = "x" * 10_000_000
    with small() as model:
        for call in (
            lambda: make_vec(big), lambda: make_vec("CartPole-v1", 1, recipe=big), lambda: make_vec("CartPole-v1", 1, **{big: 1}),
            lambda: DQN("MlpPolicy", big), lambda: DQN(big, "CartPole-v1"), lambda: DQN("MlpPolicy", "CartPole-v1", env_kwargs={"a": big}),
            lambda: DQN.load(big), lambda: Policy.load(big), lambda: DQN.from_preset(big, "CartPole-v1"),
            lambda: DQN.from_preset("tuned", big), lambda: model.save(big), lambda: model.evaluate(big), lambda: bench.run(big),
        ):  # fmt: skip
            with pytest.raises(ConfigError, match="longer than [0-9]+ bytes") as caught:
                call()
            assert len(str(caught.value)) < 200


STOOKE_ABBEEL = {"recipe": "stooke_abbeel", "decorrelation_steps": 2000}


@pytest.mark.parametrize(
    "model_class, preset, of_preset, given",
    [
        (DQN, "mnih2015", {"recipe": "mnih2015"}, {"decorrelation_steps": 10}),
        (A2C, "cule", {"decorrelation_steps": 400}, {"episodic_life": True}),
        pytest.param(A2C, "stooke_abbeel", STOOKE_ABBEEL, {"decorrelation_steps": 10}, marks=pytest.mark.slow),
        (A3C, "mnih2016", {"recipe": "mnih2015"}, {"episodic_life": False}),
        pytest.param(A3C, "stooke_abbeel", STOOKE_ABBEEL, {"decorrelation_steps": 10}, marks=pytest.mark.slow),
        pytest.param(APPO, "stooke_abbeel", STOOKE_ABBEEL, {"decorrelation_steps": 10}, marks=pytest.mark.slow),
        (GA3C, "paper", {"recipe": "mnih2015"}, {"episodic_life": False}),
        pytest.param(PPO, "stooke_abbeel", STOOKE_ABBEEL, {"recipe": "ale"}, marks=pytest.mark.slow),
        pytest.param(PPO, "cleanrl", {"episodic_life": True}, {"decorrelation_steps": 10}, marks=pytest.mark.slow),
        (PQN, "pqn", {"episodic_life": True}, {"episodic_life": False}),
        pytest.param(PQN, "pqn_cleanrl", {"episodic_life": True}, {"noop_max": 1}, marks=pytest.mark.slow),
    ],
)
def test_env_kwargs_override_single_options_of_a_preset(tmp_path, model_class, preset, of_preset, given):
    """The caller's values override the preset's, and a loaded model keeps its values.

    Pong has no lives, but its presets have the option.
    """
    try:
        make("Pong").close()
    except PacelineError as err:
        pytest.skip(f"no ROM: {err}")
    keywords = {"num_envs": {"cule": 20, "mnih2016": 16}.get(preset, 8), "seed": 1} | ({"buffer_size": 500} if model_class is DQN else {})
    with model_class.from_preset(preset, "Pong", env_kwargs=given, **keywords) as model:
        options = json.loads(model.setting("env_options"))
        assert options == of_preset | given
        model.save(tmp_path / "model.zip")
    with model_class.load(tmp_path / "model.zip", env_kwargs={"waits": True}) as model:
        assert json.loads(model.setting("env_options")) == options | {"waits": True}
    with model_class.load(tmp_path / "model.zip", env=None) as model:
        assert json.loads(model.setting("env_options")) == options


@pytest.mark.parametrize(
    "keywords",
    [
        {"learning_starts": 101, "exploration_fraction": 0.5},
        {"learning_starts": 100, "exploration_steps": 300},
        {"learning_starts": 0, "exploration_steps": 300},
        {"learning_starts": 100, "exploration_steps": 150, "clock": "updates", "train_freq": 2, "concurrent": False},
        {"learning_starts": 100, "exploration_fraction": 0.5, "clock": "updates", "train_freq": 2, "concurrent": False},
        {"learning_starts": 100, "exploration_steps": 300, "learners": 2, "num_envs": 4},
    ],
)
def test_the_exploration_schedule_is_that_of_the_run(keywords):
    """Also in the warm-up and in a second learn. Updates and other learners are known up to a few steps."""
    few = 0.04 if keywords.keys() & {"clock", "learners"} else 1e-9
    with DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "num_envs": 2, "exploration_final_eps": 0.1, **keywords}) as model:
        rates = []

        def look(*_):
            rate = model.exploration_rate
            rates.append(rate)
            assert model.exploration_schedule(model._current_progress_remaining) == pytest.approx(rate, abs=few)

        model.learn(400, callback=look)
        assert len(set(rates)) > 20
        model.learn(400, callback=look, reset_num_timesteps=False)


@pytest.mark.parametrize(
    "cls, keywords, has",
    [
        (DQN, {}, {"betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False}),
        (DQN, {"optimizer": "adagrad"}, {"eps": 1e-10, "lr_decay": 0, "initial_accumulator_value": 0}),
        (DQN, {"optimizer": "rmsprop", "optimizer_eps": 1e-3}, {"alpha": 0.99, "centered": False, "eps": 1e-3, "momentum": 0}),
        (DQN, {"optimizer": "rmsprop_lasagne"}, {"alpha": 0.95, "centered": False, "eps": 1e-6, "momentum": 0}),
        (DQN, {"optimizer": "rmsprop_mnih"}, {"alpha": 0.95, "centered": True, "eps": 0.01, "momentum": 0}),
        (DQN, {"optimizer": "rmsprop_keras"}, {"alpha": 0.95, "centered": True, "eps": 0.01, "momentum": 0}),
        (A2C, {"rms_prop_eps": 1e-4}, {"alpha": 0.99, "centered": False, "eps": 1e-4, "momentum": 0}),
        (A2C, {"use_rms_prop": False}, {"betas": (0.9, 0.999), "eps": 1e-5, "amsgrad": False}),
        (PPO, {}, {"betas": (0.9, 0.999), "eps": 1e-5, "amsgrad": False}),
        (PQN, {"n_steps": 128}, {"betas": (0.9, 0.999), "eps": 1e-8}),
    ],
)
def test_get_parameters_has_the_optimizer_s_constants(cls, keywords, has):
    with cls("MlpPolicy", "CartPole-v1", seed=1, **keywords) as model:
        (group,) = model.get_parameters()["policy.optimizer"]["param_groups"]
        assert {name: value for name, value in group.items() if name not in ("lr", "params", "weight_decay")} == has


# ------------------------------------------------------------------ seeds


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint64, str])
def test_a_model_takes_a_seed_of_any_integer_type(kind):
    """The seed of Gymnasium's environments, too, which must be an int."""

    def weights(seed):
        with DQN("MlpPolicy", gymnasium.make("CartPole-v1"), **SMALL | {"seed": seed}) as model:
            model.learn(100)
            return model.hashes()

    assert weights(kind(5)) == weights(5)


def test_a_policy_takes_seeds_of_numpy_and_refuses_others():
    obs, env = np.zeros((3, 4), np.float32), gymnasium.make("CartPole-v1")
    with A2C("MlpPolicy", "CartPole-v1", seed=1) as model, model.policy_snapshot() as policy:
        for kind in (np.int64, np.uint64):
            given = policy.act(obs, sample=True, seed=kind(3), counter=kind(4))
            np.testing.assert_array_equal(given, policy.act(obs, sample=True, seed=3, counter=4))
            for of in ("CartPole-v1", env):
                assert policy.evaluate(of, 2, seed=kind(2)) == policy.evaluate(of, 2, seed=2)
        for wrong in (-1, 2**64, 2**64 + 1, 1.5, None):
            for name in ("seed", "counter"):
                with pytest.raises(ConfigError, match=f"^{name}: {wrong}, must be 0 to 18446744073709551615$"):
                    policy.act(obs, sample=True, **{name: wrong})
            for of in ("CartPole-v1", env):
                with pytest.raises(ConfigError, match=f"^seed: {wrong}, must be 0 to 18446744073709551615$"):
                    policy.evaluate(of, 2, seed=wrong)
