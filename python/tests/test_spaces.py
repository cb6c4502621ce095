"""Gymnasium's spaces and observations as the library's rows."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from paceline.errors import ConfigError, SpaceError
from paceline.spaces import ActionLayout, ObsLayout, of_text, to_kept


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
    np.testing.assert_array_equal(layout.rows(obs[None])[0], expected)
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


def test_vectors_are_laid_flat_as_float32():
    layout = ObsLayout.of_space(spaces.Box(-1, 1, (2, 3), np.float64))
    assert layout.shape == (6,) and layout.dtype == np.float32
    rows, batched = layout.batch(np.arange(6, dtype=np.float64).reshape(2, 3))
    assert rows.dtype == np.float32 and rows.tolist() == [[0, 1, 2, 3, 4, 5]] and not batched


@pytest.mark.parametrize(
    "space, says",
    [
        (spaces.Dict({"a": spaces.Discrete(2)}), "observation space: Dict, must be Box.*FlattenObservation"),
        (spaces.Box(0, 255, (2, 3, 4, 5), np.uint8), r"\(2, 3, 4, 5\), must be \[H, W\]"),
        (spaces.Box(0, 1, (), np.float32), "at least one axis"),
    ],
)
def test_other_observations_are_refused(space, says):
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
    ],
)
def test_other_numbers_become_float32(space, given, row):
    layout = ObsLayout.of_space(space)
    assert (layout.dtype == np.float32 and layout.space() == space) or not layout.counts
    given = np.asarray(given, space.dtype)
    rows, batched = layout.batch(given)
    assert rows.dtype == np.float32 and rows.tolist() == [row] and not batched
    assert layout.batch(np.stack([given, given]))[0].tolist() == [row, row]
    text = json.dumps({"python": to_kept(layout, ActionLayout(2, 7))})
    again, actions = of_text(text, layout.spec(), ActionLayout(2).spec())
    assert vars(again) == vars(layout) and actions.start == 7


def test_a_choice_outside_its_space_is_refused():
    with pytest.raises(SpaceError, match="observation 8, must be 5 to 7"):
        ObsLayout.of_space(spaces.Discrete(3, start=5)).batch(8)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 3]), spaces.Box(-1, 1, (2,)), spaces.MultiBinary(3)])
def test_other_actions_are_refused(space):
    with pytest.raises(ConfigError, match=f"action space: {type(space).__name__}, must be Discrete"):
        ActionLayout.of_space(space)


@pytest.mark.parametrize("obs, says", [(np.zeros(3, np.float32), "shape"), (np.zeros(4, np.complex64), "dtype")])
def test_predict_refuses_what_does_not_fit(obs, says):
    with pytest.raises(SpaceError, match=says):
        ObsLayout.of_space(gymnasium.spaces.Box(-1, 1, (4,))).batch(obs)
