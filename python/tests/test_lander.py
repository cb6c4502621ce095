"""A policy trained and saved by examples/cpp/lander.cpp acts the same from Python."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from paceline import Policy, _lib

CHECKOUT = Path(__file__).resolve().parents[2]
SOURCE = CHECKOUT / "examples" / "cpp" / "lander.cpp"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("c++") or not SOURCE.exists(), reason="no C++ compiler, or no checkout around the tests")
def test_actions_equal_those_of_cpp(tmp_path):
    library = _lib.find()
    flags = ["-std=c++17", "-O1", f"-I{CHECKOUT / 'include'}", SOURCE, library, f"-Wl,-rpath,{library.parent}", "-pthread"]
    subprocess.run(["c++", *flags, "-o", tmp_path / "lander"], check=True)
    done = subprocess.run([tmp_path / "lander", "2"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    # the example requires 80 of 100 landings
    assert done.returncode == 0, done.stdout + done.stderr
    assert "steps, return" in done.stdout and "of 100 landed" in done.stdout

    log = np.loadtxt(tmp_path / "lander.csv", delimiter=",", dtype=np.float32)
    obs, actions = log[:, :-1], log[:, -1].astype(int)
    assert len(log) > 10 and len(set(actions)) > 1
    with Policy.load(tmp_path / "lander.policy") as policy:
        assert policy.predict(obs)[0].tolist() == actions.tolist()
        assert [int(policy.predict(row)[0]) for row in obs] == actions.tolist()
