"""Keywords: translation into settings, refusals, and their messages."""

import inspect
import math
import warnings

import numpy as np
import pytest

from paceline import DQN
from paceline.config import Config, describe, methods
from paceline.dqn import settings
from paceline.errors import ConfigError, PacelineWarning
from paceline.schedules import linear


@pytest.mark.parametrize(
    "given, start, end",
    [
        (3e-4, 3e-4, None),
        ((1e-3, 1e-5), 1e-3, 1e-5),
        (linear(1e-3), 1e-3, 0.0),
        ("lin_0.002", 0.002, 0.0),
        (lambda progress: 1e-3 * progress, 1e-3, 0.0),
        (lambda progress: 5e-4, 5e-4, None),
    ],
)
def test_learning_rates_become_two_ends(given, start, end):
    out = settings({"learning_rate": given})
    assert out["learning_rate"] == pytest.approx(start)
    assert out["learning_rate_final"] == (None if end is None else pytest.approx(end))
    assert out["learning_rate_schedule"] is None


@pytest.mark.parametrize(
    "name, function",
    {
        "exponential": lambda p: 1e-3 * math.exp(-8 * (1 - p)),
        "to 0 by the square": lambda p: 1e-3 * p * p,
        "flat from half of the run": lambda p: 1e-4 if 1 - p > 0.5 else 1e-3 + (1 - p) * (1e-4 - 1e-3) / 0.5,
        "flat from 0.13": lambda p: 1e-4 if 1 - p > 0.13 else 1e-3 + (1 - p) * (1e-4 - 1e-3) / 0.13,
        "steps": lambda p: 1e-3 if p > 2 / 3 else 5e-4 if p > 0.1 else 1e-5,
        "cosine": lambda p: 1e-3 * (1 + math.cos(math.pi * (1 - p))) / 2,
        "a bump": lambda p: 1e-4 + 1e-3 * math.exp(-((p - 0.7137) ** 2) / 2e-6),
    }.items(),
)
def test_a_function_becomes_a_schedule_within_0_1_percent(name, function):
    out = settings({"learning_rate": function})
    assert out["learning_rate"] == function(1.0) and out["learning_rate_final"] is None
    shares, values = np.array([point.split(":") for point in out["learning_rate_schedule"].split(",")], float).T
    assert len(shares) < 1000 and shares[0] == 0 and shares[-1] == 1
    fine = np.linspace(0, 1, 7919)
    want, got = np.array([function(1 - x) for x in fine]), np.interp(fine, shares, values)
    assert np.all(np.abs(got - want) <= 1e-3 * np.abs(want) + 1e-12)
    config = Config()
    config.update(out)
    assert config.get("learning_rate_schedule").count(":") == len(shares)
    config.close()


def curve(out, at):
    """Values of the learning rate's schedule at shares of the run."""
    shares, values = np.array([point.split(":") for point in out["learning_rate_schedule"].split(",")], float).T
    assert len(shares) <= 2048
    config = Config()
    config.update(out)  # the library accepts the settings
    config.close()
    return np.interp(at, shares, values)


