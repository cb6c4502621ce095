"""Shards, learners and their models in one process, and the faults of a channel between them."""

import numpy as np

from paceline.distributed._learner import Learner, ShardLost
from paceline.distributed._shards import Shard


def store(size=4, **keywords):
    from paceline import Store

    return Store(np.arange(size, dtype=np.float32), optimizer="adagrad", **keywords)


def shard(index=0, size=4, copies=None, ledger="", **keywords):
    def copied(age, state):
        if copies is not None:
            copies.append(state)

    return Shard("id", index, store(size, **keywords), lambda a: a, copied, 2, ledger)


# The keywords of a run for checked.
CHECKED = {
    "bundles": 1, "shards": 1, "actors_per_bundle": 1, "num_cpus": 1, "pin": False, "keepers": 1, "copy_every": 1, "delay": 0,
    "gradients": "fp32", "inline_limit": 0, "lease": 1, "actors": 0, "envs_per_actor": 1, "replay_shards": 1, "pull_every": 50,
    "actor_epsilon": "schedule",
}  # fmt: skip


ONES = np.ones(4, np.float32)


class Model:
    """Gradients that depend on the parameters, so that a wrong order shows."""

    def __init__(self, size, most):
        self.size, self.most, self.made, self.adopted = size, most, 0, []
        self.theta, self.num_timesteps, self.before = np.zeros(size, np.float32), 0, None

    def gradient(self, out):
        if self.made == self.most:
            return None
        self.made += 1
        self.num_timesteps += 4
        out[:] = self.theta * 0.1 + self.made
        return type("Gradient", (), {"num_timesteps": self.num_timesteps, "loss": 1.0, "learning_rate": 0.1, "dropped": self.made % 5 == 0})

    def begin(self, total, reset_num_timesteps=True):
        assert reset_num_timesteps == (self.before is None)  # True for the first begin alone
        self.before = self.adopted[-1][0]  # updates that count as those before the run

    def adopt(self, parameters, updates, steps):
        self.theta = parameters.copy()
        self.adopted.append((updates, steps))

    def stop(self):
        self.most = self.made


class Direct:
    """A channel to shards in this process, which can lose calls, answers and shards."""

    def __init__(self, shards, index=0, ledger=""):
        self.shards, self.index, self.ledger = shards, index, ledger
        self.copy()
        self.calls = 0
        self.fault = lambda call: None  # "before", "after" (the answer is lost), "die"

    def join(self, shard):
        return self.shards[shard].join("id", self.index)

    def tell(self, shard, *told):
        self.shards[shard].tell(*told)

    def push(self, shard, *push):
        self.calls += 1
        push = (*push[:-1], push[-1].copy())
        how = self.fault(self.calls)
        if how == "before":
            return None
        if how == "die":
            self.die(shard)
            return None
        answer = self.shards[shard].push(*push)
        return None if how == "after" else answer

    def die(self, index):
        """Puts a shard of the newest copy in the place of a shard."""
        self.shards[index] = shard(index, ledger=self.ledger)
        self.shards[index].restore(self.copies[index], again=True)

    def copy(self):
        self.copies = [s.state() for s in self.shards]

    def answer(self, sent):
        if sent is None:
            raise ShardLost("lost")
        return sent, sent.parameters

    def pull(self, shard):
        answer = self.shards[shard].pull("id")
        return answer, answer.parameters


RANGES = [(0, 4), (4, 4)]


def trained(fault=None, steps=20, delay=1, copy_at=None, **keywords):
    shards = [shard(0), shard(1)]
    channel, model = Direct(shards), Model(8, steps)
    one = Learner(model, channel, RANGES, run="id", learner=0, delay=delay, **keywords)
    one.begin(10**6)
    channel.calls, channel.fault = 0, fault or channel.fault
    while one.update():
        if one.step == copy_at:
            channel.copy()
    return one, channel, model
