"""python/benchmarks/onpolicy.py: ratios, the command, and the returns of PyTorch's loops."""

import importlib
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import onpolicy
from _contenders import Contender
from paceline import bench
from paceline.envs import vec

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


def test_ratios_compare_rates_of_the_same_turn():
    turns = {
        "paceline PPO fp32": [30.0, 15.0, 30.0], "paceline PPO bf16": [50.0, 25.0, 51.0], "paceline A2C fp32": [90.0, 45.0, 90.0],
        "stable-baselines3 PPO": [10.0, 5.0, 10.0], "stable-baselines3 A2C": [30.0, 15.0, 30.0], "torch loop PPO": [20.0, 10.0, 20.0],
        "torch loop PPO channels_last compile": [25.0, 12.5, 25.0],
        "paceline PQN fp32": [10.0, 8.0, 10.0], "torch loop PQN": [4.0, 4.0, 5.0],
    }  # fmt: skip
    assert onpolicy.ratios(turns) == {
        "a2c_vs_sb3": 3.0, "ppo_vs_sb3_fp32": 3.0, "ppo_vs_torch_loop_fp32": 1.5, "ppo_vs_torch_loop_faster_fp32": 1.2,
        "ppo_vs_sb3_bf16": 5.0, "ppo_vs_torch_loop_bf16": 2.5, "ppo_vs_torch_loop_faster_bf16": 2.0, "pqn_vs_torch_loop_fp32": 2.0,
    }  # fmt: skip


@pytest.mark.slow
def test_command_runs_without_torch(monkeypatch, capsys):
    # load the library before the patch: its search for ale-py's ROM files uses find_spec
    vec.names()
    monkeypatch.setattr(onpolicy.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(onpolicy, "Contender", lambda name, make, warm_up, **keywords: Contender(name, make, (), **keywords))
    run = bench.run
    monkeypatch.setattr(bench, "run", lambda name, options: run(name, options | ({"rounds": 10} if "rounds" in options else {})))
    if onpolicy.main(["--rollouts", "1", "--rounds", "1", "--json"]):
        assert "ROM" in capsys.readouterr().err
        pytest.skip("no ROM of Pong")
    report = json.loads(capsys.readouterr().out)
    assert [r["name"] for r in report["results"]] == [
        *(f"paceline {method} {precision}" for method in ("PPO", "PQN") for precision in ("fp32", "bf16")),
        "paceline A2C fp32",
    ]
    assert [r["updates_per_step"] for r in report["results"]] == [pytest.approx(n, rel=0.01) for n in (*[1 / 64] * 4, 1 / 80)]
    assert report["equal_work"] and report["left_out"] == ["torch", "stable-baselines3", "envpool"]
    assert [*report["ratio"]] == ["alternating_of_slower"]
    assert 0 < report["ppo_fp32_of_peak"] < 1.5
    table = onpolicy.text(report)
    assert "left out: envpool is not installed" in table and "NOT" not in table
    assert "NOT equal work" in onpolicy.text(report | {"equal_work": False})


def test_bad_arguments_are_refused(capsys):
    assert onpolicy.main(["--rounds", "0"]) == 1
    assert capsys.readouterr().err == "paceline: --rounds: 0, must be at least 1\n"


def test_advantages_of_the_loop_are_gae(monkeypatch):
    """Advantages equal GAE's definition; dones[t] means that observation t starts an episode."""
    torch = pytest.importorskip("torch")
    if not EXAMPLES.is_dir():
        pytest.skip("no checkout around the tests")
    monkeypatch.setattr(sys, "path", [*sys.path, str(EXAMPLES)])
    monkeypatch.setitem(sys.modules, "envpool", types.ModuleType("envpool"))
    torch_ppo = importlib.import_module("torch_ppo")
    random = np.random.default_rng(1)
    steps, envs = 12, 3
    rewards, values = random.normal(size=(steps, envs)), random.normal(size=(steps + 1, envs))
    dones = (random.random((steps + 1, envs)) < 0.2).astype(float)
    loop = object.__new__(torch_ppo.Loop)
    loop.args = torch_ppo.Args(num_envs=envs, num_steps=steps)
    loop.rewards, loop.values, loop.dones = (torch.tensor(x[:steps]).float() for x in (rewards, values, dones))
    loop.next_done, loop.next_obs = torch.tensor(dones[steps]).float(), None
    loop.laid_out = lambda obs: obs
    loop.forward = lambda obs: (None, torch.tensor(values[steps]).float())
    got = loop.advantages().numpy()
    for i in range(envs):
        for t in range(steps):
            want, weight = 0.0, 1.0
            for k in range(t, steps):
                alive = 1 - dones[k + 1, i]
                want += weight * (rewards[k, i] + 0.99 * values[k + 1, i] * alive - values[k, i])
                weight *= 0.99 * 0.95 * alive
            assert got[t, i] == pytest.approx(want, abs=1e-5)


def test_targets_of_the_loop_are_q_lambda(monkeypatch):
    """Targets equal the definition of Q(lambda); dones[t] means that observation t starts an
    episode.
    """
    torch = pytest.importorskip("torch")
    if not EXAMPLES.is_dir():
        pytest.skip("no checkout around the tests")
    monkeypatch.setattr(sys, "path", [*sys.path, str(EXAMPLES)])
    monkeypatch.setitem(sys.modules, "envpool", types.ModuleType("envpool"))
    torch_pqn = importlib.import_module("torch_pqn")
    random = np.random.default_rng(2)
    steps, envs = 12, 3
    rewards, values = random.normal(size=(steps, envs)), random.normal(size=(steps + 1, envs))
    dones = (random.random((steps + 1, envs)) < 0.2).astype(float)
    loop = object.__new__(torch_pqn.Loop)
    loop.args = torch_pqn.Args(num_envs=envs, num_steps=steps)
    loop.rewards, loop.values, loop.dones = (torch.tensor(x[:steps]).float() for x in (rewards, values, dones))
    loop.next_done, loop.next_obs = torch.tensor(dones[steps]).float(), None
    loop.laid_out = lambda obs: obs
    loop.q = lambda obs: torch.tensor(values[steps]).float()[:, None]
    got = loop.targets().numpy()

    def want(t, i):
        if dones[t + 1, i]:
            return rewards[t, i]
        after = values[steps, i] if t + 1 == steps else want(t + 1, i)
        return rewards[t, i] + 0.99 * (0.65 * after + 0.35 * values[t + 1, i])

    np.testing.assert_allclose(got, [[want(t, i) for i in range(envs)] for t in range(steps)], atol=1e-5)
