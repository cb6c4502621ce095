"""Recomputes ten rollouts of paceline.A2C and paceline.PPO with PyTorch (`make test-torch`).

A model learns in recorded environments. PyTorch starts from the same weights and uses the recorded
observations, actions and rewards. Networks, returns, losses, gradients, clipping and optimisers are
PyTorch's or are written here. PPO has one minibatch per rollout and four epochs, so the order of
the rows has no effect. After each rollout the script compares Paceline's weights with PyTorch's
float64 weights. PyTorch's float32 weights are compared in the same way: if rounding turns a ReLU on
or off, a small eps of the optimiser amplifies the difference. The exit status is 1 if Paceline's
error exceeds both 1e-5 of the largest weight and twice the error of PyTorch's float32.

The images are noise. Images with areas of zeros put ReLUs at their kink in the first update: the
biases are 0, so many sums are exactly 0, and the rounding of the convolutions decides their signs.
ReLU's derivative at 0 is 0 in PyTorch. In Paceline it follows the rounded sum, so it may be 1. The
difference shows in the biases of the convolutions.
"""

import functools
import itertools
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn

import paceline

ROUNDS, UPDATES, LIMIT = 5, 10, 1e-5
GAMMA, LAMBDA, ENTROPY = 0.99, 0.95, 0.01


class Recorder(gymnasium.vector.VectorEnv):
    """Wraps a vector environment in same_step mode and records what it returns."""

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
    """Random images and rewards. A step terminates with probability 0.1 and is truncated with
    probability 0.1.
    """

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
    """Stable-Baselines3's network, with its parameter names."""

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


Steps = list[tuple[Any, ...]]


def returns_of(net: Network, steps: Steps, lam: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns advantages and returns of a rollout, computed with the parameters that acted."""
    with torch.no_grad():
        values = [net(s[0])[1].double().numpy() for s in steps]
        after, following_value = 0.0, net(steps[-1][5])[1].double().numpy()
        advantages = []
        for (_, _, rewards, terminated, ended, following), value in zip(reversed(steps), reversed(values)):
            last = net(following)[1].double().numpy() if ended.any() else following_value
            ahead = np.where(terminated, 0.0, np.where(ended, last, following_value))
            after = rewards + GAMMA * ahead - value + GAMMA * lam * np.where(ended, 0.0, after)
            advantages.append(after)
            following_value = value
    advantage = np.concatenate(advantages[::-1])
    dtype = net.values[0].dtype
    return torch.tensor(advantage).to(dtype), torch.tensor(advantage + np.concatenate(values)).to(dtype)


def a2c(net: Network, optimizer: torch.optim.Optimizer, steps: Steps) -> None:
    """A2C.train of Stable-Baselines3."""
    advantage, target = returns_of(net, steps, 1.0)
    logits, values = net(np.concatenate([s[0] for s in steps]))
    dist = torch.distributions.Categorical(logits=logits)
    policy_loss = -(advantage * dist.log_prob(torch.tensor(np.concatenate([s[1] for s in steps])))).mean()
    step(net, optimizer, policy_loss + 0.5 * nn.functional.mse_loss(target, values) - ENTROPY * dist.entropy().mean())


def ppo(net: Network, optimizer: torch.optim.Optimizer, steps: Steps, largest: bool) -> None:
    """Four epochs of PPO.train of Stable-Baselines3. largest takes the larger squared error, as
    CleanRL does.
    """
    advantage, target = returns_of(net, steps, LAMBDA)
    obs, actions = (np.concatenate([s[k] for s in steps]) for k in (0, 1))
    with torch.no_grad():
        logits, old = net(obs)
        log_prob = torch.distributions.Categorical(logits=logits).log_prob(torch.tensor(actions))
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    for _ in range(4):
        logits, values = net(obs)
        dist = torch.distributions.Categorical(logits=logits)
        ratio = (dist.log_prob(torch.tensor(actions)) - log_prob).exp()
        policy_loss = -torch.min(advantage * ratio, advantage * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
        squared = (old + (values - old).clamp(-CLIP, CLIP) - target) ** 2
        if largest:
            squared = torch.max(squared, (values - target) ** 2)
        step(net, optimizer, policy_loss + 0.5 * squared.mean() - ENTROPY * dist.entropy().mean())


def step(net: Network, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimizer.step()


CLIP = 0.02  # small enough that ratios and values exceed it

CASES: dict[str, tuple[Any, dict[str, Any], Any, Any]] = {
    "A2C": (paceline.A2C, {"learning_rate": 7e-4}, a2c, lambda p: torch.optim.RMSprop(p, lr=7e-4, alpha=0.99, eps=1e-5)),
    **{
        name: (
            paceline.PPO,
            {"learning_rate": 1e-3, "n_epochs": 4, "batch_size": 1 << 15, "gae_lambda": LAMBDA, "clip_range": CLIP, "clip_range_vf": CLIP,
             "clip_range_vf_largest": largest},
            functools.partial(ppo, largest=largest),
            lambda p: torch.optim.Adam(p, lr=1e-3, eps=1e-5),
        )
        for name, largest in (("PPO", False), ("PPO, larger error", True))
    },
}  # fmt: skip


def compare(case: str, name: str, policy: str, env: Any, seed: int) -> bool:
    """Runs ten rollouts and prints the errors of Paceline and of PyTorch's float32 against float64.

    Returns whether Paceline's error is within the limit.
    """
    recorder = Recorder(env)
    method, keywords, update, optimizer = CASES[case]
    with method(policy, recorder, n_steps=ROUNDS, gamma=GAMMA, ent_coef=ENTROPY, seed=seed, **keywords) as model:
        first = model.get_parameters()["policy"]
        nets = {dtype: Network(first, dtype) for dtype in (torch.float64, torch.float32)}
        optimizers = {dtype: optimizer(net.parameters()) for dtype, net in nets.items()}
        distances = []
        for k in range(UPDATES):
            recorder.steps.clear()
            model.learn(ROUNDS * env.num_envs, log_interval=None, reset_num_timesteps=k == 0)
            ours = model.get_parameters()["policy"]
            for dtype, net in nets.items():
                update(net, optimizers[dtype], recorder.steps)
            exact, rounded = ({n: p.detach().numpy() for n, p in zip(net.names, net.values)} for net in nets.values())
            largest = max(float(np.abs(weights).max()) for weights in exact.values())
            distances.append([max(float(np.abs(x[n] - exact[n]).max()) for n in exact) / largest for x in (ours, rounded)])
    off, theirs = np.max(distances, axis=0)
    near = off <= max(LIMIT, 2 * theirs)
    print(
        f"{case:<18}{name:<24} seed {seed}: at most {off:.1e} of the largest weight off, "
        f"PyTorch's float32 {theirs:.1e}{'' if near else '  TOO FAR'}"
    )
    return bool(near)


def main() -> int:
    vector: dict[str, Any] = {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": AutoresetMode.SAME_STEP}}
    near = []
    # ignore the warning that batch_size is cut to a rollout
    warnings.simplefilter("ignore", paceline.PacelineWarning)
    for seed, case in itertools.product(range(1, 4), CASES):
        short = gymnasium.make_vec("CartPole-v1", num_envs=8, max_episode_steps=15, **vector)
        near.append(compare(case, "CartPole-v1, MlpPolicy", "MlpPolicy", short, seed))
        noise = gymnasium.vector.SyncVectorEnv([Noise] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
        near.append(compare(case, "noise, CnnPolicy", "CnnPolicy", noise, seed))
    return int(not all(near))


if __name__ == "__main__":
    sys.exit(main())
