"""Vectors of environments written in Python: the public name of paceline.envs.workers."""

from .envs.workers import *
