"""Tests and measurements on a GPU, from what build.sh built: `make test-cuda`.

    run.sh [part ...]      all parts where none is named; table1 stands for table1.1, table1.2 ...

Each part ends within 8 minutes and writes its figures (part.json) and what it printed (part.*.log) to $OUT, by default the folder
out beside this file (test-cuda-software/out for SOFTWARE=1); summary.json has all parts that ever ran there. A line for each part
says what came of it: ok, FAILED, TIMED OUT, or left out with the reason. The exit status is 1 where a part failed or was not done
in time.

    DEVICE=cuda:1     another GPU than the first
    SOFTWARE=1        the same parts, reduced, on a device in software: what this file and the programs do can be seen without a GPU
    PARTS_OF_TABLE1   of how many parts table1 is (6)

It needs Python 3.10 or newer. numpy is taken from the wheels beside this file where it is not installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from steps import FAILED, LEFT_OUT, OK, TIMED_OUT, LeftOut, Result, Step, last_line, of_go, of_sanitizer, run, worst

LIMIT = 480.0  # seconds of a part
# Read the text of the sources, which is not here, or compile it.
_OF_SOURCES = ("TestBothBuildsAreOne", "TestSymbolsAreThoseOfCu", "TestSoftware", "TestArgs", "TestFork")
_ROW_MS, _OF_PYTORCH = 0.12, 1.5  # goals of one of 1,000 updates in a row; what misses them is said, and is no failure
_KERNELS = "^(TestConv|TestDense|TestTD|TestArgmax|TestActorCritic|TestNorm|TestElementwise|TestOptimizers|TestGather|TestPick)$"
_STEPPERS = "^(TestStepper|TestQStepper|TestNotFinite|TestWindow)$/^cuda$"


class Machine:
    """What is here: folders, Python's path, the GPU."""

    def __init__(self, here: Path, environ: Mapping[str, str]) -> None:
        self.here = here
        self.software = environ.get("SOFTWARE", "") not in ("", "0")
        beside = here.with_name(here.name + "-software") if self.software else here  # what is carried stays small
        self.out = Path(environ.get("OUT") or beside / "out").resolve()
        self.work = beside / "work"
        self.table1 = 14 if self.software else int(environ.get("PARTS_OF_TABLE1") or 6)
        for folder in (self.out, self.work):
            folder.mkdir(parents=True, exist_ok=True)
        self.env = {
            "PYTHONPATH": str(self.work / "site"), "PYTHONUNBUFFERED": "1", "PACELINE_ROMS_DIR": str(self.work / "roms"),
            "PACELINE_CUDA_TEST": "gpu",
        }  # fmt: skip
        if self.software:
            folder = str(here / "software")
            self.env |= {"PACELINE_CUDA_TEST": "software", "PACELINE_SOFTWARE": folder, "LD_LIBRARY_PATH": folder}
        elif index := environ.get("DEVICE", "cuda").partition(":")[2]:
            # The programs' "cuda" is this one.
            visible = environ.get("CUDA_VISIBLE_DEVICES", "")
            self.env["CUDA_VISIBLE_DEVICES"] = visible.split(",")[int(index)] if visible else index
        self.gpu: dict[str, Any] = {}
        self.no_gpu = ""

    def prepare(self) -> None:
        """Unpacks what is packed, unless an earlier call has, and looks for a GPU."""
        programs, stamp = self.here / "go" / "programs.tar.xz", self.work / "unpacked"
        of = f"{programs.stat().st_mtime_ns} {sys.version}"
        if not stamp.exists() or stamp.read_text() != of:
            self._unpack(programs)
            stamp.write_text(of)
        tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        ask = "import json, numpy, gymnasium; from paceline import _lib; print(json.dumps(_lib.take_json(_lib.lib().paceline_devices)))"
        found = subprocess.run([sys.executable, "-c", ask], env={**os.environ, **self.env}, capture_output=True, text=True, timeout=120)
        if found.returncode != 0:
            raise SystemExit(f"paceline cannot be imported, which needs numpy and gymnasium for {tag}: {last_line(found.stderr)}")
        devices = json.loads(found.stdout.splitlines()[-1])
        if devices["devices"]:
            self.gpu = devices["devices"][0]
        else:
            self.no_gpu = devices["reason"]

    def _unpack(self, programs: Path) -> None:
        site, tag = self.work / "site", f"cp{sys.version_info[0]}{sys.version_info[1]}"
        shutil.rmtree(site, ignore_errors=True)
        for wheel in sorted((self.here / "wheels").glob("*.whl")):
            name, _, python, *_ = wheel.name.split("-")
            if name == "paceline" or (not installed(name) and (python.startswith("py") or python == tag)):
                with zipfile.ZipFile(wheel) as packed:
                    packed.extractall(site)
        for wheel in (self.here / "roms").glob("*.whl"):
            with zipfile.ZipFile(wheel) as packed:
                for name in packed.namelist():
                    if name.endswith(".bin"):
                        (self.work / "roms").mkdir(exist_ok=True)
                        (self.work / "roms" / Path(name).name).write_bytes(packed.read(name))
        with tarfile.open(programs) as archive:
            for member in archive:
                with open(self.work / member.name, "wb") as file:
                    shutil.copyfileobj(archive.extractfile(member), file)
                (self.work / member.name).chmod(0o755)
        (self.here / "go" / "server").chmod(0o755)

    def code(self) -> Path:
        """The kernels' machine code for this GPU, in a file."""
        chip = self.gpu["compute_capability"].replace(".", "")
        with zipfile.ZipFile(self.here / "go" / "cuda" / "kernels.zip") as kernels:
            chips = sorted((int(n[3:-6]) for n in kernels.namelist() if n.endswith(".cubin")), reverse=True)
            fits = [c for c in chips if c // 10 == int(chip) // 10 and c <= int(chip)]
            name = f"sm_{fits[0]}.cubin" if fits else next(n for n in kernels.namelist() if n.endswith(".ptx"))
            file = self.work / name
            file.write_bytes(kernels.read(name))
        return file

    # -------------------------------------------------------------- steps

    def go(self, name: str, tests: str, *options: str, under: Sequence[str] = (), label: str = "", **more: Any) -> Step:
        """Tests of Go's; under: what runs the program."""
        env = self.env | {
            "PACELINE_CUDA_SERVER": str(self.here / "go" / "server"),
            "PACELINE_CUDA_CODE": "" if self.software else str(self.code()),
        }
        env |= more.pop("env", {})
        command = [*under, str(self.work / f"{name}.test"), "-test.v", "-test.timeout=8m", f"-test.run={tests}", *options]
        return Step(label or name, command, folder=self.here / "go" / name, env=env, **more)

    def script(self, name: str, *arguments: str, limit: float = 1e9) -> Step:
        file = self.out / f"{Path(name).stem}.figures.json"
        tiny = ["--tiny"] if self.software else []
        return Step(
            Path(name).stem, [sys.executable, str(self.here / name), "--out", str(file), *tiny, *arguments], file, env=self.env, limit=limit
        )

    def paceline(self, label: str, *arguments: str) -> Step:
        return Step(label, [sys.executable, "-m", "paceline", *arguments], folder=self.out, env=self.env)


def installed(name: str) -> bool:
    """Whether Python imports it here without our help."""
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, timeout=120).returncode == 0


