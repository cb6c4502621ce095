"""Observations and rewards of the recipes equal those of independent pipelines on ale-py's frames.

The pipelines follow the papers' descriptions and use NumPy, OpenCV and ale-py's console, one frame
at a time. They share no code with the library.
"""

import numpy as np
import pytest

import paceline
from paceline.errors import ConfigError

ale_py = pytest.importorskip("ale_py", reason="ale-py is not installed")
pytest.importorskip("ale_py.vector_env", reason="ale-py has no vector environment")
from atari import consoles, vector  # noqa: E402
from conftest import slow_but  # noqa: E402

GAMES = ["pong", "breakout", "seaquest"]
FIRE, UP = 1, 2


def area(grey):
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
    return cv2.resize(grey, (84, 84), interpolation=cv2.INTER_AREA)


def half(grey):
    """Drops the last two rows and returns the mean of each 2 x 2 block; halves are rounded up."""
    cells = grey[:-2].astype(int).reshape(104, 2, 80, 2).sum(axis=(1, 3))
    return ((cells + 2) // 4).astype(np.uint8)


def boxes(lines, size):
    """Torch's image.scale along the first axis: means over boxes with fractional edges.

    The order of the float32 operations is Torch's.
    """
    scale = np.float32(len(lines)) / np.float32(size)
    means = np.empty((size, *lines.shape[1:]), np.float32)
    # the line that contains the box's start, and the offset in this line
    first, begin = 0, np.float32(0)
    for i in range(size):
        edge = np.float32(i + 1) * scale
        last = int(edge)
        end = edge - np.float32(last)
        weight = np.float32(1) - begin
        total = weight * lines[first]
        for line in lines[first + 1 : last]:
            total += line
            weight += np.float32(1)
        if last < len(lines):
            total += end * lines[last]
            weight += end
        means[i] = total / weight
        first, begin = last, end
    return means


def luma(rgb):
    """Torch's luma, then boxes along the rows and along the columns. Bytes are truncated, not
    rounded.
    """
    red, green, blue = (c.astype(np.float64) for c in np.moveaxis(rgb.astype(np.float32) / np.float32(255), 2, 0))
    grey = (0.299 * red + 0.587 * green + 0.114 * blue).astype(np.float32)
    return (boxes(np.ascontiguousarray(boxes(grey.T, 84).T), 84) * np.float32(255)).astype(np.uint8)


class Pipeline:
    """A recipe as the papers describe it, on a console with a frame skip of 1.

    A step lasts 4 frames, or fewer if the game ends. The pixelwise maximum of its last two images
    is pushed onto a stack of 4 frames, which is black before an episode. The reward is the sign of
    the sum.
    """

    colour, all_actions, episodic = False, False, False
    shape = (84, 84)
    shrink = staticmethod(area)

    def __init__(self, path):
        self.ale = consoles.theirs()(path, {"repeat_action_probability": 0.0, "frame_skip": 1})
        self.actions = self.ale.getLegalActionSet() if self.all_actions else self.ale.getMinimalActionSet()
        self.buttons = {a.value for a in self.ale.getMinimalActionSet()}

    def image(self):
        return self.ale.getScreenRGB() if self.colour else self.ale.getScreenGrayscale()

    def press(self, *actions):
        for action in actions:
            if action in self.buttons:
                self.ale.act(ale_py.Action(action))

    def start(self, after_life):
        """Plays the frames before the first observation and returns their images."""
        return [self.image()]

    def reset(self, after_life=False):
        if not after_life:
            self.ale.reset_game()
        images = self.start(after_life)
        self.stack = [np.zeros(self.shape, np.uint8)] * 3 + [self.shrink(np.maximum(images[0], images[-1]))]
        self.lives = self.ale.lives()
        return np.stack(self.stack)

    def step(self, action):
        reward, images = 0, []
        while len(images) < 4 and not self.ale.game_over():
            reward += self.ale.act(self.actions[action])
            images.append(self.image())
        self.stack = self.stack[1:] + [self.newest(images)]
        lost = self.ale.lives() < self.lives
        self.lives = self.ale.lives()
        self.raw = reward
        return np.stack(self.stack), float(np.sign(reward)), self.ale.game_over() or (self.episodic and lost)

    def newest(self, images):
        return self.shrink(np.maximum(images[-1], images[max(0, len(images) - 2)]))


class Ale(Pipeline):
    """FIRE before the first observation.

    If the game ends within a step, the step shows the frame before it again. If the game ends with
    the fourth frame, that frame is not used: the maximum of the step before is used instead.
    """

    keywords = {"noop_max": 1}

    def start(self, after_life):
        self.press(FIRE)
        self.before = [self.image()]
        return self.before

    def newest(self, images):
        before, self.before = self.before, images[-2:]
        if not self.ale.game_over():
            return super().newest(images)
        if len(images) < 4:
            return self.stack[-1]
        return self.shrink(np.maximum.reduce([*before, images[2]]))


class Mnih2015(Pipeline):
    """A life is an episode. Each starts with 2 NOOP frames in this test.

    The first observation is also a maximum of two images. The maximum is taken for red, green and
    blue.
    """

    keywords = {"noop_min": 2, "noop_max": 3}
    colour = episodic = True
    shrink = staticmethod(luma)

    def start(self, after_life):
        images = []
        for _ in range(2):
            self.ale.act(ale_py.Action.NOOP)
            images.append(self.image())
        return images


class Machado2018(Pipeline):
    """All 18 actions, no frames before the first observation. The test has no sticky actions."""

    keywords = {"repeat_action_probability": 0}
    all_actions = True


class Dopamine(Machado2018):
    """Machado2018 with the game's minimal actions."""

    all_actions = False


class StookeAbbeel(Pipeline):
    """A life is an episode. Each starts with NOOP, FIRE and UP, if the game has them."""

    keywords = {"noop_min": 0, "noop_max": 1}
    episodic = True
    shape, shrink = (104, 80), staticmethod(half)

    def start(self, after_life):
        self.press(0, FIRE, UP)
        return [self.image()]


PIPELINES = {"ale": Ale, "mnih2015": Mnih2015, "machado2018": Machado2018, "dopamine": Dopamine, "stooke_abbeel": StookeAbbeel}


def test_all_recipes_are_tested():
    with pytest.raises(ConfigError) as refused:
        paceline.make_vec("Pong", recipe="none")
    others = ["sb3"]  # test_recipe_sb3.py
    assert str(refused.value).endswith("must be " + " or ".join(sorted([*PIPELINES, *others])))


@pytest.mark.parametrize("game", slow_but(("breakout",), GAMES))
@pytest.mark.parametrize("recipe", PIPELINES)
def test_a_recipe_equals_its_pipeline(recipe, game):
    side = PIPELINES[recipe](consoles.roms()[game])
    keywords = {**side.keywords, "recipe": recipe}
    env = paceline.make_vec(f"atari/{game}", 1, autoreset_mode="disabled", **keywords)
    assert env.single_action_space.n == len(side.actions)
    obs, infos = env.reset(seed=1)
    assert np.array_equal(obs[0], side.reset())
    rng, lost, over = np.random.default_rng(3), 0, 0
    for step in range(300 if game == "breakout" else 150):
        # Long runs of FIRE lose the ball in Breakout, so games end.
        action = int(rng.integers(len(side.actions))) if step % 40 < 20 else FIRE
        obs, rewards, terminated, truncated, infos = env.step([action])
        wanted, reward, ended = side.step(action)
        assert np.array_equal(obs[0], wanted), f"step {step}"
        assert (rewards[0], terminated[0], truncated[0]) == (reward, ended, False), f"step {step}"
        assert (infos["lives"][0], infos["raw_reward"][0]) == (side.ale.lives(), side.raw), f"step {step}"
        assert infos["game_over"][0] == side.ale.game_over(), f"step {step}"
        assert infos["episode_frame_number"][0] == side.ale.getEpisodeFrameNumber(), f"step {step}"
        if ended:
            over += side.ale.game_over()
            lost += not side.ale.game_over()
            obs, infos = env.reset(options={"reset_mask": np.ones(1, bool)})
            assert np.array_equal(obs[0], side.reset(after_life=not side.ale.game_over())), f"step {step}"
    if game == "breakout":
        assert over and (lost or not side.episodic), "no game ended"
    env.close()


@pytest.mark.parametrize("game", slow_but(GAMES, vector.GAMES))
def test_recipe_ale_equals_vector_env(game):
    """atari/vector.py has the long comparison and its table."""
    assert (found := vector.compare(game, 200)).none(), found


@pytest.mark.parametrize(
    "keywords", slow_but(vector.VARIANTS[2::5], vector.VARIANTS), ids=lambda k: ",".join(f"{a}={b}" for a, b in k.items())
)
def test_keywords_equal_those_of_vector_env(keywords):
    for game in ("breakout", "seaquest"):
        found = vector.compare(game, 60, envs=1, **keywords)
        assert found.none(), f"{game}: {found}"


@pytest.mark.parametrize(
    ("game", "keywords"),
    [
        ("freeway", {}),
        ("freeway", {"full_action_space": True}),
        ("freeway", {"continuous": True}),
        ("skiing", {}),
        ("skiing", {"full_action_space": True}),
    ],
)
def test_a_game_starts_with_fire_where_the_actions_include_it(game, keywords):
    """Freeway does not use FIRE, but it is legal; Skiing does not allow it. ale-py hangs in a continuous step of Skiing."""
    found = vector.compare(game, 3, envs=1, **keywords)
    assert found.none(), found


def test_a_continuous_game_without_fire_starts_without_it():
    envs = paceline.make_vec("Skiing", continuous=True, noop_max=0)
    assert envs.reset(seed=1)[1]["episode_frame_number"] == [0]
    envs.close()
