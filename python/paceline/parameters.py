"""A trainer's weights as named arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_float
from typing import Any

import numpy as np

from . import _ffi, _lib
from .errors import ConfigError
from .spaces import Array


class Parameters:
    """The flat array of all parameters of one trainer, by name.

    Names are stable-baselines3's with "q_net." or "q_net_target." in front;
    convolutions are [out, in, height, width], dense layers [out, in].
    """

    def __init__(self, trainer: _lib.Handle) -> None:
        self._trainer = trainer
        self.layout: dict[str, tuple[slice, tuple[int, ...]]] = {}
        self.size = 0
        parameter = _ffi.Parameter()
        while True:
            try:
                _lib.lib().paceline_trainer_parameter(ctypes.byref(parameter), trainer.value, len(self.layout))
            except ConfigError:  # past the last one
                return
            end = parameter.offset + parameter.size
            shape = tuple(parameter.shape[: parameter.ndim])
            self.layout[parameter.name.decode()] = (slice(parameter.offset, end), shape)
            self.size = max(self.size, end)

    def read(self) -> dict[str, Array]:
        """Copies of all arrays, after the updates due at this step."""
        flat = np.empty(self.size, np.float32)
        _lib.lib().paceline_trainer_get_parameters(self._trainer.value, _pointer(flat), flat.size)
        return {name: flat[where].reshape(shape).copy() for name, (where, shape) in self.layout.items()}

    def write(self, given: Mapping[str, Any], exact: bool) -> None:
        """Sets the arrays given; with exact every name must be there and no other."""
        missing, unknown = self.layout.keys() - given.keys(), given.keys() - self.layout.keys()
        if exact and (missing or unknown):
            raise ConfigError(f"parameters['policy']: missing {sorted(missing)}, unknown {sorted(unknown)}")
        values = self.read()
        for name in self.layout.keys() & given.keys():
            value = np.asarray(given[name], dtype=np.float32)
            if value.shape != values[name].shape:
                raise ConfigError(f"parameters['policy'][{name!r}]: shape {value.shape}, must be {values[name].shape}")
            values[name] = value
        flat = np.empty(self.size, np.float32)
        for name, (where, _) in self.layout.items():
            flat[where] = values[name].reshape(-1)
        _lib.lib().paceline_trainer_set_parameters(self._trainer.value, _pointer(flat), flat.size)


def _pointer(flat: Array) -> Any:
    return flat.ctypes.data_as(POINTER(c_float))
