"""Tests and measurements on a GPU, with the folder that build.sh built: `make test-cuda`.

    run.sh [part or call ...]

The default is all parts; table1 means table1.1, table1.2 ..., call1 means the parts of that call.
README.md has the calls on a rented machine.

A part ends within 8 minutes. It writes its report (part.json) and its output (part.*.log) to
test-cuda-work/results next to this folder (test-cuda-software/results with SOFTWARE=1). A new build
keeps these files. summary.json has all parts that ever ran there. The runner prints a line per
part: ok, FAILED, TIMED OUT, or "left out" with the reason. The exit status is 1 if a part failed or
timed out.

    OUT=folder        gets all results as one file, test-cuda.tar.gz, rewritten after each part
    CALL_SECONDS=570  time limit: no part starts after it, and it stops the running part
    DEVICE=cuda:1     the GPU; default: the first
    SOFTWARE=1        the same parts, reduced, on the software device: tests this runner and the
                      programs without a GPU
    PARTS_OF_TABLE1   number of parts of table1; default: 6

The runner needs Python 3.10 or newer. If numpy is not installed, the runner uses the numpy wheel of
this folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from steps import FAILED, LEFT_OUT, OK, TIMED_OUT, Failed, LeftOut, Result, Step, last_line, parse_go, parse_sanitizer, run, worst

LIMIT = 480.0  # seconds per part
# These tests read or compile the sources, which this folder does not have.
_NEED_SOURCES = ("TestBothBuildsHaveTheSameAPI", "TestSymbolsMatchCu", "TestSoftwareDevice", "TestArgsMatchC", "TestFork",
                 "TestCubinsFitTheChips", "TestPTXUnrollsTheProducts")  # fmt: skip
# Goals for each of 1,000 updates in a row. The summary names missed goals; they are not failures.
_ROW_MS, _PYTORCH_RATIO = 0.12, 1.5
_KERNELS = "^(TestConv|TestDense|TestTD|TestArgmax|TestActorCritic|TestNorm|TestElementwise|TestOptimizers|TestGather|TestPick)$"
_STEPPERS = "^(TestDevice|TestWindow)$/^(Stepper|QStepper|NotFinite)$"


class Machine:
    """The folders, the environment and the GPU of this machine."""

    def __init__(self, here: Path, environ: Mapping[str, str]) -> None:
        self.here = here
        self.software = environ.get("SOFTWARE", "") not in ("", "0")
        # Outside of `here`: the copied folder stays small, and copying it again keeps the results
        # and Pong's checkpoint.
        outside = here.with_name(here.name + ("-software" if self.software else "-work"))
        self.out, self.work = outside / "results", outside / "work"
        self.archive = Path(environ["OUT"]).resolve() / "test-cuda.tar.gz" if environ.get("OUT") else None
        self.until = time.monotonic() + float(environ.get("CALL_SECONDS") or "inf")
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
            # The programs use "cuda", the first visible GPU.
            visible = environ.get("CUDA_VISIBLE_DEVICES", "")
            self.env["CUDA_VISIBLE_DEVICES"] = visible.split(",")[int(index)] if visible else index
        self.gpu: dict[str, Any] = {}
        self.no_gpu = ""

    def prepare(self) -> None:
        """Unpacks programs and wheels, unless an earlier call did, and looks for a GPU."""
        programs, stamp = self.here / "go" / "programs.tar.xz", self.work / "unpacked"
        version = f"{programs.stat().st_mtime_ns} {sys.version}"
        if not stamp.exists() or stamp.read_text() != version:
            self._unpack(programs)
            stamp.write_text(version)
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

    def pack(self) -> None:
        """Writes all results to the file that the call returns."""
        if self.archive:
            self.archive.parent.mkdir(parents=True, exist_ok=True)
            new = self.archive.with_suffix(".new")
            with tarfile.open(new, "w:gz") as archive:
                archive.add(self.out, "results")
            new.replace(self.archive)

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
        """Returns a file with the kernels' machine code for this GPU."""
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
        """A step of Go tests. under: the command that runs the program."""
        env = self.env | {
            "PACELINE_CUDA_SERVER": str(self.here / "go" / "server"),
            "PACELINE_CUDA_CODE": "" if self.software else str(self.code()),
        }
        env |= more.pop("env", {})
        command = [*under, str(self.work / f"{name}.test"), "-test.v", "-test.timeout=8m", f"-test.run={tests}", *options]
        return Step(label or name, command, folder=self.here / "go" / name, env=env, **more)

    def go_each(self, name: str, names: Sequence[str], part: str = "", *options: str, **more: Any) -> list[Step]:
        """Top-level Go tests in separate processes: a process that lost the GPU cannot use it."""
        return [self.go(name, f"^{test}${part}", *options, label=f"{name}.{test}", limit=240.0, **more) for test in names]

    def tests(self, name: str) -> list[str]:
        """The top-level tests of a program."""
        log = self.out / f"list.{name}.log"
        program = str(self.work / f"{name}.test")
        listed = run(Step(name, [program, "-test.list=."], folder=self.here / "go" / name, env=self.env), log, 120.0)
        if listed.status != OK:
            raise Failed(f"{name}.test: {listed.says}")
        return [line for line in log.read_text().splitlines() if line.startswith("Test")]

    def script(self, name: str, *arguments: str, limit: float = 1e9) -> Step:
        file = self.out / f"{Path(name).stem}.figures.json"
        tiny = ["--tiny"] if self.software else []
        return Step(
            Path(name).stem, [sys.executable, str(self.here / name), "--out", str(file), *tiny, *arguments], file, env=self.env, limit=limit
        )

    def paceline(self, label: str, *arguments: str) -> Step:
        return Step(label, [sys.executable, "-m", "paceline", *arguments], folder=self.out, env=self.env)

    def table(self, label: str, *arguments: str) -> Step:
        return Step(label, [sys.executable, str(self.here / "table1.py"), *arguments], folder=self.out, env=self.env)


