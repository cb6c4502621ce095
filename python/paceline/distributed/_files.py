"""Checkpoints of a run: a zip file of the shards' states and, on request, the bundles' experience.

    run.json     the keywords, the counts, and which entries there are
    shard-K      the state of a shard: JSON and a file of paceline.Store.save
    bundle-K     a file of the worker's save(replay=True)
    replay-K     the state of a replay shard: JSON and a file of save(replay=True)

Nothing in it is a pickle. Files are untrusted: sizes are checked before anything is read, and each
entry is checked by what reads it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from typing import Any

from .._files import File, reading, writing
from ..errors import CheckpointError, PacelineError, VersionError

FORMAT = 1
_WHAT = "paceline distributed run"
_HEAD = "run.json"
_MOST = 1 << 22  # bytes of the head


class Writer:
    """Writes the entries of one checkpoint."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def head(self, values: dict[str, Any]) -> None:
        text = json.dumps({"what": _WHAT, "format": FORMAT, **values}, indent=1)
        self._archive.writestr(_HEAD, text)

    def add(self, part: str, index: int, state: bytes) -> None:
        self._archive.writestr(f"{part}-{index}", state)


@contextlib.contextmanager
def written(path: File) -> Iterator[Writer]:
    """Yields a Writer. An older file at path is replaced at the end, and stays after an error."""
    with writing(path) as name:
        folder = os.path.dirname(os.path.abspath(name))
        handle, temporary = tempfile.mkstemp(prefix=".paceline-", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                    yield Writer(archive)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, name)
        except BaseException:
            os.unlink(temporary)
            raise


class Reader:
    """Reads a checkpoint."""

    def __init__(self, path: str, archive: zipfile.ZipFile) -> None:
        self.path, self._archive = path, archive
        self._sizes = {}
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise CheckpointError(f"{path}: damaged: entry {entry.filename[:60]!r} is compressed")
            self._sizes[entry.filename] = entry.file_size
        if not 0 < self._sizes.get(_HEAD, 0) <= _MOST:
            raise CheckpointError(f"{path}: not a checkpoint of a distributed run: it has no {_HEAD}")
        head = json.loads(archive.read(_HEAD))
        if not isinstance(head, dict) or head.get("what") != _WHAT:
            raise CheckpointError(f"{path}: not a checkpoint of a distributed run")
        if head.get("format") != FORMAT:
            raise VersionError(f"{path}: format {head.get('format')!r}, this package reads {FORMAT}")
        self.head: dict[str, Any] = head

    def indexes(self, part: str) -> list[int]:
        """Which entries of a part there are."""
        ends = [name.removeprefix(f"{part}-") for name in self._sizes if name.startswith(f"{part}-")]
        return sorted(int(end) for end in ends if re.fullmatch("0|[1-9][0-9]{0,8}", end))

    @contextlib.contextmanager
    def faults(self) -> Iterator[None]:
        """Makes a CheckpointError of an error that the bytes of the file cause."""
        with _faults(self.path):
            yield

    def check(self, part: str, index: int) -> None:
        """Compares the checksum of an entry."""
        with self.faults(), self._archive.open(f"{part}-{index}") as entry:
            while entry.read(1 << 20):
                pass

    def read(self, part: str, index: int) -> bytes:
        """An entry; its checksum is compared."""
        if index not in self.indexes(part):
            raise CheckpointError(f"{self.path}: damaged: it has no {part}-{index}")
        with self.faults():
            return self._archive.read(f"{part}-{index}")


@contextlib.contextmanager
def _faults(path: str) -> Iterator[None]:
    try:
        yield
    except PacelineError:
        raise
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, TypeError, EOFError, NotImplementedError, RuntimeError) as err:
        raise CheckpointError(f"{path}: not a whole checkpoint of a distributed run ({type(err).__name__}: {err})") from None


@contextlib.contextmanager
def opened(path: File) -> Iterator[Reader]:
    """Yields a Reader. What is wrong with the file is a CheckpointError; errors of the caller stay as they are."""
    with reading(path) as name, contextlib.ExitStack() as stack:
        with _faults(name):
            reader = Reader(name, stack.enter_context(zipfile.ZipFile(name)))
        yield reader
