"""Draws score against lag for the asynchronous methods, on Catch-v0 and Bricks-v0 (an hour on one core).

    python staleness.py --runs staleness.jsonl --figure staleness.png [--seeds 1,2,3] [--steps 100000]

The lag of a gradient is the number of updates of others between the parameters that chose its actions and
the update. Each method runs in virtual time with several lags: A3C and APPO with more and more learners,
which share the same environments, and GA3C with slower and slower updates, with and without V-trace.
With more learners an update also has fewer rows; nothing else changes with the lag. A run is a line of the
file --runs; runs that are in the file are not repeated. The score is the mean return of 20 episodes at the
end. The lag is the mean that was measured.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import paceline
from paceline import A3C, APPO, GA3C


class Series(NamedTuple):
    method: Any
    keywords: dict[str, Any]
    lags: tuple[dict[str, Any], ...]  # keywords that change the lag


ENVS = 32  # of every run, however many learners share them
SMALL = {"num_envs": ENVS, "cnn": "small", "ent_coef": 0.01}
# Lognormal durations: with constant ones learners are almost in lockstep.
LEARNERS = {**SMALL, "latency_gradient": "0.001:1", "latency_push": "0.0001:1"}
AGENTS = {**SMALL, "min_training_batch": 32, "loss_reduction": "mean", "use_rms_prop": False, "learning_rate": 1e-3}
SLOW = tuple({"latency_update": f"{seconds}:0.5"} for seconds in (0.0003, 0.003, 0.005, 0.01))
SERIES = {
    "A3C": Series(
        A3C,
        {**LEARNERS, "n_steps": 5, "learning_rate": 1e-3, "use_rms_prop": False},
        tuple({"learners": k} for k in (1, 4, 8, 32)),
    ),
    "GA3C": Series(GA3C, AGENTS, SLOW),
    "GA3C, V-trace": Series(GA3C, {**AGENTS, "vtrace": True}, SLOW),
    "APPO": Series(
        APPO,
        {**LEARNERS, "n_steps": 64, "batch_size": 64, "n_epochs": 4, "learning_rate": 5e-4, "pull_period": 16},
        tuple({"learners": k} for k in (1, 4, 8, 16)),
    ),
}
TASKS = ("Catch-v0", "Bricks-v0")


def run(series: Series, env: str, change: dict[str, Any], seed: int, steps: int) -> dict[str, Any]:
    began = time.perf_counter()
    with series.method("CnnPolicy", env, seed=seed, **{**series.keywords, **change}) as model:
        model.learn(steps, log_interval=None)
        score = model.evaluate(episodes=20, seed=1).mean_return
        lag = model.stats.get("lag_mean", model.stats["lag"])  # GA3C has the latest update's, too
    return {"lag": lag, "score": score, "seconds": round(time.perf_counter() - began, 1)}


def draw(runs: list[dict[str, Any]], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for ax, env in zip(figure.subplots(1, len(TASKS)), TASKS, strict=True):
        for name in SERIES:
            of = [r for r in runs if r["env"] == env and r["series"] == name]
            places = sorted(
                {json.dumps(r["change"]) for r in of}, key=lambda place: mean(r["lag"] for r in of if json.dumps(r["change"]) == place)
            )
            groups = [[r for r in of if json.dumps(r["change"]) == place] for place in places]
            line = ax.plot(
                [mean(r["lag"] for r in g) for g in groups], [mean(r["score"] for r in g) for g in groups], marker="o", label=name
            )
            ax.scatter([r["lag"] for r in of], [r["score"] for r in of], s=8, color=line[0].get_color(), alpha=0.5)
        ax.set(title=env, xlabel="mean lag, updates", ylabel="mean return of 20 episodes")
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xticks([0, 1, 3, 10, 30], ["0", "1", "3", "10", "30"])
        ax.grid(alpha=0.3)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=len(SERIES), frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default="staleness.jsonl", help="file of runs, to which new ones are added")
    parser.add_argument("--figure", default="staleness.png")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--series", default=",".join(name.replace(", ", "+") for name in SERIES), help="names, as GA3C+V-trace")
    args = parser.parse_args()
    file = Path(args.runs)
    runs = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    names = [name.replace("+", ", ") for name in args.series.split(",")]
    for seed in map(int, args.seeds.split(",")):
        for env in TASKS:
            for name in names:
                for change in SERIES[name].lags:
                    key = {"series": name, "env": env, "change": change, "seed": seed, "steps": args.steps}
                    if any(all(r[k] == v for k, v in key.items()) for r in runs):
                        continue
                    result = run(SERIES[name], env, change, seed, args.steps)
                    runs.append({**key, **result, "version": paceline.__version__})
                    with file.open("a") as out:
                        out.write(json.dumps(runs[-1]) + "\n")
                    says = f"lag {result['lag']:.2f}, return {result['score']:.2f}, {result['seconds']} s"
                    print(f"{name:14} {env:10} seed {seed} {change}: {says}", flush=True)
    draw(runs, args.figure)


if __name__ == "__main__":
    main()
