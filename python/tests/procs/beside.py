"""While learn is inside the library other Python threads run; NumPy's pool beside it changes no result. Prints two rates."""

import threading
import time

import numpy as np

from envs import SMALL
from paceline import DQN


def train():
    """Hashes of a run, and how long it took."""
    with DQN("MlpPolicy", "CartPole-v1", num_envs=2, num_threads=2, **SMALL) as model:
        began = time.perf_counter()
        model.learn(200_000, log_interval=None)
        return model.hashes(), time.perf_counter() - began


alone, took = train()
done, counted, products = threading.Event(), 0, 0


def count():
    global counted
    while not done.is_set():
        counted += 1
        time.sleep(0.001)


def multiply():
    global products
    a = np.random.default_rng(0).random((400, 400))
    while not done.is_set():
        a @ a
        products += 1


threads = [threading.Thread(target=count), threading.Thread(target=multiply)]
for t in threads:
    t.start()
beside, longer = train()
done.set()
for t in threads:
    t.join()
assert beside == alone
# With the interpreter's lock held by learn neither thread would have come on.
assert counted > 10 and products > 2, (counted, products, longer)
print(f"{took:.2f} s alone, {longer:.2f} s beside {products / longer:.0f} products a second")
