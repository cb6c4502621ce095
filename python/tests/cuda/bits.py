"""Two runs with equal settings on one GPU: the same bits, for some settings, with a callback as without, and where updates are
enqueued one behind the other as where each is waited for.

Each run is a process of its own. Its digest is of the replay memory, of both networks, and of the mean loss.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

# environments, window, precision
CASES = [(w, window, "fp32") for w in (1, 16) for window in (1000, 10_000)] + [(16, 1000, "tf32"), (16, 1000, "bf16")]
PLAIN, CALLBACK, ONE_BY_ONE = WAYS = "plain", "callback", "one by one"
TINY = [(1, 20, "fp32"), (4, 40, "fp32")]


def digest(envs: int, window: int, precision: str, way: str, device: str, tiny: bool) -> str:
    """What a run ends with: one and a half windows behind a warm-up."""
    from paceline import DQN

    own = (
        {"policy": "MlpPolicy", "env": "CartPole-v1", "batch_size": 4} if tiny else {"policy": "CnnPolicy", "env": "Pong", "batch_size": 32}
    )
    starts = 40 if tiny else 1000
    with DQN(
        **own, num_envs=envs, window=window, concurrent=True, synchronized=True, target_update_interval=window, precision=precision,
        learning_starts=starts, buffer_size=50_000, train_freq=4, device=device, seed=3,
        replay_device="cpu" if way == ONE_BY_ONE else "auto",
    ) as model:  # fmt: skip
        seen: list[int] = []
        model.learn(starts + window * 3 // 2, (lambda *_: seen.append(1) or True) if way == CALLBACK else None, log_interval=None)
        if way == CALLBACK and not seen:
            raise SystemExit("the callback was not called")
        return f"{'/'.join(map(str, model.hashes()))} {float(model.stats['loss']).hex()} {int(model.stats['updates'])}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--one", nargs=4, metavar=("ENVS", "WINDOW", "PRECISION", "WAY"))
    args = parser.parse_args()
    if args.one:
        envs, window, precision, way = args.one
        print(digest(int(envs), int(window), precision, way, args.device, args.tiny))
        return
    results = []
    for envs, window, precision in TINY if args.tiny else CASES:
        runs: dict[str, list[str]] = {}
        for way in (*WAYS, *WAYS):
            command = [
                sys.executable,
                __file__,
                "--out",
                args.out,
                "--one",
                str(envs),
                str(window),
                precision,
                way,
                "--device",
                args.device,
            ]
            done = subprocess.run(command + ["--tiny"] * args.tiny, capture_output=True, text=True)
            sys.stderr.write(done.stderr)
            if done.returncode != 0:
                sys.exit(f"W={envs}, window {window}, {precision}: status {done.returncode}: {done.stderr.strip()[-300:]}")
            runs.setdefault(way, []).append(done.stdout.strip())
        same = {name: len({*digests}) == 1 for name, digests in runs.items()}
        same["one as the other"] = len({digests[0] for digests in runs.values()}) == 1
        results.append({"envs": envs, "window": window, "precision": precision, "same": same, "runs": runs})
        print(f"W={envs}, window {window}, {precision}: {'the same bits' if all(same.values()) else f'OTHER BITS: {same}'}", flush=True)
        right = sum(all(r["same"].values()) for r in results)
        Path(args.out).write_text(
            json.dumps({"summary": f"{right} of {len(results)} settings give the same bits", "results": results}, indent=1)
        )
    sys.exit(right < len(results))


if __name__ == "__main__":
    main()
