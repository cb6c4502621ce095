"""Runs of one thread, each a process of its own, whose results are appended to a file of JSON lines."""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from paceline import PacelineError


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def one(script: Path, words: list[str], core: int, what: str) -> str:
    """The output of a script that runs on one core. what: names the run in an error."""
    done = subprocess.run(["taskset", "-c", str(core), sys.executable, str(script), *words], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise PacelineError(f"{what}: status {done.returncode}")
    return done.stdout


def fill(file: Path, jobs: Iterable[Callable[[int], str]], minutes: float = math.inf) -> None:
    """Calls the jobs with the number of a core, one on each core at a time, until no new one may begin, and appends their lines."""
    waiting: queue.SimpleQueue[Callable[[int], str]] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    end = time.monotonic() + 60 * minutes
    writes, failures = threading.Lock(), list[str]()

    def work(core: int) -> None:
        while time.monotonic() < end:
            try:
                line = waiting.get_nowait()(core)
            except queue.Empty:
                return
            except PacelineError as err:
                failures.append(str(err))
                continue
            with writes:
                with file.open("a") as out:
                    out.write(line)
                print(line.strip(), file=sys.stderr, flush=True)

    threads = [threading.Thread(target=work, args=(core,)) for core in sorted(os.sched_getaffinity(0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise PacelineError("; ".join(failures))
