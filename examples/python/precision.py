"""Compares precision="bf16" with "fp32": Q-values on Atari frames, and learning.

    python precision.py [precision.png] [--steps 6000] [--seeds 1,2,3]
                                        needs matplotlib and ale-py; takes about twenty minutes

For each of three games a network learns for some thousand steps in fp32. Then it plays, and the same
weights compute the Q-values of the frames in both precisions. On CartPole, Catch and Bricks the
preset "tuned" learns in both precisions.
"""

import argparse
import os
import tempfile
import warnings

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from ale_py.vector_env import AtariVectorEnv

from paceline import DQN, PacelineWarning

GAMES = ("pong", "breakout", "seaquest")
TASKS = {"CartPole-v1": (50_000, 2500, 475.0), "Catch-v0": (10_000, 1000, 0.9), "Bricks-v0": (16_000, 2000, 10.0)}
COLORS = {"fp32": "#2563eb", "bf16": "#ea580c"}


def differences(game: str, steps: int, frames: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Q-values [frames, actions] of one network in fp32 and in bf16."""
    env = AtariVectorEnv(game, num_envs=8)
    with DQN("CnnPolicy", env, buffer_size=20_000, learning_starts=1000, target_update_interval=1000, seed=1) as model:
        model.learn(steps, log_interval=None)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.paceline")
            model.save(path)
            met = []
            obs, _ = env.reset(seed=2)
            while len(met) * 8 < frames:
                actions, _ = model.predict(obs, deterministic=False)
                obs = env.step(actions)[0]
                met.append(obs.copy())
            rows = np.concatenate(met)[:frames]
            q = []
            for precision in ("fp32", "bf16"):
                with DQN.load(path, env, precision=precision) as same:
                    q.append(same.policy_snapshot().q_values(rows))
    env.close()
    return q[0], q[1]


def learning(env: str, precision: str, seed: int) -> list[tuple[int, float]]:
    """(step, mean return of greedy episodes) while the preset learns."""
    steps, every, _ = TASKS[env]
    with DQN.from_preset("tuned", env, seed=seed, num_envs=8, precision=precision) as model:
        model.learn(steps, log_interval=None, eval_freq=every)
        return [(step, result.mean_return) for step, result in model.evaluations]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("image", nargs="?", default="precision.png")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--seeds", default="1,2,3")
    args = parser.parse_args()
    warnings.simplefilter("ignore", PacelineWarning)
    figure, axes = plt.subplots(2, 3, figsize=(13, 6.6))
    print(f"{'game':<10}{'frames':>7}{'mean |Q|':>10}{'std of Q':>10}{'mean |dQ|':>11}{'max |dQ|':>10}{'mean gap':>10}{'same action':>13}")
    for ax, game in zip(axes[0], GAMES):
        q32, q16 = differences(game, args.steps)
        d = np.abs(q16 - q32)
        best = np.sort(q32, axis=1)
        gap = best[:, -1] - best[:, -2]
        same = (q32.argmax(1) == q16.argmax(1)).mean()
        print(
            f"{game:<10}{len(q32):>7}{np.abs(q32).mean():>10.4f}{q32.std():>10.4f}{d.mean():>11.5f}{d.max():>10.5f}{gap.mean():>10.4f}{same:>12.1%}",
            flush=True,
        )
        bins = np.logspace(np.log10(max(1e-7, min(d[d > 0].min(), gap[gap > 0].min()))), np.log10(max(d.max(), gap.max())), 60)
        ax.hist(d.ravel(), bins, weights=np.full(d.size, 1 / d.size), color=COLORS["bf16"], alpha=0.8, label="|Q bf16 - Q fp32|")
        ax.hist(gap, bins, weights=np.full(gap.size, 1 / gap.size), color="#9ca3af", alpha=0.6, label="best - second best Q")
        ax.set(xscale="log", title=f"{game}: same action in {same:.1%} of {len(q32):,} frames", ylabel="share")
        ax.legend(frameon=False, fontsize=8)
    print(f"\n{'environment':<13}{'precision':<11}{'seed':>5}{'best':>9}{'last':>9}{'needed':>8}")
    for ax, env in zip(axes[1], TASKS):
        for precision, color in COLORS.items():
            for i, seed in enumerate(map(int, args.seeds.split(","))):
                points = learning(env, precision, seed)
                returns = [r for _, r in points]
                print(f"{env:<13}{precision:<11}{seed:>5}{max(returns):>9.2f}{returns[-1]:>9.2f}{TASKS[env][2]:>8g}", flush=True)
                ax.plot(*zip(*points), color=color, alpha=0.8, linewidth=1.2, label=precision if i == 0 else None)
        ax.axhline(TASKS[env][2], color="#9ca3af", linestyle="--", linewidth=1)
        ax.set(title=env, xlabel="steps", ylabel="mean return, greedy")
        ax.legend(frameon=False, fontsize=8)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.title.set_fontsize(10)
    figure.tight_layout()
    figure.savefig(args.image, dpi=130)


if __name__ == "__main__":
    main()
