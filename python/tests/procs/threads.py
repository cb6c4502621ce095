"""Several threads use one object: a call gives its usual result or is refused with the expected
error.
"""

import collections
import random
import sys
import threading
import time

import gymnasium
import numpy as np

import paceline
from paceline import workers
from paceline.errors import BusyError, ConfigError, HandleError, StoppedError

SMALL = {"learning_starts": 200, "buffer_size": 1000, "num_envs": 2, "num_threads": 1, "seed": 1}


def together(*calls, allowed, wanted):
    """Repeats each call in its own thread for a second, and until everything in `wanted` has
    occurred.

    `wanted` has names of calls and of error classes. Half of the calls are followed by a pause. A
    thread may release the interpreter's lock only inside its calls, while it holds the object.
    Without pauses every call of another thread would then be refused.
    """
    counts, failures = collections.Counter(), []
    began, begin, over = time.monotonic(), threading.Barrier(len(calls)), threading.Event()

    def run(call):
        begin.wait()
        while not over.is_set():
            try:
                call()
                counts[call.__name__] += 1
            except allowed as err:
                counts[type(err).__name__] += 1
            except BaseException as err:
                failures.append(err)
                raise
            if random.random() < 0.5:
                time.sleep(1e-5)

    threads = [threading.Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    while not failures and (time.monotonic() < began + 1 or not all(counts[name] for name in wanted)):
        assert time.monotonic() < began + 250, counts
        time.sleep(0.05)
    over.set()
    for thread in threads:
        thread.join()
    assert not failures


def model():
    def learn():
        used.learn(100, log_interval=None)

    def learn_and_call_back():
        used.learn(100, callback=lambda *_: True, log_interval=None)

    def predict():
        used.predict(np.zeros(4, np.float32))

    def stats():
        assert used.stats["num_timesteps"] >= 0

    def weights():
        used.set_parameters(used.get_parameters())

    def stop():
        time.sleep(0.05)
        used.stop()

    with paceline.DQN("MlpPolicy", "CartPole-v1", **SMALL) as used:
        calls = learn, learn_and_call_back, predict, predict, stats, weights, stop
        together(*calls, allowed=(BusyError, HandleError, StoppedError), wanted=("stats", "BusyError"))
        used.learn(300)


def environment():
    """A model steps a Python environment; only one learn runs at a time."""
    inside = []

    class Alone(gymnasium.Wrapper):
        def step(self, action):
            inside.append(None)
            assert len(inside) == 1
            results = self.env.step(action)
            inside.pop()
            return results

    def learn():
        used.learn(100, log_interval=None)

    with paceline.DQN("MlpPolicy", Alone(gymnasium.make("CartPole-v1")), learning_starts=50, buffer_size=1000) as used:
        together(learn, learn, learn, allowed=BusyError, wanted=("learn", "BusyError"))


def step():
    """Refused actions change nothing and never reach another thread's step."""
    envs = paceline.make_vec("CartPole-v1", 64, num_threads=1)
    envs.reset(seed=1)

    def good():
        try:
            envs.step(np.zeros(64, np.int32))
        except ConfigError as err:
            raise AssertionError from err

    def bad():
        try:
            envs.step(np.full(64, 10**9, np.int32))
        except ConfigError:
            return
        raise AssertionError("actions out of range were taken")

    together(good, bad, allowed=BusyError, wanted=("good", "bad", "BusyError"))
    envs.close()


def send():
    """Several threads send and one receives; every result is valid."""
    envs = paceline.make_vec("CartPole-v1", 8, batch_size=1, num_threads=1)
    envs.async_reset(seed=1)
    idle = collections.deque(envs.recv()[4]["env_id"][0] for _ in range(8))

    def send():
        try:
            i = idle.popleft()
        except IndexError:
            return
        try:
            envs.send(np.zeros(1, np.int32), np.array([i]))
        except BusyError:
            idle.append(i)
            raise

    def recv():
        try:
            obs, *_, infos = envs.recv()
        except ConfigError:  # no step is in progress
            return
        assert obs.any()
        idle.append(infos["env_id"][0])

    together(send, send, send, recv, allowed=BusyError, wanted=("recv", "BusyError"))
    envs.close()


def processes():
    """No worker stops, as a worker would if two threads wrote to its pipe at once."""
    envs = workers.make(lambda: gymnasium.make("CartPole-v1"), 4, workers=2, context="fork", autoreset_mode="next_step")
    envs.reset(seed=1)
    pids = [w.process.pid for w in envs._crew.workers]

    def step():
        envs.step(np.zeros(4, np.int64))

    def ask():
        envs.get_attr("render_mode")

    together(step, step, envs.reset, ask, allowed=BusyError, wanted=["BusyError"])
    envs.step(np.zeros(4, np.int64))
    assert pids == [w.process.pid for w in envs._crew.workers]
    envs.close()


def closing():
    """A call ends with an error if another thread closes the object."""
    for i in range(4):
        used = paceline.DQN("MlpPolicy", "CartPole-v1", **SMALL)
        policy, envs = used.policy_snapshot(), paceline.make_vec("CartPole-v1", 4, num_threads=2)
        envs.reset(seed=1)
        calls = {
            "learn": lambda used=used: used.learn(300, log_interval=None),
            "act": lambda policy=policy: policy.act(np.zeros((8, 4), np.float32)),
            "step": lambda envs=envs: envs.step(np.zeros(4, np.int32)),
        }
        ends, began = {}, threading.Barrier(len(calls) + 1)

        def run(name, call, ends=ends, began=began):
            began.wait()
            try:
                while True:
                    call()
            except BaseException as err:
                ends[name] = type(err)

        threads = [threading.Thread(target=run, args=each) for each in calls.items()]
        for thread in threads:
            thread.start()
        began.wait()
        time.sleep(0.03 * i)
        for thing in (used, policy, envs):
            thing.close()
        for thread in threads:
            thread.join()
        assert ends == dict.fromkeys(calls, HandleError), ends


globals()[sys.argv[1]]()
