"""The errors of this package, one class for each status of the C interface.

Each also derives from the built-in exception that a caller would look for:
``except ValueError`` catches a refused setting, ``except OSError`` a checkpoint
that cannot be written.
"""

from __future__ import annotations

from typing import Any


class PacelineError(Exception):
    """Anything that the library refuses or fails to do; the text is one sentence."""

    status: int = -1
    index: int | None = None  # the environment that it is about, of a vector


class ConfigError(PacelineError, ValueError):
    """An argument or a setting is not allowed (PACELINE_EINVAL)."""

    status = -2


class HandleError(PacelineError, ValueError):
    """The object was closed (PACELINE_EHANDLE)."""

    status = -3


class BusyError(PacelineError, RuntimeError):
    """Another thread is inside a call on the same object (PACELINE_EBUSY)."""

    status = -4


class CallbackError(PacelineError, RuntimeError):
    """An environment that is not the library's own failed (PACELINE_ECALLBACK): one of a C
    table, or one in Python (paceline.workers), which also sets the attributes; index is the first that failed."""

    status = -5
    indices: tuple[int, ...] = ()  # all that failed in the call
    traceback: str = ""  # of the process that stepped it
    results: Any = None  # what the call would have returned


class StoppedError(PacelineError, RuntimeError):
    """stop was called while the call waited; it can be made again (PACELINE_ESTOPPED)."""

    status = -6


class OutOfMemoryError(PacelineError, MemoryError):
    """The machine has not the memory that a setting asks for (PACELINE_ENOMEM)."""

    status = -7


class ForkError(PacelineError, RuntimeError):
    """Used in a child of ``os.fork`` (PACELINE_EFORKED): use spawn instead."""

    status = -8


class PanicError(PacelineError, RuntimeError):
    """A bug in the library (PACELINE_EPANIC): this object is spoilt, others go on."""

    status = -9


class CheckpointError(PacelineError, OSError):
    """A file could not be read or written (PACELINE_EIO)."""

    status = -10


class VersionError(PacelineError, RuntimeError):
    """A library or a checkpoint of another version (PACELINE_EVERSION)."""

    status = -11


class NotFiniteError(PacelineError, ArithmeticError):
    """The loss, an observation or a reward is NaN or infinite (PACELINE_ENAN)."""

    status = -12


class TimeOutError(PacelineError, TimeoutError):
    """The time allowed was over before there was a result (PACELINE_ETIMEDOUT)."""

    status = -13


BY_STATUS = {PacelineError.status: PacelineError} | {cls.status: cls for cls in PacelineError.__subclasses__()}


# Below: what the library itself never reports.


class SpaceError(PacelineError, ValueError):
    """An environment does not keep to the spaces it declared."""

    status = -2


class PacelineWarning(UserWarning):
    """Something that works, but probably not as meant."""
