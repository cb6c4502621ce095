"""Keepers: processes that own the newest copy of every shard, and the supervisor's counts."""

from __future__ import annotations

import os
from typing import Any


class Keeper:
    """Holds the newest state of every shard, and of the supervisor, in its own memory.

    A shard that starts again takes its state from a keeper. Ray restores an object whose copies are
    lost, but no object whose owner is dead. So a keeper, which is in another process and on another
    node than the shard, owns the copy.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._copies: dict[int, tuple[tuple[int, int], bytes]] = {}  # (age, state) of each shard
        self._counts: tuple[tuple[int, int], bytes] | None = None  # (age, state) of the supervisor

    def keep(self, run: str, shard: int, age: tuple[int, int], state: bytes) -> None:
        """Keeps a state, unless a newer one is kept. age: the shard's incarnation and version."""
        if run == self._run and (shard not in self._copies or self._copies[shard][0] <= tuple(age)):
            self._copies[shard] = ((int(age[0]), int(age[1])), bytes(state))

    def newest(self, run: str, shard: int) -> tuple[tuple[int, int], bytes] | None:
        """The newest (age, state) of a shard; None if none is kept."""
        return self._copies.get(shard) if run == self._run else None

    def remember(self, run: str, age: tuple[int, int], state: bytes) -> None:
        """Keeps a state of the supervisor, unless a newer one is kept. age: the supervisor's start, its number of saves."""
        if run == self._run and (self._counts is None or self._counts[0] < tuple(age)):
            self._counts = (int(age[0]), int(age[1])), bytes(state)

    def remembered(self, run: str) -> tuple[tuple[int, int], bytes] | None:
        """The newest (age, state) of the supervisor; None if none is kept."""
        return self._counts if run == self._run else None

    def status(self) -> dict[str, Any]:
        """The age and the bytes of each copy."""
        return {"pid": os.getpid(), "copies": {shard: (*age, len(state)) for shard, (age, state) in self._copies.items()}}
