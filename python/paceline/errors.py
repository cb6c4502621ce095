"""The errors of this package, one class for each status of the C interface.

Each also derives from the built-in exception that a caller would look for:
``except ValueError`` catches a refused setting, ``except OSError`` a checkpoint
that cannot be written.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

BY_STATUS: dict[int, type[PacelineError]] = {}


class PacelineError(Exception):
    """Anything that the library refuses or fails to do; the text is one sentence."""

    status: int = -1
    index: int | None = None  # the environment that it is about, of a vector

    def __init_subclass__(cls, status: int | None = None) -> None:
        """status: that of the C interface, whose class it is."""
        if status is not None:
            cls.status = status
            BY_STATUS[status] = cls


BY_STATUS[PacelineError.status] = PacelineError


class ConfigError(PacelineError, ValueError, status=-2):
    """An argument or a setting is not allowed (PACELINE_EINVAL)."""


class HandleError(PacelineError, ValueError, status=-3):
    """The object was closed (PACELINE_EHANDLE)."""


class BusyError(PacelineError, RuntimeError, status=-4):
    """Another thread is inside a call on the same object (PACELINE_EBUSY)."""


class CallbackError(PacelineError, RuntimeError, status=-5):
    """An environment that is not the library's own failed (PACELINE_ECALLBACK): one of a C
    table, or one in Python (paceline.workers), which also sets the attributes; index is the first that failed."""

    indices: tuple[int, ...] = ()  # all that failed in the call
    traceback: str = ""  # of the process that stepped it
    results: Any = None  # what the call would have returned


class StoppedError(PacelineError, RuntimeError, status=-6):
    """stop was called while the call waited; it can be made again (PACELINE_ESTOPPED)."""


class OutOfMemoryError(PacelineError, MemoryError, status=-7):
    """The machine has not the memory that a setting asks for (PACELINE_ENOMEM)."""


class ForkError(PacelineError, RuntimeError, status=-8):
    """Used in a child of ``os.fork`` (PACELINE_EFORKED): use spawn instead."""


class PanicError(PacelineError, RuntimeError, status=-9):
    """A bug in the library (PACELINE_EPANIC): this object is spoilt, others go on."""


class CheckpointError(PacelineError, OSError, status=-10):
    """A file could not be read or written (PACELINE_EIO)."""


class MissingFileError(CheckpointError, FileNotFoundError):
    """There is no file of that name."""


class VersionError(PacelineError, RuntimeError, status=-11):
    """A library or a checkpoint of another version (PACELINE_EVERSION)."""


class NotFiniteError(PacelineError, ArithmeticError, status=-12):
    """The loss, an observation or a reward is NaN or infinite (PACELINE_ENAN)."""


class TimeOutError(PacelineError, TimeoutError, status=-13):
    """The time allowed was over before there was a result (PACELINE_ETIMEDOUT)."""


class SpaceError(PacelineError, ValueError):
    """An environment does not keep to the spaces it declared."""

    status = -2


class PacelineWarning(UserWarning):
    """Something that works, but probably not as meant."""


def notice(text: str) -> None:
    """Warns, and names the line outside this package that the calls in progress come from."""
    warnings.warn(text, PacelineWarning, stacklevel=_level())


def _level() -> int:
    """The stacklevel, for who calls this, of the line outside this package."""
    package, frame, level = os.path.dirname(__file__) + os.sep, sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    return level
