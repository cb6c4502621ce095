"""Shows that learning works, on three seeds of each task (`make learn`).

    python learn.py [--env CartPole-v1] [--seeds 1,2,3] [--mode both,a3c] [--sb3]

Each task has the preset "tuned". DQN learns it with concurrent=False and synchronized=False (mode
standard, one environment) and with both of them True (mode both, eight environments). The other
methods learn some of the tasks. The table shows the return and the first digits of the SHA-256 digests
of the replay memory, the weights and the target's weights. The digests must equal those of the golden
file, which has rows for each path of the kernels (PACELINE_ISA). The exit status is 1 if a return is
below the threshold or a digest differs. Asynchronous methods run in virtual time with lognormal
durations, and show the mean lag of their updates: how many updates came between the parameters that
acted and the update.

With --sb3 A2C and PPO are compared with stable-baselines3's instead, from the preset "sb3": the same
networks, settings and number of steps, alternating. The time is from the first step to the last one.
Both are then evaluated over 100 episodes, A2C with greedy actions and PPO with sampled ones.
"""

import argparse
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import paceline
from paceline import A2C, A3C, APPO, DQN, GA3C, PPO, PQN, Gorila, PacelineWarning

GOLDEN = Path(__file__).resolve().parents[2] / "python" / "tests" / "golden_learn.txt"


class Task(NamedTuple):
    env: str
    steps: int
    threshold: float
    # True: the best evaluation during training counts, and its weights are kept. False: 100 episodes
    # with the weights at the end count.
    best_of: bool
    modes: tuple[str, ...] = ("standard", "both")


TASKS = [
    Task("CartPole-v1", 50_000, 475.0, True),
    Task("Catch-v0", 10_000, 0.9, False),
    Task("Bricks-v0", 16_000, 10.0, False),
    Task("CartPole-v1", 300_000, 475.0, False, ("a2c",)),
    Task("Catch-v0", 40_000, 0.9, False, ("a2c",)),
    Task("CartPole-v1", 500_000, 475.0, False, ("a3c",)),
    Task("CartPole-v1", 100_000, 475.0, False, ("appo",)),
    Task("CartPole-v1", 500_000, 475.0, False, ("ga3c",)),
    Task("CartPole-v1", 100_000, 475.0, False, ("gorila",)),
    Task("Catch-v0", 10_000, 0.9, False, ("gorila",)),
    Task("CartPole-v1", 100_000, 475.0, False, ("ppo",)),
    Task("Catch-v0", 40_000, 0.9, False, ("ppo",)),
    Task("Catch-v0", 200_000, 0.9, False, ("a3c", "appo", "ga3c")),
    Task("Bricks-v0", 100_000, 10.0, False, ("ppo",)),
    Task("Pendulum-v1", 100_000, -200.0, False, ("ppo",)),
    Task("CartPole-v1", 200_000, 475.0, False, ("pqn",)),
    Task("Catch-v0", 60_000, 0.9, False, ("pqn",)),
    Task("Bricks-v0", 100_000, 10.0, False, ("pqn",)),
]
MODES = {
    "standard": (DQN, {"num_envs": 1, "concurrent": False, "synchronized": False}),
    "both": (DQN, {"num_envs": 8, "concurrent": True, "synchronized": True}),
    "a2c": (A2C, {}),
    "a3c": (A3C, {}),
    "appo": (APPO, {}),
    "ga3c": (GA3C, {}),
    "gorila": (Gorila, {}),
    "ppo": (PPO, {}),
    "pqn": (PQN, {}),
}
HASHES = ("replay", "weights", "target")  # on-policy methods have some of them


class Result(NamedTuple):
    reached: float
    seconds: float
    hashes: dict[str, str]
    remark: str


def learn(task: Task, mode: str, seed: int) -> Result:
    began = time.monotonic()
    method, keywords = MODES[mode]
    with method.from_preset("tuned", task.env, seed=seed, **keywords) as model:
        model.learn(task.steps, log_interval=None, eval_freq=2500 if task.best_of else 0)
        hashes = model.hashes()._asdict()
        if not task.best_of:
            lag = model.stats.get("lag_mean", model.stats.get("lag"))  # GA3C has the latest update's, too
            remark = "" if lag is None else f"lag {lag:.1f}"
            return Result(model.evaluate(episodes=100, seed=seed).mean_return, time.monotonic() - began, hashes, remark)
        first = next((step for step, result in model.evaluations if result.mean_return >= task.threshold), None)
        last = model.evaluations[-1][1].mean_return
        remark = f"last {last:.0f}" + (f", first at {first:,}" if first is not None else "")
        return Result(model.best_mean_return, time.monotonic() - began, hashes, remark)


def golden() -> tuple[str, dict[tuple[str, str, int], tuple[str, ...]]]:
    """Returns the path of the kernels in use, and its hashes in the golden file by (environment, mode, seed)."""
    info = subprocess.check_output([sys.executable, "-m", "paceline", "info"], text=True)
    isa = next(line.split()[1] for line in info.splitlines() if line.startswith("isa "))
    rows = {}
    for line in GOLDEN.read_text().splitlines() if GOLDEN.exists() else ():
        if line.startswith(f"{isa} | "):
            _, env, mode, seed, *hashes = line.split(" | ")
            rows[env, mode, int(seed)] = tuple(hashes)
    return isa, rows


