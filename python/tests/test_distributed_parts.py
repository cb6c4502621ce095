"""The parts of paceline.distributed that need no Ray: wire, states, shards, learners, watch, files."""

import io
import os
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest

from in_process import CHECKED, ONES, RANGES, Direct, Model, shard, store, trained
from paceline import distributed
from paceline.distributed import _cores, _files, _learner as learners, _records, _wire
from paceline.distributed._learner import Learner, ShardLost
from paceline.distributed._ordered import Leg
from paceline.distributed._shards import Shard
from paceline.distributed._spec import checked
from paceline.errors import CheckpointError, ConfigError, StoppedError

# ------------------------------------------------------------------- wire


def test_bf16_rounds_to_the_nearest_and_to_even():
    bits = np.array([0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0xBF807FFF], np.uint32)
    assert [hex(b) for b in _wire.to_bf16(bits.view(np.float32))] == ["0x3f80", "0x3f80", "0x3f82", "0x3f81", "0xbf80"]
    assert (_wire.from_bf16(np.array([0x3F82], np.uint16)) == np.float32(1.015625)).all()


def test_error_feedback_keeps_the_sum_of_gradients():
    random = np.random.default_rng(1)
    encoder, sent, true = _wire.Encoder(100, True), np.zeros(100), np.zeros(100)
    for _ in range(200):
        gradient = random.normal(size=100).astype(np.float32)
        sent += _wire.decode(encoder.encode(gradient))
        true += gradient
    assert np.abs(sent - true).max() < 0.02  # one rounding; without feedback it is about ten times that
    plain = _wire.Encoder(100, False)
    assert plain.encode(gradient) is gradient and _wire.decode(gradient) is gradient


# ----------------------------------------------------------------- states


def test_states_are_packed_and_damaged_ones_refused():
    state = _records.pack({"a": [1, 2]}, b"body")
    assert _records.unpack(state, "x") == ({"a": [1, 2]}, b"body")
    for bad in (b"", b"\0\0\0\0", state[:5], b"\xff\xff\xff\xff" + state[4:], _records.pack([1], b"")):  # type: ignore[arg-type]
        with pytest.raises(CheckpointError, match="^x: not a state of paceline"):
            _records.unpack(bad, "x")
    for head in ({}, {"n": 1}, {"n": [1]}, {"n": [1, -1]}, {"n": [1, 2**63]}, {"n": [1, True]}, {"n": [1, 0.5]}):
        with pytest.raises(CheckpointError, match="^x: n "):
            _records.counts_of(head, "n", "x", 2)


# ----------------------------------------------------------------- shards


def test_a_push_is_applied_once():
    s = shard()
    first = s.push("id", 0, 5, 1, 0, 0, 0.1, 10, ONES)
    assert (first.what, first.version, first.lag, first.steps) == ("applied", 1, 0, 10)
    again = s.push("id", 0, 5, 1, 0, 0, 0.1, 10, ONES)
    assert (again.what, again.first, again.version, s.version) == ("duplicate", "applied", 1, 1)
    assert np.array_equal(first.parameters, again.parameters)
    late = s.push("id", 1, 5, 1, 0, 0, 0.1, 3, ONES)
    assert (late.what, late.lag, late.version, late.steps) == ("applied", 1, 2, 13)
    assert s.publications == 2 and s.pulls == 3  # a version that was pulled twice is published once


def test_stale_and_foreign_gradients_are_counted():
    s = shard(max_staleness=1)
    for step in (1, 2, 3):
        assert s.push("id", 0, 1, step, 0, step - 1, 0.1, step, ONES).what == "applied"
    stale = s.push("id", 1, 1, 1, 0, 0, 0.1, 1, ONES)
    assert (stale.what, stale.lag, stale.version) == ("stale", 3, 3)
    assert s.push("id", 1, 1, 1, 0, 0, 0.1, 1, ONES)[0] == "duplicate"
    assert s.push("other", 1, 1, 2, 0, 3, 0.1, 1, ONES).what == "foreign"
    assert s.status()["counts"] == {0: {"applied": 3, "stale": 1, "duplicate": 1, "moved": 0, "foreign": 1}}
    with pytest.raises(CheckpointError, match="of run id, must be of other"):
        s.join("other", 0)


