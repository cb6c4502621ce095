"""Measures the minutes until a method has a mean return of 18 on Pong, one seed after the other.

    pip install '.[atari]'                 brings the ROMs, in the checkout; or set PACELINE_ROMS_DIR
    python pong_minutes.py [--method ppo] [--preset fast] [--seeds 1,2,3]

Every 50,000 steps (APPO: 100,000, A3C and GA3C: 250,000) the policy plays 30 new games with sampled actions. If
their mean return is 18 or more, 30 further games must confirm it; then the run ends. Games have no sticky
actions. The clock stops during evaluations. A run that does not reach 18 before its schedules end
continues in slices of 500,000 steps, up to --most; rates rise again at each slice.

With --folder the run is saved there before each evaluation, and the same command continues it after a
stop. The clock does not count the time in between.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import paceline
from paceline.callbacks import BaseCallback

GAME, GAMES, WANTED, MORE = "Pong", 30, 18.0, 500_000
# Preset, steps of the schedules, most steps, steps between evaluations.
METHODS = {
    "ppo": (paceline.PPO, "fast", 2_000_000, 6_000_000, 50_000),
    "appo": (paceline.APPO, "tuned", 2_000_000, 6_000_000, 100_000),
    "a3c": (paceline.A3C, "tuned", 12_000_000, 12_000_000, 250_000),
    "ga3c": (paceline.GA3C, "tuned", 12_000_000, 12_000_000, 250_000),
}


class UntilItWins(BaseCallback):
    """Ends learning at the first confirmed mean. The clock starts at construction, at the minutes of an earlier part."""

    def __init__(self, every: int, file: Path | None, minutes: float = 0.0) -> None:
        super().__init__()
        self.every, self.file = every, file
        self.began, self.evaluating, self.due = time.monotonic() - 60 * minutes, 0.0, 0
        self.reached: list[float] = []

    def _on_training_start(self) -> None:
        self.due = (self.num_timesteps // self.every + 1) * self.every

    def _on_step(self) -> bool:
        if self.num_timesteps < self.due:
            return True
        self.due += self.every
        paused = time.monotonic()
        if self.file:
            self.model.save(self.file, replay=True)
            self.file.with_suffix(".json").write_text(json.dumps({"minutes": self.minutes()}))
        self.reached = []
        while len(self.reached) < 2 and all(mean >= WANTED for mean in self.reached):
            seed = self.num_timesteps + len(self.reached)
            self.reached.append(self.model.evaluate(episodes=GAMES, deterministic=False, seed=seed).mean_return)
        self.evaluating += time.monotonic() - paused
        means = "  ".join(f"{mean:6.2f}" for mean in self.reached)
        print(f"{self.num_timesteps:>10,} steps {self.minutes():6.1f} minutes  {means}", flush=True)
        return not self.won()

    def won(self) -> bool:
        return len(self.reached) == 2 and min(self.reached) >= WANTED

    def minutes(self) -> float:
        return (time.monotonic() - self.began - self.evaluating) / 60


def run(method: Any, preset: str, seed: int, steps: int, most: int, every: int, file: Path | None) -> str:
    """Trains with one seed; returns the minutes, or that 18 was not reached."""
    minutes = 0.0
    if file and file.exists():
        model = method.load(file)
        minutes = json.loads(file.with_suffix(".json").read_text())["minutes"]
    else:
        model = method.from_preset(preset, GAME, seed=seed)
    with model:
        wins = UntilItWins(every, file, minutes)
        begun = model.num_timesteps
        left = steps - begun if begun < steps else MORE - (begun - steps) % MORE
        model.learn(left, callback=wins, log_interval=None, reset_num_timesteps=not begun)
        while not wins.won() and model.num_timesteps < most:
            model.learn(MORE, callback=wins, log_interval=None, reset_num_timesteps=False)
    return f"{wins.minutes():.1f}" if wins.won() else "not reached"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", choices=list(METHODS), default="ppo")
    parser.add_argument("--preset", help="default: fast for ppo, otherwise tuned")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, help="the length of the schedules (default 2,000,000; A3C and GA3C 12,000,000)")
    parser.add_argument("--most", type=int, help="the most steps (default 6,000,000; A3C and GA3C 12,000,000)")
    parser.add_argument("--folder", type=Path, help="where runs are saved, so that they go on after a stop")
    args = parser.parse_args()
    method, preset, steps, most, every = METHODS[args.method]
    if args.folder:
        args.folder.mkdir(parents=True, exist_ok=True)
    minutes = []
    for seed in map(int, args.seeds.split(",")):
        file = args.folder / f"{args.method}-{seed}.paceline" if args.folder else None
        minutes.append(run(method, args.preset or preset, seed, args.steps or steps, args.most or most, every, file))
        print(f"seed {seed}: {minutes[-1]}", flush=True)
    print(f"minutes to a mean of {WANTED:g}: {', '.join(minutes)}")


if __name__ == "__main__":
    main()
