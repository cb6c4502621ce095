"""Action spaces as the library's, and actions of every kind to environments and back."""

import json
from contextlib import closing
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import paceline
from envs import MODES
from paceline import DQN, PQN, make_vec
from paceline.envs._source import adapt
from paceline.errors import ConfigError
from paceline.spaces import ActionLayout, ObsLayout, check_spaces, layouts_from_text, layouts_to_json

SPACES = {
    "discrete": spaces.Discrete(4, start=-2),
    "multi_discrete": spaces.MultiDiscrete([3, 1, 5], start=[1, 0, -4]),
    "matrix": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "multi_binary": spaces.MultiBinary(4),
    "binary_matrix": spaces.MultiBinary((2, 3)),
    "box": spaces.Box(np.array([-1, -np.inf], np.float32), np.array([2, np.inf], np.float32)),
    "cube": spaces.Box(-1, 1, (2, 1, 3), np.float64),
    "tuple": spaces.Tuple([spaces.MultiDiscrete([3, 2]), spaces.Box(-1, 1, (3,))]),
    "turned": spaces.Tuple([spaces.Box(-1, 1, (2, 2)), spaces.Discrete(3, start=1)]),
    "dict": spaces.Dict({"turn": spaces.Box(-1, 1, (2,)), "buttons": spaces.MultiBinary(3)}),
    "unsorted": spaces.Dict([("turn", spaces.Discrete(3)), ("buttons", spaces.Box(-1, 1, (2,)))]),
    "numbered": spaces.Dict({0: spaces.Discrete(3), 1: spaces.Box(-1, 1, (1,))}),
    "numbered_turned": spaces.Dict({3: spaces.Box(-1, 1, (1,)), 7: spaces.Discrete(3)}),
    "mixed": spaces.Dict({"b": spaces.Discrete(3), 2: spaces.Box(-1, 1, (1,))}),
}
EVERY = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


def leaves(action):
    """The arrays of an action."""
    if isinstance(action, dict):
        return [action[key] for key in sorted(action, key=str)]
    return list(action) if isinstance(action, tuple) else [action]


def random_rows(layout, n, seed):
    """Actions as the library writes them."""
    random, rows = np.random.default_rng(seed), layout.rows(n)
    for part in layout.parts(rows):
        if part.dtype == np.int32:
            part[...] = random.integers(0, layout.counts, (n, len(layout.counts))).reshape(part.shape)
        else:
            part[...] = random.uniform(np.maximum(layout.low, -9), np.minimum(layout.high, 9), part.shape)
    return rows


