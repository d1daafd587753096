"""What the demo shows on the terminal."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from muntin.spark import BatchMetrics

_ROWS = 4  # of each query, the last ones


def progress_table(streams: Sequence[str], batches: Sequence[BatchMetrics], seconds: float) -> Table:
    """Return a row for each stream: how far it is, how fast, and what it keeps."""
    table = Table(title=f"{seconds:.0f} s of sensor data", box=SIMPLE_HEAD)
    table.add_column("stream", no_wrap=True)
    for heading in ("records", "per s", "batch", "watermark", "lag", "windows", "state"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in streams:
        mine = [batch for batch in batches if batch.query == name]
        if not mine:
            table.add_row(name, "starting")
            continue
        last = mine[-1]
        busy = [batch for batch in mine if batch.rows]
        windows = sum(batch.observed.get("muntin.windows_emitted") or 0 for batch in mine)
        lag = next((batch.watermark_lag for batch in reversed(mine) if batch.watermark_lag is not None), None)
        table.add_row(
            name,
            f"{sum(batch.rows for batch in mine):,}",
            f"{busy[-1].rows_per_second:,.0f}" if busy else "",
            str(last.batch),
            f"{last.watermark:%H:%M:%S}" if last.watermark else "",
            f"{lag:.1f} s" if lag is not None else "",
            f"{windows:,}",
            f"{(last.observed.get('muntin.state_bytes') or 0) / 1000:,.0f} kB",
        )
    return table


def show_results(console: Console, results: Mapping[str, pa.Table]) -> None:
    """Print the last windows of each query."""
    for name, windows in results.items():
        table = Table(title=f"{name} ({windows.num_rows:,} windows, the last {_ROWS})", title_justify="left")
        for column in windows.column_names:
            numeric = not pa.types.is_string(windows.schema.field(column).type)
            table.add_column(column, justify="right" if numeric else "left")
        for row in windows.slice(max(windows.num_rows - _ROWS, 0)).to_pylist():
            table.add_row(*(_shown(value) for value in row.values()))
        console.print(table)


def _shown(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return f"{value:%H:%M:%S.%f}"[:-3].removesuffix(".000")
    if isinstance(value, dict):  # the points of M4
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