def test_steps_of_earlier_lives_are_counted():
    s = shard()
    s.push("id", 0, 1, 1, 0, 0, 0.1, 10, ONES)
    s.push("id", 0, 1, 2, 0, 1, 0.1, 15, ONES)
    assert s.push("id", 0, 7, 1, 0, 2, 0.1, 4, ONES).steps == 19
    assert s.push("id", 2, 1, 1, 0, 2, 0.1, 1, ONES).steps == 20


def test_a_life_that_is_over_may_tell_its_steps_late():
    s = shard()
    for life, steps, total in ((1, 100, 100), (2, 10, 110), (1, 120, 130), (2, 20, 140), (1, 90, 140)):
        s.tell("id", 5, life, steps)
        assert s.pull("id").steps == total
    assert s.join("id", 5).life == 2
    again = shard()
    again.restore(s.state(), again=True)
    again.tell("id", 5, 1, 130)
    assert again.pull("id").steps == 150


def test_a_shard_goes_on_from_a_state():
    copies = []
    s = shard(copies=copies)
    for step in (1, 2, 3):
        s.push("id", 4, 9, step, 0, step - 1, 0.1, 10 * step, ONES)
    assert len(copies) == 1  # after every second update
    other = shard()
    other.restore(copies[0], again=True)
    assert other.age == (1, 2) and tuple(other.join("id", 4)) == (1, 2, 9, 20)
    assert other.push("id", 4, 9, 3, 0, 2, 0.1, 30, ONES).what == "moved"
    assert other.push("id", 4, 9, 3, 1, 2, 0.1, 30, ONES).version == 3
    assert np.array_equal(other.pull("id").parameters, s.pull("id").parameters)
    with pytest.raises(CheckpointError, match="shard 1: a state of shard 0"):
        shard(1).restore(copies[0], again=False)
    for at in range(0, len(copies[0]), 7):  # a damaged state changes nothing
        before = other.state()
        damaged = bytearray(copies[0])
        damaged[at] ^= 0x55
        try:
            other.restore(bytes(damaged), again=False)
        except (CheckpointError, ConfigError):
            assert other.state() == before
        else:
            other.restore(before, again=False)


# --------------------------------------------------------------- learners


def test_a_given_order_ends_where_a_shard_starts_again_in_it():
    one, again, loaded = shard(), shard(), shard()
    assert one.pull_in_order(0).version == 0
    one.push_in_order(0, 1, Leg(4, 0.1), ONES)
    again.restore(one.state(), again=True)
    for visit in (lambda: again.pull_in_order(0), lambda: again.push_in_order(0, 2, Leg(8, 0.1), ONES), lambda: again.tell_in_order(8)):
        with pytest.raises(StoppedError, match="^shard 0: has started again"):
            visit()
    assert again.version == 1
    loaded.restore(again.state(), again=False)  # as from a checkpoint: another run, which lacks no visit
    assert loaded.incarnation == 1 and loaded.pull_in_order(0).version == 1
    loaded.push_in_order(0, 2, Leg(8, 0.1), ONES)
    assert loaded.version == 2


@pytest.mark.parametrize("delay", [0, 1, 3])
@pytest.mark.parametrize("how", ["before", "after"])
def test_lost_calls_change_nothing(how, delay):
    plain, direct, model = trained(delay=delay)
    one, channel, other = trained(lambda call: how if call % 7 == 3 else None, delay=delay)
    if not delay:  # otherwise a gradient, or its answer, comes after a later one
        assert np.array_equal(model.theta, other.theta) and model.adopted == other.adopted
    assert one.tally.applied == plain.tally.applied == 16 and one.tally.outliers == 4
    assert [s.version for s in channel.shards] == [16, 16]
    assert (sum(s.status()["counts"][0]["duplicate"] for s in channel.shards) > 0) == (how == "after")


