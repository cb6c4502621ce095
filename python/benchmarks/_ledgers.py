"""Compares the ledgers that shards and learners of a run on a cluster have logged (keyword ledger)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

Life = tuple[int, int]  # learner, life
Answers = dict[int, str]  # step: answer


class Comparison(NamedTuple):
    """What shards and learners disagree about.

    pushes: answers in the logs of shards. equal: lives whose ledgers are equal in every shard, but for
    what the shard lost with a process. in_flight: of other lives, the most answers of one shard that the
    learner has not heard. unequal: learners whose latest life, which has ended whole, is not equal; their
    earlier lives have ended with a process. unknown: answers that a learner heard, and that its shard neither has nor lost.
    lost: updates of shards that their next processes did not have. stats["lost_updates"] has all of
    them but those whose answers were under way.
    """

    pushes: int
    lives: int
    equal: int
    in_flight: int
    unequal: int
    unknown: int
    lost: int


def compare(folder: Path) -> Comparison:
    """Reads all logs of a folder."""
    shards = {int(path.stem.split("-")[1]): Ledger(path) for path in folder.glob("shard-*.log")}
    learners: dict[Life, dict[int, Answers]] = {}
    for path in folder.glob("learner-*.log"):
        match = re.fullmatch(r"learner-(\d+)-(\d+)", path.stem)
        assert match is not None
        learners[int(match[1]), int(match[2])] = _learner(path)
    lives = set(learners)
    for shard in shards.values():
        lives |= set(shard.answers)
    latest = {learner: max(life for of, life in lives if of == learner) for learner, _ in lives}
    equal = most = unequal = unknown = 0
    for life in lives:
        same = True
        for k, shard in shards.items():
            theirs, ours = shard.answers.get(life, {}), learners.get(life, {}).get(k, {})
            unheard = theirs.keys() - ours.keys()
            differ = len(ours.keys() - theirs.keys() - shard.lost.get(life, set()))
            differ += sum(theirs[step] != ours[step] for step in theirs.keys() & ours.keys())
            same &= not unheard and not differ
            most, unknown = max(most, len(unheard)), unknown + differ
        equal += same
        unequal += not same and life[1] == latest[life[0]]
    pushes = sum(len(steps) for shard in shards.values() for steps in shard.answers.values())
    return Comparison(pushes, len(lives), equal, most, unequal, unknown, sum(shard.lost_updates for shard in shards.values()))


class Ledger:
    """The answers that a shard has, the steps whose answers it has lost, and the number of updates that it has lost."""

    def __init__(self, path: Path) -> None:
        entries: list[tuple[Life, int, str]] = []
        self.lost: dict[Life, set[int]] = {}
        self.lost_updates = 0
        for line in path.read_text().splitlines():
            words = line.split()
            if words[0] == "restored":
                for life, step, answer in entries[int(words[2]) :]:
                    self.lost.setdefault(life, set()).add(step)
                    self.lost_updates += answer == "applied"
                del entries[int(words[2]) :]
            else:
                entries.append(((int(words[0]), int(words[1])), int(words[2]), words[3]))
        self.answers: dict[Life, Answers] = {}
        for life, step, answer in entries:
            assert step not in self.answers.setdefault(life, {}), f"{path}: {life} step {step} was answered twice"
            self.answers[life][step] = answer


def _learner(path: Path) -> dict[int, Answers]:
    """The answers that a learner has, by shard."""
    answers: dict[int, Answers] = {}
    for line in path.read_text().splitlines():
        shard, step, answer = line.split()
        answers.setdefault(int(shard), {})[int(step)] = answer
    return answers
