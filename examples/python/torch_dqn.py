"""DQN on Atari in one file of PyTorch, optimised for a CPU.

    pip install '.[atari]' torch    # in the checkout
    python torch_dqn.py [--env_id Breakout] [--precision bf16] [--compile] ...

Only the games are Paceline's. A round is one step of all environments: one forward pass chooses
their actions. The updates that are due after the round share one gather from the replay memory and
one pass of the target network. The fastest options are --channels_last (the default) and, in fp32,
--compile, which takes a minute at the start; in bf16 --compile makes no difference.
`python/benchmarks/train.py` tries all options and compares the library's learner with the fastest.

Atari games take millions of steps. --env_id Catch-v0 --learning_starts 1000
--exploration_steps 6000 --total_timesteps 21000 learns within minutes.
"""

import argparse
import time
from dataclasses import dataclass, fields

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import paceline


@dataclass
class Args:
    env_id: str = "Pong"
    seed: int = 1
    total_timesteps: int = 2_000_000
    num_envs: int = 8
    buffer_size: int = 100_000
    learning_starts: int = 10_000
    learning_rate: float = 1e-4
    batch_size: int = 32
    train_frequency: int = 4  # like all periods, in steps summed over the environments
    target_network_frequency: int = 1000
    gamma: float = 0.99
    start_e: float = 1.0
    end_e: float = 0.1
    exploration_steps: int = 200_000
    max_grad_norm: float = 10.0
    precision: str = "fp32"  # or bf16
    channels_last: bool = True
    compile: bool = False
    num_threads: int = 2


class ByteConv2d(nn.Conv2d):
    """A convolution of inputs from 0 to 255, scaled to 0 to 1. It divides the weights, which are fewer than the inputs."""

    def forward(self, x):
        return F.conv2d(x, self.weight / 255, self.bias, self.stride)


def network(outputs):
    return nn.Sequential(
        ByteConv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, outputs),
    )  # fmt: skip


class Replay:
    """A ring buffer of rounds. It stores whole observations (28 kB each) in the network's memory format.

    The newest round has observations but no actions yet. If an episode begins in a round, the round before
    it was only a reset and is not a transition.
    """

    def __init__(self, rounds, num_envs, channels_last, generator):
        self.size, self.n, self.channels_last, self.generator = rounds + 1, num_envs, channels_last, generator
        self.obs = torch.zeros(self.size * num_envs, 4 * 84 * 84, dtype=torch.uint8)
        self.begins = np.zeros((self.size, num_envs), bool)
        self.actions = np.zeros((self.size, num_envs), np.int64)
        self.rewards = np.zeros((self.size, num_envs), np.float32)
        self.terminated = np.zeros((self.size, num_envs), np.float32)
        self.now = self.filled = 0

    def stacks(self, flat):
        """Views rows of obs as uint8 [rows, 4, 84, 84]."""
        return flat.view(-1, 84, 84, 4).permute(0, 3, 1, 2) if self.channels_last else flat.view(-1, 4, 84, 84)

    def latest(self):
        """Returns the newest observations."""
        return self.stacks(self.obs[self.now * self.n : (self.now + 1) * self.n])

    def observe(self, obs, begins):
        """Stores the newest observations, and which of them begin an episode."""
        self.begins[self.now] = begins
        self.latest().copy_(torch.from_numpy(obs))

    def act(self, actions, rewards, terminated):
        """Stores the actions of the newest round and their results. The caller calls observe next."""
        self.actions[self.now], self.rewards[self.now], self.terminated[self.now] = actions, rewards, terminated
        self.now = (self.now + 1) % self.size
        self.filled = min(self.filled + 1, self.size - 1)

    def sample(self, count):
        """Samples transitions uniformly: (observations, next observations, actions, rewards, terminated)."""
        row, env = np.zeros(count, np.int64), np.zeros(count, np.int64)
        wrong = np.ones(count, bool)
        while wrong.any():
            row[wrong] = (self.now - self.generator.integers(1, self.filled + 1, wrong.sum())) % self.size
            env[wrong] = self.generator.integers(self.n, size=wrong.sum())
            wrong = self.begins[(row + 1) % self.size, env]
        rows = (row * self.n + env, (row + 1) % self.size * self.n + env)
        obs, next_obs = (self.stacks(self.obs.index_select(0, torch.from_numpy(r))) for r in rows)
        return obs, next_obs, *(torch.from_numpy(a[row, env]) for a in (self.actions, self.rewards, self.terminated))


