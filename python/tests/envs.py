"""Test environments with observations and rewards that can be computed by hand."""

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

MODES = list(AutoresetMode)


class Counter(gymnasium.Env):
    """Observes (number, episode, step, last action). The reward is the step's index.

    Episode k lasts 3 + k % 3 steps. Even episodes terminate, odd ones are truncated.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, number=0):
        self.number, self.episode, self.count, self.steps_taken, self.resets = number, -1, 0, 0, 0
        self.actions = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.resets += 1
        self.count, self.action = 0, -1
        return self.observe(), {}

    def step(self, action):
        assert isinstance(action, (int, np.integer)) and 0 <= action - self.action_space.start < self.action_space.n
        self.count += 1
        self.steps_taken += 1
        self.action = int(action)
        self.actions.append(self.action)
        last = self.count == 3 + self.episode % 3
        return self.observe(), float(self.count), last and self.episode % 2 == 0, last and self.episode % 2 == 1, {}

    def observe(self):
        return np.array([self.number, self.episode, self.count, self.action], np.float32)


class Image(Counter):
    """Counter with its observation in a uint8 image, channel last: [40, 40, 1]."""

    observation_space = gymnasium.spaces.Box(0, 255, (40, 40, 1), np.uint8)

    def observe(self):
        obs = np.zeros((40, 40, 1), np.uint8)
        obs[0, :4, 0] = [self.number, self.episode % 256, self.count, self.action + 1]
        return obs


def vector(mode, n=1, make=Counter):
    return SyncVectorEnv([lambda i=i: make(i) for i in range(n)], autoreset_mode=mode)


SMALL = {
    "buffer_size": 500,
    "learning_starts": 64,
    "batch_size": 8,
    "train_freq": 4,
    "target_update_interval": 50,
    "window": 40,
    "seed": 7,
    "policy_kwargs": {"net_arch": [16]},
}


class Steps(gymnasium.Env):
    """Episodes of 9 steps (truncated) and 6 steps (terminated) alternate. Every reward is 1."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.episode = -1

    def reset(self, *, seed=None, options=None):
        self.steps, self.episode = 0, self.episode + 1
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        odd = self.episode % 2 == 1
        end = self.steps == (6 if odd else 9)
        return np.full(2, self.steps / 10, np.float32), 1.0, end and odd, end and not odd, {"steps": self.steps}


class Walk(gymnasium.Env):
    """Samples observations from any space. Episodes last 9 steps (truncated) or 6 (terminated);
    every reward is 1.
    """

    action_space = spaces.Discrete(2, start=3)

    def __init__(self, observation_space):
        self.observation_space = observation_space
        self.episode = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps, self.episode = 0, self.episode + 1
        return self.observation_space.sample(), {"begun": True}

    def step(self, action):
        assert self.action_space.contains(action)
        self.steps += 1
        end = self.steps == (6 if self.episode % 2 else 9)
        return self.observation_space.sample(), 1.0, end and self.episode % 2 == 1, end and self.episode % 2 == 0, {"steps": self.steps}
