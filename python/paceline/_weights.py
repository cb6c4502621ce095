"""Weights of checkpoints, read without making a model of them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable
from typing import Any

import numpy as np

from .compat import _sb3_file
from .errors import CheckpointError
from .spaces import Array


def of_file(path: str, own: dict[str, Array], sets: Iterable[str], exact: bool) -> dict[str, Array]:
    """The arrays that a file has, by the names that get_parameters gives: of save, Policy.save or stable-baselines3.

    own: the model's arrays, of which those of the same name are wanted. sets: the names of its sets. exact: a file of
    stable-baselines3's must have them all, and no other.
    """
    if _sb3_file.is_one(path):
        saved = _sb3_file.read(path)
        return saved.parameters(own) if exact else {name: saved.state[name] for name in own if name in saved.state}
    _sb3_file.refuse_pickle(path, "set_parameters")
    arrays: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sets:
                if f"{name}.safetensors" in archive.namelist():
                    prefix = "" if name == "policy" else f"{name}."
                    arrays |= {prefix + key: array for key, array in _safetensors(archive.read(f"{name}.safetensors")).items()}
    except (OSError, zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError) as err:
        raise CheckpointError(f"{path}: not a whole checkpoint of paceline ({type(err).__name__}: {err})") from None
    if not arrays:
        raise CheckpointError(f"{path}: has none of the weights of this model ({', '.join(sets)}), must be of a model of its class")
    return arrays


def _safetensors(data: bytes) -> dict[str, Array]:
    """The arrays of a safetensors file of float32."""
    start = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, dict[str, Any]] = json.loads(data[8:start])
    arrays = {}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        arrays[name] = np.frombuffer(data[start + begin : start + end], "<f4").reshape(tensor["shape"])
    return arrays
