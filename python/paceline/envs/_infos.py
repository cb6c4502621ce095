"""Reads infos of any form; infos of an unexpected form are ignored and never end a run.

One environment's infos are a dict. A vector's infos are Gymnasium's columns with masks
({"speed": [...], "_speed": [...]}), columns without masks (ale-py's vector), or one dict for each
environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..spaces import Array


def of_one(info: object) -> dict[Any, Any]:
    """One environment's infos; {} if they are no dict."""
    return dict(info) if isinstance(info, Mapping) else {}


def as_columns(infos: object, n: int) -> dict[Any, Any]:
    """A vector's infos of any form as columns with masks; {} for an unknown form."""
    if isinstance(infos, Mapping):
        return dict(infos)
    if not isinstance(infos, (list, tuple, np.ndarray)) or len(infos) != n:
        return {}
    columns: dict[Any, Any] = {}
    for i, info in enumerate(infos):
        for name, value in of_one(info).items():
            if isinstance(name, str) and name[:1] == "_":
                continue  # the name would be taken for a mask
            if name not in columns:
                columns[name], columns[_mask_of(name)] = np.empty(n, object), np.zeros(n, bool)
            columns[name][i], columns[_mask_of(name)][i] = value, True
    return columns


def copied(infos: Any) -> Any:
    """A copy of infos, their dicts, arrays and lists; the values inside lists and object arrays stay the same objects."""
    if isinstance(infos, Mapping):
        return {name: copied(column) for name, column in infos.items()}
    return infos.copy() if isinstance(infos, (np.ndarray, list)) else infos


def split(infos: object, n: int, outer: Array | None = None) -> list[dict[Any, Any]]:
    """A vector's infos as a dict for each environment.

    outer: the mask of columns without a mask, such as those in the "episode" of
    RecordEpisodeStatistics around a vector. A value without an entry for each environment is
    dropped.
    """
    each: list[dict[Any, Any]] = [{} for _ in range(n)]
    infos = as_columns(infos, n)
    masks = {_mask_of(name) for name in infos}
    for name, column in infos.items():
        if name in masks:
            continue
        mask = _mask(infos.get(_mask_of(name)), n)
        if mask is None:
            mask = np.ones(n, bool) if outer is None else outer
        values = entries(column, n, mask)
        if values is None:
            continue
        if mask.all():
            for info, value in zip(each, values):
                info[name] = value
        else:
            for i in np.flatnonzero(mask).tolist():
                each[i][name] = values[i]
    return each


def truth(value: object) -> bool:
    """The truth of a value; False if it has none."""
    try:
        return bool(value)
    except (TypeError, ValueError):
        return False


def number(value: object) -> float | None:
    """A single number or bool as a float; None for any other value."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # nested lists of different lengths
        return None
    return None if array.size != 1 or array.dtype.kind not in "biuf" else array.item()


def _mask_of(name: object) -> str:
    return f"_{name}"


def _mask(given: object, n: int) -> Array | None:
    """The mask as bool [n], or None if it is no mask."""
    try:
        mask = np.asarray(given)
    except (TypeError, ValueError):
        return None
    return mask.astype(bool) if mask.shape == (n,) and mask.dtype.kind in "biu" else None


def entries(column: object, n: int, mask: Array) -> Any:
    """A column's entries by environment, or None if it has none."""
    if isinstance(column, Mapping):
        return split(column, n, mask)
    if isinstance(column, np.ndarray):
        return None if column.ndim == 0 or len(column) != n else column.tolist() if column.ndim == 1 else column
    return column if isinstance(column, (list, tuple)) and len(column) == n else None
