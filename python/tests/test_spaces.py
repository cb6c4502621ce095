"""Conversion of Gymnasium's spaces and observations into the library's rows."""

import json
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from envs import MODES, SMALL, Counter, vector
from paceline import DQN, workers
from paceline.errors import ConfigError, PacelineWarning, SpaceError
from paceline.spaces import ActionLayout, ObsLayout, layouts_from_text, layouts_to_json


def image(*shape):
    return ObsLayout.of_space(spaces.Box(0, 255, shape, np.uint8))


@pytest.mark.parametrize(
    "shape, row",
    [
        ((84, 84), (1, 84, 84)),
        ((4, 84, 84), (4, 84, 84)),
        ((84, 84, 3), (3, 84, 84)),
        ((64, 96, 3), (3, 64, 96)),
        ((3, 64, 96), (3, 64, 96)),
    ],
)
def test_images_become_channels_first(shape, row):
    layout = image(*shape)
    assert layout.shape == row
    obs = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    expected = obs if obs.ndim == 3 else obs[None]
    if row != expected.shape:
        expected = np.transpose(obs, (2, 0, 1))
    np.testing.assert_array_equal(layout.read(obs, (), "environment 0"), expected)
    rows, batched = layout.batch(obs)
    assert not batched and rows.flags.c_contiguous
    np.testing.assert_array_equal(rows[0], expected)


def test_predict_takes_either_order_of_axes():
    layout = image(3, 40, 50)
    obs = np.random.default_rng(0).integers(0, 256, (2, 3, 40, 50), np.uint8)
    for given in (obs, np.moveaxis(obs, 1, -1)):
        rows, batched = layout.batch(given)
        assert batched
        np.testing.assert_array_equal(rows, obs)


def test_vectors_become_flat_float32():
    layout = ObsLayout.of_space(spaces.Box(-1, 1, (2, 3), np.float64))
    assert layout.shape == (6,) and layout.dtype == np.float32
    rows, batched = layout.batch(np.arange(6, dtype=np.float64).reshape(2, 3))
    assert rows.dtype == np.float32 and rows.tolist() == [[0, 1, 2, 3, 4, 5]] and not batched


@pytest.mark.parametrize(
    "space, says",
    [
        (spaces.Dict({"a": spaces.Discrete(2)}), "observation space: Dict, must be Box.*FlattenObservation"),
        (spaces.Tuple([spaces.Discrete(2)]), "observation space: Tuple, must be Box.*FlattenObservation"),
        (spaces.Box(0, 1, (3, 0), np.float32), r"shape \(3, 0\), must have no empty axis"),
    ],
)
def test_unsupported_observation_spaces_are_refused(space, says):
    with pytest.raises(ConfigError, match=says):
        ObsLayout.of_space(space)


@pytest.mark.parametrize(
    "space, given, row",
    [
        (spaces.Discrete(3, start=5), 6, [0, 1, 0]),
        (spaces.MultiDiscrete([2, 3]), [1, 2], [0, 1, 0, 0, 1]),
        (spaces.MultiBinary(3), [1, 0, 1], [1, 0, 1]),
        (spaces.Box(-5, 5, (2,), np.int64), [-5, 3], [-5, 3]),
        (spaces.Box(0, 255, (3,), np.uint8), [0, 7, 255], [0, 7, 255]),
        (spaces.Box(0, 1, (2,), np.bool_), [True, False], [1, 0]),
        (spaces.Box(0, 9, (), np.float64), 7, [7]),
        (spaces.Box(0, 255, (1, 2, 1, 2), np.uint8), [[[[0, 7]], [[255, 1]]]], [0, 7, 255, 1]),
        (spaces.Box(0, 9, (2,), np.float16), [0.5, 7], [0.5, 7]),
        (spaces.Box(0, 9, (2,), np.uint64), [3, 7], [3, 7]),
        (spaces.MultiBinary((2, 2)), [[1, 0], [0, 1]], [1, 0, 0, 1]),
        (spaces.MultiDiscrete([[2, 2], [2, 2]]), [[0, 1], [1, 1]], [1, 0, 0, 1, 0, 1, 0, 1]),
    ],
)
def test_numbers_of_other_types_become_float32(space, given, row):
    layout = ObsLayout.of_space(space)
    assert (layout.dtype == np.float32 and layout.space() == space) or not layout.counts
    given = np.asarray(given, space.dtype)
    rows, batched = layout.batch(given)
    assert rows.dtype == np.float32 and rows.tolist() == [row] and not batched
    assert layout.batch(np.stack([given, given]))[0].tolist() == [row, row]
    text = json.dumps({"python": layouts_to_json(layout, ActionLayout(2, 7))})
    again, actions = layouts_from_text(text, layout.spec(), ActionLayout(2).spec())
    assert vars(again) == vars(layout) and actions.start == 7


def test_an_observation_outside_its_space_is_refused():
    with pytest.raises(SpaceError, match="observation 8, must be 5 to 7"):
        ObsLayout.of_space(spaces.Discrete(3, start=5)).batch(8)


