"""What a run on a cluster says of its losses, without Ray: a Watch that looks at shards and learners in this process."""

import math
import pickle

import numpy as np
import pytest

from _ledgers import compare
from in_process import RANGES, Direct, Model, shard
from paceline.distributed._learner import Learner, ShardLost
from paceline.distributed._watch import Watch


class Trial:
    """Two shards, learners of them, and a Watch whose clock the test sets."""

    def __init__(self, learners=1, ledger="", **keywords):
        self.now, self.ledger = 0.0, ledger
        self.watch = Watch(clock=lambda: self.now)
        self.shards = [shard(k, ledger=ledger, **keywords) for k in range(2)]
        self.channels = [Direct(self.shards, k, ledger) for k in range(learners)]
        self.learners = [self.learner(k) for k in range(learners)]
        self.running = True

    def learner(self, index, delay=0):
        made = Learner(Model(8, 1000), self.channels[index], RANGES, run="id", learner=index, delay=delay, ledger=self.ledger)
        made.begin(10**6)
        return made

    def update(self, times, learner=0):
        for _ in range(times):
            assert self.learners[learner].update()

    def look(self, learners=True):
        """A round of the supervisor."""
        for k, one in enumerate(self.shards):
            self.watch.answered("shard", k, {"pid": 10 + one.incarnation} | one.status())
        for k, one in enumerate(self.learners if learners else ()):
            self.watch.answered("bundle", k, {"pid": 1, "running": self.running, "life": one.life} | vars(one.tally))
        self.watch.settle()

    def lost(self):
        """The losses that were reported, which stats must agree with."""
        numbers = [recovery.lost for recovery in self.watch.recoveries]
        assert self.watch.totals()["lost_updates"] == sum(numbers)
        return numbers


class Away(Direct):
    """A channel to shards that cannot be joined for some calls."""

    away = 0

    def join(self, shard):
        if self.away:
            self.away -= 1
            raise ShardLost("away")
        return super().join(shard)


def test_a_learner_that_is_stopped_while_a_shard_is_away_waits_for_it():
    channel = Away([shard(0), shard(1)])
    learner = Learner(Model(8, 1000), channel, RANGES, run="id", learner=0, delay=1)
    learner.begin(10**6)
    channel.fault = lambda call: "die" if call == 7 else None
    for _ in range(4):  # two pushes each; the seventh call is under way
        assert learner.update()
    channel.away = 3
    learner.stop()
    assert not learner.update() and channel.away == 0
    assert learner.tally.gradients == learner.tally.applied == 4
    learner.begin(10**6)  # and can go on
    learner.model.most = 1000
    assert learner.update()


def test_a_loss_is_known_though_an_outlier_comes_next():
    trial = Trial()
    trial.look()
    trial.update(2)
    trial.channels[0].copy()
    trial.update(2)
    trial.channels[0].die(0)
    trial.update(1)  # the fifth gradient is an outlier, so the learner pulls
    trial.now = 10.0
    trial.look()
    trial.now = 20.0
    trial.look()
    assert trial.lost() == [2]


def test_a_shard_that_ends_between_two_calls_of_learn():
    trial = Trial()
    trial.look()
    trial.channels[0].copy()
    trial.update(4)
    trial.running = False
    trial.channels[0].die(1)
    trial.learners[0].begin(10**6)
    trial.now = 10.0
    trial.look()
    trial.now = 20.0
    trial.look()
    assert trial.lost() == [4]


def test_a_shard_and_its_learner_end_together():
    trial = Trial()
    trial.update(1)
    trial.channels[0].copy()
    trial.update(3)
    trial.look()
    trial.channels[0].die(0)
    trial.learners[0] = trial.learner(0)
    trial.update(1)
    trial.now = 10.0
    trial.look()
    trial.now = 20.0
    trial.look()
    assert trial.lost() == [3]


