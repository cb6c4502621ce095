"""`paceline bench update`: minibatch updates and acting, compared with PyTorch, on the CPU or on a GPU."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .._files import output
from ..errors import PacelineError
from ._update_gpu import PRECISIONS, contender, gpu_ratios, gpu_text

# Trials in each round, of the library and of each kind of PyTorch's work.
TRIALS = 3

Key = tuple[str, int, str, int]  # work, batch, precision or kind, threads


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=10, help="turns of paceline and of PyTorch (default 10)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1 ... (default cpu), for paceline and for PyTorch")
    parser.add_argument("--batch", type=int, default=32, help="rows of a minibatch (default 32)")
    parser.add_argument("--row", type=int, default=1000, help="updates in a row for the mean on a GPU (default 1000)")
    parser.add_argument("--precisions", type=precisions, help="comma-separated, fp32, tf32 (a GPU's) or bf16 (default all of the device)")
    parser.add_argument("--no-torch", action="store_true", help="measure paceline alone")
    parser.add_argument("--out", type=Path, help="a file for the report as JSON, rewritten after each round")


def precisions(text: str) -> list[str]:
    """Parses precisions, such as "fp32,tf32"."""
    names = text.split(",")
    if not set(names) <= {*PRECISIONS}:
        raise argparse.ArgumentTypeError(f"{text!r}, must be fp32, tf32 or bf16 with commas between them")
    return names


def main(args: argparse.Namespace) -> None:
    """Runs the command."""
    for name in ("rounds", "batch", "row"):
        if getattr(args, name) < 1:
            raise PacelineError(f"--{name}: {getattr(args, name)}, must be at least 1")
    torch: Any = None
    why = "--no-torch"
    if args.device != "cpu":
        check(args.device)
        if not args.no_torch:
            torch, why = contender(args.device, args.batch, args.row, TRIALS, args.precisions)
    elif not args.no_torch:
        with contextlib.suppress(ImportError):
            torch = Torch(args.batch)
    report: dict[str, Any] = {}
    for report in measured(args.rounds, torch, args.device, args.batch, args.row, why, args.precisions):
        if args.out:
            with output(args.out) as path:
                path.write_text(json.dumps(report))
    print(json.dumps(report) if args.json else text(report))


def check(device: str) -> None:
    """Raises an error for a missing device before PyTorch compiles for it."""
    from . import run

    run("update", {"device": device, "batch": 1, "act": [], "precisions": [], "trials": 1})


def measure(
    rounds: int, torch: Any, device: str = "cpu", batch: int = 32, row: int = 1000, torch_left_out: str = "",
    precisions: list[str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The report of all rounds: medians and their ratios."""
    return list(measured(rounds, torch, device, batch, row, torch_left_out, precisions))[-1]


