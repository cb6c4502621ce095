"""The Atari 2600 under ale-py's names: the public name of paceline.envs.atari."""

from .envs.atari import *
