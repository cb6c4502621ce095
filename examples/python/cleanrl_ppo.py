"""PPO in one file, in the style of CleanRL: settings on top, then one loop.

    pip install . torch    # in the checkout
    python cleanrl_ppo.py [--seed 2] [--total_timesteps 500000] ...

The loop works with Gymnasium's vector environments and their wrappers. One line makes the
environments with Paceline; the commented line above it makes them with Gymnasium alone. CartPole-v1
is solved in less than a minute.
"""

import argparse
import time
from collections import deque
from dataclasses import dataclass, fields

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import paceline


@dataclass
class Args:
    seed: int = 1
    total_timesteps: int = 200_000
    learning_rate: float = 1e-3
    num_envs: int = 8
    num_steps: int = 64  # steps of each environment between two updates
    gamma: float = 0.99
    gae_lambda: float = 0.95
    num_minibatches: int = 4
    update_epochs: int = 6
    clip_coef: float = 0.2
    ent_coef: float = 0.0
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5


def layer(inputs, outputs, gain=2**0.5):
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    def __init__(self, envs):
        super().__init__()
        size, actions = envs.single_observation_space.shape[0], envs.single_action_space.n
        self.critic = nn.Sequential(layer(size, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        self.actor = nn.Sequential(layer(size, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, actions, 0.01))

    def value(self, obs):
        return self.critic(obs).squeeze(-1)

    def policy(self, obs):
        return Categorical(logits=self.actor(obs))


parser = argparse.ArgumentParser()
for field in fields(Args):
    parser.add_argument(f"--{field.name}", type=field.type, default=field.default)
args = Args(**vars(parser.parse_args()))
torch.manual_seed(args.seed)
torch.set_num_threads(1)  # more threads do not help such small networks

# envs = gym.make_vec("CartPole-v1", num_envs=args.num_envs, vectorization_mode="sync")
envs = paceline.make_vec("CartPole-v1", num_envs=args.num_envs)
envs = gym.wrappers.vector.RecordEpisodeStatistics(envs)

agent = Agent(envs)
optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

T, N = args.num_steps, args.num_envs
obs = torch.zeros(T + 1, N, *envs.single_observation_space.shape)
actions = torch.zeros(T, N, dtype=torch.long)
logprobs, rewards, terminated, ended = (torch.zeros(T, N) for _ in range(4))
played = torch.zeros(T, N, dtype=torch.bool)

began, last_returns, global_step = time.perf_counter(), deque(maxlen=20), 0
first_obs, _ = envs.reset(seed=args.seed)
obs[T] = torch.as_tensor(first_obs)
over = np.zeros(N, bool)
num_updates = args.total_timesteps // (T * N)

for update in range(num_updates):
    optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - update / num_updates)

    # Step the environments. After an end the next step only resets (Gymnasium's autoreset mode
    # "next step"): its action is ignored, and the row is excluded from learning.
    obs[0] = obs[T]
    for t in range(T):
        with torch.no_grad():
            policy = agent.policy(obs[t])
            actions[t] = policy.sample()
            logprobs[t] = policy.log_prob(actions[t])
        played[t] = torch.as_tensor(~over)
        next_obs, reward, termination, truncation, infos = envs.step(actions[t].numpy())
        over = termination | truncation
        obs[t + 1] = torch.as_tensor(next_obs)
        rewards[t], terminated[t], ended[t] = (torch.as_tensor(x, dtype=torch.float32) for x in (reward, termination, over))
        if "episode" in infos:
            last_returns.extend(infos["episode"]["r"][infos["_episode"]].tolist())
    global_step += T * N

    # Advantages. A truncated episode bootstraps from the value of its last observation.
    with torch.no_grad():
        values = agent.value(obs)
        advantages, following = torch.zeros(T, N), torch.zeros(N)
        for t in reversed(range(T)):
            delta = rewards[t] + args.gamma * values[t + 1] * (1 - terminated[t]) - values[t]
            following = advantages[t] = delta + args.gamma * args.gae_lambda * (1 - ended[t]) * following
        returns = advantages + values[:T]

    # Update.
    b_obs, b_actions, b_logprobs, b_advantages, b_returns = (x[played] for x in (obs[:T], actions, logprobs, advantages, returns))
    for _ in range(args.update_epochs):
        for rows in torch.randperm(len(b_obs)).chunk(args.num_minibatches):
            policy, value = agent.policy(b_obs[rows]), agent.value(b_obs[rows])
            ratio = (policy.log_prob(b_actions[rows]) - b_logprobs[rows]).exp()
            advantage = b_advantages[rows]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
            policy_loss = -torch.min(advantage * ratio, advantage * clipped).mean()
            value_loss = 0.5 * (value - b_returns[rows]).square().mean()
            loss = policy_loss + args.vf_coef * value_loss - args.ent_coef * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimizer.step()

    if (update + 1) % max(1, num_updates // 10) == 0:
        rate = global_step / (time.perf_counter() - began)
        print(f"{global_step:9,} steps, mean return of the last episodes {np.mean(last_returns):6.1f}, {rate:,.0f} steps/s")

envs.close()
print(f"mean return of the last {len(last_returns)} episodes: {np.mean(last_returns):.1f} (475 solves it)")
