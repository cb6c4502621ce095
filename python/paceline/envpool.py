"""EnvPool's interface: the public name of paceline.compat.envpool."""

from .compat.envpool import *
