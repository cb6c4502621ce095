"""DQN with Munchausen targets."""

import numpy as np
import pytest

from envs import SMALL
from paceline import A2C, DQN
from paceline.errors import ConfigError


def small(**keywords):
    return DQN("MlpPolicy", "CartPole-v1", **{**SMALL, "num_envs": 2, "munchausen": True, **keywords})


IMPLICIT = {
    "policy_kwargs": {"net_arch": [16, 16]},
    "distribution": "implicit",
    "n_tau": 6,
    "n_tau_target": 5,
    "n_tau_act": 4,
    "n_cosines": 8,
}


@pytest.mark.parametrize(
    "more", [{}, {"distribution": "quantile", "n_quantiles": 5, "n_steps": 3}, IMPLICIT, {"dueling": True, "prioritized": "dqn_zoo"}]
)
def test_a_seed_gives_one_result_also_after_a_load(more, tmp_path):
    results = set()
    for threads in (1, 2):
        with small(num_threads=threads, **more) as model:
            model.learn(300)
            model.save(tmp_path / "run.paceline", replay=True)
            results.add(model.learn(200, reset_num_timesteps=False).hashes())
    with DQN.load(tmp_path / "run.paceline") as loaded:
        assert loaded.munchausen is True
        assert loaded.munchausen_tau == 0.03
        results.add(loaded.learn(200, reset_num_timesteps=False).hashes())
        assert np.isfinite(loaded.stats["loss"])
    assert len(results) == 1


def test_refusals():
    for keywords, message in (
        ({"double_q": True}, "double_q: true, must be false where munchausen is true"),
        ({"distribution": "categorical"}, "distribution: categorical, must be none, quantile or implicit where munchausen is true"),
        ({"munchausen_alpha": 2.0}, "munchausen_alpha: 2, must be 0 to 1"),
    ):
        with pytest.raises(ConfigError, match=message):
            small(**keywords)
    with pytest.raises(TypeError, match="'munchausen': only DQN and Gorila have Munchausen targets"):
        A2C("MlpPolicy", "CartPole-v1", munchausen=True)
