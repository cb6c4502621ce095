"""Ids exist in spawned processes, which import this file again. argv: paceline or gymnasium, the
first import.
"""

import importlib
import multiprocessing
import sys

importlib.import_module(sys.argv[1])

import gymnasium  # noqa: E402

import paceline  # noqa: E402


def make():
    return gymnasium.make("paceline/CartPole-v1")


def reset(seed):
    return make().reset(seed=seed)[0].tolist()


if __name__ == "__main__":
    expected = paceline.make_vec("CartPole-v1", 2).reset(seed=[3, 4])[0].tolist()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(reset, [3, 4]) == expected
    envs = gymnasium.vector.AsyncVectorEnv([make, make], context="spawn")
    assert envs.reset(seed=[3, 4])[0].tolist() == expected
    envs.close()
