"""Ten updates of paceline.A2C recomputed with PyTorch, by `make test-torch`.

A2C learns in recorded environments. PyTorch begins with the same weights and takes the
recorded observations, actions and rewards; networks, returns, losses, gradients, clipping
and RMSProp are PyTorch's own or written here. After each update our weights are compared
with those of PyTorch in float64, and PyTorch's own float32 is, too: where rounding turns a
ReLU on or off, RMSProp's small eps makes whole steps of it, and the weights part. The exit
status is 1 where ours are more than 1e-5 of the largest weight off and more than twice as far
as PyTorch's float32.

The images are noise. On an image with black areas the biases' zeros of the first update make
sums that are exactly 0, where ReLU has no derivative: PyTorch takes 0 there, ours goes by
the sign of its rounding error (core/agents/a2c/doc.go).
"""

import sys
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn

import paceline

ROUNDS, UPDATES, LIMIT = 5, 10, 1e-5


class Recorder(gymnasium.vector.VectorEnv):
    """A vector environment and what it gave, in same_step."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.num_envs, self.metadata = env.num_envs, {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.single_observation_space, self.single_action_space = env.single_observation_space, env.single_action_space
        self.steps: list[tuple[Any, ...]] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        obs, infos = self.env.reset(seed=seed, options=options)
        self.obs = np.array(obs)
        return obs, infos

    def step(self, actions: Any) -> Any:
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        ended = terminated | truncated
        following = np.array(obs)
        for i in np.flatnonzero(ended):
            following[i] = infos["final_obs"][i]
        self.steps.append((self.obs, np.array(actions), np.array(rewards), np.array(terminated), np.array(ended), following))
        self.obs = np.array(obs)
        return obs, rewards, terminated, truncated, infos


class Noise(gymnasium.Env):
    """Images and rewards at random; one step in ten terminates, one in ten is truncated."""

    observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gymnasium.spaces.Discrete(4)

    def _image(self) -> np.ndarray:
        return self.np_random.integers(0, 256, (4, 84, 84), dtype=np.uint8)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._image(), {}

    def step(self, action: Any) -> Any:
        terminated, truncated = self.np_random.random(2) < 0.1
        return self._image(), self.np_random.normal(), bool(terminated), bool(truncated), {}


class Network(nn.Module):
    """Stable-Baselines3's network, by its names of parameters."""

    def __init__(self, parameters: dict[str, np.ndarray], dtype: torch.dtype) -> None:
        super().__init__()
        self.names = list(parameters)
        self.values = nn.ParameterList(torch.tensor(parameters[name], dtype=dtype) for name in self.names)

    def dense(self, x: torch.Tensor, name: str) -> torch.Tensor:
        p = dict(zip(self.names, self.values))
        return nn.functional.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])

    def forward(self, obs: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        p = dict(zip(self.names, self.values))
        x = torch.tensor(obs).to(self.values[0].dtype)
        if "features_extractor.cnn.0.weight" not in p:
            pi = v = x
            for layer in (0, 2):
                pi = torch.tanh(self.dense(pi, f"mlp_extractor.policy_net.{layer}"))
                v = torch.tanh(self.dense(v, f"mlp_extractor.value_net.{layer}"))
        else:
            x = x / 255
            for layer, stride in ((0, 4), (2, 2), (4, 1)):
                name = f"features_extractor.cnn.{layer}"
                x = torch.relu(nn.functional.conv2d(x, p[f"{name}.weight"], p[f"{name}.bias"], stride=stride))
            pi = v = torch.relu(self.dense(x.flatten(1), "features_extractor.linear.0"))
        return self.dense(pi, "action_net"), self.dense(v, "value_net")[:, 0]


def update(net: Network, optimizer: torch.optim.Optimizer, steps: list[tuple[Any, ...]], gamma: float, entropy: float) -> None:
    """One update from the rounds of a rollout."""
    with torch.no_grad():
        ahead = net(steps[-1][5])[1].double().numpy()  # of the observation behind the rollout
        returns = []
        for _, _, rewards, terminated, ended, following in reversed(steps):
            if ended.any():
                ahead = np.where(ended, net(following)[1].double().numpy(), ahead)
            ahead = rewards + gamma * np.where(terminated, 0.0, ahead)
            returns.append(ahead)
    target = torch.tensor(np.concatenate(returns[::-1])).to(net.values[0].dtype)
    logits, values = net(np.concatenate([s[0] for s in steps]))
    dist = torch.distributions.Categorical(logits=logits)
    advantage = (target - values).detach()
    policy_loss = -(advantage * dist.log_prob(torch.tensor(np.concatenate([s[1] for s in steps])))).mean()
    loss = policy_loss + 0.5 * nn.functional.mse_loss(target, values) - entropy * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()


def compare(name: str, policy: str, env: Any, seed: int) -> bool:
    """Prints how far ours and PyTorch's float32 are from its float64 after ten updates; says whether ours is near."""
    recorder = Recorder(env)
    with paceline.A2C(policy, recorder, n_steps=ROUNDS, ent_coef=0.01, seed=seed) as model:
        first = model.get_parameters()["policy"]
        nets = {dtype: Network(first, dtype) for dtype in (torch.float64, torch.float32)}
        optimizers = {dtype: torch.optim.RMSprop(net.parameters(), lr=7e-4, alpha=0.99, eps=1e-5) for dtype, net in nets.items()}
        distances = []
        for k in range(UPDATES):
            recorder.steps.clear()
            model.learn(ROUNDS * env.num_envs, log_interval=None, reset_num_timesteps=k == 0)
            ours = model.get_parameters()["policy"]
            for dtype, net in nets.items():
                update(net, optimizers[dtype], recorder.steps, 0.99, 0.01)
            exact, rounded = ({n: p.detach().numpy() for n, p in zip(net.names, net.values)} for net in nets.values())
            largest = max(float(np.abs(weights).max()) for weights in exact.values())
            distances.append([max(float(np.abs(x[n] - exact[n]).max()) for n in exact) / largest for x in (ours, rounded)])
    off, theirs = np.max(distances, axis=0)
    near = off <= max(LIMIT, 2 * theirs)
    print(
        f"{name:<24} seed {seed}: at most {off:.1e} of the largest weight off, PyTorch's float32 {theirs:.1e}{'' if near else '  TOO FAR'}"
    )
    return bool(near)


def main() -> int:
    vector: dict[str, Any] = {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": AutoresetMode.SAME_STEP}}
    near = []
    for seed in range(1, 6):
        short = gymnasium.make_vec("CartPole-v1", num_envs=8, max_episode_steps=15, **vector)
        near.append(compare("CartPole-v1, MlpPolicy", "MlpPolicy", short, seed))
        noise = gymnasium.vector.SyncVectorEnv([Noise] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
        near.append(compare("noise, CnnPolicy", "CnnPolicy", noise, seed))
    return int(not all(near))


if __name__ == "__main__":
    sys.exit(main())