class Counted(Direct):
    """Counts the pushes to each shard that are sent and not answered."""

    def __init__(self, shards):
        super().__init__(shards)
        self.flying, self.most = [0] * len(shards), 0

    def push(self, shard, *push):
        self.flying[shard] += 1
        self.most = max(self.most, *self.flying)
        return shard, super().push(shard, *push)

    def answer(self, sent):
        shard, answer = sent
        self.flying[shard] -= 1
        return super().answer(answer)


@pytest.mark.parametrize("delay", [0, 1, 3])
@pytest.mark.parametrize("how", [None, "before", "after"])
def test_pushes_in_flight_are_bounded(how, delay):
    channel = Counted([shard(0), shard(1)])
    one = Learner(Model(8, 40), channel, RANGES, run="id", learner=0, delay=delay)
    one.begin(10**6)
    channel.fault = lambda call: how if call % 7 == 3 else None
    while one.update():
        assert max(channel.flying) <= delay
    assert channel.most == delay + 1 and channel.flying == [0, 0] and one.tally.applied == 32


@pytest.mark.parametrize("how", ["before", "after"])
def test_the_longest_delay_survives_lost_answers(how):
    longest = checked(**{**CHECKED, "delay": 63})["delay"]
    one, channel, _ = trained(lambda call: how if call % 50 == 3 else None, delay=longest, steps=300)
    assert one.tally.applied == 240 and [s.version for s in channel.shards] == [240, 240]
    with pytest.raises(ConfigError, match="^delay: 64, must be 0 to 63$"):
        checked(**{**CHECKED, "delay": 64})


@pytest.mark.parametrize("delay", [0, 1])
def test_one_shard_has_the_parameters_of_two(delay):
    from paceline import Store

    _, _, two = trained(delay=delay)
    whole = Store(np.tile(np.arange(4, dtype=np.float32), 2), optimizer="adagrad")
    model = Model(8, 20)
    one = Learner(model, Direct([Shard("id", 0, whole, lambda a: a, lambda *_: None, 100)]), [(0, 8)], run="id", learner=0, delay=delay)
    one.begin(10**6)
    while one.update():
        pass
    assert np.array_equal(model.theta, two.theta) and model.adopted == two.adopted


def test_a_learner_that_drops_gradients_goes_on_with_the_newest_parameters():
    class Dropping(Model):
        def gradient(self, out):
            made = super().gradient(out)
            made.dropped = self.made > 2
            return made

    shards = [shard(0), shard(1)]
    one, other = (
        Learner(model, Direct(shards, k), RANGES, run="id", learner=k, delay=1) for k, model in enumerate((Dropping(8, 99), Model(8, 99)))
    )
    for learner in (one, other):
        learner.begin(10**6)
    for _ in range(2):
        assert one.update()  # the second gradient is under way
    for _ in range(4):
        assert other.update() and one.update()
        assert one._seen == [(0, s.version) for s in shards] and not one._flying
    assert one.tally.outliers == 4 and one.tally.applied == 2 and shards[0].version == 6


def test_adopted_counts():
    one, channel, model = trained(delay=0)
    # Updates of the server, and steps of all learners, of which there is one; the 20th gradient is an outlier.
    assert model.adopted[-3:] == [(15, 72), (16, 76), (16, 80)]
    assert one.steps == 80 and channel.shards[0].status()["steps"] == 80  # also those after the latest push


def test_learners_go_on_with_a_shard_that_was_restored():
    one, channel, model = trained(lambda call: "die" if call == 21 else None, copy_at=5)
    # Call 21 is the 11th push to shard 0, whose copy has at most the first five.
    seen, (_, restored) = one.tally.seen, channel.shards[0].status()["restored"][0]
    assert channel.shards[0].incarnation == 1 and 4 <= seen["0:0"] - restored <= 6
    assert channel.shards[0].version == 16 - (seen["0:0"] - restored) and channel.shards[1].version == 16
    assert one.tally.applied == 16
    updates = [updates for updates, _ in model.adopted]
    assert updates == sorted(updates)


def test_a_late_life_goes_on_where_the_run_is():
    _, channel, _ = trained()
    model = Model(8, 20)
    late = Learner(model, Direct(channel.shards), RANGES, run="id", learner=0)
    late.begin(10**6)
    assert model.before == 0 and model.adopted[-1] == (16, 80)


