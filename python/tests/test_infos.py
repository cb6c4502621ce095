"""Infos of environments in every form: known forms are read, and no info ends a run."""

import random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import worker_envs
from paceline import A2C
from paceline.envs import _infos
from paceline.envs._source import adapt

OBS, ACTIONS = spaces.Box(0, 1, (1,), np.float32), spaces.Discrete(2)


class Vector(gymnasium.vector.VectorEnv):
    """Two environments whose episodes end every fourth step. `say` returns the infos."""

    num_envs = 2
    single_observation_space, single_action_space = OBS, ACTIONS
    observation_space = gymnasium.vector.utils.batch_space(OBS, 2)
    action_space = gymnasium.vector.utils.batch_space(ACTIONS, 2)

    def __init__(self, say, mode=AutoresetMode.NEXT_STEP):
        self.metadata = {"autoreset_mode": mode}
        self.say, self.steps = say, 0

    def reset(self, seed=None, options=None):
        return np.zeros((2, 1), np.float32), self.say()

    def step(self, actions):
        self.steps += 1
        ended = np.full(2, self.steps % 4 == 0)
        return np.full((2, 1), 0.5, np.float32), np.ones(2), ended & (self.steps % 8 == 0), ended & (self.steps % 8 != 0), self.say()


class Single(gymnasium.Env):
    observation_space, action_space = OBS, ACTIONS

    def __init__(self, say):
        self.say, self.steps = say, 0

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), self.say()

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps % 4 == 0, False, self.say()


def seen(env):
    """Returns the infos that callbacks get for both environments in the second step."""
    steps = []
    with A2C("MlpPolicy", env, n_steps=4) as model:
        model.learn(16, callback=lambda local, _: steps.append(local["infos"]))
    return [{name: value for name, value in info.items() if name not in ("TimeLimit.truncated", "episode")} for info in steps[1]]


@pytest.mark.parametrize(
    "infos, each",
    [
        ({"speed": np.array([1.0, 2.0]), "_speed": np.array([True, True])}, [{"speed": 1.0}, {"speed": 2.0}]),
        ({"speed": np.array([1.0, 2.0]), "_speed": np.array([False, True])}, [{}, {"speed": 2.0}]),
        ({"speed": np.array([1.0, 2.0])}, [{"speed": 1.0}, {"speed": 2.0}]),
        ({"speed": [1.0, 2.0], "_speed": [True, False]}, [{"speed": 1.0}, {}]),
        ([{"speed": 1.0}, {"speed": 2.0, "lap": 3}], [{"speed": 1.0}, {"speed": 2.0, "lap": 3}]),
        ([{"speed": 1.0}, None], [{"speed": 1.0}, {}]),
        ({0: np.array([1.0, 2.0]), "_0": np.array([True, True])}, [{0: 1.0}, {0: 2.0}]),
        ({"at": {"x": np.array([1, 2]), "_x": np.array([True, False])}}, [{"at": {"x": 1}}, {"at": {}}]),
        # values that belong to no environment
        ({"fps": 60.0, "name": "ab", "track": np.zeros(3)}, [{}, {}]),
        (None, [{}, {}]),
        ("ab", [{}, {}]),
    ],
)
def test_every_form_of_infos_is_read(infos, each):
    assert seen(Vector(lambda: infos)) == each


class Reusing(Vector):
    """A Vector whose infos are the same arrays in every step. A reset sets them to zero."""

    def __init__(self):
        self.ended, self.returns, self.lives = np.zeros(2, bool), np.zeros(2), [0, 0]
        infos = {"game_over": self.ended, "episode": {"r": self.returns}, "_episode": self.ended, "lives": self.lives}
        super().__init__(lambda: infos, AutoresetMode.DISABLED)

    def reset(self, seed=None, options=None):
        self.ended[:], self.returns[:], self.lives[:] = False, 0, [0, 0]
        return super().reset()

    def step(self, actions):
        self.returns += 1
        self.lives[:] = [3, 3]
        obs, rewards, terminated, truncated, infos = super().step(actions)
        self.ended[:] = terminated | truncated
        return obs, rewards, terminated, truncated, infos


