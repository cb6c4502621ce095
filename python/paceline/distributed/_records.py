"""The bytes of a state, checks of its head, and logs of answers that outlive their process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..errors import CheckpointError

_MOST = 1 << 20  # bytes of a head


def pack(head: dict[str, Any], body: bytes) -> bytes:
    """A state: the length of the head (4 bytes, little-endian), the head in JSON, the body."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return len(text).to_bytes(4, "little") + text + body


def unpack(state: bytes, what: str) -> tuple[dict[str, Any], bytes]:
    """The head and the body of a state. what: the name of the state in the message of a CheckpointError."""
    size = int.from_bytes(state[:4], "little")
    try:
        if not 2 <= size <= min(_MOST, len(state) - 4):
            raise ValueError(f"a head of {size} bytes")
        head = json.loads(state[4 : 4 + size])
        if not isinstance(head, dict):
            raise ValueError("the head is not an object")
    except ValueError as err:
        raise CheckpointError(f"{what}: not a state of paceline ({err})") from None
    return head, state[4 + size :]


def counts_of(head: dict[str, Any], key: str, what: str, length: int = 0) -> list[int]:
    """Whole numbers from 0 to 2**62 in a head. length: how many there must be, 0 for any number."""
    values = head.get(key)
    if not isinstance(values, list) or (length and len(values) != length):
        raise CheckpointError(f"{what}: {key} is not a list of {length or 'whole'} numbers")
    for value in values:
        if type(value) is not int or not 0 <= value <= 1 << 62:
            raise CheckpointError(f"{what}: {key} has {value!r}, must be a whole number, at least 0")
    return values


def rows_of(head: dict[str, Any], key: str, what: str, length: int) -> list[list[int]]:
    """A list of lists of `length` numbers; see counts_of."""
    rows = head.get(key)
    if not isinstance(rows, list):
        raise CheckpointError(f"{what}: {key} is not a list")
    return [counts_of({key: row}, key, what, length) for row in rows]


class Log:
    """Appends lines to a file, each with one write, so that a killed process leaves whole lines.

    It is for tests and benchmarks, which compare what shards and learners have answered and heard.
    """

    def __init__(self, folder: str, name: str) -> None:
        """folder: "" writes nothing."""
        self._file = -1
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, *values: object) -> None:
        if self._file >= 0:
            os.write(self._file, (" ".join(map(str, values)) + "\n").encode())