def test_ledgers_agree(tmp_path):
    shards = [Shard("id", k, store(), lambda a: a, lambda *_: None, 100, str(tmp_path)) for k in range(2)]
    one = Learner(Model(8, 20), Direct(shards), RANGES, run="id", learner=0, ledger=str(tmp_path))
    while one.update():
        pass
    theirs = [(tmp_path / f"shard-{k}.log").read_text().split("\n") for k in range(2)]
    ours = (tmp_path / f"learner-0-{one.life}.log").read_text().split("\n")
    for k in range(2):
        assert [line.split()[2:] for line in theirs[k] if line] == [line.split()[1:] for line in ours if line.startswith(f"{k} ")]


def test_a_life_is_later_than_those_that_shards_know():
    shards = [shard(0), shard(1)]
    shards[1].push("id", 0, 2**40, 1, 0, 0, 0.1, 1, ONES)
    assert Learner(Model(8, 1), Direct(shards), RANGES, run="id", learner=0).life == 2**40 + 1


def test_a_learner_gives_up_after_a_while(monkeypatch):
    shards = [shard(0), shard(1)]
    channel = Direct(shards)
    one = Learner(Model(8, 3), channel, RANGES, run="id", learner=0, delay=0, patience=0.2)
    channel.fault = lambda call: "before"
    with pytest.raises(ShardLost):
        one.update()
    assert learners.ShardLost is ShardLost


def test_bf16_trains_too():
    one, _, model = trained(bf16=True)
    _, _, exact = trained()
    assert one.tally.bytes_sent == 2 * 8 * 16 and np.allclose(model.theta, exact.theta, atol=1e-2)


# ------------------------------------------------------------------ files


def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "run.zip"
    with _files.written(path) as to:
        to.head({"x": 1})
        to.add("shard", 0, b"abc")
    with _files.opened(path) as run:
        assert run.head["x"] == 1 and run.read("shard", 0) == b"abc" and run.indexes("shard") == [0] and run.indexes("bundle") == []
        with pytest.raises(CheckpointError, match="it has no bundle-0"):
            run.read("bundle", 0)
    with pytest.raises(ZeroDivisionError), _files.written(path) as to:
        to.add("shard", 0, b"other")
        raise ZeroDivisionError
    with _files.opened(path) as run:
        assert run.read("shard", 0) == b"abc"
    assert [p.name for p in tmp_path.iterdir()] == ["run.zip"]


def test_damaged_checkpoints_are_refused(tmp_path):
    path = tmp_path / "run.zip"
    with _files.written(path) as to:
        to.head({"x": 1})
        to.add("shard", 0, bytes(range(200)))
    whole = path.read_bytes()
    for at in range(0, len(whole), 3):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :]):
            path.write_bytes(damaged)
            try:
                with _files.opened(path) as run:
                    read = run.read("shard", 0), run.head["x"]
            except (CheckpointError, RuntimeError):
                continue
            assert read == (bytes(range(200)), 1)  # a byte that says nothing, such as one of a date
    compressed = io.BytesIO()
    with zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("run.json", "{}" * 1000)
    path.write_bytes(compressed.getvalue())
    with pytest.raises(CheckpointError, match="is compressed"), _files.opened(path):
        pass


HEAD = {
    "spec": {
        "method": "dqn", "policy": "MlpPolicy", "env": "CartPole-v1", "worker": {}, "optimizer": {}, "seed": 1, "size": 8,
        "bundles": 1, "shards": 2, "actors_per_bundle": 1, "num_cpus": 1, "keepers": 2, "copy_every": 100, "delay": 1, "bf16": False,
        "inline_limit": 1000, "lease": 600.0, "actors": 0, "envs_per_actor": 1, "replay_shards": 1, "pull_every": 50,
        "actor_epsilon": "schedule",
    },
    "replay": False,
}  # fmt: skip


