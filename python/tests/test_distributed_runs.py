"""Whole runs of a cluster in one process: the actors of a run with a stand-in for Ray."""

import csv
import io
import time
import warnings

import numpy as np
import pytest

from _ledgers import compare
from fake_ray import Lost, Ray, Ref, TaskError
from in_process import Direct
from paceline import DQN, Gorila, Store, distributed
from paceline.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from paceline.distributed import _conducted, _files, _processes, _ray, _run, _supervisor
from paceline.distributed._factory import keywords_of_worker
from paceline.distributed._learner import Learner
from paceline.distributed._shards import Shard
from paceline.distributed._spec import Spec
from paceline.errors import CheckpointError, ConfigError, PacelineError, StoppedError
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
        assert ledgers.pushes > 200 and ledgers.unknown == ledgers.unequal == 0 and ledgers.equal == ledgers.lives == 2
        assert 0 <= ledgers.lost - lost <= 3 * 4  # answers under way to two learners


def test_a_keeper_that_hangs_stops_no_copies_to_the_other(ray, monkeypatch):
    monkeypatch.setattr(_supervisor, "SAVE", 0.0)
    monkeypatch.setattr(_supervisor, "POLL", 0.01)
    with running(bundles=1) as model:
        ray.hanging.add(f"{model.name}/keeper/0")
        updates = model.learn(600).stats["updates"]
        copies = ray.actors[f"{model.name}/keeper/1"].status()["copies"]
        assert updates > 50 and all(updates - version <= 10 for _, version, _ in copies.values()) and len(copies) == 2
        assert ray.unanswered.count((f"{model.name}/keeper/0", "keep")) == 2  # one of each shard
        assert ray.unanswered.count((f"{model.name}/keeper/0", "remember")) <= 3  # of begin and halt, and one more
        ray.hanging.clear()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of two bundles, its steps, updates and parameters."""
    with pytest.MonkeyPatch.context() as patch:
        fake = Ray()
        patch.setattr(_ray, "ray", lambda: fake)
        patch.setattr(_ray, "prefer_node", lambda node: None)
        path = tmp_path_factory.mktemp("saved") / "run.zip"
        with running() as model:
            model.learn(600)
            stats, theta = model.stats, model.run.parameters()[0]
            model.save(path, replay=True)
        assert not fake.actors
        return path, stats["num_timesteps"], stats["updates"], theta


@pytest.mark.parametrize("bundles", [1, 5])
def test_a_checkpoint_goes_on_with_another_number_of_bundles(ray, saved, bundles):
    path, steps, updates, theta = saved
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        loaded = distributed.load(path, bundles=bundles)
    left = f"{path}: the experience of 1 of 2 bundles is left out, because the run has 1"
    assert [str(w.message) for w in warned if "experience of" in str(w.message)] == [left] * (bundles == 1)
    with loaded:
        assert loaded.num_envs == bundles and loaded.num_timesteps == steps
        assert (loaded.buffer_size, loaded.run.spec.worker["buffer_size"]) == (4000, 4000 // bundles)
        assert 64 <= loaded.learning_starts < 64 + bundles
        assert np.array_equal(loaded.run.parameters()[0], theta)
        loaded.learn(400, reset_num_timesteps=False)
        assert loaded.num_timesteps >= steps + 400 and loaded.stats["updates"] > updates


def test_a_checkpoint_is_checked_before_a_process_starts(ray, saved, tmp_path):
    path = saved[0]
    with pytest.raises(ConfigError, match="^env: 'Acrobot-v1', has a network of 163 parameters, must be 114 as in the file$"):
        distributed.load(copied(path, tmp_path / "run.zip"), env="Acrobot-v1")
    data = bytearray(path.read_bytes())
    data[data.index(b"bundle-1") + 2000] ^= 1
    (tmp_path / "damaged.zip").write_bytes(data)
    with pytest.raises(CheckpointError, match="damaged.zip: .*bundle-1"):
        distributed.load(tmp_path / "damaged.zip")
    assert not ray.made


def copied(path, to, **fields):
    """A copy of a checkpoint without its experience; fields: those of the spec that differ."""
    with _files.opened(path) as old, _files.written(to) as new:
        new.head({**old.head, "spec": {**old.head["spec"], **fields}})
        for k in old.indexes("shard"):
            new.add("shard", k, old.read("shard", k))
    return to


def test_the_environment_of_a_file_with_experience_is_that_of_the_file(ray, saved, tmp_path):
    says = "^env: 'Acrobot-v1', must be None or 'CartPole-v1', of which the file has experience$"
    with pytest.raises(ConfigError, match=says):
        distributed.load(saved[0], env="Acrobot-v1")
    with pytest.raises(ConfigError, match="^env: object, must be the name of a built-in environment"):
        distributed.load(saved[0], env=object())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distributed.load(saved[0], env="CartPole-v1").close()
    file = copied(saved[0], tmp_path / "run.zip", env="Acrobot-v1")
    with distributed.load(file, env="CartPole-v1") as loaded:
        assert loaded.run.spec.env == "CartPole-v1"


@pytest.mark.parametrize("where", ["connect", "start"])
def test_errors_of_the_cluster_are_not_those_of_the_file(ray, saved, monkeypatch, where):
    def refused(*_):
        raise ConnectionError("no cluster there")

    monkeypatch.setattr(*{"connect": (_ray, "connect"), "start": (_run.Run, "start")}[where], refused)
    with pytest.raises(ConnectionError, match="^no cluster there$"):
        distributed.load(saved[0])


def test_keywords_that_no_run_has_are_those_of_the_file(ray, saved, tmp_path):
    with pytest.raises(CheckpointError, match="run.zip: .*'no_such'"):
        distributed.load(copied(saved[0], tmp_path / "run.zip", worker={"no_such": 1}))
    assert not ray.made


def test_file_objects(ray, saved):
    file = io.BytesIO()
    with running(bundles=1) as model:
        model.learn(200)
        model.save(file, replay=True)
        steps, theta = model.num_timesteps, model.run.parameters()[0]
    with distributed.load(file) as loaded:
        assert loaded.num_timesteps == steps and np.array_equal(loaded.run.parameters()[0], theta)
        loaded.learn(100, reset_num_timesteps=False)
    with pytest.warns(UserWarning, match="^the file: the experience of 1 of 2 bundles is left out, because the run has 1$"):
        distributed.load(io.BytesIO(saved[0].read_bytes()), bundles=1).close()


def half(progress):
    return 0.01 * progress**2


@pytest.mark.parametrize(
    "keywords",
    [
        {"learning_rate": (0.01, 0.0)},
        {"learning_rate": half},
        {"learning_rate": lambda progress: 0.01 * progress},
        {"learning_rate": np.float32(0.01), "gamma": np.float64(0.9)},
        {"batch_size": np.int64(8), "bundles": np.int64(2), "seed": np.int64(7), "max_staleness": np.int64(20), "lease": np.float32(60)},
        {"train_freq": (4, "step"), "policy_kwargs": {"net_arch": np.array([16]).tolist(), "activation_fn": type("Tanh", (), {})}},
        {"policy_kwargs": {"net_arch": (16,), "activation_fn": np.tanh}},
        {"method": "a3c", "learning_rate": (1e-3, 0.0)},
        {"method": "appo", "clip_range": (0.2, 0.1), "n_steps": 16, "batch_size": 16},
        {"preset": "tuned"},
    ],
    ids=lambda keywords: ", ".join(keywords),
)
def test_a_checkpoint_has_the_keywords_as_they_were(ray, tmp_path, keywords):
    if "preset" in keywords:
        model = Gorila.from_preset("tuned", "CartPole-v1", cluster="ray", seed=1, bundles=2, buffer_size=4000, learning_starts=64)
    elif "method" in keywords:
        model = distributed.start("MlpPolicy", "CartPole-v1", seed=1, bundles=1, shards=2, actors_per_bundle=2, **keywords)
    else:
        model = running(**keywords)
    with model:
        model.learn(300)
        model.save(tmp_path / "run")
        rate = model.learning_rate
    with distributed.load(tmp_path / "run") as loaded:
        assert loaded.run.spec.worker == model.run.spec.worker and loaded.run.spec.optimizer == model.run.spec.optimizer
        assert loaded.learning_rate == rate and loaded.seed == model.seed
        loaded.learn(100, reset_num_timesteps=False)


@pytest.mark.parametrize(
    "keywords",
    [
        {"method": "appo", "n_steps": 1, "actors_per_bundle": 8, "batch_size": 8},
        {"method": "appo", "n_steps": 16, "actors_per_bundle": 8, "batch_size": 64},
        {"method": "a3c", "vtrace": True, "vtrace_groups": 2, "n_steps": 6, "actors_per_bundle": 4},
        {"method": "a3c", "groups": 2, "actors_per_bundle": 4},
        {"buffer_size": 64, "batch_size": 8, "n_steps": 3, "actors_per_bundle": 20},
    ],
    ids=lambda keywords: ", ".join(keywords),
)
def test_keywords_that_need_the_environments_of_a_bundle(ray, keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as one of a batch_size that was reduced
        model = distributed.start("MlpPolicy", "CartPole-v1", seed=1, bundles=1, shards=2, **keywords)
    with model:
        for name, value in keywords.items():
            assert name == "actors_per_bundle" or getattr(model, name) == value
        model.learn(200)


def test_a_function_for_a_learning_rate_has_the_bits_of_one_process(ray):
    keywords = {**SMALL, "bundles": 2, "shards": 2, "learning_rate": half}
    with Gorila("MlpPolicy", "CartPole-v1", **keywords) as one:
        want = one.learn(600)._native.parameters.flat("q_net")
    with running(**keywords, schedule="virtual") as model:
        assert np.array_equal(model.learn(600).run.parameters()[0], want)


def test_a_run_that_another_process_has_stopped(ray):
    with running(lease=50) as model:
        assert distributed.stop(model.name) and not ray.actors
        says = f"^{model.name}: has ended, by a call of stop or after a lease of 50 s without a driver$"
        with pytest.raises(StoppedError, match=says):
            model.learn(100)


def test_stop_ends_the_run_of_the_whole_name_alone(ray):
    with running(name="exp") as model, running(name="exp.1") as other:
        ray.actors["exp/1/shard/0"] = ray.actors["exp/shard/0"]  # of a program that names its actors otherwise
        assert distributed.stop("exp") and not distributed.stop("1") and "exp/1/shard/0" in ray.actors
        assert model.name == "exp" and other.stats["updates"] == 0


def test_parameters_by_reference_that_are_lost_with_their_shard_are_pulled_again(ray, monkeypatch):
    with running(inline_limit=0) as model:
        want, put, get, lost = model.run.parameters()[0], [], ray.get, []

        def losing(ref, timeout=None):
            if ref in put and not lost:
                lost.append(ref)
                raise Lost("shard")
            return get(ref, timeout)

        put += [shard._shard._published[1] for name, shard in ray.actors.items() if "/shard/" in name]
        monkeypatch.setattr(ray, "get", losing)
        assert np.array_equal(model.run.parameters()[0], want) and lost


def test_attach_waits_for_a_supervisor_that_starts_again(ray, monkeypatch):
    with running() as model:
        get, lost = ray.get, []

        def losing(ref, timeout=None):
            if isinstance(ref.result, Spec) and not lost:
                lost.append(ref)
                raise Lost("supervisor")
            return get(ref, timeout)

        monkeypatch.setattr(ray, "get", losing)
        other = distributed.attach(model.name)
        assert other.name == model.name and lost
        other.detach()


def test_shards_are_saved_after_an_error_of_a_bundle(ray, tmp_path):
    with running() as model:
        model.learn(300)
        theta = model.run.parameters()[0]
        ray.actors[f"{model.name}/bundle/0"]._error = "NotFiniteError: a loss"
        until(lambda: model.run.call("status")["errors"])
        with pytest.raises(PacelineError, match=f"^{model.name}: bundle 0: NotFiniteError: a loss$"):
            model.learn(100, reset_num_timesteps=False)
        model.save(tmp_path / "run")
    with pytest.raises(PacelineError, match=": closed$"):
        model.save(tmp_path / "closed")
    with distributed.load(tmp_path / "run") as loaded:
        assert np.array_equal(loaded.run.parameters()[0], theta)
        loaded.learn(100, reset_num_timesteps=False)


def test_errors_of_other_processes_are_raised_as_they_are(ray, monkeypatch, saved):
    def load(self, state):
        raise TaskError(CheckpointError("replay: an entry that no run has"))

    monkeypatch.setattr(_processes.Bundle, "load", load)
    with pytest.raises(CheckpointError, match="^replay: an entry that no run has$"):
        distributed.load(saved[0])
    assert not ray.actors


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


@pytest.mark.parametrize(
    "given", [{}, {"train_freq": (4, "step")}, {"outliers": 0.5}, {"max_staleness": 1}, {"optimizer": "rmsprop_lasagne"}]
)
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


@pytest.mark.parametrize(
    "part, when",
    [
        ("shard/0", "in the run"),
        ("shard/1", "in the run"),
        ("bundle/1", "in the run"),
        ("shard/0", "after the last visit"),
        ("shard/1", "after the last visit"),
    ],
)
def test_a_process_that_starts_again_ends_a_run_of_a_given_order(ray, monkeypatch, part, when):
    with running(schedule="virtual") as model:
        waits, restarts = [], []

        def restart():
            if not restarts:
                restarts.append(part)
                ray.end(f"{model.name}/{part}")
                ray.restart(f"{model.name}/{part}")

        def wait(self, leg, wait=_conducted.RayProcesses.wait):
            waits.append(leg)
            if when == "in the run" and len(waits) == 60:
                restart()
            return wait(self, leg)

        def end(self, steps, end=_conducted.RayProcesses.end):
            restart()
            end(self, steps)

        monkeypatch.setattr(_conducted.RayProcesses, "wait", wait)
        monkeypatch.setattr(_conducted.RayProcesses, "end", end)
        with pytest.raises(StoppedError, match=f"^{part.replace('/', ' ')}: has started again, a run of a given order cannot go on$"):
            model.learn(600)
        assert restarts


def test_a_process_that_has_ended_ends_a_run_of_a_given_order(ray, monkeypatch):
    with running(schedule="virtual") as model:
        monkeypatch.setattr(_conducted.RayProcesses, "end", lambda self, steps: ray.get(ray.end(f"{model.name}/shard/1") or Ref(lost)))
        with pytest.raises(StoppedError, match=f"^{model.name}: a process has ended, a run of a given order cannot go on$"):
            model.learn(600)


def lost():
    raise Lost


class Ends(BaseCallback):
    """Ends training at the first step that it sees."""

    def __init__(self, how):
        super().__init__()
        self.how, self.ended = how, 0

    def _on_step(self):
        if self.how == "stop":
            self.model.stop()
        return self.how == "stop"

    def _on_training_end(self):
        self.ended += 1


@pytest.mark.parametrize("how", ["stop", "callback"])
@pytest.mark.parametrize("schedule", ["virtual", "recorded"])
def test_a_run_of_a_given_order_can_be_stopped(ray, tmp_path, schedule, how):
    keywords, ends = {**SMALL, "bundles": 2, "shards": 2, "schedule": schedule}, Ends(how)
    if schedule == "recorded":
        with Gorila("MlpPolicy", "CartPole-v1", **{**keywords, "schedule": "race"}) as one:
            one.learn(20_000).save_order(tmp_path / "race")
        keywords["order"] = tmp_path / "race"
    with running(**keywords) as model:
        assert model.learn(20_000, callback=ends) is model and ends.ended == 1
        assert 0 < model.num_timesteps < 20_000 and model.stats["updates"] > 0 and model.evaluate(episodes=1).mean_return > 0
        taken = model.num_timesteps
        model.save(tmp_path / "run", replay=True)
        with pytest.raises(ConfigError, match="learn may be called once"):
            model.learn(100)
    with distributed.load(tmp_path / "run") as loaded:
        assert loaded.num_timesteps == taken
        assert loaded.learn(100, reset_num_timesteps=False).num_timesteps >= taken + 100


def test_a_recorded_order_is_repeated_up_to_a_stop(ray, tmp_path):
    keywords, order, want = {**SMALL, "bundles": 2, "shards": 2}, tmp_path / "race.order", {}
    with Gorila("MlpPolicy", "CartPole-v1", schedule="race", **keywords) as one:
        for total in (400, 800):
            one.learn(400, reset_num_timesteps=total == 400)
            want[total] = one._native.parameters.flat("q_net"), one.num_timesteps
        one.save_order(order)
    with running(**keywords, order=order) as model:
        for total in (5000, 300, 401):
            with pytest.raises(ConfigError, match=f"^total_timesteps: {total}, must be 400 or 800, where the order has a stop$"):
                model.learn(total)
        model.learn(800)
        assert model.num_timesteps == 800 and np.array_equal(model.run.parameters()[0], want[800][0])
    with running(**keywords, order=order) as model:
        assert model.learn(400).num_timesteps == 400 and np.array_equal(model.run.parameters()[0], want[400][0])


def test_the_first_of_several_calls_of_learn_is_repeated(ray, tmp_path):
    keywords, order = {**SMALL, "bundles": 2, "shards": 2}, tmp_path / "race.order"
    with Gorila("MlpPolicy", "CartPole-v1", schedule="race", **keywords) as one:
        one.learn(400)
        want = one._native.parameters.flat("q_net"), one.stats["updates"]
        for total in (400, 300):
            one.learn(total)
        one.save_order(order)
    with running(**keywords, order=order) as model:
        with pytest.raises(ConfigError, match="^total_timesteps: 300, must be 400, where the order has a stop$"):
            model.learn(300)
        model.learn(400)
        assert np.array_equal(model.run.parameters()[0], want[0]) and model.stats["updates"] == want[1]


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
