"""The benchmark of vector environments: the public name of paceline.bench.envs."""

from .bench.envs import *
