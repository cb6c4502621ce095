"""`paceline bench envs`: steps/s of vector environments of Atari games, compared with other libraries.

All contenders do equal work: 84 x 84 grey observations, uint8 [n, 4, 84, 84], the pixelwise maximum
of the last two of four frames, clipped rewards, up to 30 frames of NOOP and FIRE at the beginning,
whole games, no sticky actions, two threads. Actions are drawn before the clock runs; ends and
resets of episodes are included. The contenders take turns of the same number of steps with the same
actions. A ratio is the median of the turns' ratios, because the machine's speed changes over time.
Each contender keeps the batch size that was fastest in the first turn. Later steps do not change
returned arrays, except with "copy=False".
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..envs.registration import camel
from ..envs.vec import make_vec
from ..errors import PacelineError
from ..spaces import Array

GAMES = "pong,breakout,seaquest,space_invaders,qbert"
_THREADS = 2
_STEPS = 4000  # steps of all environments together in a turn
_SLOW = 8  # Gymnasium's vectors have one turn, shorter by this factor
Run = Callable[[Array], None]


@dataclasses.dataclass
class Contender:
    """A vector that takes turns. run steps all environments with each row of actions."""

    run: Run
    close: Callable[[], None]
    slow: bool = False
    rates: list[float] = dataclasses.field(default_factory=list)

    def turn(self, actions: Array) -> None:
        rows = actions[: max(1, len(actions) // _SLOW)] if self.slow else actions
        began = time.perf_counter()
        self.run(rows)
        self.rates.append(rows.size / (time.perf_counter() - began))


def _in_step(envs: Any, slow: bool = False) -> Contender:
    """A contender whose step is one call for all environments."""
    envs.reset(seed=1)

    def run(actions: Array) -> None:
        step = envs.step
        for row in actions:
            step(row)

    return Contender(run, envs.close, slow)


def _asynchronous(envs: Any, batch: int) -> Contender:
    """A contender that takes as many steps in batches, received in the order of completion."""

    def run(actions: Array) -> None:
        send, recv = envs.send, envs.recv
        for row in actions.reshape(-1, batch):
            infos = recv()[4]
            send(row, infos["env_id"])

    envs.async_reset()
    return Contender(run, envs.close)


def _ours(game: str, n: int, **keywords: Any) -> Any:
    return make_vec(f"atari/{game}", n, num_threads=min(_THREADS, n), **keywords)


def _ale(game: str, n: int) -> Any:
    from ale_py.vector_env import AtariVectorEnv

    return AtariVectorEnv(game, num_envs=n, num_threads=min(_THREADS, n))


def _envpool(game: str, n: int, batch: int) -> Any:
    import envpool

    return envpool.make(
        f"{camel(game)}-v5", env_type="gymnasium", num_envs=n, batch_size=batch, num_threads=min(_THREADS, n), reward_clip=True,
        max_episode_steps=27_000,
    )  # fmt: skip


def _gymnasium(game: str, n: int, processes: bool) -> Any:
    import ale_py
    import gymnasium
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation, TransformReward

    def one() -> Any:
        gymnasium.register_envs(ale_py)
        env = gymnasium.make(f"ALE/{camel(game)}-v5", frameskip=1, repeat_action_probability=0.0)
        return TransformReward(FrameStackObservation(AtariPreprocessing(env), 4), float)

    if processes:
        return gymnasium.vector.AsyncVectorEnv([one] * n, context="spawn")
    return gymnasium.vector.SyncVectorEnv([one] * n)


def _batches(n: int) -> list[int]:
    return [n // k for k in (2, 4, 8) if n % k == 0]


def _contenders(game: str, n: int, with_gymnasium: bool) -> Iterator[tuple[str, Callable[[], Contender]]]:
    yield "paceline", lambda: _in_step(_ours(game, n))
    yield "paceline copy=False", lambda: _in_step(_ours(game, n, copy=False))
    for batch in _batches(n):
        yield f"paceline async {batch}", lambda batch=batch: _asynchronous(_ours(game, n, batch_size=batch), batch)  # type: ignore[misc]
    yield "ale-py", lambda: _in_step(_ale(game, n))
    yield "envpool", lambda: _in_step(_envpool(game, n, n))
    for batch in _batches(n):
        yield f"envpool async {batch}", lambda batch=batch: _asynchronous(_envpool(game, n, batch), batch)  # type: ignore[misc]
    if with_gymnasium:
        yield "gymnasium sync", lambda: _in_step(_gymnasium(game, n, processes=False), slow=True)
        yield "gymnasium async", lambda: _in_step(_gymnasium(game, n, processes=True), slow=True)


def measure(games: list[str], sizes: list[int], rounds: int, with_gymnasium: bool = True) -> Iterator[dict[str, Any]]:
    """Yields a cell for each game and number of environments.

    A cell is {game, num_envs, rates: {contender: steps/s of each turn}, batch_size: {asynchronous
    contender: batch size}}.
    """
    missing: set[str] = set()
    for game in games:
        for n in sizes:
            running: dict[str, Contender] = {}
            for name, make in _contenders(game, n, with_gymnasium):
                if name.split()[0] in missing:
                    continue
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        running[name] = make()
                except ImportError:
                    missing.add(name.split()[0])
            actions = 1 if not running else int(_ours(game, 1).single_action_space.n)
            for turn in range(rounds + 1):
                rows = np.random.default_rng(turn).integers(actions, size=(max(8, _STEPS // n), n), dtype=np.int32)
                for contender in running.values():
                    if turn == 0:  # warm-up
                        contender.run(rows[: max(8, len(rows) // _SLOW)])
                    elif not contender.slow or turn == 1:
                        contender.turn(rows)
                if turn == 1:
                    running, slower = _fastest(running)
                    for contender in slower:
                        contender.close()
            for contender in running.values():
                contender.close()
            yield {"game": game, "num_envs": n} | _described({name: c.rates for name, c in running.items()})


def _kind(name: str) -> str:
    """A contender's name without its batch size."""
    kind, _, batch = name.rpartition(" ")
    return kind if batch.isdigit() else name


