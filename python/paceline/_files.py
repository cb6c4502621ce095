"""Paths and file objects of save and load, with stable-baselines3's rules for suffixes."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import _lib
from .errors import CheckpointError, ConfigError, MissingFileError

File = Any  # a path, or an object with write (read) of bytes
_LONGEST = 4095  # bytes of a path, the library's limit


def _suffixed(path: Any, suffix: str) -> str:
    """The path, with the suffix added if it has none. An empty suffix adds nothing."""
    name = os.fsdecode(_lib.encode(path))
    return name if not suffix or os.path.splitext(name)[1] else f"{name}.{suffix}"


@contextlib.contextmanager
def writing(file: File, suffix: str = "zip") -> Iterator[str]:
    """Yields the path to write and makes missing folders. A file object receives the bytes at the end.

    Raises ConfigError for a path without a file's name, CheckpointError if a folder cannot be made.
    """
    if hasattr(file, "write"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")
            yield path
            file.write(Path(path).read_bytes())
        return
    name = _suffixed(file, suffix)
    if os.path.basename(os.fsdecode(file)) in ("", ".", ".."):
        raise ConfigError(f"path: {os.fsdecode(file)!r}, must be a file")
    try:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    except OSError as err:
        raise CheckpointError(f"{name}: not written: {err.strerror}") from None
    yield name


@contextlib.contextmanager
def output(path: Path) -> Iterator[Path]:
    """Yields the path of a command's file and makes missing folders. Raises CheckpointError if it cannot be written."""
    try:
        with writing(path, "") as name:
            yield Path(name)
    except CheckpointError:
        raise
    except OSError as err:
        raise CheckpointError(f"{path}: not written: {err.strerror}") from None


def check_writing(path: File, what: str, suffix: str = "zip") -> str:
    """Returns the path that writing(path, suffix) yields; raises ConfigError if it cannot be written.

    what: the argument's name in the message.
    """
    name = _suffixed(path, suffix)
    if os.path.isdir(name) or not os.path.basename(path):
        raise ConfigError(f"{what} {path}: a folder, must be a file")
    folder = os.path.dirname(os.path.abspath(name))
    while not os.path.exists(folder):  # writing makes missing folders
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise ConfigError(f"{what} {path}: {folder} must be a folder, and is a file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"{what} {path}: {folder} is not writable")
    return name


def check_different(paths: Mapping[str, str]) -> None:
    """Raises ConfigError if two arguments have the same file. paths: by the arguments' names."""
    owners: dict[str, str] = {}
    for what, path in paths.items():
        other = owners.setdefault(os.path.realpath(path), what)
        if other != what:
            raise ConfigError(f"{what} {path}: also the file of {other}, must be another one")


@contextlib.contextmanager
def reading(file: File, suffix: str = "zip") -> Iterator[str]:
    """Yields the path to read: the given path, or the path with the suffix if there is no such file.

    Raises MissingFileError if neither exists, CheckpointError for a folder or a device.
    """
    if hasattr(file, "read"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")
            if getattr(file, "seekable", lambda: False)():  # after a save the position is at the end
                file.seek(0)
            Path(path).write_bytes(file.read())
            yield path
        return
    if len(os.fsencode(file)) > _LONGEST:
        raise ConfigError(f"path: longer than {_LONGEST} bytes")
    name, other = os.fsdecode(file), _suffixed(file, suffix)
    if not os.path.isfile(name) and os.path.exists(other):
        name = other
    if not os.path.exists(name):
        raise MissingFileError(f"{name}: no such file" + (f", and no {other}" if other != name else ""))
    if not os.path.isfile(name):
        raise CheckpointError(f"{name}: a folder or a device, must be a file")
    yield name
