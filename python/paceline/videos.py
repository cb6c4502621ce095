"""An agent that plays, as an animated image; needs Pillow (pip install 'paceline[plot]').

from paceline import videos

model.learn(100_000)
videos.save_gif("agent.gif", videos.record(model))
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._evaluation import borrow
from .errors import ConfigError
from .spaces import Array

if TYPE_CHECKING:
    from ._trainer import Trainer
    from .policy import Policy

MOST_STEPS = 27_000  # of an episode that does not end: half an hour of an Atari game
MOST_IMAGES = 2_000
MOST_MEMORY = 2**28  # bytes of images
TRANSPARENT = 255  # the number of no colour
BLACK, WHITE = 0, 0xFFFFFF
TITLE = 20  # pixels above an image


class Recording(NamedTuple):
    """What an agent was seen to do.

    title: of what. images: uint8 [height, width, 3], all of one size. fps: how many of them are a second of the
    environment's own time. steps, total_return: of the episode, or of all steps.
    """

    title: str
    images: list[Array]
    fps: float
    steps: int
    total_return: float


def record(model: Trainer, env: Any = None, *, seed: int = 0, steps: int | None = None, policy: Policy | None = None) -> Recording:
    """Has a model play one whole episode (of an Atari game: one game), and keeps the images.

    env: None for one like those that the model learns in, where it was made with a name or an id, or a gymnasium.Env with
        render_mode="rgb_array", which is not closed. seed: of the environment and of what is drawn.
    steps: play for so many steps instead, in as many episodes as they take.
    policy: None for the model's network as it is. Actions are drawn from the distribution that the network gives, as while
        learning, or, where it gives none (DQN's and PQN's), are the greedy ones.

    There are at most 2,000 images, and 256 MB of them: of more, every other one is dropped.
    """
    import gymnasium

    from .envs import single

    made = None
    if env is None:
        if (similar := model.similar_env()) is None:
            raise ConfigError("env: None, must be an environment of its own to play in, with render_mode='rgb_array'")
        id, options = similar
        make = gymnasium.make if model.env_name is None else single.make
        env = made = make(id, render_mode="rgb_array", **options)
    else:
        borrow(model, env)
    playing = model.policy_snapshot() if policy is None else policy
    try:
        return _play(model.learning_curve.title, playing, env, seed, steps)
    finally:
        if policy is None:
            playing.close()
        if made is not None:
            made.close()


def _play(title: str, policy: Policy, env: Any, seed: int, steps: int | None) -> Recording:
    images, every, total, step = list[Array](), 1, 0.0, 0
    obs, info = env.reset(seed=seed)
    while True:
        if step % every == 0:
            images.append(_image(env))
            if len(images) > min(MOST_IMAGES, max(2, MOST_MEMORY // images[0].nbytes)):
                images, every = images[::2], 2 * every
        if step == (MOST_STEPS if steps is None else steps):
            break
        masks = None if policy.masked is False else info.get("action_mask")
        action = policy.act(obs, sample=True, seed=seed, counter=step, action_masks=masks)[()]
        obs, reward, terminated, truncated, info = env.step(action)
        step += 1
        total += info.get("raw_reward", reward)
        if terminated or truncated:
            if steps is None and info.get("game_over", True):
                images.append(_image(env))
                break
            obs, info = env.reset()
    return Recording(title, images, (env.metadata.get("render_fps") or 30) / every, step, float(total))


def _image(env: Any) -> Array:
    try:
        image = env.render()
    except NotImplementedError:  # gymnasium.Env's own
        image = None
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ConfigError("env: renders no images, must be made with render_mode='rgb_array'")
    return image


def save_gif(path: str | os.PathLike[str], *recordings: Recording, seconds: float = 30.0, max_bytes: int = 3_000_000) -> None:
    """Writes an animated GIF, with several recordings side by side, each with its title, the shorter ones from their
    beginning again until the longest is over.

    seconds: a longer one is shown faster, to last so long. max_bytes: a larger file is made anew with fewer images a
    second. Colours are those of the images where there are 255 or fewer, else the nearest of the 255 most
    frequent ones.
    """
    if not recordings:
        raise ConfigError("recordings: none, must be at least one")
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise ConfigError("videos: needs the package Pillow (pip install 'paceline[plot]')") from None
    longest = max(len(recording.images) / recording.fps for recording in recordings)
    speed = max(1.0, longest / seconds)
    height = 420 if len(recordings) == 1 else 210
    canvas = _Canvas(recordings, height)
    # Hundredths of a second, as GIF counts them; browsers slow down what is faster than 50 images a second.
    delay = max(3, round(100 / speed / max(recording.fps for recording in recordings)))
    while True:
        data = _encoded(canvas, np.arange(0, longest, delay / 100 * speed), delay)
        if len(data) <= max_bytes or delay >= 100:
            break
        delay = max(delay + 1, round(delay * len(data) / max_bytes))
    with open(path, "wb") as file:
        file.write(data)


def _encoded(canvas: _Canvas, times: Array, delay: int) -> bytes:
    """The file with what is seen at these times, each image for so many hundredths of a second."""
    from PIL import Image

    frames, before = [], None
    for time in times:
        now = canvas.at(time)
        # Pixels that stay as they were are transparent, which takes next to no space.
        frames.append(Image.fromarray(now if before is None else np.where(now == before, TRANSPARENT, now)))
        frames[-1].putpalette(canvas.palette)
        before = now
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=10 * delay, loop=0, disposal=1,
                   transparency=TRANSPARENT, optimize=False)  # fmt: skip
    return out.getvalue()


class _Canvas:
    """Recordings side by side, in 255 colours or fewer; pixels are uint8, the numbers of colours in palette."""

    def __init__(self, recordings: Sequence[Recording], height: int) -> None:
        """height: of the images, at most; they are made larger or smaller by whole factors."""
        self._factors = [height // len(recording.images[0]) for recording in recordings]
        colored = [[_numbers(_reduced(image, height)) for image in recording.images] for recording in recordings]
        self.palette, indices = _palette(image for images in colored for image in images)
        self._images = [[indices[image] for image in images] for images in colored]
        self._fps = [recording.fps for recording in recordings]
        white, edge = indices[WHITE], 8 if len(recordings) > 1 else 0
        above = TITLE if len(recordings) > 1 else 0
        self._corners = []  # of the images on the canvas
        titles, x = [], edge
        for recording, images, factor in zip(recordings, self._images, self._factors):
            rows, columns = (size * max(factor, 1) for size in images[0].shape)
            self._corners.append((above + (height - rows) // 2 if above else 0, x))
            titles.append((x, _text(recording.title, columns)))
            x, tall = x + columns + edge, rows
        self._empty = np.full((above + height + edge if above else tall, x), white)
        for x, title in titles if above else ():
            self._empty[:above, x : x + title.shape[1]] = np.where(title, white, indices[BLACK])

    def at(self, time: float) -> Array:
        """What is seen after so many seconds."""
        out = self._empty.copy()
        for images, fps, factor, (y, x) in zip(self._images, self._fps, self._factors, self._corners):
            image = images[int(time * fps + 1e-6) % len(images)]
            if factor > 1:
                image = image.repeat(factor, 0).repeat(factor, 1)
            out[y : y + len(image), x : x + image.shape[1]] = image
        return out


def _reduced(image: Array, height: int) -> Array:
    """No higher than that: means of square blocks."""
    from PIL import Image

    factor = -(-len(image) // height)
    return image if factor == 1 else np.asarray(Image.fromarray(image).reduce(factor))


def _numbers(image: Array) -> Array:
    """Each pixel as one number 0xRRGGBB."""
    wide = image.astype(np.int32)
    return wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]


def _text(text: str, width: int) -> Array:
    """A line of text, false where it is black."""
    from PIL import Image, ImageDraw

    strip = Image.new("1", (width, TITLE), 1)
    ImageDraw.Draw(strip).text((0, 4), text, fill=0)
    return np.asarray(strip)


def _palette(images: Iterable[Array]) -> tuple[bytes, Array]:
    """The 255 most frequent colours, or all, with black and white, and for each number 0xRRGGBB in the images which
    one stands for it."""
    counts = np.zeros(2**24, np.int64)
    counts[[BLACK, WHITE]] = 2**40
    for image in images:
        np.add.at(counts, image.reshape(-1), 1)
    numbers = np.flatnonzero(counts)
    chosen = numbers[counts[numbers].argsort(kind="stable")[::-1][:TRANSPARENT]]
    palette, indices = _rgb(chosen), np.zeros(2**24, np.uint8)
    for some in np.array_split(numbers, -(-len(numbers) // 4096)):
        indices[some] = np.square(_rgb(some)[:, None] - palette).sum(2).argmin(1)
    return palette.astype(np.uint8).tobytes(), indices


def _rgb(numbers: Array) -> Array:
    return np.stack([numbers >> 16, numbers >> 8 & 255, numbers & 255], -1)
