"""Checks of arguments that several constructors take."""

from __future__ import annotations

import numbers
import operator
from typing import Any

import numpy as np

from .errors import ConfigError
from .spaces import Array, Infos

AUTORESET = {"next_step": "NextStep", "same_step": "SameStep", "disabled": "Disabled"}
"""Paceline's names of the autoreset modes, with the values of Gymnasium's AutoresetMode."""


def whole(name: str, value: Any, least: int, most: int) -> int:
    """Returns value as an int; raises ConfigError unless it is a whole number from least to most."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise ConfigError(f"{name}: {value!r}, must be {least} to {most}")
    return number


MOST_STEPS = 2**50  # the library's limit


def steps(name: str, value: Any, least: int) -> int:
    """Returns a number of steps as an int; value may be a float, such as 1e6."""
    number: Any = value if isinstance(value, numbers.Real) else least - 1
    if not least <= number <= MOST_STEPS:
        raise ConfigError(f"{name}: {value!r}, must be a number, at least {least} and at most {MOST_STEPS}")
    return int(number)


def seed_numbers(seed: Any, n: int) -> tuple[Array, Array]:
    """Returns the seeds (uint64 [n]) and which of the n environments have one (bool [n]).

    seed: an int s stands for s, s + 1, ..., which must be below 2**64; a sequence has an int or None
    for each environment.
    """
    seeds, given = np.zeros(n, np.uint64), np.zeros(n, np.bool_)
    if seed is not None and np.ndim(seed) == 0:
        seeds[:] = np.uint64(whole("seed", seed, 0, 2**64 - n)) + np.arange(n, dtype=np.uint64)
        given[:] = True
    elif seed is not None:
        if len(seed) != n:
            raise ConfigError(f"seed: {len(seed)} numbers, must be {n}, one for each environment")
        for i, number in enumerate(seed):
            if number is not None:
                seeds[i], given[i] = whole("seed", number, 0, 2**64 - 1), True
    return seeds, given


def reset_mask(options: Infos | None, n: int) -> Array:
    """Returns options["reset_mask"] (bool [n]), or all true without it; refuses other options."""
    if options is not None and not isinstance(options, dict):
        raise ConfigError(f"options: {type(options).__name__}, must be a dict")
    if not options:
        return np.ones(n, np.bool_)
    for name in options:
        if name != "reset_mask":
            raise ConfigError(f"options: {name!r} is not known, must be 'reset_mask'")
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (n,):
        what = f"{mask.dtype} of shape {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise ConfigError(f"options['reset_mask']: {what}, must be a NumPy array, bool of shape {(n,)}")
    if not mask.any():
        raise ConfigError("options['reset_mask']: no entry is true, at least one must be")
    return mask.copy()


def array(name: str, value: Any) -> Array:
    """Returns a float32 array of an array or a torch tensor, which may be on a GPU and require gradients.

    An array of float32 is not copied. A number that is too large for float32 becomes infinite.
    """
    if hasattr(value, "detach"):  # a torch tensor
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value  # NumPy has no bfloat16
    try:
        given = np.asarray(value)
    except (TypeError, ValueError):  # such as a list with rows of several lengths
        raise ConfigError(f"{name}: {type(value).__name__}, must be an array of real numbers") from None
    if not np.can_cast(given.dtype, np.float32, "same_kind"):
        raise ConfigError(f"{name}: {given.dtype.type.__name__}, must be an array of real numbers")
    with np.errstate(all="ignore"):
        return given.astype(np.float32, copy=False)


def autoreset_name(autoreset_mode: object, argument: str = "autoreset_mode") -> str:
    """The key of AUTORESET for a mode: that key, a member of Gymnasium's AutoresetMode, or its value."""
    value = getattr(autoreset_mode, "value", autoreset_mode)
    for name, theirs in AUTORESET.items():
        if value in (name, theirs):
            return name
    raise ConfigError(f"{argument}: {autoreset_mode!r}, must be {', '.join(map(repr, AUTORESET))} or one of gymnasium.vector.AutoresetMode")


def autoreset_metadata(name: str) -> Any:
    """The value of metadata["autoreset_mode"] for a key of AUTORESET."""
    import gymnasium

    # Gymnasium 1.0 has no AutoresetMode.
    members = getattr(gymnasium.vector, "AutoresetMode", str)
    return members(AUTORESET[name])
