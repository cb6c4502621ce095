"""Given orders of paceline.distributed, without Ray: bit-identical to Gorila in one process."""

import re

import numpy as np
import pytest

from paceline import DQN, Gorila, Store, shard_ranges
from paceline.distributed import _factory, _order_file
from paceline.distributed._factory import keywords_of_worker
from paceline.distributed._ordered import Conductor, Part, Pulled, recorded, virtual
from paceline.distributed._tally import Tally
from paceline.distributed._virtual import Duration, Latency, Stream
from paceline.errors import ConfigError, MissingFileError

SMALL = {
    "policy_kwargs": {"net_arch": [16]}, "learning_starts": 64, "batch_size": 8, "buffer_size": 4000, "train_freq": 4,
    "target_update_interval": 64, "learning_rate": 0.01, "exploration_steps": 400,
}  # fmt: skip
LATENCY = Latency.of(("0.0001:0.5", "0.0001:0.5", "0.001:0.5", "0.0001:0.5", "0.0001:0.5"))


class Local:
    """The processes of a run, here in one process. Every call is done at once."""

    def __init__(self, bundles, shards, total, max_staleness=100, num_envs=1, **keywords):
        worker = keywords_of_worker("dqn", {**SMALL, **keywords}, bundles)
        self.models = [
            DQN(
                "MlpPolicy",
                "CartPole-v1",
                num_envs=num_envs,
                num_threads=1,
                seed=7,
                updates="outside",
                outside_learners=bundles,
                outside_learner=k,
                **worker,
            )
            for k in range(bundles)
        ]
        theta = self.models[0].flat_parameters()
        ranges = shard_ranges(len(theta), shards)
        self.stores = [Store(theta, *r, optimizer="adagrad", max_staleness=max_staleness) for r in ranges]
        self.seen = np.zeros((shards, bundles), int)
        self.parts = [Part(model, ranges, Tally()) for model in self.models]
        for model in self.models:
            model.begin(total)

    def leg(self, learner, steps, pulled):
        return self.parts[learner].leg(steps, pulled)

    def wait(self, leg):
        return leg

    def push(self, shard, learner, number, leg, gradient):
        if not leg.dropped:
            self.stores[shard].push(gradient, leg.rate, self.seen[shard, learner], (learner, 1, number))

    def pull(self, shard, learner):
        values, self.seen[shard, learner] = self.stores[shard].pull()
        return Pulled(int(self.seen[shard, learner]), values)

    def parameters(self):
        theta = np.concatenate([store.pull()[0] for store in self.stores])
        for closing in (*self.models, *self.stores):
            closing.close()
        return theta


def in_one_process(steps, bundles, shards, order=None, path=None, **keywords):
    """The parameters after a run of Gorila."""
    with Gorila("MlpPolicy", "CartPole-v1", bundles=bundles, shards=shards, seed=7, order=order, **{**SMALL, **keywords}) as model:
        model.learn(steps)
        if path is not None:
            model.save_order(path)
        return model._native.parameters.flat("q_net"), model.stats


