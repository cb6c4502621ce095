"""The command line: `paceline` or `python -m paceline`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _lib, _reproduce, bench
from ._commands import evaluate, keywords_of, known, record, show
from ._files import check_different, check_writing, reading
from ._version import __version__
from .config import Config, Preset, describe, methods
from .errors import PacelineError

if TYPE_CHECKING:
    from ._trainer import Trainer


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status: 1 for a PacelineError, 130 for Ctrl-C, 141 if the reader of the output has ended."""
    parser = _parser()
    try:
        bench.refuse_moved(sys.argv[1:] if arguments is None else arguments)
        args = parser.parse_args(arguments)
        status = int(args.run(args) or 0)
        if sys.stdout is not None:  # None: the standard output was closed
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Python flushes stdout at its end, which would raise the error once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
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
    parser.add_argument("--cflags", action="store_true", help="print the flags of a C or C++ compiler for paceline.h")
    parser.add_argument("--libs", action="store_true", help="print the flags of a linker for the library")
    parser.add_argument("--cmake-dir", action="store_true", help="print the folder of the CMake package, for -Dpaceline_DIR=")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(run=run)
        return sub

    def by_method(sub: argparse.ArgumentParser, otherwise: str) -> argparse.ArgumentParser:
        sub.add_argument("--method", help=f"a name of `paceline methods` (default: {otherwise})")
        return sub

    of_preset = "the method that has the preset, or dqn if it is one of several; else it must be given"

    command("info", _info, "print the library's version, kernels and path")
    command("methods", _methods, "list the methods and their classes")
    by_method(command("options", _options, "list every setting of a method with its default and meaning"), "dqn")
    by_method(command("presets", _presets, "list presets"), "all of them")
    sub = by_method(command("preset", _preset, "print a preset's settings"), of_preset)
    sub.add_argument("preset", help="a name of `paceline presets`: tuned, mnih2015 ...")
    sub.add_argument("env", type=environment, help="a built-in environment, such as CartPole-v1")

    command("envs", _envs, "list the built-in environments")
    sub = by_method(command("train", _train, "train on a built-in environment or a Gymnasium environment"), of_preset)
    sub.description = (
        "Trains, then draws the learning curve and records a video of an episode. The files are PATH_curve.png and PATH_agent.gif "
        "for --save PATH, without its suffix .paceline or .zip, else ENV_METHOD_curve.png and ENV_METHOD_agent.gif in the current folder. "
        "Ctrl-C ends the training early."
    )
    sub.add_argument("env", type=environment, help="a built-in environment, such as CartPole-v1 or Pong, or a Gymnasium id")
    sub.add_argument("--preset", help="begin with a preset's settings")
    sub.add_argument("--load", metavar="PATH", help="continue from a checkpoint, for --steps further steps")
    sub.add_argument("--steps", type=whole_number, help="steps to take, such as 50000 or 1e6 (default: the preset's, or 50000)")
    sub.add_argument("--eval-freq", type=whole_number, default=0, help="steps between two evaluations (default: none)")
    sub.add_argument("--num-envs", type=int, default=None, help="the number of environments")
    sub.add_argument("--seed", type=int, default=None)
    sub.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a keyword of the method's class")
    sub.add_argument("--save", metavar="PATH", help="write a checkpoint at the end or after Ctrl-C")
    sub.add_argument("--schedule", metavar="NAME", help="order of events of an asynchronous method: virtual (modelled), race or recorded")
    sub.add_argument("--order", metavar="PATH", help="repeat the order of a race from a file of --save-order or a checkpoint")
    sub.add_argument("--save-order", metavar="PATH", help="write the order of a race at the end or after Ctrl-C")
    sub.add_argument("--propose", action="store_true", help="print at the end which settings would make training faster")
    sub.add_argument("--no-plot", action="store_true", help="draw no learning curve")
    sub.add_argument("--no-video", action="store_true", help="record no video")

    sub = command("evaluate", evaluate.run, "play episodes with a checkpoint's network")
    evaluate.add_arguments(sub, environment)
    record.add_arguments(command("record-starts", record.run, "record start states of an Atari game from the play of a human"), environment)

    _reproduce.add_commands(command("reproduce", None, "run a published experiment again and compare"), whole_number, environment)
    bench.add_commands(command("bench", lambda args: args.bench(args), "measure; prints a table"))
    return parser


def whole_number(text: str) -> int:
    """The int of a text such as "50000" or "1e6"."""
    if not float(text).is_integer():
        raise ValueError(text)
    return int(float(text))


