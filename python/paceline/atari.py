"""The Atari 2600 with ale-py's interface: the public name of paceline.compat.atari."""

from .compat.atari import *
