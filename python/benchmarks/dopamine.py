"""Dopamine's agents beside its published returns: python python/benchmarks/dopamine.py

These are the runs of `paceline reproduce dopamine`, each with one thread and several at a time. The
episodes of a run are in --folder, and a run that is there is not repeated. One that was stopped goes
on if its checkpoint is still there. --log gets a line for each run, with its seconds on a core.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle, groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import _runs
from _command import command, seeds_of
from paceline import PacelineError, plots
from paceline._commands import keywords_of
from paceline._reproduce import dopamine

_FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "dopamine"


@dataclass
class Runs:
    """Runs of one length: their episodes and checkpoints are in folder/GAME_AGENT."""

    folder: Path
    steps: int
    settings: list[str]  # NAME=VALUE, which replace the presets'

    def __post_init__(self) -> None:
        self._keywords = keywords_of(self.settings)

    def of(self, game: str, agent: str) -> Path:
        return self.folder / f"{game}_{agent}"

    def episodes(self, game: str, agent: str, seed: int) -> tuple[list[dopamine.Episode], bool]:
        """The episodes so far, and whether the run is done."""
        return dopamine.files_of(game, agent, seed, self.steps, self.of(game, agent), self._keywords).read()

    def train(self, game: str, agent: str, seed: int) -> dict[str, Any]:
        """Trains to the end, on one thread."""
        folder = self.of(game, agent)
        folder.mkdir(parents=True, exist_ok=True)
        begun = len(self.episodes(game, agent, seed)[0])
        episodes = dopamine.train(game, agent, seed, self.steps, folder, 50_000, {"num_threads": 1, **self._keywords})
        cpu = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "game": game, "agent": agent, "seed": seed, "steps": self.steps, "episodes": len(episodes),
            "mean": fmean(e.total for e in episodes) if episodes else None,
            "continued": begun > 0, "cpu_seconds": round(cpu.ru_utime + cpu.ru_stime, 2),
        }  # fmt: skip

    def start(self, game: str, agent: str, seed: int, core: int) -> str:
        """The line of a run that another process trains on one core."""
        settings = (f"--set={each}" for each in self.settings)
        words = ["--folder", str(self.folder), "--steps", str(self.steps), *settings, "--one", game, agent, str(seed)]
        return _runs.one(Path(__file__), words, core, f"{agent} on {game}, seed {seed}")


def summary(runs: Runs, games: list[str], agents: list[str], seeds: list[int]) -> list[dict[str, Any]]:
    """One entry for each game, agent and iteration that has runs that are done."""
    out = []
    for game in games:
        for agent in agents:
            ended = {}
            for seed in seeds:
                episodes, done = runs.episodes(game, agent, seed)
                if done:
                    ended[seed] = episodes
            for line in dopamine.compare(ended, runs.steps, dopamine.published(game, agent)) if ended else []:
                of = line.published
                if math.isnan(line.mean):
                    continue  # no episode has ended
                deviations = (line.mean - of.mean) / of.sd if of and of.sd else None
                out.append({
                    "game": game, "agent": agent, "iteration": line.iteration, "steps": line.steps, "seeds": [*ended], "means": line.means,
                    "mean": line.mean, "sd": None if math.isnan(line.sd) else line.sd, "published": of and of.mean,
                    "published_sd": of and of.sd, "deviations": deviations,
                })  # fmt: skip
    return out


def text(entries: list[dict[str, Any]]) -> str:
    lines = [f"{'':<22}{'iteration':>10}{'mean':>9}{'published':>11}{'s.d.':>7}{'deviations':>12}   seeds"]
    for e in entries:
        numbers = [f"{e[name]:.1f}" if e[name] is not None else "-" for name in ("published", "published_sd", "deviations")]
        lines.append(
            f"{e['game'] + ', ' + e['agent']:<22}{e['iteration']:>10}{e['mean']:>9.2f}{numbers[0]:>11}{numbers[1]:>7}{numbers[2]:>12}"
            f"   {', '.join(f'{mean:.2f}' for mean in e['means'])}"
        )
    return "\n".join(lines)


def draw(path: Path, runs: Runs, games: list[str], agents: list[str], seeds: list[int]) -> None:
    """Draws for each seed the mean of the returns so far of an iteration, over the frames, beside the published means."""
    columns = min(3, len(games))
    rows = -(-len(games) // columns)
    figure = plots._figure(1.5 + 4.5 * columns, 4 * rows)
    for n, game in enumerate(games):
        ax = figure.add_subplot(rows, columns, n + 1)
        for color, agent in zip(cycle((plots.BLUE, plots.ORANGE, plots.GREEN, plots.DARK)), agents):
            ended = [run for seed in seeds if (run := runs.episodes(game, agent, seed))[1]]
            for k, (episodes, _) in enumerate(ended):
                frames, means = _so_far(episodes)
                ax.plot(frames, means, color=color, linewidth=1, label=None if k else f"{agent}, a line for each seed")
            numbers = {i: of for i, of in dopamine.published(game, agent).items() if ended and i * dopamine.STEPS <= runs.steps}
            for k, (i, of) in enumerate(numbers.items()):
                label = None if k else f"{agent}, published"
                at = i * dopamine.FRAMES / 1e6
                ax.errorbar([at], [of.mean], [of.sd], color=color, fmt="s", mfc="none", capsize=5, label=label)
        ax.set(title=game, xlabel="millions of frames", ylabel="mean training return so far")
        ax.legend(frameon=False)
    plots._save(path, figure)


def _so_far(episodes: list[dopamine.Episode]) -> tuple[list[float], list[float]]:
    """Millions of frames, and the mean of the returns so far of the iteration: NaN, a gap of the line, for its first 20 episodes."""
    frames, means = [], []
    for _, part in groupby(episodes, lambda episode: (episode.step - 1) // dopamine.STEPS):
        total = 0.0
        for n, episode in enumerate(part, 1):
            total += episode.total
            frames.append(dopamine.SKIP * episode.step / 1e6)
            means.append(total / n if n > 20 else math.nan)
    return frames, means


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=_FOLDER, help="episodes and checkpoints (default docs/benchmarks/dopamine)")
    parser.add_argument("--log", type=Path, help="file (default FOLDER/runs.jsonl)")
    parser.add_argument("--games", default="Breakout,Assault")
    parser.add_argument("--agents", default="dqn,qr", help="default dqn,qr")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=dopamine.STEPS, help=f"steps of a run (default {dopamine.STEPS})")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a keyword of DQN that replaces the preset's")
    parser.add_argument("--plot", type=Path, help="a file for the figure: .png, .svg, .pdf ... (needs matplotlib)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run later than this; 0: none")
    parser.add_argument("--one", nargs=3, metavar=("GAME", "AGENT", "SEED"), help=argparse.SUPPRESS)


def print_report(args: argparse.Namespace) -> None:
    if args.steps < 1:
        raise PacelineError(f"--steps: {args.steps}, must be at least 1")
    runs = Runs(args.folder, args.steps, args.set)
    if args.one:
        game, agent, seed = args.one
        print(json.dumps(runs.train(game, agent, int(seed))))
        return
    games, agents, seeds = args.games.split(","), args.agents.split(","), seeds_of(args.seeds)
    for agent in agents:
        if agent not in dopamine.agents():
            raise PacelineError(f"--agents: {agent!r}, must be of {', '.join(dopamine.agents())}")
    log = args.log or args.folder / "runs.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    jobs: list[Callable[[int], str]] = [
        partial(runs.start, game, agent, seed)
        for game in games
        for seed in seeds
        for agent in agents
        if not runs.episodes(game, agent, seed)[1]
    ]
    _runs.fill(log, jobs, args.minutes)
    if args.plot:
        draw(args.plot, runs, games, agents, seeds)
    entries = summary(runs, games, agents, seeds)
    print(json.dumps({"entries": entries}) if args.json else text(entries))


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
