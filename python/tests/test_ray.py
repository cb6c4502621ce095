"""Runs on a local Ray cluster with tiny networks; make test-ray."""

import functools
import json
import os
import re
import signal
import time
import warnings

import numpy as np
import pytest

pytest.importorskip("ray")

import ray

import ray_cluster
from _ledgers import compare
from paceline import DQN, Gorila, distributed, make_vec
from paceline.distributed import _cores, _ray
from paceline.errors import ConfigError, MissingFileError, PacelineError
from ray_cluster import SMALL, leaving_nothing, until
from test_setenv import SHIM

running = functools.partial(ray_cluster.running, bundles=2, shards=2, copy_every=10)


def pid(model, part):
    return until(lambda: model.run.call("status")["pids"].get(part))


def test_a_run_trains_and_leaves_nothing(cluster):
    with leaving_nothing(), running() as model:
        assert model.learn(2000) is model
        stats = model.stats
        assert stats["num_timesteps"] >= 2000 and stats["updates"] > 300 and stats["episodes"] > 10
        assert 0 < stats["publications"] <= 2 * (1 + stats["updates"])  # of a version at most one for each shard
        assert stats["lost_updates"] == stats["duplicates"] == 0
        assert model.num_timesteps == stats["num_timesteps"]
        action, _ = model.predict(model.observation_space.sample(), deterministic=True)
        assert action in (0, 1)
        assert model.evaluate(episodes=2).mean_return > 0
        before = model.get_parameters()["policy"]
        model.learn(500, reset_num_timesteps=False)
        assert any((before[name] != values).any() for name, values in model.get_parameters()["policy"].items())


def test_callbacks_records_and_evaluations(cluster, tmp_path):
    calls = []

    def callback(variables, _):
        calls.append(variables["self"].num_timesteps)
        return len(calls) < 5 or variables["self"].num_timesteps < 1000

    with running(tensorboard_log=None) as model:
        from paceline.logger import configure

        model.set_logger(configure(tmp_path, ["csv"]))
        model.learn(50_000, callback=callback, log_interval=4, eval_freq=500, n_eval_episodes=2)
        assert calls == sorted(calls) and calls[-1] < 50_000
        assert model.evaluations and model.best_policy is not None
        model.best_policy.close()
    text = (tmp_path / "progress.csv").read_text()
    assert "rollout/ep_rew_mean" in text and "async/lag" in text and "eval/mean_reward" in text


@pytest.mark.parametrize("part", ["bundle/1", "shard/0", "shard/1", "keeper/0", "supervisor"])
def test_a_killed_process_comes_back(cluster, part, tmp_path):
    with running(ledger=str(tmp_path)) as model:
        run = model.run
        run.call("begin", 10**9)
        until(lambda: model.stats["updates"] > 50)
        before = model.stats
        os.kill(run.call("status")["pid"] if part == "supervisor" else pid(model, part), signal.SIGKILL)
        if part == "supervisor":
            until(lambda: model.stats["updates"] > before["updates"])
            os.kill(pid(model, "keeper/1"), signal.SIGKILL)  # which the new supervisor reports
            until(lambda: model.stats and model.recoveries)
        else:
            recovery = until(lambda: next(iter(model.stats and model.recoveries), None))
            assert f"{recovery.part}/{recovery.number}" == part and recovery.seconds > 0
        mark = model.stats["gradients"]
        until(lambda: model.stats["gradients"] > mark + 20)
        run.call("halt")
        until(lambda: not run.call("status")["running"])
        assert model.stats["duplicates"] <= 4
        ledgers = compare(tmp_path)
        assert ledgers.pushes > 100 and ledgers.unknown == 0
        # All lives but that of a killed bundle have ended whole; with delay=1 a learner has two calls in flight.
        assert ledgers.lives - ledgers.equal <= (part == "bundle/1") and ledgers.unequal == 0
        assert ledgers.in_flight <= 2 * (part == "bundle/1")
        # Answers under way to the two learners are of updates that no process knows of.
        assert 0 <= ledgers.lost - model.stats["lost_updates"] <= 4
        assert (ledgers.lost > 0) <= part.startswith("shard")


