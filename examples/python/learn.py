"""What `make learn` shows: that learning works, on three seeds each.

    python learn.py [--env CartPole-v1] [--seeds 1,2,3] [--mode both]

Each task is learnt in standard mode (one environment, both switches off) and with
both on (eight environments), from the preset "tuned". A table tells what was
reached; the exit status is 1 if a threshold was missed.
"""

import argparse
import sys
import time
import warnings
from typing import NamedTuple

from paceline import DQN, PacelineWarning


class Task(NamedTuple):
    env: str
    steps: int
    threshold: float
    # CartPole: the best of the evaluations counts, its weights being kept; the
    # pixel games: the weights at the end, over 100 episodes.
    best_of: bool


TASKS = [
    Task("CartPole-v1", 50_000, 475.0, True),
    Task("Catch-v0", 10_000, 0.9, False),
    Task("Bricks-v0", 16_000, 10.0, False),
]
MODES = {
    "standard": {"num_envs": 1, "concurrent": False, "synchronized": False},
    "both": {"num_envs": 8, "concurrent": True, "synchronized": True},
}


def learn(task: Task, mode: str, seed: int) -> tuple[float, float, str]:
    """(return reached, seconds, remark)."""
    began = time.monotonic()
    with DQN.from_preset("tuned", task.env, seed=seed, **MODES[mode]) as model:
        model.learn(task.steps, log_interval=None, eval_freq=2500 if task.best_of else 0)
        if not task.best_of:
            return model.evaluate(episodes=100, seed=seed).mean_return, time.monotonic() - began, ""
        first = next((step for step, result in model.evaluations if result.mean_return >= task.threshold), None)
        last = model.evaluations[-1][1].mean_return
        remark = f"last {last:.0f}" + (f", first at {first:,}" if first is not None else "")
        return model.best_mean_return, time.monotonic() - began, remark


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", choices=[task.env for task in TASKS])
    parser.add_argument("--mode", choices=list(MODES))
    parser.add_argument("--seeds", default="1,2,3")
    args = parser.parse_args()
    warnings.simplefilter("ignore", PacelineWarning)
    missed = 0
    print(f"{'environment':<13}{'mode':<10}{'seed':>4}{'steps':>9}{'return':>9}{'needed':>8}{'seconds':>9}")
    for task in TASKS:
        for mode in MODES:
            for seed in map(int, args.seeds.split(",")):
                if args.env not in (None, task.env) or args.mode not in (None, mode):
                    continue
                reached, seconds, remark = learn(task, mode, seed)
                missed += reached < task.threshold
                verdict = "" if reached >= task.threshold else "MISSED "
                print(
                    f"{task.env:<13}{mode:<10}{seed:>4}{task.steps:>9,}{reached:>9.2f}{task.threshold:>8g}{seconds:>9.1f}  {verdict}{remark}",
                    flush=True,
                )
    print(f"{missed} missed" if missed else "every threshold was reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
