"""Measures the time of Trainer.act on an idle GPU, and on a GPU that runs a window's updates.

Both times should be close, because acting has the higher stream priority. The environments are
stepped here, because act then computes with the model's own network, which is on the GPU; predict
computes on the CPU. The model on the idle GPU has no updates. The other model gets more updates in
a round than a GPU can do in its time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

ROWS = (1, 8, 32)
LOG = "PACELINE_SOFTWARE_LOG"  # the software device writes every call of the driver to this file


def make(rows: int, learning: bool, tiny: bool, device: str) -> Any:
    """Returns a model that never acts at random after the warm-up."""
    import numpy as np
    from gymnasium.spaces import Box, Discrete

    from paceline import DQN

    rounds, updates = (10, 4) if tiny else (200, 16)  # rounds in a window, updates in a round
    window = rounds * rows
    own: dict[str, Any] = {"policy": "CnnPolicy", "batch_size": 32, "learning_starts": 2000, "buffer_size": 10_000, "precision": "tf32"}
    if tiny:
        own = {"policy": "MlpPolicy", "batch_size": 4, "learning_starts": 40, "buffer_size": 1000}
    own |= {"train_freq": rows, "gradient_steps": updates} if learning else {"train_freq": 10**9}
    return DQN(
        **own, env=(Box(-1, 1, (4,), np.float32) if tiny else Box(0, 255, (4, 84, 84), np.uint8), Discrete(6)), num_envs=rows,
        concurrent=learning, synchronized=True, window=window, target_update_interval=window,
        exploration_initial_eps=0.0, exploration_final_eps=0.0, device=device, seed=1,
    )  # fmt: skip


def milliseconds(model: Any, calls: int, updating: bool) -> list[float]:
    """Returns the times of `calls` calls of act. With `updating`, updates were in progress at the end of each."""
    import numpy as np

    rows = model.n_envs
    obs = np.stack([model.observation_space.sample() for _ in range(rows)])
    rewards, ends = np.zeros(rows, np.float32), np.zeros(rows, bool)
    times: list[float] = []
    model.begin(10**9, obs)
    begun = missed = 0
    while len(times) < calls:
        began = time.perf_counter()
        model.act()
        took = time.perf_counter() - began
        now = model.stats
        # In the warm-up act needs no network. The first call of a window waits for the updates of the window before.
        if now["windows"] == begun > 0:
            if updating and now["updates"] == now["updates_due"]:
                missed += 1
                if missed > calls:
                    raise SystemExit(f"{rows} rows: the updates ended before act in {missed} calls, after {len(times)} others")
            else:
                times.append(took * 1e3)
        begun = now["windows"]
        obs = np.roll(obs, -1, axis=1)  # a stack of frames, and the newest frame is last
        model.observe(obs, rewards, ends, ends)
    return times


def measure(rows: int, learning: bool, tiny: bool, device: str) -> dict[str, Any]:
    calls = 20 if tiny else 2000
    with make(rows, learning, tiny, device) as model:
        if not str(model.device).startswith("cuda"):
            raise SystemExit(f"device: {device}, must be a GPU: the model computes on {model.device}")
        # The software device can end a round's few updates before the next act, so there every call counts.
        times = sorted(milliseconds(model, calls, updating=learning and not tiny))
        updates = model.stats["updates"]
    return {
        "state": "in a window" if learning else "idle", "rows": rows, "calls": len(times), "median": statistics.median(times),
        "p99": times[int(0.99 * (len(times) - 1))], "most": times[-1], "updates": updates,
    }  # fmt: skip


def launches(rows: int, tiny: bool, device: str) -> int:
    """Returns the launches of graphs in an idle measurement, on the software device."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.environ[LOG] = str(Path(folder) / "log")
        try:
            calls = measure(rows, False, tiny, device)["calls"]
        finally:
            del os.environ[LOG]
        count = Path(log).read_text().split().count("cuGraphLaunch")
    if count < calls:
        raise SystemExit(f"{rows} rows: {count} launches in {calls} calls of act, must be one in each")
    return count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="for the software device; checks that act launches on it")
    args = parser.parse_args()
    results: list[dict[str, Any]] = []
    for learning in False, True:
        for rows in ROWS:
            results.append(measure(rows, learning, args.tiny, args.device))
            if args.tiny and not learning:
                results[-1]["launches"] = launches(rows, args.tiny, args.device)
            print(results[-1], flush=True)
            summary = ", ".join(f"{r['state']} {r['rows']}: {r['median']:.3f} (p99 {r['p99']:.3f}) ms" for r in results)
            Path(args.out).write_text(json.dumps({"summary": summary, "results": results}, indent=1))


if __name__ == "__main__":
    main()
