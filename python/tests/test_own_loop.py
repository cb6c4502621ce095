"""begin, act and observe: refused arguments and their messages."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from conftest import ctrl_c_after
from envs import MODES, SMALL, vector
from paceline import A2C, A3C, APPO, DQN, GA3C, PPO, PQN
from paceline.errors import BusyError, ConfigError, SpaceError

PAIR = (spaces.Box(-1, 1, (3,)), spaces.Discrete(2))
OBS, ZEROS, NO, ENDED = np.zeros((2, 3), np.float32), np.zeros(2), np.zeros(2, bool), np.array([False, True])
KEYWORDS = {
    DQN: SMALL,
    A2C: {"seed": 1},
    A3C: {"seed": 1},
    GA3C: {"seed": 1},
    APPO: {"seed": 1, "n_steps": 16, "batch_size": 8, "n_epochs": 3, "pull_period": 5},
    PPO: {"seed": 1, "n_steps": 16, "batch_size": 8, "n_epochs": 3},
    PQN: {"seed": 1, "n_steps": 16, "batch_size": 8, "n_epochs": 3},
}
NaN = float("nan")


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("many", OBS), "total_timesteps: 'many', must be a number, at least 1"),
        ((NaN, OBS), "total_timesteps: nan, must be a number, at least 1"),
        ((0, OBS), "total_timesteps: 0, must be a number, at least 1"),
        ((100, (OBS, {})), "obs: a pair of observations and infos, as reset returns, must be the observations alone"),
        ((100, [[0, 1], [0]]), "obs: a list of 2, must be an array of numbers"),
        ((100, "first"), "obs: 'first', must be an array of numbers"),
        ((100, None), "obs: None, must be an array of numbers"),
    ],
)
def test_begin_refuses_bad_arguments(arguments, says):
    with DQN("MlpPolicy", PAIR, num_envs=2, **SMALL) as model:
        with pytest.raises((ConfigError, SpaceError), match=says):
            model.begin(*arguments)
        model.begin(1e2, OBS)  # begin accepts a float, as learn does
        model.act()


@pytest.mark.parametrize(
    "arguments, says",
    [
        ((OBS, ["good", "bad"], NO, NO), "rewards: a list of 2, must be a number for each environment"),
        ((OBS, [[1], [1, 2]], NO, NO), "rewards: a list of 2, must be a number for each environment"),
        ((OBS, None, NO, NO), "rewards: .*must be"),
        ((OBS, ZEROS, ["no", "no"], NO), "terminated: a list of 2, must be a number for each environment"),
        ((OBS, ZEROS, NO, NO[:1]), "truncated: 1 values, must be 2"),
        ((OBS, ZEROS, NO, ENDED, [None]), "final_obs: a list of 1, must have one entry for each environment, 2"),
        ((OBS, ZEROS, NO, ENDED, {}), "final_obs: a dict, must have one entry for each environment, 2"),
        ((OBS, ZEROS, NO, ENDED, np.zeros(())), r"final_obs: float64 of shape \(\), must have one entry for each environment, 2"),
        ((OBS, ZEROS, NO, ENDED, 3), "final_obs: 3, must have one entry for each environment, 2"),
        ((OBS, ZEROS, NO, ENDED, ["a", "b"]), "final_obs of environment 1"),
        (((OBS, {}), ZEROS, NO, NO), "obs: a pair of observations and infos"),
    ],
)
def test_observe_refuses_bad_arguments(arguments, says):
    with DQN("MlpPolicy", PAIR, num_envs=2, **SMALL) as model:
        model.begin(100, OBS)
        model.act()
        with pytest.raises(SpaceError, match=says):
            model.observe(*arguments)
        model.observe(OBS, [1, 2], [0, 0], [False, True], [None, OBS[1]])


def test_one_environment_needs_no_row_axis():
    with DQN("MlpPolicy", PAIR, num_envs=1, **SMALL) as model:
        model.begin(100, OBS[0])
        for final in ([None], [OBS[0]], OBS[0], OBS[:1], np.array([OBS[0], None], object)[:1]):
            model.act()
            model.observe(OBS[0], 1.0, True, False, final)
        model.act()
        for final in ({}, 3, []):
            with pytest.raises(SpaceError, match="final_obs: .*, must have one entry for each environment, 1"):
                model.observe(OBS[0], 1.0, True, False, final)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (1,)),
        spaces.Box(-1, 1, ()),
        spaces.Box(0, 255, (1, 8, 8), np.uint8),
        spaces.Discrete(4),
        spaces.MultiDiscrete([3]),
    ],
)
def test_one_last_observation_needs_no_row_axis(space):
    space.seed(1)
    first, obs = space.sample(), space.sample()
    in_object = np.empty(1, object)
    in_object[0] = obs

    def digest(final_obs):
        with A2C("MlpPolicy", (space, spaces.Discrete(2)), seed=1, n_steps=2) as model:
            model.begin(4, first)
            for _ in range(4):
                model.act()
                model.observe(first, 1.0, False, True, final_obs)
            return model.hashes()

    expected = digest(np.asarray(obs)[None])
    assert digest(np.asarray(first)[None]) != expected
    for final_obs in (obs, np.asarray(obs), [obs], in_object, np.asarray(obs).tolist()):
        assert digest(final_obs) == expected
    with pytest.raises(SpaceError, match="final_obs: .*, must have one entry for each environment, 1"):
        digest(np.zeros((2, 7)))
    with pytest.raises(SpaceError, match="final_obs: None for environment 0, must be an observation: its episode was truncated"):
        digest([None])


def test_masks_are_refused_by_a_model_made_without_them():
    masks, says = np.array([[1, 0], [1, 0]]), "action_masks: given, must be None: the model was made without action_masks=True$"
    with DQN("MlpPolicy", PAIR, num_envs=2, **SMALL) as model:
        with pytest.raises(SpaceError, match="^" + says):
            model.begin(100, OBS, action_masks=masks)
        model.begin(100, OBS)
        model.act()
        for prefix in ("", "final_"):
            with pytest.raises(SpaceError, match=f"^{prefix}{says}"):
                model.observe(OBS, [1, 1], [False] * 2, [False] * 2, **{f"{prefix}action_masks": masks})
        model.observe(OBS, [1, 1], [False] * 2, [False] * 2)
        assert model.num_timesteps == 2


def test_begin_refuses_masks_that_allow_nothing():
    masks = np.array([[1, 0], [0, 0]])
    with DQN("MlpPolicy", PAIR, num_envs=2, action_masks=True, **SMALL) as model:
        with pytest.raises(SpaceError, match="action_masks: none of the 2 actions of environment 1, must allow at least one"):
            model.begin(100, OBS, action_masks=masks)
        masks[1, 1] = 1
        model.begin(100, OBS, action_masks=masks)
        assert model.act()[0] == 0


@pytest.mark.parametrize("cls", list(KEYWORDS))
def test_callbacks_of_learn_cannot_step(cls):
    def learn(*_):
        model.learn(10, reset_num_timesteps=False)

    def begin(*_):
        model.begin(100, np.zeros(4, np.float32))

    def act(*_):
        model.act()

    with cls("MlpPolicy", gymnasium.make("CartPole-v1"), **KEYWORDS[cls]) as model:
        for call in (learn, begin, act):
            with pytest.raises(BusyError, match=f"{call.__name__}: learn is in progress, must be called before or after it"):
                model.learn(100, callback=call)
        model.learn(100)  # the run can continue


@pytest.mark.parametrize("cls", [A3C, APPO, GA3C, PPO, PQN])
@pytest.mark.parametrize("mode", MODES)
def test_an_own_loop_equals_learn(cls, mode):
    """A loop of begin, act and observe gives the same bits as learn; test_swap.py tests DQN and A2C."""
    keywords = KEYWORDS[cls] | ({"learners": 3} if cls in (A3C, APPO) else {})

    def made():
        return vector(mode, 3, lambda i: gymnasium.make("CartPole-v1"))

    with cls("MlpPolicy", made(), **keywords) as model:
        expected = model.learn(480).hashes()
        steps, updates = model.num_timesteps, model.stats["updates"]
    envs = made()
    with cls("MlpPolicy", envs, **keywords) as model:
        obs, _ = envs.reset(seed=keywords["seed"])
        model.begin(480, obs)
        while model.num_timesteps < steps:
            obs, rewards, terminated, truncated, infos = envs.step(model.act())
            final, done = infos.get("final_obs"), terminated | truncated
            if mode.value == "Disabled" and done.any():
                final = obs.copy()
                obs, _ = envs.reset(options={"reset_mask": done})
            model.observe(obs, rewards, terminated, truncated, final)
        assert model.hashes() == expected and model.stats["updates"] == updates > 50


@pytest.mark.parametrize("cls", list(KEYWORDS))
def test_an_interrupted_call_can_be_made_again(cls):
    def learned(interrupted):
        rng = np.random.default_rng(2)
        with cls("MlpPolicy", PAIR, num_envs=2, **KEYWORDS[cls]) as model:
            model.begin(200, OBS)
            for k in range(100):
                if interrupted and k % 9 == 0:
                    with ctrl_c_after("paceline_trainer_act"):
                        model.act()
                actions = model.act()
                results = OBS * rng.random(), actions * 1.0, actions == k % 2, np.zeros(2, bool)
                if interrupted and k % 9 in (1, 2):
                    with ctrl_c_after("paceline_trainer_observe" if k % 9 == 1 else "paceline_trainer_notice"):
                        model.observe(*results)
                model.observe(*results)
            with pytest.raises(ConfigError, match="observe: must follow act"):
                model.observe(*results)
            model.act()
            with pytest.raises(ConfigError, match="act: called twice without observe between"):
                model.act()
            with ctrl_c_after("paceline_trainer_observe"):
                model.observe(*results)
            model.begin(100, OBS, reset_num_timesteps=False)
            with pytest.raises(ConfigError, match="observe: must follow act"):  # the call was not made again
                model.observe(*results)
            return model.hashes()

    assert learned(True) == learned(False)
