"""Stores of parameters, the shards of a parameter server, and the gradients that are pushed to them."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import numbers
from ctypes import POINTER, c_float, c_int64
from typing import Any, NamedTuple

import numpy as np

from . import _ffi, _lib
from ._arguments import array, whole
from ._files import File, reading, writing
from .errors import ConfigError, StaleError
from .spaces import Array

_SUFFIX = "store"
_ALIGNMENT = 16  # numbers of a cache line, on which the library's own shards begin


def shard_ranges(size: int, shards: int) -> list[tuple[int, int]]:
    """(first, size) of each of a number of shards of `size` parameters, as the library cuts them.

    Shards differ by at most two cache lines and leave no gap. shards: 1 to 1024, at most size.
    """
    size = whole("size", size, 1, 2**40)
    shards = whole("shards", shards, 1, min(size, 1024))
    unit = 1 if size < _ALIGNMENT * shards else _ALIGNMENT
    units = -(-size // unit)
    ends = [0, *(min(size, units * (i + 1) // shards * unit) for i in range(shards))]
    return [(first, end - first) for first, end in itertools.pairwise(ends)]


class Key(NamedTuple):
    """The name of a push. A learner that is started again takes a larger life.

    learner: 0 to 4095. life: 0 or above. step: the number of the push in the life, from 1 on;
    numbers may be left out.
    """

    learner: int
    life: int
    step: int


class Answer(NamedTuple):
    """The answer to a push.

    version: of the store after the push; of a duplicate, after the first push with the key.
    lag: pushes that were applied between the learner's pull and its push. stale: the gradient was too
    old and is refused. duplicate: the key had been seen, and nothing has changed.
    """

    version: int
    lag: int
    stale: bool
    duplicate: bool


class Gradient(NamedTuple):
    """The gradient of an update, for a model with updates="outside".

    grad: float32, one number for each parameter in the order of flat_parameters, scaled down where the
    model clips its norm. dropped: the model has dropped the gradient because of its loss (outliers), and
    grad has no meaning. number: counts the model's gradients that were not dropped, from 1 on, also after
    a load: the step of a push's key. updates: the updates that adopt has told the model. num_timesteps:
    the model's steps. loss, rows: of the minibatch.
    """

    grad: Array
    number: int
    updates: int
    num_timesteps: int
    loss: float
    learning_rate: float
    rows: int
    dropped: bool


class Ledger(NamedTuple):
    """What a store remembers of a learner: counts of its latest life, and the answers to its latest pushes.

    step: the largest one. answers: (step, version, lag, stale), by step, at most 64.
    """

    learner: int
    life: int
    step: int
    applied: int
    refused: int
    duplicates: int
    answers: tuple[tuple[int, int, int, bool], ...]


class Store:
    """A range of a network's parameters and the state of their optimiser: a shard of Gorila's parameter server.

        store = Store(parameters, first=0, size=1000, optimizer="adagrad", max_staleness=20)
        answer = store.push(grad, learning_rate, seen, (learner, life, step))
        parameters, version = store.pull()

    Learners push gradients, and pull parameters. The version is the number of pushes that were
    applied. One learner that pushes every gradient and pulls before the next one is bit-identical to a
    model with that optimiser, for any number of stores whose ranges cover the parameters.

    Any number of threads may call a store concurrently; pushes and pulls are whole. A push and a pull
    copy the numbers once. Close the store, or use it in a with statement.

    parameters: all parameters, or any array of real numbers with one axis. first, size: the range of
        it that the store takes; None: the rest. The numbers are copied and must be finite in float32.
    optimizer: "adagrad" (its sums are never reset), "adam", "radam", "rmsprop", "rmsprop_mnih" or
        "rmsprop_keras". eps, decay, beta1, beta2: None for the optimiser's own. centered, eps_inside
        and first_average (0 or 1) are of "rmsprop".
    max_staleness: a gradient is refused if more pushes than this were applied since the pull that
        it was computed after; 0: none is refused.
    """

    def __init__(
        self, parameters: Any, first: int = 0, size: int | None = None, optimizer: str = "adagrad", *,
        eps: float | None = None, decay: float | None = None, beta1: float | None = None, beta2: float | None = None,
        centered: bool = False, eps_inside: bool = False, first_average: int = 0, max_staleness: int = 0,
    ) -> None:  # fmt: skip
        flat = _flat("parameters", parameters)
        if not flat.size:
            raise ConfigError("parameters: 0 numbers, must be at least 1")
        first = whole("first", first, 0, flat.size - 1)
        size = flat.size - first if size is None else whole("size", size, 1, flat.size - first)
        part = flat[first : first + size]
        if not isinstance(optimizer, str):
            raise ConfigError(f"optimizer: {optimizer!r}, must be a name, such as 'adagrad'")
        options = _ffi.StoreOptions(
            centered=_truth("centered", centered), eps_inside=_truth("eps_inside", eps_inside),
            first_average=whole("first_average", first_average, 0, 1), optimizer=_lib.encode(optimizer),
            eps=_constant("eps", eps), decay=_constant("decay", decay), beta1=_constant("beta1", beta1), beta2=_constant("beta2", beta2),
            first=first, max_staleness=whole("max_staleness", max_staleness, 0, 2**51),
        )  # fmt: skip
        new = _lib.lib().paceline_store_new
        self._adopt(_lib.Handle("paceline_store_free", new, _pointer(part), part.size, ctypes.byref(options)))

    def _adopt(self, handle: _lib.Handle) -> None:
        self._handle = handle
        described = self._described()
        self.first, self.size = int(described["first"]), int(described["size"])
        self.optimizer, self.max_staleness = str(described["optimizer"]), int(described["max_staleness"])

    @classmethod
    def _of(cls, handle: _lib.Handle) -> Store:
        self = cls.__new__(cls)
        self._adopt(handle)
        return self

    def push(self, grad: Any, learning_rate: float, seen: int, key: tuple[int, int, int]) -> Answer:
        """Takes a step of the optimiser along a gradient of the store's parameters.

        grad: [size] real numbers, which the learner has clipped; an array of float32 is not copied. A
            number that is not finite, or whose square is not, raises NotFiniteError.
        learning_rate: 0 to 1000.
        seen: the version of the pull after which the gradient was computed.
        key: (learner, life, step), see Key. A key that was seen before changes nothing and is
            answered as then. The store remembers the answers of the 64 newest steps of each learner's
            latest life, and refuses (ConfigError) older steps and older lives.

        A gradient that is too old is no error: the answer says so.
        """
        flat = _flat("grad", grad)
        if flat.size != self.size:
            raise ConfigError(f"grad: {flat.size} numbers, must be {self.size}, the parameters of the store")
        if not isinstance(learning_rate, numbers.Real):
            raise ConfigError(f"learning_rate: {learning_rate!r}, must be a number, 0 to 1000")
        if not isinstance(key, (tuple, list)) or len(key) != len(Key._fields):
            raise ConfigError(f"key: {key!r}, must be (learner, life, step)")
        learner, life, step = (whole(f"key.{name}", number, 0, 2**51) for name, number in zip(Key._fields, key))
        push = _ffi.Push(learning_rate=_float(learning_rate), seen=whole("seen", seen, 0, 2**51), learner=learner, life=life, step=step)
        answer, stale = _ffi.Answer(), False
        try:
            _lib.lib().paceline_store_push(ctypes.byref(answer), self._handle.value, _pointer(flat), flat.size, ctypes.byref(push))
        except StaleError:
            stale = True
        return Answer(answer.version, answer.lag, stale, bool(answer.duplicate))

    def pull(self, out: Array | None = None) -> tuple[Array, int]:
        """Copies the parameters: returns (parameters, version).

        out: a contiguous float32 array of `size` numbers to write, which is returned; None: a new one.
        """
        if out is None:
            out = np.empty(self.size, np.float32)
        elif not (isinstance(out, np.ndarray) and out.dtype == np.float32 and out.flags.c_contiguous and out.flags.writeable):
            raise ConfigError("out: must be a contiguous NumPy array of float32 that can be written")
        elif out.size != self.size:
            raise ConfigError(f"out: {out.size} numbers, must be {self.size}, the parameters of the store")
        version = c_int64()
        _lib.lib().paceline_store_pull(_pointer(out), out.size, ctypes.byref(version), self._handle.value)
        return out, version.value

    def _described(self) -> dict[str, Any]:
        described: dict[str, Any] = _lib.take_json(_lib.lib().paceline_store_describe, self._handle.value)
        return described

    def describe(self) -> dict[str, Any]:
        """first, size, optimizer, max_staleness, version, and the numbers of refused pushes, duplicates and pulls."""
        described = self._described()
        del described["learners"]
        return described

    @property
    def version(self) -> int:
        """The number of pushes that were applied."""
        return int(self._described()["version"])

    def ledgers(self) -> list[Ledger]:
        """The ledgers of the learners that have pushed, by their numbers."""
        return [
            Ledger(**{**ledger, "answers": tuple((*answer[:3], bool(answer[3])) for answer in ledger["answers"])})
            for ledger in self._described()["learners"]
        ]

    def save(self, path: File) -> None:
        """Writes a file for Store.load: parameters, optimiser, version, counts and ledgers.

        path: path of a file, or a file object. "x" becomes "x.store". A failure leaves an older file
        as it was.
        """
        with writing(path, _SUFFIX) as name:
            _lib.lib().paceline_store_save(self._handle.value, _lib.encode(name))

    @classmethod
    def load(cls, path: File) -> Store:
        """Makes the store of a file of save; "x" is "x.store" if there is no "x". The whole file is checked."""
        with reading(path, _SUFFIX) as name:
            return cls._of(_lib.Handle("paceline_store_free", _lib.lib().paceline_store_load, _lib.encode(name)))

    def to_bytes(self) -> bytes:
        """The bytes that save writes, for Store.from_bytes in this or another process."""
        lib, size = _lib.lib(), ctypes.c_size_t()
        while True:  # pushes of other threads may lengthen the ledgers
            lib.paceline_store_to_bytes(None, ctypes.byref(size), self._handle.value)
            out = ctypes.create_string_buffer(size.value)
            with contextlib.suppress(ConfigError):
                lib.paceline_store_to_bytes(out, ctypes.byref(size), self._handle.value)
                return out.raw[: size.value]

    @classmethod
    def from_bytes(cls, data: bytes) -> Store:
        """Makes the store of the bytes of to_bytes. They are checked."""
        if not isinstance(data, bytes):
            raise ConfigError(f"data: {type(data).__name__}, must be bytes")
        return cls._of(_lib.Handle("paceline_store_free", _lib.lib().paceline_store_from_bytes, data, len(data)))

    def __reduce__(self) -> Any:
        """Pickles and copies the store by its bytes."""
        return Store.from_bytes, (self.to_bytes(),)

    def close(self) -> None:
        """Frees the memory. A second call does nothing."""
        self._handle.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<paceline.Store of parameters {self.first} to {self.first + self.size - 1}, {self.optimizer}>"


def _flat(name: str, given: Any) -> Array:
    """A contiguous float32 array of one axis; not copied if it is one."""
    flat = array(name, given)
    if flat.ndim != 1:
        raise ConfigError(f"{name}: shape {flat.shape}, must have one axis")
    return np.ascontiguousarray(flat)


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ConfigError(f"{name}: {value!r}, must be True or False")
    return bool(value)


def _constant(name: str, value: Any) -> float:
    """The library's number for a constant of the optimiser: 0 stands for its own."""
    if value is None:
        return 0.0
    if not isinstance(value, numbers.Real) or not _float(value) > 0:
        raise ConfigError(f"{name}: {value!r}, must be a number above 0, or None for the optimiser's own")
    return _float(value)


def _float(value: Any) -> float:
    """A real number as a float: an infinity, which the library refuses, if it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _pointer(flat: Array) -> Any:
    return flat.ctypes.data_as(POINTER(c_float))
