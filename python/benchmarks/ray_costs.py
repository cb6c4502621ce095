"""The costs of Ray for `paceline bench gorila --costs`, measured on this machine: python python/benchmarks/ray_costs.py

Two actors and NumPy arrays stand for a shard, a keeper and what they exchange. One call to a shard
has a part of a gradient. Its answer has the shard's parameters, or a reference to them above Ray's
limit for answers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import _cluster
from _command import command

INLINE = 102_400  # bytes; paceline.distributed's default
# Bytes of an array: two that travel in messages, and objects: a part of 31, 16 and 4 of the Nature CNN, and all of it.
SIZES = (64, 100_000, 220_000, 420_000, 1_700_000, 6_750_000)


class Shard:
    """Answers as a shard does, without a gradient step."""

    def __init__(self) -> None:
        self.puts: list[float] = []  # seconds by the clock
        self.worked = 0.0  # processor seconds of puts
        self.began = 0.0

    def visit(self, gradient: Any, head: tuple[Any, ...]) -> Any:
        import ray

        gradient[::1024].sum()  # the optimiser reads every page
        version = gradient.copy()
        began, worked = time.perf_counter(), time.thread_time()
        answer = version if version.nbytes <= INLINE else ray.put(version)
        self.worked += time.thread_time() - worked
        self.puts.append(time.perf_counter() - began)
        return (*head, answer)

    def begin(self) -> None:
        self.puts, self.worked, self.began = [], 0.0, time.thread_time()

    def took(self) -> tuple[float, list[float]]:
        """Processor seconds since begin of the thread that serves calls, without puts, and the seconds of each put."""
        return time.thread_time() - self.began - self.worked, self.puts

    def send(self, keeper: Any, array: Any) -> None:
        import ray

        keeper.keep.remote(ray.put(array.tobytes()))


class Keeper:
    """Keeps a copy."""

    def __init__(self) -> None:
        self.copy = b""

    def keep(self, state: bytes) -> int:
        self.copy = bytes(state)
        return len(state)

    def clock(self) -> float:
        return time.thread_time()


def processes(root: int) -> Iterator[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        children.setdefault(parent, []).append(int(name))
    left = [root]
    while left:
        yield (at := left.pop())
        left += children.get(at, [])


def _worked(path: str) -> float:
    """Seconds that cores have worked for a process or thread; 0 for one that has ended."""
    try:
        with open(f"/proc/{path}/stat", encoding="utf-8") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def core_seconds() -> float:
    """Seconds that all cores have worked for this process and its descendants."""
    return sum(_worked(str(pid)) for pid in processes(os.getpid()))


def thread_seconds() -> dict[str, float]:
    """Seconds that all cores have worked for each thread of this process and its descendants."""
    seconds: dict[str, float] = {}
    for pid in processes(os.getpid()):
        with contextlib.suppress(OSError):  # it has ended
            seconds |= {task: _worked(f"{pid}/task/{task}") for task in os.listdir(f"/proc/{pid}/task")}
    return seconds


def busy_seconds() -> float:
    """Seconds that all cores have worked for all programs."""
    with open("/proc/stat", encoding="utf-8") as file:
        user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def visits(ray: Any, shard: Any, size: int, count: int) -> dict[str, float]:
    """Seconds of one visit with an array of `size` bytes.

    Times by the clock are lower quartiles, because other programs only add to them. Times of processors are means.
    """
    gradient, theta = np.zeros(size // 4, np.float32), np.zeros(size // 4, np.float32)
    push, get, whole = [], [], []

    def one() -> None:
        began = time.perf_counter()
        call = shard.visit.remote(gradient, ("run", 0, 1, 2, 0, 3, 1e-4, 4))
        sent = time.perf_counter()
        ray.wait([call])
        waited = time.perf_counter()
        answer = ray.get(call)[-1]
        np.copyto(theta, answer if isinstance(answer, np.ndarray) else ray.get(answer))
        ended = time.perf_counter()
        push.append(sent - began)
        get.append(ended - waited)
        whole.append(ended - began)

    for _ in range(10):
        one()
    del push[:], get[:], whole[:]
    ray.get(shard.begin.remote())
    before = core_seconds()
    for _ in range(count):
        one()
    cores = (core_seconds() - before) / count
    work, waits = ray.get(shard.took.remote())
    seen = {"push": _quartile(push), "get": _quartile(get), "visit": work / count + _quartile(waits)}
    threads = sum(seen.values())
    return seen | {"wait": max(0.0, _quartile(whole) - threads), "ray": max(0.0, cores - threads)}


def copies(ray: Any, shard: Any, keeper: Any, size: int, count: int) -> float:
    """Seconds of a keeper's thread for a copy of `size` bytes."""
    array = np.zeros(size // 4, np.float32)
    ray.get(shard.send.remote(keeper, array))
    began = ray.get(keeper.clock.remote())
    for _ in range(count):
        ray.get(shard.send.remote(keeper, array))
    return float(ray.get(keeper.clock.remote()) - began) / count


def measured(ray: Any, count: int) -> dict[str, Any]:
    """The costs of Ray, by the names of cluster.Costs."""
    shard = ray.remote(Shard).options(num_cpus=0).remote()
    keeper = ray.remote(Keeper).options(num_cpus=0).remote()
    try:
        seen = {size: visits(ray, shard, size, count) for size in SIZES}
        kept = {size: {"keep": copies(ray, shard, keeper, size, count)} for size in SIZES if size > INLINE}
    finally:
        ray.kill(shard)
        ray.kill(keeper)
    costs: dict[str, Any] = {name: fitted(name, seen) for name in ("push", "visit", "get", "wait", "ray")}
    costs["keep"] = fitted("keep", kept)
    return costs | {"message": 1024.0, "inline": float(INLINE)}


def fitted(name: str, seen: dict[int, dict[str, float]]) -> dict[str, float]:
    """A call, an object and a byte of a cost. A byte is from the objects, by least squares; where there are no
    small arrays, the object is part of the call."""
    small = [size for size in seen if size <= INLINE]
    objects = [size for size in seen if size > INLINE]
    slope, base = np.polyfit(objects, [seen[size][name] for size in objects], 1)
    byte = max(0.0, float(slope))
    if slope < 0:
        base = statistics.mean(seen[size][name] for size in objects)
    call = statistics.mean(max(0.0, seen[size][name] - byte * size) for size in small) if small else max(0.0, float(base))
    return {"call": call, "object": max(0.0, float(base) - call), "byte": byte}


def _quartile(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=4)[0]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--visits", type=int, default=60, help="calls measured for each size of an array (default 60)")


def print_report(args: argparse.Namespace) -> None:
    with _cluster.local(num_cpus=64) as (ray, _):
        costs = measured(ray, args.visits)
    if args.json:
        print(json.dumps(costs))
        return
    print(f"{'microseconds':<14}{'a call':>10}{'an object':>12}{'1 MB':>8}")
    for name in ("push", "visit", "get", "keep", "wait", "ray"):
        print(f"{name:<14}{1e6 * costs[name]['call']:>10.0f}{1e6 * costs[name]['object']:>12.0f}{1e12 * costs[name]['byte']:>8.0f}")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command."""
    return command(__doc__, add_arguments, print_report, arguments)


if __name__ == "__main__":
    sys.exit(main())
