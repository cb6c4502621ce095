"""python/benchmarks/train.py and value.py: ratios of rates, their processes, the commands, and the
replay memory and updates of PyTorch's loops.
"""

import contextlib
import importlib
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import train as bench_train
import value as bench_value
from paceline import PacelineError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


def test_ratios_compare_rates_of_the_same_turn():
    """A machine that is twice as slow in one turn changes no ratio."""
    turns = {
        "paceline fp32": [30.0, 15.0, 30.0],
        "paceline bf16": [50.0, 25.0, 51.0],
        "paceline fp32, with a callback": [24.0, 12.0, 24.0],
        "stable-baselines3": [10.0, 5.0, 10.0],
        "torch loop fp32": [15.0, 7.5, 15.0],
        "torch loop bf16 compile": [25.0, 12.5, 25.0],
    }
    ratio = bench_train.ratios(turns, {"fp32": "torch loop fp32", "bf16": "torch loop bf16 compile"})
    assert ratio == {
        "train_w8_fp32_callback": 0.8,
        "train_w8_fp32_vs_sb3": 3.0,
        "train_w8_bf16_vs_sb3": 5.0,
        "train_w8_fp32_vs_torch_loop": 2.0,
        "train_w8_bf16_vs_torch_loop": 2.0,
    }
    # bf16 is compared with the fastest PyTorch loop of any precision.
    assert bench_train.ratios(turns, dict.fromkeys(("fp32", "bf16"), "torch loop fp32"))["train_w8_bf16_vs_torch_loop"] == 3.333


@pytest.fixture
def without_torch(monkeypatch, capsys):
    """Runs a benchmark's command as if no other library were installed; returns its report."""

    def run(bench, rounds):
        monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
        if bench.main(["--steps", "80", "--rounds", str(rounds), "--replay", "320", "--json"]):
            assert "ROM" in capsys.readouterr().err
            pytest.skip("no ROM of Pong")
        return json.loads(capsys.readouterr().out)

    return run


@pytest.mark.slow
def test_command_runs_without_torch(without_torch):
    report = without_torch(bench_train, 2)
    assert [r["name"] for r in report["results"]] == ["paceline fp32", "paceline bf16", "paceline fp32, with a callback"]
    for r in report["results"]:
        assert len(r["turns"]) == 2 and min(r["turns"]) <= r["steps_per_second"] <= max(r["turns"])
        assert r["updates_per_step"] == pytest.approx(0.25, rel=0.01)
    assert report["equal_work"] and report["left_out"] == ["torch", "stable-baselines3"]
    assert list(report["ratio"]) == ["train_w8_fp32_callback"] and set(report["peak_gflops"]) == {"fp32", "bf16"}
    table = bench_train.text(report)
    assert "paceline bf16" in table and "left out: torch is not installed" in table and "NOT" not in table
    assert "NOT equal work" in bench_train.text(report | {"equal_work": False})


@pytest.mark.slow
def test_the_value_family_runs_without_torch(without_torch):
    report = without_torch(bench_value, 1)
    assert report["left_out"] == ["torch"] and "left out: torch is not installed" in bench_value.text(report)
    assert [r["name"] for r in report["results"]] == [f"paceline {method}" for method in bench_value.METHODS]
    assert report["equal_work"] and list(report["ratio"]) == [f"{method}_vs_dqn" for method in list(bench_value.METHODS)[1:]]
    assert "epsilon-rainbow_vs_dqn" in bench_value.text(report) and "NOT" in bench_value.text(report | {"equal_work": False})


def test_an_unknown_method_is_refused(capsys):
    assert bench_value.main(["--methods", "dqn,sarsa"]) == 1
    assert capsys.readouterr().err.startswith("paceline: --methods: 'sarsa', must be of dqn, categorical, ")


@pytest.mark.parametrize(
    "option, value, text",
    [
        ("steps", 0, "--steps: 0, must be at least 8 and a multiple of 8"),
        ("steps", 20, "--steps: 20, must be at least 8 and a multiple of 8"),
        ("replay", 36, "--replay: 36, must be at least 32 and a multiple of 8"),
        ("rounds", 0, "--rounds: 0, must be at least 1"),
    ],
)
def test_bad_arguments_are_refused(capsys, option, value, text):
    assert bench_train.main([f"--{option}", str(value)]) == 1
    assert capsys.readouterr().err == f"paceline: {text}\n"


