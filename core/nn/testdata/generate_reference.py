"""Writes reference.json: what PyTorch computes for the cases in reference_test.go.

    python generate_reference.py [output]        (needs torch and numpy)

For each case, ten updates (or as many as it says) on as many batches: of DQN, or of
advantage actor-critic, of PPO, of PQN, of categorical DQN, of quantile regression DQN or of
implicit quantile networks.
Weights and batches are not stored: both sides make them from the integer hash below. Of every gradient (of the first
and the last update), of every parameter after the ten updates and of every array
of optimiser state, the file holds the norm, the largest magnitude, and all
elements or, of large arrays, every n-th.
The networks and names are those of the q_net of Stable-Baselines3's DQN, of its
ActorCriticPolicy, and of the quantile_net of sb3-contrib's QRDQN.
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


CNNS = {  # convolutions (outputs, kernel, stride), and the width of the dense layer behind them
    "nature_cnn": ([(32, 8, 4), (64, 4, 2), (64, 3, 1)], 512),
    "small_cnn": ([(16, 8, 4), (32, 4, 2)], 256),
    "minatar_cnn": ([(16, 3, 1)], 128),
    "dopamine_cnn": ([(32, 8, 4), (64, 4, 2), (64, 3, 1)], 512),
    "der_cnn": ([(32, 5, 5), (64, 5, 5)], 256),
    "ga3c_3_cnn": ([(32, 8, 3), (32, 4, 2), (64, 4, 2)], 256),
}


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's padding "SAME": of an odd number of zeros, the far side has more."""

    def forward(self, x):
        width, height = ((-(-n // s) - 1) * s + k - n for n, k, s in zip(x.shape[:1:-1], self.kernel_size, self.stride))
        return super().forward(nn.functional.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2)))


class ChannelNorm(nn.Module):
    """flax's LayerNorm: over the channels of [n, C, H, W] at each position."""

    def __init__(self, channels, eps):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels)), eps

    def forward(self, x):
        last = nn.functional.layer_norm(x.movedim(1, -1), self.weight.shape, self.weight, self.bias, self.eps)
        return last.movedim(-1, 1)


def norm(case, *shape):
    """What stands between a layer with outputs of that shape and its activation."""
    match case.get("norm"):
        case None:
            return []
        case "layer_channels" if len(shape) == 3:
            return [ChannelNorm(shape[0], case["norm_eps"])]
        case _:
            return [nn.LayerNorm(shape, case["norm_eps"])]


class NoisyLinear(nn.Linear):
    """Factorised noise of Fortunato et al. 2018, section 3 (b)."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.weight_sigma, self.bias_sigma = nn.Parameter(torch.zeros(outputs, inputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        noise = torch.outer(self.out, self.into)
        return nn.functional.linear(x, self.weight + self.weight_sigma * noise, self.bias + self.bias_sigma * self.out)


def dense(case, inputs, outputs):
    return (NoisyLinear if case.get("noisy") else nn.Linear)(inputs, outputs)


def draw(module, key):
    """Gives the noisy layers their noise: of each layer the inputs', then the outputs'."""
    layers = [layer for layer in module.modules() if isinstance(layer, NoisyLinear)]
    e = torch.from_numpy(uniform(key, sum(sum(layer.weight.shape) for layer in layers), -2, 2))
    f = e.sign() * e.abs().sqrt()
    for layer in layers:
        layer.into, layer.out, f = f[: layer.in_features], f[layer.in_features :][: layer.out_features], f[sum(layer.weight.shape) :]


class Trunk(nn.Module):
    """NatureCNN or its smaller kin, or Flatten without parameters."""

    def __init__(self, case, last=True):
        super().__init__()
        self.image = case["arch"] in CNNS
        self.linear = None
        self.width = int(np.prod(case["obs"]))
        if self.image:
            c, h, w = case["obs"]
            convolutions, width = CNNS[case["arch"]]
            layers, inputs = [], c
            for outputs, kernel, stride in convolutions:
                conv = nn.Conv2d
                if case["arch"] == "dopamine_cnn":
                    conv, h, w = SameConv2d, h + kernel - 1, w + kernel - 1  # outputs are inputs / stride, rounded up
                h, w = (h - kernel) // stride + 1, (w - kernel) // stride + 1
                layers += [conv(inputs, outputs, kernel, stride), *norm(case, outputs, h, w), nn.ReLU()]
                inputs = outputs
            self.cnn = nn.Sequential(*layers, nn.Flatten())
            self.width = inputs * h * w
            if last:
                self.linear = nn.Sequential(dense(case, self.width, width), *norm(case, width), nn.ReLU())
                self.width = width

    def forward(self, x):
        x = self.cnn(x) if self.image else x.flatten(1)
        return self.linear(x) if self.linear else x


def fill(module, key):
    """Overwrites the parameters with numbers of the hash: a norm's scales are 0.5 to 1.5."""
    fan_in, key, sigmas = 0, key - 1, []
    for layer in module.modules():
        for name, p in layer.named_parameters(recurse=False):
            if layer is module:  # log_std
                continue
            if name.endswith("_sigma"):
                sigmas.append(p)
                continue
            key += 1
            low, high = -0.5, 0.5
            if isinstance(layer, nn.LayerNorm | ChannelNorm):
                if p is layer.weight:
                    low, high = 0.5, 1.5
            else:
                if p.dim() > 1:
                    fan_in = p[0].numel()
                low, high = -(fan_in**-0.5), fan_in**-0.5
            p.data = torch.from_numpy(uniform(key, p.numel(), low, high)).reshape(p.shape)
    for p in sigmas:
        key += 1
        p.data = torch.from_numpy(uniform(key, p.numel(), 0, 0.2)).reshape(p.shape)
    for p in module.parameters(recurse=False):
        p.data = torch.from_numpy(uniform(key + 1, p.numel(), -0.5, 0.5))


