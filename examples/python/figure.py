"""Draws the image in the README: what `make demo` learns, and the four modes.

    python figure.py [examples/demo.png]

needs matplotlib and a few minutes.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from paceline import DQN, bench

BLUE, GREY = "#2563eb", "#9ca3af"
SEEDS = {1: "#93c5fd", 2: "#3b82f6", 3: "#1e3a8a"}


def curve(ax, env: str, steps: int, every: int, solved: float, title: str) -> None:
    """The mean return of greedy episodes while the preset learns, three seeds."""
    for seed, color in SEEDS.items():
        with DQN.from_preset("tuned", env, seed=seed) as model:
            model.learn(steps, log_interval=None, eval_freq=every)
            points = [(step, result.mean_return) for step, result in model.evaluations]
        ax.plot(*zip(*points), color=color, marker="o", markersize=2.5, label=f"seed {seed}")
    ax.axhline(solved, color=GREY, linestyle="--", linewidth=1)
    ax.set(title=title, xlabel="steps", ylabel="mean return, 20 greedy episodes", xlim=(0, steps))
    ax.legend(frameon=False, fontsize=8)


def modes(ax) -> None:
    report = bench.run("modes", {"env": "Catch-v0", "num_envs": [1, 8], "steps": 2000, "trials": 1})
    cells = report["results"]
    names = [f"{c['mode']}, {c['num_envs']} env{'s' if c['num_envs'] > 1 else ''}" for c in cells]
    bars = ax.barh(names[::-1], [c["median"] for c in cells][::-1], color=[BLUE if c["mode"] == "both" else GREY for c in cells][::-1])
    ax.bar_label(bars, [f"{c['median']:.0f}" for c in cells][::-1], padding=3, fontsize=8)
    ax.set(title=f"four modes, Nature CNN, {report['threads']} cores", xlabel="steps/s (one update of 32 every 4 steps)")
    ax.margins(x=0.15)


def main() -> None:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.6), width_ratios=(1, 1, 1))
    curve(left, "CartPole-v1", 50_000, 2500, 475, "CartPole-v1, solved at 475")
    curve(middle, "Catch-v0", 10_000, 1000, 1.0, "Catch-v0 from pixels, perfect at 1")
    modes(right)
    for ax in (left, middle, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.title.set_fontsize(10)
    figure.tight_layout()
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "demo.png", dpi=130)


if __name__ == "__main__":
    main()
