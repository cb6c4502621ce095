"""Checks that runs with equal settings on one GPU give the same bits.

The runs are repeated, with and without a callback, and with a wait after each update.
Each run is a separate process. Its digest covers the replay memory, both networks and the mean loss.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

# environments, window, precision
CASES = [(1, 1000, "fp32"), (16, 1000, "fp32"), (16, 10_000, "fp32"), (16, 1000, "tf32"), (16, 1000, "bf16")]
LONG = [(1, 10_000, "fp32")]  # takes as long as all CASES together
PLAIN, CALLBACK, ONE_BY_ONE = WAYS = "plain", "callback", "one by one"
TINY = [(1, 20, "fp32"), (4, 40, "fp32")]


def digest(envs: int, window: int, precision: str, way: str, device: str, tiny: bool) -> str:
    """Digest of a run of a warm-up and one and a half windows."""
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
    parser.add_argument("--all", action="store_true", help="also run the longest setting")
    parser.add_argument("--one", nargs=4, metavar=("ENVS", "WINDOW", "PRECISION", "WAY"))
    args = parser.parse_args()
    if args.one:
        envs, window, precision, way = args.one
        print(digest(int(envs), int(window), precision, way, args.device, args.tiny))
        return
    results = []
    cases = TINY if args.tiny else CASES + LONG * args.all
    for envs, window, precision in cases:
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
            failed = f"{way}: status {done.returncode}: {done.stderr.strip()[-300:]}" if done.returncode != 0 else ""
            if failed:
                print(f"W={envs}, window {window}, {precision}, {failed}", flush=True)
            runs.setdefault(way, []).append(failed or done.stdout.strip())
        same = {name: len({*digests}) == 1 for name, digests in runs.items()}
        same["all ways"] = len({digests[0] for digests in runs.values()}) == 1
        same["all ended"] = not any("status" in digest for digests in runs.values() for digest in digests)
        results.append({"envs": envs, "window": window, "precision": precision, "same": same, "runs": runs})
        print(f"W={envs}, window {window}, {precision}: {'the same bits' if all(same.values()) else f'OTHER BITS: {same}'}", flush=True)
        right = sum(all(r["same"].values()) for r in results)
        summary = f"{right} of {len(results)} settings give the same bits, of {len(cases)} to be run"
        Path(args.out).write_text(
            json.dumps(
                {"summary": summary, "results": results},
                indent=1,
            )
        )
    sys.exit(right < len(results))


if __name__ == "__main__":
    main()
