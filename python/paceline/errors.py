"""The errors of this package, one class for each status of the C interface.

Each class also derives from a built-in exception: ``except ValueError`` catches a refused setting,
``except OSError`` a checkpoint that cannot be written.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

BY_STATUS: dict[int, type[PacelineError]] = {}


class PacelineError(Exception):
    """The base class: the library refused or failed a call. The message is one sentence."""

    status: int = -1
    index: int | None = None  # the environment of a vector that caused the error

    def __init_subclass__(cls, status: int | None = None) -> None:
        """status: the status of the C interface that raises this class."""
        if status is not None:
            cls.status = status
            BY_STATUS[status] = cls


BY_STATUS[PacelineError.status] = PacelineError


class ConfigError(PacelineError, ValueError, status=-2):
    """An argument or a setting is not allowed (PACELINE_EINVAL)."""


class HandleError(PacelineError, ValueError, status=-3):
    """The object was closed (PACELINE_EHANDLE)."""


class BusyError(PacelineError, RuntimeError, status=-4):
    """Another thread is inside a call on the same object (PACELINE_EBUSY).

    learn makes many calls, so learn itself raises it if another thread is in save or predict at its
    next one.
    """


class CallbackError(PacelineError, RuntimeError, status=-5):
    """An environment that is not built in failed (PACELINE_ECALLBACK): a C table or a Python environment.

    Python environments (paceline.workers) also set the attributes. index is the first environment
    that failed.
    """

    indices: tuple[int, ...] = ()  # all environments that failed in the call
    traceback: str = ""  # the traceback in the worker process
    results: Any = None  # the call's result, with the rows of the other environments


class StoppedError(PacelineError, RuntimeError, status=-6):
    """stop was called while the call waited; the caller may repeat the call (PACELINE_ESTOPPED)."""


class OutOfMemoryError(PacelineError, MemoryError, status=-7):
    """The machine has too little memory for a setting (PACELINE_ENOMEM)."""


class ForkError(PacelineError, RuntimeError, status=-8):
    """The library was used in a child of ``os.fork`` (PACELINE_EFORKED): use spawn instead."""


class PanicError(PacelineError, RuntimeError, status=-9):
    """A bug in the library (PACELINE_EPANIC): this object refuses further calls, other objects still work."""


class CheckpointError(PacelineError, OSError, status=-10):
    """A file could not be read or written (PACELINE_EIO)."""


class MissingFileError(CheckpointError, FileNotFoundError):
    """The file does not exist."""


class VersionError(PacelineError, RuntimeError, status=-11):
    """The library or the checkpoint has another version (PACELINE_EVERSION)."""


class NotFiniteError(PacelineError, ArithmeticError, ValueError, status=-12):
    """The loss, an observation or a reward is NaN or infinite (PACELINE_ENAN)."""


class TimeOutError(PacelineError, TimeoutError, status=-13):
    """The time limit passed before the result was ready (PACELINE_ETIMEDOUT)."""


class StaleError(PacelineError, RuntimeError, status=-14):
    """A store has refused a gradient, because it is too old (PACELINE_ESTALE). Store.push returns an answer instead."""


class SpaceError(PacelineError, ValueError):
    """A value does not belong to the environment's declared spaces."""

    status = -2


class PacelineWarning(UserWarning):
    """The call works, but probably not as the caller expects."""


def notice(text: str) -> None:
    """Issues a PacelineWarning for the line outside this package that called it."""
    warnings.warn(text, PacelineWarning, stacklevel=_level())


def _level() -> int:
    """The stacklevel, for this function's caller, of the first line outside this package."""
    package, frame, level = os.path.dirname(__file__) + os.sep, sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level
