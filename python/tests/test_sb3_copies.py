"""model.policy (a copy of the networks in PyTorch) and optimiser settings, compared with
Stable-Baselines3.
"""

import warnings

import gymnasium
import numpy as np
import pytest

from envs import SMALL
from paceline import A2C, DQN, PacelineWarning
from paceline.errors import ConfigError

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")

KEYWORDS = {DQN: SMALL, A2C: {"seed": 1}}
both = pytest.mark.parametrize("cls", [DQN, A2C])


def _random_states():
    import random

    import torch

    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()


@pytest.mark.parametrize("policy, kwargs", [
    ("MlpPolicy", {}), ("CnnPolicy", {}), ("CnnPolicy", {"share_features_extractor": False})
])  # fmt: skip
@both
def test_a_trained_copy_can_be_set(cls, policy, kwargs):
    """Behaviour cloning works: gradients flow, and set_parameters takes the trained copy.

    model.policy is the same object until the weights change, and making it uses no random numbers.
    """
    import torch

    if cls is DQN and kwargs:
        pytest.skip("DQN has one network")
    space = gymnasium.spaces.Box(0, 255, (1, 36, 36), np.uint8) if policy == "CnnPolicy" else gymnasium.spaces.Box(-1, 1, (3,))
    env = space, gymnasium.spaces.Discrete(3)
    with cls(policy, env, **{**KEYWORDS[cls], "policy_kwargs": kwargs}) as model:
        before = _random_states()
        copy = model.policy
        assert model.policy is copy and _random_states() == before
        obs = torch.as_tensor(np.stack([space.sample() for _ in range(8)]))
        wanted = torch.ones(8, dtype=torch.long)
        optimizer = torch.optim.Adam(copy.parameters(), 3e-3)
        for _ in range(60):
            scores = model.policy.q_net(obs) if cls is DQN else model.policy.get_distribution(obs).distribution.logits
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(scores, wanted).backward()
            optimizer.step()
        assert model.policy is copy  # a read keeps the trained copy
        trained = {name: tensor.numpy().copy() for name, tensor in copy.state_dict().items()}
        model.set_parameters(copy.state_dict())
        assert model.policy is copy
        assert (model.predict(obs.numpy(), deterministic=True)[0] == 1).all()
        for name, array in model.get_parameters()["policy"].items():
            np.testing.assert_array_equal(array, trained[name])
        model.set_parameters({"policy": dict(copy.named_parameters())}, exact_match=False)
        model.set_parameters({"policy": {name: np.zeros_like(array) for name, array in model.get_parameters()["policy"].items()}})
        assert model.policy is not copy and not any(p.any() for p in model.policy.parameters())
        for name, tensor in copy.state_dict().items():  # the old copy does not change
            np.testing.assert_array_equal(tensor.numpy(), trained[name])
        model.set_parameters(copy.state_dict())
        with pytest.raises(ConfigError, match="unknown"):
            model.set_parameters({**copy.state_dict(), "of_my_own": torch.ones(3)})


@both
def test_sb3_models_take_the_optimizer_settings(cls):
    """SB3 accepts the optimiser's parameter groups. The optimiser's state stays in the model."""
    import torch

    theirs = getattr(sb3, cls.__name__)("MlpPolicy", "CartPole-v1", device="cpu", **({"buffer_size": 100} if cls is DQN else {}))
    with cls("MlpPolicy", "CartPole-v1", **({"buffer_size": 100} if cls is DQN else {})) as ours:
        parameters = ours.get_parameters()
        (group,), (wanted,) = (p["policy.optimizer"]["param_groups"] for p in (parameters, theirs.get_parameters()))
        assert group.items() <= wanted.items()
        assert set(wanted) - set(group) <= {
            "maximize", "foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay"
        }  # fmt: skip
        parameters["policy"] = {name: torch.as_tensor(array) for name, array in parameters["policy"].items()}
        theirs.set_parameters(parameters)
        theirs.learn(200)
        ours.set_parameters(theirs.get_parameters())


@both
def test_learning_warns_about_a_trained_copy(cls):
    import torch

    with cls("MlpPolicy", "CartPole-v1", **KEYWORDS[cls]) as model:
        copy = model.policy
        with warnings.catch_warnings():
            warnings.simplefilter("error", PacelineWarning)
            model.learn(200)
        assert model.policy is not copy
        with torch.no_grad():
            next(iter(model.policy.parameters())).add_(1)
        with pytest.warns(PacelineWarning, match=r"model\.policy: changed, but it is a copy: .*set_parameters") as warned:
            model.learn(100, reset_num_timesteps=False)
        assert warned[0].filename == __file__
