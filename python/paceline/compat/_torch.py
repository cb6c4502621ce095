"""A model's networks as modules of PyTorch's: copies, which act and can be exported, and are not learnt with."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError

if TYPE_CHECKING:
    from .._trainer import Trainer


def policy(model: Trainer) -> Any:
    """stable-baselines3's policy with the model's weights; of DQN without stable-baselines3 a module with q_net and q_net_target alone."""
    if model.METHOD == "pqn":
        raise ConfigError("policy: stable-baselines3 has no network of PQN's; get_parameters has the weights as arrays")
    if importlib.util.find_spec("torch") is None:
        raise ConfigError("policy: needs torch (pip install torch); get_parameters has the weights as arrays")
    import torch

    state = {name: torch.as_tensor(array) for name, array in model.get_parameters()["policy"].items()}
    if importlib.util.find_spec("stable_baselines3") is not None:
        made = _of_sb3(model)
    elif model.METHOD == "dqn":
        made = _of_torch(model, state)
    else:
        raise ConfigError("policy: needs stable-baselines3 (pip install stable-baselines3); get_parameters has the weights as arrays")
    # Theirs has some arrays under several names; each of ours must be among them.
    unused = made.load_state_dict(state, strict=False).unexpected_keys
    if unused:
        raise ConfigError(f"policy: stable-baselines3 has no {unused[0]!r}; get_parameters has the weights as arrays")
    made.train(False)
    return made.requires_grad_(False)


def _of_sb3(model: Trainer) -> Any:
    from stable_baselines3.a2c import policies as a2c
    from stable_baselines3.dqn import policies as dqn
    from torch import nn

    kwargs: dict[str, Any] = {"normalize_images": model.normalize_images}
    cnn = model.policy_name == "CnnPolicy"
    if model.METHOD == "dqn":
        kwargs["net_arch"] = [] if cnn else model.net_arch
    else:
        kwargs["net_arch"] = {} if cnn else {"pi": model.net_arch_pi, "vf": model.net_arch_vf}
        kwargs["share_features_extractor"] = not any(name.startswith("vf_features_extractor") for name in model.get_parameters()["policy"])
    activation = getattr(model, "activation_fn", "relu")
    kwargs["activation_fn"] = nn.Tanh if activation == "tanh" else nn.ReLU
    from gymnasium import spaces

    obs = model.obs_layout
    space = spaces.Box(0, 255, obs.shape, obs.dtype.type) if obs.image else model.observation_space
    return getattr(dqn if model.METHOD == "dqn" else a2c, model.policy_name)(space, model.action_space, lambda _: 0.0, **kwargs)


def _of_torch(model: Trainer, state: dict[str, Any]) -> Any:
    from torch import nn

    activation = nn.Tanh if getattr(model, "activation_fn", "relu") == "tanh" else nn.ReLU
    scale = 1 / 255 if model.obs_layout.image and model.normalize_images else 1.0

    class QNetwork(nn.Module):  # type: ignore[misc,unused-ignore]
        """float [n, actions] of observations [n, ...]."""

        def __init__(self, prefix: str) -> None:
            super().__init__()
            weights = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            dense = [value for name, value in weights.items() if name.startswith("q_net.") and value.dim() == 2]
            layers: list[Any] = []
            for value in dense:
                layers += [nn.Linear(value.shape[1], value.shape[0]), activation()]
            self.q_net = nn.Sequential(*layers[:-1])
            self.features_extractor = nn.Module()
            if "features_extractor.cnn.0.weight" in weights:
                convolutions: list[Any] = []
                for i, stride in ((0, 4), (2, 2), (4, 1)):
                    out, into, size, _ = weights[f"features_extractor.cnn.{i}.weight"].shape
                    convolutions += [nn.Conv2d(into, out, size, stride), nn.ReLU()]
                out, into = weights["features_extractor.linear.0.weight"].shape
                self.features_extractor.cnn = nn.Sequential(*convolutions, nn.Flatten())
                self.features_extractor.linear = nn.Sequential(nn.Linear(into, out), nn.ReLU())

        def forward(self, obs: Any) -> Any:
            x = obs.float() * scale
            if hasattr(self.features_extractor, "cnn"):
                x = self.features_extractor.linear(self.features_extractor.cnn(x))
            return self.q_net(x.flatten(1))

    class Policy(nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.q_net, self.q_net_target = QNetwork("q_net."), QNetwork("q_net_target.")

        def forward(self, obs: Any) -> Any:
            return self.q_net(obs).argmax(1)

    return Policy()
