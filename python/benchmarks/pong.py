"""Steps/s of DQN's four modes while training on Atari Pong: python python/benchmarks/pong.py"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from _command import MODES, command, table
from paceline import DQN, PacelineError, PacelineWarning
from paceline.bench.envs import numbers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--num-envs", type=numbers, default="1,8", help="comma-separated (default 1,8)")
    parser.add_argument("--steps", type=int, default=2000, help="steps measured for each cell (default 2000)")
    parser.add_argument("--ale-py", action="store_true", help="step the games from Python through ale-py")
    parser.add_argument("--sb3", action="store_true", help="also measure stable-baselines3's DQN on ale-py's games, same batch and ratio")


def atari(game: str, num_envs: int, same_step: bool = False) -> Any:
    """ale-py's vector environment; raises PacelineError without ale-py."""
    import gymnasium

    try:
        from ale_py.vector_env import AtariVectorEnv
    except ImportError:
        raise PacelineError("ale-py is not installed: pip install 'paceline[atari]'") from None
    mode = gymnasium.vector.AutoresetMode
    return AtariVectorEnv(game, num_envs=num_envs, autoreset_mode=mode.SAME_STEP if same_step else mode.NEXT_STEP)


def print_report(args: argparse.Namespace) -> None:
    cells = {(label, w): rate for label, w, rate in measure(args.num_envs, args.steps, args.sb3, args.ale_py)}
    by = "ale-py" if args.ale_py else "paceline"
    if args.json:
        rows = [{"mode": label, "num_envs": w, "steps_per_second": rate, "stepped_by": by} for (label, w), rate in cells.items()]
        print(json.dumps(rows))
        return
    labels = [label for label, _, _ in MODES] + (["stable-baselines3"] if args.sb3 else [])
    texts = {key: f"{rate:,.0f}" for key, rate in cells.items()}
    notes = f"Nature CNN, batch 32, one update per 4 steps, {args.steps} steps a cell after a warm-up of 1,000."
    if args.ale_py:
        notes = "Python steps all environments in one call, so synchronized changes only how Q-values are computed.\n" + notes
    elif args.sb3:
        notes = "stable-baselines3's environments are ale-py's.\n" + notes
    print(table(f"Pong stepped by {by}, steps/s while training", args.num_envs, texts, labels, notes))


def measure(columns: list[int], steps: int, sb3: bool = False, ale_py: bool = False) -> Iterator[tuple[str, int, float]]:
    """Yields (mode, num_envs, steps/s) of each cell."""
    for w in columns:
        for label, concurrent, synchronized in MODES:
            env: Any = atari("pong", w) if ale_py else "Pong"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PacelineWarning)
                with DQN(
                    "CnnPolicy", env, num_envs=w, buffer_size=20_000, learning_starts=1000, target_update_interval=1000,
                    window=1000, concurrent=concurrent, synchronized=synchronized, seed=1, device="cpu",
                ) as model:  # fmt: skip
                    model.learn(1000 + w, log_interval=None)
                    yield label, w, _rate(lambda: model.learn(steps, log_interval=None, reset_num_timesteps=False), steps)
            if ale_py:
                env.close()
        if sb3:
            yield "stable-baselines3", w, _measure_sb3(w, steps)


def _rate(learn: Callable[[], Any], steps: int) -> float:
    began = time.perf_counter()
    learn()
    return steps / (time.perf_counter() - began)


def _measure_sb3(w: int, steps: int) -> float:
    try:
        import stable_baselines3
    except ImportError:
        raise PacelineError("stable-baselines3 is not installed: pip install 'paceline[sb3]'") from None
    from paceline.sb3 import VecEnv

    # One update per 4 steps for any number of environments.
    ratio: dict[str, Any] = {"train_freq": 4, "gradient_steps": 1} if w < 4 else {"train_freq": 1, "gradient_steps": w // 4}
    env = VecEnv(atari("pong", w, same_step=True))
    model: Any = stable_baselines3.DQN(
        "CnnPolicy", env, buffer_size=20_000, learning_starts=1000, target_update_interval=max(1, 1000 // w), seed=1, **ratio
    )
    model.learn(1000, log_interval=None)
    rate = _rate(lambda: model.learn(steps, log_interval=None, reset_num_timesteps=False), steps)
    env.close()
    return rate


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
