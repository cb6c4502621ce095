"""The Atari 2600 under ale-py's names: the public name of paceline.compat.atari."""

from .compat.atari import *
