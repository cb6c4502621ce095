"""PPO on Atari in one file of PyTorch, with CleanRL's settings and flow of data.

    pip install envpool torch
    python torch_ppo.py [--env_id Breakout-v5] [--channels_last] [--compile] ...

A port of CleanRL's ppo_atari_envpool.py to current versions of EnvPool and Python: eight
environments, rollouts of 128 steps stored as float32, one forward pass for each step of all
environments, advantages computed backward through the rollout, four epochs of four minibatches.
As in the original, rows of steps that only reset are used for learning, and a time limit counts
as a termination. `python/benchmarks/onpolicy.py` compares the library's PPO with this loop.
"""

import argparse
import time
from dataclasses import dataclass, fields

import envpool
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


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
    gae_lambda: float = 0.95
    clip_coef: float = 0.1
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    channels_last: bool = False
    compile: bool = False
    num_threads: int = 2


def orthogonal(layer, gain=2**0.5):
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    def __init__(self, actions):
        super().__init__()
        self.trunk = nn.Sequential(
            orthogonal(nn.Conv2d(4, 32, 8, 4)), nn.ReLU(),
            orthogonal(nn.Conv2d(32, 64, 4, 2)), nn.ReLU(),
            orthogonal(nn.Conv2d(64, 64, 3, 1)), nn.ReLU(),
            nn.Flatten(), orthogonal(nn.Linear(3136, 512)), nn.ReLU(),
        )  # fmt: skip
        self.actor = orthogonal(nn.Linear(512, actions), 0.01)
        self.critic = orthogonal(nn.Linear(512, 1), 1.0)

    def forward(self, obs):
        hidden = self.trunk(obs / 255.0)
        return self.actor(hidden), self.critic(hidden).flatten()


class Loop:
    """The environments, a rollout and the learner. train(steps) runs whole rollouts."""

    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        torch.set_num_threads(args.num_threads)
        self.envs = envpool.make(
            args.env_id,
            env_type="gymnasium",
            num_envs=args.num_envs,
            num_threads=args.num_threads,
            episodic_life=True,
            reward_clip=True,
            seed=args.seed,
        )
        self.agent = Agent(int(self.envs.action_space.n))
        if args.channels_last:
            self.agent = self.agent.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.Adam(self.agent.parameters(), lr=args.learning_rate, eps=1e-5)
        self.forward = torch.compile(self.agent) if args.compile else self.agent
        self.steps = self.updates = 0
        shape = (args.num_steps, args.num_envs)
        self.obs = torch.zeros(*shape, 4, 84, 84)
        self.actions = torch.zeros(shape, dtype=torch.int64)
        self.log_probs, self.rewards, self.dones, self.values = (torch.zeros(shape) for _ in range(4))
        self.next_obs = torch.from_numpy(self.envs.reset()[0]).float()
        self.next_done = torch.zeros(args.num_envs)
        self.returns = np.zeros(args.num_envs)
        self.ended = []

    def laid_out(self, obs):
        return obs.contiguous(memory_format=torch.channels_last) if self.args.channels_last else obs

    def rollout(self):
        for t in range(self.args.num_steps):
            self.obs[t], self.dones[t] = self.next_obs, self.next_done
            with torch.no_grad():
                logits, self.values[t] = self.forward(self.laid_out(self.next_obs))
                choice = Categorical(logits=logits)
                action = choice.sample()
            self.actions[t], self.log_probs[t] = action, choice.log_prob(action)
            obs, reward, terminated, truncated, info = self.envs.step(action.numpy())
            done = terminated | truncated
            self.rewards[t] = torch.from_numpy(reward)
            self.next_obs, self.next_done = torch.from_numpy(obs).float(), torch.from_numpy(done).float()
            self.returns += info.get("reward", reward)
            self.ended += self.returns[done].tolist()
            self.returns[done] = 0
            self.steps += self.args.num_envs

    def advantages(self):
        args = self.args
        with torch.no_grad():
            next_value = self.forward(self.laid_out(self.next_obs))[1]
        out, after, alive = torch.zeros_like(self.rewards), torch.zeros(args.num_envs), 1.0 - self.next_done
        for t in reversed(range(args.num_steps)):
            delta = self.rewards[t] + args.gamma * next_value * alive - self.values[t]
            out[t] = after = delta + args.gamma * args.gae_lambda * alive * after
            next_value, alive = self.values[t], 1.0 - self.dones[t]
        return out

    def learn(self):
        args = self.args
        advantages = self.advantages()
        flat = [x.flatten(0, 1) for x in (self.obs, self.actions, self.log_probs, advantages, advantages + self.values, self.values)]
        size = len(flat[0]) // args.num_minibatches
        for _ in range(args.update_epochs):
            order = torch.randperm(len(flat[0]))
            for rows in order.split(size):
                obs, actions, old_log_probs, advantage, target, old_values = (x[rows] for x in flat)
                logits, values = self.forward(self.laid_out(obs))
                choice = Categorical(logits=logits)
                ratio = (choice.log_prob(actions) - old_log_probs).exp()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                policy = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)).mean()
                clipped = old_values + (values - old_values).clamp(-args.clip_coef, args.clip_coef)
                value = 0.5 * torch.max((values - target) ** 2, (clipped - target) ** 2).mean()
                loss = policy - args.ent_coef * choice.entropy().mean() + args.vf_coef * value
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.agent.parameters(), args.max_grad_norm)
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
