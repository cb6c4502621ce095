"""The generated cartridges without ale-py: they play the same again and from a saved state."""

import pytest

import consoles
from asm import Random
from cartridges import cartridge, wild

pytest.importorskip("paceline.atari", reason="paceline.atari is not there")


@pytest.mark.parametrize("make", [cartridge, wild])
@pytest.mark.parametrize("seed", range(60))
def test_a_cartridge_plays_the_same_again_and_from_a_saved_state(tmp_path, make, seed):
    ours = consoles.ours()
    path = consoles.put(tmp_path, make(seed))
    settings = {"random_seed": seed, "repeat_action_probability": 0.0}

    def play(console, first, last):
        seen = []
        for act in range(first, last):
            if console.game_over():
                console.reset_game()
            reward = console.act(Random(act).below(18))
            seen.append((reward, console.lives(), console.getRAM().tobytes(), console.getScreen().tobytes()))
        return seen

    one, two, three = (ours(path, settings) for _ in range(3))
    start = play(one, 0, 6)
    assert play(two, 0, 6) == start
    three.restoreSystemState(one.cloneSystemState())
    rest = play(one, 6, 12)
    assert play(two, 6, 12) == rest
    assert play(three, 6, 12) == rest
