"""PPO and A2C with RL Zoo's keywords on four continuous tasks, beside stable-baselines3: python python/benchmarks/continuous.py

Each run is a process with one thread. The two libraries train with the same keywords for the same
number of steps, on Gymnasium's environments of LunarLander and BipedalWalker; of Pendulum and
MountainCar each has what a user gets: the library its own, stable-baselines3 Gymnasium's. A run's
return is the mean of episodes with deterministic actions after training.

RL Zoo's use_sde and sde_sample_freq are left out for both libraries: state-dependent exploration is
not built here. Its `normalize: true` is normalize_obs and normalize_reward, and VecNormalize there.

Runs are appended to --runs, and a run that is there is not repeated: all of them take half a day. They
share the machine, one process on a core. Their speed is therefore measured apart, in turns of a few
rollouts with nothing beside them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

import _runs
from _command import command, seeds_of
from paceline import A2C, PPO, PacelineError

_LIBRARIES = ("paceline", "stable-baselines3")


class Row(NamedTuple):
    """A row of RL Zoo's hyperparams/ppo.yml or a2c.yml."""

    method: str
    env: str
    steps: int
    num_envs: int
    normalize: bool
    keywords: dict[str, Any]


_STANDARD_DEVIATION = {"policy_kwargs": {"log_std_init": -2, "ortho_init": False}}
_SHORT = {
    "ent_coef": 0.0, "max_grad_norm": 0.5, "n_steps": 8, "gae_lambda": 0.9, "vf_coef": 0.4, "gamma": 0.99,
    "use_rms_prop": True, "normalize_advantage": False, **_STANDARD_DEVIATION,
}  # fmt: skip
_LANDER = {"n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4, "ent_coef": 0.01}
_WALKER = {
    "n_steps": 2048, "batch_size": 64, "gae_lambda": 0.95, "gamma": 0.999, "n_epochs": 10, "ent_coef": 0.0,
    "learning_rate": 3e-4, "clip_range": 0.18,
}  # fmt: skip
ROWS = [
    Row("ppo", "Pendulum-v1", 100_000, 4, False, {
        "n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "ent_coef": 0.0, "learning_rate": 1e-3, "clip_range": 0.2,
    }),
    Row("ppo", "MountainCarContinuous-v0", 20_000, 1, True, {
        "batch_size": 256, "n_steps": 8, "gamma": 0.9999, "learning_rate": 7.77e-5, "ent_coef": 0.00429, "clip_range": 0.1, "n_epochs": 10,
        "gae_lambda": 0.9, "max_grad_norm": 5, "vf_coef": 0.19, "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False},
    }),
    Row("ppo", "LunarLanderContinuous-v3", 1_000_000, 16, False, _LANDER),
    Row("ppo", "BipedalWalker-v3", 5_000_000, 32, True, _WALKER),
    Row("a2c", "Pendulum-v1", 1_000_000, 8, True, {**_SHORT, "learning_rate": "lin_7e-4"}),
    Row("a2c", "MountainCarContinuous-v0", 100_000, 4, True, {
        "n_steps": 100, "ent_coef": 0.0, "policy_kwargs": {"log_std_init": 0.0, "ortho_init": False},
    }),
    Row("a2c", "LunarLanderContinuous-v3", 5_000_000, 4, True, {**_SHORT, "learning_rate": "lin_7e-4"}),
    Row("a2c", "BipedalWalker-v3", 5_000_000, 16, True, {**_SHORT, "learning_rate": "lin_0.00096"}),
]  # fmt: skip


def _ours(row: Row, seed: int, steps: int, episodes: int) -> tuple[float | None, float]:
    method: Any = {"ppo": PPO, "a2c": A2C}[row.method]
    keywords = {**row.keywords, "normalize_obs": row.normalize, "normalize_reward": row.normalize}
    with method("MlpPolicy", row.env, num_envs=row.num_envs, num_threads=1, seed=seed, device="cpu", **keywords) as model:
        began = time.monotonic()
        model.learn(steps, log_interval=None)
        seconds = time.monotonic() - began
        if not episodes:
            return None, seconds
        return model.evaluate(episodes=episodes, seed=seed, deterministic=True).mean_return, seconds


def _theirs(row: Row, seed: int, steps: int, episodes: int) -> tuple[float | None, float]:
    import stable_baselines3
    import torch
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    keywords = dict(row.keywords)
    rate = keywords.get("learning_rate")
    if isinstance(rate, str):  # RL Zoo reads lin_ so
        first = float(rate.removeprefix("lin_"))
        keywords["learning_rate"] = lambda left: left * first
    vec: Any = make_vec_env(row.env, row.num_envs, seed=seed)
    if row.normalize:
        vec = VecNormalize(vec, gamma=keywords.get("gamma", 0.99))
    model: Any = getattr(stable_baselines3, row.method.upper())("MlpPolicy", vec, seed=seed, device="cpu", **keywords)
    began = time.monotonic()
    model.learn(steps)
    seconds = time.monotonic() - began
    if not episodes:
        return None, seconds
    if row.normalize:
        vec.training = vec.norm_reward = False
    return float(evaluate_policy(model, vec, episodes, deterministic=True)[0]), seconds


def run(library: str, number: int, seed: int, steps: int, episodes: int) -> dict[str, Any]:
    """Trains once. number: a row's. episodes: 0 for no evaluation."""
    row = ROWS[number]
    warnings.simplefilter("ignore")
    mean, seconds = (_ours if library == "paceline" else _theirs)(row, seed, steps, episodes)
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "method": row.method, "env": row.env, "library": library, "seed": seed, "steps": steps, "episodes": episodes,
        "return": mean, "seconds": round(seconds, 2), "cpu_seconds": round(cpu.ru_utime + cpu.ru_stime, 2),
    }  # fmt: skip


