"""`paceline record-starts`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import fmean

from .. import starts
from .._files import check_different, check_writing
from ..errors import ConfigError
from . import environment_keywords


def add_arguments(sub: argparse.ArgumentParser, environment: Callable[[str], str]) -> None:
    sub.description = (
        "Records start states of an Atari game for `paceline evaluate --starts`. A human plays in a window (arrow keys, space: fire, "
        "R: new game, P: pause, Esc: end; needs pygame), or --actions gives the play as a script. The states are drawn at random among "
        "the frames played."
    )
    sub.add_argument("env", type=environment, help="an Atari game, such as Pong")
    sub.add_argument("path", help="the file to write; x becomes x.starts")
    sub.add_argument("--actions", metavar="SCRIPT", help="a script of actions instead of a window: lines such as RIGHTFIRE 12")
    sub.add_argument("--save-actions", metavar="SCRIPT", help="where to write the actions of the window (default: PATH.actions)")
    sub.add_argument("--count", type=int, default=100, help="the number of start states (default: %(default)s)")
    sub.add_argument("--seed", type=int, default=0, help="of the draw of the start states")
    sub.add_argument("--frames", type=int, default=108_000, help="take start states from frames before this one (default: %(default)s)")
    sub.add_argument("--scale", type=int, default=2, help="the height of a pixel in the window, 1 to 8 (default: %(default)s)")
    sub.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a keyword of the environment (recipe=mnih2015)")


def run(args: argparse.Namespace) -> None:
    keywords = environment_keywords(args.set, starts.record)
    path = check_writing(args.path, "path", starts.SUFFIX)
    script = args.actions
    if script is None:
        from .. import _window

        if not 1 <= args.scale <= 8:
            raise ConfigError(f"--scale {args.scale}: must be 1 to 8")
        script = args.save_actions or f"{args.path}.actions"
        check_different({"path": path, "--save-actions": check_writing(script, "--save-actions", "")})
        player, names = starts.Player(args.env, **keywords), list[str]()
        try:
            _window.play(player, args.scale, names)
        finally:
            if names:  # an earlier play's file stays
                starts.write_actions(script, names)
                print(f"actions: {script} ({len(names):,} frames)")
        if not names:
            raise ConfigError("window: closed before its first frame, must stay open for --count frames or more")
    elif args.save_actions:
        raise ConfigError(f"--save-actions {args.save_actions}: must be left out with --actions")
    else:
        check_different({"path": path, "--actions": script})
    made = starts.record(args.env, starts.read_actions(script), count=args.count, seed=args.seed, frames=args.frames, **keywords)
    starts.write(path, made.states)
    frames = [start.frames for start in made.states.starts]
    ended = f"games that ended: {len(made.scores)}" + (f", mean score {fmean(made.scores):g}" if made.scores else "")
    print(f"starts: {path} ({len(frames)} states at frames {min(frames):,} to {max(frames):,}; {ended})")
