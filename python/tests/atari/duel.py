"""Two consoles in lockstep: `compare` plays the same actions on both and names the first difference.

After every act it compares reward, game over, truncation, lives, both frame numbers, the
RAM and the image. Every `colours` acts it also compares the grey and the RGB image.
"""

import ctypes
import pickle
from collections import namedtuple

import numpy as np

from asm import Random

NUMBERS = ("game_over", "game_truncated", "lives", "getEpisodeFrameNumber", "getFrameNumber")
LISTS = ("getScreenDims", "getAvailableModes", "getAvailableDifficulties", "getMinimalActionSet", "getLegalActionSet")

Result = namedtuple("Result", "frames episodes difference")


class Difference(Exception):
    """The first difference between the two sides."""


def random_actions(choices, seed, hold=1):
    """Yields random actions without end, each for `hold` acts."""
    rng = Random(seed)
    while True:
        action = rng.choice(choices)
        for _ in range(hold):
            yield action


def minimal(console):
    return [action.value for action in console.getMinimalActionSet()]


def legal(console):
    return [action.value for action in console.getLegalActionSet()]


class Image:
    """A buffer for one console's RAM or image, compared as plain bytes."""

    def __init__(self, shape):
        self.data = bytearray(int(np.prod(shape)))
        self.array = np.frombuffer(self.data, np.uint8).reshape(shape)


class Duel:
    """Two consoles with the same cartridge. Every method raises Difference if they differ."""

    def __init__(self, colours=50):
        self.colours = colours
        self.acts = self.episodes = 0

    def meet(self, ours, theirs, what):
        """Sets the two consoles and compares all their results."""
        self.pair, self.what = (ours, theirs), what
        for name in LISTS:
            a, b = (self.listed(getattr(console, name)()) for console in self.pair)
            self.same(name, a, b)
        shape = tuple(ours.getScreenDims())
        self.ram = [Image(128) for _ in self.pair]
        self.screen = [Image(shape) for _ in self.pair]
        self.grey = [Image(shape) for _ in self.pair]
        self.rgb = [Image((*shape, 3)) for _ in self.pair]
        self.read = [tuple(getattr(console, name) for name in NUMBERS) for console in self.pair]
        self.look()
        self.look_colours()

    def play(self, actions, count):
        for _ in range(count):
            if self.pair[0].game_over():
                self.reset()
            self.act(next(actions))

    @staticmethod
    def listed(values):
        return [getattr(value, "value", value) for value in values]

    def same(self, name, ours, theirs):
        if ours != theirs:
            raise Difference(f"{self.what}: {name}: ours {ours}, theirs {theirs}")

    def act(self, action, strength=1.0):
        self.acts += 1
        self.what = f"act {self.acts} (action {action})"
        a, b = (console.act(action, strength) for console in self.pair)
        self.same("reward", a, b)
        self.look()
        if self.acts % self.colours == 0:
            self.look_colours()

    def reset(self):
        self.episodes += 1
        self.what = f"reset {self.episodes} after act {self.acts}"
        for console in self.pair:
            console.reset_game()
        self.look()

    def look(self):
        # RAM comes first, because a wrong byte of RAM explains wrong lives and images.
        a, b = self.ram
        for console, to in zip(self.pair, self.ram):
            console.getRAM(to.array)
        if a.data != b.data:
            self.differ("RAM", a.array, b.array, lambda i: f"${0x80 + i[0]:02X}")
        for name, mine, other in zip(NUMBERS, *self.read):
            one, two = mine(), other()
            if one != two:
                self.same(name, one, two)
        a, b = self.screen
        for console, to in zip(self.pair, self.screen):
            console.getScreen(to.array)
        if a.data != b.data:
            self.differ("image", a.array, b.array, self.place)

    def look_colours(self):
        for name, images, method in (
            ("grey image", self.grey, "getScreenGrayscale"),
            ("RGB image", self.rgb, "getScreenRGB"),
        ):
            for console, to in zip(self.pair, images):
                getattr(console, method)(to.array)
            if images[0].data != images[1].data:
                self.differ(name, images[0].array, images[1].array, self.place)

    @staticmethod
    def place(index):
        row, column, *channel = index
        return f"row {row} column {column}" + "".join(f" channel {c}" for c in channel)

    def differ(self, name, ours, theirs, place):
        where = np.argwhere(ours != theirs)
        first = tuple(int(i) for i in where[0])
        text = f"{name} {place(first)}: ours {ours[first]:02X}, theirs {theirs[first]:02X}"
        if len(where) > 1:
            last = tuple(int(i) for i in where[-1])
            text += f"; {len(where)} of {ours.size} differ, up to {place(last)}"
        raise Difference(f"{self.what}: {text}")


