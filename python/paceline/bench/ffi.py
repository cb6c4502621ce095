"""`paceline bench ffi`: microseconds of calls of the library from C, C++ and Python.

The machine's compilers (CC, CXX) compile the programs ffi.c and ffi.cpp of this folder. C, C++,
Python and the kernels take turns. The figure of a turn is the median over series of calls of a
millisecond. The lowest turn counts, because other processes can only make a call slower.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import _lib
from ..errors import PacelineError

ROWS = (1, 8, 64)
STRETCHES = 21

Key = tuple[str, int]  # work, rows
LANGUAGES = {"c": ("ffi.c", "CC", "cc", "-std=c11"), "cpp": ("ffi.cpp", "CXX", "c++", "-std=c++17")}
WORKS = {
    "empty": "an empty call",
    "vec_step": "vec_step, CartPole",
    "act mlp": "act, 64-64 MLP",
    "act cnn": "act, Nature CNN",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="turns (default 5)")


def main(args: argparse.Namespace) -> None:
    """Runs the command."""
    report = measure(args.rounds)
    print(json.dumps(report) if args.json else text(report))


def measure(rounds: int) -> dict[str, Any]:
    """The report: results has rows of {"work", "rows", "c", "cpp", "python", "kernels"}, in microseconds.

    A row lacks the columns that were not measured.
    """
    from . import run

    if rounds < 1:
        raise PacelineError(f"rounds: {rounds}, must be at least 1")
    times: dict[Key, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        policies = _policies(folder)
        programs, left_out = _programs(folder)
        for _ in range(rounds):
            turn: dict[str, dict[Key, float]] = {language: _run(program, policies) for language, program in programs.items()}
            turn["python"] = _python(policies)
            inside = run("forward", {"rows": ROWS, "trials": 1})
            turn["kernels"] = {(f"act {r['network']}", r["rows"]): r["kernels_us"][0] for r in inside["results"]}
            for column, cells in turn.items():
                for key, took in cells.items():
                    times.setdefault(key, {}).setdefault(column, []).append(took)
    results = [
        {"work": work, "rows": rows} | {column: min(each) for column, each in cells.items()}
        for (work, rows), cells in times.items()
        if "python" in cells  # the kernels have been measured on more rows
    ]
    cnn = {column: min(each) for column, each in times["act cnn", 1].items()}
    ratio = cnn["c"] / cnn["kernels"] if "c" in cnn else None
    return {"isa": inside["isa"], "rounds": rounds, "results": results, "cnn_over_kernels": ratio, "left_out": left_out}


def _policies(folder: Path) -> list[Path]:
    """Files of untrained policies for 4 floats and for 4x84x84 bytes; the time of a call does not depend on weights."""
    from ..dqn import DQN

    files = []
    for policy, env in (("MlpPolicy", "CartPole-v1"), ("CnnPolicy", "Catch-v0")):
        files.append(folder / f"{env}.paceline")
        layers = {"net_arch": [64, 64]} if policy == "MlpPolicy" else None
        with DQN(policy, env, buffer_size=1000, policy_kwargs=layers, seed=1) as model:
            model.save(files[-1])
    return files


def _programs(folder: Path) -> tuple[dict[str, Path], list[str]]:
    """(compiled programs by language, reasons for those that are missing)."""
    programs, left_out = {}, []
    here, library, include = Path(__file__).parent, _lib.find(), _lib.INCLUDE_DIR
    if not include.is_dir():  # used from its sources
        include = here.parents[2] / "include"
    for language, (source, variable, compiler, standard) in LANGUAGES.items():
        command = shlex.split(os.environ.get(variable) or compiler)
        if not shutil.which(command[0]):
            left_out.append(f"{source}: no compiler {command[0]}")
            continue
        programs[language] = folder / language
        flags = ["-O2", standard, f"-I{include}", str(here / source), str(library), f"-Wl,-rpath,{library.resolve().parent}"]
        done = subprocess.run([*command, *flags, "-o", str(programs[language])], capture_output=True, text=True)
        if done.returncode:
            del programs[language]
            left_out.append(f"{source}: {(done.stderr.strip().splitlines() or ['no reason given'])[0]}")
    return programs, left_out


def _run(program: Path, policies: list[Path]) -> dict[Key, float]:
    done = subprocess.run([program, *policies], capture_output=True, text=True)
    if done.returncode:
        raise PacelineError(f"{program.name}: {done.stderr.strip() or f'status {done.returncode}'}")
    return {(work, int(rows)): float(time) for work, rows, time in csv.reader(done.stdout.splitlines())}


def _python(policies: list[Path]) -> dict[Key, float]:
    """Measures the same calls from Python: the empty call through ctypes, the others through the public API."""
    from ..envs.vec import make_vec
    from ..policy import Policy

    cells: dict[Key, float] = {}
    mlp, cnn = (Policy.load(file) for file in policies)
    states = (np.arange(64 * 4, dtype=np.float32) % 7 / 7).reshape(64, 4)
    images = (np.arange(4 * 84 * 84) * 31).astype(np.uint8).reshape(1, 4, 84, 84)
    act, handle = _lib.lib().paceline_policy_act, mlp._handle.value
    with mlp, cnn:
        cells["empty", 0] = _microseconds(lambda: act(handle, 0, None, None, None, None))
        for n in ROWS:
            envs, actions = make_vec("CartPole-v1", n, num_threads=1), np.zeros(n, np.int64)
            envs.reset()
            cells["vec_step", n] = _microseconds(lambda envs=envs, actions=actions: envs.step(actions))  # type: ignore[misc]
            envs.close()
        for n in ROWS:
            cells["act mlp", n] = _microseconds(lambda n=n: mlp.act(states[:n]))  # type: ignore[misc]
        cells["act cnn", 1] = _microseconds(lambda: cnn.act(images))
    return cells


def _microseconds(call: Callable[[], Any]) -> float:
    def stretch(calls: int) -> float:
        began = time.perf_counter()
        for _ in range(calls):
            call()
        return 1e6 * (time.perf_counter() - began)

    calls = 1
    while stretch(calls) < 1000:
        calls *= 2
    return statistics.median(stretch(calls) for _ in range(STRETCHES)) / calls


def text(report: dict[str, Any]) -> str:
    columns = {"c": "C", "cpp": "C++", "python": "Python", "kernels": "kernels alone"}
    lines = [f"microseconds of a call, one thread, {report['isa']}", " " * 24 + "".join(f"{title:>15}" for title in columns.values())]
    for r in report["results"]:
        label = WORKS[r["work"]] + (f", {r['rows']}" if r["rows"] else "")
        lines.append(f"{label:<24}" + "".join(f"{f'{r[c]:.2f}' if c in r else '-':>15}" for c in columns))
    if report["cnn_over_kernels"] is not None:
        lines.append(f"The Nature CNN through C takes {report['cnn_over_kernels']:.2f} times as long as its kernels alone.")
    lines.append(
        "An empty call is act on no rows: checks, the way into Go and back. Kernels alone: the layers' loops, called in the library."
    )
    return "\n".join(lines + [f"left out: {sentence}" for sentence in report["left_out"]])
