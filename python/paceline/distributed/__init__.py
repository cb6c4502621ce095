"""Gorila on a Ray cluster (pip install 'paceline[ray]').

    from paceline import Gorila

    with Gorila("MlpPolicy", "CartPole-v1", cluster="ray", bundles=8, shards=4) as model:
        model.learn(1_000_000)
        model.save("run.zip", replay=True)

Nair et al. 2015: bundles (actors, replay memory, learner) push gradients to the shards of a parameter
server and pull its parameters. With actors=N actors and the replay memory are processes of their own.
All processes, and the keepers that own copies of the shards, are detached Ray actors in the namespace
"paceline"; Ray places them and starts them again. Every node needs this package.

attach(name) takes up a run whose driver has ended, stop(name) ends a run, load(path) continues a
checkpoint, on any number of nodes. docs/pages/guides/clusters.md is the manual.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # see paceline
if TYPE_CHECKING:
    from typing import Any

    from ._factory import attach, load, start, stop
    from ._model import Distributed

_WHERE = {"Distributed": "_model", "attach": "_factory", "load": "_factory", "start": "_factory", "stop": "_factory"}

__all__ = ["Distributed", "attach", "load", "start", "stop"]

if not TYPE_CHECKING:  # with a visible __getattr__ a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name in _WHERE:
            return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
        raise AttributeError(f"module 'paceline.distributed' has no attribute {name!r}")
