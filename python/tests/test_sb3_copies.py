"""model.policy (a copy of the networks in PyTorch) and optimiser settings, compared with
Stable-Baselines3.
"""

import warnings

import gymnasium
import numpy as np
import pytest

from envs import SMALL
from paceline import A2C, DQN, QRDQN, PacelineWarning
from paceline.errors import ConfigError

sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")

KEYWORDS = {DQN: SMALL, A2C: {"seed": 1}}
both = pytest.mark.parametrize("cls", [DQN, A2C])


class Spaces(gymnasium.Env):
    """Observations of a space. The environment is never stepped."""

    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, space):
        self.observation_space = space


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
        ours.set_parameters({name: torch.ones_like(of, dtype=torch.bfloat16) for name, of in parameters["policy"].items()})
        assert all((array == 1).all() for array in ours.get_parameters()["policy"].values())


@pytest.mark.parametrize("policy, space", [
    ("MlpPolicy", gymnasium.spaces.Box(-1, 1, (3,))), ("CnnPolicy", gymnasium.spaces.Box(0, 255, (1, 36, 36), np.uint8))
])  # fmt: skip
@both
def test_sb3_takes_the_weights_of_a_copy(cls, policy, space):
    theirs = getattr(sb3, cls.__name__)(policy, Spaces(space), device="cpu", **({"buffer_size": 100} if cls is DQN else {}))
    with cls(policy, Spaces(space), **({"buffer_size": 100} if cls is DQN else {})) as ours:
        theirs.policy.load_state_dict(ours.policy.state_dict())
        mine = ours.policy.state_dict()
        assert all((tensor == mine[name]).all() for name, tensor in theirs.policy.state_dict().items())


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


USES = {
    "predict": lambda model, path: model.predict(np.zeros(4)),
    "evaluate": lambda model, path: model.evaluate(episodes=1),
    "policy_snapshot": lambda model, path: model.policy_snapshot().close(),
    "save": lambda model, path: model.save(path),
    "evaluate_policy": lambda model, path: sb3.common.evaluation.evaluate_policy(model, model.get_env(), 1, warn=False),
}


@pytest.mark.parametrize("use", USES)
@both
def test_a_changed_copy_gives_one_warning_for_each_change(cls, use, tmp_path):
    """Copying the weights back, or into the copy again, gives none."""
    import torch

    def warned():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                USES[use](model, tmp_path / "model.zip")
        found = [w for w in caught if issubclass(w.category, PacelineWarning)]
        assert all("model.policy: changed, but it is a copy" in str(w.message) for w in found)
        assert use == "evaluate_policy" or all(w.filename == __file__ for w in found)
        return len(found)

    with cls("MlpPolicy", "CartPole-v1", **KEYWORDS[cls]) as model:
        assert warned() == 0
        before = {name: tensor.clone() for name, tensor in model.policy.state_dict().items()}
        assert warned() == 0
        for _ in range(2):
            model.policy.load_state_dict({name: tensor + torch.randn_like(tensor) for name, tensor in model.policy.state_dict().items()})
            assert warned() == 1
        with torch.no_grad():
            next(iter(model.policy.parameters())).add_(1)
        model.set_parameters(model.policy.state_dict())
        assert warned() == 0
        model.policy.load_state_dict(before)
        assert warned() == 1
        model.learn(100)
        assert warned() == 0


@pytest.mark.parametrize("policy", ["MlpPolicy", "CnnPolicy"])
def test_qrdqn_has_the_weights_of_sb3_contrib(policy, tmp_path):
    """get_parameters and set_parameters have its names in both directions."""
    import torch

    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed")
    space = gymnasium.spaces.Box(0, 255, (1, 36, 36), np.uint8) if policy == "CnnPolicy" else gymnasium.spaces.Box(-1, 1, (4,))
    env, keywords = Spaces(space), {"buffer_size": 100, "policy_kwargs": {"n_quantiles": 7}}
    theirs = contrib.QRDQN(policy, env, seed=3, device="cpu", **keywords)
    with QRDQN(policy, (space, env.action_space), seed=1, **{**keywords, "learning_starts": 50}) as ours:
        names = set(theirs.get_parameters()["policy"])
        assert set(ours.get_parameters()["policy"]) == names and len(ours.get_parameters()["policy.optimizer"]["param_groups"]) == 1
        parameters = theirs.get_parameters()
        ours.set_parameters(parameters)
        for name, array in ours.get_parameters()["policy"].items():
            np.testing.assert_array_equal(array, parameters["policy"][name])
        obs = np.stack([space.sample() for _ in range(20)])
        want = theirs.quantile_net(torch.as_tensor(obs)).detach().numpy()
        np.testing.assert_allclose(ours.quantile_net(torch.as_tensor(obs)).detach().numpy(), want, rtol=0, atol=1e-5 * np.abs(want).max())
        assert type(ours.policy) is type(theirs.policy) and not hasattr(ours, "q_net") and not hasattr(ours, "q_net_target")
        with torch.no_grad():
            next(iter(ours.quantile_net_target.parameters())).add_(1)
        ours.set_parameters(ours.policy.state_dict())
        theirs.set_parameters({"policy": {name: torch.as_tensor(array) for name, array in ours.get_parameters()["policy"].items()}}, False)
        ours.save(tmp_path / "ours"), theirs.save(tmp_path / "theirs")
        changed = ours.get_parameters()["policy"]
        for file in ("ours", "theirs"):
            ours.set_parameters({"policy": {name: np.zeros_like(array) for name, array in changed.items()}})
            ours.set_parameters(tmp_path / file)
            for name, array in ours.get_parameters()["policy"].items():
                np.testing.assert_array_equal(array, changed[name])
        with QRDQN.load(tmp_path / "ours") as loaded, DQN(policy, (space, env.action_space), distribution="quantile", **keywords) as dqn:
            for name, array in loaded.get_parameters()["policy"].items():
                np.testing.assert_array_equal(array, changed[name])
            dqn.set_parameters(changed)
            ours.set_parameters(dqn.get_parameters())
