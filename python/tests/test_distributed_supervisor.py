"""The supervisor of a run, and what a driver, a bundle and an actor do when one ends, without Ray."""

import threading
import time
import types

import pytest

from fake_ray import Ray, TaskError
from in_process import Direct, shard
from paceline.distributed import _decoupled, _processes, _ray, _supervisor
from paceline.distributed._keepers import Keeper
from paceline.distributed._learner import ShardLost
from paceline.distributed._spec import Spec
from paceline.distributed._supervisor import Supervisor
from paceline.errors import PacelineError

SPEC = Spec(
    run="r", id="id", method="dqn", policy="MlpPolicy", env="CartPole-v1", worker={}, optimizer={}, seed=1, size=8, bundles=2, shards=1
)


class Bundle:
    """Says what it was told, and trains from begin to halt."""

    def __init__(self, spec, index):
        self.pid, self.life, self.begun, self.running, self.told, self.steps = 1, 1, 0, False, [], 0

    def begin(self, number, goal):
        self.told.append(("begin", number, goal))
        self.begun, self.running = number, True

    def halt(self, number):
        self.told.append(("halt", number))
        self.running = False

    def status(self):
        return {"pid": self.pid, "error": "", "begun": self.begun, "running": self.running, "life": self.life, "replay_size": 7,
                "told": self.steps}  # fmt: skip


class Shard:
    def __init__(self, spec, index):
        self.version, self.pid, self.told = 5, 1, []

    def tell(self, *told):
        self.told.append(told)

    def status(self):
        return {"pid": self.pid, "incarnation": 0, "version": self.version, "restored": [], "steps": 20, "counts": {}}

    def copy(self):
        pass


@pytest.fixture
def ray(monkeypatch):
    fake = Ray()
    monkeypatch.setattr(_ray, "ray", lambda: fake)
    monkeypatch.setattr(_ray, "prefer_node", lambda node: None)
    monkeypatch.setattr(_supervisor, "POLL", 0.01)
    monkeypatch.setattr(_processes, "Bundle", Bundle)
    monkeypatch.setattr(_processes, "ParameterServerShard", Shard)
    made = []
    monkeypatch.setattr(_supervisor.Supervisor, "end", lambda self, *_: setattr(self, "_ended", "ended"))
    fake.supervisor = lambda: made.append(Supervisor(SPEC)) or made[-1]
    yield fake
    for one in made:
        one.end()


def until(condition):
    end = time.monotonic() + 30
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.005)
    return value


def bundle(ray, index):
    return ray.actors[f"r/bundle/{index}"]


def test_a_later_supervisor_knows_of_a_begin_that_no_bundle_has_heard(ray):
    first = ray.supervisor()
    for k in range(2):
        bundle(ray, k).life = 0  # not ready
    assert first.begin(1000) == 1
    first.end()
    ray.reconstructed = True
    later = ray.supervisor()
    assert later.status()["number"] == 1
    for k in range(2):
        bundle(ray, k).life = 1
        until(lambda k=k: ("begin", 1, 1000) in bundle(ray, k).told)
    until(lambda: later.status()["running"])


def test_a_later_supervisor_goes_on_with_the_counts(ray):
    first = ray.supervisor()
    until(lambda: first.status()["counted"])
    bundle(ray, 1).pid, bundle(ray, 1).life = 2, 2  # another process
    until(lambda: first.status()["totals"]["lost_transitions"] == 7)
    first.end()
    ray.reconstructed = True
    later = ray.supervisor()
    status = later.status()
    assert status["totals"]["lost_transitions"] == 7 and status["reported"] == 1
    assert [recovery.text.split(",")[0] for recovery in status["recoveries"]] == ["bundle 1 lost 7 transitions"]


def test_a_later_supervisor_goes_on_with_the_lease(ray, monkeypatch):
    first = ray.supervisor()
    first.status()  # of a driver
    first._called -= 400
    first._save(wait=1)
    first.end()
    ray.reconstructed = True
    later = ray.supervisor()
    assert later._driven and 400 <= time.monotonic() - later._called < 430
    monkeypatch.setattr(_supervisor.time, "time", lambda: 1e12)  # of another node, whose clock is wrong
    last = ray.supervisor()
    assert time.monotonic() - last._called < SPEC.lease - 5


