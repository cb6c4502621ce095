"""Actors, replay shards and learners that are decoupled, in one process: Actor, Memory, Sampled and Learner without Ray."""

import collections
import contextlib
import itertools
import sys
import threading
import time
import types

import numpy as np
import pytest

import paceline
from in_process import CHECKED
from paceline.distributed import _decoupled, _factory
from paceline.distributed._actor import Actor, apex_epsilon
from paceline.distributed._factory import keywords_of_worker, local_worker, optimizer_of
from paceline.distributed._learner import Learner, ShardLost
from paceline.distributed._memory import Memory, Piece, actors_of, shard_of
from paceline.distributed._processes import worker
from paceline.distributed._sampled import Sampled
from paceline.distributed._shards import Shard
from paceline.distributed._spec import Spec, checked
from paceline.distributed._watch import Watch
from paceline.errors import ConfigError, StoppedError
from paceline.store import Store, shard_ranges

SETTINGS = {
    "policy_kwargs": {"net_arch": [16]}, "learning_starts": 64, "batch_size": 8, "buffer_size": 4000, "train_freq": 4,
    "target_update_interval": 64, "learning_rate": 0.01, "exploration_steps": 400,
}  # fmt: skip


def spec_of(env="CartPole-v1", keywords=SETTINGS, **cluster):
    cluster = {"bundles": 1, "shards": 2, "actors": 2, "replay_shards": 1, "pull_every": 10} | cluster
    worker = keywords_of_worker("dqn", keywords, cluster["bundles"], cluster["replay_shards"])
    return Spec(run="r", id="i", method="dqn", policy="MlpPolicy", env=env, worker=worker, optimizer={}, seed=7, size=0, **cluster)


