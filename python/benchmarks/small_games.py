"""DQN, C51, QR-DQN and PQN on the five Mini games: python python/benchmarks/small_games.py

A run has one thread; its return is the mean of the last 100 training episodes. DQN, C51 and QR-DQN
have the optimiser, the replay memory and the periods of updates of Dopamine's settings for MinAtar
(labs/environments/minatar): one environment, and an update of 32 transitions for 4 steps. The layers
are those of MinAtar's paper (16 convolutions of 3x3, 128 hidden units). Actions are repeated with
probability 0.1.
QR-DQN's 200 quantiles, three steps and priorities are those of quantile_*.gin. Dopamine has no
settings for C51 alone: v_min -100 and v_max 100 are those of rainbow_*.gin, the rest is DQN's with the
loss of preset c51_dopamine. Epsilon falls over 250,000 steps for all three; quantile_*.gin leaves its
agent's 1,000,000.
PQN has its authors' settings for MinAtar (purejaxql, pqn_minatar.yaml), but its rates fall over the
steps of the run. The games are not MinAtar's, so no published return is shown.

Runs are appended to --runs with their settings, machine and commit. A run that is there with equal
settings is not repeated. With --rates the steps/s are measured afterwards with all cores: of the
games alone, of DQN with eight environments, concurrent and synchronized, and of PQN.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

import _runs
import paceline
from _command import command, seeds_of
from _machine import commit, machine
from paceline import DQN, PQN, PacelineError
from paceline.config import describe

GAMES = ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"]
_DOPAMINE = {
    "cnn": "minatar", "learning_rate": 2.5e-4, "optimizer_eps": 3.125e-4, "learning_starts": 1000, "target_update_interval": 1000,
    "buffer_size": 100_000,
}  # fmt: skip
METHODS: dict[str, tuple[Any, str, dict[str, Any]]] = {  # class, preset, keywords that replace it
    "dqn": (DQN, "dqn_dopamine", _DOPAMINE),
    "c51": (DQN, "c51_dopamine", {**_DOPAMINE, "v_min": -100, "v_max": 100}),
    "qr": (DQN, "qr_dopamine", _DOPAMINE),
    "pqn": (PQN, "pqn", {
        "cnn": "minatar", "num_envs": 128, "n_steps": 32, "n_epochs": 2, "batch_size": 128, "q_lambda": 0.65,
        "learning_rate": paceline.schedules.linear(5e-4), "exploration_final_eps": 0.05, "exploration_fraction": 0.1,
    }),
}  # fmt: skip
_OF_A_RUN = {"env", "seed", "num_threads", "host_data"}
_SWITCHED = {"num_envs": 8, "concurrent": True, "actor": "target"}


def _model(method: str, game: str, seed: int, **keywords: Any) -> Any:
    cls, preset, changed = METHODS[method]
    return cls.from_preset(preset, f"Mini-{game}-v0", seed=seed, device="cpu", **{**changed, **keywords})


def _settings(model: Any) -> dict[str, str]:
    """The settings that are not the library's defaults, without those of a run."""
    texts = {s.name: (model.setting(s.name), s.default) for s in describe(model.METHOD)}
    return {name: text for name, (text, default) in texts.items() if text != default and name not in _OF_A_RUN}


@cache
def settings(method: str, game: str) -> dict[str, str]:
    """The settings with which a method trains in a game."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with _model(method, game, 1, num_threads=1) as model:
            return _settings(model)


def run(method: str, game: str, seed: int, steps: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    with _model(method, game, seed, num_threads=1) as model:
        given = _settings(model)
        began = time.monotonic()
        model.learn(steps, log_interval=None)
        seconds, mean = time.monotonic() - began, model.stats["mean_return"]
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "method": method, "game": game, "seed": seed, "steps": steps, "return": None if math.isnan(mean) else mean,
        "seconds": round(seconds, 2), "cpu_seconds": round(cpu.ru_utime + cpu.ru_stime, 2),
        "settings": given, "machine": machine(), "commit": commit(),
    }  # fmt: skip


def _key(r: dict[str, Any]) -> tuple[Any, ...]:
    return r["method"], r["game"], r["seed"], r["steps"]


def current(file: Path, games: list[str]) -> list[dict[str, Any]]:
    """The runs of a file in these games that have today's settings."""
    return [r for r in _runs.read(file) if r["game"] in games and r.get("settings") == settings(r["method"], r["game"])]


def _one(method: str, game: str, seed: int, steps: int, core: int) -> str:
    return _runs.one(Path(__file__), ["--one", method, game, str(seed), str(steps)], core, f"{method} on {game}, seed {seed}")


def rates(games: list[str], steps: int, seconds: float) -> list[dict[str, Any]]:
    """Steps/s of each game alone, and of two methods that train there."""
    out = []
    for game in games:
        entry: dict[str, Any] = {"game": game, "env": _env_rate(game, seconds)}
        for method, keywords in (("dqn", _SWITCHED), ("pqn", {"learning_rate": 5e-4})):
            with _model(method, game, 1, **keywords) as model:
                model.learn(4096, log_interval=None)
                before, began = model.num_timesteps, time.perf_counter()
                model.learn(steps, log_interval=None, reset_num_timesteps=False)
                entry[method] = (model.num_timesteps - before) / (time.perf_counter() - began)
        out.append(entry)
    return out


