"""The environments that get_env returns: the model's own, watched."""

from __future__ import annotations

import copy
import operator
import types
from typing import Any

from ._source import Source

# The methods of Gymnasium, stable-baselines3 and this library that begin a step or a reset.
_BEGINS = ("reset", "step", "reset_async", "step_async", "async_reset", "send")
_SOURCE = "_paceline_source"


def lent(env: Any, source: Source) -> Any:
    """env as an object whose steps and resets cut the episodes of source, or raise BusyError during learn.

    It has the attributes of env and is an instance of a subclass of its class. A wrapper would hide
    both, and stable-baselines3 compares the layers of two environments. An env whose state is not
    only its __dict__, or whose class refuses subclasses, is returned as it is.
    """
    kind = type(env)
    if any(getattr(base, "__slots__", ()) for base in kind.__mro__):
        return env
    names = {name: getattr(kind, name) for name in ("__doc__", "__module__", "__qualname__")}
    # Pickles and copies have the class of env. What env holds is closed when env itself is collected.
    own = {
        "__reduce_ex__": lambda self, protocol: (operator.getitem, ((env,), 0)),
        "__copy__": lambda self: copy.copy(env),
        "__del__": lambda self: None,
        _SOURCE: source,
    }
    begins = {name: _watched(env, source, name) for name in _BEGINS if callable(getattr(env, name, None))}
    try:
        view: Any = object.__new__(types.new_class(kind.__name__, (kind,), {}, lambda body: body.update(names | own | begins)))
        object.__setattr__(view, "__dict__", vars(env))
    except Exception:  # a class of an extension module, or one that refuses subclasses
        return env
    return view


def is_lent(env: Any, source: Source) -> bool:
    """Whether lent returned env for source."""
    return getattr(type(env), _SOURCE, None) is source


def _watched(env: Any, source: Source, name: str) -> Any:
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        source.cut(name)
        return getattr(env, name)(*args, **keywords)

    call.__name__, call.__doc__ = name, getattr(getattr(env, name), "__doc__", None)
    return call
