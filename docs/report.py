"""The benchmarks of the documentation: measures them, and writes their tables and the chart from what was measured.

    python docs/report.py measure [NAME ...]     docs/benchmarks/NAME.json, each with its machine, date and commit
    python docs/report.py render                 the tables of docs/pages and assets/speed.svg, from these files
    python docs/report.py check                  nothing; fails where render would change a file, and where a
                                                 record is not what its runs in the checkout give

`make bench-report` does the first two, in the environment that has the other libraries. A figure is in one JSON
file; whatever shows it was written from there.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import report_chart
import report_tables

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python" / "benchmarks"))
from _machine import commit, machine  # noqa: E402

PAGES, RECORDS = ROOT / "docs" / "pages", ROOT / "docs" / "benchmarks"
CHART = PAGES / "assets" / "speed.svg"
MARKER = re.compile(r"(<!-- report: ([\w-]+) -->\n).*?(<!-- end of report -->)", re.S)

# What is run, and what --quick appends: settings that show that it works.
COMMANDS = {
    "emulator": ("python python/benchmarks/emulator.py", "--games pong,breakout --seconds 0.05 --turns 1"),
    "envs": ("paceline bench envs", "--games pong --num-envs 1,8 --rounds 1 --no-gymnasium"),
    "train": ("python python/benchmarks/train.py", "--steps 16 --rounds 1 --replay 64 --no-torch"),
    "value": ("python python/benchmarks/value.py", "--steps 16 --rounds 1 --replay 64 --no-torch"),
    "small-games": (
        "python python/benchmarks/small_games.py --runs docs/benchmarks/small-games.jsonl --minutes 0 --rates 100000",
        "--runs build/quick-games.jsonl --games Breakout --seeds 1 --steps 4096 --rates 4096 --minutes 1",
    ),
    "dopamine": (
        "python python/benchmarks/dopamine.py --minutes 0",
        "--folder build/quick-dopamine --games Breakout --seeds 1 --steps 1000 --minutes 1",
    ),
    "dopamine-long": (
        "python python/benchmarks/dopamine.py --folder docs/benchmarks/dopamine-long --steps 500000 --seeds 1,2"
        " --games Amidar,Breakout,Freeway,Krull,StarGunner --agents dqn,c51,qr,rainbow --minutes 0",
        "--folder build/quick-dopamine-long --games Breakout --agents dqn --seeds 1 --steps 1000 --minutes 1",
    ),
    "dopamine-iqn": (
        "python python/benchmarks/dopamine.py --folder docs/benchmarks/dopamine-iqn --steps 100000 --seeds 1"
        " --games Breakout --agents iqn --set cnn=nature --minutes 0",
        "--folder build/quick-dopamine-iqn --steps 1000 --minutes 1",
    ),
    "onpolicy": ("python python/benchmarks/onpolicy.py", "--rollouts 1 --rounds 1 --no-torch"),
    "pong": ("python python/benchmarks/pong.py --sb3", "--steps 40"),
    "modes": ("python python/benchmarks/modes.py --step-ms 0,0.5,2,5,20 --steps 1500", "--steps 40"),
    "update": ("paceline bench update", "--rounds 1 --no-torch"),
    "ffi": ("paceline bench ffi", "--rounds 1"),
    "learn": ("python examples/python/learn.py --mode standard,both,a2c,ppo,pqn", ""),
    "learn-asynchronous": ("python examples/python/learn.py --mode a3c,appo,ga3c", ""),
    "async": ("paceline bench async", "--learners 2 --envs 1 --turns 1 --seconds 0.05"),
    "async-pong": (
        "paceline bench async --env Pong --learners 4,16 --envs 1 --seconds 2",
        "--env Catch-v0 --learners 2 --turns 1 --seconds 0.05",
    ),
    "ga3c": ("paceline bench ga3c", "--env Catch-v0 --steps 200 --trials 1 --seconds 1"),
    "gorila": ("python python/benchmarks/gorila_scale.py", "--trials 1 --updates 20 --visits 5 --points 1x2"),
    "gorila-values": (
        "python python/benchmarks/gorila_values.py --runs docs/benchmarks/gorila-values.jsonl --minutes 0",
        "--runs build/quick-values.jsonl --games Breakout --learning-rates 0.01 --updates 100 --minutes 1",
    ),
    "gorila-learn": ("python python/benchmarks/gorila_learn.py", "--tasks Catch-v0"),
    "gorila-overhead": ("python python/benchmarks/gorila_overhead.py --ways", "--env CartPole-v1 --trials 1 --seconds 1"),
    "gorila-faults": (
        "python python/benchmarks/gorila_faults.py",
        "--kills 1 --nodes 1 --minutes 0.1 --steps 20000 --evaluate 5",
    ),
    "gorila-faults-apart": (
        "python python/benchmarks/gorila_faults.py --actors 4 --kills 20 --nodes 2 --minutes 10 --steps 500000",
        "--kills 6 --nodes 1 --minutes 0.1 --steps 20000 --evaluate 5",
    ),
    "tuner": (
        "paceline bench tuner --machines 'System I,System II,System III,here'",
        "--machines 'System II' --seeds 1 --periods 2 --period-s 1",
    ),
    "continuous": (
        "python python/benchmarks/continuous.py --runs docs/benchmarks/continuous.jsonl"
        " --most-steps 1000000,a2c:LunarLanderContinuous-v3=300000 --turns 3",
        "--runs build/quick.jsonl --rows a2c:Pendulum-v1 --seeds 1,2 --most-steps 64 --episodes 1 --turns 1",
    ),
}
# Records that are computed from runs in the checkout: what to append so that nothing is measured, and
# what is then compared.
OF_RUNS = {
    "small-games": ("--rates 0", ("entries", "minutes")),
    "dopamine": ("", ("entries",)),
    "dopamine-long": ("", ("entries",)),
    "dopamine-iqn": ("", ("entries",)),
    "gorila-values": ("", ("entries",)),
}
PACKAGES = ("paceline", "torch", "stable-baselines3", "envpool", "ale-py", "gymnasium", "ray")


def measure(names: list[str], folder: Path, quick: bool) -> None:
    """Runs benchmarks, one after the other, and writes their records."""
    head = commit()  # before a record changes the checkout
    peak = peak_gflops()
    for name in names:
        command, short = COMMANDS[name]
        command = f"{command} {short}" if quick else command
        print(command, flush=True)
        report = run(name, command)
        record = {
            "name": name, "command": command, "machine": machine(), "peak_gflops": peak,
            "date": datetime.date.today().isoformat(), "commit": head,
            "packages": packages(), "report": report_tables.shortened(name, report),
        }  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


def run(name: str, command: str) -> Any:
    """The report of a benchmark's command."""
    words = shlex.split(command)
    words = [sys.executable, *(["-m"] if words[0] == "paceline" else []), *words[words[0] == "python" :]]
    done = subprocess.run([*words, *(["--json"] if not name.startswith("learn") else [])], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{command}: status {done.returncode}")
    try:
        return report_tables.read_learn(done.stdout) if name.startswith("learn") else json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{command}: no report:\n{done.stdout}") from None


def behind(folder: Path) -> list[Path]:
    """The records that differ from what their runs give."""
    out = []
    for name, (more, parts) in OF_RUNS.items():
        path = folder / f"{name}.json"
        if path.is_file():
            recorded, now = json.loads(path.read_text())["report"], run(name, f"{COMMANDS[name][0]} {more}")
            if any(recorded.get(part) != now[part] for part in parts):
                out.append(path)
    return out


def peak_gflops() -> float:
    """What a core computes at most, in fp32; `paceline bench update` measures it beside its products."""
    words = [sys.executable, "-m", "paceline", "bench", "update", "--rounds", "1", "--no-torch", "--json"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    alone = [r for r in json.loads(done.stdout)["ours"] if r["threads"] == 1 and r["precision"] == "fp32"]
    return max(r["peak_gflops"] for r in alone if "peak_gflops" in r)


def packages() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def records(folder: Path = RECORDS) -> dict[str, dict[str, Any]]:
    """By name, all that were written."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def rendered(folder: Path = RECORDS) -> dict[Path, str]:
    """What the files that show figures have to hold."""
    known = records(folder)

    def section(match: re.Match[str]) -> str:
        name = match[2]
        if name not in known:
            body = f"Not measured yet: `make bench-report BENCHES={name}` writes the table."
        else:
            body = "\n\n".join([*report_tables.tables(known[name]), source(known[name])])
        return f"{match[1]}\n{body}\n\n{match[3]}"

    out = {page: MARKER.sub(section, page.read_text()) for page in sorted(PAGES.rglob("*.md"))}
    return out | {CHART: report_chart.svg(known)}


def source(record: dict[str, Any]) -> str:
    """Where the figures are from, as a sentence."""
    recorded = f" Recorded from {record['recorded']}." if "recorded" in record else ""
    peak = f", {record['peak_gflops']:.0f} GFLOP/s a core in fp32" if "peak_gflops" in record else ""
    versions = ", ".join(f"{name} {version}" for name, version in record.get("packages", {}).items() if name != "paceline")
    return (
        f"*`{record['command']}` on {record['machine']}{peak}, {record['date']}, commit {record['commit']}"
        + (f", {versions}" if versions else "")
        + f".{recorded}*"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="measures benchmarks, and writes the documentation's tables from them")
    parser.add_argument("what", choices=("measure", "render", "check"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(COMMANDS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="settings that show that it works; not for the record")
    parser.add_argument("--folder", type=Path, default=RECORDS, help="where the records are (default docs/benchmarks)")
    args = parser.parse_intermixed_args()
    for name in args.names:
        if name not in COMMANDS:
            parser.error(f"NAME: {name!r}, must be of {', '.join(COMMANDS)}")
    if args.quick and args.folder == RECORDS:
        parser.error("--quick: must come with another --folder: its figures are not for the record")
    if args.what == "measure":
        measure(args.names or [*COMMANDS], args.folder, args.quick)
        return
    stale = {path: text for path, text in rendered(args.folder).items() if not path.is_file() or path.read_text() != text}
    if args.what == "render":
        for path, text in stale.items():
            path.write_text(text)
        return
    late = []
    if importlib.util.find_spec("paceline"):
        late = behind(args.folder)
    else:
        print("paceline is not installed: no record is compared with its runs", file=sys.stderr)
    for path in stale:
        print(f"{path.relative_to(ROOT)}: not what `make bench-report FROM=json` writes")
    for path in late:
        print(f"{path.name}: not what its runs give, `make bench-report BENCHES={path.stem}` writes it")
    if stale or late:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