def measured(
    rounds: int, torch: Any, device: str = "cpu", batch: int = 32, row: int = 1000, torch_left_out: str = "",
    precisions: list[str] | None = None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yields the report of all rounds so far after each round."""
    from . import run

    ours: dict[Key, dict[str, Any]] = {}
    theirs: dict[Key, list[float]] = {}
    threads: list[int] = []
    options: dict[str, Any] = {"trials": TRIALS, "batch": batch} | ({} if device == "cpu" else {"device": device, "row": row})
    if precisions is not None:
        options["precisions"] = precisions
    part: dict[str, Any] = {}
    for done in range(1, rounds + 1):
        part = run("update", options)
        for r in part["results"]:
            key = (r["work"], r["batch"], r["precision"], r["threads"])
            mine = ours.setdefault(key, r | {"ms": [], "peak_gflops": []})
            mine["ms"] += r["ms"]
            mine["peak_gflops"] += r["peak_gflops"] or []
        threads = sorted({key[3] for key in ours})
        if torch is not None:
            for n in threads:
                for (work, rows, kind), ms in torch.turn(n).items():
                    theirs.setdefault((work, rows, kind, n), []).extend(ms)
        report: dict[str, Any] = {
            "isa": part["isa"], "device": part["device"], "batch": batch, "row": part["row"], "enqueued": part["enqueued"],
            "rounds": done, "torch": None,
            "torch_left_out": torch_left_out, "ours": [], "theirs": [], "ratio": {},
        }  # fmt: skip
        if torch is not None:
            report["torch"] = {"version": torch.version, "left_out": torch.left_out}
            report["torch_left_out"] = ""
        for key, r in ours.items():
            ms = statistics.median(r["ms"])
            line = dict(zip(("work", "batch", "precision", "threads"), key)) | {"ms": ms}
            if r["flop"]:
                line |= {"gflops": r["flop"] / ms / 1e6, "gflops_done": r["flop_done"] / ms / 1e6}
            if r["flop"] and r["peak_gflops"]:
                peak = statistics.median(r["peak_gflops"])
                line |= {"peak_gflops": peak, "of_peak": line["gflops"] / peak, "done_of_peak": line["gflops_done"] / peak}
            report["ours"].append(line)
        for key, times in theirs.items():
            report["theirs"].append(dict(zip(("work", "batch", "kind", "threads"), key)) | {"ms": statistics.median(times)})
        report["ratio"] = _ratios(report) if report["device"] == "cpu" else gpu_ratios(report)
        yield report


def _ratios(report: dict[str, Any]) -> dict[str, float]:
    """Speedups over PyTorch; above 1 the library is faster.

    NAME_of_peak: the library's rate over the peak, by textbook operations and by the operations
    done.
    """
    ratio: dict[str, float] = {}
    ours = {(r["work"], r["batch"], r["precision"], r["threads"]): r for r in report["ours"]}
    theirs = {(r["work"], r["batch"], r["kind"], r["threads"]): r["ms"] for r in report["theirs"]}

    def name(work: str, batch: int, precision: str, threads: int) -> str:
        if work == "update":
            return f"update_{precision}_{threads}t"
        return f"act_b{batch}" + ("" if precision == "fp32" else f"_{precision}") + ("" if threads == 1 else f"_{threads}t")

    for (work, batch, precision, threads), r in ours.items():
        if work == "sample":
            update = ours["update", batch, precision, threads]
            ratio[f"sample_of_{name('update', batch, precision, threads)}"] = r["ms"] / update["ms"]
            continue
        label = name(work, batch, precision, threads)
        ratio[f"{label}_of_peak"] = r["of_peak"]
        ratio[f"{label}_done_of_peak"] = r["done_of_peak"]
        one = ours.get((work, batch, precision, 1))
        if threads > 1 and one:
            ratio[f"{label}_vs_1t"] = one["ms"] / r["ms"]
        for (w, b, kind, n), ms in theirs.items():
            if (w, b, n) == (work, batch, threads):
                ratio[f"{label}_vs_torch" + ("" if kind == "fp32" else f"_{kind}")] = ms / r["ms"]
    return ratio


def text(report: dict[str, Any]) -> str:
    """The report as tables."""
    if report["device"] != "cpu":
        return gpu_text(report, TRIALS)
    lines = [
        f"Nature CNN, 6 actions, {report['isa']}; medians of {report['rounds'] * TRIALS} trials, taken in turns",
        "",
        f"{'':<14}{'precision':<10}{'threads':>7}{'ms':>9}{'GFLOP/s':>9}{'peak':>7}{'of peak':>9}{'done':>7}",
    ]
    for r in report["ours"]:
        work = f"{r['work']} {r['batch']}"
        if r["work"] == "sample":
            lines.append(f"{work:<14}{'':<10}{r['threads']:>7}{r['ms']:>9.2f}")
            continue
        lines.append(
            f"{work:<14}{r['precision']:<10}{r['threads']:>7}{r['ms']:>9.2f}{r['gflops']:>9.0f}{r['peak_gflops']:>7.0f}"
            f"{r['of_peak']:>9.2f}{r['done_of_peak']:>7.2f}"
        )
    lines += [
        "",
        "GFLOP/s: the operations of textbook convolutions. done: the share of the peak by the operations done;",
        "Winograd convolutions do fewer. peak: multiply-adds on registers, in bursts between the trials.",
    ]
    if report["theirs"]:
        lines += ["", f"PyTorch {report['torch']['version']}", f"{'':<14}{'kind':<15}{'threads':>7}{'ms':>9}   paceline faster by"]
        for r in report["theirs"]:
            same = [o for o in report["ours"] if all(o[key] == r[key] for key in ("work", "batch", "threads"))]
            lines.append(
                f"{r['work'] + ' ' + str(r['batch']):<14}{r['kind']:<15}{r['threads']:>7}{r['ms']:>9.2f}   "
                + ", ".join(f"{r['ms'] / o['ms']:.2f} ({o['precision']})" for o in same)
            )
        lines += [f"left out: {what}" for what in report["torch"]["left_out"]]
    else:
        lines.append("PyTorch: not installed or left out; pip install torch adds the comparison")
    return "\n".join(lines)


class Torch:
    """The work of an update of stable-baselines3's DQN in PyTorch: network, loss, gradient norm and Adam.

    Kinds: "fp32"; "bf16", under autocast; "compiled" and "compiled_bf16", with both passes through
    torch.compile if it runs on this machine.
    """

    def __init__(self, batch: int = 32, act: tuple[int, ...] = (1, 8, 32)) -> None:
        import torch

        self.torch: Any = torch
        self.version: str = torch.__version__
        self.batch, self.act = batch, act
        self.left_out: list[str] = []
        self.online, self.target = self._network(), self._network()
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=1e-4)
        most = max(batch, *act)
        self.obs = torch.randint(0, 256, (most, 4, 84, 84), dtype=torch.uint8)
        self.next_obs = torch.randint(0, 256, (batch, 4, 84, 84), dtype=torch.uint8)
        self.actions = torch.randint(0, 6, (batch, 1))
        self.rewards, self.dones = torch.randn(batch, 1), torch.zeros(batch, 1)
        self.kinds: dict[str, tuple[Any, Any, bool]] = {
            "fp32": (self.online, self.target, False),
            "bf16": (self.online, self.target, True),
        }
        for kind, autocast in (("compiled", False), ("compiled_bf16", True)):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self.kinds[kind] = (torch.compile(self.online), torch.compile(self.target), autocast)
                    self._update(kind)
            except Exception as error:  # no compiler, or a platform that torch.compile does not support
                self.kinds.pop(kind, None)
                why = str(error).strip().splitlines() or [type(error).__name__]
                self.left_out.append(f"torch.compile ({kind}): {why[0][:120]}")

    def _network(self) -> Any:
        nn = self.torch.nn
        return nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6),
        )  # fmt: skip

    def _update(self, kind: str) -> None:
        torch = self.torch
        online, target, autocast = self.kinds[kind]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            with torch.no_grad():
                values, _ = target(self.next_obs.float() / 255.0).max(dim=1)
                y = self.rewards + (1 - self.dones) * 0.99 * values.reshape(-1, 1).float()
            q = torch.gather(online(self.obs[: self.batch].float() / 255.0), dim=1, index=self.actions)
            loss = torch.nn.functional.smooth_l1_loss(q.float(), y)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.online.parameters(), 10)
        self.optimizer.step()

    def _act(self, kind: str, rows: int) -> None:
        torch = self.torch
        online, _, autocast = self.kinds[kind]
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            online(self.obs[:rows].float() / 255.0).argmax(dim=1).reshape(-1)

    def turn(self, threads: int) -> dict[tuple[str, int, str], list[float]]:
        """The times of TRIALS trials of each kind, in milliseconds."""
        self.torch.set_num_threads(threads)
        times: dict[tuple[str, int, str], list[float]] = {}
        for kind in self.kinds:
            works: list[tuple[str, int, Callable[[], None]]] = [("update", self.batch, functools.partial(self._update, kind))]
            if not kind.startswith("compiled"):  # compiled kinds would compile again for every number of rows
                works += [("act", rows, functools.partial(self._act, kind, rows)) for rows in self.act]
            for work, batch, call in works:
                call()  # the first call after a change is slower
                times[work, batch, kind] = [_milliseconds(call) for _ in range(TRIALS)]
        time.sleep(0.01)  # PyTorch's threads spin for a while after their work
        return times


def _milliseconds(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3