@pytest.fixture(autouse=True)
def _threads_take_turns():
    """Python changes threads every 5 ms, in which a learner has many updates."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


class Whole:
    """All parts of a run in one process; the channels of its actors and learners."""

    def __init__(self, spec):
        with local_worker(spec) as local:
            theta, options = local.flat_parameters(), optimizer_of(local, "dqn")
        self.spec, self.ranges, self.lock = spec, shard_ranges(len(theta), spec.shards), threading.Lock()
        self.shards = [
            Shard(spec.id, k, Store(theta, first, size, **options), lambda p: p, lambda *_: None, 1)
            for k, (first, size) in enumerate(self.ranges)
        ]
        self.memories = [Memory(_decoupled.memory_model(spec, k), spec, k) for k in range(spec.replay_shards)]
        self.sent, self.lose = [], 0
        self.flying, self.most = collections.Counter(), collections.Counter()  # calls that are sent and not answered
        self.models = []

    # a Channel of a Learner
    def join(self, shard):
        return self.call(self.shards[shard].join, self.spec.id, 0)

    def tell(self, shard, *told):
        self.call(self.shards[shard].tell, *told)

    def push(self, shard, *push):
        return self.call(self.shards[shard].push, *push)

    def answer(self, sent):
        return sent, sent.parameters

    def pull(self, shard):
        return self.answer(self.call(self.shards[shard].pull, self.spec.id))

    def flies(self, call, number):
        with self.lock:
            self.flying[call] += number
            self.most[call] = max(self.most[call], self.flying[call])

    # Replays
    def draw(self, shard, beta):
        self.flies("draw", 1)
        return [self.call(self.memories[shard].draw, self.spec.id, beta)]

    def drawn(self, sent):
        self.flies("draw", -1)
        return sent[0]

    def errors(self, shard, *given):
        self.call(self.memories[shard].errors, self.spec.id, *given)

    def call(self, method, *arguments):
        with self.lock:
            return method(*arguments)

    def of(self, actor):
        """The Channel of an actor."""
        whole, memory = self, self.memories[shard_of(actor, self.spec.replay_shards)]

        class Acting:
            pull, tell = whole.pull, whole.tell

            def add(self, *send):
                whole.flies(("add", actor), 1)
                whole.sent.append(send)
                return send

            def added(self, send):
                whole.flies(("add", actor), -1)
                held = whole.call(memory.add, whole.spec.id, *send)
                if whole.lose:
                    whole.lose -= 1
                    raise ShardLost("after the call")
                return held

            def held(self):
                return whole.call(memory.held, whole.spec.id)

        return Acting()

    def actor(self, index):
        spec = self.spec
        envs = paceline.make_vec(spec.env, spec.envs_per_actor, num_threads=1, autoreset_mode="same_step")
        return Actor(envs, _decoupled.model_without_envs(spec, 1, num_threads=1), self.of(index), self.ranges, spec, index, patience=2)

    def learner(self, index=0):
        spec = self.spec
        model = _decoupled.model_without_envs(spec, 1, learning_starts=spec.worker["learning_starts"])
        sampled = Sampled(model, self, spec.replay_shards, index, lambda: self.join(0).steps)
        self.models.append(sampled)
        return Learner(sampled, self, self.ranges, run=spec.id, learner=index, delay=1)

    def close(self):
        for model in (*self.models, *(memory.model for memory in self.memories)):
            model.close()


def train(whole, goal, actors=None, learner=None):
    """Plays and learns until the goal; returns the actors and the learner."""
    actors = actors or [whole.actor(k) for k in range(whole.spec.actors)]
    learner = learner or whole.learner()
    threads = [threading.Thread(target=actor.play) for actor in actors]
    for actor, thread in zip(actors, threads):
        actor.begin(goal)
        thread.start()
    learner.begin(goal)
    while learner.update():
        pass
    for thread in threads:
        thread.join()
    return actors, learner


def test_the_ratio_of_steps_and_updates_is_that_of_the_settings():
    with contextlib.closing(Whole(spec_of())) as whole:
        actors, learner = train(whole, 2000)
        total = whole.join(0).steps
        assert 2000 <= total <= 2000 + 2 * 2 * 10 and sum(p.acknowledged for p in actors) == total == whole.memories[0].added
        assert abs(whole.shards[1].version - (total - 64) // 4) <= 12 and learner.tally.gradients == whole.shards[0].version
        assert all(p.episodes > 5 and p.status()["mean_return"] > 5 and p.epsilon < 0.2 for p in actors)
        train(whole, total + 400, actors, learner)  # goes on
        assert abs(whole.shards[1].version - (whole.join(0).steps - 64) // 4) <= 12
        for actor in actors:
            actor.close()


def test_what_actors_send_are_whole_episodes():
    """The pieces of an environment, one after another, are the steps of CartPole."""
    with contextlib.closing(Whole(spec_of(envs_per_actor=3, actors=1, keywords={**SETTINGS, "learning_starts": 400}))) as whole:
        actor = whole.actor(0)
        actor.begin(300)
        actor.play()
        actor.close()
        assert [number for _, _, number, _ in whole.sent] == list(range(1, len(whole.sent) + 1))
        before = {}
        steps = ends = 0
        for piece in (piece for *_, pieces in whole.sent for piece in pieces):
            assert len(piece.obs) == len(piece.actions) + 1 == len(piece.rewards) + 1
            last = before.get(piece.env)
            assert piece.begins == (last is None) and (last is None or (piece.obs[0] == last).all())
            # The observation after a termination is never read.
            known = piece.obs[: len(piece.obs) - piece.terminated]
            for obs, following, action in zip(known, known[1:], piece.actions):
                assert following[0] == pytest.approx(obs[0] + 0.02 * obs[1], abs=1e-5)
                assert (following[1] > obs[1]) == (action == 1)
            over = piece.terminated or piece.truncated
            before[piece.env] = None if over else piece.obs[-1]
            steps, ends = steps + len(piece.rewards), ends + over
        assert steps == whole.join(0).steps >= 300 and ends == actor.episodes > 3


def test_a_lost_life_ends_no_episode():
    """Environment 0 loses a life and goes on, so its final infos are of an earlier episode; the game of 1 ends."""
    with contextlib.closing(Whole(spec_of(envs_per_actor=2, actors=1))) as whole:
        actor = whole.actor(0)
        final = {"raw_reward": np.array([9, 7]), "game_over": np.array([True, True])}
        infos = {"raw_reward": np.array([3, 5]), "game_over": np.array([False, False]), "final_info": final}
        actor._count(np.ones(2), np.array([True, True]), infos | {"_final_info": np.array([False, True])})
        assert list(actor._played) == [(7.0, 1)] and list(actor._returns) == [3.0, 0.0]
        actor.close()


def test_a_send_that_comes_twice_counts_once():
    with contextlib.closing(Whole(spec_of(actors=1))) as whole:
        whole.lose = 3
        actor, _ = train(whole, 500)
        assert whole.memories[0].added == actor[0].steps == whole.join(0).steps
        actor[0].close()


def test_sends_and_minibatches_in_flight_are_bounded():
    keywords = {**SETTINGS, "prioritized": "dqn_zoo"}
    with contextlib.closing(Whole(spec_of(replay_shards=2, keywords=keywords))) as whole:
        whole.lose = 3
        actors, learner = train(whole, 1000)
        assert learner.tally.gradients > 50 and whole.most == {"draw": 1, ("add", 0): 1, ("add", 1): 1}
        for actor in actors:
            actor.close()


def test_a_stop_while_a_replay_shard_is_away_loses_no_step():
    with contextlib.closing(Whole(spec_of(actors=1, keywords={**SETTINGS, "learning_starts": 4000}))) as whole:
        actor = whole.actor(0)
        for _ in range(3):
            actor.begin(10**6)
            thread = threading.Thread(target=actor.play)
            thread.start()
            sent = len(whole.sent)
            while len(whole.sent) < sent + 4:
                time.sleep(0.001)
            whole.lose = 10**6
            while whole.lose == 10**6:
                time.sleep(0.001)
            actor.stop()
            thread.join()
            whole.lose = 0
        actor.begin(actor.total + 100)
        actor.play()
        assert whole.memories[0].added == actor.steps == whole.join(0).steps
        pieces = [piece for _, pieces in sorted({number: pieces for *_, number, pieces in whole.sent}.items()) for piece in pieces]
        for before, piece in itertools.pairwise(pieces):
            over = before.terminated or before.truncated
            assert piece.begins == over and (over or (piece.obs[0] == before.obs[-1]).all())
        actor.close()


def test_a_memory_that_is_new_goes_on_in_the_middle_of_an_episode():
    spec = spec_of(actors=1)
    with contextlib.closing(Whole(spec)) as whole:
        memory, obs = whole.memories[0], np.arange(12, dtype=np.float32).reshape(3, 4)
        memory.add("i", 0, 1, 1, [Piece(0, obs, np.zeros(2, np.int64), np.ones(2, np.float32), False, False, False)])
        memory.add("i", 0, 1, 2, [Piece(0, obs[2:].repeat(2, 0), np.zeros(1, np.int64), np.ones(1, np.float32), False, True, False)])
        assert memory.added == memory.model.replay_buffer.size() == 3
        saved = memory.state()
        other = Memory(_decoupled.memory_model(spec, 0), spec, 0)
        other.restore(saved)
        assert (other.added, other.model.hashes().replay) == (3, memory.model.hashes().replay)
        other.model.close()


@contextlib.contextmanager
def memory_of(keywords, **cluster):
    spec = spec_of(keywords={**SETTINGS, **keywords}, **cluster)
    memory = Memory(_decoupled.memory_model(spec, 0), spec, 0)
    yield memory
    memory.model.close()


def episode(memory, steps, begins=True, ends=True):
    """Adds steps of environment 0 in one send; returns held."""
    number = memory.added + 1
    obs = np.zeros((steps + 1, 4), np.float32)
    return memory.add("i", 0, 1, number, [Piece(0, obs, np.zeros(steps, np.int64), np.ones(steps, np.float32), begins, ends, False)])


SHORT = {"n_steps": 5, "n_step_tails": "drop", "learning_starts": 200, "train_freq": 1}
SAYS = "^n_step_tails: drop, no transition can be drawn: no episode among the [0-9]+ transitions of the replay memory has 5 steps"


def test_nothing_to_draw_yet_holds_no_actor():
    """Short episodes alone in the share of one of two shards, and then a long one."""
    with memory_of(SHORT, replay_shards=2, pull_every=1) as memory:
        for _ in range(50):  # 100 steps before the first update, and 18 before an actor waits
            episode(memory, 3)
        assert memory.held("i")  # no learner has asked
        assert memory.draw("i", 0.0) is None and not memory.held("i") and not episode(memory, 3)
        assert episode(memory, 6) is False and memory.draw("i", 0.0) is not None and memory.drawn == 1
        assert memory.held("i")
        while memory.held("i"):
            assert memory.draw("i", 0.0) is not None
        assert memory.added - 100 - memory.drawn == 18


def test_an_actor_waits_only_while_an_update_is_due():
    """50 updates for every 500 steps: 350 steps wait for the next ones, where an actor may be ahead by 180."""
    with memory_of({"learning_starts": 100, "train_freq": 500, "gradient_steps": 50}, actors=1) as memory:
        for _ in range(45):
            assert not episode(memory, 10) and memory.draw("i", 0.0) is None
        while not episode(memory, 10):
            pass
        assert memory.added == 600
        while memory.held("i"):
            assert memory.draw("i", 0.0) is not None
        while memory.draw("i", 0.0) is not None:
            pass
        assert memory.drawn == 50 and not memory.held("i")


@pytest.mark.parametrize("replay_shards", [1, 2])
def test_nothing_to_draw_is_an_error_after_the_steps_of_the_first_update(replay_shards):
    """200 steps of learning_starts, and 5 of each environment of the shard, of which one shard has two."""
    enough = 200 + 5 * (2 // replay_shards)
    with memory_of(SHORT, replay_shards=replay_shards) as memory:
        while memory.added < enough:
            assert memory.draw("i", 0.0) is None
            episode(memory, min(3, enough - memory.added))
        with pytest.raises(ConfigError, match=SAYS):
            memory.draw("i", 0.0)
        assert not memory.held("i")
        episode(memory, 5)
        assert memory.draw("i", 0.0) is not None


def test_an_episode_whose_start_is_lost_is_no_error():
    """Of the 4 steps of DQN's first update a process that starts again has the end of one episode and the start of the next."""
    keywords = {**SHORT, "n_steps": 4, "batch_size": 4, "learning_starts": 0}
    with memory_of(keywords, actors=1) as memory:
        episode(memory, 3, begins=False)
        for _ in range(3):
            assert memory.draw("i", 0.0) is None
            episode(memory, 1, begins=not memory._open[0], ends=False)
        assert memory.draw("i", 0.0) is None
        episode(memory, 1, begins=False, ends=False)
        assert memory.draw("i", 0.0) is not None