def _key(r: dict[str, Any]) -> tuple[Any, ...]:
    return r["method"], r["env"], r["library"], r["seed"], r["steps"]


def _one(library: str, number: int, seed: int, steps: int, episodes: int, core: int) -> str:
    """The line of a run in a process of its own."""
    row = ROWS[number]
    words = ["--one", library, str(number), str(seed), str(steps), "--episodes", str(episodes)]
    return _runs.one(Path(__file__), words, core, f"{library}, {row.method} on {row.env}, seed {seed}")


def train(file: Path, lengths: dict[int, int], seeds: list[int], episodes: int, minutes: float) -> None:
    """Runs what is missing in the file."""
    done = {_key(r) for r in _runs.read(file)}
    jobs: list[Callable[[int], str]] = []
    for seed in seeds:
        for number, steps in lengths.items():
            row = ROWS[number]
            for library in _LIBRARIES if seed % 2 else reversed(_LIBRARIES):
                if (row.method, row.env, library, seed, steps) not in done:
                    jobs.append(partial(_one, library, number, seed, steps, episodes))
    _runs.fill(file, jobs, minutes)


def speed(number: int, turns: int) -> dict[str, Any]:
    """Seconds of whole rollouts of at least 8,192 steps, of both libraries in turns."""
    row = ROWS[number]
    rollout = row.num_envs * row.keywords["n_steps"]
    steps = rollout * math.ceil(8192 / rollout)
    seconds: dict[str, list[float]] = {library: [] for library in _LIBRARIES}
    core = min(os.sched_getaffinity(0))
    for turn in range(turns):
        for library in _LIBRARIES if turn % 2 else reversed(_LIBRARIES):
            seconds[library].append(json.loads(_one(library, number, 1, steps, 0, core))["seconds"])
    ours, theirs = (seconds[library] for library in _LIBRARIES)
    return {"steps": steps, "seconds": seconds, "times_as_fast": median(t / o for o, t in zip(ours, theirs, strict=True))}


