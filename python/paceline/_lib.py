"""Finding, loading and calling libpaceline.

The library is loaded at the first call, not at import: Go's threads do not survive a fork, so a
program must be able to fork its workers first. It stays loaded until the process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import itertools
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from . import _ffi
from .errors import BY_STATUS, CheckpointError, ConfigError, ForkError, HandleError, MissingFileError, PacelineError, VersionError

PACKAGE = Path(__file__).resolve().parent
INCLUDE_DIR = PACKAGE / "include"
Struct = TypeVar("Struct", bound=_ffi.Growable)


class Closing(Protocol):
    """An object that close_at_exit takes."""

    def _exit(self) -> None: ...


_lock = threading.Lock()
_dll: ctypes.CDLL | None = None
# The library's messages of a closed object, and those of refuse_closed. A model has a trainer and a config.
_CLOSED = {
    f"paceline_{kind}: the handle was freed": f"{what}: closed"
    for kind, what in {"vec": "environments", "trainer": "model", "config": "model", "policy": "policy"}.items()
}
_forked = False
# Closed before the interpreter is torn down, so that no thread of the library uses memory that
# Python frees.
_at_exit: weakref.WeakSet[Closing] = weakref.WeakSet()
_ending = False


def find() -> Path:
    """The library's file: $PACELINE_LIBRARY, else the one in the package."""
    chosen = os.environ.get("PACELINE_LIBRARY")
    path = Path(chosen or PACKAGE / "lib" / f"libpaceline.so.{_ffi.ABI_VERSION}")
    if path.is_file():
        return path
    hint = " (from PACELINE_LIBRARY)" if chosen else "; install the package, or set PACELINE_LIBRARY to the library's path"
    raise PacelineError(f"libpaceline was not found: tried {path}{hint}")


def lib() -> ctypes.CDLL:
    """The loaded library; raises ForkError in a child of the process that loaded it."""
    if _forked:
        raise ForkError(
            "paceline was loaded before this process forked and cannot be used in it: "
            f"start it by spawn, {_spawning()}, or import and train only in the child"
        )
    return _dll if _dll is not None else _load()


# The argument that makes a class start its processes by spawn, by the module that its processes run
# in.
_BY_SPAWN = {
    "gymnasium.vector.async_vector_env": 'AsyncVectorEnv(..., context="spawn")',
    "stable_baselines3.common.vec_env.subproc_vec_env": 'SubprocVecEnv(..., start_method="spawn")',
    "paceline.envs._worker": 'make_vec(..., context="spawn")',
    "torch.utils.data._utils.worker": 'DataLoader(..., multiprocessing_context="spawn")',
    "concurrent.futures.process": 'ProcessPoolExecutor(..., mp_context=multiprocessing.get_context("spawn"))',
    "multiprocessing.process": 'multiprocessing.get_context("spawn")',
}


def _spawning() -> str:
    """The entry of _BY_SPAWN for the class that started this process: the innermost caller that has one."""
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        if how := _BY_SPAWN.get(frame.f_globals.get("__name__", "")):
            return how
    return f"{_BY_SPAWN['stable_baselines3.common.vec_env.subproc_vec_env']} or {_BY_SPAWN['gymnasium.vector.async_vector_env']}"


def _load() -> ctypes.CDLL:
    global _dll
    with _lock:
        if _dll is not None:
            return _dll
        path = find()
        try:
            dll = ctypes.CDLL(str(path), mode=os.RTLD_LOCAL | os.RTLD_NOW)
        except OSError as err:
            raise PacelineError(f"{path} could not be loaded: {err}") from None
        if not hasattr(dll, "paceline_abi_version"):
            raise VersionError(f"{path} is not libpaceline: it has no paceline_abi_version")
        if dll.paceline_abi_version() != _ffi.ABI_VERSION:
            raise VersionError(f"{path} has interface version {dll.paceline_abi_version()}, this package needs {_ffi.ABI_VERSION}")
        for name, (result, arguments) in _ffi.PROTOTYPES.items():
            function = getattr(dll, name, None)
            if function is None:
                raise VersionError(f"{path} is older than this package: it has no {name}")
            function.argtypes = arguments
            if result is _ffi.STATUS:
                function.restype = ctypes.c_int
                function.errcheck = _raise
            else:
                function.restype = result
        os.register_at_fork(after_in_child=_mark_forked)
        atexit.register(_close_all)
        _dll = dll
        for folder in rom_folders():
            with contextlib.suppress(PacelineError):  # the name is not UTF-8; a missing game's message lists the folders
                dll.paceline_rom_folder(os.fsencode(folder))
        return dll


def rom_folders() -> list[Path]:
    """The folder of an installed ale-py's ROM files, if there is one; does not import ale-py."""
    try:
        spec = importlib.util.find_spec("ale_py")
    except ValueError:  # sys.modules has an ale_py without a spec, such as a mock
        spec = None
    found = [Path(location) / "roms" for location in (spec.submodule_search_locations or [])] if spec else []
    return [folder for folder in found if folder.is_dir()]