def test_a_staircase_needs_two_points_per_step():
    """Two points per step represent a staircase exactly; points inside a step are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = settings({"learning_rate": lambda p: 1e-3 * (1 + math.floor(100 * p))})
    fine = (np.arange(7919) + 0.5) / 7919
    np.testing.assert_allclose(curve(out, fine), 1e-3 * (1 + np.floor(100 * (1 - fine))), rtol=1e-6)


@pytest.mark.parametrize(
    "function, most",
    [
        (lambda p: 1e-4 + 1e-3 * (1 + math.cos(20 * math.pi * p)) / 2, None),  # 10 cycles
        (lambda p: 1e-3 * (1 + math.cos(10 * math.pi * p)) / 2, 0.05),  # 5 cycles that touch 0
        (lambda p: 1e-3 * (1 + math.cos(math.pi * (10 * (1 - p) % 1))) / 2, 0.05),  # 10 warm restarts
        (lambda p: 1e-3 * (2 + math.sin(200 * math.pi * p)), 0.5),  # 100 cycles
    ],
)
def test_functions_that_bend_often_give_a_notice(function, most):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = settings({"learning_rate": function})
    fine = (np.arange(7919) + 0.5) / 7919
    off = np.abs(curve(out, fine) - np.array([function(1 - x) for x in fine])).max() / max(function(1 - x) for x in fine)
    if most is None:
        assert not caught and off < 1e-3
    else:
        assert len(caught) == 1 and caught[0].filename == __file__
        assert str(caught[0].message).startswith("learning_rate: the function bends often: ")
        assert f"with an error of up to about {most:g} % of its largest value" in str(caught[0].message)
        assert off <= 1.2 * most / 100


def test_notice_gives_the_error_for_noise():
    with pytest.warns(PacelineWarning, match="with an error of up to about 50 % of its largest value"):
        settings({"learning_rate": lambda p: 2 + math.sin(1e5 * p)})


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"replay_buffer_class": dict}, "replay_buffer_class"),
        ({"_init_setup_model": False}, "_init_setup_model"),
        ({"train_freq": (1, "episode")}, "train_freq: .*must be in steps"),
        ({"learning_rate": lambda p: math.nan if p < 0.5 else 1}, "the function is nan at a remaining progress of 0.499, must be"),
        ({"learning_rate": lambda p: 1 / p if p else math.inf}, "the function is inf at a remaining progress of 0, must be finite"),
        ({"learning_rate": lambda p: None}, "learning_rate: None, must be a number"),
        ({"learning_rate": "fast"}, "learning_rate: 'fast', must be a number"),
        ({"learning_rate": "lin_x"}, "learning_rate: 'lin_x', must be a number"),
        ({"learning_rate": (1e-3, "x")}, r"learning_rate: \(0.001, 'x'\), must be a number"),
        ({"policy": dict}, "policy: .*must be 'MlpPolicy'"),
        ({"policy_kwargs": {"dueling": True}}, r"policy_kwargs\['dueling'\]: not known"),
        (
            {"policy_kwargs": {"features_extractor_kwargs": {"features_dim": 8}}},
            r"^policy_kwargs\['features_extractor_kwargs'\]: {'features_dim': 8}, must not be given: custom networks are not supported$",
        ),
        ({"policy_kwargs": {"optimizer_class": "SGD"}}, r"^policy_kwargs\['optimizer_class'\]: \"sgd\", must be adam"),
        ({"policy_kwargs": {"optimizer_kwargs": 1}}, r"^policy_kwargs\['optimizer_kwargs'\]: 1, must be a dict of 'eps'"),
        ({"policy_kwargs": {"optimizer_kwargs": {"betas": 1}}}, r"\['optimizer_kwargs'\]\['betas'\]: not known, must be 'eps'"),
        ({"policy_kwargs": {"optimizer_kwargs": {"eps": -1}}}, r"^policy_kwargs\['optimizer_kwargs'\]\['eps'\]: -1, must be 1e-20 to 1000"),
        ({"policy_kwargs": {"activation_fn": "elu"}}, "must be Tanh or ReLU"),
    ],
)
def test_unsupported_keywords_are_refused(keywords, says):
    with pytest.raises(ConfigError, match=says):
        settings(keywords)


def test_keywords_of_sb3_are_translated():
    assert settings({"train_freq": (4, "step"), "gradient_steps": -1}) == {"train_freq": 4, "gradient_steps": -1}
    with DQN("MlpPolicy", "CartPole-v1", buffer_size=1000, gradient_steps=-1) as model:
        assert model.gradient_steps == model.train_freq.frequency == 4
    for given in (False, True):
        assert settings({"optimize_memory_usage": given, "replay_buffer_kwargs": {"handle_timeout_termination": True}}) == {}
    assert settings({"max_grad_norm": None}) == {"max_grad_norm": 0}
    assert settings({"exploration_fraction": 0.2})["exploration_steps"] == 0
    kwargs = {
        "net_arch": [8, 4],
        "activation_fn": type("Tanh", (), {}),
        "optimizer_class": type("RMSprop", (), {}),
        "optimizer_kwargs": {"eps": 1e-5},
    }
    assert settings({"policy_kwargs": kwargs}) == {
        "net_arch": [8, 4], "activation_fn": "tanh", "optimizer": "rmsprop", "optimizer_eps": 1e-5,
    }  # fmt: skip


def concurrent(**keywords):
    """The resolved value of concurrent."""
    with DQN("MlpPolicy", "CartPole-v1", buffer_size=1000, **keywords) as model:
        return model.concurrent


@pytest.mark.parametrize("rate", [2.3e-3, (2.3e-3, 0.0), lambda p: 2.3e-3 * p**0.5])
def test_long_bursts_are_not_concurrent_by_default(rate):
    """RL Zoo's CartPole keywords: a mean return of 341 (40 seeds) with concurrent updates, 382
    without.

    Stable-Baselines3's mean return is 410 (20 seeds).
    """
    bursts = {"train_freq": 256, "gradient_steps": 128, "learning_rate": rate}
    says = "gradient_steps: 128 with a learning_rate of 0.0023 makes concurrent default to False"
    with pytest.warns(PacelineWarning, match=says) as caught:
        assert concurrent(**bursts) is False and concurrent(**bursts, concurrent=None) is False
    assert {warning.filename for warning in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert concurrent(**bursts, concurrent=True) is True
        assert concurrent(train_freq=16, gradient_steps=8, learning_rate=4e-3, learning_starts=32) is True
        assert concurrent(train_freq=4, gradient_steps=-1, learning_rate=6.3e-4) is True


def test_tau_below_1_is_not_concurrent_by_default():
    with pytest.warns(PacelineWarning, match="tau: 0.005 makes concurrent default to False"):
        assert concurrent(tau=0.005) is False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert concurrent(tau=0.005, concurrent=True) is True and concurrent() is True
        # A preset sets concurrent itself.
        with DQN.from_preset("fastdqn", "CartPole-v1", policy="auto", buffer_size=100_000, tau=0.005) as model:
            assert model.concurrent is True


def test_every_setting_is_a_keyword_or_explained():
    """Python can set every setting of the library's table."""
    elsewhere = {
        "env", "env_options", "net_arch", "activation_fn", "learning_rate_final", "learning_rate_schedule", "autoreset",
        "normalize_images", "host_data",
    }  # fmt: skip
    assert {s.name for s in describe("dqn")} - elsewhere <= set(DQN.keywords())


