"""One environment as a gymnasium.Env: the public name of paceline.envs.single."""

from .envs.single import *