# ------------------------------------------------------------------ parts


def go_tests(m: Machine) -> list[Step]:
    skip = "-test.skip=^(" + "|".join((*_OF_SOURCES, "TestAgreement")) + ")$"
    if m.software:
        few = "^(TestDevices|TestLaunch|TestGraph|TestGather|TestCubins)$"
        return [m.go("cuda", few, skip), m.go("nn", _STEPPERS, "-test.short"), m.go("ppo", "^TestAMinibatchOnAGPUIsOneLaunch$")]
    return [m.go("cuda", ".", skip), m.go("nn", "./^cuda$"), *(m.go(method, "GPU") for method in ("dqn", "a2c", "ppo", "pqn"))]


def agreement(m: Machine) -> list[Step]:
    file = m.out / "agreement.figures.json"
    return [m.go("cuda", "^TestAgreement$", figures=file, env={"PACELINE_FIGURES": str(file)}, label="agreement")]


def bits(m: Machine) -> list[Step]:
    return [m.script("bits.py")]


def update(m: Machine) -> list[Step]:
    reduced = ["--rounds", "1", "--batch", "2", "--row", "3", "--precisions", "fp32", "--no-torch"] if m.software else []
    return [m.paceline("update", "bench", "update", "--device", "cuda", "--json", *reduced)]