def named_parameters(module):
    """As torch has them, but the sigmas of noisy layers, and log_std, are the last."""
    return sorted(module.named_parameters(), key=lambda named: named[0].endswith("_sigma") + 2 * (named[0] == "log_std"))


def branches(case):
    """The outputs of each branch of an action."""
    return case.get("branches", [case["actions"]])


class Dueling(nn.Sequential):
    """The streams of Wang et al. 2016 on some layers. Returns points as [n, action, point] or [n, point, action]."""

    def __init__(self, case, layers, width, hidden):
        super().__init__(*layers)
        self.rescaled, self.by_action = case["dueling"] == "rescaled", "atoms" in case
        self.shape = [points(case), case["actions"]][:: -1 if self.by_action else 1]
        for name, outputs in (("value", points(case)), ("advantage", points(case) * case["actions"])):
            top = [dense(case, width, hidden), *norm(case, hidden), nn.ReLU()]
            self.add_module(name, nn.Sequential(*top, dense(case, hidden, outputs)))

    def forward(self, x):
        for name, layer in self.named_children():
            if name.isdigit():
                x = layer(x)
        if self.rescaled and x.requires_grad:
            x.register_hook(lambda grad: grad * 2**-0.5)
        advantage, actions = self.advantage(x).unflatten(1, self.shape), 1 if self.by_action else 2
        value = self.value(x).unsqueeze(actions)
        return (value + advantage - advantage.mean(dim=actions, keepdim=True)).flatten(1)


class Implicit(nn.Sequential):
    """The layers of Dabney et al. 2018 above features, and at taus [n, N] their quantiles [n, N, action]."""

    def __init__(self, case, layers, width, hidden):
        super().__init__(*layers)
        self.below, self.cosines = len(layers), case["cosines"]
        self.embedding = dense(case, case["cosines"], width)
        for layer in (dense(case, width, hidden), nn.ReLU(), dense(case, hidden, case["actions"])):
            self.add_module(str(len(self) - 1), layer)

    def forward(self, x, taus):
        for layer in range(self.below):
            x = getattr(self, str(layer))(x)
        cosines = torch.cos(torch.pi * torch.arange(1, self.cosines + 1) * taus[:, :, None])
        x = x[:, None, :] * torch.relu(self.embedding(cosines))
        for layer in range(3):
            x = getattr(self, str(self.below + layer))(x)
        return x


def points(case):
    """The numbers of each output that a loss sees."""
    return case.get("atoms", case.get("quantiles", 1))


