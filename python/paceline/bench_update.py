"""The benchmark of updates and acting: the public name of paceline.bench.update."""

from .bench.update import *
