"""Actors, replay shards and learners that are decoupled, on a local Ray cluster with tiny networks; make test-ray."""

import functools
import os
import re
import signal
import warnings
import zipfile

import numpy as np
import pytest

pytest.importorskip("ray")

import ray_cluster
from _ledgers import compare
from paceline import Gorila, distributed
from paceline.distributed import _model
from paceline.errors import ConfigError, PacelineError, PacelineWarning
from ray_cluster import stored_bytes, until

running = functools.partial(ray_cluster.running, shards=2, actors=2, replay_shards=2, pull_every=10)


def test_a_run_trains_saves_and_goes_on(cluster, tmp_path):
    with running(prioritized="dqn_zoo", n_steps=3) as model:
        assert "2 actors, 2 replay shards, 1 bundles, 2 shards" in repr(model) and model.num_envs == 2
        model.learn(600)
        stats = model.stats
        assert 600 <= stats["num_timesteps"] < 700 and stats["episodes"] > 10 and stats["mean_return"] > 5
        assert abs(stats["updates"] - (stats["num_timesteps"] - 64) // 4) < 25 and stats["replay_size"] == stats["num_timesteps"]
        assert 0 < stats["publications"] <= 2 * (1 + stats["updates"])
        assert stats["lost_steps"] == stats["lost_transitions"] == stats["lost_updates"] == 0
        assert model.predict(model.observation_space.sample(), deterministic=True)[0] in (0, 1)
        model.save(tmp_path / "run.zip", replay=True)
        hashes = [model.run.slow_call("replay", k, "status") for k in range(2)]
    until(lambda: stored_bytes() == 0)
    assert b"pickle" not in (tmp_path / "run.zip").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = distributed.load(tmp_path / "run.zip")
    with loaded:
        again = [loaded.run.slow_call("replay", k, "status") for k in range(2)]
        for name in ("added", "drawn", "replay_size"):
            assert [one[name] for one in again] == [one[name] for one in hashes]
        loaded.learn(100, reset_num_timesteps=False)
        assert loaded.stats["num_timesteps"] >= stats["num_timesteps"] + 100 and loaded.stats["updates"] > stats["updates"]


def test_images_travel_through_the_object_store(cluster):
    """Minibatches above Ray's inline limit are read-only views in the learner."""
    keywords = {"policy_kwargs": None, "learning_starts": 40, "buffer_size": 400, "train_freq": 20, "actors": 1, "replay_shards": 1}
    with running("Catch-v0", "CnnPolicy", envs_per_actor=2, **keywords) as model:
        model.learn(200)
        assert model.stats["updates"] >= 4 and model.stats["replay_size"] >= 200
    until(lambda: stored_bytes() == 0)


@pytest.mark.parametrize("part", ["actor/1", "replay/0", "bundle/0"])
def test_a_killed_process_comes_back(cluster, part, tmp_path):
    with running(ledger=str(tmp_path)) as model:
        run = model.run
        run.call("begin", 10**9)
        until(lambda: model.stats["updates"] > 30)
        os.kill(until(lambda: run.call("status")["pids"].get(part)), signal.SIGKILL)
        recovery = until(lambda: next(iter(model.stats and model.recoveries), None))
        assert f"{recovery.part}/{recovery.number}" == part
        before = model.stats
        what = {"actor/1": "lost_steps", "replay/0": "lost_transitions", "bundle/0": None}[part]
        if what == "lost_steps":
            assert before[what] == recovery.lost == 20 and "actor 1 lost at most 20 steps" in recovery.text
        elif what:
            assert before[what] == recovery.lost > 0 and f"replay 0 lost {recovery.lost} transitions" in recovery.text
        until(lambda: model.stats["updates"] > before["updates"] + 20)
        until(lambda: model.stats["num_timesteps"] > before["num_timesteps"] + 100)
        run.call("halt")
        until(lambda: not run.call("status")["running"])
        ledgers = compare(tmp_path)
        assert ledgers.pushes > 30 and ledgers.unknown == 0


def test_nothing_to_draw_ends_the_run(cluster):
    """Episodes of Catch are shorter than 20 steps."""
    keywords = {"n_steps": 20, "n_step_tails": "drop", "learning_starts": 100, "actors": 1, "replay_shards": 1, "envs_per_actor": 4}
    says = ": bundle 0: ConfigError: n_step_tails: drop, no transition can be drawn: no episode among the .* has 20 steps"
    with running("Catch-v0", **keywords) as model, pytest.raises(PacelineError, match=says):
        model.learn(20_000)


def acted(run, actor):
    """The status of an actor that has acted; None before."""
    status = run.slow_call("actor", actor, "status")
    return status if status.get("epsilon", 0) > 0 else None


def test_attach_and_the_preset_of_apex(cluster, tmp_path):
    with pytest.raises(ConfigError, match="^actors: None, must be at least 1 with preset 'apex'$"):
        Gorila.from_preset("apex", "CartPole-v1", cluster="ray")
    keywords = {"learning_starts": 64, "batch_size": 8, "train_freq": 8, "buffer_size": 4000, "pull_every": 10, "seed": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Gorila.from_preset("apex", "CartPole-v1", cluster="ray", actors=3, **keywords)
    with model:
        run = model.run
        assert (model.n_steps, model.prioritized, model.dueling, run.spec.optimizer["optimizer"]) == (3, "dqn_zoo", True, "rmsprop_mnih")
        run.call("begin", 10**9)
        until(lambda: model.stats["updates"])
        other = distributed.attach(model.name)
        assert other.run.spec == run.spec and other.stats["num_timesteps"] > 0
        other.detach()
        before = model.stats["updates"]
        model.save(tmp_path / "run.zip", replay=True)  # while training goes on
        until(lambda: model.stats["updates"] > before)
        assert {"shard-0", "replay-0"} < set(zipfile.ZipFile(tmp_path / "run.zip").namelist())
        statuses = [until(lambda k=k: acted(run, k)) for k in range(3)]
        epsilons = [status["epsilon"] for status in statuses]
        assert np.allclose(epsilons, [0.4, 0.4**4.5, 0.4**8])


def test_processes_without_cores_are_named(cluster, monkeypatch):
    monkeypatch.setattr(_model, "PATIENCE", 0.0)
    with running(actors=6, replay_shards=1) as model, pytest.warns(PacelineWarning) as warned:
        model._late = []
        assert model.stats["num_timesteps"] == 0
    says = r": .*actor/\d.*: not started after 0 s; the run needs 7 cores and a little, and the cluster has 6$"
    assert re.search(says, str(warned[0].message))


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"method": "a3c"}, "^actors: 2, must be 0 with method 'a3c'"),
        ({"schedule": "virtual"}, "^schedule: 'virtual', must be 'race' where actors are apart$"),
        ({"noisy": True}, "^noisy: True, must be False where actors are apart$"),
        ({"num_envs": 3}, r"^num_envs: 3, must be None or actors \* envs_per_actor \(2\)$"),
    ],
)
def test_bad_keywords_are_refused(cluster, keywords, says):
    with pytest.raises(ConfigError, match=says), running(**keywords):
        pass
