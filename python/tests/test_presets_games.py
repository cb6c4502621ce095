"""Presets of publications on Atari games, whose recipes they set."""

import numpy as np
import pytest

from paceline import A2C, A3C, APPO, DQN, GA3C, PPO, PQN, Gorila, PacelineWarning
from paceline.config import Config

pytest.importorskip("ale_py", reason="the ROM of Breakout comes with ale-py")

METHODS = {"dqn": DQN, "a2c": A2C, "ppo": PPO, "pqn": PQN, "a3c": A3C, "appo": APPO, "ga3c": GA3C, "gorila": Gorila}


def of_games(method):
    """The names of the presets for any environment."""
    config = Config(method)
    names = [preset.name for preset in config.presets() if not preset.envs]
    config.close()
    return names


@pytest.mark.parametrize(("method", "name"), [(method, name) for method in METHODS for name in of_games(method)])
def test_presets_make_models_of_a_game(method, name):
    """Memory and batches are smaller, so that a model does not take seconds."""
    smaller = {"seed": 1, "num_threads": 2}
    if method in ("dqn", "gorila"):
        smaller |= {"num_envs": 4, "buffer_size": 2000, "batch_size": 8, "learning_starts": 32}
    if method == "gorila":
        smaller |= {"bundles": 4, "shards": 2}
    with METHODS[method].from_preset(name, "Breakout", **smaller) as model:
        assert model.observation_space.dtype == np.uint8
        if method == "dqn":
            model.learn(40, log_interval=None)
            assert model.num_timesteps == 40


@pytest.mark.parametrize("id", ["ALE/Breakout-v5", "BreakoutNoFrameskip-v4", "Breakout-v5"])
def test_the_preset_s_recipe_replaces_that_of_an_id(id):
    smaller = {"buffer_size": 2000, "seed": 1, "num_threads": 1}
    with DQN.from_preset("qr_dopamine", "Breakout", **smaller) as model:
        recipe, options = model.recipe, model.setting("env_options")
    with pytest.warns(PacelineWarning, match=f"^'{id}': .*'Breakout' with the recipe of preset 'qr_dopamine' replaces it: ") as warned:
        model = DQN.from_preset("qr_dopamine", id, **smaller)
    with model:
        assert (model.recipe, model.setting("env_options"), model.env_name) == (recipe, options, "Breakout")
    assert len(warned) == 1 and warned[0].filename == __file__
    with (
        pytest.warns(PacelineWarning, match="replaces it$"),
        DQN.from_preset("sb3", id, **smaller) as model,
        DQN("auto", id, **smaller) as plain,
    ):  # the preset has no recipe
        assert model.recipe == plain.recipe != recipe


def test_a_lost_life_terminates_a_transition_and_the_game_goes_on():
    with DQN.from_preset("c51_zoo", "Breakout", buffer_size=4000, learning_starts=2500, seed=1, num_threads=1) as model:
        model.learn(2504, log_interval=None)
        rows = model.replay_buffer.read(np.arange(model.replay_buffer.size()))
        lost, episodes = int(rows.dones.sum()), int(model.stats["episodes"])
        assert episodes >= 5
        # A game has five lives; that of the game in progress may have fewer.
        assert 5 * episodes <= lost <= 5 * episodes + 4
        # The observations go on: after a lost life the first one has the frames of the last one.
        k = int(np.flatnonzero(rows.dones[:-1, 0])[0])
        assert (rows.observations[k + 1][:-1] == rows.observations[k][1:]).all()
        assert rows.observations[k + 1][0].any()
