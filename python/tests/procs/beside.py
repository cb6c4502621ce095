"""NumPy's thread pool does not change the result of a concurrent learn."""

import threading

import numpy as np

from envs import SMALL
from paceline import DQN


def train():
    with DQN("MlpPolicy", "CartPole-v1", num_envs=2, num_threads=2, **SMALL) as model:
        model.learn(50_000, log_interval=None)
        return model.hashes()


alone, done, begun = train(), threading.Event(), threading.Event()


def multiply():
    a = np.random.default_rng(0).random((400, 400))
    while not done.is_set():
        a @ a
        begun.set()


thread = threading.Thread(target=multiply)
thread.start()
begun.wait()
beside = train()
done.set()
thread.join()
assert beside == alone