@pytest.mark.parametrize(
    "change, says",
    [
        ({"method": "td3"}, "a spec that no run has"),
        ({"policy": 1}, "a spec that no run has"),
        ({"seed": "1"}, "a spec that no run has"),
        ({"seed": -1}, "a spec that no run has"),
        ({"seed": 2**63}, "a spec that no run has"),
        ({"env": None}, "has no env"),
        ({"size": 0}, "size 0"),
        ({"size": 2**40}, "size 1099511627776"),
        ({"shards": 9}, "size 8"),
        ({"shards": 10**9}, "shards: 1000000000, must be 1 to 1024"),
        ({"lease": "long"}, "lease: 'long'"),
        ({"bundles": None}, "bundles: None, must be 1 to 1000"),
        ({"worker": {"buffer_size": 1}}, "buffer_size: 1, must be at least 32 with 1 bundles, which share it"),
        ({"worker": []}, "has no spec"),
    ],
)
def test_forged_heads_are_refused_before_anything_starts(tmp_path, change, says):
    path = forged(tmp_path / "run.zip", change)
    for overrides in ({}, {"bundles": 2, "lease": 60}):
        with pytest.raises(CheckpointError, match=f"^{path}: run.json: {says}"):
            distributed.load(path, **overrides)


def test_shards_of_another_size_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="^shard-0: of parameters 0 to 3, must be of"):
        distributed.load(forged(tmp_path / "run.zip", {"size": 40}))


@pytest.mark.parametrize(
    "overrides, says",
    [({"bundles": 0}, "bundles: 0, must be 1 to 1000"), ({"bundles": 900}, "buffer_size: .*, must be at least .* with 900 bundles")],
)
def test_overrides_that_no_run_has_are_the_callers(tmp_path, overrides, says):
    with pytest.raises(ConfigError, match=f"^{says}"):
        distributed.load(forged(tmp_path / "run.zip", {"worker": {"buffer_size": 4000}}), **overrides)


def forged(path, change):
    """A checkpoint whose spec has some other values."""
    with _files.written(path) as to:
        to.head({**HEAD, "spec": {**HEAD["spec"], **change}})
        for k in range(2):
            to.add("shard", k, shard(k).state())
    return path


# ------------------------------------------------------------------ cores


def test_learners_claim_cores_and_leave_one(tmp_path):
    folder = str(tmp_path)
    one, two, three = (_cores.Claims(folder, range(4)) for _ in range(3))
    assert one.claim(1) == {0} and two.claim(2) == {1, 2}
    assert three.claim(1) == set() and three.rest() == {3}  # nothing would be left for other threads
    one.release()
    assert three.rest() == {0, 3} and three.claim(1) == {0}
    assert _cores.Claims(folder, [1, 2]).rest() == {1, 2}  # of a process that may use these alone
    assert _cores.Claims(str(tmp_path / "missing"), range(4)).claim(1) == set()


def test_claims_end_with_their_process(tmp_path):
    code = "import sys; from paceline.distributed import _cores; c = _cores.Claims(sys.argv[1], range(2)); print(c.claim(1)); input()"
    process = subprocess.Popen([sys.executable, "-uc", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "{0}\n"
    mine = _cores.Claims(str(tmp_path), range(2))
    assert mine.rest() == {1} and mine.claim(1) == set()
    process.kill()
    process.communicate()
    assert mine.rest() == {0, 1} and mine.claim(1) == {0}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_threads_stay_on_their_cores():
    first, *rest = sorted(os.sched_getaffinity(0))
    seen, go, done = {}, threading.Event(), threading.Event()

    def learner():
        _cores.all_stay(set(rest), but=threading.get_native_id())
        _cores.stay({first})
        seen["learner"] = os.sched_getaffinity(0)
        go.wait()

    def other():
        seen["id"] = threading.get_native_id()
        done.wait()

    before = os.sched_getaffinity(0)
    threads = [threading.Thread(target=other), threading.Thread(target=learner)]
    try:
        for thread in threads:
            thread.start()
        while "learner" not in seen:
            time.sleep(0.01)
        assert seen["learner"] == {first} and os.sched_getaffinity(seen["id"]) == os.sched_getaffinity(0) == set(rest)
    finally:
        go.set()
        done.set()
        for thread in threads:
            thread.join()
        _cores.all_stay(before)
