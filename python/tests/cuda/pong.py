"""Trains DQN on Pong until 30 full games at epsilon 0.01 have a mean return of at least 18.

A call trains for one slice of time. If the slice does not reach the goal, it saves a checkpoint with
the replay memory in --state, and the next call resumes it. The report has the learning curve over
steps and seconds, the evaluations, and the training time. The policy is saved next to the report.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

GOAL, GAMES, EPSILON = 18.0, 30, 0.01
PROMISING = 17.0  # evaluate when the latest episodes have this mean return
CHUNK, MOST = 25_000, 6_000_000  # steps


def make(tiny: bool, device: str) -> Any:
    from paceline import DQN

    if tiny:
        return DQN(
            "MlpPolicy",
            "CartPole-v1",
            num_envs=4,
            batch_size=4,
            window=40,
            target_update_interval=40,
            learning_starts=40,
            device=device,
            seed=1,
        )
    return DQN(
        "CnnPolicy", "Pong", num_envs=16, concurrent=True, synchronized=True, learning_rate=1e-4, buffer_size=200_000,
        learning_starts=20_000, target_update_interval=1000, window=1000, exploration_steps=200_000, exploration_final_eps=0.01,
        precision="tf32", device=device, seed=1,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--state", required=True, help="a folder")
    parser.add_argument("--seconds", type=float, default=400, help="of a slice, without saving")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args(arguments)
    from paceline import DQN

    goal, chunk, most, promising = (1.0, 60, 180, 1e9) if args.tiny else (GOAL, CHUNK, MOST, PROMISING)
    state, out, began = Path(args.state), Path(args.out), time.monotonic()
    state.mkdir(parents=True, exist_ok=True)
    checkpoint, progress = state / "model.paceline", state / "progress.json"
    report: dict[str, Any] = {"trained_seconds": 0.0, "slices": 0, "reached": None, "curve": [], "evaluations": []}
    if progress.exists() and checkpoint.exists():
        report = json.loads(progress.read_text())
    if report["reached"]:
        print("an earlier slice reached the goal")
    elif report["slices"]:
        model = DQN.load(checkpoint, device=args.device)
    else:
        model = make(args.tiny, args.device)
    if not report["reached"]:
        with model:
            train(model, report, goal, chunk, most, promising, began + args.seconds)
            report["slices"] += 1
            report["device"] = str(model.device)
            with model.policy_snapshot() as policy:
                policy.save(out.with_name("pong_policy.paceline"))
            if not report["reached"]:
                model.save(checkpoint, replay=True)
        progress.write_text(json.dumps(report))
    best = max(report["evaluations"], key=lambda e: e["mean"], default={"mean": float("nan")})
    last = report["curve"][-1]
    seconds = f"{report['trained_seconds']:.0f} s of training"
    if report["reached"]:
        summary = f"mean return {best['mean']:.1f} over {GAMES} games at epsilon {EPSILON} after {last['steps']:,} steps and {seconds}"
    else:
        summary = f"goal not reached after {last['steps']:,} steps and {seconds}: mean return {last['mean_return']:.1f}; call again"
    report["summary"] = summary
    out.write_text(json.dumps(report, indent=1))
    print(report["summary"])
    if not report["reached"] and last["steps"] >= most:
        raise SystemExit(f"{most:,} steps were not enough")


def train(model: Any, report: dict[str, Any], goal: float, chunk: int, most: int, promising: float, until: float) -> None:
    """Runs one slice, at least one chunk."""
    first = True
    while (first or time.monotonic() < until) and model.num_timesteps < most:
        first = False
        began = time.monotonic()
        model.learn(chunk, log_interval=None, reset_num_timesteps=model.num_timesteps == 0)
        report["trained_seconds"] += time.monotonic() - began
        stats = model.stats
        point = {
            "steps": model.num_timesteps,
            "seconds": round(report["trained_seconds"], 2),
            "mean_return": stats["mean_return"],
            "loss": stats["loss"],
        }
        report["curve"].append(point)
        print(json.dumps(point), flush=True)
        if stats["mean_return"] >= promising or model.num_timesteps >= most:
            result = model.evaluate(episodes=GAMES, epsilon=EPSILON, seed=len(report["evaluations"]) + 1)
            report["evaluations"].append({"steps": model.num_timesteps, "mean": result.mean_return, "returns": list(result.returns)})
            print(f"{GAMES} games: {result.mean_return:.2f}", flush=True)
            if result.mean_return >= goal:
                report["reached"] = point
                return


if __name__ == "__main__":
    main()
