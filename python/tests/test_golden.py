"""A run of `make learn` on each C path has the hashes of the golden file. `make learn` checks all
runs on the path in use.
"""

from pathlib import Path

import pytest

LEARN = Path(__file__).resolve().parents[2] / "examples" / "python" / "learn.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    "isa, env, mode",
    [
        *((isa, "CartPole-v1", "both") for isa in ("generic", "avx2", "avx512", "avx512bf16")),
        *((isa, "Pendulum-v1", "ppo") for isa in ("generic", "avx2", "avx512")),
        *((isa, "CartPole-v1", method) for isa in ("generic", "avx2", "avx512") for method in ("a3c", "appo", "ga3c")),
    ],
)
def test_a_run_on_each_path_has_the_golden_hashes(process, isa, env, mode):
    if not LEARN.is_file():
        pytest.skip("no checkout around the tests")
    variables = {"PACELINE_ISA": isa}
    tried = process("import paceline; paceline.DQN('MlpPolicy', 'CartPole-v1').close()", env=variables, check=False)
    if tried.returncode:
        assert f'PACELINE_ISA: "{isa}", must be one of' in tried.stderr
        pytest.skip(f"this machine does not run {isa}")
    code = f"import runpy, sys; sys.argv[0] = {str(LEARN)!r}; runpy.run_path({str(LEARN)!r}, run_name='__main__')"
    done = process(code, "--env", env, "--mode", mode, "--seeds", "1", env=variables, options=(), timeout=300)
    assert done.stdout.endswith(f"every threshold was reached\n{isa}: 1 of 1 runs have the hashes of golden_learn.txt\n"), done.stdout