def _raise(status: int, function: object, arguments: object) -> int:
    """ctypes' errcheck: raises the error of a status. The library keeps the message for each thread."""
    if status:
        assert _dll is not None
        _leave_if_ending()
        text = _dll.paceline_last_error().decode("utf-8", "replace")
        text = _CLOSED.get(text, text)
        kind = BY_STATUS.get(status, PacelineError)
        if kind is CheckpointError and text.endswith("no such file or directory"):
            kind = MissingFileError
        err = kind(text or f"status {status}")
        index = int(_dll.paceline_last_error_index())
        err.index = index if index >= 0 else None
        raise err
    return status


def _mark_forked() -> None:
    global _forked
    _forked = True


def _close_all() -> None:
    global _ending
    _ending = True
    with contextlib.ExitStack() as stack:  # calls the others even if one raises
        for thing in list(_at_exit):
            stack.callback(thing._exit)


def _leave_if_ending() -> None:
    """Ends a thread other than the main one while the interpreter ends; it would print a misleading traceback."""
    processes = sys.modules.get("multiprocessing.util")  # ends worker processes, before or after _close_all
    if (_ending or (processes and processes.is_exiting())) and threading.current_thread() is not threading.main_thread():
        raise SystemExit


def refuse_closed(what: str) -> NoReturn:
    """Raises the HandleError of a call on a closed object. what: the object's name in the message."""
    _leave_if_ending()
    raise HandleError(f"{what}: closed")


def close_at_exit(thing: Closing) -> None:
    """Calls thing._exit() when the interpreter ends; keeps a weak reference only."""
    _at_exit.add(thing)


def encode(text: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bytes:
    """A name or a path as bytes for the library."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise ConfigError(f"{os.fspath(text)!r}: must not contain NUL")
    return data


def take_text(call: Callable[..., object], *arguments: object) -> str | None:
    """Calls a function whose first argument is a char ** for a text, and frees that text."""
    out = ctypes.c_void_p()
    try:
        call(ctypes.byref(out), *arguments)
        return ctypes.string_at(out.value).decode("utf-8", "replace") if out.value else None
    finally:  # also after a Ctrl-C that came with the result
        if out.value:
            lib().paceline_string_free(out)


def take_json(call: Callable[..., object], *arguments: object) -> Any:
    """take_text of a function that returns JSON, parsed; None for no text."""
    return json.loads(take_text(call, *arguments) or "null")


def take_bytes(call: Callable[..., object], *arguments: object) -> bytes:
    """Calls a function with a buffer and its size as first arguments twice: for the size, and for the bytes."""
    size = ctypes.c_size_t()
    call(None, ctypes.byref(size), *arguments)
    out = ctypes.create_string_buffer(size.value)
    call(out, ctypes.byref(size), *arguments)
    return out.raw[: size.value]


def each(struct: type[Struct], call: Callable[..., object], *arguments: object) -> Iterator[Struct]:
    """Yields the structs that a function fills for index 0, 1, ... until it refuses an index."""
    for i in itertools.count():
        out = struct()
        try:
            call(ctypes.byref(out), *arguments, i)
        except ConfigError:
            return
        yield out


class Handle:
    """Owns one handle of the library and frees it once.

    A forked child does not free a handle of its parent's.
    """

    def __init__(self, free: str, call: Callable[..., object], *arguments: object) -> None:
        """call: a constructor whose first argument is a handle **. free: the name of the function that frees its result."""
        self.references: object = None  # objects that must live as long as this handle
        self._pid = os.getpid()
        out = ctypes.c_void_p()
        self._finalizer = weakref.finalize(self, _free, out, free, self._pid)
        self._finalizer.atexit = False
        try:
            call(ctypes.byref(out), *arguments)
            assert out.value is not None
            # The library never reuses a number, so it recognises a freed handle.
            self.value = out.value
        except BaseException:  # a Ctrl-C may come with the result
            self.close()
            raise

    def __reduce__(self) -> NoReturn:
        # In another process the number is another object's or invalid.
        raise TypeError("a handle of libpaceline cannot be pickled or copied: it belongs to its process")

    @property
    def owned(self) -> bool:
        """False in a forked child of the process that made the handle."""
        return self._pid == os.getpid()

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def close(self) -> None:
        # detach, because calling the finalizer does nothing once weakref.finalize's exit handler
        # has run, which may be before _close_all.
        if alive := self._finalizer.detach():
            _, free, arguments, _ = alive
            free(*arguments)


def _free(handle: ctypes.c_void_p, free: str, pid: int) -> None:
    if handle.value and os.getpid() == pid and _dll is not None:
        getattr(_dll, free)(handle)
