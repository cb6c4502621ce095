"""`paceline evaluate`."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import Any

from .. import scores
from ..errors import ConfigError
from . import environment_keywords

_TEN_HERTZ = 6  # frames of an action, at 60 frames a second


def add_arguments(sub: argparse.ArgumentParser, environment: Callable[[str], str]) -> None:
    sub.description = (
        "Plays episodes with a checkpoint's network. With --starts the episodes start in states of a human's games, "
        "and returns have the agent's points alone; with --normalise the mean return is also given on the scale of papers, "
        "100 (agent - random) / (human - random)."
    )
    sub.add_argument("path")
    sub.add_argument("env", type=environment, help="a built-in environment, such as CartPole-v1, or a Gymnasium id")
    sub.add_argument("--json", action="store_true", help="print a JSON object with the return of every episode")
    sub.add_argument("--episodes", type=int, help="the number of episodes (default: 100, or one for each start state)")
    sub.add_argument("--epsilon", type=float, default=0.0)
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument("--starts", metavar="FILE", help="start in the states of a file of record-starts")
    sub.add_argument(
        "--frames", type=int, default=0, help="truncate a game at this frame; frames before a start state count (default: no change)"
    )
    sub.add_argument("--random", action="store_true", help="also play the agent that acts at random at 10 Hz, from the same starts")
    sub.add_argument("--normalise", action="store_true", help="print the normalised score")
    scale = "the score that is {} on the scale of --normalise (default: {}the table of Nair et al. 2015)"
    sub.add_argument("--human-score", type=float, help=scale.format(100, ""))
    sub.add_argument("--random-score", type=float, help=scale.format(0, "that of --random, else "))
    sub.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a keyword of the environment (recipe=mnih2015)")


def run(args: argparse.Namespace) -> None:
    from .. import starts
    from ..policy import Policy

    for option, value in (("--human-score", args.human_score), ("--random-score", args.random_score)):
        if value is not None and not args.normalise:
            raise ConfigError(f"{option} {value:g}: must be given with --normalise")
    if args.random and args.random_score is not None:
        raise ConfigError(f"--random-score {args.random_score:g}: must be left out with --random, which measures it")
    keywords = environment_keywords(args.set, Policy.evaluate)
    states = starts.read(args.starts) if args.starts else None
    episodes = args.episodes if args.episodes is not None or states else 100
    played: dict[str, Any] = {"starts": states, "max_frames": args.frames}
    with Policy.load(args.path) as policy:
        game = starts.described(args.env, keywords)[0] if args.random or args.normalise else ""
        if args.random and not game:
            raise ConfigError(f"--random: must be left out for {args.env}, is for Atari games")
        scale = _scale(args, game) if args.normalise else {}
        result = policy.evaluate(args.env, episodes, args.epsilon, args.seed, **played, **keywords)
        random = None
        if args.random:
            random = policy.evaluate(args.env, episodes, 1.0, args.seed, **played, **keywords | {"frameskip": _TEN_HERTZ})
    report = dict(result._asdict())
    if random is not None:
        report["random"] = dict(random._asdict())
        scale = {"random": {"score": random.mean_return, "source": f"{random.episodes} episodes of --random"}} | scale
    if args.normalise:
        ends = scale["random"]["score"], scale["human"]["score"]
        # What --random measured can be the human's score. The games that were played are still reported.
        report["normalised"] = {"score": None if ends[0] == ends[1] else scores.normalised(result.mean_return, *ends), **scale}
    print(json.dumps(report) if args.json else _text(report))


def _scale(args: argparse.Namespace, game: str) -> dict[str, Any]:
    """The scores of the scale that are known before a game is played, with their sources. --random measures the other one."""
    scale = {}
    for name, given in (("random", args.random_score), ("human", args.human_score)):
        if name == "random" and args.random:
            continue
        if given is not None:
            if not math.isfinite(given):
                raise ConfigError(f"--{name}-score {given:g}: must be finite")
            scale[name] = {"score": given, "source": f"--{name}-score"}
        else:
            try:
                table = scores.published(game, "human_starts" if args.starts else "null_op")
            except ConfigError:
                raise ConfigError(f"--normalise: the table has no scores of {args.env}, --{name}-score must give one") from None
            scale[name] = {"score": getattr(table, name), "source": table.source}
    human = scale["human"]["score"]
    if "random" in scale and scale["random"]["score"] == human:
        raise ConfigError(f"--normalise: the scores of the human and of the random agent are both {human:g}, must differ")
    return scale


def _text(report: dict[str, Any]) -> str:
    lines = [f"{name:<12} {value:g}" for name, value in list(report.items())[:6]]
    if "random" in report:
        lines.append(f"{'random':<12} {report['random']['mean_return']:g}")
    if "normalised" in report:
        normal = report["normalised"]
        ends = "; ".join(
            f"{end} is {name} {normal[name]['score']:g}, {normal[name]['source']}" for end, name in ((0, "random"), (100, "human"))
        )
        score = "none" if normal["score"] is None else f"{normal['score']:.2f}"
        lines.append(f"{'normalised':<12} {score} ({ends})")
    return "\n".join(lines)
