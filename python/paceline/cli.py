"""The command line: `paceline` or `python -m paceline`."""

from __future__ import annotations

import argparse
import difflib
import json
import shlex
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _lib
from ._version import __version__
from .config import Config, describe, methods
from .errors import PacelineError

if TYPE_CHECKING:
    from ._trainer import Trainer


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status, 1 for an error of Paceline's."""
    args = _parser().parse_args(arguments)
    try:
        return int(args.run(args) or 0)
    except PacelineError as err:
        print(f"paceline: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paceline", description="Fast reinforcement learning: train, evaluate, measure.")
    parser.set_defaults(run=lambda args: _directories(args, parser))
    parser.add_argument("--version", action="version", version=f"paceline {__version__}")
    parser.add_argument("--include-dir", action="store_true", help="print the folder of paceline.h")
    parser.add_argument("--lib-dir", action="store_true", help="print the folder of the library")
    parser.add_argument("--cflags", action="store_true", help="print what a C or C++ compiler needs to find paceline.h")
    parser.add_argument("--libs", action="store_true", help="print what a linker needs to link the library")
    parser.add_argument("--cmake-dir", action="store_true", help="print the folder of CMake's package, for -Dpaceline_DIR=")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(run=run)
        return sub

    def by_method(sub: argparse.ArgumentParser) -> argparse.ArgumentParser:
        sub.add_argument("--method", default="dqn", help="as `paceline methods` lists them (default dqn)")
        return sub

    command("info", _info, "print the library's version, kernels and path")
    command("methods", _methods, "list the methods and their classes")
    by_method(command("options", _options, "list every setting of a method with its default and meaning"))
    by_method(command("presets", _presets, "list a method's presets"))
    sub = by_method(command("preset", _preset, "print a preset's settings"))
    sub.add_argument("preset", help="as `paceline presets` lists them: tuned, mnih2015 ...")
    sub.add_argument("env", help="a built-in environment, such as CartPole-v1")

    command("envs", _envs, "list the built-in environments")
    sub = by_method(command("train", _train, "train on a built-in environment, or one of Gymnasium's"))
    sub.add_argument("env", help="a built-in environment, such as CartPole-v1, or an id of Gymnasium's")
    sub.add_argument("--preset", help="begin from a preset's settings")
    sub.add_argument("--load", metavar="PATH", help="go on with a checkpoint, for --steps further steps")
    sub.add_argument("--steps", type=whole_number, default=50_000, help="steps to take, also as 1e6 (default 50000)")
    sub.add_argument("--eval-freq", type=whole_number, default=0, help="steps between two evaluations (default: none)")
    sub.add_argument("--num-envs", type=int, default=None, help="environments stepped together")
    sub.add_argument("--seed", type=int, default=None)
    sub.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a keyword of the class, such as paceline.DQN")
    sub.add_argument("--save", metavar="PATH", help="write a checkpoint at the end, and after Ctrl-C")

    sub = command("evaluate", _evaluate, "play episodes with a checkpoint's network")
    sub.add_argument("path")
    sub.add_argument("env", help="a built-in environment, such as CartPole-v1, or an id of Gymnasium's")
    sub.add_argument("--json", action="store_true", help="print an object of JSON, with the return of every episode")
    sub.add_argument("--episodes", type=int, default=100)
    sub.add_argument("--epsilon", type=float, default=0.0)
    sub.add_argument("--seed", type=int, default=0)
    sub.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a keyword of the environment (recipe=mnih2015)")

    from . import bench

    bench.add_commands(command("bench", lambda args: args.bench(args), "measure; prints a table"))
    return parser


def whole_number(text: str) -> int:
    """A whole number, also as 1e6."""
    if not float(text).is_integer():
        raise ValueError(text)
    return int(float(text))


def _envs(args: argparse.Namespace) -> None:
    from .envs.vec import names

    print("\n".join(names()))


