"""The ids under which Gymnasium knows the library's environments: the public name of paceline.envs.registration."""

from .envs.registration import *