def environment(text: str) -> str:
    """The name of an environment. A built-in one may be "space_invaders", "atari/pong" or "paceline/Pong-v0"."""
    from .envs import registration

    plain = text.removeprefix("paceline/").removeprefix("atari/").replace("_", "").lower()
    return next((name for name in (*registration.CLASSIC, *registration.ATARI) if name.lower() in (plain, plain.removesuffix("-v0"))), text)


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
    devices = _lib.take_json(lib.paceline_devices)
    for name, value in info.items():
        print(f"{name:<10} {value}")
    for gpu in devices["devices"]:
        memory, capability = gpu["memory"] / 1e9, gpu["compute_capability"]
        print(f"{gpu['device']:<10} {gpu['name']}, {memory:.1f} GB, compute capability {capability}, driver for CUDA {gpu['cuda']}")
    if not devices["devices"] and not info["gpu"].startswith("left out"):
        print(f"{'cuda':<10} none: {devices['reason']}")
    auto = "cuda:0 for networks with convolutions, the CPU for others" if devices["devices"] else "the CPU"
    print(f"{'device':<10} auto is {auto}")


def _classes() -> dict[str, type[Trainer]]:
    """The class of each method by its name in the library."""
    from .a2c import A2C
    from .a3c import A3C
    from .appo import APPO
    from .dqn import DQN
    from .ga3c import GA3C
    from .gorila import Gorila
    from .ppo import PPO
    from .pqn import PQN

    return {cls.METHOD: cls for cls in (A2C, A3C, APPO, DQN, GA3C, Gorila, PPO, PQN)}


def _methods(args: argparse.Namespace) -> None:
    classes = _classes()
    for name in methods():
        print(f"{name:<10} " + (f"paceline.{classes[name].__name__}" if name in classes else "from C and C++ only"))


def _presets(args: argparse.Namespace) -> None:
    listed = [(method, preset) for method in ([args.method] if args.method else methods()) for preset in _presets_of(method)]
    methods_width = max((len(method) for method, _ in listed), default=0)
    names_width = max((len(preset.name) for _, preset in listed), default=0)
    for method, preset in listed:
        before = "" if args.method else f"{method:<{methods_width}} "
        envs = "" if preset.envs is None else f": {', '.join(preset.envs)}"
        print(f"{before}{preset.name:<{names_width}} {preset.doc}{envs}" + (f" ({preset.steps:,} steps)" if preset.steps else ""))


def _presets_of(method: str) -> list[Preset]:
    config = Config(method)
    try:
        return config.presets()
    finally:
        config.close()


def _options(args: argparse.Namespace) -> None:
    for setting in describe(args.method or "dqn"):
        print(f"{setting.name} ({setting.type}, default {setting.default or 'empty'})\n    {setting.doc}")


def _preset(args: argparse.Namespace) -> None:
    config = Config(args.method or _method_of(args.preset, "preset"))
    config.preset(args.preset, args.env)
    for setting in config.describe():
        value = config.get(setting.name)
        print(f"{setting.name:<24} {value:<16} {'' if value == setting.default else '(set)'}".rstrip())
    config.close()


def _method_of(preset: str, argument: str) -> str:
    """The method that has a preset; dqn if it is one of several."""
    presets = {method: [each.name for each in _presets_of(method)] for method in methods()}
    having = [method for method, names in presets.items() if preset in names]
    if not having:
        known = sorted({name for names in presets.values() for name in names})
        raise PacelineError(f"{argument} {preset}: must be {_either(known)}")
    if len(having) > 1 and "dqn" not in having:
        raise PacelineError(
            f"{argument} {preset}: a preset of {' and '.join(', '.join(having).rsplit(', ', 1))}, --method must name one of them"
        )
    return "dqn" if "dqn" in having else having[0]


def _either(names: Iterable[str]) -> str:
    """ "a, b or c"."""
    return " or ".join(", ".join(names).rsplit(", ", 1))


