"""What `make demo` shows: three tasks learned by PPO, their curves and the agents that play.

    python demo.py [--output FOLDER]
    python demo.py --quick

The first takes some 90 seconds; the second does the same in little, to see that it runs. At the end there are
demo.png and demo.gif, if the package has its extra: pip install '.[atari,plot]'. Pong takes longer than that,
so beside its beginning stands a whole run that was saved: ../pong_curve.csv.
"""

import argparse
import csv
import threading
import time
import warnings
from pathlib import Path

from paceline import PPO, PacelineError, PacelineWarning, plots, videos
from paceline.curve import LearningCurve

TRAINING = 80  # seconds for all three, of which Pong has what the others leave
PONG_STEPS = 2_000_000  # over which its preset is made to learn
SAVED = Path(__file__).resolve().parents[1] / "pong_curve.csv"  # of PPO.from_preset("fast", "Pong", seed=1)


def title(text: str) -> None:
    print(f"\n== {text}", flush=True)


def learn(model: PPO, steps: int, seconds: float) -> None:
    """Learns for steps, or for seconds if they pass earlier."""
    alarm = threading.Timer(seconds, model.stop)
    alarm.start()
    try:
        model.learn(steps, log_interval=None, progress_bar=True)
    finally:
        alarm.cancel()


def task(env: str, preset: str, steps: int, seconds: float, shown: int, says: str) -> tuple[LearningCurve, videos.Recording]:
    """Learns for steps or seconds, whichever ends first; shown: steps of the video."""
    title(f"{env}: {says}")
    with PPO.from_preset(preset, env, seed=1) as model:
        learn(model, steps, seconds)
        if preset == "tuned":
            result = model.evaluate(episodes=20)
            print(f"mean return of 20 greedy episodes: {result.mean_return:.2f}")
        return model.learning_curve, videos.record(model, steps=shown)


def whole_run(beginning: LearningCurve) -> LearningCurve:
    """The saved run of Pong, in the time it would take at the speed of this beginning; says what more time brings."""
    with SAVED.open(newline="") as file:
        rows = [(int(row["steps"]), float(row["mean_return"])) for row in csv.DictReader(file)]
    speed = beginning.steps[-1] / max(beginning.seconds[-1], 1e-3)
    saved = LearningCurve("Pong, the whole run (saved)")
    for steps, mean_return in rows:
        saved.steps.append(steps)
        saved.seconds.append(steps / speed)
        saved.returns.append(mean_return)
    ahead = next(steps for steps, mean_return in rows if mean_return >= 0)
    print(
        f"This was the beginning. At this machine's {speed:,.0f} steps/s the whole run takes {rows[-1][0] / speed / 60:.0f} minutes; "
        f"the saved run wins more than it loses after {ahead / 1e6:.2f} million steps and ends at {rows[-1][1]:.1f}: "
        "paceline train pong --preset fast"
    )
    return saved


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("."), metavar="FOLDER", help="of demo.png and demo.gif (default: this one)")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", PacelineWarning)
    began = time.monotonic()
    shown = [
        task("CartPole-v1", "tuned", 3_000 if args.quick else 100_000, 20, 600, "two dense layers, solved at a mean return of 475"),
        task("Catch-v0", "tuned", 300 if args.quick else 20_000, 40, 120, "from 84x84 pixels, perfect is 1"),
    ]
    seconds = 2 if args.quick else max(10, TRAINING - (time.monotonic() - began))
    try:
        shown.append(task("Pong", "fast", PONG_STEPS, seconds, 180, f"Atari, the first {seconds:.0f} seconds of a run"))
    except PacelineError as err:  # no ROM
        print(f"left out: {err}")
    curves, recordings = zip(*shown)
    if len(shown) == 3:
        curves += (whole_run(curves[-1]),)
    title("what was learned")
    for name, save, parts in (("demo.png", plots.save_curves, curves), ("demo.gif", videos.save_gif, recordings)):
        try:
            save(args.output / name, *parts)
            print(args.output / name)
        except PacelineError as err:  # a package is missing
            print(f"{name}: left out: {err}")
    print(f"\nall of it took {time.monotonic() - began:.0f} seconds")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\nstopped")
