"""Gymnasium environments as a trainer's rows: the public name of paceline.envs.vector."""

from .envs.vector import *
