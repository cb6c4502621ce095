"""Measurements: `paceline bench table1 | modes | update | ffi | train | onpolicy | emulator | envs | pong`."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .. import _lib
from .._arguments import autoreset_metadata
from ..errors import PacelineError, PacelineWarning
from . import emulator, envs, ffi, onpolicy, table1, train, update
from .envs import numbers

# (label, concurrent, synchronized), as in the paper's table 1.
MODES = [
    ("standard", False, False),
    ("concurrent", True, False),
    ("synchronized", False, True),
    ("both", True, True),
]


def add_commands(parser: argparse.ArgumentParser) -> None:
    """The sub-commands of `paceline bench`."""
    parser.set_defaults(bench=lambda args: parser.print_help())
    commands = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK")

    def command(name: str, run: Callable[[argparse.Namespace], None], help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(bench=run)
        sub.add_argument("--json", action="store_true", help="print the numbers as JSON")
        return sub

    sub = command("table1", table1.main, "the paper's Table 1: hours of the four modes on Pong by threads, and what concurrency can gain")
    table1.add_arguments(sub)

    sub = command("modes", _modes, "steps/s of the four modes on a built-in environment")
    sub.add_argument("--env", default="Catch-v0")
    sub.add_argument("--num-envs", type=numbers, help="comma-separated (default 1,8, and 8 with --step-ms)")
    sub.add_argument(
        "--step-ms", type=milliseconds, metavar="MS,...", help="steps that cost so many milliseconds more, as waits and as loops that "
        "compute, such as 0,0.5,2,5,20; beside each cell the limit that follows from the parts measured around it",
    )  # fmt: skip
    sub.add_argument("--num-threads", type=int, default=0, help="threads that compute at any time (default: one per core)")
    sub.add_argument("--steps", type=int, default=2000, help="steps measured for each cell (default 2000)")
    sub.add_argument("--trials", type=int, default=1)

    sub = command("update", update.main, "milliseconds of minibatch updates and of acting, beside the processor's peak and PyTorch")
    update.add_arguments(sub)

    sub = command("ffi", ffi.main, "microseconds of calls of the library from C, C++ and Python")
    ffi.add_arguments(sub)

    sub = command("train", train.main, "steps/s while training on Pong, ours, stable-baselines3's and a loop's of PyTorch, in turns")
    train.add_arguments(sub)

    sub = command(
        "onpolicy", onpolicy.main, "steps/s of PPO, PQN and A2C on Pong, ours, stable-baselines3's and a loop's of PyTorch, in turns"
    )
    onpolicy.add_arguments(sub)

    sub = command("emulator", emulator.main, "emulated Atari frames/s for each game, ours and ale-py's")
    emulator.add_arguments(sub)

    sub = command("envs", envs.main, "steps/s of vector environments of Atari games, ours, EnvPool's, ale-py's and Gymnasium's")
    envs.add_arguments(sub)

    sub = command("pong", _pong, "steps/s while training on Atari Pong, the four modes")
    sub.add_argument("--num-envs", type=numbers, default="1,8", help="comma-separated (default 1,8)")
    sub.add_argument("--steps", type=int, default=2000, help="steps measured for each cell (default 2000)")
    sub.add_argument("--ale-py", action="store_true", help="games stepped from Python through ale-py, not by the library")
    sub.add_argument("--sb3", action="store_true", help="stable-baselines3's DQN on ale-py's games as well, same batch and ratio")


def run(name: str, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs one of the library's own benchmarks and returns its report."""
    text = None if options is None else json.dumps(options).encode()
    return dict(_lib.take_json(_lib.lib().paceline_bench, _lib.encode(name), text))