class QNet(nn.Module):
    def __init__(self, case, key):
        super().__init__()
        splits = "dueling" in case or "cosines" in case  # the head has the last layer of the trunk
        self.features_extractor = Trunk(case, not splits)
        widths = [self.features_extractor.width, *(case["hidden"] or [])]
        top = 0
        if splits:
            top = widths.pop() if case["hidden"] else CNNS[case["arch"]][1]
        layers = []
        for i, o in itertools.pairwise(widths):
            layers += [dense(case, i, o), *norm(case, o), nn.ReLU()]
        if "cosines" in case:
            net = Implicit(case, layers, widths[-1], top)
        elif top:
            net = Dueling(case, layers, widths[-1], top)
        else:
            net = nn.Sequential(*layers, dense(case, widths[-1], case["actions"] * points(case)))
        self.name = "quantile_net" if "quantiles" in case or "cosines" in case else "q_net"
        self.add_module(self.name, net)
        fill(self, key)

    def forward(self, x):
        return getattr(self, self.name)(self.features_extractor(x))

    def quantiles(self, x, taus):
        return getattr(self, self.name)(self.features_extractor(x), taus)


class MlpExtractor(nn.Module):
    """A trunk for the policy and one for the value, each with layers of its own."""

    def __init__(self, case, width):
        super().__init__()
        activation = {"relu": nn.ReLU, "tanh": nn.Tanh}[case["activation"]]

        def trunk(widths):
            layers = []
            for i, o in zip([width, *widths], widths):
                layers += [nn.Linear(i, o), *norm(case, o), activation()]
            return nn.Sequential(*layers)

        self.policy_net, self.value_net = trunk(case["hidden"]), trunk(case["hidden_v"])


class ActorCritic(nn.Module):
    """Actions of branches, of "box" Gaussians, or of both, which Stable-Baselines3 has not."""

    def __init__(self, case, key):
        super().__init__()
        self.features_extractor = Trunk(case)
        width = self.features_extractor.width
        self.mlp_extractor = MlpExtractor(case, width) if case["arch"] == "mlp" else None
        policy = case["hidden"][-1] if self.mlp_extractor else width
        heads = {}
        if branches(case):
            heads["action_net"] = sum(branches(case))
        if "box" in case:
            heads["mu_net" if heads else "action_net"] = case["box"]
            self.log_std = nn.Parameter(torch.zeros(case["box"]))
        for name, out in heads.items():
            setattr(self, name, nn.Linear(policy, out))
        self.heads = list(heads)
        self.value_net = nn.Linear(case["hidden_v"][-1] if self.mlp_extractor else width, 1)
        fill(self, key)

    def forward(self, x):
        """Returns the outputs of the policy's heads, and the values."""
        pi = v = self.features_extractor(x)
        if self.mlp_extractor:
            pi, v = self.mlp_extractor.policy_net(pi), self.mlp_extractor.value_net(v)
        return [getattr(self, head)(pi) for head in self.heads], self.value_net(v).flatten()


def observations(case, key):
    n, size = case["batch"], int(np.prod(case["obs"]))
    if case["dtype"] == "uint8":
        x = (bits(key, n * size) >> np.uint32(24)).astype(np.float32) / np.float32(255)
    else:
        x = uniform(key, n * size, -2, 2)
    return torch.from_numpy(x).reshape(n, *case["obs"])


def chosen(case, key):
    return torch.from_numpy((bits(key, case["batch"]) % np.uint32(case["actions"])).astype(np.int64))


def transitions(case, key):
    n = case["batch"]
    rewards = torch.from_numpy(uniform(key + 3, n, -case["reward"], case["reward"]))
    discounts = torch.from_numpy(np.where(bits(key + 4, n) % 4 == 0, 0, 0.99).astype(np.float32))
    return observations(case, key), observations(case, key + 1), chosen(case, key + 2), rewards, discounts


class QLearning:
    """DQN's loss, with a target network of its own."""

    def __init__(self, case):
        self.case, self.net, self.target = case, QNet(case, 1000), QNet(case, 2000)
        kinds = {"huber": nn.functional.smooth_l1_loss, "squared": nn.functional.mse_loss}
        self.loss_fn = kinds[case["loss"]["kind"]]

    def loss(self, step):
        case, key = self.case, 10000 + 100 * step
        obs, next_obs, actions, rewards, discounts = transitions(case, key)
        with torch.no_grad():
            if "munchausen" in case:
                y = munchausen(case, self.target(obs), self.target(next_obs)[:, None], actions, rewards, discounts)[:, 0]
            else:
                y = rewards + discounts * self.target(next_obs).max(dim=1).values
        q = self.net(obs).gather(1, actions[:, None])[:, 0]
        return self.loss_fn(q, y, reduction=case["loss"]["reduction"]), []


