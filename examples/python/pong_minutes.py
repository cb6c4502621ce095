"""Measures the minutes until PPO's preset "fast" has a mean return of 18 on Pong, one seed after the other.

    pip install 'paceline[atari]'          brings the ROMs; or set PACELINE_ROMS_DIR
    python pong_minutes.py [--seeds 1,2,3] [--preset fast]

Every 50,000 steps the policy plays 30 new games with sampled actions. If their mean return is 18 or
more, 30 further games must confirm it; then the run ends. Games have no sticky actions. The clock
stops during evaluations. A run that does not reach 18 before its schedules end continues in slices
of 500,000 steps, up to 6,000,000 steps; rates rise again at each slice.
"""

import argparse
import time

import paceline
from paceline.callbacks import BaseCallback

EVERY, GAMES, WANTED = 50_000, 30, 18.0
MORE, MOST = 500_000, 6_000_000


class UntilItWins(BaseCallback):
    """Ends learning at the first confirmed mean. The clock starts at construction."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.evaluating, self.due = time.monotonic(), 0.0, EVERY
        self.reached: list[float] = []

    def _on_step(self) -> bool:
        if self.num_timesteps < self.due:
            return True
        self.due += EVERY
        paused = time.monotonic()
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--steps", type=int, default=2_000_000, help="the length of the schedules")
    args = parser.parse_args()
    minutes = []
    for seed in map(int, args.seeds.split(",")):
        with paceline.PPO.from_preset(args.preset, "Pong", seed=seed) as model:
            wins = UntilItWins()
            model.learn(args.steps, callback=wins, log_interval=None)
            while not wins.won() and model.num_timesteps < MOST:
                model.learn(MORE, callback=wins, log_interval=None, reset_num_timesteps=False)
        minutes.append(f"{wins.minutes():.1f}" if wins.won() else "not reached")
        print(f"seed {seed}: {minutes[-1]}", flush=True)
    print(f"minutes to a mean of {WANTED:g}: {', '.join(minutes)}")


if __name__ == "__main__":
    main()
