"""Objects that one thread may use at a time: a second thread gets a BusyError.

The library refuses concurrent calls as well, but Python code before and after a call also reads and
writes the buffers, and another thread may run at any point of that code.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from .errors import BusyError

Method = TypeVar("Method", bound=Callable[..., Any])

# Reentrant: if Ctrl-C interrupts a call before it releases the lock, the same thread can still
# make calls.
CallLock = threading.RLock


def busy() -> BusyError:
    return BusyError("another call is in progress")  # the library's message


def exclusive(*turns: str) -> Callable[[Method], Method]:
    """Decorates a method so that it holds one or two CallLocks, given by attribute name; refuses a second thread."""

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