def summary(runs: list[dict[str, Any]], lengths: dict[int, int]) -> list[dict[str, Any]]:
    """One entry for each row that both libraries have runs of: both means with their standard errors, and their difference."""
    out = []
    for number, steps in lengths.items():
        row = ROWS[number]
        entry: dict[str, Any] = {"method": row.method, "env": row.env, "steps": steps, "of": row.steps, "row": number}
        for library in _LIBRARIES:
            key = row.method, row.env, library, steps
            found = sorted((r for r in runs if (r["method"], r["env"], r["library"], r["steps"]) == key), key=lambda r: int(r["seed"]))
            returns = [r["return"] for r in found]
            if found:
                entry[library] = {
                    "seeds": [r["seed"] for r in found], "returns": returns, "mean": fmean(returns),
                    "error": stdev(returns) / math.sqrt(len(returns)) if len(returns) > 1 else None,
                }  # fmt: skip
        if not all(library in entry for library in _LIBRARIES):
            continue
        ours, theirs = (entry[library] for library in _LIBRARIES)
        error = math.hypot(ours["error"] or 0, theirs["error"] or 0)
        entry["difference_in_errors"] = (ours["mean"] - theirs["mean"]) / error if error else None
        out.append(entry)
    return out


def text(entries: list[dict[str, Any]]) -> str:
    """The summary as a table."""
    lines = [f"{'':<34}{'steps':>10}{'paceline':>18}{'stable-baselines3':>20}{'differ by':>11}{'times as fast':>15}"]
    for e in entries:
        means = [f"{e[library]['mean']:.1f} +- {e[library]['error'] or 0:.1f}" for library in _LIBRARIES]
        differ = f"{e['difference_in_errors']:.1f} se" if e["difference_in_errors"] is not None else ""
        fast = f"{e['speed']['times_as_fast']:.2f}" if "speed" in e else ""
        lines.append(f"{e['method'] + ' ' + e['env']:<34}{e['steps']:>10,}{means[0]:>18}{means[1]:>20}{differ:>11}{fast:>15}")
    return "\n".join(lines)


def _lengths(rows: list[int], names: list[str], most_steps: str) -> dict[int, int]:
    """The steps of each row's runs."""
    lengths = {number: ROWS[number].steps for number in rows}
    for limit in filter(None, most_steps.split(",")):
        name, _, steps = limit.rpartition("=")
        if not steps.isdigit() or int(steps) < 1 or (name and name not in names):
            raise PacelineError(f"--most-steps: {limit!r}, must be N, or NAME=N with a name of {', '.join(names)}; N at least 1")
        for number in lengths:
            if not name or names[number] == name:
                lengths[number] = min(lengths[number], int(steps))
    return lengths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=Path, default=Path("build/continuous.jsonl"), help="file (default build/continuous.jsonl)")
    parser.add_argument("--rows", default="", help="methods and environments, as ppo:Pendulum-v1,... (default: all)")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument(
        "--most-steps", default="", help="steps of the runs for which RL Zoo has more: N for all, or METHOD:ENV=N for one, comma-separated"
    )
    parser.add_argument("--episodes", type=int, default=50, help="episodes of each evaluation (default 50)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run later than this")
    parser.add_argument("--turns", type=int, default=0, help="turns in which the speed of each row is measured (default 0: not measured)")
    parser.add_argument("--one", nargs=4, metavar=("LIBRARY", "ROW", "SEED", "STEPS"), help=argparse.SUPPRESS)


def print_report(args: argparse.Namespace) -> None:
    if args.one:
        library, (row, seed, steps) = args.one[0], map(int, args.one[1:])
        print(json.dumps(run(library, row, seed, steps, args.episodes)))
        return
    names = [f"{row.method}:{row.env}" for row in ROWS]
    wanted = args.rows.split(",") if args.rows else names
    for name in wanted:
        if name not in names:
            raise PacelineError(f"--rows: {name!r}, must be of {', '.join(names)}")
    rows = [names.index(name) for name in wanted]
    args.runs.parent.mkdir(parents=True, exist_ok=True)
    seeds = seeds_of(args.seeds)
    lengths = _lengths(rows, names, args.most_steps)
    train(args.runs, lengths, seeds, args.episodes, args.minutes)
    entries = summary(_runs.read(args.runs), lengths)
    for entry in entries if args.turns else ():
        entry["speed"] = speed(entry["row"], args.turns)
    print(json.dumps({"entries": entries}) if args.json else text(entries))


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
