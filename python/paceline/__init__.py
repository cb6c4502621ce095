"""Paceline: deep Q-learning in which environments, replay and training run at once.

    from paceline import DQN

    with DQN("MlpPolicy", "CartPole-v1", num_envs=8, seed=1) as model:
        model.learn(50_000, progress_bar=True)
        model.save("cartpole.paceline")

Importing this package registers its environments with Gymnasium ("paceline/Pong-v0")
and does not load the library: that happens at first use, so that a program may fork
its workers before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import registration
from ._version import __version__

if TYPE_CHECKING:
    from .dqn import DQN
    from .errors import PacelineError, PacelineWarning
    from .policy import Evaluation, Policy
    from .schedules import linear
    from .single import make
    from .vec import load_env, make_vec

_WHERE = {
    "DQN": "dqn",
    "Policy": "policy",
    "Evaluation": "policy",
    "linear": "schedules",
    "load_env": "vec",
    "make": "single",
    "make_vec": "vec",
    "PacelineError": "errors",
    "PacelineWarning": "errors",
}
_MODULES = frozenset({"bench", "callbacks", "envpool", "errors", "sb3", "schedules", "single", "workers"})

__all__ = ["DQN", "Evaluation", "PacelineError", "PacelineWarning", "Policy", "__version__", "linear", "load_env", "make", "make_vec"]

registration.register()


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'paceline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
