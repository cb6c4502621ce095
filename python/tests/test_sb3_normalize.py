"""normalize_obs and normalize_reward beside stable-baselines3's VecNormalize, where it is installed."""

import copy
import json
import zipfile

import gymnasium
import numpy as np
import pytest

from paceline import A2C, PPO

pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")


def _recorded(envs, log):
    """A wrapper that logs what reset and step return."""
    from stable_baselines3.common.vec_env import VecEnvWrapper

    class Recorded(VecEnvWrapper):
        def reset(self):
            log.append(self.venv.reset().copy())
            return log[-1].copy()

        def step_wait(self):
            log.append(copy.deepcopy(self.venv.step_wait()))
            return copy.deepcopy(log[-1])

    return Recorded(envs)


def _played(envs, log):
    """A wrapper that returns what was logged, and steps nothing."""
    from stable_baselines3.common.vec_env import VecEnvWrapper

    class Played(VecEnvWrapper):
        def reset(self):
            return log.pop(0)

        def step_async(self, actions):
            pass

        def step_wait(self):
            return log.pop(0)

    return Played(envs)


@pytest.mark.parametrize("cls", [A2C, PPO])
def test_statistics_are_those_of_vec_normalize(cls, tmp_path):
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    envs, log = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")] * 4), []
    keywords = {"normalize_obs": True, "normalize_reward": True, "gamma": 0.97}
    with cls("MlpPolicy", _recorded(envs, log), n_steps=32, seed=1, **keywords) as model:
        model.learn(1024)
        model.save(tmp_path / "run.paceline")
    with zipfile.ZipFile(tmp_path / "run.paceline") as file:
        ours = json.loads(file.read("normalizer.json"))
    assert len(log) == 257
    theirs = VecNormalize(_played(envs, log), gamma=0.97)
    theirs.reset()
    while log:
        theirs.step(None)
    for name, rms in (("obs", theirs.obs_rms), ("returns", theirs.ret_rms)):
        np.testing.assert_allclose(ours[name]["mean"], np.atleast_1d(rms.mean), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ours[name]["var"], np.atleast_1d(rms.var), rtol=1e-5)
        np.testing.assert_allclose(ours[name]["count"], rms.count, rtol=1e-12)
