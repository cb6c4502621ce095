"""A trainer's weights as named arrays."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from ctypes import POINTER, c_float
from typing import Any, NamedTuple

import numpy as np

from . import _ffi, _lib
from ._arguments import array
from .errors import ConfigError
from .spaces import Array


class _Place(NamedTuple):
    """The location of an array: its parameter set, the slice of the set's flat array, its shape."""

    set: str
    part: slice
    shape: tuple[int, ...]


class Parameters:
    """All parameter sets of one trainer, by the names of stable-baselines3's policy.state_dict().

    A name is the set's name and the name within the set ("q_net.q_net.0.weight"); the set "policy"
    adds no prefix. Convolutions are [out, in, height, width], dense layers [out, in].
    """

    def __init__(self, trainer: _lib.Handle, sets: list[dict[str, Any]]) -> None:
        """sets: the name and the size of each, from paceline_trainer_describe."""
        self._trainer = trainer
        self.sizes: dict[str, int] = {s["name"]: int(s["size"]) for s in sets}
        self.layout: dict[str, _Place] = {}
        for set in self.sizes:
            for p in _lib.each(_ffi.Parameter, _lib.lib().paceline_trainer_parameter, trainer.value, set.encode()):
                name = p.name.decode() if set == "policy" else f"{set}.{p.name.decode()}"
                self.layout[name] = _Place(set, slice(p.offset, p.offset + p.size), tuple(p.shape[: p.ndim]))

    def read(self) -> dict[str, Array]:
        """Copies of all arrays, after the updates due at this step."""
        flat = {name: self.flat(name) for name in self.sizes}
        return {name: flat[at.set][at.part].reshape(at.shape).copy() for name, at in self.layout.items()}

    def flat(self, set: str) -> Array:
        """A copy of a whole set, as one array."""
        flat = np.empty(self.sizes[set], np.float32)
        _lib.lib().paceline_trainer_get_parameters(_pointer(flat), flat.size, None, self._trainer.value, set.encode())
        return flat

    def write(self, given: Mapping[str, Any], exact: bool, names: Mapping[str, str]) -> None:
        """Sets the given arrays, all or none.

        exact: requires every name, and no other except repetitions(). names: those of messages, where they differ.
        """
        missing, unknown = self.layout.keys() - given.keys(), given.keys() - self.layout.keys() - repetitions(given, self.layout)

        def shown(some: Iterable[str]) -> list[str]:
            return sorted(names.get(name, name) for name in some)

        if exact and (missing or unknown):
            raise ConfigError(f"parameters['policy']: missing {shown(missing)}, unknown {shown(unknown)}")
        if not self.layout.keys() & given.keys():
            raise ConfigError(f"parameters: has {shown(given)}, must have at least one of {shown(self.layout)}")
        flat: dict[str, Array] = {}
        for name, at in self.layout.items():
            if name not in given:
                continue
            field = f"parameters['policy'][{names.get(name, name)!r}]"
            value = array(field, given[name])
            if value.shape != at.shape:
                raise ConfigError(f"{field}: shape {value.shape}, must be {at.shape}")
            if not np.isfinite(value).all():
                raise ConfigError(f"{field}: has {value[~np.isfinite(value)][0]}, must be finite in float32")
            if at.set not in flat:
                flat[at.set] = self.flat(at.set)
            flat[at.set][at.part] = value.reshape(-1)
        for set, values in flat.items():
            _lib.lib().paceline_trainer_set_parameters(self._trainer.value, set.encode(), _pointer(values), values.size)


def repetitions(state: Mapping[str, Any], own: Container[str]) -> set[str]:
    """Names in state of extractor arrays that `own` has under another name.

    An extractor shared by both heads has three names in stable-baselines3.
    """
    found = set()
    for name, value in state.items():
        extractor, features, rest = name.partition("features_extractor.")
        if features and name not in own and extractor in ("", "pi_", "vf_"):
            others = (f"{of}features_extractor.{rest}" for of in ("", "pi_", "vf_"))
            flat = array(name, value)
            if any(other in own and other in state and np.array_equal(flat, array(other, state[other])) for other in others):
                found.add(name)
    return found


def _pointer(flat: Array) -> Any:
    return flat.ctypes.data_as(POINTER(c_float))
