"""Shards of the parameter server.

A Shard has one range of the parameters in a paceline.Store. It knows nothing of Ray: what it
publishes and where its copies go are functions that the caller (_processes.py) passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import CheckpointError, StoppedError
from ..spaces import Array
from ..store import Store
from . import _records, _wire
from ._ordered import Leg, Pulled, broken

APPLIED, STALE, DUPLICATE, MOVED, FOREIGN = "applied", "stale", "duplicate", "moved", "foreign"
_ANSWERS = (APPLIED, STALE, DUPLICATE, MOVED, FOREIGN)


class Answer(NamedTuple):
    """The answer to a push or a pull.

    what: "applied"; "stale", refused because of max_staleness; "duplicate", answered before: first
        says how; "moved", not applied, because the shard has started again since the learner joined
        it; or "foreign", of another run.
    version: the updates that the shard has applied. lag: updates between pull and push,
        the learner's own included.
    steps: the steps of all learners. parameters: an array, or a reference to it; None if what is
        "moved" or "foreign".
    """

    what: str
    incarnation: int
    version: int
    lag: int = 0
    steps: int = 0
    parameters: Any = None
    first: str = ""


class Joined(NamedTuple):
    """What a learner learns of a shard when it starts, or when the shard has started again.

    life: the latest of this learner that the shard knows; 0 if there is none.
    """

    incarnation: int
    version: int
    life: int
    steps: int


class Shard:
    """One range of the parameters, with the steps of all learners and what each of them pushed last.

    publish: turns a copy of the parameters into what Answer.parameters carries. It is called at most
        once for each version, when the version is first pulled.
    copied: called every copy_every updates with the shard's age and its state.
    """

    def __init__(
        self,
        run: str,
        index: int,
        store: Store,
        publish: Callable[[Array], Any],
        copied: Callable[[tuple[int, int], bytes], None],
        copy_every: int,
        ledger: str = "",
    ) -> None:
        self.run, self.index, self.incarnation = run, index, 0
        self._store, self._publish, self._copied, self._copy_every = store, publish, copied, copy_every
        self.version = store.version  # updates that the store has applied
        self._restored: list[tuple[int, int]] = []  # incarnation and first version, of each start after the first
        self._steps: dict[tuple[int, int], int] = {}  # of each learner and life
        self._total = 0  # steps of all learners
        self._counts = {0: dict.fromkeys(_ANSWERS, 0)}  # answers of each incarnation
        self._entries = 0  # of the log
        self._pulled: dict[int, int] = {}  # version of the latest pull_in_order of each learner
        self._pushed: dict[int, tuple[int, bool]] = {}  # lag and staleness of its latest push_in_order
        self._published: tuple[int, Any] = (-1, None)
        self.publications = self.pulls = 0
        self._log = _records.Log(ledger, f"shard-{index}.log")

    @property
    def age(self) -> tuple[int, int]:
        """Orders the states of one shard."""
        return self.incarnation, self.version

    # ----------------------------------------------------------- learners

    def join(self, run: str, learner: int) -> Joined:
        """Tells a learner what the shard knows of it."""
        self._check(run)
        life = max((life for k, life in self._steps if k == learner), default=0)
        return Joined(self.incarnation, self.version, life, self._total)

    def push(
        self, run: str, learner: int, life: int, step: int, incarnation: int, seen: int, rate: float, steps: int, gradient: Array
    ) -> Answer:  # fmt: skip
        """Applies a gradient of the range, and pulls.

        life, step: a push with the same learner, life and step as an earlier one changes nothing and
            is answered as the earlier one was. A push of an earlier life than the latest raises ConfigError.
        incarnation, seen: the shard's, and its version, of the parameters of the gradient.
        steps: those that the learner has taken in this life.
        gradient: float32, or bfloat16 as uint16, of the range.
        """
        if run != self.run:
            self._counts[self.incarnation][FOREIGN] += 1
            return Answer(FOREIGN, self.incarnation, self.version)
        if incarnation != self.incarnation:
            self._counts[self.incarnation][MOVED] += 1
            return Answer(MOVED, self.incarnation, self.version)
        what, first, lag = self._apply(learner, life, step, seen, rate, steps, gradient)
        return Answer(what, self.incarnation, self.version, lag, self._total, self._parameters(), first)

    def _apply(
        self, learner: int, life: int, step: int, seen: int, rate: float, steps: int, gradient: Array
    ) -> tuple[str, str, int]:  # fmt: skip
        """Applies a gradient; returns Answer's what, first and lag."""
        given = self._store.push(_wire.decode(gradient), rate, min(seen, self.version), (learner, life, step))
        first = STALE if given.stale else APPLIED
        what = DUPLICATE if given.duplicate else first
        self._counts[self.incarnation][what] += 1
        if not given.duplicate:
            self._count(learner, life, steps)
            self._log.write(learner, life, step, first)
            self._entries += 1
        if what == APPLIED:
            self.version = given.version
            if self.version % self._copy_every == 0:
                self._copied(self.age, self.state())
        return what, first, given.lag

    # ------------------------------------------------- in a given order

    def push_in_order(self, learner: int, number: int, leg: Leg, gradient: Array) -> None:
        """A push in its turn, of parameters that came with the learner's latest pull_in_order."""
        self._check_whole()
        if not leg.dropped:
            _, first, lag = self._apply(learner, 1, number, self._pulled.get(learner, 0), leg.rate, leg.steps, gradient)
            self._pushed[learner] = lag, first == STALE

    def pull_in_order(self, learner: int) -> Pulled:
        """The parameters, and what became of the push before them."""
        self._check_whole()
        self._pulled[learner] = self.version
        self.pulls += 1
        return Pulled(self.version, self._store.pull()[0], *self._pushed.pop(learner, (None, False)))

    def tell_in_order(self, steps: int) -> None:
        """Counts the steps of all learners at the end of a run, of which pushes have told less."""
        self._check_whole()
        if (missing := steps - self._total) > 0:
            life = next(iter(self._steps), (0, 1))
            self._steps[life] = self._steps.get(life, 0) + missing
            self._total = steps

    def _check_whole(self) -> None:
        """Refuses to go on from a copy, which lacks visits."""
        if self._restored:
            raise StoppedError(broken("shard", self.index))

    # -------------------------------------------------------------- counts

    def tell(self, run: str, learner: int, life: int, steps: int) -> None:
        """Counts steps of a learner's life that no push has told, or that the shard has lost."""
        self._check(run)
        self._count(learner, life, steps)

    def pull(self, run: str) -> Answer:
        """The newest parameters of the range."""
        self._check(run)
        return Answer(APPLIED, self.incarnation, self.version, 0, self._total, self._parameters())

    def _check(self, run: str) -> None:
        if run != self.run:
            raise CheckpointError(f"shard {self.index}: of run {self.run}, must be of {run}")

    def _count(self, learner: int, life: int, steps: int) -> None:
        """Counts the steps of a learner's life. A life that is over may be told after the next one."""
        before = self._steps.get((learner, life), 0)
        self._steps[learner, life] = max(before, steps)
        self._total += max(0, steps - before)

    def _parameters(self) -> Any:
        self.pulls += 1
        if self._published[0] != self.version:
            self._published = self.version, self._publish(self._store.pull()[0])
            self.publications += 1
        return self._published[1]

    # -------------------------------------------------------------- state

    def state(self) -> bytes:
        """Everything that a new process needs to go on from here."""
        head = {
            "index": self.index,
            "incarnation": self.incarnation,
            "entries": self._entries,
            "steps": [[*life, steps] for life, steps in sorted(self._steps.items())],
            "counts": [[incarnation, *counts.values()] for incarnation, counts in self._counts.items()],
            "restored": self._restored,
        }
        return _records.pack(head, self._store.to_bytes())

    def restore(self, state: bytes, *, again: bool) -> None:
        """Takes over a state. again: the shard has started again, so pushes under way to the shard before are "moved"."""
        what = f"shard {self.index}"
        head, body = _records.unpack(state, what)
        if head.get("index") != self.index:
            raise CheckpointError(f"{what}: a state of shard {head.get('index')!r}")
        incarnation, entries = _records.counts_of({"of": [head.get("incarnation"), head.get("entries")]}, "of", what)
        counts = _records.rows_of(head, "counts", what, 1 + len(_ANSWERS))
        steps = _records.rows_of(head, "steps", what, 3)
        restored = [(row[0], row[1]) for row in _records.rows_of(head, "restored", what, 2)]
        store = Store.from_bytes(body)
        if (store.first, store.size) != (self._store.first, self._store.size):
            store.close()
            raise CheckpointError(f"{what}: a state of other parameters")
        self._store.close()
        self._store, self.version = store, store.version
        self._steps = {(row[0], row[1]): row[2] for row in steps}
        self._total = sum(self._steps.values())
        self._entries = entries
        self.incarnation, self._published = incarnation + again, (-1, None)
        self._counts = {row[0]: dict(zip(_ANSWERS, row[1:])) for row in counts}
        self._counts.setdefault(self.incarnation, dict.fromkeys(_ANSWERS, 0))
        self._restored = [*restored, (self.incarnation, self.version)] if again else []
        self._log.write("restored", self.incarnation, self._entries)

    def status(self) -> dict[str, Any]:
        return {
            "incarnation": self.incarnation,
            "version": self.version,
            "restored": list(self._restored),
            "steps": self._total,
            "counts": {incarnation: dict(counts) for incarnation, counts in self._counts.items()},
            "publications": self.publications,
            "pulls": self.pulls,
        }
