"""Values that Gorila's paper does not give, tried on Atari games: python python/benchmarks/gorila_values.py

The paper has no learning rate, no constant of AdaGrad, no threshold for the age of gradients and no
number of deviations for its outliers. A run has four bundles, three shards and the small network in
one process, in virtual order on one thread, and the paper's frames and games otherwise. Targets have
three steps: with one step 200,000 steps of the games show no difference between values. Every value
of --learning-rates, --eps, --staleness and --outliers is tried with the first value of the others.
Its return is the mean of the last 100 training episodes. With --gradient-latency 0.001:2 some gradients
are hundreds of updates late; with the usual one none is more than about ten.

Runs are appended to --runs, and a run that is there is not repeated. What is printed is of all runs of the file.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import _runs
from _command import command, seeds_of
from paceline import Gorila, PacelineError

VALUES = {"learning_rates": "learning_rate", "eps": "optimizer_eps", "staleness": "max_staleness", "outliers": "outliers"}
NAMES = (*VALUES.values(), "latency_gradient")  # of what a run is made with
_STEPS = 4  # of an update
SETTINGS: dict[str, Any] = {
    "bundles": 4, "shards": 3, "cnn": "small", "optimizer": "adagrad", "learning_rate": 0.01, "optimizer_eps": 0.01, "batch_size": 32,
    "train_freq": _STEPS, "gamma": 0.99, "n_steps": 3, "buffer_size": 200_000, "learning_starts": 5_000,
    "target_update_interval": 2_000, "exploration_initial_eps": 1.0, "exploration_final_eps": 0.1, "exploration_steps": 20_000,
    "max_grad_norm": 0.0, "loss": "huber", "env_kwargs": {"recipe": "mnih2015"}, "num_threads": 1,
}  # fmt: skip


def run(game: str, seed: int, updates: int, values: dict[str, Any], parts: int = 10) -> dict[str, Any]:
    """The mean returns after each of some parts of a run, and what was refused and dropped."""
    began, curve = time.process_time(), []
    with Gorila("CnnPolicy", game, seed=seed, **{**SETTINGS, **values}) as model:
        steps = _STEPS * updates + SETTINGS["learning_starts"]
        for k in range(parts):
            model.learn(steps * (k + 1) // parts - model.num_timesteps, log_interval=None, reset_num_timesteps=k == 0)
            mean = model.stats["mean_return"]
            curve.append(None if math.isnan(mean) else mean)
        stats = model.stats
    return {
        "game": game, "seed": seed, "updates": updates, **values, "return": curve[-1], "curve": curve,
        "episodes": stats["episodes"], "refused": stats["refused"], "dropped": stats.get("outliers", 0),
        "lag": round(stats["lag"], 2), "lag_most": stats["lag_most"],
        "cpu_seconds": round(time.process_time() - began, 2),
    }  # fmt: skip


def grid(lists: dict[str, list[float]], latency: str) -> list[dict[str, Any]]:
    """The first value of each, then every other value alone."""
    first: dict[str, Any] = {name: values[0] for name, values in lists.items()} | {"latency_gradient": latency}
    return [first, *({**first, name: value} for name, values in lists.items() for value in values[1:])]


def _key(r: dict[str, Any]) -> tuple[Any, ...]:
    return r["game"], r["seed"], r["updates"], *(r[name] for name in NAMES)


def _one(game: str, seed: int, updates: int, values: dict[str, Any], core: int) -> str:
    words = ["--one", game, str(seed), str(updates), json.dumps(values)]
    return _runs.one(Path(__file__), words, core, f"{values} on {game}, seed {seed}")


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each combination of values and updates: the returns of all seeds by game, and what was lost.

    refused: a share of the pushes to shards. dropped: a share of the gradients.
    """
    combinations: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for r in sorted(runs, key=_key):
        combinations.setdefault(_key(r)[2:], []).append(r)
    out = []
    for (updates, *values), found in sorted(combinations.items()):
        returns: dict[str, list[float]] = {}
        for r in found:
            returns.setdefault(r["game"], []).append(r["return"])
        lost = {what: fmean(r[what] / (of * updates) for r in found) for what, of in (("refused", SETTINGS["shards"]), ("dropped", 1))}
        out.append({"updates": updates, "values": dict(zip(NAMES, values, strict=True)), "returns": returns, **lost})
    return out


def text(entries: list[dict[str, Any]]) -> str:
    lines = []
    for e in entries:
        values = ", ".join(f"{name} {value if isinstance(value, str) else f'{value:g}'}" for name, value in e["values"].items())
        returns = "   ".join(f"{game} {', '.join(f'{r:.2f}' for r in list)}" for game, list in e["returns"].items())
        lost = f"refused {100 * e['refused']:.2f} % of pushes, dropped {100 * e['dropped']:.2f} % of gradients"
        lines.append(f"{e['updates']} updates, {values}: {returns}   {lost}")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=Path, default=Path("build/gorila-values.jsonl"), help="file (default build/gorila-values.jsonl)")
    parser.add_argument("--games", default="Pong,Breakout,Seaquest")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--updates", type=int, default=50_000, help="updates of a run (default 50000)")
    parser.add_argument("--learning-rates", default="0.01,0.0025,0.005,0.02")
    parser.add_argument("--eps", default="0.01,1e-10,0.1", help="AdaGrad's constant")
    parser.add_argument("--staleness", default="20,4,100000", help="updates of the server after which a gradient is refused")
    parser.add_argument("--outliers", default="6,2,0", help="deviations above the mean loss from which a gradient is dropped; 0: none is")
    parser.add_argument("--gradient-latency", default="0.001:0.5", help="median:sigma (default 0.001:0.5)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run later than this; 0: none")
    parser.add_argument("--one", nargs=4, metavar=("GAME", "SEED", "UPDATES", "VALUES"), help=argparse.SUPPRESS)


def print_report(args: argparse.Namespace) -> None:
    if args.one:
        game, seed, updates, values = args.one
        print(json.dumps(run(game, int(seed), int(updates), json.loads(values))))
        return
    if args.updates < 1:
        raise PacelineError(f"--updates: {args.updates}, must be at least 1")
    lists = {}
    for option, name in VALUES.items():
        try:
            lists[name] = [float(value) for value in getattr(args, option).split(",")]
        except ValueError:
            raise PacelineError(f"--{option.replace('_', '-')}: {getattr(args, option)!r}, must be numbers with commas") from None
    combinations, games, seeds = grid(lists, args.gradient_latency), args.games.split(","), seeds_of(args.seeds)
    args.runs.parent.mkdir(parents=True, exist_ok=True)
    done = {_key(r) for r in _runs.read(args.runs)}
    jobs: list[Callable[[int], str]] = [
        partial(_one, game, seed, args.updates, values)
        for values in combinations
        for seed in seeds
        for game in games
        if (game, seed, args.updates, *values.values()) not in done
    ]
    _runs.fill(args.runs, jobs, args.minutes)
    entries = summary(_runs.read(args.runs))
    print(json.dumps({"entries": entries}) if args.json else text(entries))


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
