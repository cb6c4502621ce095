"""What `make demo` shows: three things learnt by PPO, their curves and the agents that play.

    python demo.py [--output FOLDER]
    python demo.py --quick

The first takes some 90 seconds; the second does the same in little, to see that it runs. At the end there are
demo.png and demo.gif, if the package has its extra: pip install 'paceline[atari,plot]'.
"""

import argparse
import threading
import time
import warnings
from pathlib import Path

from paceline import PPO, PacelineError, PacelineWarning, plots, videos
from paceline.curve import LearningCurve

TRAINING = 80  # seconds for all three, of which Pong has what the others leave


def title(text: str) -> None:
    print(f"\n== {text}", flush=True)


def learn(model: PPO, steps: int, seconds: float) -> None:
    """Takes so many steps, or as many as there are in so many seconds."""
    alarm = threading.Timer(seconds, model.stop)
    alarm.start()
    try:
        model.learn(steps, log_interval=None, progress_bar=True)
    finally:
        alarm.cancel()


def task(env: str, preset: str, steps: int, seconds: float, shown: int, says: str) -> tuple[LearningCurve, videos.Recording]:
    """Learns for so many steps or seconds, whichever is over first; shown: steps of the video."""
    title(f"{env}: {says}")
    with PPO.from_preset(preset, env, seed=1) as model:
        learn(model, steps, seconds)
        if preset == "tuned":
            result = model.evaluate(episodes=20)
            print(f"mean return of 20 greedy episodes: {result.mean_return:.2f}")
        return model.learning_curve, videos.record(model, steps=shown)


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
        says = f"Atari, played by the library, for {seconds:.0f} seconds; `paceline train pong --preset fast` goes on to 18"
        shown.append(task("Pong", "fast", 2_000_000, seconds, 180, says))
    except PacelineError as err:  # no ROM
        print(f"left out: {err}")
    curves, recordings = zip(*shown)
    title("what was learnt")
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
