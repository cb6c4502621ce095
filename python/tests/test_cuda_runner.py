"""The runner of `make test-cuda`: time limits, parsed output, and parts that are left out."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "cuda"


def module(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def steps():
    return module("steps")


@pytest.fixture
def runner(steps, monkeypatch):
    monkeypatch.setitem(sys.modules, "steps", steps)
    return module("run")


@pytest.fixture
def machine(runner, tmp_path):
    m = runner.Machine(tmp_path, {"SOFTWARE": "1"})
    m.gpu = {"name": "NVIDIA H9", "device": "cuda:0", "compute_capability": "9.0"}
    return m


def sh(steps, text, **more):
    return steps.Step("step", ["sh", "-c", text], **more)


def test_a_time_limit_ends_a_step_and_its_children(steps, tmp_path):
    result = steps.run(sh(steps, "echo begun; sleep 60 & echo $!; wait", limit=0.5), tmp_path / "log", 480)
    assert result.status == "TIMED OUT"
    child = int((tmp_path / "log").read_text().split()[1])
    for _ in range(2000):  # wait until the child is gone or a zombie
        try:
            if "Z" in Path(f"/proc/{child}/stat").read_text().split(")")[1].split()[0]:
                break
        except FileNotFoundError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("a child still runs")


def test_a_step_reports_figures_or_its_failure(steps, tmp_path):
    figures = tmp_path / "figures.json"
    figures.write_text('{"summary": "of an earlier run"}')
    result = steps.run(sh(steps, f'echo \'{{"summary": "5 of 5"}}\' >{figures}', figures=figures), tmp_path / "log", 10)
    assert result[:1] + result[2:] == ("ok", "5 of 5", {"summary": "5 of 5"})
    result = steps.run(sh(steps, "echo all went wrong; exit 3", figures=figures), tmp_path / "log", 10)
    assert result[:1] + result[2:] == ("FAILED", "status 3: all went wrong", {})
    result = steps.run(steps.Step("step", ["/nothing/here"]), tmp_path / "log", 10)
    assert result.status == "FAILED" and "/nothing/here" in result.says


GO = """=== RUN   TestA
--- PASS: TestA (0.00s)
=== RUN   TestB
    driver_test.go:30: left out: needs the software device
--- SKIP: TestB (0.00s)
=== RUN   TestC
=== RUN   TestC/cuda
    nn_test.go:7: 3, must be 4
--- FAIL: TestC (0.01s)
    --- FAIL: TestC/cuda (0.01s)