def test_a_learner_with_long_updates_is_waited_for():
    trial = Trial()
    trial.learners[0] = trial.learner(0, delay=1)
    trial.look()
    trial.update(1)
    trial.channels[0].copy()
    trial.update(3)  # the learner has not read the answer to its fourth push
    trial.channels[0].die(0)
    for now in (1.0, 5.0, 60.0):
        trial.now = now
        trial.look()
    assert trial.lost() == [] and not trial.watch.down()
    trial.update(3)
    trial.look()
    trial.now = 120.0
    trial.look()
    assert trial.lost() == [3] and trial.watch.recoveries[0].seconds == 1.0


def test_refused_pushes_are_not_lost_updates():
    trial = Trial(learners=2, max_staleness=1)
    trial.look()
    trial.update(2)
    trial.channels[0].copy()
    trial.update(1)
    trial.update(1, learner=1)  # stale
    assert trial.learners[1].tally.stale == 1
    trial.channels[0].die(0)
    trial.update(1)
    trial.update(1, learner=1)
    trial.now = 10.0
    trial.look()
    trial.now = 20.0
    trial.look()
    assert trial.lost() == [1]


def test_counts_of_answers_do_not_go_back_with_a_shard():
    trial = Trial(learners=2, max_staleness=1)
    trial.update(2)
    trial.channels[0].copy()
    trial.update(1)
    trial.update(1, learner=1)  # stale in both shards
    trial.shards[0].push("other", 0, 1, 1, 0, 0, 0.1, 1, np.ones(4, np.float32))
    trial.look()
    assert trial.watch.totals()["refused"] == 2 and trial.watch.totals()["foreign"] == 1
    trial.channels[0].die(0)
    trial.look()
    assert trial.watch.totals()["refused"] == 2 and trial.watch.totals()["foreign"] == 1
    trial.shards[0].push("other", 0, 1, 1, 0, 0, 0.1, 1, np.ones(4, np.float32))
    trial.look()
    assert trial.watch.totals()["foreign"] == 2
    trial.channels[0].copies[0] = trial.shards[0].state()  # a copy has the counts of all processes before
    trial.channels[0].die(0)
    assert list(trial.shards[0].status()["counts"]) == [0, 1, 2]


def test_a_gradient_of_its_own_that_was_refused_is_no_lag():
    trial = Trial(learners=2, max_staleness=3)
    trial.learners[0] = trial.learner(0, delay=1)
    trial.update(4, learner=1)
    trial.update(2)  # both are of version 0; the second one is sent before the first one has landed
    trial.learners[0].land()
    tally = trial.learners[0].tally
    assert (tally.stale, tally.lag_sum, tally.lag_most) == (2, 8, 4)
    trial.update(2)  # both are of version 4, and the first one is applied
    trial.learners[0].land()
    assert (tally.applied, tally.lag_sum) == (2, 8)


def test_every_end_of_a_shard_has_a_number():
    trial = Trial()
    trial.update(1)
    trial.channels[0].copy()
    trial.update(3)
    trial.look()
    trial.channels[0].die(0)
    trial.update(2)  # one of them is an outlier
    trial.channels[0].copies[0] = trial.shards[0].state()
    trial.update(2)
    trial.channels[0].die(0)
    trial.update(1)
    trial.now = 10.0
    trial.look()
    trial.now = 20.0
    trial.look()
    assert trial.lost() == [3, 2]


def test_a_loss_that_no_learner_has_heard_of():
    """The supervisor has seen the version."""
    trial = Trial()
    trial.update(4)
    trial.look(learners=False)
    trial.channels[0].die(0)
    trial.look(learners=False)
    assert trial.lost() == [4]


def test_ledgers_know_the_same_losses(tmp_path):
    trial = Trial(ledger=str(tmp_path))
    trial.look()
    trial.update(2)
    trial.channels[0].copy()
    trial.update(4)  # three pushes and an outlier
    trial.channels[0].die(0)
    trial.update(3)
    trial.look()
    ledgers = compare(tmp_path)
    assert trial.lost() == [ledgers.lost] == [3] and ledgers.unknown == ledgers.in_flight == 0 and ledgers.equal == ledgers.lives == 1
    (tmp_path / "shard-0.log").write_text("")  # what the shard does not know of
    assert compare(tmp_path).unknown > 0


