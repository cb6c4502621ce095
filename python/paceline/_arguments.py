"""Arguments that several constructors take, checked in one way."""

from __future__ import annotations

import numbers
import operator
from typing import Any

import numpy as np

from .errors import ConfigError
from .spaces import Array, Infos

AUTORESET = {"next_step": "NextStep", "same_step": "SameStep", "disabled": "Disabled"}
"""Our names of Gymnasium's autoreset modes, and the values of its enumeration."""


def whole(name: str, value: Any, least: int, most: int) -> int:
    """value as an int of least to most."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= most:
        raise ConfigError(f"{name}: {value!r}, must be {least} to {most}")
    return number


MOST_STEPS = 2**50  # as the library has it


def steps(name: str, value: Any, least: int) -> int:
    """A number of steps, which may be a float (1e6), as an int."""
    number: Any = value if isinstance(value, numbers.Real) else least - 1
    if not least <= number <= MOST_STEPS:
        raise ConfigError(f"{name}: {value!r}, must be a number, at least {least} and at most {MOST_STEPS}")
    return int(number)


def seed_numbers(seed: Any, n: int) -> tuple[Array, Array]:
    """(uint64 [n], bool [n]: which of n environments have one) of one seed s, for s, s + 1, ..., or of one or None for each."""
    seeds, given = np.zeros(n, np.uint64), np.zeros(n, np.bool_)
    if seed is not None and np.ndim(seed) == 0:
        seeds[:] = np.uint64(whole("seed", seed, 0, 2**64 - 1)) + np.arange(n, dtype=np.uint64)
        given[:] = True
    elif seed is not None:
        if len(seed) != n:
            raise ConfigError(f"seed: {len(seed)} numbers, must be {n}, one for each environment")
        for i, number in enumerate(seed):
            if number is not None:
                seeds[i], given[i] = whole("seed", number, 0, 2**64 - 1), True
    return seeds, given


def reset_mask(options: Infos | None, n: int) -> Array:
    """bool [n]: the environments that options["reset_mask"], the only entry there may be, names; all without it."""
    if not options:
        return np.ones(n, np.bool_)
    unknown = set(options) - {"reset_mask"}
    if unknown:
        raise ConfigError(f"options: {sorted(unknown)[0]!r} is not known, must be 'reset_mask'")
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (n,):
        what = f"{mask.dtype} of shape {mask.shape}" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise ConfigError(f"options['reset_mask']: {what}, must be a NumPy array, bool of shape {(n,)}")
    if not mask.any():
        raise ConfigError("options['reset_mask']: no entry is true, at least one must be")
    return mask.copy()


def autoreset_name(autoreset_mode: object, argument: str = "autoreset_mode") -> str:
    """Our name of a mode, for that or Gymnasium's: a member of its enumeration, or the member's value."""
    value = getattr(autoreset_mode, "value", autoreset_mode)
    for name, theirs in AUTORESET.items():
        if value in (name, theirs):
            return name
    raise ConfigError(f"{argument}: {autoreset_mode!r}, must be {', '.join(map(repr, AUTORESET))} or one of gymnasium.vector.AutoresetMode")


def autoreset_metadata(name: str) -> Any:
    """What metadata["autoreset_mode"] is for a name of AUTORESET."""
    import gymnasium

    # Gymnasium 1.0 has no such enumeration, and only the mode of that name.
    members = getattr(gymnasium.vector, "AutoresetMode", str)
    return members(AUTORESET[name])
