"""Trains on Atari Pong through ale-py's vector environment, until Ctrl-C.

    pip install 'paceline[atari]'
    python train_pong.py

Python steps the eight games in one call while the library trains. Ctrl-C saves
the model; running the script again goes on with it. Expect the first won rallies
after a few hundred thousand steps.
"""

from pathlib import Path

from ale_py.vector_env import AtariVectorEnv

from paceline import DQN

CHECKPOINT = Path("pong.paceline")
STEPS = 2_000_000

env = AtariVectorEnv("pong", num_envs=8)
if CHECKPOINT.exists():
    model = DQN.load(CHECKPOINT, env=env)
else:
    model = DQN(
        "CnnPolicy",
        env,
        learning_rate=1e-4,
        buffer_size=100_000,
        learning_starts=10_000,
        target_update_interval=1000,
        exploration_steps=200_000,
        exploration_final_eps=0.01,
        seed=1,
    )
with model:
    try:
        model.learn(STEPS - model.num_timesteps, reset_num_timesteps=False, log_interval=None, progress_bar=True)
    except KeyboardInterrupt:
        print(f"stopped at {model.num_timesteps:,} steps")
    model.save(CHECKPOINT)
    print(f"saved {CHECKPOINT}")
