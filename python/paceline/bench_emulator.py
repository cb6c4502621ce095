"""The benchmark of the Atari emulator: the public name of paceline.bench.emulator."""

from .bench.emulator import *