class Loop:
    """The environments, the replay memory and the learner."""

    outputs = 1  # of the network, for each action

    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        torch.set_num_threads(args.num_threads)
        torch.set_flush_denormal(True)
        self.envs = paceline.make_vec(args.env_id, args.num_envs, num_threads=args.num_threads, copy=False)
        self.actions = int(self.envs.single_action_space.n)
        self.generator = np.random.default_rng(args.seed)
        self.replay = Replay(args.buffer_size // args.num_envs, args.num_envs, args.channels_last, self.generator)
        layout = torch.channels_last if args.channels_last else torch.contiguous_format
        self.online, self.target = (network(self.outputs * self.actions).to(memory_format=layout) for _ in range(2))
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=args.learning_rate, fused=True)
        self.steps = self.updates = 0
        self.returns = np.zeros(args.num_envs)
        self.ended = []  # returns of whole episodes

        dtype = torch.bfloat16 if args.precision == "bf16" else torch.float32
        self.target.to(dtype).requires_grad_(False)  # only read: no conversion in each pass

        def q(net, obs):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
                return net(obs.to(dtype)).float()

        functions = self.functions(q)
        self.greedy, self.targets, self.loss = (torch.compile(f) for f in functions) if args.compile else functions

        self.replay.observe(self.envs.reset(seed=args.seed)[0], np.ones(args.num_envs, bool))
        self.resets = np.zeros(args.num_envs, bool)  # environments whose next step only resets

    def functions(self, q):
        """Returns the functions that choose actions, compute targets and compute the loss.

        q: computes a network's outputs for observations.
        """

        def greedy(obs):
            return q(self.online, obs).argmax(1)

        def targets(next_obs, rewards, terminated):
            return rewards + self.args.gamma * (1 - terminated) * q(self.target, next_obs).max(1).values

        def loss(obs, actions, y):
            return F.smooth_l1_loss(q(self.online, obs).gather(1, actions[:, None]).squeeze(1), y)

        return greedy, targets, loss

    def round(self, epsilon):
        """Steps all environments once. Steps that only reset count, too."""
        actions = self.generator.integers(self.actions, size=self.args.num_envs)
        greedy = self.generator.random(self.args.num_envs) >= epsilon
        if greedy.any():
            with torch.no_grad():
                actions[greedy] = self.greedy(self.replay.latest()).numpy()[greedy]
        obs, rewards, terminated, truncated, infos = self.envs.step(actions)
        self.replay.act(actions, rewards, terminated)
        self.replay.observe(obs, self.resets)
        self.returns += infos.get("raw_reward", rewards)
        self.steps += self.args.num_envs
        self.resets = terminated | truncated
        self.ended += self.returns[self.resets].tolist()
        self.returns[self.resets] = 0

    def learn(self, count):
        """Does count updates with the current replay memory and target network."""
        size = self.args.batch_size
        obs, next_obs, actions, rewards, terminated = self.replay.sample(count * size)
        with torch.no_grad():
            y = self.targets(next_obs, rewards, terminated)
        for part in zip(obs.split(size), actions.split(size), y.split(size)):
            loss = self.loss(*part)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.online.parameters(), self.args.max_grad_norm)
            self.optimizer.step()
        self.updates += count

    def train(self, steps):
        """Takes steps, random ones up to learning_starts, and does all updates that are due."""
        args, end = self.args, self.steps + steps
        while self.steps < end:
            before, t = self.steps, max(0, self.steps - args.learning_starts)
            warm = before < args.learning_starts
            self.round(1.0 if warm else max(args.end_e, args.start_e + (args.end_e - args.start_e) * t / args.exploration_steps))
            if not warm:
                if due := self.steps // args.train_frequency - before // args.train_frequency:
                    self.learn(due)
                if self.steps // args.target_network_frequency > before // args.target_network_frequency:
                    self.target.load_state_dict(self.online.state_dict())


def main(make=Loop):
    parser = argparse.ArgumentParser()
    for field in fields(Args):
        if field.type is bool:
            parser.add_argument(f"--{field.name}", action=argparse.BooleanOptionalAction, default=field.default)
        else:
            parser.add_argument(f"--{field.name}", type=field.type, default=field.default)
    args = Args(**vars(parser.parse_args()))
    loop = make(args)
    loop.train(args.learning_starts)
    while loop.steps < args.total_timesteps:
        steps, updates, began = loop.steps, loop.updates, time.perf_counter()
        loop.train(10_000)
        steps, updates, seconds = loop.steps - steps, loop.updates - updates, time.perf_counter() - began
        last = loop.ended[-20:]
        returns = f"mean return of the last {len(last)} episodes {np.mean(last):.2f}" if last else "no episode has ended"
        print(f"step {loop.steps:,}: {returns}, {steps / seconds:,.0f} steps/s, {updates / steps:.4f} updates a step", flush=True)


if __name__ == "__main__":
    main()
