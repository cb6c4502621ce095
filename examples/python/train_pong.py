"""DQN on Atari Pong, played inside the library, until 30 games have a mean of 18.

    pip install '.[atari,plot]'            brings the ROMs, in the checkout; or set PACELINE_ROMS_DIR
    python train_pong.py [--folder pong] [--steps 10000000]

The settings are those of CleanRL's dqn_atari.py, except that eight environments act with one forward
pass while the updates run. Every 125,000 steps the network plays 30 games at epsilon .01. Each
evaluation is a row of FOLDER/curve.csv. FOLDER/curve.png shows them with CleanRL's published curve.
Ctrl-C saves the run with its replay memory (7 GB when it is full); the next start continues it.
"""

import argparse
import csv
import time
from pathlib import Path

from paceline import DQN

CLEANRL = Path(__file__).resolve().parents[1] / "pong_dqn_cleanrl.csv"
COLUMNS = ("steps", "updates", "minutes", "cpu_minutes", "return_at_epsilon_.01", "return_while_training")
EVERY = 125_000


def make() -> DQN:
    return DQN(
        "CnnPolicy",
        "Pong",
        num_envs=8,
        learning_rate=1e-4,
        buffer_size=1_000_000,
        learning_starts=80_000,
        batch_size=32,
        gamma=0.99,
        train_freq=4,
        target_update_interval=1000,
        exploration_steps=1_000_000,
        exploration_final_eps=0.01,
        max_grad_norm=None,
        loss="squared",
        precision="bf16",
        env_kwargs={"recipe": "sb3"},
        seed=1,
    )


def read(path: Path) -> list[dict[str, float]]:
    if not path.exists():
        return []
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [{name: int(value) if value.isdigit() else float(value) for name, value in row.items()} for row in csv.DictReader(lines)]


def draw(rows: list[dict[str, float]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    by_steps, by_minutes = figure.subplots(1, 2, sharey=True)
    theirs = [row for row in read(CLEANRL) if row["steps"] <= max(4e6, rows[-1]["steps"])]
    for ax in (by_steps, by_minutes):
        x = [row["steps"] / 1e6 if ax is by_steps else row["cpu_minutes"] / 2 for row in rows]
        ax.plot(x, [row["return_while_training"] for row in rows], color="#2563eb", label="the latest 100 games of training")
        ax.plot(x, [row["return_at_epsilon_.01"] for row in rows], "o", color="#ea580c", markersize=4, label="30 games at epsilon .01")
        ax.grid(color="#e5e7eb")
    line = {"color": "grey", "label": "CleanRL's dqn_atari.py (published)"}
    by_steps.plot([row["steps"] / 1e6 for row in theirs], [row["return"] for row in theirs], **line)
    by_steps.set(xlabel="million agent steps", ylabel="mean return", title="Pong, DQN with CleanRL's settings")
    by_minutes.set(xlabel="processor time, in minutes of two cores", title="bf16, 8 environments, no GPU")
    figure.legend(*by_steps.get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("pong"))
    parser.add_argument("--steps", type=int, default=10_000_000)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    run, curve = args.folder / "run.paceline", args.folder / "curve.csv"
    rows = read(curve)
    minutes, cpu = (rows[-1]["minutes"], rows[-1]["cpu_minutes"]) if rows else (0.0, 0.0)
    with DQN.load(run) if run.exists() else make() as model:
        while model.num_timesteps < args.steps and not (rows and rows[-1]["return_at_epsilon_.01"] >= 18):
            began, cpu_began = time.monotonic(), time.process_time()
            due = min(model.num_timesteps // EVERY * EVERY + EVERY, args.steps)
            try:
                model.learn(due - model.num_timesteps, reset_num_timesteps=False, log_interval=None, progress_bar=True)
            except KeyboardInterrupt:
                print(f"stopped at {model.num_timesteps:,} steps, saving {run}")
                break
            finally:
                minutes += (time.monotonic() - began) / 60
                cpu += (time.process_time() - cpu_began) / 60
            stats = model.stats
            reached = model.evaluate(episodes=30, epsilon=0.01, seed=int(stats["updates"])).mean_return
            rows.append(
                dict(zip(COLUMNS, (model.num_timesteps, stats["updates"], round(minutes, 2), round(cpu, 2), reached, stats["mean_return"])))
            )
            print(f"{model.num_timesteps:,} steps, {minutes:.0f} minutes: a mean of {reached:.1f} over 30 games")
            with curve.open("w", newline="") as out:
                table = csv.DictWriter(out, COLUMNS)
                table.writeheader()
                table.writerows(rows)
            draw(rows, args.folder / "curve.png")
        model.save(run, replay=True)


if __name__ == "__main__":
    main()
