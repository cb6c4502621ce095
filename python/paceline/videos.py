"""Recordings of an agent as animated GIFs; needs Pillow (pip install 'paceline[plot]').

from paceline import videos

model.learn(100_000)
videos.save_gif("agent.gif", videos.record(model))
"""

from __future__ import annotations

import io
import math
import numbers
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _arguments
from ._evaluation import borrow
from .errors import ConfigError
from .spaces import Array

if TYPE_CHECKING:
    from ._trainer import Trainer
    from .policy import Policy

MOST_STEPS = 27_000  # steps of an episode that does not end: half an hour of an Atari game
MOST_IMAGES = 2_000
MOST_MEMORY = 2**28  # bytes of images
MOST_DELAY = 65_535  # hundredths of a second for which a GIF can show an image
TRANSPARENT = 255  # palette index of a transparent pixel
BLACK, WHITE = 0, 0xFFFFFF
TITLE = 20  # pixels above an image


class Recording(NamedTuple):
    """The images of an agent's steps.

    title: the environment and the method. images: uint8 [height, width, 3], all of one size. fps:
    images per second of the environment's time. steps, total_return: the number of steps and the
    sum of rewards.
    """

    title: str
    images: list[Array]
    fps: float
    steps: int
    total_return: float


def record(model: Trainer, env: Any = None, *, seed: int = 0, steps: int | None = None, policy: Policy | None = None) -> Recording:
    """Plays one whole episode, or one game of an Atari environment, and returns its images.

    env: a gymnasium.Env with render_mode="rgb_array", which stays open. None: a new environment of
        the model's kind, if the model was made with a name or an id.
    seed: the seed of the environment and of the policy's draws.
    steps: the number of steps to play instead of one episode; episodes restart as needed.
    policy: None for the model's current network. Actions are drawn from the network's distribution.
        Networks of DQN and PQN have none and act greedily.

    A recording has at most 2,000 images and 256 MB; above that every other image is dropped.
    """
    import gymnasium

    from .envs import single

    seed = _arguments.whole("seed", seed, 0, 2**64 - 1)
    if steps is not None:
        steps = _arguments.whole("steps", steps, 0, _arguments.MOST_STEPS)
    made = None
    if env is None:
        if (similar := model.similar_env()) is None:
            raise ConfigError("env: None, must be an environment to play in, with render_mode='rgb_array'")
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

    def add() -> None:
        nonlocal images, every
        images.append(_image(env))
        # The limit is even, so [::2] keeps the newest image.
        if len(images) > min(MOST_IMAGES, 2 * max(1, MOST_MEMORY // (2 * images[0].nbytes))):
            images, every = images[::2], 2 * every

    while True:
        if step % every == 0:
            add()
        if step == (MOST_STEPS if steps is None else steps):
            break
        masks = None if policy.masked is False else info.get("action_mask")
        action = policy.act(obs, sample=True, seed=seed, counter=step, action_masks=masks)
        if isinstance(action, np.ndarray):
            action = action[()]  # an array of no axes becomes a number
        obs, reward, terminated, truncated, info = env.step(action)
        step += 1
        total += info.get("raw_reward", reward)
        if terminated or truncated:
            if steps is None and info.get("game_over", True):
                add()
                break
            obs, info = env.reset()
    return Recording(title, images, (env.metadata.get("render_fps") or 30) / every, step, float(total))


def _image(env: Any) -> Array:
    try:
        image = env.render()
    except NotImplementedError:  # gymnasium.Env.render
        image = None
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ConfigError("env: renders no images, must be made with render_mode='rgb_array'")
    return image


def save_gif(path: str | os.PathLike[str], *recordings: Recording, seconds: float = 30.0, max_bytes: int = 3_000_000) -> None:
    """Writes an animated GIF with the recordings side by side, each with its title.

    Shorter recordings repeat until the longest one ends. seconds: the longest playing time; longer
    recordings are shown faster. max_bytes: the largest file; larger ones get fewer images a second.
    If the smallest possible file is larger, save_gif raises ConfigError. If the images have more
    than 255 colours, each pixel gets the nearest of the 255 most frequent ones.
    """
    if not recordings:
        raise ConfigError("recordings: none, must be at least one")
    for name, value, least in (("seconds", seconds, 0.01), ("max_bytes", max_bytes, 1)):
        if not isinstance(value, numbers.Real) or not value >= least:
            raise ConfigError(f"{name}: {value!r}, must be a number, at least {least}")
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise ConfigError("videos: needs the package Pillow (pip install 'paceline[plot]')") from None
    longest = max(len(recording.images) / recording.fps for recording in recordings)
    speed = max(1.0, longest / seconds)
    height = 420 if len(recordings) == 1 else 210
    canvas = _Canvas(recordings, height)
    # Hundredths of a second, GIF's unit. Browsers slow down a GIF of more than 50 images a second.
    delay = max(3, round(100 / speed / max(recording.fps for recording in recordings)))
    slowest = min(MOST_DELAY, math.ceil(100 * longest / speed))  # with one image, unless the GIF lasts longer
    while len(data := _encoded(canvas, np.arange(0, longest, delay / 100 * speed), delay)) > max_bytes:
        if delay >= slowest:
            raise ConfigError(f"max_bytes: {max_bytes!r}, must be at least {len(data)}, the bytes of the smallest GIF of these recordings")
        delay = round(min(slowest, max(delay + 1, delay * len(data) / max_bytes)))
    with open(path, "wb") as file:
        file.write(data)


def _encoded(canvas: _Canvas, times: Array, delay: int) -> bytes:
    """The GIF file of the canvas at the given times. delay: hundredths of a second for each image."""
    from PIL import Image

    frames, before = [], None
    for time in times:
        now = canvas.at(time)
        # Unchanged pixels are transparent, which compresses well.
        frames.append(Image.fromarray(now if before is None else np.where(now == before, TRANSPARENT, now)))
        frames[-1].putpalette(canvas.palette)
        before = now
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=10 * delay, loop=0, disposal=1,
                   transparency=TRANSPARENT, optimize=False)  # fmt: skip
    return out.getvalue()


class _Canvas:
    """Recordings side by side in at most 255 colours; pixels are uint8 indices of palette."""

    def __init__(self, recordings: Sequence[Recording], height: int) -> None:
        """height: the largest height of an image; images are scaled by whole factors."""
        self._factors = [height // len(recording.images[0]) for recording in recordings]
        colored = [[_numbers(_reduced(image, height)) for image in recording.images] for recording in recordings]
        self.palette, indices = _palette(image for images in colored for image in images)
        self._images = [[indices[image] for image in images] for images in colored]
        self._fps = [recording.fps for recording in recordings]
        white, edge = indices[WHITE], 8 if len(recordings) > 1 else 0
        above = TITLE if len(recordings) > 1 else 0
        self._corners = []  # (y, x) of each image on the canvas
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
        """The pixels at a time in seconds."""
        out = self._empty.copy()
        for images, fps, factor, (y, x) in zip(self._images, self._fps, self._factors, self._corners):
            image = images[int(time * fps + 1e-6) % len(images)]
            if factor > 1:
                image = image.repeat(factor, 0).repeat(factor, 1)
            out[y : y + len(image), x : x + image.shape[1]] = image
        return out


def _reduced(image: Array, height: int) -> Array:
    """Reduces an image to at most `height` rows by means of square blocks."""
    from PIL import Image

    factor = -(-len(image) // height)
    return image if factor == 1 else np.asarray(Image.fromarray(image).reduce(factor))


def _numbers(image: Array) -> Array:
    """Each pixel as one number 0xRRGGBB."""
    wide = image.astype(np.int32)
    return wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]


def _text(text: str, width: int) -> Array:
    """A line of text as bool [TITLE, width], false where it is black."""
    from PIL import Image, ImageDraw

    strip = Image.new("1", (width, TITLE), 1)
    ImageDraw.Draw(strip).text((0, 4), text, fill=0)
    return np.asarray(strip)


def _palette(images: Iterable[Array]) -> tuple[bytes, Array]:
    """(palette, index): at most 255 most frequent colours, black and white included, and the nearest one of each 0xRRGGBB."""
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
