"""`paceline bench ffi`: every call from every language, and languages left out for lack of a
compiler.
"""

import json
import shutil

import pytest

from paceline.bench import ffi

CALL = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
ROWS = {("empty", 0), *(("vec_step", n) for n in ffi.ROWS), *(("act mlp", n) for n in ffi.ROWS), ("act cnn", 1)}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cc") or not shutil.which("c++"), reason="no C or C++ compiler")
def test_command_measures_every_call_from_every_language(process):
    report = json.loads(process(CALL, "bench", "ffi", "--rounds", 1, "--json", options=()).stdout)
    assert {(r["work"], r["rows"]) for r in report["results"]} == ROWS and report["left_out"] == []
    for r in report["results"]:
        assert all(0 < r[language] < 1e5 for language in ("c", "cpp", "python")), r
        assert ("kernels" in r) == r["work"].startswith("act")
    assert report["cnn_over_kernels"] > 0
    assert "act, 64-64 MLP, 8" in ffi.text(report)


@pytest.mark.slow
def test_missing_compilers_are_reported(process):
    compilers = {"CC": "/nowhere/cc", "CXX": "false"}
    report = json.loads(process(CALL, "bench", "ffi", "--rounds", 1, "--json", options=(), env=compilers).stdout)
    assert {(r["work"], r["rows"]) for r in report["results"]} == ROWS and not any("c" in r or "cpp" in r for r in report["results"])
    assert report["left_out"] == ["ffi.c: no compiler /nowhere/cc", "ffi.cpp: no reason given"] and report["cnn_over_kernels"] is None
    assert "left out: ffi.c" in ffi.text(report)


def test_wrong_arguments_give_one_line_without_a_traceback(process):
    done = process(CALL, "bench", "ffi", "--rounds", 0, check=False)
    assert done.returncode == 1 and "rounds: 0, must be at least 1" in done.stderr and "Traceback" not in done.stderr
