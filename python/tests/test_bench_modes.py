"""The command python/benchmarks/modes.py."""

import json

import pytest

import modes


@pytest.mark.slow
def test_command_compares_all_modes(capsys):
    def printed(*arguments):
        assert modes.main([*arguments]) == 0
        return capsys.readouterr().out

    out = printed("--env", "CartPole-v1", "--num-envs", "1,2", "--steps", "200")
    assert "standard" in out and "W=2" in out
    report = json.loads(printed("--env", "CartPole-v1", "--num-envs", "2", "--steps", "100", "--json"))
    assert {r["mode"] for r in report["results"]} == {"standard", "concurrent", "synchronized", "both"}
    out = printed("--step-ms", "0,1", "--num-envs", "2", "--steps", "16")
    assert "a step that waits (waits=True), W=2" in out and "a step that computes, W=2" in out
    assert out.count("%") == 16 and out.count("both/std") == 2


def test_bad_arguments_are_refused(capsys):
    with pytest.raises(SystemExit):
        modes.main(["--step-ms", "0,-1"])
    assert "'0,-1', must be numbers of 0 to 1000 with commas between them" in capsys.readouterr().err
