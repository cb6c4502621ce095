"""stable-baselines3's PPO on environments that Paceline steps.

    pip install '.[sb3]'    # in the checkout
    python ppo_sb3.py

CartPole-v1 is solved in half a minute. For Pong use VecEnv("Pong", ...), "CnnPolicy" and SB3's
settings for Atari.
"""

import time

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

import paceline

torch.set_num_threads(1)  # more threads do not help such small networks
envs = paceline.sb3.VecEnv("CartPole-v1", num_envs=8, seed=1)
model = PPO(
    "MlpPolicy", envs, n_steps=32, batch_size=256, n_epochs=20, gamma=0.98, gae_lambda=0.8, seed=1, device="cpu",
    learning_rate=lambda left: 1e-3 * left, clip_range=lambda left: 0.2 * left,
)  # fmt: skip
began = time.perf_counter()
model.learn(80_000)
print(f"{model.num_timesteps:,} steps in {time.perf_counter() - began:.0f} s")

mean, std = evaluate_policy(model, paceline.sb3.VecEnv("CartPole-v1", num_envs=10, seed=2), n_eval_episodes=100)
print(f"mean return of 100 episodes: {mean:.1f} +- {std:.1f} (475 solves it)")