class Categorical:
    """C51 of Bellemare et al. 2017, with a target network of its own, as rlax and Dopamine project."""

    def __init__(self, case):
        self.case, self.net, self.target = case, QNet(case, 1000), QNet(case, 2000)
        self.atoms = torch.linspace(case["min"], case["max"], case["atoms"])

    def loss(self, step):
        case, n, key = self.case, self.case["batch"], 10000 + 100 * step
        obs, next_obs, actions, rewards, discounts = transitions(case, key)
        shape = (n, case["actions"], case["atoms"])
        with torch.no_grad():
            p = self.target(next_obs).view(shape).softmax(dim=2)
            p = p[torch.arange(n), (p * self.atoms).sum(dim=2).argmax(dim=1)]
            z = (rewards[:, None] + discounts[:, None] * self.atoms).clamp(case["min"], case["max"])
            step = self.atoms[1] - self.atoms[0]
            shares = (1 - (z[:, None, :] - self.atoms[None, :, None]).abs() / step).clamp(0, 1)
            target = (shares * p[:, None, :]).sum(dim=2)
        log_p = self.net(obs).view(shape)[torch.arange(n), actions].log_softmax(dim=1)
        rows = -(target * log_p).sum(dim=1)
        return weighted(case, rows, key), []


class QuantileRegression:
    """QR-DQN of Dabney et al. 2018; loss and layout as sb3-contrib's quantile_huber_loss and QuantileNetwork."""

    def __init__(self, case):
        self.case, self.net, self.target = case, QNet(case, 1000), QNet(case, 2000)

    def loss(self, step):
        case, n, key, kappa = self.case, self.case["batch"], 10000 + 100 * step, self.case["loss"]["kappa"]
        obs, next_obs, actions, rewards, discounts = transitions(case, key)
        shape = (n, case["quantiles"], case["actions"])
        with torch.no_grad():
            x = self.target(next_obs).view(shape)
            if "munchausen" in case:
                here = self.target(obs).view(shape).mean(dim=1)
                target = munchausen(case, here, x, actions, rewards, discounts)
            else:
                x = x[torch.arange(n), :, x.mean(dim=1).argmax(dim=1)]
                target = rewards[:, None] + discounts[:, None] * x
        own = self.net(obs).view(shape)[torch.arange(n), :, actions]
        taus = (torch.arange(case["quantiles"]) + 0.5) / case["quantiles"]
        return weighted(case, quantile_huber(own, target, taus[None], kappa), key), []


class ImplicitQuantiles:
    """IQN of Dabney et al. 2018: taus of their own for the loss, for the target and for the choice of its action."""

    def __init__(self, case):
        self.case, self.net, self.target = case, QNet(case, 1000), QNet(case, 2000)

    def loss(self, step):
        case, n, key, kappa = self.case, self.case["batch"], 10000 + 100 * step, self.case["loss"]["kappa"]
        obs, next_obs, actions, rewards, discounts = transitions(case, key)
        taus, target_taus, choosing, acting = (
            torch.from_numpy(uniform(key + k, n * case[of], 0, 1)).view(n, -1)
            for k, of in ((6, "taus"), (7, "targets"), (8, "choosing"), (9, "choosing"))
        )
        with torch.no_grad():
            means = self.target.quantiles(next_obs, choosing).mean(dim=1)
            x = self.target.quantiles(next_obs, target_taus)
            if "munchausen" in case:
                here = self.target.quantiles(obs, acting).mean(dim=1)
                target = munchausen(case, here, x, actions, rewards, discounts, means)
            else:
                target = rewards[:, None] + discounts[:, None] * x[torch.arange(n), :, means.argmax(dim=1)]
        own = self.net.quantiles(obs, taus)[torch.arange(n), :, actions]
        return weighted(case, quantile_huber(own, target, taus, kappa), key), []


