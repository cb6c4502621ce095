"""`paceline bench gorila`: Gorila on many machines, simulated in virtual time from measured costs: a prediction."""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

from .._files import output
from ..errors import CheckpointError, ConfigError, MissingFileError

_OPTIONS = ("bundles", "shards", "steps", "delay", "keep", "cores", "gbits", "latency_ms", "updates", "seed", "scale", "env")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}, must be integers with commas between them") from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundles", type=int, help="learners with an actor and a replay memory each (default 100)")
    parser.add_argument("--shards", type=int, help="of the parameter server (default 31)")
    parser.add_argument("--steps", type=int, help="steps of a bundle between two updates (default 4)")
    parser.add_argument("--delay", type=int, help="updates of a bundle that may be under way while it goes on (default 1; 0: it waits)")
    parser.add_argument("--keep", type=int, help="updates of a shard between two copies for the two keepers (default 100; 0: no copies)")
    parser.add_argument("--cores", type=float, help="cores of one machine that has all parts (default 0: a machine for each part)")
    parser.add_argument("--gbits", type=float, help="assumed speed of the network, Gb/s a link in each direction (default 10)")
    parser.add_argument("--latency-ms", type=float, help="assumed latency of the network (default 0.1)")
    parser.add_argument("--scale", type=_numbers, help="numbers of bundles for which shards are searched; '' for none "
                        "(default 10,32,100,316,1000)")  # fmt: skip
    parser.add_argument("--updates", type=int, help="simulated server updates, at least 4 of each bundle (default 1000)")
    parser.add_argument("--seed", type=int, help="default 1")
    parser.add_argument("--env", help="game whose steps and gradients are measured here (default Pong)")
    parser.add_argument("--costs", type=Path, help="a JSON object of costs, in place of those of this machine")
    parser.add_argument("--csv", type=Path, help="a file for the table of bundles")
    parser.add_argument("--plot", type=Path, help="a file for the figure: .png, .svg, .pdf ... (needs matplotlib)")
    parser.add_argument("--report", type=Path, help="a file for the report as JSON")


def main(args: argparse.Namespace) -> None:
    """Runs `paceline bench gorila`."""
    from .. import plots
    from . import run

    given = {name: getattr(args, name) for name in _OPTIONS if getattr(args, name) is not None}
    if args.plot:
        plots.check_format(args.plot, "--plot")
    if args.costs:
        given["costs"] = _costs(args.costs)
    report = run("gorila", given)
    if args.report:
        with output(args.report) as path:
            path.write_text(json.dumps(report))
    if args.csv:
        with output(args.csv) as path:
            write_csv(path, report)
    print(json.dumps(report) if args.json else text(report))
    if args.plot:
        with output(args.plot) as path:
            plots.save_cluster(path, report)


def _refused(constant: str) -> None:
    raise ValueError(constant)


def _costs(path: Path) -> dict[str, Any]:
    try:
        costs = json.loads(path.read_text("utf-8"), parse_constant=_refused)
    except FileNotFoundError:
        raise MissingFileError(f"costs: {path}: no such file") from None
    except OSError as err:
        raise CheckpointError(f"costs: {path}: not read: {err.strerror}") from None
    except ValueError as err:
        raise ConfigError(f"costs: {path}: {err}, must be a JSON object") from None
    if not isinstance(costs, dict):
        raise ConfigError(f"costs: {path}: {type(costs).__name__}, must be a JSON object")
    return costs


def lag_names(lags: list[dict[str, Any]]) -> list[str]:
    """Names of the parts of a histogram of lags, such as 7 and 8-9."""
    return [f"{part['from']}" if part["from"] == part["to"] else f"{part['from']}-{part['to']}" for part in lags]