def milliseconds(text: str) -> list[float]:
    """0,0.5,2 of the command line."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0 <= v <= 1000 for v in values):
        raise argparse.ArgumentTypeError(f"{text!r}, must be numbers of 0 to 1000 with commas between them")
    return values


def _modes(args: argparse.Namespace) -> None:
    args.num_envs = args.num_envs or ([8] if args.step_ms else [1, 8])
    options = {name: getattr(args, name) for name in ("env", "num_envs", "num_threads", "steps", "trials")}
    report = run("modes", options | ({"step_ms": args.step_ms} if args.step_ms else {}))
    print(json.dumps(report, indent=2) if args.json else (steps_table if args.step_ms else modes_table)(report))


def steps_table(report: dict[str, Any]) -> str:
    """The report of the benchmark "modes" with step_ms: a table for each kind of cost and number of environments."""
    titles = {"wait": "a step that waits, and says so", "busy": "a step that computes"}
    results, blocks = report["results"], []
    for w in sorted({r["num_envs"] for r in results}):
        for kind, title in titles.items():
            cells = {(r["mode"], r["step_ms"]): r for r in results if (r["kind"], r["num_envs"]) == (kind, w)}
            costs = sorted({cost for _, cost in cells})
            lines = [f"{title}, W={w}", " " * 12 + "".join(f"  {f'{cost:g} ms':>20}" for cost in costs)]
            for label, _, _ in MODES:
                row = [cells[label, cost] for cost in costs]
                texts = [f"{r['median']:,.0f} of {r['limit']:,.0f} {r['share']:4.0%}" for r in row]
                lines.append(f"{label:<12}" + "".join(f"  {text:>20}" for text in texts))
            both = [cells["both", cost] for cost in costs]
            texts = [f"{r['vs_standard']:.2f} of {r['limit_vs_standard']:.2f}" for r in both]
            lines.append(f"{'both/std':<12}" + "".join(f"  {text:>20}" for text in texts))
            blocks.append("\n".join(lines))
    title = f"{report['env']}, steps/s while training, of what the measured parts allow, {report['threads']} threads, {report['isa']}"
    return "\n\n".join([title, *blocks, report["settings"]])


def modes_table(report: dict[str, Any]) -> str:
    """The report of the benchmark "modes" as a table of modes by num_envs."""
    results = report["results"]
    columns = sorted({r["num_envs"] for r in results})
    cells = {(r["mode"], r["num_envs"]): f"{r['median']:,.0f}" for r in results}
    title = f"{report['env']}, steps/s while training, {report['threads']} threads, {report['isa']}"
    return table(title, columns, cells, [label for label, _, _ in MODES], report["settings"])


def table(title: str, columns: list[int], cells: dict[tuple[str, int], str], labels: list[str], notes: str = "") -> str:
    """Rows of labels, one column for each number of environments."""
    width = max(len(label) for label in labels)
    lines = [title, " " * width + "".join(f"  {'W=' + str(w):>10}" for w in columns)]
    lines += [f"{label:<{width}}" + "".join(f"  {cells.get((label, w), '-'):>10}" for w in columns) for label in labels]
    return "\n".join(lines + ([notes] if notes else []))


# -------------------------------------------------------------------- Pong


def atari(game: str, num_envs: int, same_step: bool = False) -> Any:
    """ale-py's vector environment, or one sentence if ale-py is not there."""
    try:
        from ale_py.vector_env import AtariVectorEnv
    except ImportError:
        raise PacelineError("ale-py is not installed: pip install 'paceline[atari]'") from None
    mode = autoreset_metadata("same_step" if same_step else "next_step")
    return AtariVectorEnv(game, num_envs=num_envs, autoreset_mode=mode)


def _pong(args: argparse.Namespace) -> None:
    cells = {(label, w): rate for label, w, rate in measure_pong(args.num_envs, args.steps, args.sb3, args.ale_py)}
    by = "ale-py" if args.ale_py else "paceline"
    if args.json:
        rows = [{"mode": label, "num_envs": w, "steps_per_second": rate, "stepped_by": by} for (label, w), rate in cells.items()]
        print(json.dumps(rows))
        return
    labels = [label for label, _, _ in MODES] + (["stable-baselines3"] if args.sb3 else [])
    texts = {key: f"{rate:,.0f}" for key, rate in cells.items()}
    notes = f"Nature CNN, batch 32, one update per 4 steps, {args.steps} steps a cell after a warm-up of 1,000."
    if args.ale_py:
        notes = "Environments stepped by Python in one vector call: synchronized changes only how Q-values are computed.\n" + notes
    elif args.sb3:
        notes = "stable-baselines3's environments are ale-py's.\n" + notes
    print(table(f"Pong stepped by {by}, steps/s while training", args.num_envs, texts, labels, notes))


def measure_pong(columns: list[int], steps: int, sb3: bool = False, ale_py: bool = False) -> Iterator[tuple[str, int, float]]:
    """(mode, num_envs, steps/s), one cell after the other."""
    from ..dqn import DQN

    for w in columns:
        for label, concurrent, synchronized in MODES:
            env: Any = atari("pong", w) if ale_py else "Pong"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PacelineWarning)
                with DQN(
                    "CnnPolicy", env, num_envs=w, buffer_size=20_000, learning_starts=1000, target_update_interval=1000,
                    window=1000, concurrent=concurrent, synchronized=synchronized, seed=1, device="cpu",
                ) as model:  # fmt: skip
                    model.learn(1000 + w, log_interval=None)
                    yield label, w, _rate(lambda: model.learn(steps, log_interval=None, reset_num_timesteps=False), steps)
            if ale_py:
                env.close()
        if sb3:
            yield "stable-baselines3", w, _measure_sb3(w, steps)


def _rate(learn: Callable[[], Any], steps: int) -> float:
    began = time.perf_counter()
    learn()
    return steps / (time.perf_counter() - began)


def _measure_sb3(w: int, steps: int) -> float:
    try:
        import stable_baselines3
    except ImportError:
        raise PacelineError("stable-baselines3 is not installed: pip install 'paceline[sb3]'") from None
    from ..compat.sb3 import VecEnv

    # One update per 4 steps, whatever the number of environments.
    ratio: dict[str, Any] = {"train_freq": 4, "gradient_steps": 1} if w < 4 else {"train_freq": 1, "gradient_steps": w // 4}
    env = VecEnv(atari("pong", w, same_step=True))
    model: Any = stable_baselines3.DQN(
        "CnnPolicy", env, buffer_size=20_000, learning_starts=1000, target_update_interval=max(1, 1000 // w), seed=1, **ratio
    )
    model.learn(1000, log_interval=None)
    rate = _rate(lambda: model.learn(steps, log_interval=None, reset_num_timesteps=False), steps)
    env.close()
    return rate
