"""Loggers of named numbers, with stable-baselines3's interface and keys.

    model.set_logger(configure("logs", ["stdout", "csv", "tensorboard"]))

A Logger of stable-baselines3 works as well, and also writes figures, videos and histograms.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partialmethod
from pathlib import Path
from typing import Any, Protocol, TextIO

from .errors import ConfigError, notice

FORMATS = ("stdout", "log", "json", "csv", "tensorboard")


class Output(Protocol):
    """A destination of a Logger; values are numbers and texts."""

    def write(self, values: Mapping[str, object], step: int) -> None: ...
    def close(self) -> None: ...


class Logger:
    """Collects values and writes them at each dump.

    outputs: destinations by the name of their format. folder: the folder of files (dir). level: the
    lowest level of messages that log prints, 10 (debug) to 40 (error).
    """

    level = 20

    def __init__(self, outputs: Mapping[str, Output] | None = None, folder: str | None = None) -> None:
        self.name_to_value: defaultdict[str, Any] = defaultdict(float)
        self._excluded: dict[str, tuple[str, ...]] = {}
        self._means: dict[str, int] = {}
        self._outputs = dict(outputs or {})
        self._dropped: set[str] = set()
        self.dir = folder

    def record(self, key: str, value: Any, exclude: str | tuple[str, ...] | None = None) -> None:
        """Sets a value for the next dump. exclude: the formats that leave it out."""
        self.name_to_value[key] = value
        self._excluded[key] = (exclude,) if isinstance(exclude, str) else exclude or ()

    def record_mean(self, key: str, value: float | None, exclude: str | tuple[str, ...] | None = None) -> None:
        """Adds a value to a key's mean for the next dump; None is ignored."""
        if value is None:
            return
        n = self._means.get(key, 0)
        self.record(key, (self.name_to_value[key] * n + value) / (n + 1) if n else value, exclude)
        self._means[key] = n + 1

    def dump(self, step: int = 0) -> None:
        """Writes the values recorded since the last dump."""
        for format, output in self._outputs.items():
            chosen = {key: value for key, value in self.name_to_value.items() if format not in self._excluded.get(key, ())}
            output.write({key: value for key, value in chosen.items() if self._writes(key, value)}, step)
        for recorded in (self.name_to_value, self._excluded, self._means):
            recorded.clear()

    def _writes(self, key: str, value: object) -> bool:
        if isinstance(value, (str, int, float)) or (hasattr(value, "item") and getattr(value, "size", 1) == 1):
            return True
        kind = type(value).__name__
        if kind not in self._dropped:
            self._dropped.add(kind)
            notice(f"logger: {key}: a {kind}, must be a number or a text; stable-baselines3's Logger (set_logger) writes other types")
        return False

    def log(self, *texts: object, level: int = 20) -> None:
        """Prints a message if "stdout" is one of the formats."""
        if "stdout" in self._outputs and level >= self.level:
            print(*texts, flush=True)

    debug, info = partialmethod(log, level=10), partialmethod(log, level=20)
    warn, error = partialmethod(log, level=30), partialmethod(log, level=40)

    def set_level(self, level: int) -> None:
        self.level = level

    @property
    def output_formats(self) -> tuple[Any, ...]:
        """The destinations of dump.

        If stable-baselines3 is imported, TensorBoard's is a TensorBoardOutputFormat, whose writer
        is PyTorch's SummaryWriter.
        """
        for name, output in self._outputs.items():
            if isinstance(output, _TensorBoard) and "stable_baselines3.common.logger" in sys.modules:
                self._outputs[name] = output.as_sb3s()
        return tuple(self._outputs.values())

    def get_dir(self) -> str | None:
        return self.dir

    def close(self) -> None:
        for output in self._outputs.values():
            output.close()
        self._outputs = {}


def configure(folder: str | os.PathLike[str] | None = None, format_strings: Iterable[str] | None = None) -> Logger:
    """Makes a logger.

    folder: the folder of files; None: a new temporary folder. format_strings: some of stdout, log,
    json, csv and tensorboard; None: $SB3_LOG_FORMAT, or stdout, log and csv.
    """
    made = tempfile.mkdtemp(prefix="paceline-") if folder is None else os.fspath(folder)
    os.makedirs(made, exist_ok=True)
    names = os.environ.get("SB3_LOG_FORMAT", "stdout,log,csv").split(",") if format_strings is None else list(format_strings)
    return Logger({name: _output(name, Path(made)) for name in names if name}, made)


def _output(name: str, folder: Path) -> Output:
    match name:
        case "stdout":
            return _Table(sys.stdout)
        case "log":
            return _Table((folder / "log.txt").open("w"), own=True)
        case "json":
            return _JSON((folder / "progress.json").open("w"))
        case "csv":
            return _CSV(folder / "progress.csv")
        case "tensorboard":
            return _TensorBoard(folder)
    raise ConfigError(f"format_strings: {name!r}, must be {', '.join(FORMATS)}")


