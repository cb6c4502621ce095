"""Compares the speed of the wheel's library with a library that this machine's compiler builds.

    python python/wheels/compare.py wheel.so own.so [turns]

`paceline bench update` and python/benchmarks/emulator.py run with one library and then the other;
the order changes from turn to turn. Vectors of 8 games (envs) are stepped in two processes,
alternating every quarter of a second, because rates drift by more than 3 % during a whole
benchmark. The program prints the median of each measurement's ratios (time of the first library
over time of the second) and the first twelve ratios. It exits with 1 if a benchmark's median is
above 1.03.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

BENCHES = {
    "update": ["-m", "paceline", "bench", "update", "--no-torch", "--rounds", "10"],
    "emulator": [
        str(Path(__file__).resolve().parents[1] / "benchmarks" / "emulator.py"),
        "--games", "pong,breakout,seaquest", "--seconds", "1", "--turns", "3",
    ],
}  # fmt: skip
LIMIT = 1.03
SLICES = 60
STEPPER = """
import sys, time
import numpy as np, paceline
vector = paceline.make_vec(sys.argv[1], 8, num_threads=int(sys.argv[2]))
vector.reset(seed=1)
actions = np.random.default_rng(0).integers(0, vector.single_action_space.n, (512, 8))
print(flush=True)
for _ in sys.stdin:
    steps, began = 0, time.perf_counter()
    while time.perf_counter() < began + 0.25:
        for _ in range(8):
            vector.step(actions[steps % 512])
            steps += 1
    print((time.perf_counter() - began) / steps, flush=True)
"""


def times(bench: str, library: str) -> dict[str, float]:
    """The measurements of a benchmark, as times in any unit."""
    command = [sys.executable, *BENCHES[bench], "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PACELINE_LIBRARY": library})
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    report = json.loads(done.stdout)
    if bench == "update":
        return {f"{r['work']} {r['batch']} {r['precision']} {r['threads']}t": r["ms"] for r in report["ours"]}
    return {f"{g['game']} {way}": 1 / g[way] for g in report["games"] for way in ("every", "2of4", "env")}


def compare(bench: str, wheel: str, own: str, turns: int) -> float:
    ratios: dict[str, list[float]] = {}
    for turn in range(turns):
        order = [wheel, own] if turn % 2 else [own, wheel]
        took = {library: times(bench, library) for library in order}
        for name, time in took[wheel].items():
            ratios.setdefault(name, []).append(time / took[own][name])
    return summary(bench, ratios)


def summary(bench: str, ratios: dict[str, list[float]]) -> float:
    medians = {name: statistics.median(r) for name, r in ratios.items()}
    for name, each in ratios.items():
        print(f"  {bench} {name:<32} {medians[name]:.3f}   " + " ".join(f"{r:.2f}" for r in each[:12]), flush=True)
    return statistics.median(medians.values())


def compare_envs(wheel: str, own: str) -> float:
    """Compares vectors of environments in slices of time."""
    ratios: dict[str, list[float]] = {}
    for game, threads in [(game, threads) for game in ("Pong", "Breakout") for threads in "12"]:
        steppers = [
            subprocess.Popen(
                [sys.executable, "-c", STEPPER, game, threads],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PACELINE_LIBRARY": library},
            )
            for library in (wheel, own)
        ]
        if any(s.stdout.readline() != "\n" for s in steppers):
            sys.exit(f"{game}: a vector could not be stepped")
        took = [0.0, 0.0]
        for turn in range(SLICES):
            for k in (0, 1) if turn % 2 else (1, 0):
                print(file=steppers[k].stdin, flush=True)
                took[k] = float(steppers[k].stdout.readline())
            ratios.setdefault(f"{game} {threads}t", []).append(took[0] / took[1])
        for s in steppers:
            s.communicate()
    return summary("envs", ratios)


if __name__ == "__main__":
    libraries = [os.path.abspath(path) for path in sys.argv[1:3]]
    turns = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    found = {bench: compare(bench, *libraries, turns) for bench in BENCHES} | {"envs": compare_envs(*libraries)}
    for bench, ratio in found.items():
        print(f"{bench}: {ratio:.3f} of the time")
    sys.exit(any(ratio > LIMIT for ratio in found.values()))
