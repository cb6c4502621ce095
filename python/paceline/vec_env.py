"""The library's vector environments: the public name of paceline.envs.vec_env."""

from .envs.vec_env import *
