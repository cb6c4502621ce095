"""Copies of a model's networks as PyTorch modules, for acting, export and training outside of the model."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError
from ..spaces import Array

if TYPE_CHECKING:
    from .._model import Model


class Copies:
    """Makes the copy of a model's networks with its current weights. New weights make a new copy."""

    def __init__(self, model: Model) -> None:
        """Makes the modules without drawing from PyTorch's random generator."""
        if model.METHOD == "pqn":
            raise ConfigError("policy: stable-baselines3 has no network for PQN; get_parameters has the weights as arrays")
        if own := _only_ours(model):
            raise ConfigError(f"policy: stable-baselines3 has no policy {own}; get_parameters has the weights as arrays")
        if importlib.util.find_spec("torch") is None:
            raise ConfigError("policy: needs torch (pip install torch); get_parameters has the weights as arrays")
        import torch

        with torch.random.fork_rng(devices=[]):
            if importlib.util.find_spec("sb3_contrib" if _quantiles(model) else "stable_baselines3") is not None:
                self._blank = _of_sb3(model)
            elif model.METHOD == "dqn":
                self._blank = _of_torch(model, _tensors(model._weights()))
            else:
                raise ConfigError(
                    "policy: needs stable-baselines3 (pip install stable-baselines3); get_parameters has the weights as arrays"
                )
        self._blank.train(False)
        self._weights: dict[str, Array] = {}
        self._seen: dict[str, Array] = {}  # the module's weights at the latest changed()
        self._current: Any = None
        self._tensors: list[Any] = []
        self._versions: list[tuple[int, int]] = []

    def current(self, weights: dict[str, Array]) -> Any:
        """The module for these weights: the previous one if they are unchanged or it has them, else a new one."""
        if self._current is None or not (self._equal(self._weights, weights) or self._equal(self._state(), weights)):
            made = copy.deepcopy(self._blank)
            # stable-baselines3's module has some arrays under several names; it must have all of
            # the model's.
            unused = made.load_state_dict(_tensors(weights), strict=False).unexpected_keys
            if unused:
                raise ConfigError(f"policy: stable-baselines3 has no {unused[0]!r}; get_parameters has the weights as arrays")
            self._current, self._seen = made, weights
            # An inference tensor has no version.
            self._tensors = [tensor for tensor in (*made.parameters(), *made.buffers()) if not tensor.is_inference()]
        self._weights = weights
        return self._current

    def changed(self, weights: Callable[[], dict[str, Array]]) -> bool:
        """Whether the caller has changed the current module since the last call and its weights are not the model's.

        weights: reads the model's weights.
        """
        if self._current is None or self._equal(state := self._state(), self._seen):
            return False
        self._seen = {name: array.copy() for name, array in state.items()}
        return not (self._equal(state, self._weights) or self._equal(state, weights()))

    def touched(self) -> bool:
        """Whether changed() may have a new answer. Takes microseconds, but misses writes through tensor.data."""
        versions = [(tensor.data_ptr(), tensor._version) for tensor in self._tensors]
        if versions == self._versions:
            return False
        self._versions = versions
        return True

    def _state(self) -> dict[str, Array]:
        return {name: tensor.cpu().numpy() for name, tensor in self._current.state_dict().items()}

    @staticmethod
    def _equal(state: dict[str, Array], weights: dict[str, Array]) -> bool:
        return all(np.array_equal(state[name], array) for name, array in weights.items())


def _quantiles(model: Model) -> bool:
    """Whether the networks are those of sb3-contrib's QRDQN."""
    return hasattr(type(model), "quantile_net")


def _only_ours(model: Model) -> str:
    """What stable-baselines3 does not have of a model's policy; "" if it has all."""
    actions = model.action_layout
    if actions.keys is not None:
        return "of branches and a box"
    if actions.binary:
        return "with two outputs for each entry of a MultiBinary"
    if model.METHOD == "dqn" and model.setting("distribution") != "none" and not _quantiles(model):
        return "of distributions"
    if model.METHOD == "dqn" and model.setting("dueling") == "true":
        return "with two streams"
    if model.METHOD == "dqn" and model.setting("noisy") == "true":
        return "with noise"
    if model.METHOD == "dqn" and model.policy_name == "CnnPolicy" and model.setting("cnn") != "nature":
        return f"with the convolutions {model.setting('cnn')}"
    if len(actions.low) and "true" in (model.setting("squashed"), model.setting("scaled")):
        return "whose box actions are squashed or scaled"
    return ""


def _tensors(weights: dict[str, Array]) -> dict[str, Any]:
    import torch

    return {name: torch.as_tensor(array) for name, array in weights.items()}


def _of_sb3(model: Model) -> Any:
    from stable_baselines3.a2c import policies as a2c
    from stable_baselines3.dqn import policies as dqn
    from torch import nn

    settings: Any = model  # settings are the model's attributes
    kwargs: dict[str, Any] = {"normalize_images": settings.normalize_images}
    cnn = model.policy_name == "CnnPolicy"
    if model.METHOD == "dqn":
        kwargs["net_arch"] = [] if cnn else settings.net_arch
    else:
        kwargs["net_arch"] = {} if cnn else {"pi": settings.net_arch_pi, "vf": settings.net_arch_vf}
        kwargs["share_features_extractor"] = not any(name.startswith("vf_features_extractor") for name in model._weights())
    activation = getattr(model, "activation_fn", "relu")
    kwargs["activation_fn"] = nn.Tanh if activation == "tanh" else nn.ReLU
    from gymnasium import spaces

    obs = model.obs_layout
    space = spaces.Box(0, 255, obs.shape, obs.dtype.type) if obs.image else model.observation_space
    policies = dqn if model.METHOD == "dqn" else a2c
    if _quantiles(model):
        from sb3_contrib.qrdqn import policies as qrdqn

        policies = qrdqn
        kwargs["n_quantiles"] = settings.n_quantiles
    return getattr(policies, model.policy_name)(space, model.action_space, lambda _: 0.0, **kwargs)


def _of_torch(model: Model, state: dict[str, Any]) -> Any:
    from torch import nn

    activation = nn.Tanh if getattr(model, "activation_fn", "relu") == "tanh" else nn.ReLU
    quantiles, actions = _quantiles(model), model.action_layout.n
    net = "quantile_net" if quantiles else "q_net"
    scale = 1 / 255 if model.obs_layout.image and model.setting("normalize_images") == "true" else 1.0

    class QNetwork(nn.Module):  # type: ignore[misc,unused-ignore]
        """Maps observations [n, ...] to Q-values, float [n, actions], or to quantiles [n, quantiles, actions]."""

        def __init__(self, prefix: str) -> None:
            super().__init__()
            weights = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
            dense = [value for name, value in weights.items() if name.startswith(f"{net}.") and value.dim() == 2]
            layers: list[Any] = []
            for value in dense:
                layers += [nn.Linear(value.shape[1], value.shape[0]), activation()]
            setattr(self, net, nn.Sequential(*layers[:-1]))
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
            out = getattr(self, net)(x.flatten(1))
            return out.view(len(out), -1, actions) if quantiles else out

    class Policy(nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            for of in (net, f"{net}_target"):
                setattr(self, of, QNetwork(f"{of}."))

        def forward(self, obs: Any) -> Any:
            out = getattr(self, net)(obs)
            return (out.mean(1) if quantiles else out).argmax(1)

    return Policy()
