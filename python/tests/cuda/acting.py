"""Measures the time of acting on an idle GPU, and on a GPU that runs a window's updates.

Both times should be close, because acting has the higher stream priority. A frozen policy chooses
the actions, while another thread trains a DQN on the same GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROWS = (1, 8, 32)


def make(tiny: bool, device: str) -> Any:
    from paceline import DQN

    own: dict[str, Any] = {"policy": "CnnPolicy", "env": "Pong", "batch_size": 32, "window": 10_000, "learning_starts": 2000}
    if tiny:
        own = {"policy": "MlpPolicy", "env": "CartPole-v1", "batch_size": 4, "window": 100, "learning_starts": 40}
    return DQN(
        **own, num_envs=16, concurrent=True, synchronized=True, target_update_interval=own["window"], train_freq=1,
        buffer_size=50_000, precision="fp32" if tiny else "tf32", device=device, seed=1,
    )  # fmt: skip


def milliseconds(model: Any, rows: int, calls: int, more: Callable[[], bool]) -> list[float]:
    """Returns the times of up to `calls` calls. After 10 calls it stops once more() is false."""
    import numpy as np

    obs = np.stack([model.observation_space.sample() for _ in range(rows)])
    times: list[float] = []
    while len(times) < calls and (len(times) < 10 or more()):
        began = time.perf_counter()
        model.predict(obs)
        times.append((time.perf_counter() - began) * 1e3)
    return times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    calls = 20 if args.tiny else 2000
    steps = 400 if args.tiny else 60_000
    results: list[dict[str, Any]] = []
    with make(args.tiny, args.device) as acting, make(args.tiny, args.device) as learning:
        learning.learn(40 if args.tiny else 2000, log_interval=None)  # the warm-up: the next step starts updates
        for state in "idle", "in a window":
            for rows in ROWS:
                learner = threading.Thread(
                    target=learning.learn, args=(steps,), kwargs={"log_interval": None, "reset_num_timesteps": False}
                )
                if state != "idle":
                    learner.start()
                    time.sleep(0.2)  # a window begins
                running = learner.is_alive if learner.ident is not None else lambda: True
                times = milliseconds(acting, rows, calls, running)
                if learner.ident is not None:
                    learning.stop()
                    learner.join()
                ordered = sorted(times)
                results.append(
                    {"state": state, "rows": rows, "calls": len(times), "median": statistics.median(times),
                     "p99": ordered[int(0.99 * (len(ordered) - 1))], "most": ordered[-1]}
                )  # fmt: skip
                print(results[-1], flush=True)
                summary = ", ".join(f"{r['state']} {r['rows']}: {r['median']:.3f} (p99 {r['p99']:.3f}) ms" for r in results)
                Path(args.out).write_text(json.dumps({"summary": summary, "results": results}, indent=1))


if __name__ == "__main__":
    main()
