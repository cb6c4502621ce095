"""Arguments that several constructors take, checked in one way."""

from __future__ import annotations

import operator
from typing import Any

from .errors import ConfigError

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


def autoreset_name(autoreset_mode: Any) -> str:
    """Our name of a mode, for that or Gymnasium's: a member of its enumeration, or the member's value."""
    value = getattr(autoreset_mode, "value", autoreset_mode)
    for name, theirs in AUTORESET.items():
        if value in (name, theirs):
            return name
    raise ConfigError(
        f"autoreset_mode: {autoreset_mode!r}, must be {', '.join(map(repr, AUTORESET))} or one of gymnasium.vector.AutoresetMode"
    )


def autoreset_metadata(name: str) -> Any:
    """What metadata["autoreset_mode"] is for a name of AUTORESET."""
    import gymnasium

    # Gymnasium 1.0 has no such enumeration, and only the mode of that name.
    members = getattr(gymnasium.vector, "AutoresetMode", str)
    return members(AUTORESET[name])