def test_a_driver_that_lives_has_time_to_call_a_later_supervisor(ray, monkeypatch):
    first, waited, monotonic, gathered = ray.supervisor(), [0.0], time.monotonic, _ray.gathered
    first.status()
    first._save(wait=1)
    first.end()

    def slow(refs, seconds):
        waited[0] += seconds  # for a keeper that does not answer
        return gathered(refs, 1.0)

    monkeypatch.setattr(_ray, "gathered", slow)
    monkeypatch.setattr(_supervisor.time, "monotonic", lambda: monotonic() + waited[0])
    monkeypatch.setattr(_supervisor.time, "time", lambda: 1e12)  # of another node, whose clock is wrong
    ray.reconstructed = True
    later = ray.supervisor()
    assert later._called + SPEC.lease > time.monotonic() + SPEC.lease / 4  # after which a driver calls


def test_a_process_that_does_not_answer_is_known_with_its_seconds(ray, monkeypatch):
    one = ray.supervisor()
    until(lambda: not any(one.status()["silent"].values()))
    monkeypatch.setattr(bundle(ray, 1), "status", lambda: (_ for _ in ()).throw(_ray.lost_errors()[0]()))
    until(lambda: one.status()["silent"]["bundle/1"] > 0)
    assert one.status()["silent"]["bundle/0"] == 0 and one.status()["pids"]["bundle/1"] == 1


def test_a_shard_that_starts_again_hears_the_steps_of_all_lives(ray):
    one, shard, ended = ray.supervisor(), ray.actors["r/shard/0"], bundle(ray, 1)
    ended.steps = 30
    until(lambda: (1, 1, 30) in one._watch.told(2))
    ended.pid, ended.life, ended.steps = 2, 2, 0  # another process
    until(lambda: one.status()["totals"]["recoveries"] == 1)
    bundle(ray, 0).steps = ended.steps = 20
    until(lambda: len(one._watch.told(2)) == 3)
    assert not shard.told
    shard.pid = 2
    until(lambda: len(shard.told) == 3)
    assert sorted(shard.told) == [("id", 0, 1, 20), ("id", 1, 1, 30), ("id", 1, 2, 20)]


def test_a_supervisor_that_found_no_keeper_is_later_than_those_before(ray, monkeypatch):
    first = ray.supervisor()
    for goal in range(1, 6):
        first.begin(goal)
    first.end()
    ray.reconstructed = True
    with monkeypatch.context() as away:
        away.setattr(Keeper, "remembered", lambda self, run: None)
        second = ray.supervisor()
    assert second.begin(1000, number=6) == 6  # its first save
    second.end()
    assert ray.supervisor().status()["number"] == 6


def test_a_bundle_that_cannot_tell_its_status_ends_the_run(ray):
    supervisor = ray.supervisor()
    until(lambda: supervisor.status()["ready"])

    def status():
        raise TaskError(ValueError("a bundle's"))

    bundle(ray, 0).status = status
    ray.actors["r/shard/0"].version = 9
    until(lambda: supervisor.status()["errors"] == ["bundle 0: ValueError: a bundle's"])
    until(lambda: supervisor.status()["totals"]["updates"] == 9)  # the others are asked nevertheless
    assert supervisor.status()["trouble"] == ""


def test_a_bundle_that_starts_after_a_halt_does_not_train(ray):
    one = ray.supervisor()
    one.begin(1000)
    until(lambda: bundle(ray, 0).running and bundle(ray, 1).running)
    one.halt()
    ray.actors["r/bundle/1"] = again = Bundle(SPEC, 1)
    again.pid = 2
    until(lambda: not one.status()["running"])
    time.sleep(0.1)
    assert again.told == [] and not one.status()["running"]
    one.begin(2000)
    until(lambda: ("begin", 2, 2000) in again.told)


# ------------------------------------------------------- bundles and actors