@pytest.mark.parametrize("envs, steps", [(3, 400), (3, 401), (5, 402), (8, 300)])
def test_totals_that_are_no_multiple_of_the_environments_of_a_bundle(envs, steps):
    want, stats = in_one_process(steps, 2, 2, num_envs=2 * envs)
    processes = Local(2, 2, steps, num_envs=envs)
    taken = virtual(Conductor(processes, 2, 2), LATENCY, 7, 2, 2, envs, steps, -(-SMALL["train_freq"] // envs))
    assert sum(taken) == stats["num_timesteps"] >= steps
    assert processes.stores[-1].version == stats["updates"] > 0
    assert np.array_equal(processes.parameters(), want)


@pytest.mark.parametrize(
    "bundles, shards, keywords",
    [(1, 1, {}), (4, 3, {}), (3, 2, {"outliers": 0.5}), (4, 2, {"max_staleness": 1}), (2, 1, {"train_freq": 1})],
)
def test_virtual_order_has_the_bits_of_one_process(bundles, shards, keywords):
    steps = 2000
    want, stats = in_one_process(steps, bundles, shards, **keywords)
    processes = Local(bundles, shards, steps, **keywords)
    taken = virtual(Conductor(processes, bundles, shards), LATENCY, 7, bundles, shards, 1, steps, {**SMALL, **keywords}["train_freq"])
    assert sum(taken) == steps == stats["num_timesteps"]
    assert processes.stores[-1].version == stats["updates"] > 50
    assert sum(store.describe()["refused"] for store in processes.stores) == stats["refused"]
    assert (stats["refused"] > 0) == ("max_staleness" in keywords) and (stats["outliers"] > 0) >= ("outliers" in keywords)
    assert np.array_equal(processes.parameters(), want)


def test_a_recorded_race_has_the_bits_of_one_process(tmp_path):
    want, stats = in_one_process(2000, 3, 2, path=tmp_path / "race", schedule="race", outliers=0.5)
    order = _order_file.read_order(str(tmp_path / "race.order"))
    assert (order.learners, order.shards, order.envs, order.settings["method"]) == (3, 2, 1, "gorila")
    processes = Local(3, 2, 2000, outliers=0.5)
    visits, taken = order.part(2000)
    assert taken == 2000 and visits == order.steps
    recorded(Conductor(processes, 3, 2), visits, 3)
    assert processes.stores[-1].version == stats["updates"]
    assert np.array_equal(processes.parameters(), want)
    damaged = (tmp_path / "race.order").read_bytes()
    for at in range(0, len(damaged), 97):
        (tmp_path / "damaged").write_bytes(damaged[:at] + bytes([damaged[at] ^ 1]) + damaged[at + 1 :])
        with pytest.raises(ConfigError, match="^order: .*damaged: (its checksum differs|does not begin)"):
            _order_file.read_order(str(tmp_path / "damaged"))


def test_order_files_have_limits(tmp_path, monkeypatch):
    with pytest.raises(MissingFileError, match="^order: .*nothing: no such file$"):
        _order_file.read_order(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="^order: .*: Is a directory$"):
        _order_file.read_order(str(tmp_path))

    def written(body):
        data = b"paceline order 2\n" + body
        (tmp_path / "race").write_bytes(data + _order_file.crc32c(data).to_bytes(4, "little"))
        return str(tmp_path / "race")

    with pytest.raises(ConfigError, match="^order: .*race: 1001 settings, must be at most 1000$"):
        _order_file.read_order(written(b"\xe9\x07"))
    assert _order_file.read_order(written(b"\x00\x01\x01\x01\x00\x00\x05\x00\x05")).steps == []
    with pytest.raises(ConfigError, match="^order: .*race: has no stop$"):
        _order_file.read_order(written(b"\x00\x01\x01\x01\x00"))
    monkeypatch.setattr(_order_file, "_MOST", 20)
    with pytest.raises(ConfigError, match="^order: .*race: more than 20 bytes$"):
        _order_file.read_order(str(tmp_path / "race"))


@pytest.mark.parametrize(
    "change, says",
    [
        ({"learning_rate": 0.5}, 'learning_rate: the record has "0.01", this run has "0.5"'),
        ({"env": "Acrobot-v1"}, 'env: the record has "CartPole-v1", this run has "Acrobot-v1"'),
        ({"shards": 3}, 'shards: the record has "2", this run has "3"'),
        ({"max_staleness": 5}, 'max_staleness: the record has "100", this run has "5"'),
        ({"actors_per_bundle": 2}, 'num_envs: the record has "2", this run has "4"'),
        ({"seed": 8}, 'seed: the record has "7", this run has "8"'),
    ],
)
def test_an_order_of_other_settings_is_refused(tmp_path, monkeypatch, change, says):
    def connect(address):
        raise ConnectionError

    monkeypatch.setattr(_factory._ray, "connect", connect)  # comes after the check
    in_one_process(200, 2, 2, path=tmp_path / "race", schedule="race")
    run = {**SMALL, "env": "CartPole-v1", "bundles": 2, "shards": 2, "seed": 7, "order": tmp_path / "race"}
    with pytest.raises(ConnectionError):
        Gorila("MlpPolicy", cluster="ray", **run)
    with pytest.raises(ConfigError, match=f"^order: {re.escape(says)}$"):
        Gorila("MlpPolicy", cluster="ray", **{**run, **change})
    with pytest.raises(MissingFileError, match="^order: "):
        Gorila("MlpPolicy", cluster="ray", **{**run, "order": tmp_path / "nothing"})


def test_draws_are_those_of_the_library():
    """Numbers of core/rng and core/train/order."""
    stream, duration = Stream(7, "latency", 2), Duration("0.0001:0.5", "latency_step")
    assert (stream.uint64(), stream.uint64()) == (17509904777194984327, 7508739248940059188)
    stream = Stream(7, "latency", 2)
    assert sum(duration.draw(stream) for _ in range(200_000)) == 22698024781


@pytest.mark.parametrize("text", ["-1", "0", "0.1:-3", "0.1:inf", "1e30", "inf", "nan", "61", "0.1:2.5", "0.1:", "1e-10", "soon"])
def test_durations_have_the_limits_of_the_library(text):
    says = []
    for keywords in ({}, {"cluster": "ray"}):
        with pytest.raises(ConfigError) as err:
            Gorila("MlpPolicy", "CartPole-v1", schedule="virtual", latency_gradient=text, **keywords)
        says.append(str(err.value))
    assert says[0] == says[1] == f'latency_gradient: "{text}", must be seconds, 1e-9 to 60, or median:sigma with sigma 0 to 2'


@pytest.mark.parametrize("text", ["1e-9", "60", "0.1:2", "0.1:0"])
def test_durations_at_the_limits(text):
    with Gorila("MlpPolicy", "CartPole-v1", schedule="virtual", latency_gradient=text):
        assert Duration(text, "latency_gradient").median >= 1
