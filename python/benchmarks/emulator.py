"""Emulated frames per second of paceline and ale-py: python python/benchmarks/emulator.py

Four ways to play the same game take turns:

    ale     ale_py.ALEInterface, act(action) with a frame skip of 4
    every   paceline.atari.ALEInterface without a frame skip, each action four times: draws every frame
    2of4    paceline.atari.ALEInterface with a frame skip of 4: draws the last two of four frames
    env     make_vec, with observations of four frames of 84x84

ale and 2of4 play the same episodes frame by frame, and the report says whether their final states
are equal. every plays the same episodes except in games whose reset uses act, which lasts
frame_skip frames (Double Dunk). A rate is frames per second of processor time of the whole process
(one core), so that other programs' load does not count.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
import warnings
from typing import Any

from _command import command
from paceline import PacelineError, make_vec
from paceline.atari import ALEInterface

# The games of Mnih et al. (2015).
GAMES_49 = (
    "alien amidar assault asterix asteroids atlantis bank_heist battle_zone beam_rider bowling boxing breakout centipede "
    "chopper_command crazy_climber demon_attack double_dunk enduro fishing_derby freeway frostbite gopher gravitar hero "
    "ice_hockey jamesbond kangaroo krull kung_fu_master montezuma_revenge ms_pacman name_this_game pong private_eye qbert "
    "riverraid road_runner robotank seaquest space_invaders star_gunner tennis time_pilot tutankham up_n_down venture "
    "video_pinball wizard_of_wor zaxxon"
).split()

_WAYS = ("ale", "every", "2of4", "env")
_OURS = _WAYS[1:]

# Environments stepped in one call on one thread, so that Python's share of the time is small.
_ENVS, _SKIP = 8, 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--games", default="49", help="49 (default), all, or ids such as pong,breakout")
    parser.add_argument("--seconds", type=float, default=1.0, help="processor time of each way for each game (default 1)")
    parser.add_argument("--turns", type=int, default=5, help="turns into which that time is divided (default 5)")


def print_report(args: argparse.Namespace) -> None:
    report = measure(args.games, args.seconds, args.turns)
    print(json.dumps(report) if args.json else text(report))


def measure(games: str = "49", seconds: float = 1.0, turns: int = 5) -> dict[str, Any]:
    """The report: medians over the turns for each game, harmonic means over the games, and their ratios."""
    for name, value in (("seconds", seconds), ("turns", turns)):
        if not value > 0:
            raise PacelineError(f"{name}: {value}, must be more than 0")
    ale = _ale_py()
    chosen = _chosen(games, ale)
    rows = []
    for i, (game, path) in enumerate(chosen.items()):
        _progress(f"{i + 1}/{len(chosen)} {game}")
        rows.append(_beside_ale(_game(game, path, ale, seconds / turns, turns)))
    _progress("")
    rows.sort(key=lambda row: float(row["every_vs_ale"]))
    means = _beside_ale({way: statistics.harmonic_mean([row[way] for row in rows]) for way in _WAYS})
    label = "hmean49" if sorted(chosen) == sorted(GAMES_49) else "hmean"
    ratio: dict[str, float] = {}
    for way in _OURS:
        suffix = "vs_ale" if way == "every" else f"{way}_vs_ale"
        ratio[f"{label}_{suffix}"] = means[f"{way}_vs_ale"]
        ratio[f"worst_{suffix}"] = min(row[f"{way}_vs_ale"] for row in rows)
    return {
        "ale_py": ale.__version__, "turns": turns, "hmean": means, "best": rows[-1]["game"], "worst": rows[0]["game"],
        "unequal": [row["game"] for row in rows if not row["equal"]], "games": rows, "ratio": ratio,
    }  # fmt: skip


def _beside_ale(row: dict[str, Any]) -> dict[str, Any]:
    return row | {f"{way}_vs_ale": row[way] / row["ale"] for way in _OURS}


def text(report: dict[str, Any]) -> str:
    """The report as a table, in the order of the ratio to ale-py, the lowest first."""
    lines = [
        f"frames per second of one core, medians of {report['turns']} turns; ale: ale-py {report['ale_py']};",
        "every, 2of4: paceline drawing every frame, or two of four; env: paceline's environments with observations of 84x84",
        "",
        f"{'':<20}" + "".join(f"{way:>10}" for way in _WAYS) + "".join(f"{way + '/ale':>10}" for way in _OURS),
    ]
    for row in [*report["games"], report["hmean"] | {"game": "harmonic mean"}]:
        ratios = "".join(f"{row[f'{way}_vs_ale']:>10.2f}" for way in _OURS)
        lines.append(f"{row['game']:<20}" + "".join(f"{row[way]:>10,.0f}" for way in _WAYS) + ratios)
    lines += ["", f"worst {report['worst']}, best {report['best']}"]
    if report["unequal"]:
        lines.append(f"NOT the same frames as ale-py: {', '.join(report['unequal'])}")
    return "\n".join(lines)


def _ale_py() -> Any:
    try:
        import ale_py
    except ImportError:
        raise PacelineError("ale-py is not installed: pip install 'paceline[atari]'") from None
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py


def _chosen(games: str, ale: Any) -> dict[str, Any]:
    """The games' ids and the paths of ale-py's ROM files."""
    ids = GAMES_49 if games == "49" else sorted(ale.roms.get_all_rom_ids()) if games == "all" else games.split(",")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        paths = {game: ale.roms.get_rom_path(game) for game in ids}
    if games == "all":
        return {game: path for game, path in paths.items() if path and ALEInterface.isSupportedROM(path)}
    for game, path in paths.items():
        if path is None:
            raise PacelineError(f"games: {game!r}, must be 49, all or ids of games that ale-py has, such as pong,breakout")
    return paths


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{line:<40}" + ("" if line else "\r"), end="", file=sys.stderr, flush=True)


# ----------------------------------------------------------------- the game


def _game(game: str, path: Any, ale: Any, seconds: float, turns: int) -> dict[str, Any]:
    theirs = _Act(ale.ALEInterface, path, _SKIP)
    every, some = _Act(ALEInterface, path, 1), _Act(ALEInterface, path, _SKIP)
    acts = theirs.calibrate(seconds)
    every.calibrate(seconds, acts)
    some.calibrate(seconds, acts)
    players: dict[str, _Act | _Env] = dict(zip(_WAYS, (theirs, every, some, _Env(game, acts // _ENVS))))
    rates: dict[str, list[float]] = {name: [] for name in players}
    for turn in range(turns):
        for name in players if turn % 2 == 0 else reversed(players):
            frames, took = players[name].turn()
            rates[name].append(frames / took)
    equal = theirs.ale.getFrameNumber() == some.ale.getFrameNumber() and bool((theirs.ale.getRAM() == some.ale.getRAM()).all())
    return {"game": game, "equal": equal} | {name: statistics.median(values) for name, values in rates.items()}


class _Act:
    """Plays by ALEInterface.act of either library: random minimal actions, no sticky actions, resets at game over."""

    def __init__(self, interface: Any, path: Any, frame_skip: int) -> None:
        self.repeat = _SKIP // frame_skip
        self.ale = interface()
        self.ale.setInt("random_seed", 1)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("frame_skip", frame_skip)
        self.ale.loadROM(path)
        self.minimal = [action.value for action in self.ale.getMinimalActionSet()]
        self.random = random.Random(1)
        self.actions: list[int] = []

    def calibrate(self, seconds: float, acts: int | None = None) -> int:
        """Sets the number of actions of a turn: acts, or as many as fit. Both libraries warm up with the same actions."""
        self.actions = self.random.choices(self.minimal, k=100)
        _, took = self.turn()
        number = max(100, round(seconds / took * 100)) if acts is None else acts
        self.actions = self.random.choices(self.minimal, k=number)
        return number

    def turn(self) -> tuple[int, float]:
        """Plays a turn; returns (frames, seconds of processor time)."""
        ale, act, game_over, repeat = self.ale, self.ale.act, self.ale.game_over, self.repeat
        first, began = ale.getFrameNumber(), time.process_time()
        for action in self.actions:
            for _ in range(repeat):
                act(action)
            if game_over():
                ale.reset_game()
        return ale.getFrameNumber() - first, time.process_time() - began


class _Env:
    """Plays by make_vec's environments on one thread."""

    def __init__(self, game: str, steps: int) -> None:
        import numpy as np

        self.envs = make_vec(f"atari/{game}", _ENVS, num_threads=1, autoreset_mode="same_step")
        n = int(self.envs.single_action_space.n)
        self.actions = list(np.random.default_rng(1).integers(n, size=(max(steps, 10), _ENVS), dtype=np.int32))
        self.envs.reset(seed=1)
        for row in self.actions[:10]:
            self.envs.step(row)

    def turn(self) -> tuple[int, float]:
        step, began = self.envs.step, time.process_time()
        for row in self.actions:
            step(row)
        return len(self.actions) * _ENVS * _SKIP, time.process_time() - began


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