def test_a_learner_raises_the_error_of_a_shard():
    with contextlib.closing(Whole(spec_of("Catch-v0", {**SETTINGS, "n_steps": 20, "n_step_tails": "drop"}))) as whole:
        actors = [whole.actor(k) for k in range(2)]
        threads = [threading.Thread(target=actor.play, daemon=True) for actor in actors]
        for actor, thread in zip(actors, threads):
            actor.begin(10**6)
            thread.start()
        learner = whole.learner()
        learner.begin(10**6)
        with pytest.raises(ConfigError, match="^n_step_tails: drop, no transition can be drawn"):
            while learner.update():
                pass
        for actor, thread in zip(actors, threads):
            actor.stop()
            thread.join()
            actor.close()


@pytest.mark.parametrize("bundles", [1, 2, 4])
def test_the_first_update_is_due_at_the_step_of_dqn(bundles):
    keywords = {"learning_starts": 100, "batch_size": 32, "train_freq": 4}
    settings = {**SETTINGS, **keywords, "num_envs": 4, "updates": "outside", "clock": "updates", "concurrent": False}
    with paceline.DQN("MlpPolicy", "CartPole-v1", **settings) as whole:
        whole.begin(1000)
        first = whole.gradient().num_timesteps
    with memory_of(keywords, bundles=bundles, actors=2, envs_per_actor=2) as memory:
        while memory.draw("i", 0.0) is None:
            episode(memory, 1, ends=False)
        assert memory.added == first == 104


