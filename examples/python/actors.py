"""Compares learning by the weights that act: three modes of DQN, and stable-baselines3's DQN, on a pixel game.

    python actors.py [--env Bricks-v0] [--steps 16000] [--seeds 1,2,3,4,5] [--no-sb3]

Each mode has eight environments, the settings of the preset "tuned" and an update every four steps. The window is
half of the target network's period: with a whole period, target and snapshot would be the same weights.

    standard   concurrent=False, synchronized=False: the current weights act (textbook DQN)
    target     concurrent and synchronized, the target network acts (Algorithm 1 of the paper)
    snapshot   concurrent and synchronized, the weights of the window's start act (the default)
    sb3        stable-baselines3's DQN with the same settings, on the same environments

After the same number of steps each run plays 100 greedy episodes. The script prints the mean return of each seed,
and the mean and standard deviation over the seeds. stable-baselines3 must be installed, or give --no-sb3.
"""

import argparse
import importlib.util
import statistics
import warnings

from paceline import DQN, PacelineWarning, make_vec

MODES = {
    "standard": {"concurrent": False, "synchronized": False},
    "target": {"actor": "target", "window": 250},
    "snapshot": {"actor": "snapshot", "window": 250},
}


def ours(env: str, steps: int, seed: int, mode: str) -> float:
    with DQN.from_preset("tuned", env, seed=seed, num_envs=8, **MODES[mode]) as model:
        model.learn(steps, log_interval=None)
        return model.evaluate(episodes=100, seed=seed).mean_return


def sb3(env: str, steps: int, seed: int) -> float:
    from stable_baselines3 import DQN as Theirs
    from stable_baselines3.common.evaluation import evaluate_policy

    from paceline.sb3 import VecEnv

    with DQN.from_preset("tuned", env, num_envs=8) as model:
        names = "learning_rate", "buffer_size", "learning_starts", "batch_size", "gamma", "target_update_interval"
        keywords = {name: getattr(model, name) for name in names}
        keywords["exploration_fraction"] = float(model.setting("exploration_steps")) / steps
        keywords["exploration_final_eps"] = float(model.setting("exploration_final_eps"))
    vec = VecEnv(make_vec(env, num_envs=8, autoreset_mode="same_step"))
    vec.seed(seed)
    # train_freq counts vector steps, each of 8 steps: 2 updates are due after each.
    model = Theirs("CnnPolicy", vec, seed=seed, device="cpu", train_freq=1, gradient_steps=2, **keywords)
    model.learn(steps)
    mean = float(evaluate_policy(model, vec, 100)[0])
    vec.close()
    return mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="Bricks-v0")
    parser.add_argument("--steps", type=int, default=16_000)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--no-sb3", action="store_true")
    args = parser.parse_args()
    if not (args.no_sb3 or importlib.util.find_spec("stable_baselines3")):
        parser.error("stable-baselines3 is not installed: pip install stable-baselines3, or give --no-sb3")
    warnings.simplefilter("ignore", PacelineWarning)
    seeds = [int(seed) for seed in args.seeds.split(",")]
    print(f"{args.env}, {args.steps:,} steps, seeds {args.seeds}: mean returns of 100 greedy episodes")
    for mode in [*MODES] + ["sb3"] * (not args.no_sb3):
        returns = [sb3(args.env, args.steps, seed) if mode == "sb3" else ours(args.env, args.steps, seed, mode) for seed in seeds]
        spread = f" +-{statistics.stdev(returns):6.2f}" if len(returns) > 1 else ""
        print(f"{mode:<10}{statistics.mean(returns):8.2f}{spread}   {', '.join(f'{x:.2f}' for x in returns)}", flush=True)


if __name__ == "__main__":
    main()
