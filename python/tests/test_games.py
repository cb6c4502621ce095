"""Recipes in which a lost life ends the episode: which resets start a new game, in vectors and
alone.
"""

import importlib.util

import gymnasium
import numpy as np
import pytest

from paceline import make_vec
from paceline.errors import PacelineError

MODES = ("next_step", "same_step", "disabled")
ALL = {"options": {"reset_mask": np.ones(2, bool)}}


@pytest.fixture(autouse=True)
def rom():
    try:
        make_vec("Breakout").close()
    except PacelineError as err:
        pytest.skip(f"no ROM: {err}")


def until_a_life_is_lost(envs):
    """Plays until both environments have lost a life at the same step, and returns the lives."""
    for _ in range(400):
        *_, terminated, _, infos = envs.step(np.ones(2, np.int64))
        if terminated.all():
            return infos["lives"].tolist()


@pytest.mark.parametrize("recipe", ["ale", "mnih2015", "sb3", "stooke_abbeel"])
@pytest.mark.parametrize("mode", MODES)
def test_a_reset_starts_a_game_in_every_mode(mode, recipe):
    envs = make_vec("Breakout", 2, autoreset_mode=mode, recipe=recipe, episodic_life=True, noop_min=2, noop_max=2)
    envs.reset(seed=1)
    on = 4 if mode == "disabled" else 5
    for keywords, begun in (({}, 5), ({"seed": 3}, 5), ({"seed": [3, None]}, 5), (ALL, on), (ALL | {"seed": 3}, 5)):
        assert until_a_life_is_lost(envs) == [4, 4]
        assert envs.reset(**keywords)[1]["lives"].tolist() == [begun] * 2, keywords
        if begun < 5:
            assert envs.reset(**keywords)[1]["lives"].tolist() == [5] * 2  # inside a life
    envs.close()


@pytest.mark.parametrize("mode", MODES)
def test_an_asynchronous_reset_starts_a_game(mode):
    envs = make_vec("Breakout", 2, autoreset_mode=mode, episodic_life=True, noop_min=2, noop_max=2)
    envs.reset(seed=1)
    for keywords, begun in (({}, 5), ({"seed": [3, None]}, 5), (ALL, 4 if mode == "disabled" else 5)):
        assert until_a_life_is_lost(envs) == [4, 4]
        envs.async_reset(**keywords)
        assert envs.recv()[4]["lives"].tolist() == [begun] * 2, keywords
    envs.close()


def test_a_single_environment_continues_after_a_lost_life():
    env = gymnasium.make("paceline/Breakout-v0", episodic_life=True)
    env.reset(seed=1)
    for seed, begun in ((None, 4), (2, 5)):
        terminated = False
        while not terminated:
            *_, terminated, _, info = env.step(1)
        assert env.reset(seed=seed)[1]["lives"] == begun
        assert env.reset()[1]["lives"] == 5  # inside an episode
        env.reset(seed=1)
    env.close()


@pytest.mark.skipif(not importlib.util.find_spec("stable_baselines3"), reason="stable-baselines3 is not installed")
def test_reset_of_the_sb3_vec_env_starts_a_game():
    from paceline.sb3 import VecEnv

    envs = VecEnv("Breakout", 2, seed=1, recipe="sb3")
    envs.reset()
    while not envs.step(np.ones(2, np.int64))[2].all():
        pass
    envs.reset()
    assert [info["lives"] for info in envs.reset_infos] == [5, 5]
    envs.close()
