"""`paceline bench envs`: ratios of rates, and the command."""

import json

import pytest

from paceline.bench import envs as bench_envs


def cell(**turns):
    return {"game": "pong", "num_envs": 8} | bench_envs._described({name.replace("_", " "): r for name, r in turns.items()})


def test_ratios_compare_rates_of_the_same_turn():
    """A machine that is twice as slow in one turn changes no ratio."""
    report = cell(paceline=[300.0, 150.0, 310.0], envpool=[100.0, 50.0, 100.0], **{"ale-py": [60.0, 30.0, 62.0]})
    assert bench_envs.ratios([report]) == {"pong_8_vs_envpool": 3.0, "pong_8_vs_ale": 5.0, "pong_8_vs_better": 3.0}


def test_only_the_fastest_batch_size_continues():
    closed = []
    running = {
        name: bench_envs.Contender(lambda rows: None, lambda name=name: closed.append(name)) for name in ("a", "a async 4", "a async 2")
    }
    for rate, contender in zip((9, 1, 2), running.values()):
        contender.rates.append(rate)
    left, slower = bench_envs._fastest(running)
    assert list(left) == ["a", "a async 2"]
    for contender in slower:
        contender.close()
    assert closed == ["a async 4"]
    report = cell(paceline=[2.0], paceline_async_2=[3.0], envpool_async_4=[1.5])
    assert report["batch_size"] == {"paceline async": 2, "envpool async": 4}
    assert bench_envs.ratios([report]) == {"pong_8_async_vs_envpool_async": 2.0}


@pytest.mark.slow
def test_command_reports_each_number_of_environments(process):
    pytest.importorskip("ale_py.vector_env")
    call = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
    done = process(call, "bench", "envs", "--games", "pong", "--num-envs", "1,2", "--rounds", 1, "--no-gymnasium", "--json")
    report = json.loads(done.stdout)
    assert [(r["game"], r["num_envs"]) for r in report["results"]] == [("pong", 1), ("pong", 2)]
    for n in (1, 2):
        assert report["ratio"][f"pong_{n}_vs_ale"] > 0
    assert "pong, 2 environments" in done.stderr
    wrong = process(call, "bench", "envs", "--games", "pnog", "--num-envs", "1", "--no-gymnasium", check=False)
    assert wrong.returncode != 0 and "pong" in wrong.stderr and "Traceback" not in wrong.stderr
