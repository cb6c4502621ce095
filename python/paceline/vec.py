"""make_vec and load_env: the public name of paceline.envs.vec."""

from .envs.vec import *
