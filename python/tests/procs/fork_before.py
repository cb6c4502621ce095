"""Importing does not load the library: children forked after the import train, and so does the
parent.
"""

import os

import paceline  # noqa: F401
from envs import SMALL
from paceline import DQN

children = []
for _ in range(2):
    pid = os.fork()
    children.append(pid)
    if pid == 0:
        with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
            model.learn(200)
        os._exit(0)
with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
    model.learn(200)
for pid in children:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
print("done")
