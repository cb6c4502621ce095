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
@pytest.mark.parametrize("form, numbers", [("discrete", 1), ("continuous", 2), ("hybrid", 2)])
def test_actions_equal_those_of_cpp(form, numbers, tmp_path):
    library = _lib.find()
    flags = ["-std=c++17", "-O1", f"-I{CHECKOUT / 'include'}", SOURCE, library, f"-Wl,-rpath,{library.parent}", "-pthread"]
    subprocess.run(["c++", *flags, "-o", tmp_path / "lander"], check=True)
    done = subprocess.run([tmp_path / "lander", form, "2"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    # the example requires 80 of 100 landings
    assert done.returncode == 0, done.stdout + done.stderr
    assert "steps, return" in done.stdout and "of 100 landed" in done.stdout

    log = np.loadtxt(tmp_path / "lander.csv", delimiter=",", dtype=np.float32)
    obs, actions = log[:, :-numbers], log[:, -numbers:]
    assert obs.shape[1] == 6 and len(log) > 10 and len(np.unique(actions, axis=0)) > 1
    with Policy.load(tmp_path / "lander.policy") as policy:
        assert in_columns(policy.predict(obs)[0], len(log)).tolist() == actions.tolist()
        assert [in_columns(policy.predict(row)[0], 1)[0].tolist() for row in obs] == actions.tolist()


def in_columns(actions, n):
    """n actions as rows of numbers: the branches, then the box."""
    parts = actions if isinstance(actions, tuple) else (actions,)
    return np.column_stack([np.reshape(part, (n, -1)) for part in parts]).astype(np.float32)
