"""PPO and A2C with RL Zoo's keywords on four continuous tasks, beside stable-baselines3: python python/benchmarks/continuous.py

Each run is a process with one thread on a core of its own. The two libraries train with the same
keywords for the same number of steps, on Gymnasium's environments of LunarLander and BipedalWalker; of
Pendulum and MountainCar each has what a user gets: the library its own, stable-baselines3 Gymnasium's.
A run's return is the mean of episodes with deterministic actions after training.

RL Zoo's use_sde and sde_sample_freq are left out for both libraries: state-dependent exploration is
not built here. Its `normalize: true` is normalize_obs and normalize_reward, and VecNormalize there.

Runs are appended to --runs, and a run that is there is not repeated: all of them take half a day.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import resource
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from _command import command
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


def _ours(row: Row, seed: int, steps: int, episodes: int) -> tuple[float, float]:
    method: Any = {"ppo": PPO, "a2c": A2C}[row.method]
    keywords = {**row.keywords, "normalize_obs": row.normalize, "normalize_reward": row.normalize}
    with method("MlpPolicy", row.env, num_envs=row.num_envs, num_threads=1, seed=seed, device="cpu", **keywords) as model:
        began = time.monotonic()
        model.learn(steps, log_interval=None)
        seconds = time.monotonic() - began
        return model.evaluate(episodes=episodes, seed=seed, deterministic=True).mean_return, seconds


def _theirs(row: Row, seed: int, steps: int, episodes: int) -> tuple[float, float]:
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
    if row.normalize:
        vec.training = vec.norm_reward = False
    return float(evaluate_policy(model, vec, episodes, deterministic=True)[0]), seconds


def run(library: str, number: int, seed: int, steps: int, episodes: int) -> dict[str, Any]:
    """Trains once. number: a row's. steps: 0 for the row's."""
    row = ROWS[number]
    warnings.simplefilter("ignore")
    mean, seconds = (_ours if library == "paceline" else _theirs)(row, seed, steps or row.steps, episodes)
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "method": row.method, "env": row.env, "library": library, "seed": seed, "steps": steps or row.steps, "episodes": episodes,
        "return": mean, "seconds": round(seconds, 2), "cpu_seconds": round(cpu.ru_utime + cpu.ru_stime, 2),
    }  # fmt: skip


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _key(r: dict[str, Any]) -> tuple[Any, ...]:
    return r["method"], r["env"], r["library"], r["seed"], r["steps"]


def train(file: Path, numbers: list[int], seeds: list[int], steps: int, episodes: int, minutes: float) -> None:
    """Runs what is missing in the file, one process on each core, until no new run may begin."""
    done = {_key(r) for r in read(file)}
    jobs: queue.SimpleQueue[tuple[int, str, int]] = queue.SimpleQueue()
    for seed in seeds:
        for number in numbers:
            row = ROWS[number]
            for library in _LIBRARIES if seed % 2 else reversed(_LIBRARIES):
                if (row.method, row.env, library, seed, steps or row.steps) not in done:
                    jobs.put((number, library, seed))
    end = time.monotonic() + 60 * minutes
    writes, failures = threading.Lock(), list[str]()

    def work(core: int) -> None:
        while time.monotonic() < end:
            try:
                number, library, seed = jobs.get_nowait()
            except queue.Empty:
                return
            words = [sys.executable, __file__, "--one", library, str(number), str(seed), "--steps", str(steps), "--episodes", str(episodes)]
            began = subprocess.run(["taskset", "-c", str(core), *words], stdout=subprocess.PIPE, text=True)
            with writes:
                if began.returncode:
                    failures.append(f"{library}, {ROWS[number].method} on {ROWS[number].env}, seed {seed}: status {began.returncode}")
                    continue
                with file.open("a") as out:
                    out.write(began.stdout)
                print(began.stdout.strip(), file=sys.stderr, flush=True)

    threads = [threading.Thread(target=work, args=(core,)) for core in sorted(os.sched_getaffinity(0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise PacelineError("; ".join(failures))


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each method and environment: both means with their standard errors, their difference, and the seconds."""
    out = []
    for row in ROWS:
        found = {
            library: sorted(
                (r for r in runs if (r["method"], r["env"], r["library"]) == (row.method, row.env, library)), key=lambda r: int(r["seed"])
            )
            for library in _LIBRARIES
        }
        if not all(found.values()):
            continue
        entry: dict[str, Any] = {"method": row.method, "env": row.env, "steps": found["paceline"][0]["steps"]}
        for library, rs in found.items():
            returns = [r["return"] for r in rs]
            entry[library] = {
                "seeds": [r["seed"] for r in rs], "returns": returns, "mean": fmean(returns),
                "error": stdev(returns) / math.sqrt(len(returns)) if len(returns) > 1 else math.nan,
                "seconds": fmean(r["seconds"] for r in rs), "cpu_seconds": fmean(r["cpu_seconds"] for r in rs),
            }  # fmt: skip
        ours, theirs = (entry[library] for library in _LIBRARIES)
        error = math.hypot(ours["error"], theirs["error"])
        entry["difference_in_errors"] = (ours["mean"] - theirs["mean"]) / error if error else 0.0
        entry["times_as_fast"] = theirs["seconds"] / ours["seconds"]
        out.append(entry)
    return out


def text(entries: list[dict[str, Any]]) -> str:
    """The summary as a table."""
    lines = [f"{'':<34}{'paceline':>20}{'stable-baselines3':>20}{'differ by':>11}{'seconds':>9}{'theirs':>9}{'ratio':>7}"]
    for e in entries:
        means = (f"{e[library]['mean']:.1f} +- {e[library]['error']:.1f}" for library in _LIBRARIES)
        lines.append(
            f"{e['method'] + ' ' + e['env']:<34}" + "".join(f"{m:>20}" for m in means) + f"{e['difference_in_errors']:>8.1f} se"
            f"{e['paceline']['seconds']:>9.0f}{e['stable-baselines3']['seconds']:>9.0f}{e['times_as_fast']:>7.2f}"
        )
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=Path, default=Path("build/continuous.jsonl"), help="file (default build/continuous.jsonl)")
    parser.add_argument("--rows", default="", help="methods and environments, as ppo:Pendulum-v1,... (default: all)")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--steps", type=int, default=0, help="steps of each run instead of RL Zoo's")
    parser.add_argument("--episodes", type=int, default=50, help="episodes of each evaluation (default 50)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run later than this")
    parser.add_argument("--one", nargs=3, metavar=("LIBRARY", "ROW", "SEED"), help=argparse.SUPPRESS)


def print_report(args: argparse.Namespace) -> None:
    if args.one:
        print(json.dumps(run(args.one[0], int(args.one[1]), int(args.one[2]), args.steps, args.episodes)))
        return
    names = [f"{row.method}:{row.env}" for row in ROWS]
    wanted = args.rows.split(",") if args.rows else names
    for name in wanted:
        if name not in names:
            raise PacelineError(f"--rows: {name!r}, must be of {', '.join(names)}")
    args.runs.parent.mkdir(parents=True, exist_ok=True)
    seeds = [int(seed) for seed in args.seeds.split(",")]
    train(args.runs, [names.index(name) for name in wanted], seeds, args.steps, args.episodes, args.minutes)
    entries = summary(read(args.runs))
    print(json.dumps({"entries": entries}) if args.json else text(entries))


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