def slow_half(half):
    """Counts half of the steps that it is asked for."""
    done = []
    return done.append, lambda: (sum(done), sum(done) // half)


def dies():
    os._exit(3)


def raises():
    raise ValueError("two\nlines")


def test_a_contender_that_fails_is_named():
    with contextlib.closing(bench_train.Contender("a", slow_half, (10,), half=2)) as contender:
        contender.turn(30)
        contender.turn(10)
        contender._process.kill()
        contender._process.join()
        with pytest.raises(PacelineError, match="^a: its process ended with status -9$"):
            contender.turn(10)
    assert (contender.steps, contender.updates, len(contender.rates)) == (40, 20, 2)
    assert contender.described()["updates_per_step"] == 0.5
    with pytest.raises(PacelineError, match="^b: its process ended with status 3$"):
        bench_train.Contender("b", dies, ())
    with pytest.raises(PacelineError, match="^c: ValueError: two lines$"):
        bench_train.Contender("c", raises, ())


@pytest.fixture
def examples(monkeypatch):
    pytest.importorskip("torch")
    if not EXAMPLES.is_dir():
        pytest.skip("no checkout around the tests")
    monkeypatch.setattr(sys, "path", [*sys.path, str(EXAMPLES)])


@pytest.fixture
def torch_dqn(examples):
    return importlib.import_module("torch_dqn")


@pytest.mark.parametrize("channels_last", [False, True])
def test_replay_of_the_loop_samples_real_transitions(torch_dqn, channels_last):
    """Samples are transitions that took place, and no transition leads into the next episode."""
    replay = torch_dqn.Replay(20, 3, channels_last, np.random.default_rng(1))
    random = np.random.default_rng(2)
    obs, begins = None, np.ones(3, bool)
    naive = []  # the latest 20 steps of the three environments
    for number in range(60):
        if number:
            actions, rewards, terminated = random.integers(6, size=3), random.normal(size=3).astype(np.float32), random.random(3) < 0.2
            replay.act(actions, rewards, terminated)
        before, obs = obs, random.integers(256, size=(3, 4, 84, 84), dtype=np.uint8)
        if number:
            step = [None if begins[i] else (before[i], obs[i], actions[i], rewards[i], terminated[i]) for i in range(3)]
            naive = [*naive, step][-20:]
        replay.observe(obs, begins)
        begins = terminated & ~begins if number else np.zeros(3, bool)
        if number < 10:
            continue
        want = {round(float(t[3]), 6): t for step in naive for t in step if t is not None}
        seen = set()
        for row in zip(*replay.sample(400)):
            key = round(float(row[3]), 6)
            seen.add(key)
            for got, there in zip(row, want[key]):
                assert np.array_equal(got.numpy(), there)
        assert len(seen) > 0.9 * len(want)


def test_updates_of_the_loop_equal_textbook_updates(torch_dqn):
    """Two updates that share their samples and their target pass equal two textbook updates."""
    import torch
    from torch import nn

    def flat(net):
        return torch.cat([p.detach().reshape(-1) for p in net.parameters()])

    loop = torch_dqn.Loop(torch_dqn.Args(env_id="Catch-v0", buffer_size=800, learning_starts=400, max_grad_norm=1e-3))
    loop.train(400)
    with torch.no_grad():
        loop.target[-1].weight.mul_(20)  # make the target differ from the online network
    # SGD, because Adam is invariant to the gradient's scale
    loop.optimizer = torch.optim.SGD(loop.online.parameters(), lr=10.0)
    nets = []
    for net in (loop.online, loop.target):
        layers = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU()]
        nets.append(nn.Sequential(*layers, nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, loop.actions)))
        nets[-1].load_state_dict(net.state_dict())
    online, target = nets
    optimizer = torch.optim.SGD(online.parameters(), lr=10.0)
    batch = loop.replay.sample(64)
    loop.replay.sample = lambda count: batch
    before = flat(online)
    loop.learn(2)
    for i in (0, 32):
        obs, next_obs, actions, rewards, terminated = (part[i : i + 32] for part in batch)
        y = rewards + 0.99 * (1 - terminated) * target(next_obs / 255.0).max(1).values.detach()
        optimizer.zero_grad()
        nn.functional.huber_loss(online(obs / 255.0)[torch.arange(32), actions], y).backward()
        nn.utils.clip_grad_norm_(online.parameters(), 1e-3)
        optimizer.step()
    got, want = (flat(net) - before for net in (loop.online, online))
    assert loop.updates == 2 and (got - want).norm() < 1e-3 * want.norm()


def test_targets_of_c51_equal_the_projection_of_each_atom(examples):
    """Rewards push atoms beyond both ends; a terminated row has all its probability at its reward."""
    import torch

    torch_dqn, torch_c51 = (importlib.import_module(name) for name in ("torch_dqn", "torch_c51"))
    loop = torch_c51.Loop(torch_dqn.Args(env_id="Catch-v0", buffer_size=800, learning_starts=400))
    with torch.no_grad():
        for parameter in loop.target.parameters():
            parameter.mul_(3)
        obs = loop.replay.latest()
        rewards = torch.tensor([0.0, 0.3, 25.0, -25.0, 1.0, -1.0, 0.4, 2.0])
        terminated = torch.tensor([0.0, 0, 0, 0, 1, 1, 0, 1])
        got = loop.targets(obs, rewards, terminated).numpy()
        probabilities = loop.target(obs.float()).view(8, loop.actions, 51).softmax(2).numpy().astype(np.float64)
    atoms = np.linspace(-10, 10, 51)
    want = np.zeros((8, 51))
    for row, of_actions in enumerate(probabilities):
        best = of_actions[(of_actions @ atoms).argmax()]
        for atom, p in zip(atoms, best):
            moved = np.clip(rewards[row].item() + 0.99 * (1 - terminated[row].item()) * atom, -10, 10)
            want[row] += p * np.maximum(0, 1 - np.abs(atoms - moved) / 0.4)  # shares fall linearly with the distance
    assert np.abs(got - want).max() < 1e-5
    loop.train(480)
    assert loop.updates == 20