@pytest.mark.parametrize("parts", [{"bundles": 3}, {"bundles": 1, "actors": 2, "replay_shards": 2, "pull_every": 10}])
def test_a_lost_node_comes_back(process, tmp_path, parts):
    """A cluster of its own: Ray declares a node dead after some seconds."""
    code = """
import json, sys, time, warnings
import ray
from ray.cluster_utils import Cluster
from paceline import distributed
warnings.simplefilter("ignore")
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 3, "include_dashboard": False, "object_store_memory": 2**27})
nodes = [cluster.add_node(num_cpus=3, object_store_memory=2**27) for _ in range(2)]
ray.init(address=cluster.address, namespace="paceline", log_to_driver=False)
common = {"shards": 3, "copy_every": 10, "buffer_size": 4000, "learning_starts": 64, "ledger": sys.argv[1]}
with distributed.start("MlpPolicy", "CartPole-v1", **common, **json.loads(sys.argv[2])) as model:
    model.run.call("begin", 10**9)
    while model.stats["updates"] < 100:
        time.sleep(0.2)
    model.save(sys.argv[3], replay=True)  # on three nodes
    cluster.remove_node(nodes[0], allow_graceful=False)
    while sum(node["Alive"] for node in ray.nodes()) == 3:
        time.sleep(0.2)
    end = time.monotonic() + 600
    while not model.stats["recoveries"] or model.run.call("status")["down"]:
        assert time.monotonic() < end, model.run.call("status")
        time.sleep(0.2)
    mark = model.stats["gradients"]
    while model.stats["gradients"] < mark + 50:
        assert time.monotonic() < end, model.run.call("status")
        time.sleep(0.2)
    model.run.call("halt")
    while model.run.call("status")["running"]:
        time.sleep(0.2)
    print("back", len(model.recoveries), int(model.stats["lost_updates"]))
with distributed.load(sys.argv[3]) as model:  # on two
    before = model.num_timesteps
    model.learn(200, reset_num_timesteps=False)
    print("loaded", before, model.num_timesteps)
ray.shutdown()
cluster.shutdown()
"""
    done = process(code, tmp_path, json.dumps(parts), tmp_path / "three.zip", options=())
    loaded = re.search(r"^loaded (\d+) (\d+)$", done.stdout, re.M)
    assert loaded and 100 < int(loaded[1]) + 200 <= int(loaded[2]), done.stdout + done.stderr
    back = re.search(r"^back [1-9]\d* (\d+)$", done.stdout, re.M)
    assert back, done.stdout + done.stderr
    ledgers = compare(tmp_path)
    assert ledgers.pushes > 100 and ledgers.unknown == 0 and ledgers.in_flight <= 2
    assert 0 <= ledgers.lost - int(back[1]) <= 18  # answers of three shards under way to three learners


def test_keepers_are_on_different_nodes(cluster):
    with running() as model:
        keepers = [_ray.find(model.name, "keeper", k) for k in range(2)]
        nodes = ray.get([keeper.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id()) for keeper in keepers])
        assert nodes[0] == cluster.head_node.node_id != nodes[1]


def test_no_process_of_a_run_writes_the_environment(process, compile_c):
    """A call of the library that writes it ends its process, which the run would report."""
    shim = compile_c(SHIM, "shim.so", "-shared", "-fPIC", "-ldl")
    code = """
import sys
from pathlib import Path
from ray_cluster import local_cluster, running
with local_cluster(), running(bundles=2, shards=2) as model:
    model.learn(1000)
    model.save("run", replay=True)
    pids = model.run.call("status")["pids"]
    print(len(pids), all(sys.argv[1] in Path(f"/proc/{pid}/maps").read_text() for pid in pids.values()), model.recoveries)
"""
    done = process(code, shim, env={"LD_PRELOAD": str(shim), "RAY_LD_PRELOAD_ON_WORKERS": "1"}, options=())
    assert done.stdout.splitlines()[-1] == "6 True []" and "called by" not in done.stderr


