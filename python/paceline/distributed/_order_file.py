"""Order files: docs/pages/reference/order-files.md is their description."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import ConfigError, MissingFileError
from ._ordered import Step

_MAGIC = b"paceline order 2\n"
_MOST = 1 << 30  # bytes of a file
_MOST_FIELDS = 1000  # of a fingerprint


class Stop(NamedTuple):
    """The end of a slice of the run. visits: before it. steps: T. until: what T had to reach; above steps after an interruption."""

    visits: int
    steps: int
    until: int


class Order(NamedTuple):
    """A recorded order. envs: environments of a learner. settings: the fingerprint of the run.

    A run on a cluster learns once, so the order ends before T is set back for another call of learn.
    """

    learners: int
    shards: int
    envs: int
    settings: dict[str, str]
    steps: list[Step]
    stops: list[Stop]

    def part(self, total: int) -> tuple[list[Step], int]:
        """The visits of a run of total steps, and the steps that all learners have taken when it ends.

        The file has the rounds before a stop, but not which of them came before a visit. So a run ends at a stop.
        """
        ends = [stop for stop in self.stops if stop.until <= total <= stop.steps or total == stop.steps]
        if not ends:
            known = " or ".join(str(steps) for steps in sorted({stop.steps for stop in self.stops}))
            raise ConfigError(f"total_timesteps: {total}, must be {known}, where the order has a stop")
        return self.steps[: ends[-1].visits], ends[-1].steps


def read_order(path: str) -> Order:
    """Reads a file of save_order. A file that is damaged raises ConfigError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST + 1)
    except FileNotFoundError:
        raise MissingFileError(f"order: {path}: no such file") from None
    except OSError as err:
        raise ConfigError(f"order: {path}: {err.strerror}") from None
    try:
        if len(data) > _MOST:
            raise ValueError(f"more than {_MOST} bytes")
        if not data.startswith(_MAGIC):
            raise ValueError(f"does not begin with {_MAGIC.decode().strip()!r}")
        if crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
            raise ValueError("its checksum differs")
        return _parsed(_Numbers(data[len(_MAGIC) : -4]))
    except (ValueError, IndexError, UnicodeDecodeError) as err:
        raise ConfigError(f"order: {path}: {err}") from None


class _Numbers:
    """Reads unsigned LEB128 varints and texts."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def next(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number above 64 bits")

    def text(self) -> str:
        size = self.next()
        self._at += size
        if self._at > len(self._data):
            raise ValueError("cut off")
        return self._data[self._at - size : self._at].decode()


def _parsed(numbers: _Numbers) -> Order:
    settings: dict[str, str] = {}
    if (fields := numbers.next()) > _MOST_FIELDS:
        raise ValueError(f"{fields} settings, must be at most {_MOST_FIELDS}")
    for _ in range(fields):
        name = numbers.text()
        settings[name] = numbers.text()
    learners, shards, envs, flags = (numbers.next() for _ in range(4))
    if not (1 <= learners <= 1024 and 1 <= shards <= 4096 and 1 <= envs <= 1 << 20):
        raise ValueError(f"{learners} learners, {shards} shards and {envs} environments")
    if flags:
        raise ValueError("pulls wait for all learners, which a cluster does not have")
    steps: list[Step] = []
    stops: list[Stop] = []
    for entry in _entries(numbers, learners, shards):
        if isinstance(entry, Step):
            steps.append(entry)
        elif stops and entry.steps < stops[-1].steps:
            break
        elif entry.steps:  # learn begins with a stop at 0
            stops.append(entry._replace(visits=len(steps)))
    if not stops:
        raise ValueError("has no stop")
    return Order(learners, shards, envs, settings, steps, stops)


def _entries(numbers: _Numbers, learners: int, shards: int) -> Iterator[Step | Stop]:
    done, alone, total = [0] * learners, [False] * learners, 0  # visits of the sequence in progress, whether it is pulls alone
    while numbers:
        code = numbers.next()
        if code == 0:
            total = numbers.next()
            yield Stop(0, total, total + 1 - numbers.next())
            for _ in range(learners):
                numbers.next()
            continue
        if code == learners + 1:
            done[numbers.next()] = 0
            continue
        k = code - 1
        if not 0 <= k < learners:
            raise ValueError(f"an entry with code {code}")
        if done[k] == 0:
            alone[k] = bool(numbers.next() & 1)
        pushes = 0 if alone[k] else shards
        push, shard = done[k] < pushes, done[k] % shards
        if not push and shard == 0:
            total += numbers.next()
        yield Step(k, shard, push, total)
        done[k] = (done[k] + 1) % (pushes + shards)


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) of some bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _entry(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value


_TABLE = tuple(_entry(value) for value in range(256))
