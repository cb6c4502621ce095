"""Is the wheel's library as fast as the one that this machine's own compiler builds?

    python python/wheels/compare.py wheel.so own.so [turns]

Runs `paceline bench update`, `emulator` and `envs`, ours alone as far as they let, with one library
and then the other, in turns; the order changes from turn to turn. Prints the median of each
measurement's ratios (time of the first library over that of the second) and the ratios themselves.
Exits with 1 where a bench's median is above 1.03.
"""

import json
import os
import statistics
import subprocess
import sys

BENCHES = {
    "update": ["--no-torch", "--rounds", "10"],
    "emulator": ["--games", "pong,breakout,seaquest", "--seconds", "1", "--turns", "3"],
    "envs": ["--games", "pong,breakout", "--num-envs", "8", "--no-gymnasium", "--rounds", "3"],
}
LIMIT = 1.03


def times(bench: str, library: str) -> dict[str, float]:
    """What the bench measured, as times in any unit."""
    command = [sys.executable, "-m", "paceline", "bench", bench, "--json", *BENCHES[bench]]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PACELINE_LIBRARY": library})
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    report = json.loads(done.stdout)
    if bench == "update":
        return {f"{r['work']} {r['batch']} {r['precision']} {r['threads']}t": r["ms"] for r in report["ours"]}
    if bench == "emulator":
        return {f"{g['game']} {way}": 1 / g[way] for g in report["games"] for way in ("every", "2of4", "env")}
    return {f"{r['game']} {who}": 1 / rate["median"] for r in report["results"] for who, rate in r["rates"].items() if "paceline" in who}


def compare(bench: str, wheel: str, own: str, turns: int) -> float:
    ratios: dict[str, list[float]] = {}
    for turn in range(turns):
        order = [wheel, own] if turn % 2 else [own, wheel]
        took = {library: times(bench, library) for library in order}
        for name, time in took[wheel].items():
            ratios.setdefault(name, []).append(time / took[own][name])
    medians = {name: statistics.median(r) for name, r in ratios.items()}
    for name, each in ratios.items():
        print(f"  {bench} {name:<32} {medians[name]:.3f}   " + " ".join(f"{r:.2f}" for r in each))
    return statistics.median(medians.values())


if __name__ == "__main__":
    libraries = [os.path.abspath(path) for path in sys.argv[1:3]]
    turns = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    found = {bench: compare(bench, *libraries, turns) for bench in BENCHES}
    for bench, ratio in found.items():
        print(f"{bench}: {ratio:.3f} of the time")
    sys.exit(any(ratio > LIMIT for ratio in found.values()))
