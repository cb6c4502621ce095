"""Whole runs of a cluster in one process: the actors of a run with a stand-in for Ray."""

import csv
import time
import warnings

import numpy as np
import pytest

from _ledgers import compare
from fake_ray import Ray
from in_process import Direct
from paceline import DQN, Gorila, Store, distributed
from paceline.callbacks import CheckpointCallback, EvalCallback
from paceline.distributed import _ray
from paceline.distributed._factory import keywords_of_worker
from paceline.distributed._learner import Learner
from paceline.distributed._shards import Shard
from paceline.errors import StoppedError
from paceline.logger import configure

SMALL = {
    "seed": 7, "policy_kwargs": {"net_arch": [16]}, "learning_starts": 64, "batch_size": 8, "buffer_size": 4000, "train_freq": 4,
    "target_update_interval": 64, "learning_rate": 0.01, "exploration_steps": 400,
}  # fmt: skip


@pytest.fixture
def ray(monkeypatch):
    fake = Ray()
    monkeypatch.setattr(_ray, "ray", lambda: fake)
    monkeypatch.setattr(_ray, "prefer_node", lambda node: None)
    return fake


def running(**keywords):
    return Gorila("MlpPolicy", "CartPole-v1", cluster="ray", **{**SMALL, "bundles": 2, "shards": 2, "copy_every": 10, **keywords})


def until(condition):
    end = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return value


def test_processes_end_and_what_is_said_is_what_was_lost(ray, tmp_path):
    with warnings.catch_warnings(), running(copy_every=50, ledger=str(tmp_path)) as model:
        warnings.simplefilter("ignore")
        run, ends = model.run, 0
        run.call("begin", 10**9)
        for part in ("shard/0", "supervisor/0", "shard/1", "shard/0", "supervisor/0"):
            mark = until(lambda: model.stats["updates"])
            until(lambda mark=mark: model.stats["updates"] > mark + 70)
            ray.end(f"{model.name}/{part}")
            if part != "supervisor/0":
                until(lambda part=part: run.call("status")["down"] == [f"shard {part[-1]}"])
                ends += 1
            ray.restart(f"{model.name}/{part}")
            until(lambda ends=ends: model.stats["recoveries"] == ends)
        run.call("halt")
        until(lambda: not run.call("status")["running"])
        lost = model.stats["lost_updates"]
        assert [f"{r.part}/{r.number}" for r in model.recoveries] == ["shard/0", "shard/1", "shard/0"]
        assert sum(recovery.lost for recovery in model.recoveries) == lost > 0
        ledgers = compare(tmp_path)
        assert ledgers.pushes > 200 and ledgers.unknown == 0 and ledgers.equal == ledgers.lives == 2
        assert 0 <= ledgers.lost - lost <= 3 * 4  # answers under way to two learners


def test_a_checkpoint_goes_on_with_another_number_of_bundles(ray, tmp_path):
    with running() as model:
        model.learn(600)
        before = model.stats
        theta = model.run.parameters()[0]
        model.save(tmp_path / "run", replay=True)
    assert not ray.actors
    for bundles in (1, 5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = distributed.load(tmp_path / "run", bundles=bundles)
        with loaded:
            assert loaded.num_envs == bundles and loaded.num_timesteps == before["num_timesteps"]
            assert np.array_equal(loaded.run.parameters()[0], theta)
            loaded.learn(400, reset_num_timesteps=False)
            assert loaded.num_timesteps >= before["num_timesteps"] + 400 and loaded.stats["updates"] > before["updates"]


def test_a_run_that_another_process_has_stopped(ray):
    with running(lease=50) as model:
        assert distributed.stop(model.name) and not ray.actors
        says = f"^{model.name}: has ended, by a call of stop or after a lease of 50 s without a driver$"
        with pytest.raises(StoppedError, match=says):
            model.learn(100)


def test_callbacks_save_and_evaluate(ray, tmp_path):
    save = CheckpointCallback(100, tmp_path / "saved", save_replay_buffer=True)
    evaluate = EvalCallback("CartPole-v1", n_eval_episodes=2, eval_freq=100, best_model_save_path=tmp_path / "best", log_path=tmp_path)
    with running() as model:
        model.learn(1000, callback=[save, evaluate])
        assert evaluate.evaluations_timesteps and evaluate.last_mean_reward > 0 and model.num_timesteps >= 1000
    saved = sorted((tmp_path / "saved").iterdir())
    assert saved and all(path.suffix == ".zip" for path in saved)  # with the experience
    for path in (saved[-1], tmp_path / "best" / "best_model.zip"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = distributed.load(path)
        with loaded:
            assert loaded.num_timesteps > 0


@pytest.mark.parametrize("given", [{}, {"train_freq": (4, "step")}, {"outliers": 0.5}, {"max_staleness": 1}])
def test_virtual_order_has_the_bits_and_counts_of_one_process(ray, given):
    keywords = {**SMALL, "bundles": 2, "shards": 2, **given}
    names = ("updates", "lag", "lag_most", "refused", "outliers")
    with Gorila("MlpPolicy", "CartPole-v1", **keywords) as one:
        want = one.learn(2000)._native.parameters.flat("q_net")
        counts = [one.stats[name] for name in names]
    with running(**keywords, schedule="virtual") as model:
        assert np.array_equal(model.learn(2000).run.parameters()[0], want)
        assert [model.stats[name] for name in names] == counts and model.stats["gradients"] >= counts[0]
    assert counts[1] > 0 and (counts[3] > 0) == ("max_staleness" in given) and (counts[4] > 0) >= ("outliers" in given)


def test_log_records_have_the_names_of_one_process(ray, tmp_path):
    logged = []
    for cluster in (None, "ray"):
        with Gorila("MlpPolicy", "CartPole-v1", cluster=cluster, bundles=2, shards=2, outliers=1, **SMALL) as model:
            model.set_logger(configure(tmp_path / str(cluster), ["csv"]))
            model.learn(1500, log_interval=4)
            with open(tmp_path / str(cluster) / "progress.csv", newline="") as file:
                logged.append({name: value for name, value in list(csv.DictReader(file))[-1].items() if value})
    one, ray_log = logged
    for name in ("time/fps", "train/outliers", "async/lag", "async/lag_most", "async/refused", "rollout/ep_rew_mean"):
        assert name in one and name in ray_log
    assert float(ray_log["time/fps"]) > 0


def test_a_race_of_one_bundle_and_one_shard_has_the_bits_of_one_process():
    """With delay=0 a learner waits for every answer, as a bundle in one process does."""
    steps, keywords = 2000, {k: v for k, v in SMALL.items() if k != "seed"}
    with Gorila("MlpPolicy", "CartPole-v1", bundles=1, shards=1, schedule="race", seed=7, **keywords) as one:
        one.learn(steps)
        want, stats = one._native.parameters.flat("q_net"), one.stats
    worker = keywords_of_worker("dqn", keywords, 1)
    with DQN("MlpPolicy", "CartPole-v1", num_envs=1, seed=7, updates="outside", **worker) as model:
        theta = model.flat_parameters()
        shard = Shard("id", 0, Store(theta, optimizer="adagrad", max_staleness=100), lambda a: a, lambda *_: None, 100)
        learner = Learner(model, Direct([shard]), [(0, len(theta))], run="id", learner=0, delay=0)
        learner.begin(steps)
        while learner.update():
            pass
        got = shard.pull("id")
    assert np.array_equal(got.parameters, want)
    assert (got.version, learner.steps, learner.tally.outliers) == (stats["updates"], stats["num_timesteps"], stats["outliers"])
