"""The beginning of a run on a cluster, with a stand-in for Ray: its seed, missing cores, several drivers."""

import math
import threading
import time
import warnings

import numpy as np
import pytest

from fake_ray import Ray
from paceline import Gorila, distributed
from paceline.distributed import _model, _ray
from paceline.errors import ConfigError

SMALL = {"policy_kwargs": {"net_arch": [16]}, "learning_starts": 64, "batch_size": 8, "buffer_size": 4000, "learning_rate": 0.01}


@pytest.fixture
def ray(monkeypatch):
    fake = Ray()
    monkeypatch.setattr(_ray, "ray", lambda: fake)
    monkeypatch.setattr(_ray, "prefer_node", lambda node: None)
    return fake


def running(**keywords):
    return Gorila("MlpPolicy", "CartPole-v1", cluster="ray", **{**SMALL, "bundles": 2, "shards": 2, "seed": 7, **keywords})


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


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


@pytest.mark.parametrize("actors", [0, 2])
def test_no_process_prints_the_size_of_its_own_replay_memory(ray, capsys, actors):
    with running(verbose=1, actors=actors) as model:
        model.learn(200, log_interval=None)
        assert model.verbose == 1
    assert "replay memory" not in capsys.readouterr().out


@pytest.mark.parametrize("schedule", ["virtual", "recorded"])
def test_a_given_order_is_stopped_while_a_bundle_waits_for_cores(ray, monkeypatch, tmp_path, schedule):
    """A warning names the bundle before."""
    keywords = {"name": "short", "schedule": schedule}
    if schedule == "recorded":
        with Gorila("MlpPolicy", "CartPole-v1", **SMALL, bundles=2, shards=2, seed=7, schedule="race") as one:
            one.learn(400).save_order(tmp_path / "race")
        keywords["order"] = tmp_path / "race"
    monkeypatch.setattr(_model, "PATIENCE", math.inf)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 1.0}, raising=False)
    ray.hanging.add("short/bundle/1")
    warned = []

    def lose_patience():
        until(lambda: ("short/bundle/1", "begin_in_order") in ray.unanswered)
        monkeypatch.setattr(_model, "PATIENCE", 0.0)

    def warn(message, *_, **__):
        warned.append(str(message))
        model.stop()

    with warnings.catch_warnings(), running(**keywords) as model:
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", warn)
        threading.Thread(target=lose_patience).start()
        assert model.learn(400) is model
        assert warned == ["short: bundle/1: not started after 0 s; the run needs 2 cores and a little, and the cluster has 1"]
        assert model.num_timesteps == 0 and not any(method == "leg" for _, method in ray.unanswered)
        with pytest.raises(ConfigError, match="learn may be called once"):
            model.learn(400)
        ray.hanging.clear()


def test_the_first_learn_may_be_that_of_another_driver(ray):
    says = "^reset_num_timesteps: True, must be False after the first learn of a run, whose shards go on counting$"
    with running() as model:
        other = distributed.attach(model.name)
        steps = other.learn(200).num_timesteps
        for driver in (model, other):
            with pytest.raises(ConfigError, match=says):
                driver.learn(200)
        assert model.learn(200, reset_num_timesteps=False).num_timesteps >= steps + 200
        other.detach()


def test_a_loaded_run_counts_on_at_every_driver(ray, tmp_path):
    with running() as model:
        model.learn(200).save(tmp_path / "run")
    with distributed.load(tmp_path / "run") as loaded:
        other = distributed.attach(loaded.name)
        for driver in (loaded, other):
            with pytest.raises(ConfigError, match="^reset_num_timesteps: True, must be False"):
                driver.learn(200)
        other.detach()


def test_one_driver_learns_in_a_given_order(ray):
    with Gorila("MlpPolicy", "CartPole-v1", **SMALL, bundles=2, shards=2, seed=7) as one:
        want = one.learn(400)._native.parameters.flat("q_net")
    with running(schedule="virtual") as model:
        other = distributed.attach(model.name)
        assert np.array_equal(other.learn(400).run.parameters()[0], want)
        for driver in (model, other):
            with pytest.raises(ConfigError, match="learn may be called once"):
                driver.learn(400, reset_num_timesteps=False)
        other.detach()
