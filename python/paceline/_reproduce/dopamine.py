"""`paceline reproduce dopamine`: Dopamine's agents on its protocol, beside its published returns.

The protocol is the recipe "dopamine": sticky actions, a game is an episode, games end after 27,000
steps. Returns are those of training. An iteration is a million frames, 250,000 steps.

A run is saved in parts: the same command continues it after a stop. A seed has one file of its
episodes, which the comparison reads, and a checkpoint until it is done.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib.util
import json
import math
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple, TextIO

from .._commands import keywords_of, known, show
from ..callbacks import BaseCallback
from ..config import Config
from ..dqn import DQN
from ..envs import _ids
from ..errors import ConfigError
from ._scores import interval, iqm

FRAMES, SKIP = 1_000_000, 4  # of an iteration, and of a step
STEPS = FRAMES // SKIP
SUFFIX = "_dopamine"
SAYS = (
    "The number is Dopamine's: the mean return of all training episodes that ended in the first 250,000 steps, epsilon falling from 1. "
    "Later lines are the next iterations of 250,000 steps. Dopamine ends an iteration with the episode that passes its last step."
)


class Episode(NamedTuple):
    """A training episode: the step at which it ended, its unclipped return, its length in steps."""

    step: int
    total: float
    length: int


class Published(NamedTuple):
    """A published mean training return of an iteration, and its standard deviation over five seeds."""

    mean: float
    sd: float
    source: str


def published(game: str, agent: str) -> dict[int, Published]:
    """The published numbers of the first ten iterations, from 1 on; none of agents that Dopamine does not have."""
    text = resources.files(__package__).joinpath("dopamine.json").read_text("utf-8")
    iterations = json.loads(text)["returns"].get(game, {}).get(agent, [])
    source = f"baselines/atari/data/{game.lower()}_CNN.json"
    return {i: Published(fmean(seeds), stdev(seeds), source) for i, seeds in enumerate(iterations, 1)}


def agents() -> list[str]:
    """The agents that have a preset."""
    config = Config("dqn")
    try:
        return sorted(preset.name.removesuffix(SUFFIX) for preset in config.presets() if preset.name.endswith(SUFFIX))
    finally:
        config.close()


def add_arguments(parser: argparse.ArgumentParser, number: Callable[[str], int], environment: Callable[[str], str]) -> None:
    parser.description = f"Trains an agent of Dopamine with its preset and its recipe. {SAYS} The same command continues after a stop."
    parser.set_defaults(run=_run)

    def game(text: str) -> str:
        """An environment; the library's own game for another project's id, because the recipe is Dopamine's."""
        known = _ids.atari(text)
        return known[0] if known else environment(text)

    parser.add_argument("--game", type=game, default="Breakout", help="an Atari game (default: Breakout), or another environment")
    parser.add_argument("--agent", default="qr", help="qr (default), dqn, c51 ...: a preset of `paceline presets` without _dopamine")
    parser.add_argument("--frames", type=number, default=FRAMES, help="frames of a seed, such as 1e6 (default)")
    parser.add_argument("--seeds", type=number, default=3, help="how many seeds, from 1 on (default: 3)")
    parser.add_argument("--folder", type=Path, help="where runs, CSV files and the figure are (default: dopamine_GAME_AGENT)")
    parser.add_argument("--part", type=number, default=100_000, help="steps between two saved checkpoints (default: 100000)")
    parser.add_argument("--num-threads", type=int, default=None, help="threads that compute (default: one per core)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a keyword of DQN that replaces the preset's")
    parser.add_argument("--no-plot", action="store_true", help="draw no figure")


def _run(args: argparse.Namespace) -> int:
    keywords = _checked(args)
    folder = args.folder or Path(f"dopamine_{args.game}_{args.agent}".replace("/", "_"))
    episodes, iterations = folder / "episodes.csv", folder / "iterations.csv"
    seeds = [Files(folder, seed, {}) for seed in range(1, args.seeds + 1)]
    _make(folder, [episodes, iterations, *(path for each in seeds for path in (each.json, each.checkpoint))])
    if not args.no_plot and importlib.util.find_spec("matplotlib") is None:
        print("figure: needs matplotlib at the end of training (pip install 'paceline[plot]'); --no-plot draws none", file=sys.stderr)
    steps, runs = args.frames // SKIP, {}
    print(SAYS, flush=True)
    for seed in range(1, args.seeds + 1):
        runs[seed] = train(args.game, args.agent, seed, steps, folder, args.part, keywords, progress=True)
        mean = _mean(runs[seed], 1, steps)
        print(f"seed {seed}: {len(runs[seed])} episodes, mean return of the first iteration {_text(mean)}", flush=True)
    numbers = published(args.game, args.agent)
    lines = compare(runs, steps, numbers)
    _write_episodes(episodes, args.game, args.agent, runs)
    _write_lines(iterations, args.game, args.agent, lines)
    _print(args.game, args.agent, lines)
    print(f"written: {episodes}, {iterations}")
    if not args.no_plot:
        path, title = folder / "returns.png", f"{args.game}, {args.agent}"
        show("figure", path, lambda: _draw(path, title, runs, steps, numbers))
    return 0