class Learning:
    """A model of a bundle, of four parameters, that never ends."""

    stats = {}

    def __init__(self):
        self.num_timesteps = 0

    def begin(self, total, reset_num_timesteps=True):
        pass

    def gradient(self, out):
        self.num_timesteps += 1
        out[:] = 1.0
        return types.SimpleNamespace(num_timesteps=self.num_timesteps, loss=1.0, learning_rate=0.1, dropped=False)

    def adopt(self, *_):
        pass

    def stop(self):
        pass


def bundle_of(model, monkeypatch):
    """A bundle with this model and a shard of four parameters in this process."""
    monkeypatch.setattr(_processes, "RayChannel", lambda spec, learner, cores: Direct([shard()]))
    monkeypatch.setattr(_processes, "worker", lambda spec, index: model)
    return _processes.Bundle(Spec(**{**vars(SPEC), "size": 4}), 0)


def test_begin_does_not_wait_for_a_learner_that_computes(monkeypatch):
    model, computing, go_on = Learning(), threading.Event(), threading.Event()

    def gradient(out):
        computing.set()
        assert go_on.wait(30)
        return Learning.gradient(model, out)

    model.gradient = gradient
    one = bundle_of(model, monkeypatch)
    one.begin(1, 10**9)
    assert computing.wait(30)
    for number in (2, 2, 3):
        one.begin(number, 10**9)  # returns, though the learner's thread is busy
    assert one.status()["begun"] == 1
    one.halt(3)
    go_on.set()
    until(lambda: one.status()["begun"] == 3 and not one.status()["running"])


def test_a_bundle_begins_when_a_lost_shard_is_back(monkeypatch):
    one, lost = bundle_of(Learning(), monkeypatch), []
    begin = until(lambda: one._learner).begin

    def losing(goal):
        if not lost:
            lost.append(goal)
            raise ShardLost("shard 0")
        begin(goal)

    one._learner.begin = losing
    one.begin(1, 10**9)
    until(lambda: lost)
    until(lambda: one.begin(1, 10**9) or one.status()["running"])  # the supervisor asks until the bundle has begun
    one.halt(1)
    until(lambda: not one.status()["running"])
    assert one.status()["error"] == ""


def test_a_bundle_whose_library_has_failed_says_so(monkeypatch):
    class Spoiled(Learning):
        failed = False

        @property
        def stats(self):
            if self.failed:
                raise PacelineError("trainer: failed before")
            return {"episodes": 3}

        def gradient(self, out):
            self.failed = True
            raise PacelineError("gradient: an error of the library")

    one = bundle_of(Spoiled(), monkeypatch)
    until(lambda: one.status().get("episodes") == 3)
    one.begin(1, 10**9)
    until(lambda: one.status()["error"] == "PacelineError: gradient: an error of the library")
    assert not one.status()["running"] and "episodes" not in one.status()


def test_a_bundle_is_halted_before_it_begins(monkeypatch):
    one = bundle_of(Learning(), monkeypatch)
    one.halt(1)
    one.begin(1, 10**9)
    until(lambda: one.status()["begun"] == 1 and not one.status()["running"])
    one.begin(2, 10**9)
    until(lambda: one.status()["running"] and one.status()["gradients"] > 3)
    one.halt(2)
    until(lambda: not one.status()["running"])


class Playing:
    """An actor that never ends."""

    def __init__(self, *_):
        self.stopping = False

    def begin(self, goal):
        self.stopping = False

    def play(self, goal=None):
        if goal is not None:
            self.begin(goal)
        while not self.stopping:
            time.sleep(0.001)

    def stop(self):
        self.stopping = True

    def status(self):
        return {}


def test_an_actor_is_halted_before_it_begins(monkeypatch):
    for name in ("ReplayChannel", "model_without_envs"):
        monkeypatch.setattr(_decoupled, name, lambda *_, **__: None)
    monkeypatch.setattr(_decoupled, "Actor", Playing)
    one = _decoupled.ActorProcess(Spec(**{**vars(SPEC), "actors": 1}), 0)
    until(lambda: one._actor is not None)
    one.halt(1)
    one.begin(1, 10**9)
    until(lambda: one.status()["begun"] == 1 and not one.status()["running"])
    one.begin(2, 10**9)
    until(lambda: one.status()["running"])
    one.halt(2)
    until(lambda: not one.status()["running"])
