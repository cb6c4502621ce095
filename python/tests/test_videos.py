"""Recordings of policies as animated GIFs."""

import gymnasium
import numpy as np
import pytest

from envs import SMALL, Counter
from paceline import A2C, DQN, PPO, PacelineError, make, videos
from paceline.errors import ConfigError
from paceline.videos import Recording
from test_actions import EVERY, leaves
from test_actions_learn import Acts, small

Image = pytest.importorskip("PIL.Image")


class Seen(Counter):
    """A Counter whose image shows the step count in the red channel."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
    render_mode = "rgb_array"

    def render(self):
        return np.full((10, 12, 3), (self.count, 0, 99), np.uint8)


def decoded(path):
    """Returns (milliseconds, image) of every frame."""
    with Image.open(path) as file:
        out = []
        for i in range(file.n_frames):
            file.seek(i)
            out.append((file.info["duration"], np.asarray(file.convert("RGB"))))
        return out


def shown(path):
    """Returns the image shown at every ten milliseconds."""
    return [image for milliseconds, image in decoded(path) for _ in range(milliseconds // 10)]


def test_a_recording_shows_the_episode_of_the_policy():
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        model.learn(200)
        recording = videos.record(model, seed=3)
        env = make("CartPole-v1", render_mode="rgb_array")
        obs, _ = env.reset(seed=3)
        images, over = [env.render()], False
        while not over:
            obs, _, terminated, truncated, _ = env.step(model.predict(obs, deterministic=True)[0])
            images.append(env.render())
            over = terminated or truncated
        env.close()
        assert recording.title == "CartPole-v1, DQN" and recording.fps == 50
        assert recording.steps == recording.total_return == len(images) - 1
        assert np.array_equal(recording.images, images)
        assert model.num_timesteps == 200  # the recording does not change the run


def test_actions_are_sampled_from_a_stochastic_policy():
    with PPO("CnnPolicy", "Catch-v0", num_envs=2, n_steps=8, batch_size=16, seed=1) as model, model.policy_snapshot() as policy:
        recordings = [videos.record(model, seed=5, policy=policy) for _ in range(2)]
        assert np.array_equal(recordings[0].images, recordings[1].images)
        env = make("Catch-v0", render_mode="rgb_array")
        obs, _ = env.reset(seed=5)
        images = [env.render()]
        for step in range(recordings[0].steps):
            obs, *_ = env.step(policy.act(obs, sample=True, seed=5, counter=step))
            images.append(env.render())
        env.close()
        assert np.array_equal(recordings[0].images, images)


@EVERY
def test_every_action_space_can_be_recorded(space):
    class Drawn(Acts):
        render_mode, render = "rgb_array", Seen.render
        count = 0

    with small(A2C, Acts(space)) as model, model.policy_snapshot() as policy:
        env = Drawn(space)
        assert videos.record(model, env, policy=policy, seed=5).steps == len(env.taken) == 9
        obs, _ = Acts(space).reset(seed=5)
        for taken, drawn in zip(leaves(env.taken[0]), leaves(policy.act(obs, sample=True, seed=5))):
            assert np.array_equal(taken, drawn)


def test_a_recording_can_span_episodes():
    with DQN("MlpPolicy", Counter(), **SMALL) as model:
        recording = videos.record(model, Seen(), steps=8)
        assert [int(image[0, 0, 0]) for image in recording.images] == [0, 1, 2, 0, 1, 2, 3, 0, 1]
        assert (recording.steps, recording.total_return, recording.fps) == (8, 1 + 2 + 3 + 1 + 2 + 3 + 4 + 1, 20)
        recording = videos.record(model, Seen(), seed=np.int64(3))
        assert recording.steps == 3 and recording.total_return == 6 and len(recording.images) == 4
        with pytest.raises(ConfigError, match="env: None, must be an environment to play in"):
            videos.record(model)
        with pytest.raises(ConfigError, match="env: renders no images"):
            videos.record(model, Counter())


@pytest.mark.parametrize("num_envs", [1, 2])
def test_a_model_of_an_id_makes_a_new_environment(num_envs):
    numbers, kwargs = [], {"number": 7} | ({"workers": 1, "context": "fork"} if num_envs > 1 else {})
    gymnasium.register("Seen-v0", lambda number=0, render_mode=None: numbers.append(number) or Seen(number))
    try:
        with DQN("MlpPolicy", "Seen-v0", num_envs=num_envs, env_kwargs=kwargs, **SMALL) as model:
            numbers.clear()
            assert model.env_name is None and model.evaluate(episodes=3).returns == (6.0, 10.0, 15.0)
            model.learn(40, eval_freq=20, n_eval_episodes=2)
            assert [result.returns for _, result in model.evaluations] == [(6.0, 10.0)] * 2
            assert videos.record(model).steps == 3 and numbers == [7] * 4
            model.set_env(gymnasium.make("Seen-v0") if num_envs == 1 else gymnasium.make_vec("Seen-v0", 2))
            with pytest.raises(ConfigError, match="env: None, must be an environment to evaluate in"):
                model.evaluate()
    finally:
        del gymnasium.registry["Seen-v0"]


def test_a_long_recording_is_thinned(monkeypatch):
    monkeypatch.setattr(videos, "MOST_IMAGES", 10)
    with DQN("MlpPolicy", Counter(), **SMALL) as model:
        recording = videos.record(model, Seen(), steps=45)
    assert 5 <= len(recording.images) <= 11 and recording.fps == 20 / 8 and recording.steps == 45


class Long(Seen):
    """A Seen whose episode has a given number of steps."""

    def __init__(self, length):
        super().__init__()
        self.length = length

    def step(self, action):
        obs, reward, _, _, info = super().step(action)
        return obs, reward, self.count >= self.length, False, info


@pytest.mark.parametrize("length", [9, 10, 11, 19, 20, 40])
@pytest.mark.parametrize("most", ["MOST_IMAGES", "MOST_MEMORY"])
def test_a_long_episode_is_thinned_and_keeps_its_last_image(monkeypatch, length, most):
    # 11 images of 360 bytes are one too many for the limit of the memory, which is rounded to an even number of images.
    monkeypatch.setattr(videos, most, 10 if most == "MOST_IMAGES" else 360 * 11)
    with DQN("MlpPolicy", Counter(), **SMALL) as model:
        recording = videos.record(model, Long(length))
    assert 5 <= len(recording.images) <= 10 and recording.steps == length
    assert recording.images[0][0, 0, 0] == 0 and recording.images[-1][0, 0, 0] == length


@pytest.mark.parametrize("steps", [-1, 2.5, "3", 2**51])
def test_a_wrong_number_of_steps_is_refused(monkeypatch, steps):
    with DQN("MlpPolicy", "CartPole-v1", **SMALL) as model:
        monkeypatch.setattr(gymnasium, "make", None)  # no environment is made
        monkeypatch.setattr(videos, "_play", None)
        with pytest.raises(ConfigError, match=f"steps: {steps!r}, must be 0 to"):
            videos.record(model, steps=steps)


def test_a_game_of_atari_is_recorded():
    try:
        env = make("Pong")
    except PacelineError as err:
        pytest.skip(f"no ROM: {err}")
    env.close()
    with PPO.from_preset("fast", "Pong", seed=1, num_envs=2, env_kwargs={"reward_clipping": True}) as model:
        recording = videos.record(model)
    assert recording.fps == 15 and recording.images[0].shape == (210, 160, 3)
    assert recording.steps > 700 and -21 <= recording.total_return < 0 and len(recording.images) == recording.steps + 1


def numbered(n, size, fps=10, step=1, title="numbers"):
    """Returns a recording of a few colours and a moving dot."""
    images = np.zeros((n, *size, 3), np.uint8)
    images[:, : size[0] // 2] = (200, 72, 17)
    for i in range(n):
        images[i, size[0] // 2, i * step % size[1]] = (0, 255, i % 250)
    return Recording(title, list(images), fps, n - 1, 0.0)


def test_every_image_is_in_the_file(tmp_path):
    recording = numbered(30, (20, 30))
    videos.save_gif(tmp_path / "a.gif", recording)
    frames = decoded(tmp_path / "a.gif")
    want = [image.repeat(21, 0).repeat(21, 1) for image in recording.images]
    assert [milliseconds for milliseconds, _ in frames] == [100] * 30
    assert np.array_equal([image for _, image in frames], want)


def test_large_images_are_shrunk(tmp_path):
    image = np.random.default_rng(1).integers(0, 2, (1000, 600, 3), np.uint8) * 255
    videos.save_gif(tmp_path / "a.gif", Recording("noise", [image] * 3, 10, 2, 0.0))
    assert decoded(tmp_path / "a.gif")[0][1].shape == (334, 200, 3)


def test_a_long_recording_is_shown_faster(tmp_path):
    videos.save_gif(tmp_path / "a.gif", numbered(900, (20, 30), fps=15), seconds=6)
    images = shown(tmp_path / "a.gif")
    assert 590 <= len(images) <= 610
    for i in (0, 297, 597):  # half a second shows five seconds of the environment
        assert np.argwhere(images[i][215, ::21, 1] == 255)[0, 0] == pytest.approx(i / 100 * 10 * 15 % 30, abs=2.1)


@pytest.mark.slow
def test_max_bytes_limits_the_file(tmp_path):
    rng = np.random.default_rng(1)
    noise = Recording("noise", list(rng.integers(0, 256, (60, 60, 60, 3), np.uint8)), 20, 59, 0.0)
    videos.save_gif(tmp_path / "all.gif", noise)
    size = (tmp_path / "all.gif").stat().st_size
    videos.save_gif(tmp_path / "less.gif", noise, max_bytes=size // 3)
    assert (tmp_path / "less.gif").stat().st_size <= size // 3
    assert len(shown(tmp_path / "less.gif")) == pytest.approx(len(shown(tmp_path / "all.gif")), rel=0.1)


def test_a_file_of_one_image_is_the_smallest(tmp_path):
    recording = numbered(30, (20, 30))
    with pytest.raises(ConfigError, match=r"max_bytes: 1, must be at least \d+, the bytes of the smallest GIF") as raised:
        videos.save_gif(tmp_path / "a.gif", recording, max_bytes=1)
    assert not (tmp_path / "a.gif").exists()
    least = int(str(raised.value).split("at least ")[1].partition(",")[0])
    videos.save_gif(tmp_path / "a.gif", recording, max_bytes=least)
    assert len(decoded(tmp_path / "a.gif")) == 1 and (tmp_path / "a.gif").stat().st_size == least
    videos.save_gif(tmp_path / "a.gif", recording, seconds=float("inf"), max_bytes=1e6)
    assert len(decoded(tmp_path / "a.gif")) == 30


@pytest.mark.parametrize("name", ["seconds", "max_bytes"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), "1", None])
def test_wrong_limits_of_a_gif_are_refused(tmp_path, name, value):
    with pytest.raises(ConfigError, match=f"{name}: {value!r}, must be a number, at least "):
        videos.save_gif(tmp_path / "a.gif", numbered(3, (20, 30)), **{name: value})
    assert not (tmp_path / "a.gif").exists()


def test_several_recordings_are_side_by_side(tmp_path):
    a, b, c = numbered(20, (84, 84), title="one"), numbered(40, (210, 160), fps=40, title="two"), numbered(5, (400, 600), title="three")
    videos.save_gif(tmp_path / "a.gif", a, b, c)
    images = shown(tmp_path / "a.gif")
    assert len(images) == pytest.approx(200, abs=4)
    height, width = images[0].shape[:2]
    assert (height, width) == (20 + 210 + 8, 8 + 168 + 8 + 160 + 8 + 300 + 8)
    # titles and a margin
    assert (images[0][:20] == 0).all(-1).sum() > 30 and (images[0][:, :8] == 255).all()
    # the last image of the second recording
    assert np.array_equal(images[99][20:230, 184:344], b.images[39])
    assert np.array_equal(images[103][20:230, 184:344], b.images[0])  # which then starts again
    assert np.array_equal(images[-1][41:209:2, 8:176:2], a.images[19])


def test_bad_recordings_are_refused(tmp_path, process):
    with pytest.raises(ConfigError, match="recordings: none"):
        videos.save_gif(tmp_path / "a.gif")
    done = process(
        "import sys; sys.modules['PIL'] = None\nfrom paceline import videos\nvideos.save_gif('a.gif', videos.Recording('', [], 1, 0, 0.0))",
        check=False,
    )
    assert "ConfigError: videos: needs the package Pillow (pip install 'paceline[plot]')" in done.stderr
    assert not (tmp_path / "a.gif").exists()


def test_record_does_not_close_the_environment_of_the_caller():
    class Closing(Seen):
        closed = False

        def close(self):
            self.closed = True

    env = Closing()
    assert isinstance(env, gymnasium.Env)
    with DQN("MlpPolicy", Counter(), **SMALL) as model:
        videos.record(model, env)
    assert not env.closed