def _env_rate(game: str, seconds: float) -> float:
    envs = paceline.make_vec(f"Mini-{game}-v0", 256, copy=False)
    try:
        envs.reset(seed=1)
        actions = np.random.default_rng(1).integers(0, 6, (64, 256), dtype=np.int32)
        steps, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds:
            for row in actions:
                envs.step(row)
            steps += actions.size
        return steps / (time.perf_counter() - began)
    finally:
        envs.close()


def summary(runs: list[dict[str, Any]], games: list[str], steps: int) -> list[dict[str, Any]]:
    """One entry for each game: the returns of each method by seed, and their mean."""
    out = []
    for game in games:
        entry: dict[str, Any] = {"game": game, "steps": steps}
        for method in METHODS:
            found = sorted((r for r in runs if (r["method"], r["game"], r["steps"]) == (method, game, steps)), key=lambda r: int(r["seed"]))
            if found:
                returns = [r["return"] for r in found]
                mean = None if None in returns else fmean(returns)
                entry[method] = {"seeds": [r["seed"] for r in found], "returns": returns, "mean": mean}
        out.append(entry)
    return out


def minutes(runs: list[dict[str, Any]], steps: int) -> list[dict[str, Any]]:
    """The median of the processor's minutes of a run, for each method and machine."""
    seen: dict[tuple[str, str], list[float]] = {}
    for r in runs:
        if r["steps"] == steps and "machine" in r:
            seen.setdefault((r["method"], r["machine"]), []).append(r["cpu_seconds"] / 60)
    return [
        {"method": method, "machine": machine, "runs": len(found), "minutes": median(found)}
        for (method, machine), found in sorted(seen.items())
    ]


def wins(entries: list[dict[str, Any]], method: str) -> int:
    """The number of games on which a method's mean is at least DQN's, of the same seeds."""

    def won(its: dict[str, Any], dqn: dict[str, Any]) -> bool:
        return its["seeds"] == dqn["seeds"] and None not in (its["mean"], dqn["mean"]) and its["mean"] >= dqn["mean"]

    return sum(won(e[method], e["dqn"]) for e in entries if method in e and "dqn" in e)


def text(report: dict[str, Any]) -> str:
    lines = [f"{'':<16}{'':<6}{'mean':>9}   seeds"]
    for e in report["entries"]:
        for method in METHODS:
            if method in e:
                mean = e[method]["mean"]
                returns = ", ".join(map(str, e[method]["returns"]))
                lines.append(f"{e['game']:<16}{method:<6}{'-' if mean is None else f'{mean:.2f}':>9}   {returns}")
    lines += [f"{method}: at or above dqn on {wins(report['entries'], method)} of {len(report['entries'])}" for method in ("c51", "qr")]
    lines += [f"{r['method']}: {r['minutes']:.1f} minutes (median of {r['runs']}) on {r['machine']}" for r in report["minutes"]]
    for r in report["rates"]:
        lines.append(f"{r['game']:<16}{r['env']:>12,.0f} steps/s alone{r['dqn']:>10,.0f} with dqn{r['pqn']:>10,.0f} with pqn")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=Path, default=Path("build/small-games.jsonl"), help="file (default build/small-games.jsonl)")
    parser.add_argument("--games", default=",".join(GAMES))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of a run (default 1000000)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run later than this")
    parser.add_argument("--rates", type=int, default=0, help="steps in which each rate is measured (default 0: not measured)")
    parser.add_argument("--one", nargs=4, metavar=("METHOD", "GAME", "SEED", "STEPS"), help=argparse.SUPPRESS)


def _chosen(option: str, given: str, of: list[str]) -> list[str]:
    names = given.split(",")
    for name in names:
        if name not in of:
            raise PacelineError(f"--{option}: {name!r}, must be of {', '.join(of)}")
    return names


def print_report(args: argparse.Namespace) -> None:
    if args.one:
        method, game, seed, steps = args.one
        print(json.dumps(run(method, game, int(seed), int(steps))))
        return
    games, methods = _chosen("games", args.games, GAMES), _chosen("methods", args.methods, list(METHODS))
    if args.steps < 1:
        raise PacelineError(f"--steps: {args.steps}, must be at least 1")
    args.runs.parent.mkdir(parents=True, exist_ok=True)
    done = {_key(r) for r in current(args.runs, games)}
    jobs: list[Callable[[int], str]] = [
        partial(_one, method, game, seed, args.steps)
        for seed in seeds_of(args.seeds)
        for game in games
        for method in methods
        if (method, game, seed, args.steps) not in done
    ]
    _runs.fill(args.runs, jobs, args.minutes)
    runs = current(args.runs, games)
    entries = summary(runs, games, args.steps)
    report = {"entries": entries, "minutes": minutes(runs, args.steps), "rates": rates(games, args.rates, 1.0) if args.rates else []}
    print(json.dumps(report) if args.json else text(report))


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