def rates(m: Machine) -> list[Step]:
    return [m.script("rates.py")]


def sanitize(m: Machine) -> list[Step]:
    if m.software:
        raise LeftOut("compute-sanitizer knows no device in software; make test-kernels has sanitizers for it")
    tool = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if not tool:
        raise LeftOut("compute-sanitizer is not installed")
    probe = m.go("nn", "^TestQStepper$/^cuda$", under=[tool, "--target-processes", "all"], label="probe", limit=90.0)
    found = run(probe, m.out / "sanitize.probe.log", LIMIT)
    text = (m.out / "sanitize.probe.log").read_text(errors="replace")
    if refusal := re.search(r".*(?:Device not supported|not supported on|Unable to|Failed to initialize).*", text):
        raise LeftOut(f"compute-sanitizer does not run here: {refusal[0].strip('= ')}")
    if found.status == TIMED_OUT:
        raise LeftOut(f"compute-sanitizer was not done with one test after {found.seconds:.0f} s")
    steps = []
    for kind in ("memcheck", "racecheck", "initcheck"):
        under = [tool, "--tool", kind, "--target-processes", "all", "--error-exitcode", "99"]
        steps.append(m.go("nn", _STEPPERS, "-test.short", under=under, label=f"{kind}.nn", limit=75.0))
        # The smaller cases of those tests, as under the sanitizers of a compiler.
        small = {"PACELINE_CUDA_SANITIZER": "compute"}
        steps.append(m.go("cuda", _KERNELS, "-test.short", under=under, label=f"{kind}.kernels", limit=75.0, env=small))
    return steps


def pong(m: Machine) -> list[Step]:
    return [m.script("pong.py", "--state", str(m.work / "pong"))]


def table1(m: Machine, i: int) -> list[Step]:
    reduced = ["--env", "Catch-v0", "--steps", "32", "--warm-up", "32", "--trials", "1"] if m.software else ["--steps", "50000"]
    folder = str(m.out / "table1")
    measure = m.paceline("part", "bench", "table1", "--device", "cuda", "--part", f"{i}/{m.table1}", "--out", folder, "--json", *reduced)
    return [measure, m.paceline("table", "bench", "table1", "--from", folder)]


class Part(NamedTuple):
    steps: Callable[[Machine], list[Step]]
    says: Callable[[Machine, list[Result]], str] = lambda m, results: "; ".join(r.says for r in results)


def of_tests(m: Machine, results: list[Result]) -> str:
    counts = [f"{r.figures['passed']} passed, {len(r.figures['left_out'])} left out" for r in results if "passed" in r.figures]
    return "; ".join(counts + [r.says for r in results if r.status != OK])


def of_sanitize(m: Machine, results: list[Result]) -> str:
    clean = sum(r.status == OK for r in results)
    return "; ".join([f"{clean} of {len(results)} runs are clean", *(r.says for r in results if r.status != OK)])


def of_update(m: Machine, results: list[Result]) -> str:
    if results[0].status != OK:
        return results[0].says
    report = results[0].figures
    says = [f"{r['work']} {r['precision']} {r['ms']:.3f} ms" for r in report["ours"] if r["work"] in ("update", "row")]
    rows = [r["ms"] for r in report["ours"] if r["work"] == "row"]
    if not m.software and min(rows) > _ROW_MS:
        says.append(f"above the goal of {_ROW_MS} ms in a row")
    if not report["torch"]:
        return ", ".join([*says, f"PyTorch left out: {report['torch_left_out']}"])
    ratio = {name: value for name, value in report["ratio"].items() if name.startswith("row") and not name.endswith("eager")}
    says += [f"{name} {value:.2f}" for name, value in ratio.items()]
    if min(ratio.values(), default=0.0) < _OF_PYTORCH:
        says.append(f"below the goal of {_OF_PYTORCH} times PyTorch")
    return ", ".join(says + [f"PyTorch left out: {what}" for what in report["torch"]["left_out"]])


