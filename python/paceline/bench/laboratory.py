"""`paceline bench ga3c | tuner | async | latency`: asynchronous methods, on the machines of the GA3C paper and here."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .._files import output
from ..errors import PacelineError

LAGS = ("0", "1", "2-3", "4-7", "8-15", "16-31", "32-63", "64 and more")


def _settings(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{text!r}, must be NAME=VALUE")
    return name, value


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}, must be integers with commas between them") from None


def _run(name: str, args: argparse.Namespace, *options: str) -> dict[str, Any]:
    """Runs a benchmark with the arguments that were given."""
    from . import run

    given = {option: getattr(args, option) for option in options if getattr(args, option) is not None}
    if "settings" in given:
        given["settings"] = dict(given["settings"])
    report = run(name, given)
    if getattr(args, "report", None):
        with output(args.report) as path:
            path.write_text(json.dumps(report))
    return report


def _common(parser: argparse.ArgumentParser, *, settings: str) -> None:
    parser.add_argument("--set", dest="settings", action="append", type=_settings, metavar="NAME=VALUE", help=settings)
    parser.add_argument("--report", type=Path, help="a file for the report as JSON")


def ga3c_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", help="environment of the races on this machine; '' for none (default Pong)")
    parser.add_argument("--steps", type=int, help="steps of a race (default 10000)")
    parser.add_argument("--trials", type=int, help="races of each kind (default 3)")
    parser.add_argument("--seconds", type=float, help="virtual time on a machine of the paper (default 20)")
    parser.add_argument("--num-threads", type=int, help="threads of the races (default: one per core)")
    _common(parser, settings="a setting of the races")


def ga3c(args: argparse.Namespace) -> None:
    """Runs `paceline bench ga3c`."""
    report = _run("ga3c", args, "env", "steps", "trials", "seconds", "num_threads", "settings")
    print(json.dumps(report) if args.json else ga3c_text(report))


def ga3c_text(report: dict[str, Any]) -> str:
    flows = [(m["machine"]["name"], m["flow"]) for m in report["machines"]]
    flows += [(f"joined to {r['joined']}", r["flow"]) for r in report["races"] if r["flow"]]
    lines = ["small network; Systems I to III in virtual time, the others races on this machine", ""]
    lines.append(f"{'':<16}" + "".join(f"{name:>13}" for name, _ in flows))
    paper = {m["machine"]["name"]: m["machine"] for m in report["machines"]}

    def row(label: str, *texts: str) -> None:
        lines.append(f"{label:<16}" + "".join(f"{text:>13}" for text in texts))

    row("paper: A3C PPS", *(f"{paper[n]['a3c_pps']:,.0f}" if n in paper else "" for n, _ in flows))
    row("paper: GA3C PPS", *(f"{paper[n]['ga3c_pps']:,.0f}" if n in paper else "" for n, _ in flows))
    row("NP, NT, NA", *(f"{f['predictors']},{f['trainers']},{f['agents']}" for _, f in flows))
    for label, key, form in (
        ("PPS", "pps", ",.0f"), ("TPS", "tps", ",.0f"), ("prediction batch", "prediction_batch", ".1f"),
        ("training batch", "training_batch", ".1f"), ("prediction queue", "prediction_queue", ".1f"),
        ("training queue", "training_queue", ".1f"), ("cycle, ms", "cycle_ms", ".1f"), ("update, ms <=", "most_update_ms", ".1f"),
        ("mean lag", "lag", ".1f"), ("largest lag", "lag_most", ".0f"),
    ):  # fmt: skip
        row(label, *(f"{f[key]:{form}}" for _, f in flows))
    for k, lag in enumerate(LAGS):
        row(f"lag {lag}", *(f"{f['lags'][k]:.1%}" for _, f in flows))
    lines.append("")
    for r in report["races"]:
        name = f"GA3C, segments joined to {r['joined']} steps" if r["joined"] else "A2C with 16 environments"
        lines.append(f"{name:<36}{r['median']:>10,.0f} steps/s, {r['vs_a2c']:.2f} of A2C's")
    lines += [
        "",
        "The paper gives 108 ms of waiting for a prediction and 11.1 ms for an update, on System I only. With 128 agents, two trainers",
        "and 1,361 PPS a cycle has 94 ms and an update at most 7.3 ms, so the model has the rates. Fitted: " + "; ".join(
            f"{m['machine']['name']}: {m['machine']['fitted_what']}" for m in report["machines"]
        ) + ".",
    ]  # fmt: skip
    return "\n".join(lines)


def tuner_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--forms", type=lambda text: text.split(","), help="comma-separated (default ladder,paper,authors)")
    parser.add_argument(
        "--machines",
        type=lambda text: text.split(","),
        help="comma-separated (default System I,System II,System III; here: this machine, measured)",
    )
    parser.add_argument("--seeds", type=int, help="runs of each form (default 20)")
    parser.add_argument("--periods", type=int, help="periods of a run (default 60)")
    parser.add_argument("--period-s", type=float, help="virtual seconds of a period (default 20)")
    parser.add_argument("--report", type=Path, help="a file for the report, with the traces, as JSON")


def tuner(args: argparse.Namespace) -> None:
    """Runs `paceline bench tuner`."""
    report = _run("tuner", args, "forms", "machines", "seeds", "periods", "period_s")
    print(json.dumps(report) if args.json else tuner_text(report))


def _counts(n: dict[str, Any]) -> str:
    return f"{n['predictors']}/{n['trainers']}/{n['agents']}"


def tuner_text(report: dict[str, Any]) -> str:
    o = report["options"]
    lines = [f"predictors/trainers/agents after {o['periods']} periods of {o['period_s']:g} virtual seconds; the grid's best is 1"]
    for m in report["machines"]:
        best, start = m["grid"][0], m["start"]
        found = f"best of the grid {_counts(best)}, {best['tps']:.0f} updates/s; {_counts(start)}, {start['tps']:.0f}"
        lines += ["", f"{m['machine']['name']}: {found}"]
        for form in m["forms"]:
            shares = sorted(run["share"] for run in form["runs"])
            reached = f"{form['within']} of {len(form['runs'])} seeds reach {o['within']:g}"
            lines.append(f"  {form['form']:<8} {reached}; {shares[0]:.2f} to {shares[-1]:.2f}")
            first = form["runs"][0]
            steps = [n for k, n in enumerate(first["trace"]) if k == 0 or n != first["trace"][k - 1]]
            lines.append(f"           seed {first['seed']}: " + " ".join(_counts(n) for n in steps))
    return "\n".join(lines)


def async_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--env", help="default CartPole-v1")
    parser.add_argument("--learners", type=_numbers, help="comma-separated (default 4,64)")
    parser.add_argument("--envs", type=_numbers, help="environments of a learner, comma-separated (default 1,4,16)")
    parser.add_argument("--turns", type=int, help="turns of each schedule (default 10)")
    parser.add_argument("--seconds", type=float, help="of a turn (default 1)")
    parser.add_argument("--num-threads", type=int, help="threads of a run (default: one per core)")
    _common(parser, settings="a setting of A3C")


def asynchronous(args: argparse.Namespace) -> None:
    """Runs `paceline bench async`."""
    report = _run("async", args, "env", "learners", "envs", "turns", "seconds", "num_threads", "settings")
    print(json.dumps(report) if args.json else async_text(report))


def async_text(report: dict[str, Any]) -> str:
    o = report["options"]
    columns = ("learners", "envs each", "race/s", "recorded", "locks+rec.", "lognormal", "measured", "lag")
    lines = [
        f"A3C on {o['env']}, {report['threads']} threads, {report['isa']}; medians of {o['turns']} turns",
        "".join(f"{column:>12}" for column in columns),
    ]
    for r in report["results"]:
        cells = (
            str(r["learners"]), str(r["envs"]), f"{r['medians']['race']:,.0f}", f"{r['recording']:.3f}", f"{r['overhead']:.2%}",
            f"{r['lognormal']:.3f}", f"{r['measured']:.3f}", f"{r['lag']:.1f}",
        )  # fmt: skip
        lines.append("".join(f"{cell:>12}" for cell in cells))
    lines.append("recorded: a race over a race without a record. lognormal, measured: schedule virtual over a race.")
    return "\n".join(lines)


def latency_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--method", choices=("a3c", "ga3c"), default="ga3c")
    parser.add_argument("--env", help="default CartPole-v1")
    parser.add_argument("--num-envs", type=int, help="environments of a learner of a3c, agents of ga3c (default 16)")
    parser.add_argument("--steps", type=int, help="steps that are measured (default 20000)")
    parser.add_argument("--machine", help="System I, II or III of the GA3C paper: print its model as settings")
    parser.add_argument("--out", type=Path, help="the file to write, for latency_file")
    _common(parser, settings="a setting of the method")


def latency(args: argparse.Namespace) -> None:
    """Runs `paceline bench latency`."""
    if args.out and args.machine:
        raise PacelineError(f"--out: {args.out}, must not be given with --machine, whose model is settings")
    report = _run("latency", args, "method", "env", "num_envs", "steps", "machine", "settings")
    if args.out:
        with output(args.out) as path:
            path.write_text(json.dumps(report["durations"]))
    if args.json:
        print(json.dumps(report))
    elif args.machine:
        print("\n".join(f"{name}={value}" for name, value in sorted(report["model"].items())))
    else:
        for name, seconds in sorted(report["durations"].items()):
            ordered = sorted(seconds)
            print(f"{name:<12} {len(seconds):>6} values, median {1e6 * ordered[len(ordered) // 2]:,.2f} us")
