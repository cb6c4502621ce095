"""DQN on Pong through ale-py's vector environment."""

import numpy as np
import pytest

from conftest import slow_but
from paceline import DQN

vector_env = pytest.importorskip("ale_py.vector_env", reason="ale-py is not installed")

from gymnasium.vector import AutoresetMode  # noqa: E402

KEYWORDS = {"buffer_size": 2000, "learning_starts": 200, "batch_size": 16, "target_update_interval": 100, "seed": 1}


@pytest.mark.parametrize("mode", slow_but((AutoresetMode.SAME_STEP,), [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]))
def test_pong_is_learnt_with_frames_stored_once(mode):
    # Episodes of at most 60 steps, so that truncations occur.
    env = vector_env.AtariVectorEnv("pong", num_envs=2, autoreset_mode=mode, max_num_frames_per_episode=240)
    with DQN("CnnPolicy", env, **KEYWORDS) as model:
        model.learn(400)
        stats = model.stats
        assert 400 <= stats["num_timesteps"] <= 401
        assert stats["updates"] == (stats["num_timesteps"] - 200) // 4
        assert stats["episodes"] >= 4 and np.isfinite(stats["loss"])
        assert stats["replay_bytes"] < 2000 * 4 * 84 * 84, "the replay memory stores each frame once, not four times"
        obs, _ = env.reset(seed=3)
        assert model.predict(obs, deterministic=True)[0].shape == (2,)
    env.close()


def test_a_run_on_pong_depends_only_on_the_seed():
    def run():
        env = vector_env.AtariVectorEnv("pong", num_envs=2)
        with DQN("CnnPolicy", env, **KEYWORDS) as model:
            hashes = model.learn(260).hashes()
        env.close()
        return hashes

    assert run() == run()
