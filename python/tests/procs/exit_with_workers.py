"""The interpreter exits while another thread steps worker processes, by a model's learn or by itself."""

import sys
import threading
import time

import numpy as np

import worker_envs as we
from paceline import PPO, make_vec

envs = make_vec(we.Counting, 2, workers=2, context="fork", autoreset_mode="same_step")
envs.reset(seed=1)
begun = threading.Event()


def step():
    while True:
        envs.step(np.zeros(2, int))
        begun.set()


if sys.argv[1] == "learn":
    model = PPO("MlpPolicy", envs, seed=1)
    thread = threading.Thread(target=model.learn, args=(10**9,), kwargs={"callback": lambda *_: begun.set()}, daemon=True)
else:
    thread = threading.Thread(target=step, daemon=True)
thread.start()
begun.wait()
time.sleep(0.05)
print("leaving", flush=True)
