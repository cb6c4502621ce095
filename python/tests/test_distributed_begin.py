"""The beginning of a run on a cluster, with a stand-in for Ray: its seed, missing cores, several drivers."""

import numpy as np
import pytest

from fake_ray import Ray
from paceline import Gorila, distributed
from paceline.distributed import _ray

SMALL = {"policy_kwargs": {"net_arch": [16]}, "learning_starts": 64, "batch_size": 8, "buffer_size": 4000, "learning_rate": 0.01}


@pytest.fixture
def ray(monkeypatch):
    fake = Ray()
    monkeypatch.setattr(_ray, "ray", lambda: fake)
    monkeypatch.setattr(_ray, "prefer_node", lambda node: None)
    return fake


def running(**keywords):
    return Gorila("MlpPolicy", "CartPole-v1", cluster="ray", **{**SMALL, "bundles": 2, "shards": 2, "seed": 7, **keywords})


@pytest.mark.parametrize("seed", ["7", 7.0])
def test_a_seed_is_a_whole_number(ray, tmp_path, seed):
    with Gorila("MlpPolicy", "CartPole-v1", **SMALL, bundles=2, shards=2, seed=seed) as one:
        assert type(one.seed) is int
        want = one.learn(400)._native.parameters.flat("q_net")
    with running(seed=seed, schedule="virtual") as model:
        assert (type(model.seed), model.seed) == (int, 7)
        assert np.array_equal(model.learn(400).run.parameters()[0], want)
        model.save(tmp_path / "run")
    with distributed.load(tmp_path / "run") as loaded:
        assert loaded.seed == 7
