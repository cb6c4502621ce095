"""DQN with distributions of returns and with two streams."""

import numpy as np
import pytest

from envs import SMALL
from paceline import DQN, Policy
from paceline.errors import ConfigError

HEADS = {
    "categorical": {"distribution": "categorical", "n_atoms": 11, "v_min": 0.0, "v_max": 50.0},
    "quantile": {"distribution": "quantile", "n_quantiles": 7},
    "dueling": {"dueling": True, "dueling_rescaled": True, "policy_kwargs": {"net_arch": [16, 12]}},
}
HEADS["implicit"] = {
    "distribution": "implicit", "n_tau": 6, "n_tau_target": 5, "n_tau_act": 4, "n_cosines": 8,
    "policy_kwargs": {"net_arch": [16, 12]},
}  # fmt: skip
HEADS["implicit dueling"] = HEADS["implicit"] | HEADS["dueling"]
HEADS["categorical dueling"] = HEADS["categorical"] | HEADS["dueling"]
HEADS["quantile dueling"] = HEADS["quantile"] | HEADS["dueling"]


def small(**keywords):
    return DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "num_envs": 2, **keywords})


def implicit_by_hand(model, obs, taus, dueling=False):
    """The mean quantiles at some taus of a network with two hidden layers, from its weights."""
    weights = {name: array.astype(np.float64) for name, array in model.get_parameters()["policy"].items()}

    def dense(x, layer):
        name = f"q_net.quantile_net.{layer}"
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    cosines = np.cos(np.pi * np.arange(1, 1 + weights["q_net.quantile_net.embedding.weight"].shape[1]) * taus[:, None])
    x = np.maximum(dense(obs, "0"), 0)[:, None, :] * np.maximum(dense(cosines, "embedding"), 0)
    if not dueling:
        return dense(np.maximum(dense(x, "2"), 0), "4").mean(axis=1)
    value, advantage = (dense(np.maximum(dense(x, f"{name}.0"), 0), f"{name}.2") for name in ("value", "advantage"))
    return (value + advantage - advantage.mean(axis=2, keepdims=True)).mean(axis=1)


def by_hand(model, obs, distribution="none", n_atoms=1, v_min=0.0, v_max=0.0, n_quantiles=1, dueling=False, **_):
    """The Q-values of a network with one hidden layer, or with two where it is dueling, from its weights."""
    net = "quantile_net" if distribution == "quantile" else "q_net"
    weights = {name: array.astype(np.float64) for name, array in model.get_parameters()["policy"].items()}

    def dense(x, layer):
        return x @ weights[f"q_net.{net}.{layer}.weight"].T + weights[f"q_net.{net}.{layer}.bias"]

    points, actions = n_atoms * n_quantiles, 2 if distribution == "quantile" else 1
    shape = [(-1, 2, points), (-1, points, 2)][actions - 1]

    def stream(name):
        return dense(np.maximum(dense(x, f"{name}0"), 0), f"{name}2")

    x = obs
    if dueling:
        x = np.maximum(dense(obs, "0"), 0)
        advantage = stream("advantage.").reshape(shape)
        x = np.expand_dims(stream("value."), actions) + advantage - advantage.mean(axis=actions, keepdims=True)
    else:
        x = stream("").reshape(shape)
    if distribution == "categorical":
        p = np.exp(x - x.max(axis=2, keepdims=True))
        return (p / p.sum(axis=2, keepdims=True)) @ np.linspace(v_min, v_max, n_atoms)
    return x.mean(axis=3 - actions)


@pytest.mark.parametrize("head", HEADS)
def test_q_values_are_the_means(head, tmp_path):
    obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    with small(**HEADS[head]) as model:
        model.learn(300)
        if HEADS[head].get("distribution") == "implicit":
            taus = (np.arange(4) + 0.5) / 4  # without draws
            want = implicit_by_hand(model, obs, taus, dueling=HEADS[head].get("dueling", False))
        else:
            want = by_hand(model, obs, **HEADS[head])
        with model.policy_snapshot() as policy:
            np.testing.assert_allclose(policy.q_values(obs), want, rtol=1e-4, atol=1e-4)
            policy.save(tmp_path / "policy.paceline")
        model.save(tmp_path / "run.paceline")
        actions = model.predict(obs, deterministic=True)[0]
    with Policy.load(tmp_path / "policy.paceline") as policy:
        np.testing.assert_allclose(policy.q_values(obs), want, rtol=1e-4, atol=1e-4)
    with DQN.load(tmp_path / "run.paceline") as loaded:
        np.testing.assert_array_equal(loaded.predict(obs, deterministic=True)[0], actions)
        assert np.isfinite(loaded.learn(200).stats["loss"])


@pytest.mark.parametrize("head", HEADS)
def test_a_seed_gives_one_result_for_any_number_of_threads(head):
    results = set()
    for threads in (1, 2):
        with small(num_threads=threads, double_q=True, **HEADS[head]) as model:
            results.add(model.learn(300).hashes())
    assert len(results) == 1


def test_keywords_of_qrdqn_and_refusals():
    with small(distribution="quantile", policy_kwargs={"net_arch": [16], "n_quantiles": 9}) as model:
        assert model.n_quantiles == 9
        assert model.get_parameters()["policy"]["q_net.quantile_net.2.weight"].shape == (18, 16)
        with pytest.raises(ConfigError, match="stable-baselines3 has no policy of distributions"):
            model.policy.state_dict()
    with small(dueling=True) as model, pytest.raises(ConfigError, match="stable-baselines3 has no policy with two streams"):
        model.policy.state_dict()
    for keywords, message in (
        ({"distribution": "normal"}, "distribution: .*normal"),
        ({"distribution": "categorical", "v_min": 2.0, "v_max": 1.0}, r"v_min: 2, must be below v_max \(1\)"),
        ({"dueling_rescaled": True}, "dueling_rescaled: true, must be false where dueling is false"),
        ({"n_atoms": 1}, "n_atoms: 1, must be 2 to 1024"),
        ({"distribution": "implicit", "policy_kwargs": {"net_arch": [16]}}, r"net_arch: \[16\], must be at least two widths"),
        ({"distribution": "implicit", "n_tau": 0}, "n_tau: 0, must be 1 to 512"),
    ):
        with pytest.raises(ConfigError, match=message):
            small(**keywords)