def _checked(args: argparse.Namespace) -> dict[str, Any]:
    """The keywords of --set and --num-threads. Refuses wrong arguments, before anything is made."""
    if args.agent not in (names := agents()):
        raise ConfigError(f"--agent {args.agent}: must be {' or '.join(', '.join(names).rsplit(', ', 1))}")
    for name, least in (("frames", SKIP), ("seeds", 1), ("part", 1)):
        if getattr(args, name) < least:
            raise ConfigError(f"--{name} {getattr(args, name)}: must be at least {least}")
    if args.frames % SKIP:
        raise ConfigError(f"--frames {args.frames}: must be a multiple of {SKIP}, the frames of a step")
    keywords = keywords_of(args.set)
    if "seed" in keywords:
        raise ConfigError(f"--set seed={keywords['seed']}: must be left out; the seeds are 1 to --seeds")
    known(keywords, DQN.keywords(), "paceline.DQN")
    if args.num_threads is not None:
        keywords["num_threads"] = args.num_threads
    with _new(args.game, args.agent, 1, args.frames // SKIP, keywords) as model:
        if (updates := model.setting("updates")) != "own":
            raise ConfigError(f"--set updates={updates}: must be own; this command trains the model")
    return keywords


def _make(folder: Path, files: Iterable[Path]) -> None:
    """Makes the folder. Refuses one in which these files cannot be written, before hours of training."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as err:
        raise ConfigError(f"--folder {folder}: {err.strerror}, must be a folder that can be written") from None
    for path in files:
        with _refused(path):
            if path.exists():
                open(path, "r+b").close()


@contextlib.contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Raises a ConfigError that names path in the place of an OSError."""
    try:
        yield
    except OSError as err:
        raise ConfigError(f"{path}: {err.strerror}, must be a file that can be written") from None


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[TextIO]:
    """A new text file, which replaces the file as a whole. After an error the file is as it was."""
    new = path.with_suffix(".new")
    with _refused(path):
        try:
            with open(new, "w", newline="", encoding="utf-8") as file:
                yield file
            os.replace(new, path)
        except BaseException:
            with contextlib.suppress(OSError):
                new.unlink()
            raise


class _Recorder(BaseCallback):
    """Records the episodes, and saves the run in parts. Episodes are written before the checkpoint, which has no later ones.

    stopped: the run ends after the step at hand.
    """

    def __init__(self, run: Files, episodes: list[Episode], part: int) -> None:
        super().__init__()
        self.run, self.episodes, self.part, self.due, self.stopped = run, episodes, part, 0, False

    def _on_training_start(self) -> None:
        self.due = self.num_timesteps + self.part

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if episode := info.get("episode"):
                self.episodes.append(Episode(self.num_timesteps, episode["r"], episode["l"]))
        if self.num_timesteps >= self.due:
            self.due += self.part
            self.save()
        return not self.stopped

    def stop(self) -> None:
        self.stopped = True

    def save(self) -> None:
        self.run.write(self.episodes, done=False)
        self.model.save(self.run.checkpoint, replay=True)


class Files:
    """The files of a seed. settings: what must be the same in a continued run."""

    def __init__(self, folder: Path, seed: int, settings: Mapping[str, Any]) -> None:
        self.checkpoint, self.json, self.settings = folder / f"seed{seed}.paceline", folder / f"seed{seed}.json", dict(settings)

    def read(self) -> tuple[list[Episode], bool]:
        """The episodes so far, and whether the run is done."""
        if not self.json.exists():
            return [], False
        try:
            content = json.loads(self.json.read_text("utf-8"))
            was, episodes, done = _flat(content["settings"]), [Episode(*each) for each in content["episodes"]], bool(content["done"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(f"{self.json}: cannot be read, must be a file of this command; remove it to begin again") from None
        now = _flat(self.settings)
        for name in now | was:
            has, must = (settings.get(name, "left out") for settings in (was, now))
            if has != must:
                raise ConfigError(f"{self.json}: a run with {name} {has}, must be {must}; --folder names another folder")
        return episodes, done

    def write(self, episodes: list[Episode], done: bool) -> None:
        with _replaced(self.json) as file:
            file.write(json.dumps({"settings": self.settings, "done": done, "episodes": episodes}))


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a dict of dicts, by names such as "set.batch_size"."""
    out: dict[str, Any] = {}
    for name, value in settings.items():
        out |= {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
    return out


def files_of(game: str, agent: str, seed: int, steps: int, folder: Path, keywords: Mapping[str, Any]) -> Files:
    changed = {name: value for name, value in keywords.items() if name != "num_threads"}
    return Files(folder, seed, {"game": game, "agent": agent, "steps": steps, "set": changed, "preset": _preset(game, agent)})


def _preset(game: str, agent: str) -> dict[str, str]:
    """The values of the agent's preset that are not DQN's defaults. A file of a preset that was another is refused."""
    config = Config("dqn")
    try:
        config.preset(agent + SUFFIX, game)
        return {each.name: value for each in config.describe() if each.name != "env" and (value := config.get(each.name)) != each.default}
    finally:
        config.close()


def _new(game: str, agent: str, seed: int, steps: int, keywords: Mapping[str, Any]) -> DQN:
    texts = {name: str(value) for name, value in (_preset(game, agent) | dict(keywords)).items()}
    batch, envs, n = (int(text) if (text := texts.get(name, "")).isdecimal() else 1 for name in ("batch_size", "num_envs", "n_steps"))
    room = min(1_000_000, max(steps, 1000, batch, envs * n))  # the preset's, or what the run can fill and its settings need
    return DQN.from_preset(agent + SUFFIX, game, **{"seed": seed, "buffer_size": room, **keywords})


@contextlib.contextmanager
def _interrupts(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C calls stop; the second raises KeyboardInterrupt, as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield  # where Python handles no signals
        return
    usual = signal.getsignal(signal.SIGINT) or signal.default_int_handler

    def first(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, usual)
        stop()

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def train(
    game: str, agent: str, seed: int, steps: int, folder: Path, part: int, keywords: Mapping[str, Any], progress: bool = False
) -> list[Episode]:
    """The training episodes of a seed. After Ctrl-C the run is saved; the next call continues it. progress: shows a progress line."""
    files = files_of(game, agent, seed, steps, folder, keywords)
    episodes, done = files.read()
    if done:
        return episodes
    if episodes_saved := files.json.exists() and files.checkpoint.exists():
        threads = {"num_threads": keywords["num_threads"]} if "num_threads" in keywords else {}
        model = DQN.load(files.checkpoint, **threads)
    else:
        model = _new(game, agent, seed, steps, keywords)
    with model:
        begun = model.num_timesteps if episodes_saved else 0
        episodes = [each for each in episodes if each.step <= begun]
        recorder = _Recorder(files, episodes, part)
        if begun < steps:
            with _interrupts(recorder.stop):
                model.learn(steps - begun, callback=recorder, log_interval=None, progress_bar=progress, reset_num_timesteps=not begun)
        if model.num_timesteps < steps:
            recorder.save()
            print(f"seed {seed}: stopped at step {model.num_timesteps:,}; the same command continues it", flush=True)
            raise KeyboardInterrupt
    files.write(episodes, done=True)
    with _refused(files.checkpoint):
        files.checkpoint.unlink(missing_ok=True)
    if recorder.stopped:
        raise KeyboardInterrupt
    return episodes


def _mean(episodes: list[Episode], iteration: int, steps: int) -> float:
    """The mean return of the episodes that ended in an iteration, from 1 on; NaN without one."""
    first, last = (iteration - 1) * STEPS, min(iteration * STEPS, steps)
    totals = [each.total for each in episodes if first < each.step <= last]
    return fmean(totals) if totals else math.nan


class Line(NamedTuple):
    """An iteration of all seeds beside the published number."""

    iteration: int
    steps: int  # that were taken of it
    means: list[float]  # of the seeds
    mean: float
    sd: float
    iqm: float
    interval: tuple[float, float] | None  # 95 %, by rliable
    published: Published | None


def compare(runs: Mapping[int, list[Episode]], steps: int, numbers: Mapping[int, Published]) -> list[Line]:
    """One line for each iteration. An incomplete iteration has no published number."""
    lines = []
    for iteration in range(1, -(-steps // STEPS) + 1):
        means = [_mean(episodes, iteration, steps) for episodes in runs.values()]
        known = [mean for mean in means if not math.isnan(mean)]
        taken = min(STEPS, steps - (iteration - 1) * STEPS)
        lines.append(
            Line(
                iteration,
                taken,
                means,
                fmean(known) if known else math.nan,
                stdev(known) if len(known) > 1 else math.nan,
                iqm(known),
                interval(known),
                numbers.get(iteration) if taken == STEPS else None,
            )
        )
    return lines


def _text(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.2f}"


def _print(game: str, agent: str, lines: list[Line]) -> None:
    print(f"\n{game}, {agent}: mean training return of each iteration")
    print(f"{'frames':>12} {'mean':>10} {'s.d.':>8} {'IQM':>10} {'95 %':>20}   {'published':>10} {'s.d.':>8}")
    for line in lines:
        frames = (line.iteration - 1) * FRAMES + SKIP * line.steps
        between = "-" if line.interval is None else "{:.2f} to {:.2f}".format(*line.interval)
        of = line.published
        print(
            f"{frames:>12,} {_text(line.mean):>10} {_text(line.sd):>8} {_text(line.iqm):>10} {between:>20}   "
            f"{_text(of and of.mean):>10} {_text(of and of.sd):>8}"
        )
    if sources := sorted({line.published.source for line in lines if line.published}):
        print(f"published: five seeds, github.com/google/dopamine, {', '.join(sources)}")
    if all(line.interval is None for line in lines):
        print("intervals: need two seeds and rliable (pip install 'paceline[rliable]')")


def _write_episodes(path: Path, game: str, agent: str, runs: Mapping[int, list[Episode]]) -> None:
    with _replaced(path) as file:
        writer = csv.writer(file)
        writer.writerow(["game", "agent", "seed", "step", "return", "length"])
        for seed, episodes in runs.items():
            writer.writerows([game, agent, seed, *each] for each in episodes)


def _write_lines(path: Path, game: str, agent: str, lines: list[Line]) -> None:
    with _replaced(path) as file:
        writer = csv.writer(file)
        seeds = [f"seed{seed}" for seed in range(1, len(lines[0].means) + 1)]
        writer.writerow(
            ["game", "agent", "iteration", "steps", *seeds, "mean", "sd", "iqm", "low", "high", "published", "published_sd", "source"]
        )
        for line in lines:
            of = line.published or (None, None, None)
            writer.writerow(
                [game, agent, line.iteration, line.steps, *line.means, line.mean, line.sd, line.iqm, *(line.interval or (None, None)), *of]
            )


def _draw(path: Path, title: str, runs: Mapping[int, list[Episode]], steps: int, numbers: Mapping[int, Published]) -> str:
    """Draws the returns of all episodes, their means by iteration, and the published means."""
    from ..plots import BLUE, ORANGE, _figure

    figure = _figure(6, 4)
    ax = figure.subplots()
    for n, episodes in enumerate(runs.values()):
        ax.plot([SKIP * each.step / 1e6 for each in episodes], [each.total for each in episodes], ".", color=BLUE, alpha=0.15, markersize=3)
        means = [(SKIP * min(i * STEPS, steps) / 1e6, _mean(episodes, i, steps)) for i in range(1, -(-steps // STEPS) + 1)]
        label = None if n else "means of iterations, a line for each seed"
        ax.plot(*zip(*means), "o-", color=BLUE, markersize=4, linewidth=1, label=label)
    shown = {i: number for i, number in numbers.items() if i * STEPS <= steps}
    if shown:
        sds = [number.sd for number in shown.values()]
        points, style = [number.mean for number in shown.values()], {"fmt": "s", "mfc": "none", "markersize": 10, "capsize": 5}
        ax.errorbar(list(shown), points, sds, color=ORANGE, label="published", **style)
    ax.legend(frameon=False)
    ax.set(title=title, xlabel="millions of frames", ylabel="training return")
    figure.savefig(path, dpi=110)
    return f"{len(runs)} seed{'' if len(runs) == 1 else 's'}"
