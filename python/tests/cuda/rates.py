"""Measures agent steps/s on Pong in every precision: fast DQN with 16 environments, PPO with 8 x 128.

The goals are for a server GPU. The summary names missed goals; they are not failures.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOALS = {"dqn": 20_000, "ppo": 15_000}
PRECISIONS = ("fp32", "tf32", "bf16")
TURNS = 3


def dqn(precision: str, tiny: bool, device: str) -> Any:
    """The preset fastdqn: F = 4, minibatches of 32, windows of 10,000."""
    from paceline import DQN

    own: dict[str, Any] = {"num_envs": 16, "learning_starts": 20_000}
    if tiny:
        own = {
            "num_envs": 4,
            "learning_starts": 40,
            "batch_size": 4,
            "window": 40,
            "target_update_interval": 40,
            "policy": "MlpPolicy",
            "buffer_size": 1000,
        }
    return DQN.from_preset("fastdqn", "CartPole-v1" if tiny else "Pong", precision=precision, device=device, seed=1, **own)


def ppo(precision: str, tiny: bool, device: str) -> Any:
    from paceline import PPO

    if tiny:
        return PPO(
            "MlpPolicy", "CartPole-v1", num_envs=2, n_steps=16, batch_size=16, n_epochs=1, precision=precision, device=device, seed=1
        )
    return PPO.from_preset("cleanrl", "Pong", precision=precision, device=device, seed=1)


def measure(make: Callable[[str, bool, str], Any], precision: str, tiny: bool, device: str, warm_up: int, steps: int) -> dict[str, Any]:
    with make(precision, tiny, device) as model:
        model.learn(warm_up, log_interval=None)
        turns = []
        for _ in range(TURNS):
            before, began = model.stats, time.perf_counter()
            model.learn(steps, log_interval=None, reset_num_timesteps=False)
            seconds, after = time.perf_counter() - began, model.stats
            turns.append((after["num_timesteps"] - before["num_timesteps"]) / seconds)
        shares = {name: after[f"utilisation_{name}"] for name in ("step", "act", "learn", "wait")}
        return {
            "precision": precision,
            "turns": turns,
            "steps_per_second": statistics.median(turns),
            "shares": shares,
            "device": str(model.device),
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    results: dict[str, list[dict[str, Any]]] = {"dqn": [], "ppo": []}
    # Warm-up and timed steps: DQN warms up beyond learning_starts, PPO for two rollouts.
    work = {"dqn": (dqn, 80, 80) if args.tiny else (dqn, 40_000, 50_000), "ppo": (ppo, 32, 32) if args.tiny else (ppo, 2048, 40_960)}
    for name, (make, warm_up, steps) in work.items():
        for precision in PRECISIONS[:1] if args.tiny else PRECISIONS:
            results[name].append(measure(make, precision, args.tiny, args.device, warm_up, steps))
            print(name, results[name][-1], flush=True)
            summary = []
            for method, measured in results.items():
                rates = {r["precision"]: r["steps_per_second"] for r in measured}
                texts = [f"{p} {rate:,.0f}" for p, rate in rates.items()]
                missed = "" if args.tiny or not rates or max(rates.values()) >= GOALS[method] else f" (below the goal of {GOALS[method]:,})"
                summary.append(f"{method} {', '.join(texts)} steps/s{missed}")
            Path(args.out).write_text(json.dumps({"summary": "; ".join(summary), "goals": GOALS, **results}, indent=1))


if __name__ == "__main__":
    main()