@pytest.mark.parametrize("bundles", [1, 2, 4])
@pytest.mark.parametrize("given, acts", [(100, 100), (10, 32)])
def test_learning_starts_is_that_of_dqn(bundles, given, acts):
    """Bundles with replay memories of their own have batch_size steps each."""
    keywords = {**SETTINGS, "learning_starts": given, "batch_size": 32}
    assert spec_of(keywords=keywords, bundles=bundles, replay_shards=2).shared("learning_starts") == acts
    worker = keywords_of_worker("dqn", keywords, bundles)
    assert worker["learning_starts"] * bundles == max(acts, 32 * bundles)


def test_actors_belong_to_shards():
    spec = spec_of(actors=5, replay_shards=2, envs_per_actor=3)
    assert [shard_of(actor, 2) for actor in range(5)] == [0, 1, 0, 1, 0]
    assert [actors_of(shard, spec) for shard in range(2)] == [3, 2]
    with _decoupled.memory_model(spec, 1) as model:
        assert model.n_envs == 6


def test_a_late_stop_ends_one_gradient():
    """A stop of the run before, whose thread is slower than begin, does not end the next run."""
    drawn = types.SimpleNamespace(batch=None)
    replays = types.SimpleNamespace(draw=lambda shard, beta: 1, drawn=lambda sent: drawn)
    model = types.SimpleNamespace(
        setting=lambda name: "none", gradient_of=lambda batch, out: ("gradient", None), _native=types.SimpleNamespace(begin=lambda *_: None)
    )
    one = Sampled(model, replays, 1, 0, lambda: 0)
    one.begin(100)
    one.stop()
    with pytest.raises(StoppedError):
        one.gradient(None)
    assert one.gradient(None) == "gradient"


