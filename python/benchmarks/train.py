"""Agent steps/s of DQN on Pong, compared with stable-baselines3 and PyTorch: python python/benchmarks/train.py

All contenders do equal work: eight environments of the library, the Nature network, minibatches of
32, an update per 4 steps, Adam at 1e-4, gradients clipped to a norm of 10, epsilon 0.1, two
threads, and a full replay memory of the same size when the clock starts. The clock stops when all
due updates are done. Every contender is a process, which sleeps while another is measured. They
take turns; a ratio is the median of the turns' ratios, because the machine's speed changes over
time. The PyTorch loop is examples/python/torch_dqn.py: short turns select the fastest variant in
fp32 and the fastest of all.
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
from paceline import DQN, PacelineError

ENVS, THREADS, BATCH, _FREQ = 8, 2, 32, 4
_DUE = 1 / _FREQ  # updates a step
_COMMON: dict[str, Any] = {
    "learning_rate": 1e-4, "batch_size": BATCH, "max_grad_norm": 10, "target_update_interval": 1000,
    "exploration_initial_eps": 0.1, "exploration_final_eps": 0.1, "seed": 1,
}  # fmt: skip
_OURS, _CALLBACK, _SB3 = "paceline ", "paceline fp32, with a callback", "stable-baselines3"
_VARIANTS: dict[str, dict[str, Any]] = {
    f"torch loop {precision}{' channels_last' * channels_last}{' compile' * compiled}": {
        "precision": precision, "channels_last": channels_last, "compile": compiled
    }
    for precision in ("fp32", "bf16") for channels_last in (False, True) for compiled in (False, True)
}  # fmt: skip


def ours(replay: int, precision: str, callback: bool = False, **keywords: Any) -> Learner:
    model = DQN(
        "CnnPolicy", "Pong", num_envs=ENVS, num_threads=THREADS, buffer_size=replay, learning_starts=replay, train_freq=_FREQ,
        precision=precision, device="cpu", **{**_COMMON, **keywords},
    )  # fmt: skip
    read = _read if callback else None
    return (
        lambda steps: model.learn(steps, read, log_interval=None, reset_num_timesteps=False),
        lambda: (model.num_timesteps, int(model.stats["updates"])),
    )


def _read(locals_: dict[str, Any], globals_: dict[str, Any]) -> bool:
    """A callback that reads the usual locals."""
    return len(locals_["rewards"]) == len(locals_["infos"])


def _sb3(replay: int) -> Learner:
    import stable_baselines3
    import torch

    from paceline.sb3 import VecEnv

    torch.set_num_threads(THREADS)
    model: Any = stable_baselines3.DQN(
        "CnnPolicy", VecEnv("Pong", ENVS, num_threads=THREADS), buffer_size=replay, learning_starts=replay,
        train_freq=1, gradient_steps=ENVS // _FREQ, device="cpu", **_COMMON,
    )  # fmt: skip
    return (
        lambda steps: model.learn(steps, log_interval=None, reset_num_timesteps=False),
        lambda: (model.num_timesteps, model._n_updates),
    )


def loop(replay: int, make: Any = None, **variant: Any) -> Learner:
    """A PyTorch loop; make: its class, by default that of torch_dqn.py."""
    torch_dqn = example("torch_dqn")
    args = torch_dqn.Args(
        num_envs=ENVS, num_threads=THREADS, buffer_size=replay, learning_starts=replay, learning_rate=1e-4, batch_size=BATCH,
        train_frequency=_FREQ, target_network_frequency=1000, start_e=0.1, end_e=0.1, max_grad_norm=10.0, **variant,
    )  # fmt: skip
    made = (make or torch_dqn.Loop)(args)
    return made.train, lambda: (made.steps, made.updates)


def contender(name: str, make: Any, replay: int, **keywords: Any) -> Contender:
    """A contender with a full replay memory, after a warm-up."""
    return Contender(name, make, (replay, 10 * ENVS), replay=replay, **keywords)


def trials(steps: int, make: Any, variants: dict[str, dict[str, Any]]) -> dict[str, float]:
    """The steps/s of every variant of a loop: medians of short turns, with a small replay memory to fit many."""
    with contextlib.ExitStack() as stack:
        made = (contender(name, make, 250 * ENVS, **variant) for name, variant in variants.items())
        running = [stack.enter_context(contextlib.closing(one)) for one in made]
        for _ in range(5):
            for one in running:
                one.turn(steps // 5)
    return {one.name: statistics.median(one.rates) for one in running}


def measure(steps: int, rounds: int, replay: int, others: bool = True) -> dict[str, Any]:
    """Measures and returns the report. others: whether to measure other installed libraries."""
    missing = [name for name in ("torch", "stable_baselines3") if others and importlib.util.find_spec(name) is None]
    measured: list[dict[str, float]] = []
    tried: dict[str, float] = {}
    rivals: dict[str, str] = {}  # the variant of the loop that each precision is compared with
    with contextlib.ExitStack() as stack:

        def start(name: str, make: Any, **keywords: Any) -> Contender:
            return stack.enter_context(contextlib.closing(contender(name, make, replay, **keywords)))

        running = [start(_OURS + precision, ours, precision=precision) for precision in ("fp32", "bf16")]
        running.append(start(_CALLBACK, ours, precision="fp32", callback=True))
        if others and not missing:
            running.append(start(_SB3, _sb3))
        if others and "torch" not in missing:
            tried = trials(steps, loop, _VARIANTS)
            fp32 = [name for name in tried if _VARIANTS[name]["precision"] == "fp32"]
            rivals = {precision: max(names, key=tried.__getitem__) for precision, names in (("fp32", fp32), ("bf16", [*tried]))}
            running += [start(name, loop, **_VARIANTS[name]) for name in dict.fromkeys(rivals.values())]
        for _ in range(rounds):
            measured.append(peaks(THREADS))
            for one in running:
                one.turn(steps)
    results = [one.described() for one in running]
    return {
        "num_envs": ENVS, "threads": THREADS, "batch": BATCH, "replay": replay, "steps_a_turn": steps, "rounds": rounds,
        "peak_gflops": {name: statistics.median(peak[name] for peak in measured) for name in measured[0]},
        "left_out": [name.replace("_", "-") for name in missing], "trials": tried, "results": results,
        "equal_work": equal_work(results),
        "ratio": ratios({r["name"]: r["turns"] for r in results}, rivals),
    }  # fmt: skip


def equal_work(results: list[dict[str, Any]]) -> bool:
    """Whether every contender did the updates of its steps."""
    return all(abs(r["updates_per_step"] / _DUE - 1) <= 0.01 for r in results)


def ratios(turns: dict[str, list[float]], loops: dict[str, str]) -> dict[str, float]:
    """The library's rates over the others', medians of the turns' ratios.

    loops: the variant of the loop that each precision is compared with.
    """
    pairs = {"train_w8_fp32_callback": (_CALLBACK, _OURS + "fp32")}
    for precision in ("fp32", "bf16"):
        pairs[f"train_w8_{precision}_vs_sb3"] = (_OURS + precision, _SB3)
        pairs[f"train_w8_{precision}_vs_torch_loop"] = (_OURS + precision, loops.get(precision, ""))
    return median_ratios(turns, pairs)


def text(report: dict[str, Any]) -> str:
    """The report as a table."""
    peak = ", ".join(f"{value:,.0f} in {name}" for name, value in report["peak_gflops"].items())
    lines = [
        f"Pong, {ENVS} environments, {THREADS} threads, batch {BATCH}; medians of {report['rounds']} turns",
        f"peak GFLOP/s: {peak}",
        "",
        *table(report["results"]),
    ]
    lines += [f"{name} when it was tried: {rate:,.0f}" for name, rate in report["trials"].items()]
    lines += [f"left out: {name} is not installed" for name in report["left_out"]]
    if not report["equal_work"]:
        lines.append(f"NOT equal work: updates a step must be within 1 % of {_DUE}")
    return "\n".join([*lines, "", *(f"{name:<40}{value:>9.2f}" for name, value in report["ratio"].items())])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=2000, help="steps of each turn (default 2000)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default 5)")
    parser.add_argument("--replay", type=int, default=20_000, help="transitions in the replay memory (default 20000)")
    parser.add_argument("--no-torch", action="store_true", help="measure paceline alone")


def check(args: argparse.Namespace) -> None:
    """Raises PacelineError for a bad option of add_arguments."""
    if args.rounds < 1:
        raise PacelineError(f"--rounds: {args.rounds}, must be at least 1")
    for name, value, least in (("steps", args.steps, ENVS), ("replay", args.replay, BATCH)):
        if value < least or value % ENVS:
            raise PacelineError(f"--{name}: {value}, must be at least {least} and a multiple of {ENVS}")


def print_report(args: argparse.Namespace) -> None:
    check(args)
    report = measure(args.steps, args.rounds, args.replay, not args.no_torch)
    print(json.dumps(report) if args.json else text(report))


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
