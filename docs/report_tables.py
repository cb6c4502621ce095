"""Reports of benchmarks as Markdown tables. A record that was not measured by docs/report.py has its tables in it."""

from __future__ import annotations

import statistics
from typing import Any

Row = list[str]
MODES = ("standard", "concurrent", "synchronized", "both")
LEARN_MODES = {"standard": "DQN, standard mode", "both": "DQN, concurrent and synchronized"}  # of learn.py

# What the ratios of train.py, value.py and onpolicy.py divide, by their names in the reports.
LABELS = {
    "train_w8_fp32_callback": "Paceline fp32, with a callback over without",
    "train_w8_fp32_vs_sb3": "Paceline fp32 over stable-baselines3",
    "train_w8_fp32_vs_torch_loop": "Paceline fp32 over the fastest PyTorch loop in fp32",
    "train_w8_bf16_vs_sb3": "Paceline bf16 over stable-baselines3 (fp32)",
    "train_w8_bf16_vs_torch_loop": "Paceline bf16 over the fastest PyTorch loop",
    "categorical_vs_dqn": "categorical over DQN, both of Paceline",
    "prioritized_vs_dqn": "prioritized over DQN, both of Paceline",
    "epsilon-rainbow_vs_dqn": "epsilon-rainbow over DQN, both of Paceline",
    "quantile_vs_dqn": "quantile over DQN, both of Paceline",
    "implicit_vs_dqn": "implicit over DQN, both of Paceline",
    "noisy_vs_dqn": "noisy over DQN, both of Paceline",
    "categorical_vs_torch_loop": "categorical of Paceline over the fastest PyTorch loop of C51",
    "a2c_vs_sb3": "A2C of Paceline over stable-baselines3",
    "ppo_vs_sb3_fp32": "PPO of Paceline in fp32 over stable-baselines3",
    "ppo_vs_torch_loop_fp32": "PPO of Paceline in fp32 over the PyTorch loop",
    "ppo_vs_torch_loop_faster_fp32": "PPO of Paceline in fp32 over the compiled PyTorch loop",
    "pqn_vs_torch_loop_fp32": "PQN of Paceline in fp32 over the PyTorch loop",
    "pqn_vs_torch_loop_faster_fp32": "PQN of Paceline in fp32 over the compiled PyTorch loop",
    "ppo_vs_sb3_bf16": "PPO of Paceline in bf16 over stable-baselines3 (fp32)",
    "ppo_vs_torch_loop_bf16": "PPO of Paceline in bf16 over the PyTorch loop (fp32)",
    "ppo_vs_torch_loop_faster_bf16": "PPO of Paceline in bf16 over the compiled PyTorch loop (fp32)",
    "pqn_vs_torch_loop_bf16": "PQN of Paceline in bf16 over the PyTorch loop (fp32)",
    "pqn_vs_torch_loop_faster_bf16": "PQN of Paceline in bf16 over the compiled PyTorch loop (fp32)",
    "alternating_of_slower": "groups=2, over the rate of the slower of acting and stepping alone",
}


def tables(record: dict[str, Any]) -> list[str]:
    """A record's tables, each with its title."""
    if "tables" in record:
        made = [(table["title"], table["columns"], table["rows"]) for table in record["tables"]]
    else:
        made = _MAKERS[record["name"]](record["report"])
    return [f"{title}\n\n{markdown(columns, rows)}" if title else markdown(columns, rows) for title, columns, rows in made]