def test_python_defaults_equal_the_library_defaults():
    defaults = {name: p.default for name, p in inspect.signature(DQN).parameters.items()}
    for setting in describe():
        mine = defaults.get(setting.name)
        if mine is None or setting.name in ("policy", "env"):
            continue
        config = Config()
        config.set(setting.name, mine)
        assert config.get(setting.name) == setting.default, setting.name
        config.close()


def test_config_round_trips_and_refuses():
    config = Config()
    config.set("batch_size", 64)
    config.set("net_arch", [128, 128])
    assert config.get("batch_size") == "64" and config.get("net_arch") == "128,128"
    with pytest.raises(ConfigError, match="batch_size: 0, must be 1 to 65536"):
        config.set("batch_size", 0)
    with pytest.raises(ConfigError, match="did you mean batch_size"):
        config.set("batchsize", 1)
    assert config.get("batch_size") == "64"
    config.close()


def test_methods_and_presets_are_listed():
    assert "dqn" in methods()
    config = Config("dqn")
    assert config.method == "dqn"
    presets = {preset.name: preset for preset in config.presets()}
    assert {"tuned", "mnih2015", "fastdqn"} <= set(presets)
    assert "CartPole-v1" in presets["tuned"].envs and presets["mnih2015"].envs is None
    config.close()
    with pytest.raises(ConfigError, match="nothing"):
        Config("nothing")