FAIL
"""


def test_output_of_go_is_parsed(steps):
    assert steps.parse_go(GO) == {"passed": 1, "failed": 1, "left_out": {"TestB": "left out: needs the software device"}}
    assert steps.first_failure(GO) == "TestC: nn_test.go:7: 3, must be 4"
    assert steps.first_failure("x\npanic: oh\n") == "panic: oh" and steps.first_failure("PASS\n") == ""


def test_output_of_compute_sanitizer_is_parsed(steps):
    clean = "========= COMPUTE-SANITIZER\nPASS\n========= ERROR SUMMARY: 0 errors\n"
    assert steps.parse_sanitizer(clean) == {"errors": 0, "first": "", "summaries": ["ERROR SUMMARY: 0 errors"]}
    found = steps.parse_sanitizer(
        "========= Invalid __global__ write of size 4 bytes\n=========     at dense+0x10\n========= ERROR SUMMARY: 1 error\n"
    )
    assert found["errors"] == 1 and found["first"].startswith("Invalid __global__ write")


def test_parts_are_chosen_by_name(runner, machine):
    every = runner.parts(machine)
    assert runner.chosen([], every)[:3] == ["probe", "go.cuda", "go.nn"] and len(runner.chosen(["table1"], every)) == machine.table1
    assert runner.chosen(["pong", "go.nn"], every) == ["go.nn", "pong"]
    with pytest.raises(SystemExit, match="gone: must be probe, go.cuda, "):
        runner.chosen(["gone"], every)


def test_every_part_belongs_to_one_call(runner, tmp_path):
    """Each part belongs to one call, and README.md lists the calls."""
    every = runner.parts(runner.Machine(tmp_path, {}))
    called = [part for parts in runner.CALLS.values() for part in parts]
    assert sorted(called) == sorted(every)
    readme = (FOLDER / "README.md").read_text()
    for call, parts in runner.CALLS.items():
        line = next(line for line in readme.splitlines() if f"{call}`" in line)
        assert parts[0] in line and parts[-1] in line, call


def test_calls_fit_into_a_rental():
    """The calls of a rental have 13 of its 15 minutes; a call has 10."""
    rows = re.findall(r"^\| (\d) .*CALL_SECONDS=(\d+)", (FOLDER / "README.md").read_text(), re.MULTILINE)
    limits = {rental: [int(seconds) for number, seconds in rows if number == rental] for rental, _ in rows}
    assert limits and all(sum(seconds) <= 13 * 60 and max(seconds) < 10 * 60 for seconds in limits.values())


def test_all_results_are_returned_as_one_file(runner, tmp_path, steps):
    m = runner.Machine(tmp_path / "test-cuda", {"OUT": str(tmp_path / "back")})
    m.gpu = {"name": "NVIDIA H9"}
    assert tmp_path / "test-cuda" not in m.out.parents  # a new copy replaces this folder
    for name in "a", "b":
        runner.do(m, name, runner.Part(lambda m: [sh(steps, "echo done")]))
        m.pack()
        with tarfile.open(tmp_path / "back" / "test-cuda.tar.gz") as archive:
            assert {f"results/{name}.json", f"results/{name}.step.log"} <= {*archive.getnames()}
        assert [p.name for p in (tmp_path / "back").iterdir()] == ["test-cuda.tar.gz"]


def test_a_call_ends_in_time(runner, tmp_path, steps):
    m = runner.Machine(tmp_path / "test-cuda", {"CALL_SECONDS": "1"})
    m.gpu = {"name": "NVIDIA H9"}
    slow = runner.Part(lambda m: [sh(steps, "sleep 60")])
    assert runner.do(m, "first", slow)["status"] == "TIMED OUT"
    assert runner.do(m, "second", slow) | {"seconds": 0} == {
        "part": "second", "status": "left out", "seconds": 0, "says": "the call's time is up",
    }  # fmt: skip


def test_go_tests_run_in_separate_processes(runner, machine):
    steps = machine.go_each("nn", ["TestA", "TestB"], "/^cuda$", "-test.short")
    assert [s.name for s in steps] == ["nn.TestA", "nn.TestB"]
    assert [[a for a in s.command if "run=" in a] for s in steps] == [["-test.run=^TestA$/^cuda$"], ["-test.run=^TestB$/^cuda$"]]


@pytest.mark.parametrize("part", ["go.cuda", "go.nn", "go.methods"])
def test_a_program_that_cannot_start_fails_its_parts(runner, machine, part):
    machine.software = False
    for name in "cuda", "gpu", "dqn":
        (machine.here / "go" / name).mkdir(parents=True)
        (program := machine.work / f"{name}.test").write_text("#!/bin/sh\necho version GLIBC_2.38 not found >&2\nexit 1\n")
        program.chmod(0o755)
    (machine.here / "go" / "gpu" / "suite").write_text("Stepper\n")
    report = runner.do(machine, part, runner.parts(machine)[part])
    assert report["status"] == "FAILED" and report["says"].endswith(".test: status 1: version GLIBC_2.38 not found")
    (machine.work / "cuda.test").unlink()
    assert runner.do(machine, "go.cuda", runner.parts(machine)["go.cuda"])["status"] == "FAILED"


def test_go_tests_are_listed(machine):
    (machine.here / "go" / "pqn").mkdir(parents=True)
    (program := machine.work / "pqn.test").write_text("#!/bin/sh\nprintf 'TestA\nExampleA\nTestB\n'\n")
    program.chmod(0o755)
    assert machine.tests("pqn") == ["TestA", "TestB"]


def test_the_kernel_that_lost_the_gpu_is_named(runner, machine, steps):
    """The failed step runs again with a launch per kernel. Later steps run as well."""
    lost = "    x_test.go:1: cuda:0 is lost with the contents of its memory"
    text = f"""
        echo '=== RUN   TestA'
        if [ "$PACELINE_CUDA_EAGER" = 1 ]; then echo '{lost}: running dense (grid [1 2 3], block [128 1 1]) failed: oh'
        else echo '{lost}: waiting for a stream failed: oh'; fi
        echo '--- FAIL: TestA (0.1s)'; exit 1
    """
    two = [sh(steps, text)._replace(name="a"), sh(steps, "echo PASS")._replace(name="b")]
    report = runner.do(machine, "go.nn", runner.Part(lambda m: two))
    assert report["status"] == "FAILED"
    assert (
        report["says"].startswith("TestA: x_test.go:1: cuda:0 is lost")
        and "; the kernel dense (grid [1 2 3], block [128 1 1]): oh" in report["says"]
    )
    assert list(json.loads((machine.out / "go.nn.json").read_text())["steps"]) == ["a", "b"]
    results = [
        steps.Result(status, 1.0, "oh", {"passed": passed, "left_out": {"TestX": ""}}) for status, passed in [("ok", 1), ("FAILED", 2)]
    ]
    assert runner.summarize_tests(machine, results) == "3 passed, 2 left out; oh"


@pytest.mark.slow
def test_parts_end_in_time_or_say_why_they_are_left_out(runner, machine, steps, monkeypatch):
    monkeypatch.setattr(runner, "LIMIT", 5.0)
    slow = runner.Part(lambda m: [sh(steps, "echo first")._replace(name="a"), sh(steps, "sleep 60")._replace(name="b"), sh(steps, "")])
    report = runner.do(machine, "slow", slow)
    assert report["status"] == "TIMED OUT"
    written = json.loads((machine.out / "slow.json").read_text())
    assert list(written["steps"]) == ["a", "b"] and written["gpu"]["name"] == "NVIDIA H9"

    report = runner.do(machine, "sanitize", runner.parts(machine)["sanitize"])
    assert report["status"] == "left out" and "compute-sanitizer" in report["says"]
    machine.no_gpu = "no NVIDIA driver was found"
    assert runner.do(machine, "go.nn", runner.parts(machine)["go.nn"])["says"] == "no NVIDIA driver was found"


def test_a_sanitizer_error_fails_a_part(runner, machine, steps):
    part = runner.Part(lambda m: [sh(steps, "echo '========= Race reported between'; echo PASS")], runner.summarize_sanitize)
    report = runner.do(machine, "sanitize", part)
    assert report["status"] == "FAILED" and "0 of 1 runs are clean" in report["says"]


def test_device_selects_the_visible_gpu(runner, tmp_path):
    assert runner.Machine(tmp_path, {"DEVICE": "cuda:2"}).env["CUDA_VISIBLE_DEVICES"] == "2"
    assert runner.Machine(tmp_path, {"DEVICE": "cuda:1", "CUDA_VISIBLE_DEVICES": "4,7"}).env["CUDA_VISIBLE_DEVICES"] == "7"
    assert "CUDA_VISIBLE_DEVICES" not in runner.Machine(tmp_path, {}).env


def test_missed_goals_are_named(runner, machine, steps):
    machine.software = False
    report = {
        "ours": [{"work": "row", "precision": "tf32", "ms": 0.2}], "torch": {"left_out": []},
        "ratio": {"row_tf32_vs_torch_compiled_graph": 1.4, "row_tf32_vs_torch_eager": 9.0},
    }  # fmt: skip
    says = runner.summarize_update(machine, [steps.Result("ok", 1.0, "", report)])
    assert "row tf32 0.200 ms" in says and "above the goal of 0.12 ms" in says and "below the goal of 1.5 times PyTorch" in says
    assert "eager" not in says
    cut = steps.Result("TIMED OUT", 480.0, "stopped after 480 s: ", report | {"rounds": 2})
    assert "after 2 rounds" in runner.summarize_update(machine, [cut]) and "row tf32 0.200 ms" in runner.summarize_update(machine, [cut])


def test_build_copies_every_file():
    """build.sh copies every file of the folder."""
    line = next(line for line in (FOLDER / "build.sh").read_text().splitlines() if line.startswith("for name in run.sh"))
    carried = line.removeprefix("for name in ").removesuffix("; do").split()
    assert sorted(carried) == sorted(p.name for p in FOLDER.iterdir() if p.suffix in (".py", ".sh") and p.name != "build.sh")


def test_bits_continue_after_a_failure(tmp_path, monkeypatch, capsys):
    """A failed run counts as a setting with different bits, and later settings run."""
    bits, out = module("bits"), tmp_path / "bits.json"

    def run(command, **_):
        fails = command[command.index("--one") + 1] == "1" and command[command.index("--one") + 4] == "callback"
        return subprocess.CompletedProcess(command, int(fails), "digest\n", "it broke" if fails else "")

    monkeypatch.setattr(bits.subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["bits.py", "--out", str(out), "--tiny"])
    with pytest.raises(SystemExit) as status:
        bits.main()
    report = json.loads(out.read_text())
    assert status.value.code and [r["envs"] for r in report["results"]] == [1, 4] and report["summary"].startswith("1 of 2 settings")
    assert not report["results"][0]["same"]["all ended"] and "it broke" in capsys.readouterr().out


def test_acting_is_measured_on_a_gpu_only(tmp_path, monkeypatch):
    acting, out = module("acting"), tmp_path / "acting.json"
    monkeypatch.setattr(sys, "argv", ["acting.py", "--out", str(out), "--device", "cpu", "--tiny"])
    with pytest.raises(SystemExit, match="^device: cpu, must be a GPU: the model computes on cpu$"):
        acting.main()
    assert not out.exists()


def test_pong_continues_in_the_next_slice(tmp_path, capsys):
    """Three slices run one chunk each; the fourth call has nothing left to do."""
    pong = module("pong")
    out, said = tmp_path / "pong.json", []
    for _ in range(4):
        pong.main(["--out", str(out), "--state", str(tmp_path / "state"), "--device", "cpu", "--tiny", "--seconds", "0"])
        report = json.loads(out.read_text())
        said.append((len(report["curve"]), report["curve"][-1]["steps"], report["reached"] is not None))
    assert said == [(1, 60, False), (2, 120, False), (3, 180, True), (3, 180, True)]
    assert len(report["evaluations"]) == 1 and report["slices"] == 3 and os.path.getsize(tmp_path / "pong_policy.paceline") > 0
    assert "call again" in capsys.readouterr().out