def test_cores_of_a_process_are_its_threads():
    spec = spec_of(num_cpus=2, actors_per_bundle=3, actors=0)
    with worker(spec, 0) as model:
        assert model.setting("num_threads") == "2" and model.n_envs == 3
    spec = spec_of(num_cpus=2, keywords={**SETTINGS, "learning_starts": 50_000})
    with _decoupled.model_without_envs(spec, 1, num_threads=spec.num_cpus, learning_starts=spec.worker["learning_starts"]) as model:
        assert model.setting("num_threads") == "2" and model.setting("learning_starts") == "50000"


def test_epsilons_of_apex():
    assert [round(apex_epsilon(k, 3), 6) for k in range(3)] == [0.4, round(0.4**4.5, 6), round(0.4**8, 6)]
    assert apex_epsilon(0, 1) == 0.4


def test_learning_with_priorities_and_n_steps():
    """Two actors and a learner raise CartPole's return."""
    keywords = {
        **SETTINGS, "policy_kwargs": {"net_arch": [64]}, "train_freq": 1, "prioritized": "dqn_zoo", "n_steps": 3, "double_q": True,
        "optimizer": "adam", "learning_rate": 1e-3, "batch_size": 32, "target_update_interval": 100, "exploration_steps": 1500,
    }  # fmt: skip
    with contextlib.closing(Whole(spec_of(keywords=keywords, replay_shards=2))) as whole:
        actors, _ = train(whole, 6000)
        played = [[r for r, _ in p._played] for p in actors]
        assert max(np.convolve(returns, np.ones(20) / 20, "valid").max() for returns in played) > 50  # 22 at random
        for actor in actors:
            actor.close()


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"actors": -1}, "actors: -1, must be 0 to 10000"),
        ({"actors": 2, "replay_shards": 3}, "replay_shards: 3, must be 1 to 2"),
        ({"actors": 2, "actors_per_bundle": 2}, "actors_per_bundle: 2, must be 1 where actors is 2, as bundles then have none"),
        ({"envs_per_actor": 2}, "actors: 0, must be at least 1 with envs_per_actor, replay_shards, pull_every or actor_epsilon"),
        ({"pull_every": 10}, "actors: 0, must be at least 1 with envs_per_actor, replay_shards, pull_every or actor_epsilon"),
        ({"actors": 2, "pull_every": 0}, "pull_every: 0, must be 1 to 1000000"),
        ({"pin": 1}, "pin: 1, must be True or False"),
        ({"actors": 2, "actor_epsilon": 0.1}, "actor_epsilon: 0.1, must be 'schedule' or 'apex'"),
    ],
)
def test_bad_keywords_are_refused(keywords, says):
    assert checked(**CHECKED)["actors"] == 0
    with pytest.raises(ConfigError, match=f"^{says}$"):
        checked(**{**CHECKED, **keywords})


