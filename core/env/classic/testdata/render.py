"""Draws the states of images.csv with Gymnasium. Tests compare the library's images with these.

    python render.py        (needs gymnasium and pygame; writes *.png to its own folder)

A .png holds the images of one task, from top to bottom.
"""

import os
import pathlib

os.environ["SDL_VIDEODRIVER"] = "dummy"

import gymnasium
import numpy as np
import pygame

HERE = pathlib.Path(__file__).parent
images = {}
for line in (HERE / "images.csv").read_text().split():
    name, *state = line.split(",")
    env = gymnasium.make(name, render_mode="rgb_array").unwrapped
    env.reset(seed=0)
    env.state = np.array(state, np.float64)
    images.setdefault(name, []).append(env.render())
for name, several in images.items():
    pygame.image.save(pygame.surfarray.make_surface(np.concatenate(several).swapaxes(0, 1)), HERE / f"{name}.png")