def quantile_huber(own, target, taus, kappa):
    """The losses [n] of quantiles own [n, quantiles] of the probabilities taus [n or 1, quantiles]; target is [n, points]."""
    u = target[:, None, :] - own[:, :, None]
    huber = torch.where(u.abs() > kappa, kappa * (u.abs() - kappa / 2), u**2 / 2) / kappa
    return ((taus[:, :, None] - (u.detach() < 0).float()).abs() * huber).mean(dim=2).sum(dim=1)


def munchausen(case, here, following, actions, rewards, discounts, means=None):
    """Targets [n, points] of Vieillard et al. 2020; here is [n, actions], following [n, points, actions].

    means are the values of the policy after the step, [n, actions]. None: those of following.
    """
    alpha, tau, least = case["munchausen"]
    log_pi = (here / tau).log_softmax(dim=1).gather(1, actions[:, None])[:, 0]
    means = following.mean(dim=1) if means is None else means
    next_log_pi = (means / tau).log_softmax(dim=1)[:, None, :]
    soft = (next_log_pi.exp() * (following - tau * next_log_pi)).sum(dim=2)
    return (rewards + alpha * (tau * log_pi).clamp(least, 0))[:, None] + discounts[:, None] * soft


def weighted(case, rows, key):
    """The mean or the sum of losses, times importance weights where the loss has them."""
    if "importance" in case["loss"]:
        rows = rows * torch.from_numpy(uniform(key + 5, len(rows), 0.1, 2))
    return rows.mean() if case["loss"]["reduction"] == "mean" else rows.sum()


def distribution(case, net, outputs, key, rows):
    """The log-probabilities of the actions and the entropies of some rows.

    Both are sums over the branches and Gaussians, as in Stable-Baselines3 and, with masks, sb3-contrib.
    """
    n, widths, outputs = case["batch"], branches(case), list(outputs)
    log_prob = entropy = 0
    if widths:
        actions = (bits(key + 2, n * len(widths)).reshape(n, -1) % np.array(widths, dtype=np.uint32)).astype(np.int64)
        logits = outputs.pop(0)
        if case.get("masks"):
            allowed = bits(key + 9, n * sum(widths)).reshape(n, -1) % 4 != 0
            np.put_along_axis(allowed, actions + np.cumsum([0, *widths[:-1]]), True, axis=1)
            logits = torch.where(torch.from_numpy(allowed)[rows], logits, torch.tensor(-1e8))
        for branch, action in zip(logits.split(widths, dim=1), torch.from_numpy(actions)[rows].T):
            pi = torch.distributions.Categorical(logits=branch)
            log_prob, entropy = log_prob + pi.log_prob(action), entropy + pi.entropy()
    if "box" in case:
        x = torch.from_numpy(uniform(key + 8, n * case["box"], -1.5, 1.5)).reshape(n, -1)[rows]
        pi = torch.distributions.Normal(outputs[0], torch.ones_like(outputs[0]) * net.log_std.exp())
        log_prob, entropy = log_prob + pi.log_prob(x).sum(dim=1), entropy + pi.entropy().sum(dim=1)
    return log_prob, entropy


class AdvantageActorCritic:
    """Stable-Baselines3's A2C.train, on the rows whose weight is 1."""

    def __init__(self, case):
        self.case, self.net = case, ActorCritic(case, 1000)

    def loss(self, step):
        case, n, key = self.case, self.case["batch"], 10000 + 100 * step
        rows = torch.from_numpy(bits(key + 5, n) % 4 != 0)
        assert rows.any()
        outputs, values = self.net(observations(case, key)[rows])
        advantages = torch.from_numpy(uniform(key + 3, n, -2, 2))[rows]
        returns = torch.from_numpy(uniform(key + 4, n, -case["reward"], case["reward"]))[rows]
        log_prob, entropy = distribution(case, self.net, outputs, key, rows)
        policy = -(advantages * log_prob).mean()
        value = nn.functional.mse_loss(returns, values)
        entropy = entropy.mean()
        o = case["loss"]
        return policy - o["entropy_coef"] * entropy + o["value_coef"] * value, [float(x.detach()) for x in (policy, value, entropy)]