def _fastest(running: dict[str, Contender]) -> tuple[dict[str, Contender], list[Contender]]:
    """(the fastest contender of each kind, the other contenders)."""
    kinds: dict[str, list[str]] = {}
    for name in running:
        kinds.setdefault(_kind(name), []).append(name)
    winners = {max(names, key=lambda name: running[name].rates[-1]) for names in kinds.values()}
    return {name: c for name, c in running.items() if name in winners}, [c for name, c in running.items() if name not in winners]


def _described(turns: dict[str, list[float]]) -> dict[str, Any]:
    rates = {_kind(name): {"median": statistics.median(r), "least": min(r), "most": max(r), "turns": r} for name, r in turns.items()}
    return {"rates": rates, "batch_size": {_kind(name): int(name.split()[-1]) for name in turns if name != _kind(name)}}


def _ratio(cell: dict[str, Any], ours: str, theirs: str) -> float:
    """The median of the turns' ratios of two contenders."""
    turns: list[list[float]] = [cell["rates"][name]["turns"] for name in (ours, theirs)]
    return float(statistics.median(a / b for a, b in zip(*turns)))


def ratios(cells: list[dict[str, Any]]) -> dict[str, float]:
    """Ratios of the library's rate to another's: pong_8_vs_envpool, pong_8_vs_ale, pong_8_async_vs_envpool_async.

    The latter compares the asynchronous modes. pong_8_vs_better is the lesser of the first two.
    """
    out: dict[str, float] = {}
    for cell in cells:
        rates = cell["rates"]
        place = f"{cell['game']}_{cell['num_envs']}"
        others = {"envpool": "envpool", "ale": "ale-py", "gymnasium_sync": "gymnasium sync", "gymnasium_async": "gymnasium async"}
        for key, name in others.items():
            if name in rates:
                out[f"{place}_vs_{key}"] = _ratio(cell, "paceline", name)
        if "envpool async" in rates and "paceline async" in rates:
            out[f"{place}_async_vs_envpool_async"] = _ratio(cell, "paceline async", "envpool async")
        rivals = [out[f"{place}_vs_{key}"] for key in ("envpool", "ale") if f"{place}_vs_{key}" in out]
        if rivals:
            out[f"{place}_vs_better"] = min(rivals)
    return {key: round(value, 3) for key, value in out.items()}


def numbers(text: str) -> list[int]:
    """Parses numbers of environments, such as "1,8"."""
    return [int(part) for part in text.split(",")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--games", default=GAMES, help=f"comma-separated (default {GAMES})")
    parser.add_argument("--num-envs", type=numbers, default="1,8,32", help="comma-separated (default 1,8,32)")
    parser.add_argument("--rounds", type=int, default=5, help=f"turns of {_STEPS} steps for each contender (default 5)")
    parser.add_argument("--no-gymnasium", action="store_true", help="leave out Gymnasium's Sync- and AsyncVectorEnv, which are slow")


def main(args: argparse.Namespace) -> None:
    if args.rounds < 1:
        raise PacelineError(f"--rounds: {args.rounds}, must be at least 1")
    cells = []
    for cell in measure(args.games.split(","), args.num_envs, args.rounds, not args.no_gymnasium):
        cells.append(cell)
        print(_lines(cell, header=len(cells) == 1), flush=True, file=sys.stderr if args.json else sys.stdout)
    if args.json:
        head = {"threads": _THREADS, "steps_a_turn": _STEPS, "rounds": args.rounds, "recipe": "ale"}
        print(json.dumps(head | {"results": cells, "ratio": ratios(cells)}))
        return
    better = {key: value for key, value in ratios(cells).items() if key.endswith("_vs_better")}
    for n in args.num_envs:
        values = [value for key, value in better.items() if f"_{n}_vs_" in key]
        if values:
            print(f"{n} environments: ours over the better of envpool and ale-py {min(values):.2f} to {max(values):.2f}")


def _lines(cell: dict[str, Any], header: bool) -> str:
    lines = [f"steps/s, medians, {_THREADS} threads (ours over theirs)"] if header else []
    lines.append(f"{cell['game']}, {cell['num_envs']} environments")
    for name, rate in cell["rates"].items():
        batch = f", batch_size {cell['batch_size'][name]}" if name in cell["batch_size"] else ""
        lines.append(f"  {name + batch:<32} {rate['median']:>9,.0f}   {_ratio(cell, 'paceline', name):>6.2f}")
    return "\n".join(lines)
