"""The virtual order of learners, as core/train/order draws it: who visits which shard when.

In virtual order a seed has one result: each learner draws the durations of its rounds, gradients,
pushes and pulls from a random stream of its own, and events have the order of (time, learner). The
numbers here are those of the library, so a run on a cluster in this order is bit-identical to the
run in one process.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..errors import ConfigError

_MASK = (1 << 128) - 1
_MOST_MEDIAN, _MOST_SIGMA = 60, 2  # seconds; as in core/train/order
_LOWEST, _HIGHEST = 16, 1024  # bounds of a draw: a part of its median, and a multiple

# The rational approximations of the quantile of the normal distribution in core/rng/normal.go
# (Wichura 1988, algorithm AS 241).
_CENTRE = (
    (3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
_TAIL = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
     1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
_FAR = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)  # fmt: skip


class Stream:
    """A stream of core/rng: Go's PCG-DXSM, seeded by SHA-256 of the seed, the index and the name."""

    def __init__(self, seed: int, name: str, index: int) -> None:
        digest = hashlib.sha256(seed.to_bytes(8, "little") + index.to_bytes(8, "little") + name.encode()).digest()
        self._state = int.from_bytes(digest[:8], "little") << 64 | int.from_bytes(digest[8:16], "little")

    def uint64(self) -> int:
        self._state = (self._state * 0x2360ED051FC65DA44385DF649FCCF645 + 0x5851F42D4C957F2D14057B7EF767814F) & _MASK
        high, low = self._state >> 64, self._state & (1 << 64) - 1
        high ^= high >> 32
        high = high * 0xDA942042E4DD58B5 & (1 << 64) - 1
        high ^= high >> 48
        return high * (low | 1) & (1 << 64) - 1

    def normal(self) -> float:
        return _quantile((self.uint64() >> 11) * 2.0**-53 + 2.0**-54)

    def lognormal(self, sigma: float) -> float:
        return math.exp(sigma * self.normal())


def _quantile(p: float) -> float:
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return q * _polynomial(r, _CENTRE[0]) / _polynomial(r, _CENTRE[1])
    r, of, start = math.sqrt(-math.log(min(p, 1 - p))), _TAIL, 1.6
    if r > 5:
        of, start = _FAR, 5.0
    return math.copysign(_polynomial(r - start, of[0]) / _polynomial(r - start, of[1]), q)


def _polynomial(x: float, c: tuple[float, ...]) -> float:
    y = c[7]
    for k in range(6, -1, -1):
        y = y * x + c[k]
    return y


class Duration:
    """A distribution "median:sigma" or "median", in seconds; draws are whole nanoseconds."""

    def __init__(self, text: str, name: str) -> None:
        """name: of the keyword, for the message of an error."""
        median, colon, sigma = text.partition(":")
        try:
            nanoseconds, self.sigma = 1e9 * float(median), float(sigma) if colon else 0.0
        except ValueError:
            nanoseconds = math.nan
        if not (0.5 <= nanoseconds <= 1e9 * _MOST_MEDIAN and 0 <= self.sigma <= _MOST_SIGMA):
            allowed = f"must be seconds, 1e-9 to {_MOST_MEDIAN}, or median:sigma with sigma 0 to {_MOST_SIGMA}"
            raise ConfigError(f'{name}: "{text:.80}", {allowed}')
        self.median = int(nanoseconds + 0.5)

    def draw(self, stream: Stream) -> int:
        if self.sigma == 0:
            return self.median
        drawn = int(self.median * stream.lognormal(self.sigma))
        return min(max(max(1, self.median // _LOWEST), drawn), _HIGHEST * self.median)


class Latency(NamedTuple):
    step: Duration
    forward: Duration
    gradient: Duration
    pull: Duration
    push: Duration

    @classmethod
    def of(cls, texts: Iterable[str]) -> Latency:
        """texts: the values of the keywords latency_step and its neighbours."""
        return cls(*(Duration(text, f"latency_{name}") for name, text in zip(cls._fields, texts)))


class Visit(NamedTuple):
    """A visit of a learner to a shard, or with shard -1 a round of the learner."""

    time: int
    learner: int
    shard: int = -1
    push: bool = False


class Clock:
    """The events of one learner."""

    def __init__(self, latency: Latency, seed: int, learner: int, shards: int) -> None:
        self._latency, self._learner, self._shards = latency, learner, shards
        self._stream = Stream(seed, "latency", learner)
        self._now = 0

    def rounds(self, number: int) -> Iterator[Visit]:
        """The next rounds."""
        for _ in range(number):
            step = self._latency.step.draw(self._stream)
            self._now += step + self._latency.forward.draw(self._stream)
            yield Visit(self._now, self._learner)

    def leg(self, rounds: int) -> list[Visit]:
        """A number of rounds, then a gradient, its pushes and the pulls."""
        events = list(self.rounds(rounds))
        self._now += self._latency.gradient.draw(self._stream)
        for push, of in ((True, self._latency.push), (False, self._latency.pull)):
            for shard in range(self._shards):
                self._now += max(1, of.draw(self._stream) // self._shards)
                events.append(Visit(self._now, self._learner, shard, push))
        return events
