"""Compares recipe "ale" with ale-py's AtariVectorEnv, by the same actions and without NOOP frames.

    python python/tests/atari/vector.py [--steps N] [--variants] [games ...]

Each game has a line: the largest and the mean difference of observations, and the numbers of
steps in which rewards, ends or infos differ. --variants tests AtariVectorEnv's keywords. The
exit status is 1 if anything differs.
"""

import argparse
import sys
from dataclasses import dataclass

import numpy as np

import paceline

GAMES = [
    "pong",
    "breakout",
    "seaquest",
    "space_invaders",
    "freeway",
    "qbert",
    "beam_rider",
    "enduro",
    "boxing",
    "gravitar",
    "tic_tac_toe_3d",
]

VARIANTS = [
    {"full_action_space": True},
    {"continuous": True},
    {"continuous": True, "full_action_space": True, "continuous_action_threshold": 0.2},
    {"frameskip": 1},
    {"frameskip": 2},
    {"frameskip": 5},
    {"maxpool": False},
    {"maxpool": False, "frameskip": 1},
    {"grayscale": False},
    {"stack_num": 2, "img_height": 50, "img_width": 60},
    {"reward_clipping": False},
    {"life_loss_info": True},
    {"max_num_frames_per_episode": 200},  # a whole number of actions
    {"max_num_frames_per_episode": 203},
    {"use_fire_reset": False},
    {"noop_max": 0},
    {"img_height": 210, "img_width": 160},
]

INFOS = ("lives", "frame_number", "episode_frame_number")


@dataclass
class Differences:
    steps: int = 0
    largest: int = 0
    total: float = 0.0  # sum of the steps' mean differences
    at_ends: int = 0  # largest difference at the end of a game
    observations: int = 0  # steps with a difference, without ends
    rewards: int = 0
    ends: int = 0
    infos: int = 0
    ended: int = 0  # episodes

    def none(self):
        return not (self.observations or self.rewards or self.ends or self.infos or self.at_ends)

    def __str__(self):
        return (
            f"largest {self.largest:3d}  mean {self.total / max(1, self.steps):.6f}  rewards {self.rewards}  "
            f"ends {self.ends} of {self.ended}  infos {self.infos}"
        )


def compare(game, steps, envs=2, seed=5, **keywords):
    """Plays a game with random actions on both sides."""
    from ale_py.vector_env import AtariVectorEnv

    keywords = {"noop_max": 1, **keywords}
    theirs = AtariVectorEnv(game, num_envs=envs, num_threads=1, **keywords)
    ours = paceline.make_vec(f"atari/{game}", envs, num_threads=1, **keywords)
    assert ours.single_action_space == theirs.single_action_space
    assert ours.single_observation_space == theirs.single_observation_space
    found, rng = Differences(), np.random.default_rng(seed)

    def look(a, b, ended):
        distance = np.abs(a.astype(np.int16) - b).reshape(envs, -1)
        found.largest = max(found.largest, int(distance.max()))
        found.total += float(distance.mean())
        found.at_ends = max(found.at_ends, int(distance[ended].max(initial=0)))
        found.observations += bool(distance[~ended].any())

    look(theirs.reset(seed=1)[0], ours.reset(seed=1)[0], np.zeros(envs, bool))
    shown = np.zeros(envs, int)  # number of steps for which the frame of an end stays in the stack
    for _ in range(steps):
        if keywords.get("continuous"):
            actions = rng.uniform([0, -np.pi, 0], [1, np.pi, 1], (envs, 3)).astype(np.float32)
        else:
            actions = rng.integers(0, ours.single_action_space.n, envs)
        a, b = theirs.step(actions), ours.step(actions)
        found.steps += 1
        ended = (a[2] | a[3]) & (a[4]["lives"] == 0 if keywords.get("life_loss_info") else True)
        shown = np.where(ended, 1, np.maximum(shown - 1, 0))
        look(a[0], b[0], shown > 0)
        found.ended += int((a[2] | a[3]).sum())
        found.rewards += bool((a[1] != b[1]).any())
        found.ends += bool((a[2] != b[2]).any() or (a[3] != b[3]).any())
        found.infos += any((a[4][name] != b[4][name]).any() for name in INFOS)
    theirs.close()
    ours.close()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", nargs="*", default=GAMES)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--variants", action="store_true")
    options = parser.parse_args()
    failed = False
    for keywords in VARIANTS if options.variants else [{}]:
        for game in options.games:
            found = compare(game, options.steps, **keywords)
            what = " ".join(f"{key}={value}" for key, value in keywords.items())
            print(f"{game:16s} {found}  {what}", flush=True)
            failed |= not found.none()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
