"""`paceline bench update --device cuda`: PyTorch's measurements on a GPU, and the report.

"update" is one update and a wait for it. "row" is the mean of many updates in a row, for which
PyTorch waits once. PyTorch's batch is on the GPU before the clock runs.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

PRECISIONS = ("fp32", "tf32", "bf16")
_WARM_UP = 3  # updates before a capture, in which libraries allocate their buffers
_TITLES = {"update": "one update, and a wait for it", "row": "of {row:,} updates in a row", "sample": "drawing a batch, on the host"}

Key = tuple[str, int, str]  # work, batch, kind


def contender(device: str, batch: int, row: int, trials: int, precisions: Sequence[str] | None = None) -> tuple[TorchGPU | None, str]:
    """(PyTorch's measurements, "") or (None, the reason why they are left out)."""
    try:
        import torch
    except ImportError:
        return None, "PyTorch is not installed"
    if not torch.cuda.is_available():
        return None, f"PyTorch {torch.__version__} finds no GPU"
    try:
        return TorchGPU(torch, device, batch, row, trials, precisions=precisions or PRECISIONS), ""
    except RuntimeError as error:
        return None, first_line(error)


class TorchGPU:
    """The update of Torch in update.py, in three kinds for each precision.

    "eager". "graph": captured in a CUDA graph, which is replayed. "compiled graph": the whole
    update, optimiser included, compiled by torch.compile and then captured, as LeanRL does.
    left_out has the kinds that do not run on this machine, with the reason.
    """

    def __init__(
        self, torch: Any, device: str, batch: int, row: int, trials: int, act: tuple[int, ...] = (1, 8, 32),
        precisions: Sequence[str] = PRECISIONS,
    ) -> None:  # fmt: skip
        self.torch = torch
        self.version: str = torch.__version__
        self.device = torch.device(device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device.index or 0)  # captures use the current device's streams
        self.batch, self.row, self.trials, self.act = batch, row, trials, act
        self.left_out: list[str] = []
        most = max(batch, *act)
        self.host = torch.randint(0, 256, (most, 4, 84, 84), dtype=torch.uint8)
        if self.device.type == "cuda":
            self.host = self.host.pin_memory()
        self.obs = self.host[:batch].to(self.device)
        self.next_obs = torch.randint(0, 256, (batch, 4, 84, 84), dtype=torch.uint8, device=self.device)
        self.actions = torch.randint(0, 6, (batch, 1), device=self.device)
        self.rewards, self.dones = torch.randn(batch, 1, device=self.device), torch.zeros(batch, 1, device=self.device)
        self.updates: dict[str, tuple[str, Callable[[], Any]]] = {}  # kind: (precision, a function that enqueues one update)
        self.networks: dict[str, Any] = {}
        for precision in precisions:
            for how, make in (("eager", self._eager), ("graph", self._graph), ("compiled graph", self._compiled)):
                kind = f"{precision} {how}"
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        self._use(precision)
                        update = make(precision)
                        self._timed(update, 1)
                    self.updates[kind] = precision, update
                except Exception as error:  # no compiler, or a library that does not support capture
                    self.left_out.append(f"{kind}: {first_line(error)}")

    def _use(self, precision: str) -> None:
        """Sets the precision of products for the process; captured graphs keep theirs."""
        self.torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
        self.torch.backends.cudnn.allow_tf32 = precision != "fp32"

    def _autocast(self, precision: str) -> Any:
        # autocast's cache of weights must not outlive a capture.
        torch = self.torch
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=precision == "bf16", cache_enabled=False)

    def _network(self) -> Any:
        nn = self.torch.nn
        return nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6),
        ).to(self.device)  # fmt: skip

    def _eager(self, precision: str) -> Callable[[], Any]:
        torch, online, target = self.torch, self._network(), self._network()
        self.networks[precision] = online
        # capturable puts the step counter on the GPU, which a captured step needs.
        optimizer = torch.optim.Adam(online.parameters(), lr=1e-4, capturable=self.device.type == "cuda")

        def update() -> None:
            optimizer.zero_grad(set_to_none=True)
            with self._autocast(precision):
                with torch.no_grad():
                    values, _ = target(self.next_obs.float() / 255.0).max(dim=1)
                    y = self.rewards + (1 - self.dones) * 0.99 * values.reshape(-1, 1).float()
                q = torch.gather(online(self.obs.float() / 255.0), dim=1, index=self.actions)
                loss = torch.nn.functional.smooth_l1_loss(q.float(), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(online.parameters(), 10)
            optimizer.step()

        return update

    def _graph(self, precision: str) -> Callable[[], Any]:
        return self._captured(self._eager(precision))

    def _compiled(self, precision: str) -> Callable[[], Any]:
        return self._captured(self.torch.compile(self._eager(precision)))

    def _captured(self, update: Callable[[], Any]) -> Callable[[], Any]:
        torch = self.torch
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                update()
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            update()

        def replay(update: Callable[[], Any] = update) -> None:  # the default keeps update's tensors alive, which the graph uses
            graph.replay()

        return replay

    def _forward(self, precision: str, rows: int) -> None:
        torch = self.torch
        with torch.no_grad(), self._autocast(precision):
            obs = self.host[:rows].to(self.device, non_blocking=True)
            self.networks[precision](obs.float() / 255.0).argmax(dim=1).cpu()

    def _timed(self, call: Callable[[], Any], times: int) -> float:
        """Milliseconds of one call: the mean of `times` calls with one wait at the end."""
        wait = self.torch.cuda.synchronize if self.device.type == "cuda" else lambda device: None
        wait(self.device)
        began = time.perf_counter()
        for _ in range(times):
            call()
        wait(self.device)
        return (time.perf_counter() - began) * 1e3 / times

    def turn(self, threads: int) -> dict[Key, list[float]]:
        """The times of all trials in milliseconds, with one host thread."""
        self.torch.set_num_threads(threads)
        times: dict[Key, list[float]] = {}
        for kind, (precision, update) in self.updates.items():
            self._use(precision)
            works = [("update", self.batch, update, 1), ("row", self.batch, update, self.row)]
            if kind.endswith(" eager"):
                works += [("act", rows, functools.partial(self._forward, precision, rows), 1) for rows in self.act]
            for work, batch, call, in_a_row in works:
                if in_a_row > 0:
                    self._timed(call, 1)  # the first call after a change is slower
                    times[work, batch, kind] = [self._timed(call, in_a_row) for _ in range(self.trials)]
        return times


def first_line(error: Exception) -> str:
    """The first line of an error's message, shortened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]


def gpu_ratios(report: dict[str, Any]) -> dict[str, float]:
    """Speedups over PyTorch in the same precision; above 1 the library is faster."""
    theirs = {(r["work"], r["batch"], r["kind"]): r["ms"] for r in report["theirs"]}
    found = {}
    for ours in report["ours"]:
        for (work, batch, kind), ms in theirs.items():
            precision, how = kind.split(" ", 1)
            if (work, batch, precision) == (ours["work"], ours["batch"], ours["precision"]):
                name = f"act_b{batch}" if work == "act" else work
                found[f"{name}_{precision}_vs_torch_{how.replace(' ', '_')}"] = ms / ours["ms"]
    return found


def gpu_text(report: dict[str, Any], trials: int) -> str:
    """The report as a table."""
    lines = [
        f"Nature CNN, 6 actions, batch {report['batch']}, {report['device']}; "
        f"medians of {report['rounds'] * trials} trials, taken in turns",
        "",
        f"{'':<34}{'precision':<10}{'ms':>9}{'TFLOP/s':>9}   faster than PyTorch by",
    ]
    for r in report["ours"]:
        work = _TITLES.get(r["work"], f"acting, {r['batch']} rows").format(row=report["row"])
        if r["work"] == "sample":
            lines.append(f"{work:<34}{'':<10}{r['ms']:>9.4f}")
            continue
        same = {
            t["kind"].split(" ", 1)[1]: t["ms"] for t in report["theirs"]
            if (t["work"], t["batch"], t["kind"].split(" ", 1)[0]) == (r["work"], r["batch"], r["precision"])
        }  # fmt: skip
        by = ", ".join(f"{ms / r['ms']:.2f} ({how})" for how, ms in same.items())
        lines.append(f"{work:<34}{r['precision']:<10}{r['ms']:>9.4f}{r['gflops'] / 1e3:>9.2f}   {by}".rstrip())
    lines += [
        "",
        "TFLOP/s: the operations of textbook convolutions. One update uploads its batch; PyTorch's batch is already in GPU memory.",
        f"In a row, paceline gathers minibatches in GPU memory and waits after {report['enqueued'] or 1} updates, PyTorch once.",
    ]
    if report["theirs"]:
        lines += ["", f"PyTorch {report['torch']['version']}", f"{'':<34}{'kind':<20}{'ms':>9}"]
        for r in report["theirs"]:
            work = _TITLES.get(r["work"], f"acting, {r['batch']} rows").format(row=report["row"])
            lines.append(f"{work:<34}{r['kind']:<20}{r['ms']:>9.4f}")
        lines += [f"left out: PyTorch, {what}" for what in report["torch"]["left_out"]]
    else:
        lines.append(f"left out: PyTorch: {report['torch_left_out']}")
    return "\n".join(lines)