def compare(ours, theirs, path, frames, seed=1, settings=None, choices=minimal, hold=1, setup=None, colours=50):
    """Plays `frames` acts of random actions on both sides, with a reset after each game over.

    choices returns the actions to draw from (minimal or legal). setup prepares each console
    before play, for example with a mode. Returns a Result; its difference is None or the
    text of the first difference.
    """
    settings = {"random_seed": seed, "repeat_action_probability": 0.0, **(settings or {})}

    def play(duel):
        actions = random_actions(choices(duel.pair[1]), seed, hold)
        duel.play(actions, frames)

    return run_duel(ours, theirs, path, settings, play, setup, colours)


def compare_restored(ours, theirs, path, frames, seed=1, before=600):
    """Saves our side after up to `before` acts and restores it in another machine.

    The comparison continues there. The state is pickled, and the other machine has played different
    acts before.
    """
    settings = {"random_seed": seed, "repeat_action_probability": 0.0}

    def play(duel):
        rng, choices = Random(seed), minimal(duel.pair[1])
        actions = random_actions(choices, seed, 3)
        duel.play(actions, rng.between(1, before))
        state = pickle.loads(pickle.dumps(duel.pair[0].cloneSystemState()))
        fresh = ours(path, {**settings, "random_seed": seed + 1})
        for _ in range(rng.below(100)):
            fresh.act(rng.choice(choices))
        fresh.restoreSystemState(state)
        duel.meet(fresh, duel.pair[1], f"after act {duel.acts}, restored in another machine")
        duel.play(actions, frames)

    return run_duel(ours, theirs, path, settings, play)


def run_duel(ours, theirs, path, settings, play, setup=None, colours=50):
    """Loads both sides and plays. An exception counts as a difference."""
    duel = Duel(colours)
    try:
        pair = [ours(path, settings), theirs(path, settings)]
        if setup:
            for console in pair:
                setup(console)
        duel.meet(*pair, "after loading")
        play(duel)
    except Difference as difference:
        return Result(duel.acts, duel.episodes, str(difference))
    except Exception as error:
        return Result(duel.acts, duel.episodes, f"after act {duel.acts}: {type(error).__name__}: {error}")
    return Result(duel.acts, duel.episodes, None)


def observations(env, console, acts, seed=1):
    """Returns the differences of the observations of AtariVectorEnv and of our console."""
    from paceline import _lib

    screen, observed = _lib.lib().paceline_console_screen, Image((84, 84))
    pointer = (ctypes.c_uint8 * observed.array.size).from_buffer(observed.data)
    choices, differences = minimal(console), []
    env.reset(seed=seed)
    console.reset_game()
    for _, index in zip(range(acts), random_actions(range(len(choices)), seed)):
        theirs, _, terminated, truncated, _ = env.step(np.array([index]))
        if terminated[0] or truncated[0]:  # ale-py's frame of an act that was cut short is not of the last two images
            break
        console.act(choices[index])
        screen(pointer, observed.array.size, console._console(), 3)
        differences.append(np.abs(observed.array.astype(int) - theirs[0, -1]))
    return differences