def markdown(columns: Row, rows: list[Row]) -> str:
    lines = [[columns[0] or "what", *columns[1:]], ["---"] + ["---:"] * (len(columns) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def shortened(name: str, report: Any) -> Any:
    """What a record keeps of a report: of the tuner's seeds only the first one has its trace."""
    if name == "tuner":
        for machine in report["machines"]:
            for form in machine["forms"]:
                for run in form["runs"][1:]:
                    del run["trace"]
    return report


Made = list[tuple[str, Row, list[Row]]]


def _turns(report: dict[str, Any]) -> Made:
    rows = [
        [r["name"], rate(r["steps_per_second"]), rate(min(r["turns"])), rate(max(r["turns"]))]
        for r in sorted(report["results"], key=lambda r: not r["name"].startswith("paceline"))
    ]
    made: Made = [("Agent steps per second, medians of the turns.", ["", "median", "least", "most"], rows)]
    ratios = [[LABELS.get(name, name.replace("_", " ")), times(value)] for name, value in report["ratio"].items()]
    if ratios:
        made.append(("Medians of the turns' own ratios.", ["ratio of rates", "times as fast"], ratios))
    return made


def _pong(report: list[dict[str, Any]]) -> Made:
    sizes = sorted({r["num_envs"] for r in report})
    cells = {(r["mode"], r["num_envs"]): r["steps_per_second"] for r in report}
    labels = list(dict.fromkeys(r["mode"] for r in report))
    columns = ["", *(f"{n} environment{'s' * (n > 1)}" for n in sizes)]
    return [("", columns, [[label, *(rate(cells.get((label, n))) for n in sizes)] for label in labels])]


def _modes(report: dict[str, Any]) -> Made:
    made: Made = []
    for kind, title in (("wait", "a step that waits"), ("busy", "a step that computes")):
        cells = {(r["mode"], r["step_ms"]): r for r in report["results"] if r["kind"] == kind}
        costs = sorted({cost for _, cost in cells})
        rows = []
        for mode in MODES:
            found = [cells[mode, cost] for cost in costs]
            rows.append([mode, *(f"{r['median']:,.0f} of {r['limit']:,.0f}, {r['share']:.0%}" for r in found)])
        both = [cells["both", cost] for cost in costs]
        rows.append(["both over standard", *(f"{r['vs_standard']:.2f} of {r['limit_vs_standard']:.2f}" for r in both)])
        made.append(("", [title, *(f"{cost:g} ms" for cost in costs)], rows))
    return made


def mean_rates(cells: list[dict[str, Any]]) -> dict[int, dict[str, float]]:
    """Harmonic means over the games, by the number of environments and the contender."""
    sizes = sorted({cell["num_envs"] for cell in cells})
    out: dict[int, dict[str, float]] = {}
    for n in sizes:
        found = [cell["rates"] for cell in cells if cell["num_envs"] == n]
        names = [name for name in found[0] if all(name in rates for rates in found)]
        out[n] = {name: statistics.harmonic_mean([rates[name]["median"] for rates in found]) for name in names}
    return out


def _envs(report: dict[str, Any]) -> Made:
    means = mean_rates(report["results"])
    labels = list(dict.fromkeys(name for rates in means.values() for name in rates))
    rows = [[label, *(rate(rates.get(label)) for rates in means.values())] for label in labels]
    better: Row = ["ours over the better of envpool and ale-py, by game"]
    for n in means:
        values = [value for key, value in report["ratio"].items() if key.endswith(f"_{n}_vs_better")]
        better.append(f"{min(values):.2f} to {max(values):.2f}" if values else "")
    columns = ["", *(f"{n} environment{'s' * (n > 1)}" for n in means)]
    games = ", ".join(dict.fromkeys(cell["game"] for cell in report["results"]))
    return [(f"Steps per second, harmonic means over {games}.", columns, [*rows, better])]


def _emulator(report: dict[str, Any]) -> Made:
    rows = [["ale-py", rate(report["hmean"]["ale"]), "", "", ""]]
    labels = {"every": "ours, every frame drawn", "2of4": "ours, two of four drawn", "env": "ours as an environment"}
    for way, label in labels.items():
        games = sorted((game[f"{way}_vs_ale"], game["game"]) for game in report["games"])
        slowest, fastest = (f"{name} {value:.2f}" for value, name in (games[0], games[-1]))
        rows.append([label, rate(report["hmean"][way]), times(report["hmean"][f"{way}_vs_ale"]), slowest, fastest])
    title = f"Frames per second of one core, harmonic means over {len(report['games'])} games."
    return [(title, ["", "frames/s", "against ale-py", "slowest game", "fastest"], rows)]


def _update(report: dict[str, Any]) -> Made:
    ours = {(r["work"], r["batch"], r["threads"], r["precision"]): r["ms"] for r in report["ours"]}
    theirs = {(r["work"], r["batch"], r["threads"], r["kind"]): r["ms"] for r in report["theirs"]}
    kinds = list(dict.fromkeys(key[3] for key in theirs))
    rows = []
    for work, batch, threads in dict.fromkeys(key[:3] for key in ours):
        if work not in ("update", "act"):
            continue
        label = f"{'update of' if work == 'update' else 'acting,'} {batch}, {threads} thread{'s' * (threads > 1)}"
        mine = [ours.get((work, batch, threads, precision)) for precision in ("fp32", "bf16")]
        rows.append([label, *map(times, mine), *(times(theirs.get((work, batch, threads, kind))) for kind in kinds)])
    return [("Milliseconds, medians.", ["", "ours fp32", "ours bf16", *(f"torch {kind.replace('_', ' ')}" for kind in kinds)], rows)]


_WORKS = {"empty": "an empty call", "vec_step": "`vec_step`", "act mlp": "`act`, MLP of 64 and 64", "act cnn": "`act`, Nature CNN"}


def _ffi(report: dict[str, Any]) -> Made:
    columns = ("c", "cpp", "python", "kernels")
    rows = [
        [_WORKS[r["work"]] + (f", {r['rows']} row{'s' * (r['rows'] > 1)}" if r["rows"] else ""), *(times(r.get(c)) for c in columns)]
        for r in report["results"]
    ]
    return [("Microseconds of a call on one thread.", ["", "C", "C++", "Python", "kernels alone"], rows)]


def read_learn(text: str) -> list[dict[str, Any]]:
    """The rows that `make learn` prints."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 7 and words[2].isdigit():
            env, mode, seed, steps, reached, needed, seconds = words[:7]
            row = {
                "env": env, "mode": mode, "seed": int(seed), "steps": int(steps.replace(",", "")), "return": float(reached),
                "needed": float(needed), "seconds": float(seconds),
            }  # fmt: skip
            if words[-2] == "lag":
                row["lag"] = float(words[-1])
            rows.append(row)
    return rows


def _learn(report: list[dict[str, Any]]) -> Made:
    rows = []
    for env, mode in dict.fromkeys((r["env"], r["mode"]) for r in report):
        runs = [r for r in report if (r["env"], r["mode"]) == (env, mode)]
        seconds = [r["seconds"] for r in runs]
        rows.append(
            [f"{env}, {LEARN_MODES.get(mode, mode)}", rate(runs[0]["steps"]), f"{runs[0]['needed']:g}",
             ", ".join(f"{r['return']:.2f}" for r in runs), f"{min(seconds):.0f} to {max(seconds):.0f}"]
        )  # fmt: skip
    return [("Returns of three seeds.", ["", "steps", "needed", "reached", "seconds"], rows)]


def _learn_asynchronous(report: list[dict[str, Any]]) -> Made:
    ((title, columns, rows),) = _learn(report)
    for row, first in zip(rows, dict.fromkeys((r["env"], r["mode"]) for r in report), strict=True):
        lags = [r["lag"] for r in report if (r["env"], r["mode"]) == first]
        row.append(", ".join(f"{lag:.1f}" for lag in lags))
    return [(title, [*columns, "mean lag, updates"], rows)]


def _async(report: dict[str, Any]) -> Made:
    rows = [
        [f"{r['learners']} learners of {r['envs']}", rate(r["medians"]["race"]), times(r["lognormal"]), times(r["measured"]),
         times(r["recording"]), f"{r['overhead']:.1%}", f"{r['lag']:.1f}"]
        for r in report["results"]
    ]  # fmt: skip
    columns = [
        "", "a race, steps/s", "virtual, lognormal, over a race", "virtual, measured, over a race", "recorded over not recorded",
        "locks and recording", "mean lag, updates",
    ]  # fmt: skip
    o = report["options"]
    return [(f"A3C on {o['env']}: learners with environments each, medians of {o['turns']} turns.", columns, rows)]


_FLOW = (
    ("predictions a second", "pps", ",.0f"), ("updates a second", "tps", ",.0f"), ("rows of a prediction", "prediction_batch", ".1f"),
    ("rows of an update", "training_batch", ".1f"), ("prediction queue", "prediction_queue", ".1f"),
    ("training queue", "training_queue", ".1f"), ("mean lag, updates", "lag", ".1f"), ("largest lag", "lag_most", ".0f"),
)  # fmt: skip


def _ga3c(report: dict[str, Any]) -> Made:
    def numbers(flow: dict[str, Any]) -> str:
        return f"{flow['predictors']}, {flow['trainers']}, {flow['agents']}"

    systems = [(m["machine"], m["flow"]) for m in report["machines"]]
    rows = [
        ["paper: predictions a second of A3C", *(rate(m["a3c_pps"]) for m, _ in systems)],
        ["paper: predictions a second of GA3C", *(rate(m["ga3c_pps"]) for m, _ in systems)],
        ["predictors, trainers, agents", *(numbers(flow) for _, flow in systems)],
        *([label, *(f"{flow[key]:{form}}" for _, flow in systems)] for label, key, form in _FLOW),
    ]
    made: Made = [("The paper's machines in virtual time, with the small network.", ["", *(m["name"] for m, _ in systems)], rows)]
    races = [r for r in report["races"] if r["flow"]]
    if races:
        rows = [
            ["steps/s of A2C with 16 environments", *(rate(r["median"] / r["vs_a2c"]) for r in races)],
            ["steps/s over A2C's", *(times(r["vs_a2c"]) for r in races)],
            ["predictors, trainers, agents", *(numbers(r["flow"]) for r in races)],
            *([label, *(f"{r['flow'][key]:{form}}" for r in races)] for label, key, form in _FLOW),
        ]
        labels = {1: "segments of 5 steps, as the paper has them", 20: "segments joined to 20 steps", 40: "joined to 40"}
        env = report["options"]["env"]
        made.append((f"{env} on this machine's {report['threads']} threads, a race.", ["", *(labels[r["joined"]] for r in races)], rows))
    return made


def _gorila(report: dict[str, Any]) -> Made:
    plan = report["plan"]
    o, r, at = plan["options"], plan["result"], plan["saturation"]
    rows = []
    for p in report["points"]:
        rates = [f"{statistics.median(p[name]):.1f}" for name in ("measured", "predicted")]
        cores = [f"{1e3 * statistics.median(p[name]):.0f}" for name in ("measured_cores", "predicted_cores")]
        rows.append(
            [
                f"{p['bundles']} x {p['shards']}",
                *rates,
                times(p["ratio"]),
                *cores,
                times(p["cores_ratio"]),
                f"{statistics.median(p['others']):.1f}",
            ]
        )
    title = (
        f"{report['env']} on a local cluster of Ray {report['ray']} whose parts share {report['cores']} cores: medians of "
        f"{len(report['one'])} trials, calibrated with one bundle and one shard."
    )
    columns = [
        "bundles x shards", "measured, updates/s", "predicted", "predicted over measured", "measured, core ms of an update", "predicted",
        "predicted over measured", "cores that other programs used",
    ]  # fmt: skip
    made: Made = [(title, columns, rows)]
    rows = [
        ["updates/s", rate(r["updates_per_second"])],
        ["steps/s", rate(r["steps_per_second"])],
        ["updates/s of one bundle alone", f"{plan['one']:.1f}"],
        ["mean lag, updates", f"{r['lag']:.1f}"],
        ["largest lag", f"{r['lag_most']}"],
        *([f"gradients with a lag of {part['from']} to {part['to']}", f"{part['share']:.1%}"] for part in r["lags"]),
        [f"{at['resource']} saturate at, updates/s", rate(at["updates_per_second"])],
        *([f"{use['name']}: used", f"{use['used']:.0%}"] for use in r["resources"]),
        *([f"{use['name']}: MB/s each", f"{use['bytes_per_second'] / 1e6:.1f}"] for use in r["resources"] if use["bytes_per_second"]),
    ]
    title = (
        f"A prediction: each part on a machine of its own, links of {o['gbits']:g} Gb/s and {o['latency_ms']:g} ms (assumed), "
        f"two keepers with a copy of each shard every {o['keep']} updates."
    )
    made.append((title, ["", f"{o['bundles']} bundles, {o['shards']} shards"], rows))
    rows = []
    for p in plan["points"]:
        here, enough, best = (rate(p[name]["updates_per_second"]) for name in ("here", "enough", "best"))
        rows.append([str(p["bundles"]), here, str(p["shards"]), enough, p["enough"]["limit"], str(p["best_shards"]), best])
    columns = [
        "bundles",
        f"updates/s with {o['shards']} shards",
        "shards",
        "updates/s",
        "used most",
        "best shards",
        "updates/s of the best",
    ]
    made.append(("The smallest number of shards with 95 % of the highest rate of any number, predicted.", columns, rows))
    return made


def _gorila_values(report: dict[str, Any]) -> Made:
    games = ("Breakout", "Seaquest", "Pong")
    rows = []
    for e in report["entries"]:
        values = e["values"]
        sigma = values["latency_gradient"].split(":")[1]
        rows.append([
            *(f"{values[name]:g}" for name in ("learning_rate", "optimizer_eps", "max_staleness", "outliers")), sigma, rate(e["updates"]),
            *(", ".join(f"{r:.1f}" for r in e["returns"].get(game, [])) for game in games),
            *(f"{100 * e[what]:.2f} %" for what in ("refused", "dropped")),
        ])  # fmt: skip
    columns = ["learning rate", "constant", "threshold", "deviations", "sigma of the delay", "updates", *games, "refused", "dropped"]
    title = "Means of the last 100 training episodes of each seed; shares of pushes that were refused and of gradients that were dropped."
    return [(title, columns, rows)]


def _gorila_learn(report: list[dict[str, Any]]) -> Made:
    rows = [
        [f"{r['env']}, seed {r['seed']}", f"{r['number']:.2f}", f"{r['threshold']:g}", rate(r["updates"]), f"{r['seconds']:,.0f}"]
        for r in report
    ]  # fmt: skip
    title = "Mean return of 100 episodes at the end; of Pong the rise of the mean return of 100 training episodes."
    return [(title, ["", "reached", "needed", "updates", "seconds"], rows)]


def _gorila_overhead(report: dict[str, Any]) -> Made:
    pairs = {"an update for four steps, delay=1": report, "Algorithm 1 as printed: an update and a pull for every step": report["printed"]}
    rows = [[what, *(rate(p[of]["steps"]) for of in ("process", "ray")), f"{100 * p['ratio']:.0f} %"] for what, p in pairs.items()]
    made: Made = [("Medians of turns, with pin.", ["", "one process, steps/s", "Ray", "Ray over one process"], rows)]
    columns = ["", "steps/s", "bytes of an update: gradient", "parameters", "puts an update"]
    rows = [
        [name, rate(row["steps"]), *(rate(row[what]) for what in ("bytes_sent", "bytes_read")), f"{row['publications']:.2f}"]
        for name, row in report["ways"].items()
    ]
    made.append(
        ("Ways to send, an update for four steps and delay=1. 100 KB of parameters travel in an answer, more as an object.", columns, rows)
    )
    return made


def _gorila_faults(report: dict[str, Any]) -> Made:
    stats, ledgers, returns = report["stats"], report["ledgers"], [value for _, value in report["evaluations"]]
    rows = [[part, str(row["kills"]), f"{row['median']:.1f} s", f"{row['worst']:.1f} s"] for part, row in report["parts"].items()]
    title = f"A node's seconds begin when Ray declares it dead, {report['detection']:.1f} s (median) after its end."
    made: Made = [(title, ["what was killed", "times", "back after, median", "worst"], rows)]
    counts = {
        "updates": stats["updates"], "updates lost, as was said": stats["lost_updates"],
        "updates lost, by the ledgers of shards": ledgers["lost"],
        "answers under way when shards ended, at most": report["lost_most"],
        "transitions lost with replay memories": stats["lost_transitions"], "steps lost with actors, at most": stats["lost_steps"],
        "pushes refused as too old, of all shards": stats["refused"], "pushes that arrived twice": stats["duplicates"],
        "lives": ledgers["lives"], "lives whose ledgers are equal": ledgers["equal"],
        "lives that ended whole, and whose ledgers differ": ledgers["unequal"],
        "most answers of a life that its learner has not heard": ledgers["in_flight"],
        "answers that no shard knows": ledgers["unknown"],
    }  # fmt: skip
    made.append(("Counts of the run.", ["", ""], [[what, rate(count)] for what, count in counts.items()]))
    rows = [
        [part, str(len(slopes)), f"{statistics.median(slopes):+.2f}", f"{max(slopes):+.2f}"] for part, slopes in report["slopes"].items()
    ]  # fmt: skip
    rows.append(["Ray's own processes", "", f"{report['ray']['slope']:+.2f}", ""])
    made.append(("Growth of private memory in MB an hour.", ["", "processes older than 10 minutes", "median", "most"], rows))
    reached = sum(value >= 475 for value in returns)
    rows = [[f"{report['mean_return']:.1f}", f"{max(returns):.1f}", f"{reached} of {len(returns)}"]]
    made.append(("Mean returns of 20 episodes, about once a minute.", ["at the end", "most", "at least 475"], rows))
    return made


def _tuner(report: dict[str, Any]) -> Made:
    def numbers(n: dict[str, Any]) -> str:
        return f"{n['predictors']}/{n['trainers']}/{n['agents']}"

    rows = []
    for m in report["machines"]:
        for form in m["forms"]:
            shares = [run["share"] for run in form["runs"]]
            rows.append(
                [f"{m['machine']['name']}, {form['form']}", f"{form['within']} of {len(shares)}", times(min(shares)),
                 times(statistics.median(shares)), numbers(form["runs"][0]["found"]), numbers(m["grid"][0])]
            )  # fmt: skip
    o = report["options"]
    title = (
        f"Updates a second of the numbers that the tuner found in {o['periods']} periods of {o['period_s']:g} virtual seconds, from "
        f"{'/'.join(map(str, o['start']))}, over those of the best of the grid."
    )
    columns = ["", f"seeds that reach {o['within']:g}", "least", "median", "found, first seed", "best of the grid"]
    return [(title, columns, rows)]


def _continuous(report: dict[str, Any]) -> Made:
    def mean(part: dict[str, Any]) -> str:
        seeds = len(part["seeds"])
        return f"{part['mean']:,.1f} ± {part['error']:.1f}" + (f", {seeds} seeds" if seeds != 5 else "")

    rows = [
        [f"{e['method'].upper()}, {e['env']}", rate(e["steps"]) + (f" of {rate(e['of'])}" if e["of"] != e["steps"] else ""),
         mean(e["paceline"]), mean(e["stable-baselines3"]), f"{e['difference_in_errors']:+.1f}", times(e["speed"]["times_as_fast"])]
        for e in report["entries"]
    ]  # fmt: skip
    columns = ["", "steps", "paceline", "stable-baselines3", "difference, standard errors", "times as fast"]
    return [("Means with their standard errors, of five seeds where no number is given.", columns, rows)]


def _small_games(report: dict[str, Any]) -> Made:
    methods = ("dqn", "c51", "qr", "pqn")

    def cell(entry: dict[str, Any], method: str) -> str:
        part = entry.get(method)
        return "" if part is None else f"{times(part['mean'])} ({', '.join(times(r) for r in part['returns'])})"

    entries = report["entries"]
    rows = [[f"{e['game']}, {rate(e['steps'])} steps", *(cell(e, method) for method in methods)] for e in entries]
    made: Made = [("Means of the last 100 training episodes, of all seeds and (of each).", ["", "DQN", "C51", "QR-DQN", "PQN"], rows)]
    rows = [[f"{r['method']}, {r['machine']}", str(r["runs"]), f"{r['minutes']:.1f}"] for r in report.get("minutes", ())]
    if rows:
        made.append(("Processor minutes of a run on one thread, where the machine is known.", ["", "runs", "median"], rows))
    rows = [[r["game"], *(rate(r[what]) for what in ("env", "dqn", "pqn"))] for r in report["rates"]]
    made.append(("Steps per second with all cores.", ["", "256 games alone", "DQN trains, 8 games", "PQN trains, 128 games"], rows))
    return made


def _dopamine(report: dict[str, Any]) -> Made:
    rows = []
    for e in report["entries"]:
        published = "" if e["published"] is None else f"{e['published']:.2f} ± {e['published_sd']:.2f}"
        sd = "" if e["sd"] is None else f" ± {e['sd']:.2f}"
        away = "" if e["deviations"] is None else f"{e['deviations']:+.1f}"
        seeds = ", ".join(f"{mean:.2f}" for mean in e["means"])
        part = "" if e["steps"] == 250_000 else f", its first {e['steps']:,} steps"
        rows.append([f"{e['game']}, {e['agent']}, iteration {e['iteration']}{part}", f"{e['mean']:.2f}{sd}", seeds, published, away])
    title = "Mean training return of all episodes of an iteration of 250,000 steps, with the standard deviation over seeds."
    return [(title, ["", "ours", "seeds", "Dopamine's", "difference, published deviations"], rows)]


_MAKERS = {
    "train": _turns, "value": _turns, "onpolicy": _turns, "pong": _pong, "modes": _modes, "envs": _envs, "emulator": _emulator,
    "update": _update, "ffi": _ffi, "learn": _learn, "small-games": _small_games, "learn-asynchronous": _learn_asynchronous,
    "async": _async, "async-pong": _async, "ga3c": _ga3c, "gorila": _gorila, "gorila-values": _gorila_values, "tuner": _tuner,
    "continuous": _continuous, "dopamine": _dopamine, "dopamine-long": _dopamine, "dopamine-iqn": _dopamine,
    "gorila-learn": _gorila_learn, "gorila-overhead": _gorila_overhead, "gorila-faults": _gorila_faults,
    "gorila-faults-apart": _gorila_faults,
}  # fmt: skip
