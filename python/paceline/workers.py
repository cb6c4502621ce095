"""Environments written in Python, stepped in processes: the public name of paceline.envs.workers."""

from .envs.workers import *