def of_agreement(m: Machine, results: list[Result]) -> str:
    lines = [f"{a['precision']}: gradient {a['gradient']:.1e}, weights {a['weights']:.1e}, loss {a['loss']:.2%}"
             for a in results[0].figures.get("agreement", [])]  # fmt: skip
    return "; ".join(lines + ([] if results[0].status == OK else [results[0].says]))


def of_table1(m: Machine, results: list[Result]) -> str:
    if results[0].status != OK:
        return results[0].says
    return f"{len(results[0].figures['runs'])} runs; " + results[-1].says


def parts(m: Machine) -> dict[str, Part]:
    """In the order in which they run, what later ones depend on first."""
    every = {
        "go": Part(go_tests, of_tests),
        "agreement": Part(agreement, of_agreement),
        "bits": Part(bits),
        "update": Part(update, of_update),
        "rates": Part(rates),
        "sanitize": Part(sanitize, of_sanitize),
        "pong": Part(pong),
    }
    for i in range(1, m.table1 + 1):
        every[f"table1.{i}"] = Part(lambda m, i=i: table1(m, i), of_table1)
    return every


def chosen(names: Sequence[str], every: Mapping[str, Part], software: bool = False) -> list[str]:
    """The parts of the command line."""
    if not names:
        return [name for name in every if not software or not name.startswith("table1.") or name == "table1.1"]
    for name in names:
        if name not in every and name != "table1":
            raise SystemExit(f"{name}: must be {', '.join(every)} or table1")
    return [part for part in every if part in names or ("table1" in names and part.startswith("table1."))]


def do(m: Machine, name: str, part: Part) -> dict[str, Any]:
    """Runs a part, writes its figures, and returns what the summary has of it."""
    left, results, reports = LIMIT, [], {}
    try:
        if m.no_gpu:
            raise LeftOut(m.no_gpu)
        for step in part.steps(m):
            log = m.out / f"{name}.{step.name}.log"
            result = run(step, log, left)
            if name in ("go", "sanitize"):
                text = log.read_text(errors="replace")
                result = result._replace(figures=of_go(text) | (of_sanitizer(text) if name == "sanitize" else {}))
                if result.figures.get("errors"):
                    result = result._replace(status=FAILED, says=result.figures["first"])
            elif "--json" in step.command and result.status == OK:
                result = result._replace(figures=json.loads(last_json(log.read_text(errors="replace"))))
            left -= result.seconds
            results.append(result)
            reports[step.name] = result._asdict()
            if left <= 0:
                break
        status, says = worst(results), part.says(m, results)
    except LeftOut as reason:
        status, says = LEFT_OUT, str(reason)
    report = {"part": name, "status": status, "seconds": round(LIMIT - left, 1), "says": says}
    (m.out / f"{name}.json").write_text(json.dumps(report | {"gpu": m.gpu, "steps": reports}, indent=1))
    return report


def last_json(text: str) -> str:
    return next(line for line in reversed(text.splitlines()) if line.startswith("{"))


def main(names: Sequence[str]) -> int:
    m = Machine(Path(__file__).resolve().parent, os.environ)
    every = parts(m)
    todo = chosen(names, every, m.software)
    m.prepare()
    print(f"{m.gpu['name']}, {m.gpu['device']}" if m.gpu else f"no GPU: {m.no_gpu}", "figures:", m.out, flush=True)
    file = m.out / "summary.json"
    summary: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    for name in todo:
        summary[name] = do(m, name, every[name])
        print(f"{summary[name]['status']:<10}{name:<10}{summary[name]['seconds']:>6.0f} s  {summary[name]['says']}", flush=True)
        file.write_text(json.dumps(summary, indent=1))
    if "go" in todo and not m.no_gpu:
        print(f"left out of go: {', '.join(_OF_SOURCES)}, which read the sources; others say why in go.*.log")
    return int(any(summary[name]["status"] in (FAILED, TIMED_OUT) for name in todo))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