class ClippedActorCritic(AdvantageActorCritic):
    """PPO of Schulman et al. 2017 as Stable-Baselines3 (value_clip "alone") and CleanRL ("largest") write it.

    On the rows whose weight is 1. The probabilities and values of acting are other ones, so that some
    ratios and values are within their ranges and some out of them.
    """

    def loss(self, step):
        case, o, n, key = self.case, self.case["loss"], self.case["batch"], 10000 + 100 * step
        rows = torch.from_numpy(bits(key + 5, n) % 4 != 0)
        column = lambda k, low, high: torch.from_numpy(uniform(key + k, n, low, high))[rows]  # noqa: E731
        outputs, values = self.net(observations(case, key)[rows])
        advantages, returns = column(3, -2, 2), column(4, -case["reward"], case["reward"])
        log_prob, entropy = distribution(case, self.net, outputs, key, rows)
        log_ratio = log_prob - column(6, *case.get("log_prob", (-2, 0)))
        ratio = log_ratio.exp()
        within = torch.clamp(ratio, 1 - o["clip_range"], 1 + o["clip_range"])
        policy = -torch.min(advantages * ratio, advantages * within).mean()
        error = (values - returns) ** 2
        if o["value_clip"]:
            old = column(7, -1, 1)
            clipped = (old + torch.clamp(values - old, -o["value_range"], o["value_range"]) - returns) ** 2
            error = torch.max(error, clipped) if o["value_clip"] == "largest" else clipped
        value, entropy = error.mean(), entropy.mean()
        outside = (torch.abs(ratio - 1) > o["clip_range"]).float().mean()
        assert 0 < outside < 1 and (not o["value_clip"] or 0 < ((values - old).abs() > o["value_range"]).float().mean() < 1)
        parts = [policy, value, entropy, (ratio - 1 - log_ratio).mean(), outside]
        return policy - o["entropy_coef"] * entropy + o["value_coef"] * value, [float(x.detach()) for x in parts]


class PQN:
    """The error of Q(lambda) returns, squared, with weights of 0 and 1, times scale (0.5 as the authors have it)."""

    def __init__(self, case):
        self.case, self.net = case, QNet(case, 1000)

    def loss(self, step):
        case, n, key = self.case, self.case["batch"], 10000 + 100 * step
        rows = torch.from_numpy(bits(key + 5, n) % 4 != 0)
        returns = torch.from_numpy(uniform(key + 3, n, -case["reward"], case["reward"]))
        q = self.net(observations(case, key)).gather(1, chosen(case, key + 2)[:, None])[:, 0]
        return case["loss"]["scale"] * nn.functional.mse_loss(q[rows], returns[rows]), []


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


class RMSpropInside:
    """RMSProp with eps inside the root; with first_average 1 Stable-Baselines3's RMSpropTFLike."""

    def __init__(self, params, lr, decay, eps, first_average):
        self.params, self.lr, self.decay, self.eps = params, lr, decay, eps
        self.state = {p: {"square_avg": torch.full_like(p, first_average)} for p in params}

    @torch.no_grad()
    def step(self):
        for p in self.params:
            s = self.state[p]["square_avg"]
            s.mul_(self.decay).addcmul_(p.grad, p.grad, value=1 - self.decay)
            p.addcdiv_(p.grad, s.add(self.eps).sqrt_(), value=-self.lr)