def make_logger(verbose: int, folder: str | None, run: str, new_run: bool) -> Logger:
    """The logger of one call of learn. Each new run has a new folder <run>_1, <run>_2 ...

    Raises ConfigError if the folder, the argument tensorboard_log, cannot be used.
    """
    outputs: dict[str, Output] = {"stdout": _Table(sys.stdout)} if verbose >= 1 else {}
    if folder is not None:
        try:
            folder = _run_folder(os.fsdecode(folder), run, new_run)
            os.makedirs(folder, exist_ok=True)
        except TypeError:
            raise ConfigError(f"tensorboard_log: {folder!r}, must be a path or None") from None
        except OSError as err:
            raise ConfigError(f"tensorboard_log: {folder}: {err.strerror}, must be a folder that can be written") from None
        outputs["tensorboard"] = _TensorBoard(Path(folder))
    return Logger(outputs, folder)


def _run_folder(folder: str, run: str, new_run: bool) -> str:
    """The folder of a run: of the next free number, or of the highest one if the run is not new. run may contain slashes."""
    parent, name = os.path.split(os.path.join(folder, run))
    names = os.listdir(parent) if os.path.isdir(parent) else []
    taken = [int(match.group(1)) for each in names if (match := re.fullmatch(re.escape(name) + r"_(\d+)", each))]
    number = max(taken, default=0) + (1 if new_run or not taken else 0)
    return os.path.join(parent, f"{name}_{number}")


class _Table:
    """Prints a table of two columns, grouped by the part of the key before the slash."""

    def __init__(self, to: TextIO, own: bool = False) -> None:
        self._to, self._own = to, own

    def write(self, values: Mapping[str, object], step: int) -> None:
        print(_format(values), file=self._to, flush=True)

    def close(self) -> None:
        if self._own:
            self._to.close()


class _JSON:
    """Writes a line of JSON for each dump."""

    def __init__(self, to: TextIO) -> None:
        self._to = to

    def write(self, values: Mapping[str, object], step: int) -> None:
        print(json.dumps({key: _plain(value) for key, value in values.items()}), file=self._to, flush=True)

    def close(self) -> None:
        self._to.close()


class _CSV:
    """Writes a row for each dump. A new column rewrites the file."""

    def __init__(self, path: Path) -> None:
        self._path, self._names, self._rows = path, dict[str, None](), list[dict[str, object]]()
        path.write_text("")

    def write(self, values: Mapping[str, object], step: int) -> None:
        known = len(self._names)
        self._names |= dict.fromkeys(values)
        self._rows.append({key: _plain(value) for key, value in values.items()})
        whole = len(self._names) > known
        with self._path.open("w" if whole else "a", newline="") as file:
            writer = csv.DictWriter(file, list(self._names))
            if whole:
                writer.writeheader()
            writer.writerows(self._rows if whole else self._rows[-1:])

    def close(self) -> None:
        pass


class _TensorBoard:
    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise ConfigError("tensorboard_log: needs the package tensorboard (pip install 'paceline[tensorboard]')") from None
        self._folder, self._writer = folder, EventFileWriter(str(folder))

    def write(self, values: Mapping[str, Any], step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING

        text = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        entries = []
        for name, value in values.items():
            if isinstance(value, str):
                tensor = TensorProto(dtype=DT_STRING, string_val=[value.encode()])
                entries.append(Summary.Value(tag=name, metadata=text, tensor=tensor))
            else:
                entries.append(Summary.Value(tag=name, simple_value=float(value)))
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=entries)))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    @property
    def writer(self) -> Any:
        """Raises AttributeError: only stable-baselines3's class has a SummaryWriter."""
        raise AttributeError(
            "writer: none, must come from stable-baselines3: import it before output_formats is read, or call "
            "model.set_logger(stable_baselines3.common.logger.configure(folder, ['tensorboard']))"
        )

    def as_sb3s(self) -> Output:
        """Closes this output; returns stable-baselines3's class with a second file in the same folder."""
        from stable_baselines3.common.logger import TensorBoardOutputFormat

        class TensorBoard(TensorBoardOutputFormat):  # type: ignore[misc,unused-ignore]
            def write(self, key_values: Mapping[str, object], key_excluded: Any, step: int | None = None) -> None:
                if step is None:  # called with Output.write's two arguments
                    key_excluded, step = dict.fromkeys(key_values, ()), key_excluded
                super().write(dict(key_values), key_excluded, step)

        self.close()
        made: Output = TensorBoard(str(self._folder))
        return made


def _plain(value: Any) -> Any:
    """A Python number for a scalar of NumPy or PyTorch; other values unchanged."""
    return value.item() if hasattr(value, "item") else value


def _format(values: Mapping[str, object]) -> str:
    lines: list[tuple[str, str]] = []
    group = None
    for key, value in sorted((key, _plain(value)) for key, value in values.items()):
        head, _, name = key.rpartition("/")
        if head != group:
            group = head
            lines.append((f"{head}/", ""))
        lines.append((f"   {name}", f"{value:.4g}" if isinstance(value, float) else str(value)))
    left = max((len(name) for name, _ in lines), default=0)
    right = max((len(text) for _, text in lines), default=0)
    rule = "-" * (left + right + 7)
    return "\n".join([rule, *(f"| {name:<{left}} | {text:<{right}} |" for name, text in lines), rule])