# Comparisons with stable-baselines3. PPO's steps are whole rollouts of its preset, 8 x 2,048.
COMPARED = [("a2c", "CartPole-v1", 100_000), ("a2c", "Catch-v0", 40_000), ("ppo", "CartPole-v1", 114_688), ("ppo", "Bricks-v0", 65_536)]


def compare_sb3(mode: str, env: str, steps: int, seeds: list[int]) -> None:
    """Prints the seconds and returns of both libraries, and the ratio of the seconds."""
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecEnv

    from paceline.sb3 import VecEnv as SB3VecEnv

    def their_env(seed: int) -> VecEnv:
        if env == "CartPole-v1":
            return make_vec_env(env, n_envs=8, seed=seed)
        return SB3VecEnv(paceline.make_vec(env, num_envs=8, autoreset_mode="same_step"))

    method = MODES[mode][0]
    policy, drawn = "MlpPolicy" if env == "CartPole-v1" else "CnnPolicy", mode == "ppo"
    for seed in seeds:
        with method.from_preset("sb3", env, seed=seed) as ours:
            began = time.monotonic()
            ours.learn(steps, log_interval=None)
            seconds = time.monotonic() - began
            mean = ours.evaluate(episodes=100, seed=seed, deterministic=not drawn).mean_return
        vec = their_env(seed)
        theirs = getattr(stable_baselines3, method.__name__)(policy, vec, seed=seed, device="cpu")
        began = time.monotonic()
        theirs.learn(steps)
        their_seconds = time.monotonic() - began
        their_mean = float(np.mean(evaluate_policy(theirs, vec, 100, deterministic=not drawn)[0]))
        vec.close()
        print(f"{env:<13}{mode:<6}{seed:>4}{steps:>9,}{mean:>9.2f}{seconds:>9.1f}", end="")
        print(f"{their_mean:>12.2f}{their_seconds:>9.1f}{their_seconds / seconds:>8.1f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", choices=list(dict.fromkeys(task.env for task in TASKS)))
    parser.add_argument("--mode", default=",".join(MODES), help="names with commas between them (default: all)")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--sb3", action="store_true", help="compare A2C and PPO with stable-baselines3's, which must be installed")
    args = parser.parse_args()
    seeds = [int(seed) for seed in args.seeds.split(",")]
    modes = args.mode.split(",")
    for mode in modes:
        if mode not in MODES:
            parser.error(f"--mode: {mode!r}, must be of {', '.join(MODES)}")
    warnings.simplefilter("ignore", PacelineWarning)
    tasks = [task for task in TASKS if args.env in (None, task.env) and set(task.modes) & set(modes)]
    compared = [(mode, env, steps) for mode, env, steps in COMPARED if args.env in (None, env) and mode in modes]
    if not (compared if args.sb3 else tasks):
        given = [f"--{name} {getattr(args, name)}" for name in ("env", "mode") if getattr(args, name) != parser.get_default(name)]
        parser.error(f"{' with '.join(given)} has no task" + " that --sb3 compares" * args.sb3)
    if args.sb3:
        print(f"{'environment':<13}{'mode':<6}{'seed':>4}{'steps':>9}{'return':>9}{'seconds':>9}", end="")
        print(f"{'SB3 return':>12}{'seconds':>9}{'ratio':>8}")
        for mode, env, steps in compared:
            compare_sb3(mode, env, steps, seeds)
        return 0
    isa, rows = golden()
    missed, equal, differing, without = 0, 0, 0, []
    print(f"{'environment':<13}{'mode':<10}{'seed':>4}{'steps':>9}{'return':>9}{'needed':>8}{'seconds':>9}", end="")
    print(f"  {'replay':<14}{'weights':<14}target")
    for task in tasks:
        for mode in task.modes:
            for seed in seeds if mode in modes else ():
                result = learn(task, mode, seed)
                remarks = [result.remark] if result.remark else []
                if result.reached < task.threshold:
                    missed += 1
                    remarks.insert(0, "MISSED")
                want = rows.get((task.env, mode, seed))
                if want is None:
                    without.append(f"{task.env} {mode} {seed}")
                elif want == tuple(result.hashes.values()):
                    equal += 1
                else:
                    differing += 1
                    remarks.insert(0, "DIFFERS")
                print(f"{task.env:<13}{mode:<10}{seed:>4}{task.steps:>9,}{result.reached:>9.2f}{task.threshold:>8g}", end="")
                digests = "  ".join(result.hashes.get(name, "-")[:12].ljust(12) for name in HASHES)
                print(f"{result.seconds:>9.1f}  {digests}  {' '.join(remarks)}".rstrip(), flush=True)
    print(f"{missed} missed" if missed else "every threshold was reached")
    if equal or differing:
        print(f"{isa}: {equal} of {equal + differing} runs have the hashes of {GOLDEN.name}")
    if without:
        print(f"{GOLDEN.name} has no rows for {isa}" + (f": {', '.join(without)}" if rows else ""))
    return 1 if missed or differing else 0


if __name__ == "__main__":
    sys.exit(main())
