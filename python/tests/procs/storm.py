"""Timers and signal handlers of the host fire continuously while the library works."""

import signal

from envs import SMALL
from paceline import DQN

hits = {signal.SIGALRM: 0, signal.SIGPROF: 0}


def count(number, frame):
    hits[number] += 1


signal.signal(signal.SIGALRM, count)
signal.signal(signal.SIGPROF, count)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
signal.setitimer(signal.ITIMER_PROF, 0.002, 0.002)
with DQN("MlpPolicy", "CartPole-v1", num_envs=2, **SMALL) as model:
    while min(hits.values()) < 50:
        model.learn(500, log_interval=None)
signal.setitimer(signal.ITIMER_REAL, 0)
signal.setitimer(signal.ITIMER_PROF, 0)
print("done")
