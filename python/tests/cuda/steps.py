"""Steps of run.py: runs programs with a time limit and parses their output."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

OK, FAILED, TIMED_OUT, LEFT_OUT = "ok", "FAILED", "TIMED OUT", "left out"
_RUNS = re.compile(r"=== (?:RUN|CONT|NAME)\s+(\S+)")
_SAYS = re.compile(r"\s+\w+_test\.go:\d+: (.*)")


class LeftOut(Exception):
    """A part cannot run here; the argument is the reason."""


class Failed(Exception):
    """A part fails before its first step; the argument is the reason."""


class Step(NamedTuple):
    """A program of a part. figures: the JSON file that it writes; limit: seconds."""

    name: str
    command: Sequence[str]
    figures: Path | None = None
    folder: Path | None = None
    env: Mapping[str, str] | None = None
    limit: float = 1e9


class Result(NamedTuple):
    status: str
    seconds: float
    says: str  # one line
    figures: dict[str, Any]


def run(step: Step, log: Path, seconds: float) -> Result:
    """Runs a step. The log gets the program's output."""
    began, limit = time.monotonic(), min(seconds, step.limit)
    if step.figures:
        step.figures.unlink(missing_ok=True)
    with open(log, "wb") as out:
        try:
            process = subprocess.Popen(
                step.command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=step.folder,
                env={**os.environ, **(step.env or {})}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return Result(FAILED, 0.0, str(error), {})
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError):  # the process group includes its children
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    took, text = time.monotonic() - began, log.read_text(errors="replace")
    figures: dict[str, Any] = {}
    if step.figures:
        with contextlib.suppress(OSError, ValueError):
            figures = json.loads(step.figures.read_text())
    if status is None:
        return Result(TIMED_OUT, took, f"stopped after {took:.0f} s: {last_line(text)}", figures)
    if status != 0:
        return Result(FAILED, took, first_failure(text) or f"status {status}: {last_line(text)}", figures)
    return Result(OK, took, str(figures.get("summary", "")) or last_line(text), figures)


def last_line(text: str) -> str:
    return next((line.strip()[:300] for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")


def first_failure(text: str) -> str:
    """Returns the first Go test that failed, and its message."""
    running, said = "", dict[str, str]()
    for line in text.splitlines():
        if line.startswith(("panic: ", "fatal error: ")):
            return line[:300]
        if found := _RUNS.match(line):
            running = found[1]
        elif found := _SAYS.match(line):
            said.setdefault(running, found[0].strip())
        elif found := re.match(r"\s*--- FAIL: (\S+)", line):
            part = next((says for name, says in said.items() if name.startswith(found[1])), "")
            return f"{found[1]}: {part}"[:300]
    return ""


def parse_go(text: str) -> dict[str, Any]:
    """Parses the output of Go tests with -test.v: passes, failures, and reasons of skips."""
    passed = failed = 0
    skipped: dict[str, str] = {}
    said: dict[str, str] = {}
    running = ""
    for line in text.splitlines():
        if found := _RUNS.match(line):
            running = found[1]
        elif found := _SAYS.match(line):
            said[running] = found[1]
        elif found := re.match(r"(\s*)--- (PASS|FAIL|SKIP): (\S+)", line):
            if found[2] == "SKIP":
                skipped[found[3]] = said.get(found[3], "")
            elif not found[1]:  # a top-level test, not a subtest
                passed += found[2] == "PASS"
                failed += found[2] == "FAIL"
    return {"passed": passed, "failed": failed, "left_out": skipped}


def parse_sanitizer(text: str) -> dict[str, Any]:
    """Parses the output of compute-sanitizer."""
    found = re.findall(r"^=+ ((?:Invalid|Error|Race|Uninitialized|Potential|Program hit|Unused|Leaked|Misaligned).*)", text, re.MULTILINE)
    return {
        "errors": len(found),
        "first": found[0][:200] if found else "",
        "summaries": re.findall(r"^=+ ((?:ERROR|RACECHECK) SUMMARY.*)", text, re.MULTILINE),
    }


def worst(results: Sequence[Result]) -> str:
    return next((s for s in (FAILED, TIMED_OUT, OK) if any(r.status == s for r in results)), LEFT_OUT)
