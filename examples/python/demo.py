"""What `make demo` shows: three things learnt, and how fast the four modes are.

    python demo.py
    python demo.py --quick

The first takes under ten minutes on two cores; the second does the same in little, to see that it runs.
"""

import argparse
import threading
import time
import warnings

from paceline import DQN, PacelineError, PacelineWarning, bench


def title(text: str) -> None:
    print(f"\n== {text}", flush=True)


def cartpole(quick: bool) -> None:
    title("CartPole-v1: two dense layers, 8 environments, solved at a mean return of 475")
    with DQN.from_preset("tuned", "CartPole-v1", seed=1) as model:
        model.learn(5_000 if quick else 50_000, log_interval=None, progress_bar=True, eval_freq=2500)
        report(model, 475)


def catch(quick: bool) -> None:
    title("Catch-v0: from 84x84 pixels, Nature CNN, 8 environments; perfect is 1")
    with DQN.from_preset("tuned", "Catch-v0", seed=1) as model:
        model.learn(1_500 if quick else 10_000, log_interval=None, progress_bar=True)
        result = model.evaluate(episodes=100)
        print(f"mean return of 100 greedy episodes: {result.mean_return:.2f}")


def pong(seconds: float) -> None:
    title(f"Atari Pong, played by the library: {seconds:.0f} seconds of training, 8 environments")
    try:
        model = DQN(
            "CnnPolicy", "Pong", num_envs=8, buffer_size=50_000, learning_starts=1000, target_update_interval=1000, window=1000,
            exploration_steps=100_000, seed=1,
        )  # fmt: skip
    except PacelineError as err:  # no ROM
        print(f"left out: {err}")
        return
    with model:
        alarm = threading.Timer(seconds, model.stop)
        alarm.start()
        began = time.monotonic()
        try:
            model.learn(1_000_000, log_interval=None, progress_bar=True)
        finally:
            alarm.cancel()
        stats, took = model.stats, time.monotonic() - began
        steps = stats["num_timesteps"]
        print(f"{steps:,.0f} steps ({steps / took:,.0f}/s), {stats['updates']:,.0f} updates", end="")
        print(f", {stats['episodes']:.0f} games played to the end")


def report(model: DQN, solved: float) -> None:
    step = next((step for step, result in model.evaluations if result.mean_return >= solved), None)
    print(f"best mean return of 20 greedy episodes: {model.best_mean_return:.1f}", end="")
    print(f", solved at {step:,} steps" if step is not None else f", {solved:g} not reached")


def modes(quick: bool) -> None:
    title("steps/s of the four modes on this machine (Catch-v0, Nature CNN)")
    options = {"env": "Catch-v0", "num_envs": [1, 8], "steps": 200 if quick else 2000, "trials": 1}
    print(bench.modes_table(bench.run("modes", options)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore", PacelineWarning)
    began = time.monotonic()
    cartpole(quick)
    catch(quick)
    pong(3 if quick else 60)
    modes(quick)
    print(f"\nall of it took {time.monotonic() - began:.0f} seconds")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("\nstopped")
