"""Models that learn in pools of paceline.envpool and of EnvPool."""

import numpy as np
import pytest

from envs import SMALL, Counter
from paceline import A2C, DQN, envpool
from paceline.errors import ConfigError


def test_models_refuse_pools_with_a_batch_size(make):
    for pool in (envpool.make("CartPole-v1", "gymnasium", num_envs=4, batch_size=2), make(Counter, batch_size=2)):
        with pytest.raises(ConfigError, match="returns some of its 4 environments at a time, must return all"):
            DQN("MlpPolicy", pool)
        pool.close()


@pytest.mark.parametrize("env_type", ["gymnasium", "gym", "EnvPool's own"])
@pytest.mark.parametrize("cls", [DQN, A2C])
@pytest.mark.filterwarnings("ignore:seed. ignored, as in EnvPool:paceline.PacelineWarning")
def test_models_learn_in_pools_without_the_resets(cls, env_type):
    """The action after an episode's end is no step: its reward is 0, and that of a step is 1."""
    if env_type == "EnvPool's own":
        pool = pytest.importorskip("envpool", reason="EnvPool is not installed").make("CartPole-v1", env_type="gymnasium", num_envs=3)
    else:
        pool = envpool.make("CartPole-v1", env_type, num_envs=3)
    keywords = {**SMALL, "learning_rate": 0.0, "policy_kwargs": None} if cls is DQN else {"seed": 1}
    resets = []

    def look(locals_, globals_):
        assert locals_["rewards"].shape == (3,)
        resets.append(int((locals_["rewards"] == 0).sum()))

    with cls("MlpPolicy", pool, **keywords) as model:
        before = model.get_parameters()["policy"]
        model.learn(600, callback=look)
        episodes = model._native.episodes(100)
        assert len(episodes) > 3 and all(total == length for total, length in episodes)
        # resets after the last ends are still to come
        assert sum(resets) in range(len(episodes) - 3, len(episodes) + 1)
        assert 600 <= model.num_timesteps == 3 * len(resets) - sum(resets) and model.stats["updates"] > 30
        after = model.get_parameters()["policy"]
        assert (cls is DQN) == all(np.array_equal(before[name], after[name]) for name in before)
