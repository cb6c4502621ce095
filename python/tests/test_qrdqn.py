"""QRDQN: sb3-contrib's keywords and defaults, on DQN."""

import warnings

import numpy as np
import pytest

from envs import SMALL
from paceline import DQN, QRDQN
from paceline.errors import ConfigError, PacelineWarning

OWN = {"distribution": "quantile", "n_quantiles": "200", "learning_rate": "5e-05", "exploration_fraction": "0.005",
       "exploration_final_eps": "0.01", "max_grad_norm": "0", "optimizer_eps": "0.0003125", "batch_size": "32"}  # fmt: skip


def test_defaults_are_those_of_sb3_contrib():
    with QRDQN("MlpPolicy", "CartPole-v1", seed=1) as model:
        assert {name: model.setting(name) for name in OWN} == OWN
    with QRDQN("MlpPolicy", "CartPole-v1", seed=1, batch_size=64, learning_rate=1e-3, max_grad_norm=10) as model:
        assert [model.setting(name) for name in ("optimizer_eps", "learning_rate", "max_grad_norm")] == ["0.00015625", "0.001", "10"]
    with QRDQN("MlpPolicy", "CartPole-v1", seed=1, optimizer="adam") as model:
        assert {name: model.setting(name) for name in OWN} == OWN
    with QRDQN("MlpPolicy", "CartPole-v1", seed=1, optimizer="rmsprop") as model:
        assert model.setting("optimizer_eps") == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error", PacelineWarning)  # its own exploration_fraction is no unused keyword
        QRDQN("MlpPolicy", "CartPole-v1", exploration_steps=100).close()
    with pytest.warns(PacelineWarning, match="^exploration_fraction: 0.5 is not used where exploration_steps is 100$"):
        QRDQN("MlpPolicy", "CartPole-v1", exploration_steps=100, exploration_fraction=0.5).close()
    kwargs = {"n_quantiles": 25, "optimizer_kwargs": {"eps": 1e-5}}
    with QRDQN("MlpPolicy", "CartPole-v1", seed=1, policy_kwargs=kwargs, n_steps=3) as model:
        assert [model.setting(name) for name in ("optimizer_eps", "n_quantiles", "n_steps")] == ["1e-05", "25", "3"]


def test_it_is_dqn_with_quantiles(tmp_path):
    small = {**SMALL, "num_envs": 2, "n_quantiles": 7, "learning_rate": 1e-3, "exploration_final_eps": 0.1, "max_grad_norm": 10}
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    with QRDQN("MlpPolicy", "CartPole-v1", **small, optimizer_eps=1e-8, exploration_fraction=0.1) as model:
        model.learn(300)
        model.save(tmp_path / "qr")
        actions = model.predict(obs, deterministic=True)[0]
        with DQN(
            "MlpPolicy", "CartPole-v1", **small, optimizer_eps=1e-8, exploration_fraction=0.1, distribution="quantile", device="cpu"
        ) as dqn:
            dqn.learn(300)
            assert dqn.hashes() == model.hashes()
            assert np.array_equal(dqn.predict(obs, deterministic=True)[0], actions)
    with QRDQN.load(tmp_path / "qr") as model:
        assert model.setting("learning_rate") == "0.001" and np.array_equal(model.predict(obs, deterministic=True)[0], actions)


@pytest.mark.parametrize("kwargs", [{}, {"net_arch": []}])
def test_quantile_nets_need_torch_only(kwargs, monkeypatch):
    import importlib.util

    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "sb3_contrib" else find_spec(name))
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    small = {**SMALL, "policy_kwargs": kwargs, "n_quantiles": 7}
    with QRDQN("MlpPolicy", "CartPole-v1", **small) as model, model.policy_snapshot() as ours:
        quantiles = model.quantile_net(torch.as_tensor(obs))
        assert quantiles.shape == (5, 7, 2) and model.quantile_net_target(torch.as_tensor(obs)).shape == (5, 7, 2)
        np.testing.assert_allclose(quantiles.mean(1).detach().numpy(), ours.q_values(obs), atol=1e-5)
        np.testing.assert_array_equal(model.policy(torch.as_tensor(obs)).numpy(), model.predict(obs, deterministic=True)[0])
        assert set(model.policy.state_dict()) == set(model.get_parameters()["policy"])
        assert not hasattr(model, "q_net") and not hasattr(model, "q_net_target")


def test_messages_have_the_names_that_were_given():
    with (
        QRDQN("MlpPolicy", "CartPole-v1", **SMALL) as model,
        DQN("MlpPolicy", "CartPole-v1", **SMALL, distribution="quantile", n_quantiles=200, device="cpu") as dqn,
    ):
        for given, net in ((model.get_parameters()["policy"], "quantile_net"), (dqn.get_parameters()["policy"], "q_net")):
            first = next(name for name in given if name.startswith(f"{net}."))
            others = {name: array for name, array in given.items() if name != first}
            with pytest.raises(ConfigError, match=rf"missing \['{first}'\], unknown \['{net}.x'\]$"):
                model.set_parameters({"policy": {**others, f"{net}.x": given[first]}})
            with pytest.raises(ConfigError, match=rf"^parameters\['policy'\]\['{first}'\]: shape"):
                model.set_parameters({**others, first: given[first][:1]})
            model.set_parameters(given)


def test_other_distributions_are_refused(tmp_path):
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        model.save(tmp_path / "dqn")
    with pytest.raises(ConfigError, match="^distribution: none, must be quantile for QRDQN"):
        QRDQN.load(tmp_path / "dqn")
    with pytest.raises(TypeError, match="distribution"):
        QRDQN("MlpPolicy", "CartPole-v1", distribution="categorical")
    with pytest.raises(TypeError, match="QRDQN has quantiles"):
        QRDQN("MlpPolicy", "CartPole-v1", v_max=3)


@pytest.mark.parametrize(
    "given, says",
    [
        ({"batch_size": 0}, "batch_size: 0, must be"),
        ({"batch_size": -3}, "batch_size: -3, must be"),
        ({"batch_size": "x"}, 'batch_size: "x", must be'),
        ({"batch_size": None}, "batch_size: "),
        ({"policy_kwargs": 5}, "policy_kwargs: 5, must be a dict"),
    ],
)
def test_wrong_values_are_refused_by_their_names(given, says):
    with pytest.raises(ConfigError, match=f"^{says}"):
        QRDQN("MlpPolicy", "CartPole-v1", **given)
