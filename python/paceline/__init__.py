"""Paceline: reinforcement learning whose environments and updates run concurrently.

    from paceline import DQN

    with DQN("MlpPolicy", "CartPole-v1", num_envs=8, seed=1) as model:
        model.learn(50_000, progress_bar=True)
        model.save("cartpole.paceline")

DQN, A2C and PPO have stable-baselines3's keywords, A3C, APPO and GA3C those of A2C and PPO, Gorila those of DQN.
Importing this package registers its environments with Gymnasium ("paceline/Pong-v0"), in either order of the two imports.
The import loads neither NumPy nor Gymnasium nor libpaceline. The library is loaded at its
first use, so a program may fork its workers before that.
"""

from __future__ import annotations

import importlib

from ._version import __version__
from .envs import registration

TYPE_CHECKING = False  # type checkers treat this name as typing.TYPE_CHECKING; no import is needed
if TYPE_CHECKING:
    from typing import Any

    # Must list the modules of _MODULES and the names of _WHERE.
    from . import (
        bench as bench,
        callbacks as callbacks,
        distributed as distributed,
        envpool as envpool,
        errors as errors,
        plots as plots,
        sb3 as sb3,
        schedules as schedules,
        scores as scores,
        starts as starts,
        videos as videos,
    )  # fmt: skip
    from .a2c import A2C
    from .a3c import A3C
    from .appo import APPO
    from .dqn import DQN
    from .envs import single as single, workers as workers
    from .envs.single import make
    from .envs.vec import load_env, make_vec
    from .errors import PacelineError, PacelineWarning
    from .ga3c import GA3C
    from .gorila import Gorila
    from .policy import Evaluation, Policy
    from .ppo import PPO
    from .pqn import PQN
    from .qrdqn import QRDQN
    from .schedules import linear
    from .store import Store, shard_ranges

_WHERE = {
    "A2C": "a2c",
    "A3C": "a3c",
    "APPO": "appo",
    "DQN": "dqn",
    "GA3C": "ga3c",
    "Gorila": "gorila",
    "PPO": "ppo",
    "PQN": "pqn",
    "QRDQN": "qrdqn",
    "Policy": "policy",
    "Evaluation": "policy",
    "linear": "schedules",
    "load_env": "envs.vec",
    "make": "envs.single",
    "make_vec": "envs.vec",
    "Store": "store",
    "shard_ranges": "store",
    "PacelineError": "errors",
    "PacelineWarning": "errors",
}
_MODULES = {
    **{
        name: name
        for name in ("bench", "callbacks", "distributed", "envpool", "errors", "plots", "sb3", "schedules", "scores", "starts", "videos")
    },
    "single": "envs.single",
    "workers": "envs.workers",
}

__all__ = [
    "A2C",
    "A3C",
    "APPO",
    "DQN",
    "GA3C",
    "PPO",
    "PQN",
    "QRDQN",
    "Evaluation",
    "Gorila",
    "PacelineError",
    "PacelineWarning",
    "Policy",
    "Store",
    "__version__",
    "linear",
    "load_env",
    "make",
    "make_vec",
    "shard_ranges",
]

registration.register_with_gymnasium()


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


if not TYPE_CHECKING:  # with a visible __getattr__ a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name in _WHERE:
            return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
        if name in _MODULES:
            return importlib.import_module(f".{_MODULES[name]}", __name__)
        raise AttributeError(f"module 'paceline' has no attribute {name!r}")