def installed(name: str) -> bool:
    """Whether the package is installed, apart from the wheels of this folder."""
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, timeout=120).returncode == 0


# ------------------------------------------------------------------ parts


def probe(m: Machine) -> list[Step]:
    """Describes the machine: tools, cores, memory, disk, GPU."""
    tools = "for tool in nvidia-smi ncu nsys compute-sanitizer gcc; do command -v $tool || echo no $tool; done"
    ask = f"{tools}; nproc; free -g; df -h .; {sys.executable} -c 'import torch; print(torch.__version__)'; nvidia-smi"
    report = {"gpu": m.gpu, "python": sys.version, "summary": f"{m.gpu['name']}, CUDA {m.gpu.get('cuda')}, Python {sys.version.split()[0]}"}
    file = m.out / "probe.figures.json"
    write = f"import pathlib; pathlib.Path({str(file)!r}).write_text({json.dumps(report)!r})"
    return [Step("probe", ["sh", "-c", f'{ask}; "$0" -c "$1"', sys.executable, write], file, env=m.env, limit=60.0)]


def go_cuda(m: Machine) -> list[Step]:
    left_out = (*_NEED_SOURCES, "TestAgreement")
    few = ["TestDevicesAreDescribed", "TestLaunchRunsTheKernel", "TestReplayRunsBothBranches", "TestGather"]
    names = few if m.software else m.tests("cuda")
    return m.go_each("cuda", [name for name in names if name not in left_out])


def go_nn(m: Machine) -> list[Step]:
    suite = (m.here / "go" / "gpu" / "suite").read_text().split()  # the parts of TestDevice
    names = [name for name in m.tests("gpu") if name not in ("TestDevice", "TestNodes")]
    if m.software:
        suite, names = ["Stepper", "QStepper"], ["TestWindow"]
    short = ["-test.short"] * m.software
    parts = [m.go("gpu", f"^TestDevice$/^{part}$", *short, label=f"gpu.{part}", limit=240.0) for part in suite]
    return parts + m.go_each("gpu", names, "", *short)


