"""Writes reference.json: what PyTorch computes for the cases in reference_test.go.

    python generate_reference.py [output]        (needs torch and numpy)

For each case, ten DQN updates on ten batches. Weights and batches are not stored:
both sides make them from the integer hash below. Of every gradient (of the first
and the last update), of every parameter after the ten updates and of every array
of optimiser state, the file holds the norm, the largest magnitude, and all
elements or, of large arrays, every n-th.
The networks and names are those of the q_net of Stable-Baselines3's DQN.
Run it again only to change the cases; `make test-torch` compares a fresh output.
"""

import itertools
import json
import pathlib
import sys

import numpy as np
import torch
from torch import nn

STEPS, KEEP = 10, 48


def mix(x):
    """A 32-bit integer hash (the finaliser of MurmurHash3)."""
    x = np.asarray(x, dtype=np.uint32)
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def bits(key, n):
    with np.errstate(over="ignore"):
        return mix(np.arange(n, dtype=np.uint32) + mix(key))


def uniform(key, n, low, high):
    return (low + (high - low) * (bits(key, n).astype(np.float64) / 2**32)).astype(np.float32)


class Trunk(nn.Module):
    """NatureCNN, or Flatten without parameters."""

    def __init__(self, case):
        super().__init__()
        self.picture = case["arch"] == "nature_cnn"
        if self.picture:
            c, h, w = case["obs"]
            self.cnn = nn.Sequential(
                nn.Conv2d(c, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten()
            )
            flat = self.cnn(torch.zeros(1, c, h, w)).shape[1]
            self.linear = nn.Sequential(nn.Linear(flat, 512), nn.ReLU())

    def forward(self, x):
        return self.linear(self.cnn(x)) if self.picture else x.flatten(1)


class QNet(nn.Module):
    def __init__(self, case, key):
        super().__init__()
        self.features_extractor = Trunk(case)
        widths = [512] if case["arch"] == "nature_cnn" else [int(np.prod(case["obs"])), *case["hidden"]]
        layers = []
        for i, o in itertools.pairwise(widths):
            layers += [nn.Linear(i, o), nn.ReLU()]
        self.q_net = nn.Sequential(*layers, nn.Linear(widths[-1], case["actions"]))
        fan_in = 0
        for i, p in enumerate(self.parameters()):
            if p.dim() > 1:
                fan_in = p[0].numel()
            p.data = torch.from_numpy(uniform(key + i, p.numel(), -(fan_in**-0.5), fan_in**-0.5)).reshape(p.shape)

    def forward(self, x):
        return self.q_net(self.features_extractor(x))


def batch(case, step):
    n, key, size = case["batch"], 10000 + 100 * step, int(np.prod(case["obs"]))

    def obs(k):
        if case["dtype"] == "uint8":
            x = (bits(k, n * size) >> np.uint32(24)).astype(np.float32) / np.float32(255)
        else:
            x = uniform(k, n * size, -2, 2)
        return torch.from_numpy(x).reshape(n, *case["obs"])

    actions = torch.from_numpy((bits(key + 2, n) % np.uint32(case["actions"])).astype(np.int64))
    rewards = torch.from_numpy(uniform(key + 3, n, -case["reward"], case["reward"]))
    discounts = torch.from_numpy(np.where(bits(key + 4, n) % 4 == 0, 0, 0.99).astype(np.float32))
    return obs(key), obs(key + 1), actions, rewards, discounts


class MnihRMSProp:
    """DeepMind's 2015 release: centred, eps inside the root."""

    def __init__(self, params, lr):
        self.params, self.lr, self.state = (
            params,
            lr,
            {p: {"square_avg": torch.zeros_like(p), "grad_avg": torch.zeros_like(p)} for p in params},
        )

    @torch.no_grad()
    def step(self):
        for p in self.params:
            a, s = self.state[p]["grad_avg"], self.state[p]["square_avg"]
            a.mul_(0.95).add_(0.05 * p.grad)
            s.mul_(0.95).add_(0.05 * p.grad * p.grad)
            p -= self.lr * p.grad / torch.sqrt(s - a * a + 0.01)


def optimizer(case, params):
    o = case["optimizer"]
    match o["name"]:
        case "rmsprop_mnih":
            return MnihRMSProp(params, case["lr"]), {"square_avg": "square_avg", "grad_avg": "grad_avg"}
        case "adam":
            return torch.optim.Adam(params, lr=case["lr"], eps=o["eps"]), {"m": "exp_avg", "v": "exp_avg_sq"}
        case "adagrad":
            return torch.optim.Adagrad(params, lr=case["lr"]), {"sum": "sum"}
        case "rmsprop":
            return torch.optim.RMSprop(params, lr=case["lr"], eps=o["eps"], centered=o["centered"]), {
                "square_avg": "square_avg",
                "grad_avg": "grad_avg",
            }


def summary(t):
    x = t.detach().numpy().ravel()
    stride = -(-len(x) // KEEP)
    return {
        "norm": float(np.sqrt(np.sum(x.astype(np.float64) ** 2))),
        "largest": float(np.abs(x).max()),
        "stride": stride,
        "values": [float(f"{v:.9g}") for v in x[::stride]],
    }


def run(case):
    theta, target = QNet(case, 1000), QNet(case, 2000)
    names, params = zip(*theta.named_parameters())
    opt, states = optimizer(case, params)
    loss_fn = {"huber": nn.functional.smooth_l1_loss, "squared": nn.functional.mse_loss}[case["loss"]["kind"]]
    out = dict(case, losses=[], norms=[], gradients=[])
    for step in range(STEPS):
        obs, next_obs, actions, rewards, discounts = batch(case, step)
        with torch.no_grad():
            y = rewards + discounts * target(next_obs).max(dim=1).values
        q = theta(obs).gather(1, actions[:, None])[:, 0]
        loss = loss_fn(q, y, reduction=case["loss"]["reduction"])
        for p in params:
            p.grad = None
        loss.backward()
        out["losses"].append(float(loss.detach()))
        if step in (0, STEPS - 1):
            out["gradients"].append({n: summary(p.grad) for n, p in zip(names, params)})
        if case["clip"]:
            out["norms"].append(float(nn.utils.clip_grad_norm_(params, case["clip"])))
        opt.step()
    out["shapes"] = [[n, list(p.shape)] for n, p in zip(names, params)]
    out["parameters"] = {n: summary(p) for n, p in zip(names, params)}
    out["state"] = {
        ours: {n: summary(opt.state[p][theirs]) for n, p in zip(names, params)}
        for ours, theirs in states.items()
        if theirs in opt.state[params[0]]
    }
    return out


def main():
    nature = {"arch": "nature_cnn", "obs": [2, 52, 44], "dtype": "uint8", "actions": 4, "hidden": None, "batch": 5}
    mlp = {"arch": "mlp", "obs": [6], "dtype": "float32", "actions": 3, "hidden": [24, 17], "batch": 12}
    huber_adam = {
        "loss": {"kind": "huber", "reduction": "mean"},
        "optimizer": {"name": "adam", "eps": 1e-5},
        "lr": 5e-4,
        "clip": 0,
        "reward": 2,
    }
    mnih = {"loss": {"kind": "huber", "reduction": "sum"}, "optimizer": {"name": "rmsprop_mnih"}, "lr": 2.5e-4, "clip": 0, "reward": 2}
    squared = {
        "loss": {"kind": "squared", "reduction": "mean"},
        "optimizer": {"name": "adam", "eps": 1e-5},
        "lr": 5e-4,
        "clip": 10,
        "reward": 18,
    }
    cases = [net | recipe for net in (nature, mlp) for recipe in (huber_adam, mnih, squared)]
    # The other optimisers, on the small network; eps large enough that rounding noise takes no full steps.
    cases += [
        mlp | huber_adam | {"optimizer": {"name": "rmsprop", "eps": 1e-3, "centered": False}},
        mlp | huber_adam | {"optimizer": {"name": "rmsprop", "eps": 1e-3, "centered": True}},
        mlp | squared | {"optimizer": {"name": "adagrad"}, "clip": 5},
    ]
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("reference.json")
    result = {"torch": torch.__version__.split("+")[0], "cases": [run(c) for c in cases]}
    path.write_text(json.dumps(result, separators=(",", ":")).replace('{"arch"', '\n{"arch"') + "\n")
    print(f"{path}: {path.stat().st_size} bytes, torch {result['torch']}")


main()
