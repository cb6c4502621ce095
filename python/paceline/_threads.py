"""Objects that one thread uses at a time: a second one gets a BusyError.

The library refuses calls, too, but only while it is at work itself. What it reads and
writes is prepared and handed on in Python, which other threads may interrupt anywhere, or,
where there is no interpreter's lock, run beside.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from .errors import BusyError

Method = TypeVar("Method", bound=Callable[..., Any])

# A lock of its thread, which can go on where Ctrl-C took it out of a call before that gave the lock back.
Turn = threading.RLock


def busy() -> BusyError:
    return BusyError("another call is in progress")  # as the library says it


def alone(*turns: str) -> Callable[[Method], Method]:
    """A method that is refused while another thread is inside one with the same Turn, an attribute. One or two."""

    def guarded(method: Method) -> Method:
        @functools.wraps(method)
        def call(self: Any, *args: Any, **keywords: Any) -> Any:
            first, last = getattr(self, turns[0]), getattr(self, turns[-1])
            if not first.acquire(False):
                raise busy()
            try:
                if not last.acquire(False):
                    raise busy()
                try:
                    return method(self, *args, **keywords)
                finally:
                    last.release()
            finally:
                first.release()

        return cast(Method, call)

    return guarded
