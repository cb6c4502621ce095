"""Vector environments for stable-baselines3's algorithms: the public name of paceline.compat.sb3."""

from .compat.sb3 import *