def test_a_later_supervisor_goes_on_with_the_counts():
    watch = Watch()
    watch.answered("shard", 0, {"pid": 1, "version": 10, "incarnation": 0, "restored": [], "steps": 40})
    watch.answered("bundle", 0, {"pid": 2, "life": 3, "replay_size": 400, "episodes": 2, "mean_return": 7.0})
    watch.answered("bundle", 0, {"pid": 3, "life": 4, "replay_size": 0, "episodes": 1, "mean_return": 7.0})
    watch.settle()
    later = pickle.loads(pickle.dumps(watch))
    later.answered("shard", 0, {"pid": 4, "version": 8, "incarnation": 1, "restored": [(1, 8)], "steps": 32})
    later.settle()
    assert [r.text.split(",")[0] for r in later.recoveries] == ["bundle 0 lost 400 transitions", "shard 0 lost 2 updates"]
    totals = later.totals()
    assert [totals[name] for name in ("lost_updates", "lost_transitions", "recoveries", "episodes")] == [2, 400, 2, 3]


def test_recoveries_say_what_was_lost():
    now = [0.0]
    w = Watch(clock=lambda: now[0])
    bundle = {"pid": 1, "life": 3, "applied": 10, "stale": 0, "lag_sum": 5, "replay_size": 400, "episodes": 2, "mean_return": 7.0}
    w.answered("bundle", 0, bundle)
    w.answered("shard", 0, {"pid": 2, "version": 10, "incarnation": 0, "restored": [], "steps": 40, "counts": {0: {"stale": 1}}})
    w.settle()
    assert not w.recoveries and w.totals()["lag"] == 0.5 and w.totals()["num_timesteps"] == 40
    now[0] = 1.0  # the last answers came at 0
    w.failed("shard", 0)
    w.failed("bundle", 0)
    assert w.down() == ["bundle 0", "shard 0"]
    now[0] = 3.5
    w.answered("shard", 0, {"pid": 4, "version": 8, "incarnation": 1, "restored": [(1, 8)], "steps": 32, "counts": {0: {"stale": 1}}})
    w.answered("bundle", 0, {"pid": 5, "life": 0})
    w.settle()
    assert [r.text for r in w.recoveries] == ["shard 0 lost 2 updates, back after 3.5 s"]  # the bundle does not work yet
    now[0] = 6.0
    w.answered("bundle", 0, bundle | {"pid": 5, "life": 4, "applied": 1, "replay_size": 0})
    w.settle()
    assert w.recoveries[-1].text == "bundle 0 lost 400 transitions, back after 6.0 s"
    assert w.totals()["lost_updates"] == 2 and w.totals()["lag"] == pytest.approx(10 / 11)
    assert not math.isnan(w.totals()["mean_return"]) and not w.down()


def test_a_process_is_silent_since_its_end_or_the_start_of_the_run():
    now = [5.0]
    w = Watch(clock=lambda: now[0])
    now[0] = 12.0
    assert w.silent("bundle", 0) == 7.0
    w.answered("bundle", 0, {"pid": 1, "life": 0})
    assert w.silent("bundle", 0) == 0.0
    w.failed("bundle", 0)
    now[0] = 20.0
    w.failed("bundle", 0)
    w.answered("bundle", 0, {"pid": 2, "life": 0})  # it does not work yet
    assert w.silent("bundle", 0) == 8.0
    w.answered("bundle", 0, {"pid": 2, "life": 1})
    assert w.silent("bundle", 0) == 0.0


def test_a_process_that_starts_again_between_two_looks_is_seen():
    w = Watch(clock=lambda: 1.0)
    w.answered("keeper", 1, {"pid": 1, "copies": {0: 1, 1: 1}})
    assert w.answered("keeper", 1, {"pid": 2, "copies": {}})
    w.settle()
    assert [r.text for r in w.recoveries] == ["keeper 1 lost 2 copies, back after 0.0 s"]