def _directories(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if args.include_dir:
        print(_lib.INCLUDE_DIR)
    if args.lib_dir:
        print(_lib.find().parent)
    if args.cmake_dir:
        print(_lib.PACKAGE / "lib" / "cmake" / "paceline")
    flags = [f"-I{_lib.INCLUDE_DIR}"] if args.cflags else []
    if args.libs:
        library = _lib.find()
        flags += [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"]
    if flags:
        print(shlex.join(flags))
    if not (args.include_dir or args.lib_dir or args.cmake_dir or flags):
        parser.print_help()
    return 0


def _info(args: argparse.Namespace) -> None:
    lib = _lib.lib()
    info = {"library": str(_lib.find()), "abi": lib.paceline_abi_version(), **json.loads(lib.paceline_build_info())}
    for name, value in info.items():
        print(f"{name:<10} {value}")


def _classes() -> dict[str, type[Trainer]]:
    """The classes of the methods by the library's names."""
    from .a2c import A2C
    from .dqn import DQN
    from .ppo import PPO
    from .pqn import PQN

    return {cls.METHOD: cls for cls in (A2C, DQN, PPO, PQN)}


def _methods(args: argparse.Namespace) -> None:
    classes = _classes()
    for name in methods():
        print(f"{name:<10} " + (f"paceline.{classes[name].__name__}" if name in classes else "from C and C++ only"))


def _presets(args: argparse.Namespace) -> None:
    config = Config(args.method)
    for preset in config.presets():
        print(f"{preset.name:<14} {preset.doc}" + ("" if preset.envs is None else f": {', '.join(preset.envs)}"))
    config.close()


def _options(args: argparse.Namespace) -> None:
    for setting in describe(args.method):
        print(f"{setting.name} ({setting.type}, default {setting.default or 'empty'})\n    {setting.doc}")


def _preset(args: argparse.Namespace) -> None:
    config = Config(args.method)
    config.preset(args.preset, args.env)
    for setting in config.describe():
        value = config.get(setting.name)
        print(f"{setting.name:<24} {value:<16} {'' if value == setting.default else '(set)'}".rstrip())
    config.close()


def _keywords(items: list[str]) -> dict[str, Any]:
    """What --set gave, as JSON where it is some: env_kwargs={"recipe": "mnih2015"}."""
    keywords: dict[str, Any] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise PacelineError(f"--set {item}: must be NAME=VALUE")
        try:
            keywords[name] = json.loads(value)
        except ValueError:
            keywords[name] = value
    return keywords


def _known(keywords: Mapping[str, Any], known: list[str], what: str) -> None:
    """Refuses a name of --set that is none of known."""
    for name in keywords:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise PacelineError(f"--set {name}: not a keyword of {what}" + (f"; did you mean {near[0]}?" if near else ""))


def _train(args: argparse.Namespace) -> None:
    model_class = _classes().get(args.method)
    if model_class is None:
        raise PacelineError(f"--method {args.method}: must be {' or '.join(', '.join(_classes()).rsplit(', ', 1))}")
    keywords = _keywords(args.set)
    if args.seed is not None:
        keywords["seed"] = args.seed
    _known(keywords, model_class.keywords(), f"paceline.{model_class.__name__}")
    if args.num_envs is not None:
        keywords["num_envs"] = args.num_envs
    if args.load and args.preset:
        raise PacelineError(f"--preset {args.preset}: must be left out with --load, whose file has all settings")
    new: Any = model_class  # each method has keywords of its own
    if args.load:
        made = new.load(args.load, env=args.env, **keywords)
    elif args.preset:
        made = new.from_preset(args.preset, args.env, **keywords)
    else:
        made = new(env=args.env, **{"policy": "auto", **keywords})
    with made as model:
        eval_env = args.env if args.eval_freq and model.env_name is None else None
        try:
            model.learn(
                args.steps, log_interval=None, progress_bar=True, eval_freq=args.eval_freq, eval_env=eval_env,
                reset_num_timesteps=not args.load,
            )  # fmt: skip
        finally:
            if args.save:
                model.save(args.save)
        for step, result in model.evaluations:
            print(f"{step:>10,} steps: mean return {result.mean_return:.2f} (min {result.min_return:.2f}, max {result.max_return:.2f})")


def _evaluate(args: argparse.Namespace) -> None:
    from .policy import Policy

    with Policy.load(args.path) as policy:
        result = policy.evaluate(args.env, args.episodes, args.epsilon, args.seed, **_keywords(args.set))
    if args.json:
        print(json.dumps(result._asdict()))
        return
    for name, value in list(result._asdict().items())[:6]:
        print(f"{name:<12} {value:g}")
