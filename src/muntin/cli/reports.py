"""What a run says while it works and at its end: for people, or as JSON for programs."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from muntin.cli.pipeline.sinks import as_json

_SHOWN = 40  # rows on a terminal


@dataclass
class Counts:
    """What a run has done so far."""

    records: int = 0
    windows: int = 0  # rows that came out: windows and corrections
    late: int = 0  # records that came too late for any window
    watermark: str | None = None
    batches: int = 0
    of: int | None = None  # batches in all; None if nobody knows
    null_times: int = 0  # records of an endless source that had no time, and were left out


class Report:
    """Shows a bar on a terminal, prints a line for each step as JSON, or neither."""

    def __init__(self, pipeline: str, *, as_lines: bool) -> None:
        self._pipeline, self._as_lines = pipeline, as_lines
        self._began = time.monotonic()
        self._before = 0  # records of earlier runs
        self._bar: Progress | None = None
        errors = Console(stderr=True)
        if not as_lines and errors.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(20),
                TextColumn("{task.fields[told]}", markup=False),
                console=errors,
            )
            self._task = self._bar.add_task(pipeline, total=None, told="starting")
            self._bar.start()

    def resumed(self, counts: Counts) -> None:
        """Say that an earlier run goes on."""
        self._before = counts.records
        if self._as_lines:
            self._line("resumed", counts)
        else:
            _say(f"{self._pipeline}: goes on after {counts.batches} batches.")

    def step(self, counts: Counts) -> None:
        """Show how far it has come."""
        if self._as_lines:
            self._line("progress", counts)
        elif self._bar is not None:
            told = f"{counts.records:,} records, {self._speed(counts):,.0f}/s, {counts.windows:,} rows"
            told += f", {counts.late:,} late"
            if counts.watermark:
                told += f", watermark {counts.watermark[:19]}"
            self._bar.update(self._task, completed=counts.batches, total=counts.of, told=told)

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def end(
        self, counts: Counts, rows: int, where: str | None, *, interrupted: bool, checkpoint: str | None
    ) -> None:
        """Say what came of it."""
        self.stop()
        if self._as_lines:
            said = "interrupted" if interrupted else "end"
            self._line(said, counts, rows=rows, sink=where, checkpoint=checkpoint)
            return
        how = "interrupted after" if interrupted else "done:"
        text = f"{self._pipeline}: {how} {counts.records:,} records in {self._seconds():.1f} s, {rows:,} rows"
        text += f" in {where}." if where else "."
        if counts.late:
            text += f" {counts.late:,} records came too late: raise watermark or lateness to count them."
        if counts.null_times:
            text += f" {counts.null_times:,} records had no time, and were left out."
        if interrupted and checkpoint:
            text += " Run it again to go on."
        _say(text)

    def rows(self, rows: pa.Table) -> None:
        """Show rows: all as lines of JSON, the first of them on a terminal."""
        self.stop()
        if self._as_lines:
            for row in rows.to_pylist():
                self._print({"event": "row", "pipeline": self._pipeline, "row": row})
            return
        names = [name for name in rows.column_names if rows[name].null_count < rows.num_rows]
        table = Table(box=None, header_style="bold")
        for name in names:
            table.add_column(Text(name))
        for row in rows.slice(0, _SHOWN).select(names).to_pylist():
            table.add_row(*(Text(_shown(value)) for value in row.values()))
        Console().print(table)
        if rows.num_rows > _SHOWN:
            _say(f"... and {rows.num_rows - _SHOWN:,} more rows: a sink with a path keeps all.")

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _speed(self, counts: Counts) -> float:
        return (counts.records - self._before) / max(self._seconds(), 1e-9)

    def _line(self, event: str, counts: Counts, **more: Any) -> None:
        facts = {"event": event, "pipeline": self._pipeline, **asdict(counts), **more}
        self._print({**facts, "seconds": round(self._seconds(), 3)})

    @staticmethod
    def _print(facts: dict[str, Any]) -> None:
        sys.stdout.write(as_json(facts) + "\n")
        sys.stdout.flush()


def _say(sentence: str) -> None:
    """Print a sentence as it is: names in brackets are no markup."""
    Console().print(sentence, highlight=False, soft_wrap=True, markup=False, emoji=False)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if hasattr(value, "isoformat"):
        return str(value.isoformat(sep=" ", timespec="milliseconds")[:23])
    return str(value)