def test_a_checkpoint_is_written_while_training_goes_on_and_continued(cluster, tmp_path):
    with running() as model:
        model.run.call("begin", 10**9)
        until(lambda: model.stats["updates"] > 50)
        model.save(tmp_path / "run.zip", replay=True)
        mark = model.stats["gradients"]
        until(lambda: model.stats["gradients"] > mark + 20)
        later = model.stats["updates"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = distributed.load(tmp_path / "run.zip", bundles=3)  # one of them without experience
    with loaded:
        stats = loaded.stats
        assert loaded.num_envs == 3 and 40 < stats["updates"] <= later and stats["num_timesteps"] > 200
        until(lambda: loaded.stats["replay_size"] > 100)
        loaded.learn(500, reset_num_timesteps=False)
        assert loaded.stats["updates"] > stats["updates"]
    assert b"pickle" not in (tmp_path / "run.zip").read_bytes()


def test_attach_and_stop(cluster):
    with leaving_nothing(), running(name="mine", inline_limit=0) as model:
        model.run.call("begin", 10**9)
        with pytest.raises(PacelineError, match="^name: 'mine', is a run on this cluster"), running(name="mine"):
            pass
        other = distributed.attach("mine")
        assert other.name == "mine" and until(lambda: other.stats["updates"])
        other.detach()
        assert distributed.stop("mine")
        assert not distributed.stop("mine")
        with pytest.raises(MissingFileError, match="^mine: no such run"):
            distributed.attach("mine")


def test_the_lease_ends_a_run(cluster):
    with leaving_nothing():
        model = Gorila("MlpPolicy", "CartPole-v1", cluster="ray", bundles=1, lease=3, inline_limit=0, **SMALL)
        name = model.name
        model.run.call("begin", 10**9)
        until(lambda: model.stats["updates"])
        time.sleep(9)  # a thread of the driver renews the lease
        assert _ray.named(name)
        model.detach()
        until(lambda: not _ray.named(name))


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"bundles": 0}, "^bundles: 0, must be 1 to 1000$"),
        ({"gradients": "fp8"}, "^gradients: 'fp8', must be 'fp32' or 'bf16'$"),
        ({"delay": -1}, "^delay: -1, must be 0 to 63$"),
        ({"lease": 0}, "^lease: 0, must be 1 to 1e7 seconds$"),
        ({"method": "td3"}, "^method: 'td3', must be 'dqn', 'a3c', 'appo'$"),
    ],
)
def test_bad_keywords_are_refused(cluster, keywords, says):
    with pytest.raises(ConfigError, match=says):
        Gorila("MlpPolicy", "CartPole-v1", cluster="ray", **{**SMALL, **keywords})
    assert not _ray.ray().util.list_named_actors(all_namespaces=True)