@EVERY
def test_actions_are_those_of_the_space(space):
    layout = ActionLayout.of_space(space)
    rows = random_rows(layout, 50, 1)
    assert rows.flags.c_contiguous and rows.dtype.itemsize == 4
    batch = layout.batch(rows)
    every = gymnasium.vector.utils.batch_space(space, 50)
    assert every.contains(batch)
    for i, action in enumerate(gymnasium.vector.utils.iterate(every, batch)):
        one, only = layout.one(batch, i), layout.only(rows[i : i + 1])
        assert space.contains(one) and type(only) is type(one)
        assert all(np.array_equal(a, b) for a, b in zip(leaves(only), leaves(one), strict=True))
        for ours, theirs in zip(leaves(one), leaves(action), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    rows.view(np.uint32)[...] = 0  # they are copies
    assert any(part.any() for part in leaves(batch))


@EVERY
def test_specs_and_kept_forms_give_the_layout_back(space):
    layout = ActionLayout.of_space(space)
    again = ActionLayout.of_spec(layout.spec())
    assert again.counts == layout.counts and again.mask_size == layout.mask_size == sum(layout.counts)
    np.testing.assert_array_equal(again.low, layout.low)
    np.testing.assert_array_equal(again.high, layout.high)
    rows = random_rows(layout, 3, 2)
    assert again.rows(3).shape == rows.shape and again.rows(3).dtype == rows.dtype
    obs = ObsLayout.of_space(spaces.Box(-1, 1, (2,)))
    kept = json.loads(json.dumps({"python": layouts_to_json(obs, layout)}))
    _, restored = layouts_from_text(json.dumps(kept), obs.spec(), layout.spec())
    assert restored.space() == layout.space() and (restored.space() == space or space.dtype == np.float64)
    for ours, theirs in zip(leaves(restored.batch(rows)), leaves(layout.batch(rows)), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


@pytest.mark.parametrize("name", ["dict", "unsorted", "numbered", "numbered_turned", "mixed"])
def test_layouts_keep_the_order_of_a_dict(name):
    layout = ActionLayout.of_space(SPACES[name])
    assert list(layout.space()) == list(layout.batch(layout.rows(2))) == list(SPACES[name])


@pytest.mark.parametrize("name", ["tuple", "turned", "dict"])
def test_forms_without_flags_are_read(name):
    layout = ActionLayout.of_space(SPACES[name])
    form = {key: value for key, value in layout.to_json().items() if key in ("ints", "box", "keys")}
    restored = ActionLayout.of_spec(layout.spec()).with_form(json.loads(json.dumps(form)))
    assert restored.space() == layout.space() and restored.to_json() == layout.to_json()


def test_a_kept_form_of_another_space_is_not_read():
    obs = ObsLayout.of_space(spaces.Box(-1, 1, (2,)))
    text = json.dumps({"python": layouts_to_json(obs, ActionLayout.of_space(SPACES["tuple"]))})
    _, own = layouts_from_text(text, obs.spec(), ActionLayout.of_space(spaces.Box(-1, 1, (3,))).spec())
    assert own.space() == spaces.Box(-1, 1, (3,))


@pytest.mark.parametrize(
    "space, says",
    [
        (spaces.Text(3), "action space: Text.*, must be Discrete, MultiDiscrete, MultiBinary, Box, or a Tuple or Dict of one Box"),
        (spaces.Tuple([spaces.Box(-1, 1, (2,))]), "action space: Tuple.*, or a Tuple or Dict of one Box and one of the others"),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), "action space: Tuple.*, or a Tuple or Dict of one Box"),
        (spaces.Tuple([spaces.Discrete(2), spaces.Text(3)]), "action space: Tuple.*, or a Tuple or Dict of one Box"),
        (spaces.Dict({"a": spaces.Box(0, 1, (1,)), "b": spaces.Tuple([spaces.Discrete(2)])}), "action space: Tuple"),
        (spaces.Dict({}), "action space: Dict"),
        (spaces.Dict({(1, 2): spaces.Box(0, 1), (3, 4): spaces.Discrete(2)}), r"action space: key \(1, 2\) of a Dict, must be a str or an"),
        (spaces.Box(0, 5, (2,), np.int64), "action space: a Box of int64, must be of float32 or float64"),
        (spaces.Box(0, 5, (2, 0)), r"action space: a Box of shape \(2, 0\), must have no empty axis"),
        (spaces.MultiDiscrete(np.zeros(0, int)), r"action space: MultiDiscrete\(\[\]\), must have at least one entry"),
        (spaces.Tuple([spaces.MultiDiscrete(np.zeros(0, int)), spaces.Box(0, 1)]), r"action space: MultiDiscrete\(\[\]\), must have"),
        (spaces.Discrete(2**31), r"action space: Discrete\(2147483648\), must have .* at most 2147483647 in all entries"),
        (spaces.MultiDiscrete([2**30, 2**30]), "action space: MultiDiscrete.*, must have .* at most 2147483647 in all entries"),
    ],
)
def test_other_spaces_are_refused(space, says):
    with pytest.raises(ConfigError, match=says):
        ActionLayout.of_space(space)


def test_entries_without_values_are_refused():
    """Gymnasium refuses to make these spaces; a program can change them later."""
    one, many = spaces.Discrete(2), spaces.MultiDiscrete([2, 3])
    one.n, many.nvec = 0, np.array([2, 0])
    for space in (one, many, spaces.Tuple([one, spaces.Box(0, 1)]), spaces.Tuple([spaces.Box(0, 1), many])):
        with pytest.raises(ConfigError, match="^action space: (Multi)?Discrete.*, must have at least one value in each entry"):
            ActionLayout.of_space(space)


def test_bounds_that_no_box_can_have_are_refused():
    for low, high in (([0, np.nan], [1, 1]), ([0, 2], [1, 1])):
        space = spaces.Box(-1, 1, (2,))
        space.low, space.high = np.array(low, np.float32), np.array(high, np.float32)
        with pytest.raises(ConfigError, match="must have no NaN in its bounds and no low above its high"):
            ActionLayout.of_space(space)


def test_bounds_of_float64_are_kept_to():
    space = spaces.Box(np.array([-0.1, 0.3, -1e300]), np.array([0.1, 0.3, 1e300]), dtype=np.float64)
    layout = ActionLayout.of_space(space)
    low, high = layout.low.astype(np.float64), layout.high.astype(np.float64)
    assert low[0] >= -0.1 and high[0] <= 0.1 and high[0] > 0.0999999
    assert layout.low[1] == layout.high[1] == np.float32(0.3)  # the only float32 there is
    assert np.isinf(layout.low[2]) or layout.low[2] < -3e38


