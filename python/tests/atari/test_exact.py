"""The short comparisons with ale-py. long.py has the long ones."""

import numpy as np
import pytest

import consoles
from cartridges import cartridge, palette
from conftest import slow_but
from duel import compare, compare_restored, legal, observations

pytest.importorskip("paceline.atari", reason="paceline.atari is not there")

pytest.importorskip("ale_py", reason="ale-py is not installed: nothing was compared with it")


@pytest.fixture(scope="session")
def theirs():
    return consoles.theirs()


@pytest.fixture(scope="session")
def roms():
    return consoles.roms()


@pytest.fixture(scope="session")
def ours():
    return consoles.ours()


@pytest.mark.parametrize("game", slow_but(consoles.NINE, consoles.PAPER49))
def test_games_equal_ale_py(ours, theirs, roms, game):
    assert compare(ours, theirs, roms[game], 300, hold=3).difference is None


@pytest.mark.parametrize("seed", slow_but(range(15), range(60)))
def test_generated_cartridges_equal_ale_py(ours, theirs, tmp_path, seed):
    program = cartridge(seed)
    found = compare(ours, theirs, consoles.put(tmp_path, program), 8).difference
    assert found is None, f"{program.kind}: {found}"


@pytest.mark.parametrize("game", ["pong", "breakout", "seaquest", "montezuma_revenge"])
def test_sticky_actions_and_frame_skip_equal_ale_py(ours, theirs, roms, game):
    settings = {"repeat_action_probability": 0.25, "frame_skip": 4, "max_num_frames_per_episode": 1003}
    result = compare(ours, theirs, roms[game], 400, settings=settings, choices=legal)
    assert result.difference is None
    assert result.episodes >= 1, "the frame limit ends episodes"


@pytest.mark.parametrize("game", ["breakout", "boxing", "space_invaders", "pacman"])
def test_modes_and_difficulties_equal_ale_py(ours, theirs, roms, game):
    def last(console):
        console.setMode(console.getAvailableModes()[-1])
        console.setDifficulty(console.getAvailableDifficulties()[-1])
        console.reset_game()

    assert compare(ours, theirs, roms[game], 100, setup=last, choices=legal).difference is None


@pytest.mark.parametrize("game", ["pong", "road_runner", "klax", "pitfall2"])
def test_a_state_restored_in_another_machine_continues_the_same(ours, theirs, roms, game):
    assert compare_restored(ours, theirs, roms[game], 100).difference is None


# ale-py averages lost PAL colours from uninitialised memory, so 301 lines are not averaged.
@pytest.mark.parametrize(
    "lines, averaging",
    [(262, False), (263, False), (300, False), (301, False), (262, True), (263, True), (300, True)],
)
def test_all_colours_equal_ale_py(ours, theirs, tmp_path, lines, averaging):
    path = consoles.put(tmp_path, palette(lines))
    settings = {"color_averaging": averaging}
    assert compare(ours, theirs, path, 4, settings=settings, colours=1).difference is None


# Observations, compared with ale-py's vector environment.
@pytest.mark.parametrize("game", slow_but(["pong", "tennis"], [*consoles.PAPER49[::5], "pong", "tennis"]))
def test_observations_equal_vector_env(ours, roms, game):
    made = pytest.importorskip("ale_py.vector_env", reason="this ale-py has no vector environment")
    env = made.AtariVectorEnv(game, 1, noop_max=0, use_fire_reset=False, stack_num=1)
    differences = observations(env, ours(roms[game], {"repeat_action_probability": 0.0, "frame_skip": 4}), 150)
    assert max(map(np.max, differences)) <= 1
    assert np.mean(differences) < 0.05


@pytest.mark.parametrize("game", ["pong", "asteroids", "crazy_climber"])
def test_colour_averaging_equals_ale_py(ours, theirs, roms, game):
    settings = {"color_averaging": True}
    assert compare(ours, theirs, roms[game], 60, settings=settings, colours=1).difference is None