def _train(args: argparse.Namespace) -> int:
    from ._asynchronous import ORDER_SUFFIX

    if args.load and args.preset:
        raise PacelineError(f"--preset {args.preset}: must be left out with --load: the checkpoint has all settings")
    method = args.method or _method_to_train(args)
    model_class = _classes().get(method)
    if model_class is None:
        raise PacelineError(f"--method {method}: must be {_either(_classes())}")
    keywords = keywords_of(args.set)
    if args.seed is not None:
        keywords["seed"] = args.seed
    known(keywords, model_class.keywords(), f"paceline.{model_class.__name__}")
    if args.num_envs is not None:
        keywords["num_envs"] = args.num_envs
    _add_order(args, method, model_class, keywords)
    path = re.sub(r"\.(paceline|zip)$", "", args.save) if args.save else f"{args.env.replace('/', '_')}_{method}"
    curve, video = f"{path}_curve.png", f"{path}_agent.gif"
    files = (
        ("--save", args.save, "zip"),
        ("--save-order", args.save_order, ORDER_SUFFIX),
        ("curve", None if args.no_plot else curve, ""),
        ("video", None if args.no_video else video, ""),
    )
    check_different({option: check_writing(file, option, suffix) for option, file, suffix in files if file})
    new: Any = model_class  # the keywords differ by method
    if args.load:
        made = new.load(args.load, env=args.env, **keywords)
    elif args.preset:
        made = new.from_preset(args.preset, args.env, **keywords)
    else:
        made = new(env=args.env, **{"policy": "auto", **keywords})
    steps = args.steps
    if steps is None:
        steps = next((preset.steps for preset in _presets_of(method) if preset.name == args.preset), 0) or 50_000
    wanted = [package for package, no in (("matplotlib", args.no_plot), ("PIL", args.no_video)) if not no]
    if not all(map(importlib.util.find_spec, wanted)):
        print("curve and video: need matplotlib and Pillow at the end of training (pip install 'paceline[plot]')", file=sys.stderr)
    interrupted = False
    with made as model:
        if args.save_order and model.schedule == "virtual":
            raise PacelineError(f"--save-order {args.save_order}: schedule virtual records no order, --schedule must be race")
        before, ended = model.num_timesteps, False
        try:
            model.learn(steps, log_interval=None, progress_bar=True, eval_freq=args.eval_freq, reset_num_timesteps=not args.load)
            ended = True
        except KeyboardInterrupt:
            ended = interrupted = True
        finally:
            if ended or model.num_timesteps > before:  # a refused call of learn keeps older files
                if args.save:
                    model.save(args.save)
                if args.save_order:
                    model.save_order(args.save_order)
        for step, result in model.evaluations:
            print(f"{step:>10,} steps: mean return {result.mean_return:.2f} (min {result.min_return:.2f}, max {result.max_return:.2f})")
        if args.propose:
            print(f"proposal: {model.proposal()}")
        if not args.no_plot:
            show("curve", curve, lambda: _draw(model, curve))
        if not args.no_video:
            show("video", video, lambda: _record(model, video))
    return 130 if interrupted else 0


def _add_order(args: argparse.Namespace, method: str, model_class: type[Trainer], keywords: dict[str, Any]) -> None:
    """Adds the keywords of --schedule and --order; refuses these options for a synchronous method."""
    for option, value in (("--schedule", args.schedule), ("--order", args.order), ("--save-order", args.save_order)):
        if value is not None and "schedule" not in model_class.keywords():
            asynchronous = [name for name, each in _classes().items() if "schedule" in each.keywords()]
            raise PacelineError(f"{option} {value}: {method} is synchronous, --method must be {_either(asynchronous)}")
    for name, value in (("schedule", args.schedule), ("order", args.order)):
        if value is not None:
            keywords[name] = value


def _method_to_train(args: argparse.Namespace) -> str:
    """The method without --method: the preset's or the checkpoint's, else dqn."""
    from .compat import _sb3_file

    if args.preset:
        return _method_of(args.preset, "--preset")
    if args.load:
        with reading(args.load) as name:
            if not _sb3_file.is_one(name):
                config = Config.load(name)
                try:
                    return config.method
                finally:
                    config.close()
    return "dqn"


def _draw(model: Trainer, path: str) -> str:
    from . import plots

    curve = model.learning_curve
    plots.save_curves(path, curve)
    latest = "no episode ended" if math.isnan(curve.returns[-1]) else f"mean return of the latest 100 episodes {curve.returns[-1]:.2f}"
    seconds = curve.seconds[-1]
    took = f"{seconds:.1f} seconds" if seconds < 60 else f"{seconds / 60:.1f} minutes"
    return f"{latest}, {curve.steps[-1] - curve.steps[0]:,} steps in {took}"


def _record(model: Trainer, path: str) -> str:
    from . import videos

    recording = videos.record(model)
    videos.save_gif(path, recording)
    return f"an episode of {recording.steps:,} steps, return {recording.total_return:g}"