def test_policies_act_in_environments_of_their_kind():
    obs = ObsLayout.of_space(spaces.Box(-1, 1, (2,)))
    layout = ActionLayout.of_space(spaces.MultiDiscrete([3, 2]))
    check_spaces("env", obs, layout, obs, ActionLayout.of_space(spaces.MultiDiscrete([3, 2], start=[1, 1])))
    with pytest.raises(ConfigError, match=r"env: observations \(2,\) and branches of \[2, 3\], must be \(2,\) and branches"):
        check_spaces("env", obs, ActionLayout.of_space(spaces.MultiDiscrete([2, 3])), obs, layout)
    with pytest.raises(ConfigError, match=r"and 6 actions, must be \(2,\) and branches of \[3, 2\]"):
        check_spaces("env", obs, ActionLayout(6), obs, layout)


@pytest.mark.parametrize("cls", [DQN, PQN])
@pytest.mark.parametrize("name", ["multi_discrete", "multi_binary", "box", "tuple"])
def test_methods_of_one_action_refuse_the_others(cls, name):
    says = f"actions: (branches|a box) of .*, must be discrete for {cls.__name__.lower()}"
    with pytest.raises(ConfigError, match=says):
        cls("MlpPolicy", (spaces.Box(-1, 1, (3,)), SPACES[name]), num_envs=2)


class Remembers(gymnasium.Env):
    """Keeps the actions that it gets, which must be of its space."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def __init__(self, action_space):
        self.action_space, self.got = action_space, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.got.append(action)
        return np.full(1, len(self.got), np.float32), 1.0, False, len(self.got) % 7 == 0, {}


@EVERY
@pytest.mark.parametrize("how", ["single", *MODES])
def test_environments_get_their_actions(space, how):
    members = [Remembers(space) for _ in range(1 if how == "single" else 3)]
    env = members[0] if how == "single" else SyncVectorEnv([lambda m=m: m for m in members], autoreset_mode=how)
    source = adapt(env)
    source.reset(seed=1)
    sent = []
    for k in range(20):
        source.rows.actions[...] = random_rows(source.actions, len(members), k)
        ended = source.rows.ended
        sent.append((source.actions.batch(source.rows.actions), ended.copy()))
        source.step()
    for i, member in enumerate(members):
        # The step that only resets ignores its action.
        taken = [source.actions.one(batch, i) for batch, ended in sent if not (how == AutoresetMode.NEXT_STEP and ended[i])]
        assert len(member.got) == len(taken)
        for got, want in zip(member.got, taken):
            for ours, theirs in zip(leaves(got), leaves(want), strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_a_vec_env_of_stable_baselines3_gets_its_actions():
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    for name in ("multi_discrete", "multi_binary", "box"):
        members = [Remembers(SPACES[name]) for _ in range(2)]
        source = adapt(vec_env.DummyVecEnv([lambda m=m: m for m in members]))
        source.reset(seed=1)
        source.rows.actions[...] = random_rows(source.actions, 2, 5)
        batch = source.actions.batch(source.rows.actions)
        source.step()
        for i, member in enumerate(members):
            np.testing.assert_array_equal(member.got[0], batch[i])


def test_masks_have_bytes_for_every_branch():
    layout = ActionLayout.of_space(SPACES["tuple"])
    assert layout.mask_size == 5 and layout.without_action(np.ones((2, 5))) is None
    assert layout.without_action(np.array([[1, 0, 0, 0, 1], [0, 1, 0, 0, 0]])) == (1, 1, 2)
    assert ActionLayout.of_space(SPACES["box"]).mask_size == 0


# ------------------------------------------------------ the library's own


@pytest.mark.parametrize("id", ["Pendulum-v1", "MountainCarContinuous-v0"])
def test_continuous_environments_have_gymnasiums_spaces(id):
    ours, theirs = make_vec(id, 2), gymnasium.make(id)
    assert ours.single_observation_space == theirs.observation_space and ours.single_action_space == theirs.action_space
    assert ours.metadata["render_fps"] == theirs.metadata["render_fps"]
    spec = gymnasium.make(f"paceline/{id}").spec
    assert spec.id == f"paceline/{id}"
    ours.close()


@pytest.mark.parametrize("id", ["Pendulum-v1", "MountainCarContinuous-v0"])
@pytest.mark.parametrize("mode", MODES)
def test_continuous_environments_as_vectors_and_as_single_ones(id, mode):
    ours = make_vec(id, 3, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: paceline.single.make(id)] * 3, autoreset_mode=mode)
    np.testing.assert_array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    ours.action_space.seed(1)
    for _ in range(60):
        actions = ours.action_space.sample()
        for got, want in zip(ours.step(actions)[:4], theirs.step(actions)[:4]):
            np.testing.assert_array_equal(got, want)
    ours.close()
    theirs.close()


@pytest.mark.filterwarnings("error")
def test_actions_out_of_range_are_refused():
    with closing(make_vec("Pendulum-v1", 2)) as envs:
        envs.reset(seed=1)
        for actions, says in (
            ([[0], [2.5]], r"environment 1: action\[0\]: 2.5, must be -2 to 2"),
            ([[np.nan], [0]], r"environment 0: action\[0\]: NaN, must be -2 to 2"),
            ([[0], [np.inf]], r"environment 1: action\[0\]: \+Inf, must be -2 to 2"),
            ([[-np.inf], [0]], r"environment 0: action\[0\]: -Inf, must be -2 to 2"),
            ([[0], [-1e300]], r"environment 1: action\[0\]: -1e\+300, must fit into float32"),
            ([0, 0], r"actions: int64 of shape \(2,\), must be numbers of shape \(2, 1\)"),
        ):
            for step in (envs.step, envs.send):
                with pytest.raises(ConfigError, match=says):
                    step(np.array(actions))
        envs.step(np.array([[2], [-2]]))
    for single in (paceline.single.make("Pendulum-v1"), gymnasium.make("paceline/Pendulum-v1")):
        single.reset(seed=1)
        for bad, says in ((np.nan, "NaN"), (np.inf, r"\+Inf"), (-np.inf, "-Inf"), (2.5, "2.5")):
            with pytest.raises(ConfigError, match=rf"environment 0: action\[0\]: {says}, must be -2 to 2"):
                single.step(np.array([bad], np.float32))
        single.step(np.array([-2], np.float32))
        single.close()


@pytest.fixture
def hybrid(compile_c):
    """The name of an environment of C's with branches of 3, 1 and 5 and a box of 2."""
    source = Path(__file__).parents[2] / "capi" / "ctest" / "acting.c"
    if not source.exists():
        pytest.skip("the tests are not in a checkout")
    flags = f"-I{source.parents[2] / 'include'}", "-D_GNU_SOURCE", "-DHYBRID", "-shared", "-fPIC"
    return paceline.load_env(compile_c(source.read_text(), "hybrid.so", *flags))