def go_methods(m: Machine) -> list[Step]:
    if m.software:
        return m.go_each("ppo", ["TestAMinibatchOnAGPUIsOneLaunch"])
    return [step for method in ("dqn", "a2c", "ppo", "pqn") for step in m.go_each(method, [t for t in m.tests(method) if "GPU" in t])]


def nodes(m: Machine) -> list[Step]:
    """Measures each kernel of an update, by launches in a row, and with ncu if installed."""
    file = m.out / "nodes.figures.json"
    steps = [m.go("gpu", "^TestNodes$", figures=file, env={"PACELINE_FIGURES": str(file)}, label="nodes")]
    tool = shutil.which("ncu", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if tool and not m.software:
        metrics = "gpu__time_duration.sum,launch__grid_size,launch__registers_per_thread,sm__warps_active.avg.pct_of_peak_sustained_active"
        under = [tool, "--graph-profiling", "node", "--target-processes", "all", "--metrics", metrics, "--csv"]
        steps.append(
            m.go(
                "gpu", "^TestNodes$", under=under, env={"PACELINE_FIGURES": str(m.out / "nodes.ncu.figures.json")}, label="ncu", limit=180.0
            )
        )
    return steps


def agreement(m: Machine) -> list[Step]:
    file = m.out / "agreement.figures.json"
    return [m.go("cuda", "^TestAgreement$", figures=file, env={"PACELINE_FIGURES": str(file)}, label="agreement")]


def bits(m: Machine) -> list[Step]:
    return [m.script("bits.py")]


def all_bits(m: Machine) -> list[Step]:
    return [m.script("bits.py", "--all")]


def acting(m: Machine) -> list[Step]:
    return [m.script("acting.py")]


def update(m: Machine, name: str = "update", *options: str) -> list[Step]:
    file = m.out / f"{name}.figures.json"
    reduced = (
        ["--batch", "2", "--row", "3", "--precisions", "fp32", "--no-torch", "--rounds", "1"]
        if m.software
        else [*options] or ["--rounds", "3"]
    )
    step = m.paceline(name, "bench", "update", "--device", "cuda", "--json", "--out", str(file), *reduced)
    return [step._replace(figures=file)]


def ours(m: Machine) -> list[Step]:
    return update(m, "ours", "--rounds", "1", "--no-torch")


def rates(m: Machine) -> list[Step]:
    return [m.script("rates.py")]


def sanitize(m: Machine) -> list[Step]:
    if m.software:
        raise LeftOut("compute-sanitizer cannot run the software device; make test-kernels runs it under other sanitizers")
    tool = shutil.which("compute-sanitizer", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if not tool:
        raise LeftOut("compute-sanitizer is not installed")
    probe = m.go("gpu", "^TestDevice$/^QStepper$", under=[tool, "--target-processes", "all"], label="probe", limit=90.0)
    found = run(probe, m.out / "sanitize.probe.log", LIMIT)
    text = (m.out / "sanitize.probe.log").read_text(errors="replace")
    if refusal := re.search(r".*(?:Device not supported|not supported on|Unable to|Failed to initialize).*", text):
        raise LeftOut(f"compute-sanitizer does not run here: {refusal[0].strip('= ')}")
    if found.status == TIMED_OUT:
        raise LeftOut(f"compute-sanitizer did not finish one test in {found.seconds:.0f} s")
    steps = []
    for kind in ("memcheck", "racecheck", "initcheck"):
        under = [tool, "--tool", kind, "--target-processes", "all", "--error-exitcode", "99"]
        steps.append(m.go("gpu", _STEPPERS, "-test.short", under=under, label=f"{kind}.nn", limit=75.0))
        # As under a compiler's sanitizers, these tests run fewer and smaller cases.
        small = {"PACELINE_CUDA_SANITIZER": "compute"}
        steps.append(m.go("cuda", _KERNELS, "-test.short", under=under, label=f"{kind}.kernels", limit=75.0, env=small))
    return steps


def pong(m: Machine) -> list[Step]:
    return [m.script("pong.py", "--state", str(m.work / "pong"))]


def table1(m: Machine, i: int) -> list[Step]:
    reduced = ["--env", "Catch-v0", "--steps", "32", "--warm-up", "32", "--trials", "1"] if m.software else ["--steps", "50000"]
    folder = str(m.out / "table1")
    measure = m.table("part", "--device", "cuda", "--part", f"{i}/{m.table1}", "--out", folder, "--json", *reduced)
    return [measure, m.table("table", "--from", folder)]


class Part(NamedTuple):
    steps: Callable[[Machine], list[Step]]
    says: Callable[[Machine, list[Result]], str] = lambda m, results: "; ".join(r.says for r in results)


def summarize_tests(m: Machine, results: list[Result]) -> str:
    found = [r.figures for r in results if "passed" in r.figures]
    passed, left_out = sum(f["passed"] for f in found), sum(len(f["left_out"]) for f in found)
    return "; ".join([f"{passed} passed, {left_out} left out", *(r.says for r in results if r.status != OK)])


def summarize_sanitize(m: Machine, results: list[Result]) -> str:
    clean = sum(r.status == OK for r in results)
    return "; ".join([f"{clean} of {len(results)} runs are clean", *(r.says for r in results if r.status != OK)])


def summarize_update(m: Machine, results: list[Result]) -> str:
    report = results[0].figures
    if not report:
        return results[0].says
    says = [] if results[0].status == OK else [f"{results[0].says}, after {report['rounds']} rounds"]
    says += [f"{r['work']} {r['precision']} {r['ms']:.3f} ms" for r in report["ours"] if r["work"] in ("update", "row")]
    rows = [r["ms"] for r in report["ours"] if r["work"] == "row"]
    if not m.software and min(rows) > _ROW_MS:
        says.append(f"above the goal of {_ROW_MS} ms in a row")
    if not report["torch"]:
        return ", ".join([*says, f"PyTorch left out: {report['torch_left_out']}"])
    ratio = {name: value for name, value in report["ratio"].items() if name.startswith("row") and not name.endswith("eager")}
    says += [f"{name} {value:.2f}" for name, value in ratio.items()]
    if min(ratio.values(), default=0.0) < _PYTORCH_RATIO:
        says.append(f"below the goal of {_PYTORCH_RATIO} times PyTorch")
    return ", ".join(says + [f"PyTorch left out: {what}" for what in report["torch"]["left_out"]])


def summarize_agreement(m: Machine, results: list[Result]) -> str:
    lines = [f"{a['precision']}: gradient {a['gradient']:.1e}, weights {a['weights']:.1e}, loss {a['loss']:.2%}"
             for a in results[0].figures.get("agreement", [])]  # fmt: skip
    return "; ".join(lines + ([] if results[0].status == OK else [results[0].says]))


def summarize_table1(m: Machine, results: list[Result]) -> str:
    if results[0].status != OK:
        return results[0].says
    return f"{len(results[0].figures['runs'])} runs; " + results[-1].says


def parts(m: Machine) -> dict[str, Part]:
    """All parts, in the order in which they run."""
    every = {
        "probe": Part(probe),
        "go.cuda": Part(go_cuda, summarize_tests),
        "go.nn": Part(go_nn, summarize_tests),
        "go.methods": Part(go_methods, summarize_tests),
        "agreement": Part(agreement, summarize_agreement),
        "bits": Part(bits),
        "ours": Part(ours, summarize_update),
        "nodes": Part(nodes),
        "acting": Part(acting),
        "update": Part(update, summarize_update),
        "rates": Part(rates),
        "sanitize": Part(sanitize, summarize_sanitize),
    }
    for i in range(1, m.table1 + 1):
        every[f"table1.{i}"] = Part(lambda m, i=i: table1(m, i), summarize_table1)
    return every | {"bits.all": Part(all_bits), "pong": Part(pong)}


# The calls of README.md.
CALLS = {
    "call1": ("probe", "go.cuda", "go.nn", "go.methods", "agreement", "bits"),
    "call2": ("ours", "nodes", "acting", "update", "rates"),
    "call3": ("sanitize", "table1.1"),
    "call4": ("table1.2", "table1.3", "table1.4"),
    "call5": ("table1.5", "table1.6", "bits.all"),
    "call6": ("pong",),
}


def chosen(names: Sequence[str], every: Mapping[str, Part], software: bool = False) -> list[str]:
    """Returns the parts that the command line names."""
    if not names:
        return [name for name in every if not software or not name.startswith("table1.") or name == "table1.1"]
    names = [part for name in names for part in CALLS.get(name, (name,))]
    for name in names:
        if name not in every and name != "table1":
            raise SystemExit(f"{name}: must be {', '.join(every)}, table1, {', '.join(CALLS)}")
    return [part for part in every if part in names or ("table1" in names and part.startswith("table1."))]


def do(m: Machine, name: str, part: Part) -> dict[str, Any]:
    """Runs a part, writes its report, and returns its entry in the summary."""
    limit = min(LIMIT, m.until - time.monotonic())
    left, results, reports = limit, [], {}
    try:
        if m.no_gpu:
            raise LeftOut(m.no_gpu)
        if left <= 0:
            raise LeftOut("the call's time is up")
        for step in part.steps(m):
            log = m.out / f"{name}.{step.name}.log"
            result = run(step, log, left)
            text = log.read_text(errors="replace")
            if result.status == FAILED and "is lost with the contents of its memory" in text:
                result = name_the_kernel(m, name, step, result, left - result.seconds)
            if name.startswith("go.") or name == "sanitize":
                result = result._replace(figures=parse_go(text) | (parse_sanitizer(text) if name == "sanitize" else {}))
                if result.figures.get("errors"):
                    result = result._replace(status=FAILED, says=result.figures["first"])
            elif "--json" in step.command and result.status == OK and not step.figures:
                result = result._replace(figures=json.loads(last_json(text)))
            left -= result.seconds
            results.append(result)
            reports[step.name] = result._asdict()
            if left <= 0:
                break
        status, says = worst(results), part.says(m, results)
    except (LeftOut, Failed) as reason:
        status, says = FAILED if isinstance(reason, Failed) else LEFT_OUT, str(reason)
    report = {"part": name, "status": status, "seconds": round(limit - left, 1), "says": says}
    (m.out / f"{name}.json").write_text(json.dumps(report | {"gpu": m.gpu, "steps": reports}, indent=1))
    return report


def name_the_kernel(m: Machine, part: str, step: Step, result: Result, seconds: float) -> Result:
    """Runs a step that lost the GPU again, and adds the name of the kernel to the message."""
    env = {**(step.env or {}), "PACELINE_CUDA_EAGER": "1"}
    log = m.out / f"{part}.{step.name}.eager.log"
    again = run(step._replace(env=env, figures=None, limit=min(step.limit, 120.0)), log, max(seconds, 1.0))
    found = re.search(r"running (\w+ \(.*?\)) failed: (.*)", log.read_text(errors="replace"))
    which = f"the kernel {found[1]}: {found[2]}" if found else "kernel by kernel the GPU is not lost"
    return result._replace(seconds=result.seconds + again.seconds, says=f"{result.says}; {which}"[:600])


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
        m.pack()
    if "go.cuda" in todo and not m.no_gpu:
        print(f"left out of go.cuda: {', '.join(_NEED_SOURCES)}, which need the sources; go.cuda.*.log has the reasons of other skips")
    return int(any(summary[name]["status"] in (FAILED, TIMED_OUT) for name in todo))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
