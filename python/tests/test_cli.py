"""The command line."""

import json
import os
import re

import pytest

import paceline


def test_info_command(process):
    done = process("import sys; from paceline.cli import main; sys.exit(main(['info']))")
    assert paceline.__version__ in done.stdout and "isa" in done.stdout
    done = process("import sys; from paceline.cli import main; sys.exit(main(['evaluate', 'nothing', 'CartPole-v1']))", check=False)
    assert done.returncode == 1 and done.stderr.startswith("paceline: ") and len(done.stderr.splitlines()) == 1


def test_train_and_evaluate_commands(process, tmp_path):
    call = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
    process(
        call, "train", "CartPole-v1", "--preset", "tuned", "--steps", 1500, "--seed", 1, "--set", "learning_starts=200", "--save", "model"
    )
    done = process(call, "evaluate", "model", "CartPole-v1", "--episodes", 3)
    assert "mean_return" in done.stdout


def test_commands_that_list(process):
    call = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
    assert "dqn        paceline.DQN\n" in process(call, "methods").stdout
    assert "batch_size (int, default 32)" in process(call, "options").stdout
    presets = process(call, "presets", "--method", "dqn").stdout
    assert re.search(r"^tuned .*CartPole-v1", presets, re.M) and "mnih2015" in presets
    assert re.search(r"^net_arch +128,128 +\(set\)$", process(call, "preset", "tuned", "CartPole-v1").stdout, re.M)
    refused = process(call, "train", "CartPole-v1", "--method", "sarsa", check=False)
    assert refused.returncode == 1 and "--method sarsa: must be a2c, dqn, ppo or pqn" in refused.stderr


@pytest.mark.parametrize(
    "keyword, says",
    [
        ("lerning_rate=1e-3", "--set lerning_rate: not a keyword of paceline.DQN; did you mean learning_rate?"),
        ("env=Catch-v0", "--set env: not a keyword of paceline.DQN"),
        ("batch_size", "--set batch_size: must be NAME=VALUE"),
        ("batch_size=many", "batch_size: "),
    ],
)
@pytest.mark.parametrize("preset", [(), ("--preset", "tuned")])
def test_a_wrong_keyword_is_a_sentence(process, keyword, says, preset):
    call = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
    done = process(call, "train", "CartPole-v1", *preset, "--set", keyword, "--save", "model", check=False)
    assert done.returncode == 1 and done.stderr.startswith(f"paceline: {says}") and len(done.stderr.splitlines()) == 1


def test_bench_command(process):
    call = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
    done = process(call, "bench", "modes", "--env", "CartPole-v1", "--num-envs", "1,2", "--steps", 200)
    assert "standard" in done.stdout and "W=2" in done.stdout
    report = json.loads(process(call, "bench", "modes", "--env", "CartPole-v1", "--num-envs", "2", "--steps", 100, "--json").stdout)
    assert {r["mode"] for r in report["results"]} == {"standard", "concurrent", "synchronized", "both"}
    done = process(call, "bench", "modes", "--step-ms", "0,1", "--num-envs", "4", "--steps", 40)
    assert "a step that waits, and says so, W=4" in done.stdout and "a step that computes, W=4" in done.stdout
    assert done.stdout.count("%") == 16 and done.stdout.count("both/std") == 2
    done = process(call, "bench", "modes", "--step-ms", "0,-1", check=False)
    assert done.returncode == 2 and "'0,-1', must be numbers of 0 to 1000 with commas between them" in done.stderr


def test_bench_update_command(process):
    call = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
    report = json.loads(process(call, "bench", "update", "--rounds", 1, "--no-torch", "--json").stdout)
    ratio = report["ratio"]
    for work in ("update_fp32_1t", "update_bf16_1t", "act_b1", "act_b8", "act_b32_bf16"):
        assert 0 < ratio[f"{work}_done_of_peak"] <= ratio[f"{work}_of_peak"] < 100  # one round beside whatever else runs
    if len(os.sched_getaffinity(0)) > 1:
        threads = max(r["threads"] for r in report["ours"])
        assert ratio[f"update_fp32_{threads}t_vs_1t"] > 0
    done = process(call, "bench", "update", "--rounds", 1, "--no-torch")
    assert "update 32" in done.stdout and "GFLOP/s" in done.stdout


def test_bench_update_against_torch():
    pytest.importorskip("torch")
    from paceline.bench import update as bench_update

    torch = bench_update.Torch(batch=2, act=(1,))
    torch.kinds.pop("compiled", None), torch.kinds.pop("compiled_bf16", None)
    assert set(torch.turn(1)) == {("update", 2, "fp32"), ("update", 2, "bf16"), ("act", 1, "fp32"), ("act", 1, "bf16")}
    ours = {"work": "update", "batch": 2, "precision": "fp32", "threads": 1, "ms": 2.0, "of_peak": 0.5, "done_of_peak": 0.25}
    theirs = {"work": "update", "batch": 2, "kind": "fp32", "threads": 1, "ms": 5.0}
    ratio = bench_update._ratios({"ours": [ours], "theirs": [theirs, theirs | {"kind": "bf16", "ms": 3.0}]})
    assert ratio["update_fp32_1t_vs_torch"] == 2.5 and ratio["update_fp32_1t_vs_torch_bf16"] == 1.5


def test_training_goes_on_from_a_file(process, tmp_path):
    call = "import sys; from paceline.cli import main; sys.exit(main(sys.argv[1:]))"
    process(call, "train", "CartPole-v1", "--steps", "6e2", "--num-envs", 3, "--set", "learning_starts=50", "--save", "new/model")
    done = process(call, "train", "CartPole-v1", "--load", "new/model", "--steps", 300, "--eval-freq", 450)
    assert "900 steps: mean return" in done.stdout
    done = json.loads(process(call, "evaluate", "new/model", "CartPole-v1", "--episodes", 2, "--json").stdout)
    assert done["episodes"] == len(done["returns"]) == 2 and sum(done["returns"]) / 2 == done["mean_return"]
    assert "Catch-v0\n" in process(call, "envs").stdout
    for arguments, says in {
        ("--steps", "2.5"): "--steps: invalid whole_number value: '2.5'",
        ("--load", "new/model", "--preset", "tuned"): "--preset tuned: must be left out with --load",
        ("--load", "nowhere"): "nowhere: no such file",
    }.items():
        assert says in process(call, "train", "CartPole-v1", *arguments, check=False).stderr
