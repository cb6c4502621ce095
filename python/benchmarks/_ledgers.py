"""Compares the ledgers that shards and learners of a run on a cluster have logged (keyword ledger)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

Life = tuple[int, int]  # learner, life
Answers = dict[int, str]  # step: answer


class Comparison(NamedTuple):
    """What shards and learners disagree about.

    pushes: answers in the logs of shards. equal: lives whose ledgers are equal in every shard.
    in_flight: of other lives, the most answers of one shard that the learner has not heard. unknown:
    answers that a learner heard, and that its shard neither has nor lost with a process.
    """

    pushes: int
    lives: int
    equal: int
    in_flight: int
    unknown: int


def compare(folder: Path) -> Comparison:
    """Reads all logs of a folder."""
    shards = {int(path.stem.split("-")[1]): _shard(path) for path in folder.glob("shard-*.log")}
    learners: dict[Life, dict[int, Answers]] = {}
    for path in folder.glob("learner-*.log"):
        match = re.fullmatch(r"learner-(\d+)-(\d+)", path.stem)
        assert match is not None
        learners[int(match[1]), int(match[2])] = _learner(path)
    lives = set(learners)
    for answers, _ in shards.values():
        lives |= set(answers)
    equal = most = unknown = 0
    for life in lives:
        same = True
        for k, (answers, lost) in shards.items():
            theirs, ours = answers.get(life, {}), learners.get(life, {}).get(k, {})
            same &= theirs == ours
            most = max(most, len(theirs.keys() - ours.keys()))
            gone = ours.keys() - theirs.keys()
            unknown += len(gone - lost.get(life, set())) + sum(theirs[s] != ours[s] for s in theirs.keys() & ours.keys())
        equal += same
    pushes = sum(len(steps) for answers, _ in shards.values() for steps in answers.values())
    return Comparison(pushes, len(lives), equal, most, unknown)


def _shard(path: Path) -> tuple[dict[Life, Answers], dict[Life, set[int]]]:
    """The answers that a shard has, and the steps whose answers it has lost."""
    entries: list[tuple[Life, int, str]] = []
    lost: dict[Life, set[int]] = {}
    for line in path.read_text().splitlines():
        words = line.split()
        if words[0] == "restored":
            for life, step, _ in entries[int(words[2]) :]:
                lost.setdefault(life, set()).add(step)
            del entries[int(words[2]) :]
        else:
            entries.append(((int(words[0]), int(words[1])), int(words[2]), words[3]))
    answers: dict[Life, Answers] = {}
    for life, step, answer in entries:
        assert step not in answers.setdefault(life, {}), f"{path}: {life} step {step} was answered twice"
        answers[life][step] = answer
    return answers, lost


def _learner(path: Path) -> dict[int, Answers]:
    """The answers that a learner has, by shard."""
    answers: dict[int, Answers] = {}
    for line in path.read_text().splitlines():
        words = line.split()
        if words[0] == "lost":
            of = answers.setdefault(int(words[1]), {})
            for step in [step for step in of if step > int(words[2])]:
                del of[step]
        else:
            answers.setdefault(int(words[0]), {})[int(words[1])] = words[2]
    return answers