def optimizer(case, params):
    o = case["optimizer"]
    match o["name"]:
        case "rmsprop_mnih":
            return MnihRMSProp(params, case["lr"]), {"square_avg": "square_avg", "grad_avg": "grad_avg"}
        case "adam":
            return torch.optim.Adam(params, lr=case["lr"], eps=o["eps"]), {"m": "exp_avg", "v": "exp_avg_sq"}
        case "radam":
            return torch.optim.RAdam(params, lr=case["lr"], eps=o["eps"]), {"m": "exp_avg", "v": "exp_avg_sq"}
        case "adagrad":
            return torch.optim.Adagrad(params, lr=case["lr"]), {"sum": "sum"}
        case "rmsprop" if o.get("eps_inside"):
            return RMSpropInside(params, case["lr"], o["decay"], o["eps"], o["first_average"]), {"square_avg": "square_avg"}
        case "rmsprop":
            opt = torch.optim.RMSprop(params, lr=case["lr"], alpha=o.get("decay", 0.99), eps=o["eps"], centered=o["centered"])
            return opt, {"square_avg": "square_avg", "grad_avg": "grad_avg"}


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
    methods = {
        "actor_critic": AdvantageActorCritic,
        "ppo": ClippedActorCritic,
        "pqn": PQN,
        "categorical": Categorical,
        "quantile": QuantileRegression,
        "implicit": ImplicitQuantiles,
    }
    method = methods.get(case["loss"]["kind"], QLearning)(case)
    names, params = zip(*named_parameters(method.net))
    opt, states = optimizer(case, params)
    out = dict(case, losses=[], parts=[], norms=[], gradients=[])
    steps = case.get("steps", STEPS)
    for step in range(steps):
        if case.get("noisy"):
            draw(method.net, 10000 + 100 * step + 20)
            draw(method.target, 10000 + 100 * step + 21)
        loss, parts = method.loss(step)
        for p in params:
            p.grad = None
        loss.backward()
        out["losses"].append(float(loss.detach()))
        out["parts"].append(parts)
        if step in (0, steps - 1):
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
    # Actor-critic: two trunks of different widths, and one under both heads.
    two = mlp | {"hidden": [24, 17], "hidden_v": [13, 11], "activation": "tanh", "batch": 20}
    small = nature | {"arch": "small_cnn", "obs": [3, 36, 28], "batch": 9}
    sb3 = {
        "loss": {"kind": "actor_critic", "entropy_coef": 0.01, "value_coef": 0.5},
        "optimizer": {"name": "rmsprop", "decay": 0.99, "eps": 1e-5, "centered": False},
        "lr": 7e-4,
        "clip": 0.5,
        "reward": 3,
    }
    tf_like = sb3 | {
        "loss": {"kind": "actor_critic", "entropy_coef": 0, "value_coef": 1},
        "optimizer": {"name": "rmsprop", "decay": 0.99, "eps": 1e-5, "eps_inside": True, "first_average": 1},
        "clip": 0,
    }
    stooke_abbeel = sb3 | {
        "loss": {"kind": "actor_critic", "entropy_coef": 0.01, "value_coef": 0.25},
        "optimizer": {"name": "rmsprop", "decay": 0.9, "eps": 1e-6, "eps_inside": True, "first_average": 0},
    }
    cases += [two | sb3, two | tf_like, two | {"activation": "relu"} | stooke_abbeel]
    # As above: with SB3's eps of 1e-5, rounding noise of the Nature CNN takes full steps.
    smooth = {"optimizer": sb3["optimizer"] | {"eps": 1e-3}}
    cases += [nature | {"batch": 9} | sb3 | smooth, small | stooke_abbeel, small | tf_like | {"loss": sb3["loss"]}]
    # Normalised networks and RAdam, which takes its first rectified step at number 6.
    channels, every = {"norm": "layer_channels", "norm_eps": 1e-6}, {"norm": "layer_all", "norm_eps": 1e-5}
    radam = huber_adam | {"optimizer": {"name": "radam", "eps": 1e-5}, "clip": 10}
    cases += [
        mlp | radam | {"steps": 25},
        nature | every | radam | {"steps": 12},
        small | channels | radam | {"steps": 12},
        small | every | sb3 | {"optimizer": sb3["optimizer"] | {"eps": 1e-2}},
        mlp | channels | radam | {"steps": 25},
        two | every | sb3,
    ]
    # PPO: the value as it is, clipped, and the larger error of both; PQN's loss.
    for net, value_clip, eps in ((two, "", 1e-5), (two, "alone", 1e-5), (two, "largest", 1e-5), (small, "largest", 1e-2)):
        ppo = {"kind": "ppo", "entropy_coef": 0.01, "value_coef": 0.25, "clip_range": 0.2, "value_range": 0.3, "value_clip": value_clip}
        cases.append(net | sb3 | {"loss": ppo, "optimizer": {"name": "adam", "eps": eps}, "lr": 2.5e-4, "batch": 24})
    cases += [net | radam | {"loss": {"kind": "pqn", "scale": 0.5}, "batch": 12, "steps": 12} for net in (mlp | channels, small | every)]
    # Actions of several branches, of Gaussians, and of both: A2C and PPO. log_prob is the range of the recorded
    # log-probabilities.
    multi, box = {"actions": 8, "branches": [3, 1, 4]}, {"actions": 0, "branches": [], "box": 3, "log_prob": (-5, -3)}
    hybrid = {"actions": 5, "branches": [2, 3], "box": 2, "log_prob": (-5.5, -3)}
    multi["log_prob"] = (-3.5, -2)
    masks = {"masks": True}
    kinds = (multi, multi | masks | {"log_prob": (-3, -1)}, box, hybrid, hybrid | masks)
    ppo = {"kind": "ppo", "entropy_coef": 0.01, "value_coef": 0.25, "clip_range": 0.3, "value_range": 0.3, "value_clip": "alone"}
    adam = {"loss": ppo, "optimizer": {"name": "adam", "eps": 1e-5}, "lr": 2.5e-4, "batch": 48}
    for kind in kinds:
        cases += [two | sb3 | kind, two | sb3 | adam | kind]
    cases += [small | stooke_abbeel | box, small | stooke_abbeel | hybrid | masks]
    # Distributions and dueling heads.
    categorical = huber_adam | {"loss": {"kind": "categorical", "reduction": "mean"}, "atoms": 21, "min": -4, "max": 4}
    quantile = huber_adam | {"loss": {"kind": "quantile", "reduction": "mean", "kappa": 1}, "quantiles": 20}
    sums = {"reduction": "sum", "importance": "loss"}
    cases += [
        mlp | categorical | {"clip": 10},
        mlp | categorical | {"loss": categorical["loss"] | sums},
        nature | categorical | {"atoms": 51, "min": -10, "max": 10},
        mlp | quantile | {"clip": 10},
        mlp | quantile | {"loss": quantile["loss"] | sums | {"kappa": 0.3}},
        nature | quantile | {"quantiles": 32},
        mlp | huber_adam | {"dueling": "plain"},
        mlp | categorical | {"dueling": "rescaled"},
        mlp | channels | quantile | {"dueling": "rescaled"},
        nature | mnih | {"dueling": "rescaled"},
        small | categorical | {"dueling": "plain", "batch": 5},
    ]
    # Padded convolutions, and small images.
    padded = nature | {"arch": "dopamine_cnn", "obs": [2, 44, 38]}
    cases += [
        padded | mnih,
        padded | categorical | {"atoms": 51, "min": -10, "max": 10},
        nature | huber_adam | {"arch": "minatar_cnn", "obs": [4, 10, 10]},
    ]
    # Implicit quantiles.
    implicit = huber_adam | {
        "loss": {"kind": "implicit", "reduction": "mean", "kappa": 1},
        "cosines": 64,
        "taus": 8,
        "targets": 6,
        "choosing": 5,
    }
    cases += [
        mlp | implicit | {"clip": 10},
        mlp | implicit | {"loss": implicit["loss"] | sums | {"kappa": 0.3}, "cosines": 10, "taus": 3, "targets": 16},
        nature | implicit | {"batch": 4},
    ]
    # Munchausen DQN and its combination with quantiles.
    paper = {"munchausen": (0.9, 0.03, -1)}
    cases += [
        mlp | huber_adam | paper,
        mlp | squared | {"munchausen": (0.7, 0.2, -0.1)},
        mlp | quantile | paper,
        small | quantile | {"munchausen": (0.9, 0.1, -1), "batch": 5},
    ]
    # Noisy networks; the last one is Rainbow's.
    noisy = {"noisy": True}
    cases += [
        mlp | huber_adam | noisy,
        mlp | mnih | noisy | {"dueling": "plain"},
        mlp | every | quantile | noisy,
        small | categorical | noisy | {"dueling": "rescaled", "batch": 5, "clip": 10},
    ]
    # Kernels that are one stride wide.
    cases.append(nature | mnih | {"arch": "der_cnn", "obs": [2, 57, 31]})
    # Munchausen IQN, and IQN with noise.
    cases += [
        mlp | implicit | {"munchausen": (0.9, 0.1, -1), "clip": 10},
        mlp | implicit | noisy,
        small | implicit | noisy | {"batch": 4, "clip": 10},
    ]
    # Kernels that are no whole number of strides wide.
    cases.append(nature | mnih | {"arch": "ga3c_3_cnn", "obs": [2, 37, 35]})
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("reference.json")
    result = {"torch": torch.__version__.split("+")[0], "cases": [run(c) for c in cases]}
    path.write_text(json.dumps(result, separators=(",", ":")).replace('{"arch"', '\n{"arch"') + "\n")
    print(f"{path}: {path.stat().st_size} bytes, torch {result['torch']}")


main()
