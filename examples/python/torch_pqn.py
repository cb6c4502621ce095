"""PQN on Atari in one file of PyTorch, with CleanRL's settings and flow of data.

    pip install envpool torch
    python torch_pqn.py [--env_id Breakout-v5] [--channels_last] [--compile] ...

A port of CleanRL's pqn_atari_envpool.py to current versions of EnvPool and Python: eight
environments, rollouts of 128 steps stored as float32, one forward pass for each step of all
environments, returns computed backward through the rollout, four epochs of four minibatches, a
network with layer normalisation. As in the original, rows of steps that only reset are used for
learning, and a time limit counts as a termination. `python/benchmarks/onpolicy.py` compares the
library's PQN with this loop.
"""

import argparse
import time
from dataclasses import dataclass, fields

import envpool
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Args:
    env_id: str = "Pong-v5"
    seed: int = 1
    total_timesteps: int = 10_000_000
    num_envs: int = 8
    num_steps: int = 128
    num_minibatches: int = 4
    update_epochs: int = 4
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    q_lambda: float = 0.65
    start_e: float = 1.0
    end_e: float = 0.01
    exploration_fraction: float = 0.1
    max_grad_norm: float = 10.0
    channels_last: bool = False
    compile: bool = False
    num_threads: int = 2


def orthogonal(layer):
    nn.init.orthogonal_(layer.weight, 2**0.5)
    nn.init.zeros_(layer.bias)
    return layer


def network(actions):
    return nn.Sequential(
        orthogonal(nn.Conv2d(4, 32, 8, 4)), nn.LayerNorm([32, 20, 20]), nn.ReLU(),
        orthogonal(nn.Conv2d(32, 64, 4, 2)), nn.LayerNorm([64, 9, 9]), nn.ReLU(),
        orthogonal(nn.Conv2d(64, 64, 3, 1)), nn.LayerNorm([64, 7, 7]), nn.ReLU(),
        nn.Flatten(), orthogonal(nn.Linear(3136, 512)), nn.LayerNorm(512), nn.ReLU(), orthogonal(nn.Linear(512, actions)),
    )  # fmt: skip


class Loop:
    """The environments, a rollout and the learner. train(steps) runs whole rollouts."""

    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        torch.set_num_threads(args.num_threads)
        options = {"num_threads": args.num_threads, "episodic_life": True, "reward_clip": True, "seed": args.seed}
        self.envs = envpool.make(args.env_id, env_type="gymnasium", num_envs=args.num_envs, **options)
        self.actions_n = int(self.envs.action_space.n)
        self.net = network(self.actions_n)
        if args.channels_last:
            self.net = self.net.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.RAdam(self.net.parameters(), lr=args.learning_rate)

        def q(obs):
            return self.net(obs / 255.0)

        self.q = torch.compile(q) if args.compile else q
        self.steps = self.updates = 0
        shape = (args.num_steps, args.num_envs)
        self.obs = torch.zeros(*shape, 4, 84, 84)
        self.actions = torch.zeros(shape, dtype=torch.int64)
        self.rewards, self.dones, self.values = (torch.zeros(shape) for _ in range(3))
        self.next_obs = torch.from_numpy(self.envs.reset()[0]).float()
        self.next_done = torch.zeros(args.num_envs)
        self.returns = np.zeros(args.num_envs)
        self.ended = []

    def laid_out(self, obs):
        return obs.contiguous(memory_format=torch.channels_last) if self.args.channels_last else obs

    def epsilon(self):
        args = self.args
        slope = (args.end_e - args.start_e) / (args.exploration_fraction * args.total_timesteps)
        return max(args.end_e, args.start_e + slope * self.steps)

    def rollout(self):
        for t in range(self.args.num_steps):
            self.obs[t], self.dones[t] = self.next_obs, self.next_done
            with torch.no_grad():
                q = self.q(self.laid_out(self.next_obs))
            self.values[t], greedy = q.max(1)
            explore = torch.rand(self.args.num_envs) < self.epsilon()
            action = torch.where(explore, torch.randint(self.actions_n, (self.args.num_envs,)), greedy)
            self.actions[t] = action
            obs, reward, terminated, truncated, info = self.envs.step(action.numpy())
            done = terminated | truncated
            self.rewards[t] = torch.from_numpy(reward)
            self.next_obs, self.next_done = torch.from_numpy(obs).float(), torch.from_numpy(done).float()
            self.returns += info.get("reward", reward)
            self.ended += self.returns[done].tolist()
            self.returns[done] = 0
            self.steps += self.args.num_envs

    def targets(self):
        """The Q(lambda) returns, which end at terminations and time limits."""
        args = self.args
        with torch.no_grad():
            value = self.q(self.laid_out(self.next_obs)).max(1).values
        out, after, alive = torch.zeros_like(self.rewards), value, 1.0 - self.next_done
        for t in reversed(range(args.num_steps)):
            out[t] = after = self.rewards[t] + args.gamma * alive * (args.q_lambda * after + (1 - args.q_lambda) * value)
            value, alive = self.values[t], 1.0 - self.dones[t]
        return out

    def learn(self):
        args = self.args
        obs, actions, targets = (x.flatten(0, 1) for x in (self.obs, self.actions, self.targets()))
        for _ in range(args.update_epochs):
            for rows in torch.randperm(len(obs)).split(len(obs) // args.num_minibatches):
                q = self.q(self.laid_out(obs[rows])).gather(1, actions[rows, None]).squeeze(1)
                loss = F.mse_loss(targets[rows], q)
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), args.max_grad_norm)
                self.optimizer.step()
                self.updates += 1

    def train(self, steps):
        end = self.steps + steps
        while self.steps < end:
            share = min(1.0, self.steps / self.args.total_timesteps)
            self.optimizer.param_groups[0]["lr"] = self.args.learning_rate * (1 - share)
            self.rollout()
            self.learn()


def main():
    parser = argparse.ArgumentParser()
    for field in fields(Args):
        if field.type is bool:
            parser.add_argument(f"--{field.name}", action=argparse.BooleanOptionalAction, default=field.default)
        else:
            parser.add_argument(f"--{field.name}", type=field.type, default=field.default)
    args = Args(**vars(parser.parse_args()))
    loop = Loop(args)
    while loop.steps < args.total_timesteps:
        steps, began = loop.steps, time.perf_counter()
        loop.train(10 * args.num_envs * args.num_steps)
        rate, last = (loop.steps - steps) / (time.perf_counter() - began), loop.ended[-20:]
        returns = f"mean return of the last {len(last)} episodes {np.mean(last):.2f}" if last else "no episode has ended"
        print(f"step {loop.steps:,}: {returns}, {rate:,.0f} steps/s", flush=True)


if __name__ == "__main__":
    main()
