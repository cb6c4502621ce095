"""make_vec: async_reset, send and recv after a Ctrl-C."""

import numpy as np
import pytest

from conftest import ctrl_c_after
from paceline import make_vec
from paceline.errors import ConfigError


def received(envs):
    """Receives all environments; returns their observations."""
    rows = {}
    for _ in range(envs.num_envs // envs.batch_size):
        obs, *_, infos = envs.recv()
        rows.update(zip(infos["env_id"].tolist(), obs.tolist()))
    return [rows[i] for i in range(envs.num_envs)]


def test_an_interrupted_offer_keeps_the_memory():
    envs = make_vec("CartPole-v1", 4, batch_size=2)
    want = envs.reset(seed=1)[0].tolist()
    with ctrl_c_after("paceline_vec_offer"):
        envs.async_reset(seed=1)
    envs.async_reset(seed=1)
    assert received(envs) == want
    envs.close()


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("batch_size", [2, 4])
def test_an_interrupted_recv_loses_no_results(batch_size, copy):
    envs = make_vec("CartPole-v1", 4, batch_size=batch_size, copy=copy)
    want, other = envs.reset(seed=1)[0].tolist(), make_vec("CartPole-v1", 4)
    other.reset(seed=1)
    stepped = other.step(np.ones(4, int))[0].tolist()
    for _ in range(3):
        envs.async_reset(seed=1)
        with ctrl_c_after("paceline_vec_recv"):
            envs.recv()
        with pytest.raises(ConfigError, match="env_id: [0-3], is under way already, must be received first"):
            envs.async_reset(seed=2)
        with pytest.raises(ConfigError, match="env_id: [0-3], is under way already, must be received first"):
            envs.send(np.zeros(4, int), np.arange(4))
        assert received(envs) == want
        envs.send(np.ones(4, int), np.arange(4))
        assert received(envs) == stepped
    # reset drops the results.
    for drop in (lambda: envs.reset(seed=1), envs.drain):
        envs.async_reset(seed=5)
        with ctrl_c_after("paceline_vec_recv"):
            envs.recv()
        drop()
        envs.async_reset(seed=1)
        assert received(envs) == want
    envs.close()