@pytest.mark.parametrize("keywords", [{"gradients": "bf16"}, {"delay": 0}, {"inline_limit": 0}, {"actors_per_bundle": 3}, {"shards": 5}])
def test_options(cluster, keywords):
    with running(**keywords) as model:
        model.learn(1000)
        stats = model.stats
        assert stats["updates"] > 100
        if "gradients" in keywords:
            assert stats["bytes_sent"] < 0.6 * stats["bytes_read"]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_learner_has_a_core_alone(cluster):
    with running(bundles=1, pin=True) as model:
        model.run.call("begin", 10**9)
        until(lambda: model.stats["updates"] > 50)

        def cores(part):
            return [os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{pid(model, part)}/task")]

        rest = _cores.Claims().rest()
        learner = os.sched_getaffinity(0) - rest
        assert len(learner) == 1
        assert learner in cores("bundle/0") and all(thread in (learner, rest) for thread in cores("bundle/0"))
        assert all(thread == rest for part in ("shard/0", "shard/1") for thread in cores(part))


def test_an_atari_game(cluster):
    try:
        make_vec("Pong").close()
    except PacelineError as err:
        pytest.skip(f"no ROM: {err}")
    with running("Pong", "CnnPolicy", policy_kwargs=None, buffer_size=400) as model:
        model.learn(200)
        assert model.stats["updates"] > 10 and model.stats["publications"] > 0
        assert 0 <= model.predict(model.observation_space.sample())[0] < 6


def test_shapes_of_parameters(cluster):
    with running(shards=3) as model:
        theta, updates, steps = model.run.parameters()
        assert theta.dtype == np.float32 and len(theta) == sum(n for _, n in model.run.ranges) and updates == steps == 0


def test_presets(cluster):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Gorila.from_preset("tuned", "CartPole-v1", cluster="ray", bundles=2, seed=1)
    with model:
        spec = model.run.spec
        assert (spec.bundles, spec.shards, spec.worker["train_freq"], spec.worker["buffer_size"]) == (2, 3, 2, 50_000)
        assert spec.delay == 0 and spec.optimizer["max_staleness"] == 20 and model.double_q and model.loss == "squared"
        assert model.lr_schedule(0.5) == pytest.approx(0.025)
        model.learn(1500)


@pytest.mark.parametrize("method, optimizer", [("a3c", "rmsprop"), ("appo", "adam"), ("appo", "rmsprop")])
def test_learners_of_other_methods(cluster, method, optimizer, tmp_path):
    keywords = {"n_steps": 16, "batch_size": 32} if method == "appo" else {}
    if optimizer == "rmsprop" and method == "appo":
        keywords["policy_kwargs"] = {"optimizer_class": "RMSprop"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = distributed.start("MlpPolicy", "CartPole-v1", method=method, bundles=2, shards=2, actors_per_bundle=4, seed=1, **keywords)
    with model:
        assert model.run.spec.optimizer["optimizer"] == optimizer
        model.learn(4000)
        stats = model.stats
        assert stats["num_timesteps"] >= 4000 and stats["updates"] > 100 and stats["episodes"] > 20
        model.save(tmp_path / "run", replay=True)
        assert model.predict(model.observation_space.sample())[0] in (0, 1)
    with distributed.load(tmp_path / "run") as again:
        assert again.method == method and again.stats["updates"] == stats["updates"]
        again.learn(500, reset_num_timesteps=False)


@pytest.mark.parametrize("bundles", ["train", "wait"])
def test_ctrl_c_ends_a_run(cluster, process, bundles):
    """The limit of 5 s is for cores that do not train at that moment."""
    code = """
import os, signal, sys, threading, time
from paceline import Gorila
model = Gorila(
    "MlpPolicy", "CartPole-v1", cluster="ray", address=sys.argv[1], bundles=2, name="interrupted", buffer_size=4000, inline_limit=0
)
pressed = []
def press():
    pressed.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
def press_while_they_train():
    while model.num_timesteps < 500:
        time.sleep(0.1)
    press()
def press_while_they_wait(*_):
    if model.num_timesteps >= 500:
        model.run.call("halt")
        while model.run.call("status")["running"]:
            time.sleep(0.1)
        press()
        time.sleep(60)
    return True
train = sys.argv[2] == "train"
if train:
    threading.Thread(target=press_while_they_train).start()
try:
    model.learn(10**9, callback=None if train else press_while_they_wait)
except KeyboardInterrupt:
    print("closed", model.closed, time.monotonic() - pressed[0])
"""
    with leaving_nothing():
        done = process(code, cluster.address, bundles, options=())
        word, closed, seconds = done.stdout.splitlines()[-1].split()
        assert (word, closed) == ("closed", "True") and not _ray.named("interrupted")
        assert bundles == "train" or float(seconds) <= 5


KILLED = """
import os, signal, sys
from paceline import Gorila
model = Gorila(
    "MlpPolicy", "CartPole-v1", cluster="ray", address=sys.argv[1], bundles=2, name="orphan", buffer_size=4000, lease=float(sys.argv[2]),
    inline_limit=0,
)
model.run.call("begin", 10**9)
while not model.stats["updates"]:
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_lease_ends_the_run_of_a_killed_driver(cluster, process):
    with leaving_nothing():
        assert process(KILLED, cluster.address, 5, options=(), check=False).returncode == -signal.SIGKILL
        assert _ray.named("orphan")
        until(lambda: not _ray.named("orphan"))


def test_a_killed_driver_leaves_the_run(cluster, process):
    assert process(KILLED, cluster.address, 600, options=(), check=False).returncode == -signal.SIGKILL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = distributed.attach("orphan")
    with model:
        before = until(lambda: model.stats["updates"])
        until(lambda: model.stats["updates"] > before)
        model.learn(100, reset_num_timesteps=False)


def test_one_bundle_and_one_shard_without_a_delay_have_the_bits_of_dqn(cluster):
    """One update a step, and epsilon over updates."""
    keywords = {**SMALL, "train_freq": 1}
    with running(**keywords, bundles=1, shards=1, delay=0, copy_every=100) as model:
        got = model.learn(1000).get_parameters()["policy"]
        counts = model.stats["updates"], model.num_timesteps
    with Gorila("MlpPolicy", "CartPole-v1", bundles=1, shards=1, schedule="race", **keywords) as one:
        want = one.learn(1000).get_parameters()["policy"]
        options = {name: one.setting(name) for name in ("outliers", "max_grad_norm", "exploration_final_eps")}
        assert counts == (one.stats["updates"], one.num_timesteps)
    given = {**keywords, **{name: float(value) for name, value in options.items()}}
    with DQN("MlpPolicy", "CartPole-v1", num_envs=1, optimizer="adagrad", clock="updates", concurrent=False, **given) as dqn:
        plain = dqn.learn(1000).get_parameters()["policy"]
    names = [name for name in want if name.startswith("q_net.")]
    assert names and all(np.array_equal(got[name], want[name]) and np.array_equal(want[name], plain[name]) for name in names)


def test_a_given_order_has_the_bits_of_one_process(cluster, tmp_path):
    keywords = {**SMALL, "bundles": 4, "shards": 3}
    with Gorila("MlpPolicy", "CartPole-v1", **keywords) as one:
        virtual = one.learn(800).get_parameters()["policy"]
    with Gorila("MlpPolicy", "CartPole-v1", schedule="race", **keywords) as one:
        race = one.learn(800).get_parameters()["policy"]
        one.save_order(tmp_path / "race")
    for options, want in (({"schedule": "virtual"}, virtual), ({"order": tmp_path / "race"}, race)):
        with running(**keywords, **options) as model:
            model.learn(800)
            got = model.get_parameters()["policy"]
            names = [name for name in want if name.startswith("q_net.")]
            assert names and all(np.array_equal(got[name], want[name]) for name in names)
            assert model.num_timesteps == 800
            with pytest.raises(ConfigError, match="learn may be called once"):
                model.learn(100)