def test_fast_dqn_with_decoupled_actors(monkeypatch):
    with pytest.raises(ConfigError, match="^actors: None, must be at least 1 with preset 'fastdqn'$"):
        _factory.of_preset("fastdqn", "Pong", {})
    given = {}
    monkeypatch.setattr(_factory, "of_gorila", lambda arguments, keywords: given.update(keywords))
    _factory.of_preset("fastdqn", "Pong", {"actors": 4, "seed": 1})
    with paceline.DQN.from_preset("fastdqn", "Pong", buffer_size=1000, learning_starts=1000) as model:
        of_dqn = {name: float(model.setting(name)) for name in ("learning_rate", "train_freq", "max_grad_norm", "outliers")}
        assert given["optimizer"] == model.setting("optimizer") == "rmsprop_keras"
    assert {name: given[name] for name in of_dqn} == of_dqn
    assert (
        given["learning_starts"] == 50_000
        and given["actor_epsilon"] == "apex"
        and (given["actors"], given["bundles"], given["seed"]) == (4, 1, 1)
    )
    assert given["max_staleness"] == 0 and not {"num_envs", "concurrent", "window"} & given.keys()
    worker = keywords_of_worker("dqn", {"optimizer": given["optimizer"]}, 1)
    with local_worker(spec_of(env="Pong", keywords=worker | {"policy_kwargs": None})) as local:
        assert optimizer_of(local, "dqn")["optimizer"] == "rmsprop_keras"


def test_losses_are_said():
    now = [0.0]
    watch = Watch(lambda: now[0])
    actor = {"pid": 1, "life": 5, "unsent": 100, "steps": 70, "episodes": 2, "mean_return": 9.0, "mean_length": 9.0, "epsilon": 0.1}
    watch.answered("actor", 0, actor)
    watch.answered("replay", 1, {"pid": 2, "life": 5, "replay_size": 321})
    for part, index, status in (("actor", 0, actor | {"pid": 3, "life": 6}), ("replay", 1, {"pid": 4, "life": 6, "replay_size": 0})):
        now[0] += 1
        watch.failed(part, index)
        now[0] += 1
        watch.answered(part, index, status)
    watch.settle()
    assert [r.text[: r.text.index(",")] for r in watch.recoveries] == ["actor 0 lost at most 100 steps", "replay 1 lost 321 transitions"]
    totals = watch.totals()
    assert (totals["lost_steps"], totals["lost_transitions"], totals["episodes"], totals["replay_size"]) == (100, 321, 4, 0)