def text(report: dict[str, Any]) -> str:
    o, r, saturation = report["options"], report["result"], report["saturation"]
    shared = f"all on one machine of {o['cores']:g} cores" if o["cores"] else "each on a machine of its own"
    alone = report["one"] * o["bundles"]
    lines = [f"prediction: {o['bundles']:,} bundles, {o['shards']} shards, two keepers, {shared}"]
    if not o["cores"]:
        lines.append(f"assumed: links of {o['gbits']:g} Gb/s in each direction, {o['latency_ms']:g} ms; a network that does not limit them")
    lines += [*_sources(report), ""]
    lines += [
        f"updates/s    {r['updates_per_second']:,.0f}: {r['updates_per_second'] / alone:.0%} of {o['bundles']:,} times the "
        f"{report['one']:,.1f} of one bundle alone",
        f"steps/s      {r['steps_per_second']:,.0f}",
        f"lag          {r['lag']:.1f} updates of others in the mean, {r['lag_most']} at most",
        f"saturates    {saturation['resource']}, at {saturation['updates_per_second']:,.0f} updates/s, "
        f"{saturation['bundles']:,.0f} times those of one bundle alone",
        "",
        f"{'resource':<22}{'used':>8}{'updates/s at most':>20}{'MB/s a link':>14}",
    ]
    for use in r["resources"]:
        most = f"{use['most']:,.0f}" if use["most"] else "no limit"
        link = f"{use['bytes_per_second'] / 1e6:,.1f}" if use["bytes_per_second"] else ""
        lines.append(f"{use['name']:<22}{use['used']:>8.1%}{most:>20}{link:>14}")
    lines += ["", "lag"]
    lines += [f"{name:<22}{part['share']:>8.1%}" for name, part in zip(lag_names(r["lags"]), r["lags"]) if part["share"]]
    if report["points"]:
        lines += ["", *_points(report)]
    return "\n".join(lines)


def _sources(report: dict[str, Any]) -> list[str]:
    said = {"here": "measured here", "file": "from the file", "recorded": f"recorded on {report['recorded']}", "assumed": "assumed"}
    lines = []
    for source, what in said.items():
        names = [name for name, at in report["sources"].items() if at == source]
        if names:
            lines.append(f"costs {what}: {', '.join(names)}")
    return lines


def _points(report: dict[str, Any]) -> list[str]:
    shards = report["options"]["shards"]
    lines = [
        f"{'':>8}{f'{shards} shards':>13}{'highest rate of any':>29}{'smallest with 95 % of it':>35}",
        f"{'bundles':>8}{'updates/s':>13}{'shards':>18}{'updates/s':>11}{'shards':>18}{'updates/s':>11}  used most",
    ]
    for p in report["points"]:
        here, best, enough = (p[name]["updates_per_second"] for name in ("here", "best", "enough"))
        lines.append(
            f"{p['bundles']:>8,}{here:>13,.0f}{p['best_shards']:>18}{best:>11,.0f}{p['shards']:>18}{enough:>11,.0f}  {p['enough']['limit']}"
        )
    return lines


_RESULT = ("updates_per_second", "steps_per_second", "lag", "lag_most", "limit")
_COLUMNS = ("bundles", "shards", *_RESULT, "best_shards", "best_updates_per_second", "smallest_shards", "smallest_updates_per_second",
            "smallest_limit")  # fmt: skip


def write_csv(path: Path, report: dict[str, Any]) -> None:
    """Writes a line for each number of bundles; the cluster of the options is one if it is not of the scale."""
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(_COLUMNS)
        for bundles, here, p in rows(report):
            searched: list[Any] = [""] * 5
            if p:
                searched = [p["best_shards"], p["best"]["updates_per_second"], p["shards"], p["enough"]["updates_per_second"],
                            p["enough"]["limit"]]  # fmt: skip
            lines.writerow([bundles, report["options"]["shards"], *(here[name] for name in _RESULT), *searched])


def rows(report: dict[str, Any]) -> list[tuple[int, dict[str, Any], dict[str, Any] | None]]:
    """(bundles, their result with the shards of the options, their point of the scale), by bundles."""
    found: dict[int, tuple[int, dict[str, Any], dict[str, Any] | None]]
    found = {report["options"]["bundles"]: (report["options"]["bundles"], report["result"], None)}
    found |= {p["bundles"]: (p["bundles"], p["here"], p) for p in report["points"]}
    return [found[n] for n in sorted(found)]
