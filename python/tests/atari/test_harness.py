"""Tests of the test tools: the generator, the assembler, and the differences that a duel finds."""

import zlib

import numpy as np
import pytest

import cartridges
import consoles
from asm import JAMS, Program, Random, addressing
from cartridges import FRAME, Cart, Cartridge, cartridge
from duel import compare, compare_restored

pytest.importorskip("paceline.atari", reason="paceline.atari is not there")


def test_random_is_splitmix64():
    # The first values for seed 0 by the generator's author.
    rng = Random(0)
    assert [rng.next() for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert all(0 <= Random(seed).below(7) < 7 for seed in range(100))


def test_known_opcodes_have_their_addressing_mode():
    known = {
        0xEA: "implied", 0xA9: "imm", 0xA2: "imm", 0x80: "imm", 0xA5: "zp", 0xB5: "zp,x", 0xB6: "zp,y", 0xAD: "abs",
        0xBD: "abs,x", 0xB9: "abs,y", 0xBE: "abs,y", 0xBC: "abs,x", 0xA1: "ind,x", 0xB1: "ind,y", 0x4C: "jmp",
        0x6C: "jmp", 0x20: "jsr", 0x00: "brk", 0xD0: "branch", 0x0A: "implied", 0x9F: "abs,y", 0x8B: "imm",
    }  # fmt: skip
    assert {opcode: addressing(opcode) for opcode in known} == known


def test_images_do_not_change():
    """The images depend only on the seed; results of other tests depend on the images."""
    total = 0
    for seed in range(120):
        program = cartridge(seed)
        assert len(program.image) == 4096
        assert program == cartridge(seed)
        total = zlib.crc32(program.image, total)
    assert f"{total:08x}" == "348bcb69"
    assert len({cartridge(seed).kind for seed in range(120)}) == 21


def test_wild_images_jam_only_in_every_fifth_image():
    assert not set(cartridges.wild(1).image[:4090]) & set(JAMS)
    assert set(cartridges.wild(5).image[:4090]) & set(JAMS)


def timed(cycles, pad):
    """Measures delay(cycles) with the timer. pad moves the code within its page."""
    cart = Cart(Random(1), "tetris")
    cart.frame(10).emit(*[0xEA] * pad)
    # A store and a read happen in their last cycle: the delay and the read's 4 cycles separate
    # them.
    cart.set(0x0294, 250).delay(cycles).read(0x0284).sta(0xD0)
    return cart.wsync(100).jmp("frame").image(Random(1))


@pytest.mark.parametrize("cycles", [0, *range(2, 120), 180, 200])
def test_delays_are_exact(tmp_path, cycles):
    for pad in (0, 170 + cycles % 60):
        console = consoles.ours()(consoles.put(tmp_path, Cartridge(cycles, "timed", "tetris", timed(cycles, pad))), {})
        console.act(0)
        assert console.getRAM()[0xD0 - 0x80] == 250 - (cycles + 4), pad


class Broken:
    """A console that returns wrong results from an act on."""

    def __init__(self, console, method, change, first):
        self.console, self.method, self.change, self.first = console, method, change, first
        self.acts = 0

    def __getattr__(self, name):
        real = getattr(self.console, name)
        if name != self.method:
            return real

        def wrong(*arguments):
            answer = real(*arguments)
            if self.acts < self.first:
                return answer
            return self.change(arguments[0] if arguments and isinstance(arguments[0], np.ndarray) else answer)

        return wrong

    def act(self, action, strength):
        reward = self.console.act(action, strength)
        self.acts += 1
        return self.change(reward) if self.method == "act" and self.acts >= self.first else reward


def poke(*index):
    def change(array):
        array[index] ^= 0x10

    return change


WRONGS = {
    "RAM": ("getRAM", poke(0x43), "act 5 (action {}): RAM $C3: ours {}, theirs {}"),
    "image": ("getScreen", poke(45, 12), "act 5 (action {}): image row 45 column 12: ours {}, theirs {}"),
    "rows": ("getScreen", poke(slice(7, 9)), "act 5 (action {}): image row 7 column 0: ours {}, theirs {}; "
             "320 of 33600 differ, up to row 8 column 159"),
    "grey": ("getScreenGrayscale", poke(0, 3), "act 6 (action {}): grey image row 0 column 3: ours {}, theirs {}"),
    "rgb": ("getScreenRGB", poke(0, 3, 2), "act 6 (action {}): RGB image row 0 column 3 channel 2: ours {}"),
    "reward": ("act", lambda reward: reward + 1, "act 5 (action {}): reward: ours 1, theirs 0"),
    "lives": ("lives", lambda lives: lives + 1, "act 5 (action {}): lives: ours 1, theirs 0"),
    "over": ("game_over", lambda over: True, "act 5 (action {}): game_over: ours True, theirs False"),
    "frame": ("getFrameNumber", lambda n: n + 1, "act 5 (action {}): getFrameNumber: ours 6, theirs 5"),
    "episode": ("getEpisodeFrameNumber", lambda n: 0, "act 5 (action {}): getEpisodeFrameNumber: ours 0, theirs 5"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONGS)
def test_a_duel_names_the_first_difference(tmp_path, wrong):
    method, change, text = WRONGS[wrong]
    load = consoles.ours()
    path = consoles.put(tmp_path, cartridge(0))

    def broken(path, settings):
        return Broken(load(path, settings), method, change, 5)

    assert compare(load, load, path, 20, colours=3) == (20, 0, None)
    result = compare(broken, load, path, 20, colours=3)
    parts = text.split("{}")
    assert result.difference and result.difference.startswith(parts[0]), result.difference
    assert all(part in result.difference for part in parts), result.difference


def test_a_duel_detects_an_incomplete_restore(tmp_path):
    """A restored state with one wrong byte of RAM is detected."""
    load = consoles.ours()
    path = consoles.put(tmp_path, cartridge(0))

    class Forgetful:
        def __init__(self, console):
            self.console = console

        def __getattr__(self, name):
            return getattr(self.console, name)

        def restoreSystemState(self, state):
            self.console.restoreSystemState(state)
            self.console.setRAM(0x7F - 0x10, self.console.getRAM()[0x7F - 0x10] ^ 1)

    def forgetful(path, settings):
        return Forgetful(load(path, settings))

    assert compare_restored(load, load, path, 20, before=10).difference is None
    assert "restored in another machine: RAM $EF" in compare_restored(forgetful, load, path, 20, before=10).difference


def test_errors_count_as_differences(tmp_path):
    load = consoles.ours()
    missing = compare(load, load, tmp_path / "nothing.bin", 5).difference
    assert missing.startswith("after act 0: ") and "nothing.bin" in missing


def test_every_frame_counts_up(tmp_path):
    """The fixed part of the program works: its counter increases by one a frame in most images."""
    load = consoles.ours()
    counted = 0
    for seed in range(0, 60, 3):
        console = load(consoles.put(tmp_path, cartridge(seed)), {})
        console.act(0)
        first = int(console.getRAM()[FRAME - 0x80])
        console.act(0)
        counted += (int(console.getRAM()[FRAME - 0x80]) - first) % 256 == 1
    assert counted >= 5
    assert Program().free() == 4090