@pytest.mark.parametrize("obs, says", [(np.zeros(3, np.float32), "shape"), (np.zeros(4, np.complex64), "dtype")])
def test_predict_refuses_wrong_shapes_and_types(obs, says):
    with pytest.raises(SpaceError, match=says):
        ObsLayout.of_space(gymnasium.spaces.Box(-1, 1, (4,))).batch(obs)


KINDS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bool".split()


@pytest.mark.parametrize("space", ["float32", "float64", "int64", "uint8", "bool", "image", "Discrete"])
def test_observations_are_cast_if_no_value_changes_meaning(space):
    """The cast is the same in predict and in an environment, for every type of number."""
    declared = {
        "image": spaces.Box(0, 255, (40, 40), np.uint8),
        "Discrete": spaces.Discrete(3),
    }.get(space) or spaces.Box(0, 1, (2,), np.dtype(space))
    layout = ObsLayout.of_space(declared)
    for kind in KINDS:
        obs = np.ones(declared.shape, kind)
        if kind.startswith("float") and space in ("image", "Discrete"):
            says = f"observation of dtype {kind}, its space says"
            with pytest.raises(SpaceError, match=says):
                layout.read(obs, (), "environment 0")
            with pytest.raises(SpaceError, match=says):
                layout.batch(obs)
            continue
        rows = layout.read(np.stack([obs, obs]), (2,), "environments")
        assert rows.dtype == layout.dtype and rows.shape == (2, *layout.shape)
        assert np.array_equal(rows[0], layout.batch(obs)[0][0]) and np.array_equal(rows[0], layout.read(obs, (), "environment 0"))
        assert np.array_equal(rows[0], layout.read(np.ones(declared.shape, declared.dtype), (), "environment 0"))


@pytest.mark.parametrize(
    "space, obs, says",
    [
        (spaces.Box(0, 255, (40, 40), np.uint8), np.full((40, 40), 256), "int64 with 256, must be 0 to 255: its space says uint8"),
        (spaces.Box(0, 255, (40, 40), np.uint8), np.full((40, 40), -1), "with -1, must be 0 to 255"),
        (spaces.Box(0, 9, (2,), np.int32), [1, 0.5], "float64 with 0.5, must be a whole number: its space says int32"),
        (spaces.Box(0, 9, (2,), np.float32), ["1", "2"], "observation of dtype <U1, its space says float32"),
        (spaces.Box(0, 9, (2,), np.float32), [None, 1], "observation of dtype object, its space says float32"),
        (spaces.Box(0, 9, (2,), np.float32), [[1], [1, 2]], r"observation is a list of parts that differ in shape, its space says \(2,\)"),
    ],
)
def test_observations_that_cannot_be_cast_are_refused(space, obs, says):
    layout = ObsLayout.of_space(space)
    for read in (lambda: layout.read(obs, (), "environment 0"), lambda: layout.batch(obs)):
        with pytest.raises(SpaceError, match=says):
            read()


@pytest.mark.parametrize("value, becomes", [(2**53 + 1, 2.0**53), (2**63 - 1, 2.0**63), (np.uint64(2**64 - 1), 2.0**64), (1e300, np.inf)])
def test_an_inexact_value_gives_one_warning(value, becomes):
    layout = ObsLayout.of_space(spaces.Box(-np.inf, np.inf, (2,), np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for exact in ([2**24, -(2**24)], [2**60, 0], [0.1, np.pi], [np.inf, np.nan]):
            layout.read(exact, (), "environment 0")
    with pytest.warns(PacelineWarning, match="environment 0: observation with .*, which float32 cannot hold, becomes"):
        assert layout.read(np.array([0, value], np.asarray(value).dtype), (), "environment 0")[1] == becomes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layout.read(np.array([0, value], np.asarray(value).dtype), (), "environment 0")


class Whole(Counter):
    """A Counter with integer observations."""

    kind = np.int64

    def observe(self):
        return super().observe().astype(self.kind)


class Tens(Whole):
    kind = np.int8


@pytest.mark.parametrize("mode", [None, *MODES, "workers", "stable-baselines3"])
def test_integer_observations_give_the_bits_of_floats(mode):
    def run(make):
        if mode == "stable-baselines3":
            env = pytest.importorskip("stable_baselines3.common.vec_env").DummyVecEnv([make])
        elif mode == "workers":
            env = workers.make(make, 1, workers=1)
        else:
            env = make() if mode is None else vector(mode, 1, make)
        with DQN("MlpPolicy", env, **SMALL) as model:
            model.learn(150)
            model.predict([0, 1, 2, 3])
            assert model.policy_snapshot().evaluate(make(), 2).episodes == 2
            return model.hashes()

    assert run(Whole) == run(Tens) == run(Counter)


def test_integer_observations_in_observe_give_the_bits_of_floats():
    def run(kind):
        env, n = Counter(), 0
        with DQN("MlpPolicy", (env.observation_space, env.action_space), **SMALL) as model:
            model.begin(150, env.reset()[0].astype(kind))
            while model.num_timesteps < 150:
                obs, reward, terminated, truncated, _ = env.step(int(model.act()[0]))
                last = obs.astype(kind)
                if terminated or truncated:
                    obs, n = env.reset()[0], n + 1
                model.observe(obs.astype(kind), reward, terminated, truncated, last)
            assert n > 20
            return model.hashes()

    assert run(np.int64) == run(np.float32)
