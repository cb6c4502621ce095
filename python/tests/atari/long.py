"""The long comparisons with ale-py, run by `make test-atari`:

    python python/tests/atari/long.py [runs] [--games pong breakout] [--frames N] [--seed S] [--shard 1/2]

Without names all runs are made. Each run prints its differences and one line with its
totals. The exit status is 1 if there is any difference. The runs and their parts:

    sticky     104 games    6,000 acts, sticky actions 0.25, resets at game over
    paper      49 games     12,000 acts without sticky actions
    modes      104 games    3 random modes and difficulties, 60 acts each with all 18 actions
    generated  500 generated cartridges    8 acts
    skip       104 games    300 acts of 4 frames, sticky 0.25, grey and RGB images included
    save       104 games    saved after up to 600 acts, 200 more acts in another machine
    colours    4 palette cartridges and 104 games    60 acts with and without colour averaging, every image
"""

import argparse
import os
import sys
import tempfile
import time

import consoles
from asm import Random
from cartridges import cartridge, palette
from duel import compare, compare_restored, legal

STICKY = {"repeat_action_probability": 0.25}


class Options(argparse.Namespace):
    def shard_of(self, items):
        return list(items)[self.shard[0] :: self.shard[1]]

    def chosen(self, names):
        return self.shard_of(name for name in names if not self.games or name in self.games)


def sticky(sides, roms, options):
    for game in options.chosen(roms):
        yield game, compare(*sides, roms[game], options.frames or 6000, options.seed, STICKY)


def paper(sides, roms, options):
    for game in options.chosen(consoles.PAPER49):
        yield game, compare(*sides, roms[game], options.frames or 12000, options.seed)


def modes(sides, roms, options):
    for game in options.chosen(roms):
        rng = Random(options.seed)
        for turn in range(3):
            draw = rng.next() >> 16, rng.next() >> 16

            def choose(console, draw=draw):
                available, difficulties = console.getAvailableModes(), console.getAvailableDifficulties()
                console.setMode(available[draw[0] % len(available)])
                console.setDifficulty(difficulties[draw[1] % len(difficulties)])
                console.reset_game()

            result = compare(*sides, roms[game], options.frames or 60, options.seed + turn, STICKY, choices=legal, setup=choose)
            yield f"{game}, turn {turn + 1}", result


def generated(sides, roms, options):
    first = (options.seed - 1) * options.cartridges
    with tempfile.TemporaryDirectory() as folder:
        for number in options.shard_of(range(first, first + options.cartridges)):
            program = cartridge(number)
            path = consoles.put(folder, program)
            yield f"cartridge {number} ({program.kind})", compare(*sides, path, options.frames or 8, number)


def skip(sides, roms, options):
    settings = {**STICKY, "frame_skip": 4}
    for game in options.chosen(roms):
        yield game, compare(*sides, roms[game], options.frames or 300, options.seed, settings, colours=10)


def save(sides, roms, options):
    for game in options.chosen(roms):
        yield game, compare_restored(*sides, roms[game], options.frames or 200, options.seed)


def colours(sides, roms, options):
    for averaging in (False, True):
        settings = {"color_averaging": averaging}
        with tempfile.TemporaryDirectory() as folder:
            for lines in options.shard_of((262, 263, 300) if averaging else (262, 263, 300, 301)):
                path = consoles.put(folder, palette(lines))
                yield f"palette, {lines} lines, averaging {averaging}", compare(*sides, path, 6, settings=settings, colours=1)
        # ale-py's averages of colours that PAL loses come from uninitialised memory.
        for game in options.chosen(name for name in roms if not (averaging and name in consoles.PAL)):
            result = compare(*sides, roms[game], options.frames or 60, options.seed, settings, colours=1)
            yield f"{game}, averaging {averaging}", result


RUNS = {run.__name__: run for run in (sticky, paper, modes, generated, skip, save, colours)}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", help="; ".join(RUNS))
    parser.add_argument("--games", nargs="+", default=[], help="play only these games")
    parser.add_argument("--frames", type=int, help="acts of each part, instead of the run's default")
    parser.add_argument("--cartridges", type=int, default=500, help="number in run generated; seed S selects the S-th block")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", default="1/1", help="i/n: the i-th of n parts, for n processes")
    options = parser.parse_args(arguments, Options())
    unknown = [f"runs: {name!r}, must be among {', '.join(RUNS)}" for name in options.runs if name not in RUNS]
    part, _, parts = options.shard.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        unknown.append(f"--shard: {options.shard!r}, must be i/n with i from 1 to n")
    else:
        options.shard = int(part) - 1, int(parts)
    try:
        sides = consoles.ours(), consoles.theirs()
        roms = consoles.roms()
    except ImportError as error:
        parser.exit(2, f"both consoles are needed: {error}\n")
    unknown += [f"--games: {name!r} is not among ale-py's games" for name in options.games if name not in roms]
    if unknown:
        parser.exit(2, "\n".join(unknown) + "\n")

    silence_stderr()
    print(f"seed {options.seed}, part {part} of {parts}", flush=True)
    failed = 0
    for name in options.runs or RUNS:
        began = time.monotonic()
        done = acts = resets = differences = 0
        for what, result in RUNS[name](sides, roms, options):
            done += 1
            acts += result.frames
            resets += result.episodes
            if result.difference:
                differences += 1
                print(f"  {name} {what}: {result.difference}", flush=True)
        print(
            f"{name}: {done} played, {acts:,} acts, {resets:,} resets, {differences} with differences, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        failed += differences
    return 1 if failed else 0


def silence_stderr():
    """Silences ale-py, which writes to standard error in every logger mode. Python keeps its stream."""
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
