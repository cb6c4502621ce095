"""Agent steps/s of PPO, PQN and A2C on Pong, compared with stable-baselines3 and PyTorch: python python/benchmarks/onpolicy.py

All contenders do equal work with two threads. PPO and PQN have eight environments, rollouts of 128
steps, four epochs of four minibatches of 256 and the Nature network, for PQN with layer
normalisation (CleanRL's settings). A2C has sixteen environments, five steps and the small network
of Mnih et al. 2016, in fp32. stable-baselines3 steps the library's environments. The PyTorch loops,
examples/python/torch_ppo.py and torch_pqn.py, are CleanRL's and variants with channels_last and
torch.compile; they step EnvPool's environments if it is installed. Every contender is a process,
which sleeps while another is measured. They take turns; a ratio is the median of the turns' ratios.
A further measurement has two groups of eight environments (groups=2) that take turns in acting and
stepping, each phase on one core.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import statistics
import sys
from typing import Any

from _command import command
from _contenders import Contender, Learner, example, median_ratios, peaks, table
from paceline import A2C, PPO, PQN, PacelineError, bench

_THREADS = 2
_PPO_ROLLOUT, _A2C_ROLLOUT = 8 * 128, 16 * 5
_OURS, _OURS_PQN, _OURS_A2C = "paceline PPO ", "paceline PQN ", "paceline A2C fp32"
_SB3, _SB3_A2C = "stable-baselines3 PPO", "stable-baselines3 A2C"
_LOOP, _LOOP_PQN, _FASTER = "torch loop PPO", "torch loop PQN", " channels_last compile"
_MFLOP = 217  # textbook operations of a PPO step: acting, and four epochs of forward and backward passes
_PAPER_A2C = 3655  # steps/s of Stooke & Abbeel's A2C, on a P100 and five cores
_DUE = {_PPO_ROLLOUT: 16 / _PPO_ROLLOUT, _A2C_ROLLOUT: 1 / _A2C_ROLLOUT}  # updates a step


def _ours(precision: str, preset: str) -> Learner:
    cls = PPO if preset == "cleanrl" else PQN
    model = cls.from_preset(preset, "Pong", num_threads=_THREADS, precision=precision, seed=1, device="cpu")
    return lambda steps: model.learn(steps, log_interval=None, reset_num_timesteps=False), lambda: _counts(model)


def _ours_a2c() -> Learner:
    model = A2C("CnnPolicy", "Pong", cnn="small", num_envs=16, num_threads=_THREADS, ent_coef=0.01, seed=1, device="cpu")
    return lambda steps: model.learn(steps, log_interval=None, reset_num_timesteps=False), lambda: _counts(model)


def _counts(model: Any) -> tuple[int, int]:
    return model.num_timesteps, int(model.stats["updates"])


def _sb3() -> Learner:
    import stable_baselines3
    import torch

    from paceline.sb3 import VecEnv

    torch.set_num_threads(_THREADS)
    model: Any = stable_baselines3.PPO(
        "CnnPolicy", VecEnv("Pong", 8, num_threads=_THREADS), learning_rate=2.5e-4, n_steps=128, batch_size=256, n_epochs=4,
        clip_range=0.1, clip_range_vf=0.1, ent_coef=0.01, device="cpu", seed=1,
    )  # fmt: skip
    # stable-baselines3 counts epochs of four updates each.
    return lambda steps: model.learn(steps, log_interval=None, reset_num_timesteps=False), lambda: (
        model.num_timesteps,
        4 * model._n_updates,
    )


def _sb3_a2c() -> Learner:
    import stable_baselines3
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from torch import nn

    from paceline.sb3 import VecEnv

    class Small(BaseFeaturesExtractor):  # type: ignore[misc,unused-ignore]
        """Mnih et al. 2016: 16 of 8x8 stride 4, 32 of 4x4 stride 2, 256."""

        def __init__(self, space: Any) -> None:
            super().__init__(space, 256)
            self.layers = nn.Sequential(
                nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(2592, 256), nn.ReLU()
            )

        def forward(self, x: Any) -> Any:
            return self.layers(x)

    torch.set_num_threads(_THREADS)
    model: Any = stable_baselines3.A2C(
        "CnnPolicy", VecEnv("Pong", 16, num_threads=_THREADS), ent_coef=0.01, device="cpu", seed=1,
        policy_kwargs={"features_extractor_class": Small},
    )  # fmt: skip
    return lambda steps: model.learn(steps, log_interval=None, reset_num_timesteps=False), lambda: (model.num_timesteps, model._n_updates)


def _loop(file: str, **variant: Any) -> Learner:
    module = example(file)
    loop = module.Loop(module.Args(num_threads=_THREADS, **variant))
    return loop.train, lambda: (loop.steps, loop.updates)


def measure(rollouts: int, rounds: int, others: bool = True) -> dict[str, Any]:
    """Measures and returns the report.

    rollouts: rollouts of PPO and PQN in a turn; A2C takes ten times as many. others: whether to
    measure other installed libraries.
    """
    missing = [name for name in ("torch", "stable_baselines3", "envpool") if others and importlib.util.find_spec(name) is None]
    measured: list[dict[str, float]] = []
    with contextlib.ExitStack() as stack:

        def start(name: str, make: Any, rollout: int, **keywords: Any) -> tuple[Contender, int]:
            contender = Contender(name, make, (2 * rollout,), **keywords)
            return stack.enter_context(contextlib.closing(contender)), rollout

        running = []
        for name, preset in ((_OURS, "cleanrl"), (_OURS_PQN, "pqn_cleanrl")):
            running += [start(name + precision, _ours, _PPO_ROLLOUT, precision=precision, preset=preset) for precision in ("fp32", "bf16")]
        running.append(start(_OURS_A2C, _ours_a2c, _A2C_ROLLOUT))
        if others and not {"torch", "stable_baselines3"} & {*missing}:
            running += [start(_SB3, _sb3, _PPO_ROLLOUT), start(_SB3_A2C, _sb3_a2c, _A2C_ROLLOUT)]
        if others and not {"torch", "envpool"} & {*missing}:
            for name, file in ((_LOOP, "torch_ppo"), (_LOOP_PQN, "torch_pqn")):
                running.append(start(name, _loop, _PPO_ROLLOUT, file=file))
                running.append(start(name + _FASTER, _loop, _PPO_ROLLOUT, file=file, channels_last=True, compile=True))
        for _ in range(rounds):
            measured.append(peaks(_THREADS))
            for contender, rollout in running:
                contender.turn(rollouts * rollout * (10 if rollout == _A2C_ROLLOUT else 1))
    groups = bench.run("alternate", {"trials": max(2, rounds), "rounds": 75 * rollouts})
    results = [contender.described() for contender, _ in running]
    turns = {r["name"]: r["turns"] for r in results}
    peak = {name: statistics.median(at[name] for at in measured) for name in measured[0]}
    shares = [rate * _MFLOP / 1e3 / at["fp32"] for rate, at in zip(turns[_OURS + "fp32"], measured)]
    return {
        "threads": _THREADS, "rollouts_a_turn": rollouts, "rounds": rounds, "peak_gflops": peak,
        "ppo_fp32_of_peak": round(statistics.median(shares), 3), "a2c_of_paper": round(statistics.median(turns[_OURS_A2C]) / _PAPER_A2C, 3),
        "left_out": [name.replace("_", "-") for name in missing], "results": results,
        "equal_work": all(
            abs(contender.updates / contender.steps / _DUE[rollout] - 1) <= 0.01 for contender, rollout in running
        ),
        "groups": groups, "ratio": ratios(turns) | {"alternating_of_slower": round(groups["alternating_of_slower"], 3)},
    }  # fmt: skip


def ratios(turns: dict[str, list[float]]) -> dict[str, float]:
    """The library's rates over the others', medians of the turns' ratios."""
    pairs = {"a2c_vs_sb3": (_OURS_A2C, _SB3_A2C)}
    for precision in ("fp32", "bf16"):
        pairs[f"ppo_vs_sb3_{precision}"] = (_OURS + precision, _SB3)
        for method, ours, loop in (("ppo", _OURS, _LOOP), ("pqn", _OURS_PQN, _LOOP_PQN)):
            pairs[f"{method}_vs_torch_loop_{precision}"] = (ours + precision, loop)
            pairs[f"{method}_vs_torch_loop_faster_{precision}"] = (ours + precision, loop + _FASTER)
    return median_ratios(turns, pairs)


