"""The smoke test of a wheel: trains CartPole, saves, loads and acts with the installed package.

    python smoke.py [folder below which the package must be]

It needs only the wheel and its dependencies. make wheel-test runs it on every Python; make
wheel-test-arm64 and make wheel-test-debian run it under an emulator and in other releases of
Debian.
"""

import platform
import sys
import tempfile
from pathlib import Path

import gymnasium
import numpy as np

import paceline
from paceline.config import describe

KEYWORDS = {"learning_starts": 200, "buffer_size": 1000, "num_envs": 2, "num_threads": 1, "seed": 7}
TOGETHER = 400


def train(**more):
    model = paceline.DQN("MlpPolicy", "CartPole-v1", **KEYWORDS, **more)
    return model.learn(TOGETHER)


def check(below: str | None) -> None:
    if below:
        assert Path(below).resolve() in Path(paceline.__file__).resolve().parents, paceline.__file__
    with train() as model, train() as again, tempfile.TemporaryDirectory() as folder:
        assert model.hashes() == again.hashes(), "the same seed gave another result"
        path = Path(folder, "model.paceline")
        model.save(path)
        observation, _ = gymnasium.make("CartPole-v1").reset(seed=1)
        action, _ = model.predict(observation, deterministic=True)
        with paceline.DQN.load(path) as loaded:
            assert loaded.hashes().weights == model.hashes().weights
            assert loaded.predict(observation, deterministic=True)[0] == action
        print("sha256 of the weights:", model.hashes().weights)
    # isa=portable gives results that do not depend on the processor.
    if "isa" in {setting.name for setting in describe()}:
        with train(isa="portable") as model:
            print("sha256 of the portable weights:", model.hashes().weights)
    envs = paceline.make_vec("CartPole-v1", 3)
    envs.reset(seed=1)
    rows, rewards, *_ = envs.step(np.zeros(3, np.int64))
    assert rows.shape == (3, 4) and rewards.tolist() == [1, 1, 1]
    envs.close()


if __name__ == "__main__":
    check(*(sys.argv[1:] or [None]))
    free = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else " without the GIL"
    print(f"smoke ok: Python {platform.python_version()}{free}, {platform.machine()}, {'-'.join(platform.libc_ver())}")
