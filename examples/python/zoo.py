"""Compares Paceline's and stable-baselines3's DQN with RL Zoo's tuned keywords.

    python zoo.py --library paceline --env CartPole-v1 --seeds 1-20     # adds rows to zoo.csv
    python zoo.py                                                       # prints the table of zoo.csv

Each seed is a run with RL Zoo's keywords and number of steps, without further settings. The row of
the seed has the mean return of 20 greedy episodes after the run. Rows name the version of the
library, so stable-baselines3 has to run only once. Rows without seconds were measured on a busy
machine. The table shows means, their standard errors, and whether Paceline's mean is lower by more
than one standard error of the difference.
"""

import argparse
import csv
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent.parent / "zoo.csv"
COLUMNS = ("library", "version", "env", "seed", "mean_return", "seconds")
EPISODES = 20

# From RL Zoo's hyperparams/dqn.yml: steps, and keywords of DQN("MlpPolicy", env, ...).
NETWORK = {"policy_kwargs": {"net_arch": [256, 256]}}
LANDER: dict[str, Any] = NETWORK | {
    "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0, "gamma": 0.99,
    "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12, "exploration_final_eps": 0.1,
}  # fmt: skip
ZOO: dict[str, tuple[int, dict[str, Any]]] = {
    "CartPole-v1": (50_000, NETWORK | {
        "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
        "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16, "exploration_final_eps": 0.04,
    }),
    "MountainCar-v0": (120_000, NETWORK | {
        "learning_rate": 4e-3, "batch_size": 128, "buffer_size": 10_000, "learning_starts": 1000, "gamma": 0.98,
        "target_update_interval": 600, "train_freq": 16, "gradient_steps": 8, "exploration_fraction": 0.2, "exploration_final_eps": 0.07,
    }),
    "Acrobot-v1": (100_000, LANDER),
    "LunarLander-v3": (100_000, LANDER),
}  # fmt: skip


def run(library: str, env: str, seed: int) -> tuple[str, float, float]:
    """The version of the library, the mean return of the last episodes, and the seconds that learning took."""
    steps, keywords = ZOO[env]
    if library == "paceline":
        import gymnasium

        import paceline

        warnings.simplefilter("ignore", paceline.PacelineWarning)
        with paceline.DQN("MlpPolicy", env, seed=seed, **keywords) as ours:
            began = time.monotonic()
            ours.learn(steps)
            seconds = time.monotonic() - began
            other = gymnasium.make(env) if ours.env_name is None else None  # None: the library makes a built-in environment
            return paceline.__version__, ours.evaluate(other, episodes=EPISODES, seed=seed).mean_return, seconds
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    theirs = stable_baselines3.DQN("MlpPolicy", make_vec_env(env, seed=seed), seed=seed, device="cpu", **keywords)
    began = time.monotonic()
    theirs.learn(steps)
    seconds = time.monotonic() - began
    returns, _ = evaluate_policy(theirs, make_vec_env(env, seed=1000 + seed), EPISODES, return_episode_rewards=True)
    return stable_baselines3.__version__, statistics.mean(returns), seconds


def table(rows: list[dict[str, str]]) -> None:
    print(f"{'environment':<16}{'library':<20}{'seeds':>6}{'mean':>9}{'error':>8}{'least':>9}{'most':>9}{'seconds':>9}")
    for env in ZOO:
        side = {}
        for library in ("paceline", "stable-baselines3"):
            mine = [row for row in rows if (row["library"], row["env"]) == (library, env)]
            returns = [float(row["mean_return"]) for row in mine]
            if len(returns) < 2:
                continue
            side[library] = mean, error = statistics.mean(returns), statistics.stdev(returns) / len(returns) ** 0.5
            print(f"{env:<16}{library:<20}{len(returns):>6}{mean:>9.1f}{error:>8.1f}{min(returns):>9.1f}{max(returns):>9.1f}", end="")
            taken = [float(row["seconds"]) for row in mine if row["seconds"]]
            print(f"{statistics.median(taken):>9.1f}" if taken else f"{'-':>9}")
        if len(side) == 2:
            (ours, e), (theirs, f) = side.values()
            below, error = theirs - ours, (e * e + f * f) ** 0.5
            says = f"ours is {'below' if below > 0 else 'above'} by {abs(below):.1f}, standard error {error:.1f}"
            print(f"{'':16}{says}: {'not ' if below > error else ''}as good")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=("paceline", "stable-baselines3"))
    parser.add_argument("--env", choices=list(ZOO))
    parser.add_argument("--seeds", default="1-5", help="first and last")
    parser.add_argument("--file", type=Path, default=FILE)
    args = parser.parse_args()
    rows = list(csv.DictReader(args.file.read_text().splitlines())) if args.file.exists() else []
    if args.library:
        first, _, last = args.seeds.partition("-")
        for env in [args.env] if args.env else ZOO:
            for seed in range(int(first), int(last or first) + 1):
                version, mean, seconds = run(args.library, env, seed)
                row = dict(zip(COLUMNS, (args.library, version, env, str(seed), f"{mean:.1f}", f"{seconds:.1f}"), strict=True))
                new = not args.file.exists()
                with args.file.open("a", newline="") as f:
                    writer = csv.DictWriter(f, COLUMNS, lineterminator="\n")
                    if new:
                        writer.writeheader()
                    writer.writerow(row)
                rows.append(row)
                print(*row.values(), flush=True)
    table(rows)


if __name__ == "__main__":
    main()