def text(report: dict[str, Any]) -> str:
    """The report as a table."""
    peak = ", ".join(f"{value:,.0f} in {name}" for name, value in report["peak_gflops"].items())
    lines = [
        f"Pong, {report['threads']} threads; medians of {report['rounds']} turns; peak GFLOP/s: {peak}",
        "",
        *table(report["results"]),
        "",
        f"PPO in fp32 reaches {report['ppo_fp32_of_peak']:.0%} of the peak, by {_MFLOP} MFLOP of textbook operations a step",
        f"A2C takes {report['a2c_of_paper']:.2f} times the {_PAPER_A2C:,} steps/s of Stooke & Abbeel's on a P100 and five cores",
        groups_text(report["groups"]),
        *(f"left out: {name} is not installed" for name in report["left_out"]),
    ]
    if not report["equal_work"]:
        lines.append("NOT equal work: updates a step differ by more than 1 %")
    return "\n".join([*lines, "", *(f"{name:<40}{value:>9.2f}" for name, value in report["ratio"].items())])


def groups_text(groups: dict[str, Any]) -> str:
    """The results of two groups as text."""
    rates = {name: f"{statistics.median(values):,.0f}" for name, values in groups.items() if isinstance(values, list)}
    return (
        f"steps/s on one core: acting {rates['act']}, stepping {rates['step']}. groups=2 with one core for each phase: "
        f"{rates['two_groups']} ({groups['alternating_of_slower']:.2f} of the slower phase); with both cores for both phases: "
        f"{rates['two_groups_both_cores']}; one group on both cores: {rates['one_group']}. Steps that wait "
        f"{groups['options']['wait_ms']:g} ms: {rates['wait_two_groups']} with two groups, {rates['wait_one_group']} with one "
        f"(ratio {groups['waiting_two_of_one']:.2f})."
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rollouts", type=int, default=2, help="rollouts of each turn (default 2)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default 5)")
    parser.add_argument("--no-torch", action="store_true", help="measure paceline alone")


def print_report(args: argparse.Namespace) -> None:
    for name in ("rollouts", "rounds"):
        if getattr(args, name) < 1:
            raise PacelineError(f"--{name}: {getattr(args, name)}, must be at least 1")
    report = measure(args.rollouts, args.rounds, not args.no_torch)
    print(json.dumps(report) if args.json else text(report))


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
