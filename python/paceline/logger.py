"""Named numbers over a run, under Stable-Baselines3's keys."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from .errors import ConfigError


class Logger:
    """Collects values and writes them at each dump: as a table, to TensorBoard, or nowhere."""

    def __init__(self, table: TextIO | None = None, folder: str | os.PathLike[str] | None = None) -> None:
        self.name_to_value: dict[str, Any] = {}
        self._table = table
        self._events = _event_writer(folder) if folder is not None else None
        self.dir = None if folder is None else str(folder)

    def record(self, key: str, value: Any, exclude: Any = None) -> None:
        """Sets a value for the next dump. exclude is accepted for Stable-Baselines3's callbacks."""
        self.name_to_value[key] = value

    def dump(self, step: int = 0) -> None:
        """Writes what was recorded since the last dump."""
        if self._table is not None:
            print(_format(self.name_to_value), file=self._table, flush=True)
        if self._events is not None:
            _write_events(self._events, self.name_to_value, step)
        self.name_to_value = {}

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None


def make_logger(verbose: int, folder: str | None, run: str, new_run: bool) -> Logger:
    """The logger of one call of learn: a new folder <run>_1, <run>_2 ... for each new run."""
    if folder is not None:
        taken = [
            int(match.group(1)) for path in Path(folder).glob(f"{run}_*") if (match := re.fullmatch(re.escape(run) + r"_(\d+)", path.name))
        ]
        number = max(taken, default=0) + (1 if new_run or not taken else 0)
        folder = os.path.join(folder, f"{run}_{number}")
    return Logger(sys.stdout if verbose >= 1 else None, folder)


def _format(values: dict[str, Any]) -> str:
    """The two-column table, grouped by the part of the key before the slash."""
    lines: list[tuple[str, str]] = []
    group = None
    for key, value in sorted(values.items()):
        head, _, name = key.rpartition("/")
        if head != group:
            group = head
            lines.append((f"{head}/", ""))
        lines.append((f"   {name}", f"{value:.4g}" if isinstance(value, float) else str(value)))
    left = max((len(name) for name, _ in lines), default=0)
    right = max((len(text) for _, text in lines), default=0)
    rule = "-" * (left + right + 7)
    return "\n".join([rule, *(f"| {name:<{left}} | {text:<{right}} |" for name, text in lines), rule])


def _event_writer(folder: str | os.PathLike[str]) -> Any:
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError:
        raise ConfigError("tensorboard_log: needs the package tensorboard (pip install 'paceline[tensorboard]')") from None
    return EventFileWriter(str(folder))


def _write_events(writer: Any, values: dict[str, Any], step: int) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    text = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    entries = [Summary.Value(tag=k, simple_value=float(v)) for k, v in values.items() if isinstance(v, (int, float))]
    for name, value in values.items():
        if isinstance(value, str):
            tensor = TensorProto(dtype=DT_STRING, string_val=[value.encode()])
            entries.append(Summary.Value(tag=name, metadata=text, tensor=tensor))
    writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=entries)))
    writer.flush()
