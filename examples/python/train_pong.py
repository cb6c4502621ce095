"""Trains on Atari Pong, played inside the library, until Ctrl-C.

    pip install 'paceline[atari]'     brings the ROMs; or set PACELINE_ROMS_DIR
    python train_pong.py

Ctrl-C saves the model; running the script again goes on with it. Expect the first
won rallies after a few hundred thousand steps.
"""

from pathlib import Path

from paceline import DQN

CHECKPOINT = Path("pong.paceline")
STEPS = 2_000_000

if CHECKPOINT.exists():
    model = DQN.load(CHECKPOINT)
else:
    model = DQN(
        "CnnPolicy",
        "Pong",
        num_envs=8,
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
