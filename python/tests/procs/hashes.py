"""Prints the hashes of a short run. argv: env, and optionally a library that sets the
floating-point mode when loaded.
"""

import ctypes
import sys

if len(sys.argv) > 2:
    host = ctypes.CDLL(sys.argv[2])
    host.mode.restype = ctypes.c_uint
    host.set()
    assert host.mode() & 0x8040, "the host's mode was not set"

from envs import SMALL
from paceline import DQN

keywords = dict(SMALL) if sys.argv[1] == "CartPole-v1" else {k: v for k, v in SMALL.items() if k != "policy_kwargs"}
with DQN("auto", sys.argv[1], num_envs=2, num_threads=2, **keywords) as model:
    model.learn(1000 if sys.argv[1] == "CartPole-v1" else 100)
    print(*model.hashes())
if len(sys.argv) > 2:
    assert host.mode() & 0x8040, "the library changed the host's mode"
