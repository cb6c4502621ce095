"""The arrays that set_parameters is given: a dict or a file."""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ._files import File, reading
from .compat import _sb3_file
from .errors import CheckpointError, ConfigError
from .policy import Policy
from .spaces import Array


def given(
    parameters: Mapping[str, Any] | File, own: Collection[str], sets: Collection[str], exact: bool
) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The arrays in the argument of set_parameters by name, and the names for messages where they differ.

    own: the names of the model's arrays. sets: the names of its parameter sets. The arrays have the
    library's names for those of sb3-contrib's QRDQN. Messages have the names that were given.
    """
    if isinstance(parameters, (str, bytes, os.PathLike)) or hasattr(parameters, "read"):
        with reading(parameters) as path:
            return _of_file(path, own, sets, exact), {}
    if isinstance(parameters, Mapping) and (renamed := _renamed(parameters, own))[0].keys() & set(own):
        return renamed
    if not isinstance(parameters, Mapping) or "policy" not in parameters:
        raise ConfigError(
            "parameters: must be a dict with the key 'policy', as get_parameters returns, model.policy.state_dict() or a path"
        )
    extra = set(parameters) - {"policy", "policy.optimizer"}
    if extra and exact:
        raise ConfigError(f"parameters: {sorted(extra)}, must be 'policy' alone; exact_match=False ignores the others")
    return _renamed(parameters["policy"], own)


def _renamed(arrays: Mapping[str, Any], own: Collection[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays by the library's names, and the names for messages: sb3-contrib's if one of them was given."""
    if not isinstance(arrays, Mapping):
        raise ConfigError(f"parameters['policy']: {type(arrays).__name__}, must be a dict of arrays")
    for name in arrays:
        if not isinstance(name, str):
            raise ConfigError(f"parameters: the name {name!r}, must be a str")
    names = {_sb3_file.own_name(name): name for name in arrays}
    contrib = {name: _sb3_file.contrib_name(name) for name in own} if set(names) != set(arrays) else {}
    return {name: arrays[of] for name, of in names.items()}, contrib | names


def _of_file(path: str, own: Collection[str], sets: Collection[str], exact: bool) -> dict[str, Array]:
    """The arrays in a file of save, Policy.save or stable-baselines3.

    exact: a stable-baselines3 file must have exactly the arrays of `own`.
    """
    if _sb3_file.is_one(path):
        saved = _sb3_file.read(path)
        if exact:
            quantiles = any(".quantile_net." in name for name in own)
            saved.refuse_other_network(any(name.startswith("q_net.") for name in own), quantiles, "set_parameters")
        return saved.parameters(own) if exact else {name: saved.state[name] for name in own if name in saved.state}
    _sb3_file.refuse_pickle(path, "set_parameters")
    Policy.load(path).close()  # the library checks the manifest, the parts' sizes and the set that acts
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
        raise CheckpointError(f"{path}: has none of this model's weights ({', '.join(sets)}), must be from a model of the same class")
    return arrays


def _safetensors(data: bytes) -> dict[str, Array]:
    """The arrays of a safetensors file of float32, each of which begins at the end of the one before."""
    start = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, dict[str, Any]] = json.loads(data[8:start])
    arrays, at = {}, 0
    for name, tensor in header.items():
        if tensor["dtype"] != "F32":
            raise ValueError(f"tensor {name!r}: dtype {tensor['dtype']}, must be F32")
        begin, end = tensor["data_offsets"]
        must_end = at + 4 * math.prod(tensor["shape"])
        if (begin, end) != (at, must_end) or end > len(data) - start:
            raise ValueError(f"tensor {name!r}: bytes {begin} to {end} of {len(data) - start}, must be {at} to {must_end}")
        arrays[name] = np.frombuffer(data[start + begin : start + end], "<f4").reshape(tensor["shape"])
        at = end
    return arrays