def test_the_reset_of_a_finished_environment_keeps_the_infos_of_its_last_step():
    source = adapt(Reusing())
    source.reset()
    for _ in range(4):
        source.step()
    assert source.rows.ended.all()
    assert source.each_info() == [{"game_over": True, "episode": {"r": 4.0}, "lives": 3}] * 2


def test_the_reset_of_a_single_environment_keeps_the_infos_of_its_last_step():
    source = adapt(worker_envs.Reusing())
    source.reset()
    for _ in range(3):
        source.step()
    assert source.rows.ended.all() and source.each_info() == [{"steps": 3, "at": {"count": 3}}]


def test_infos_joined_by_gymnasium_are_split_again():
    infos = iter([{"a": 1}, {"b": [1, 2]}, {"a": 2, "c": {"d": 0.5}}, {"b": np.zeros(2), 7: "x"}])
    joined = {}
    each = list(infos)
    vector = SyncVectorEnv([lambda: Single(dict)] * 4)
    for i, info in enumerate(each):
        joined = vector._add_info(joined, info, i)
    for got, want in zip(_infos.split(joined, 4), each):
        assert got.keys() == want.keys()
        for name in want:
            np.testing.assert_equal(got[name], want[name])


def junk(draw, depth=0):
    """Returns a random value of an unexpected kind."""
    kind = draw.randrange(14 if depth < 3 else 11)
    names = ["episode", "_episode", "is_success", "final_info", "_final_info", "raw_reward", "game_over", "TimeLimit.truncated",
             "action_mask", "_action_mask", "terminal_observation_", "x", "_x", "_", "", 0, None, (1, 2), 1.5]  # fmt: skip
    if kind < 11:
        return [None, True, -1, 1e400, float("nan"), "text", b"bytes", object(), np.array(["a", "b"]), np.array([[1, 2], [3, 4]]),
                np.array([True, False])][kind]  # fmt: skip
    if kind == 11:
        return [junk(draw, depth + 1) for _ in range(draw.randrange(4))]
    if kind == 12:
        return {"r": junk(draw, depth + 1), "l": junk(draw, depth + 1)}
    return {draw.choice(names): junk(draw, depth + 1) for _ in range(draw.randrange(6))}


@pytest.mark.filterwarnings("ignore::paceline.PacelineWarning")
@pytest.mark.parametrize("kind", [*AutoresetMode, "one"])
def test_no_info_ends_a_run(kind):
    def make(say):
        return Single(say) if kind == "one" else Vector(say, kind)

    draw = random.Random(1)
    with A2C("MlpPolicy", make(lambda: junk(draw)), n_steps=4) as model:
        model.learn(1000, callback=lambda local, _: local["infos"] and None)
        assert 1000 <= model.num_timesteps < 1000 + 4 * model.n_envs
        model.evaluate(episodes=5, env=make(lambda: junk(draw)))


def sb3_vector():
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")

    class Sim(vec_env.VecEnv):
        """A VecEnv without terminal_observation and with unexpected infos."""

        def __init__(self):
            super().__init__(2, OBS, ACTIONS)
            self.steps, self.draw = 0, random.Random(2)

        def reset(self):
            return np.zeros((2, 1), np.float32)

        def step_async(self, actions):
            pass

        def step_wait(self):
            self.steps += 1
            infos = [junk(self.draw), {"TimeLimit.truncated": True}]
            return np.zeros((2, 1), np.float32), np.ones(2), np.full(2, self.steps % 5 == 0), infos

        def close(self):
            pass

        def get_attr(self, name, indices=None):
            return [None] * 2

        def set_attr(self, name, value, indices=None):
            pass

        def env_method(self, name, *args, indices=None, **keywords):
            return [None] * 2

        def env_is_wrapped(self, wrapper, indices=None):
            return [False] * 2

    return Sim()


def test_ends_without_terminal_observation_are_terminations():
    from paceline import PacelineWarning

    source = adapt(sb3_vector())
    source.reset()
    with pytest.warns(PacelineWarning, match="environment 0: its episode ended, but infos has no 'terminal_observation'") as said:
        for _ in range(10):
            source.step()
    assert len(said) == 1 and source.rows.terminated.all() and not source.rows.truncated.any()
    with pytest.warns(PacelineWarning), A2C("MlpPolicy", sb3_vector(), n_steps=5) as model:
        model.learn(500)
