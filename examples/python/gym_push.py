"""Trains on an environment of your own, written against Gymnasium.

    pip install .    # in the checkout
    python gym_push.py

Any gymnasium.Env works, and any gymnasium.vector.VectorEnv in any autoreset mode. This example steps
eight copies together.
"""

import gymnasium
import numpy as np

from paceline import DQN


class Corridor(gymnasium.Env):
    """A corridor of ten cells. The right end ends the episode; 40 steps truncate it."""

    observation_space = gymnasium.spaces.Box(0, 1, (10,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.steps = int(self.np_random.integers(5)), 0
        return self.observe(), {}

    def step(self, action):
        self.cell = max(0, self.cell + (1 if action == 1 else -1))
        self.steps += 1
        arrived = self.cell == 9
        return self.observe(), 1.0 if arrived else -0.01, arrived, self.steps == 40, {}

    def observe(self):
        return np.eye(10, dtype=np.float32)[self.cell]


gymnasium.register("Corridor-v0", Corridor)
env = gymnasium.make_vec("Corridor-v0", num_envs=8, vectorization_mode="sync")
with DQN(
    "MlpPolicy", env, learning_rate=1e-3, buffer_size=20_000, learning_starts=200, target_update_interval=200,
    exploration_fraction=0.5, seed=1,
) as model:  # fmt: skip
    model.learn(8_000, log_interval=None, progress_bar=True)
    result = model.evaluate(gymnasium.make("Corridor-v0"), episodes=20)
    print(f"mean return {result.mean_return:.3f}, {result.mean_length:.1f} steps an episode")
env.close()