def test_hybrid_actions_of_the_librarys_environments(hybrid):
    with closing(make_vec(hybrid, 3)) as envs:
        space = envs.single_action_space
        assert isinstance(space, spaces.Tuple) and space[0] == spaces.MultiDiscrete([3, 1, 5])
        assert space[1].shape == (2,) and space[1].low[0] == -1 and np.isinf(space[1].high[1])
        envs.reset(seed=1)
        envs.action_space.seed(1)
        for _ in range(5):
            branches, box = actions = envs.action_space.sample()
            obs = envs.step(actions)[0]
            np.testing.assert_array_equal(obs[:, 1:4], branches)
            np.testing.assert_array_equal(obs[:, 4:], box)
        for actions, says in (
            (branches, "actions: ndarray, must be a tuple of whole numbers and of numbers"),
            ((branches,), "actions: tuple, must be a tuple of whole numbers and of numbers"),
            ((branches[:2], box), r"actions: int64 of shape \(2, 3\), must be whole numbers of shape \(3, 3\)"),
            ((branches, box[:, :1]), r"actions: float32 of shape \(3, 1\), must be numbers of shape \(3, 2\)"),
            ((branches + 2**40, box), r"environment 0: action: \d+, must be 32 bits"),
            ((branches * 0 + 4, box), "environment 0: action branch 0: 4, must be 0 to 2"),
        ):
            with pytest.raises(ConfigError, match=says):
                envs.step(actions)
    single = paceline.single.make(hybrid)
    single.reset(seed=1)
    obs = single.step((np.array([2, 0, 4]), np.array([0.5, -7], np.float32)))[0]
    np.testing.assert_array_equal(obs[1:], np.array([2, 0, 4, 0.5, -7], np.float32))
    single.close()
