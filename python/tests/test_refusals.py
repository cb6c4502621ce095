"""Spaces and policies that no method supports are refused when a model is made."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from envs import Walk
from paceline import A2C, A3C, APPO, DQN, GA3C, PPO, PQN
from paceline.errors import ConfigError

every = pytest.mark.parametrize("cls", [A2C, A3C, APPO, DQN, GA3C, PPO, PQN])


class Moves(Walk):
    def __init__(self, action_space):
        super().__init__(spaces.Box(-1, 1, (3,)))
        self.action_space = action_space


@every
@pytest.mark.parametrize("space", [spaces.Text(3), spaces.Box(-1, 1, (2,), np.int8), spaces.Tuple([spaces.Discrete(2)] * 2)], ids=str)
def test_action_spaces_that_no_method_knows_are_refused(cls, space):
    says = "action space: .*, must be (Discrete, MultiDiscrete, MultiBinary, Box, or a Tuple or Dict|of float32 or float64)"
    envs = gymnasium.vector.SyncVectorEnv([lambda: Moves(space)] * 2)
    for env in (Moves(space), envs, (spaces.Box(-1, 1, (3,)), space)):
        with pytest.raises(ConfigError, match=says):
            cls("MlpPolicy", env)


@every
@pytest.mark.parametrize(
    "space, says",
    [
        (spaces.Box(0, 255, (35, 40, 3), np.uint8), "obs.shape: .*, must be .* of at least 36x36"),
        (spaces.Box(0, 1, (40, 40, 3)), "obs.dtype: float32, must be uint8"),
        (spaces.Box(0, 1, (10, 10, 4), np.bool_), "observation space: dtype bool, must be uint8 .*DtypeObservation"),
        (spaces.Box(0, 255, (2, 40, 40, 3), np.uint8), r"observation space: shape \(2, 40, 40, 3\), must be of two or three axes"),
        (spaces.Box(0, 255, (128,), np.uint8), r"observation space: shape \(128,\), must be of two or three axes"),
        (spaces.Dict({"a": spaces.Discrete(2)}), "observation space: Dict, must be Box.*FlattenObservation"),
        (spaces.Tuple([spaces.Discrete(2)]), "observation space: Tuple, must be Box.*FlattenObservation"),
    ],
    ids=str,
)
def test_observations_unsuitable_for_cnn_policy_are_refused(cls, space, says):
    with pytest.raises(ConfigError, match=says):
        cls("CnnPolicy", (space, spaces.Discrete(2)), num_envs=2)


@every
@pytest.mark.parametrize("policy", ["MlpLstmPolicy", "CnnLstmPolicy", "MultiInputLstmPolicy", type("RecurrentActorCriticPolicy", (), {})])
def test_recurrent_policies_are_refused(cls, policy):
    with pytest.raises(ConfigError, match="^policy: .*, must be 'MlpPolicy', 'CnnPolicy' or 'auto': recurrent networks are not supported$"):
        cls(policy, "CartPole-v1")


@every
def test_too_many_actions_are_refused(cls):
    says = r"^policy: MlpPolicy does not fit the environment: heads\[0\].out: 70000, must be 1 to 65536$"
    with pytest.raises(ConfigError, match=says):
        cls("MlpPolicy", (spaces.Box(-1, 1, (3,)), spaces.Discrete(70_000)))


@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize("name, given", [("autoreset_mode", "next_step"), ("num_envs", 3), ("id", "CartPole-v1")])
def test_env_kwargs_that_the_library_sets_are_refused(name, given, num_envs):
    with pytest.raises(ConfigError, match=rf"^env_kwargs\['{name}'\]: {given!r}, must be left out: the library sets it$"):
        PPO("MlpPolicy", "FrozenLake-v1", num_envs=num_envs, env_kwargs={name: given})


def test_workers_of_one_environment_are_refused():
    with pytest.raises(ConfigError, match=r"^env_kwargs\['workers'\]: 1, must be left out for one environment: "):
        PPO("MlpPolicy", "FrozenLake-v1", env_kwargs={"workers": 1})
    PPO("MlpPolicy", "FrozenLake-v1", num_envs=2, env_kwargs={"workers": 1}).close()


def test_pqn_has_no_sb3_policy():
    says = "policy: stable-baselines3 has no network for PQN; get_parameters has the weights as arrays"
    with PQN("MlpPolicy", "CartPole-v1", num_envs=4) as model, pytest.raises(ConfigError, match=says):
        model.policy  # noqa: B018
