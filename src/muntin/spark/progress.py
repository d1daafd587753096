"""Progress: rows a second, state and watermark lag of each micro-batch, to export and to plot."""

from __future__ import annotations

import datetime
import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.listener import StreamingQueryListener

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class BatchMetrics:
    """What one micro-batch of a streaming query did."""

    query: str  # its name, or its identity where it has none
    run: str  # changes with each start of the query
    batch: int
    started: datetime.datetime
    seconds: float
    rows: int  # read from the sources
    rows_per_second: float
    state_rows: int
    state_bytes: int  # in memory, of all state stores
    watermark: datetime.datetime | None
    watermark_lag: float | None  # seconds by which the watermark is behind the newest record
    observed: Mapping[str, Any]  # metrics of DataFrame.observe, "name.metric"


class Progress(StreamingQueryListener):
    """Collects the metrics of all streaming queries of a session.

        progress = Progress()
        spark.streams.addListener(progress)
        ...
        progress.batches[-1].rows_per_second
        progress.to_json_lines("out/progress.jsonl")

    Spark tells of a micro-batch a moment after it is done, from a thread of its own; `on_batch`, if given, is
    called with each.
    """

    def __init__(self, on_batch: Callable[[BatchMetrics], None] | None = None) -> None:
        self._batches: list[BatchMetrics] = []
        self._failures: dict[str, str] = {}
        self._lock = threading.Lock()
        self._on_batch = on_batch

    @property
    def batches(self) -> list[BatchMetrics]:
        """Return the metrics so far, oldest first."""
        with self._lock:
            return list(self._batches)

    @property
    def failures(self) -> dict[str, str]:
        """Return what ended queries that failed, by run."""
        with self._lock:
            return dict(self._failures)

    def to_arrow(self) -> pa.Table:
        """Return a row for each micro-batch; what was observed is JSON."""
        rows = [{**asdict(b), "observed": json.dumps(dict(b.observed), default=str)} for b in self.batches]
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    def to_json_lines(self, path: str | os.PathLike[str]) -> None:
        """Write a line for each micro-batch."""
        lines = [json.dumps(asdict(batch), default=_iso) for batch in self.batches]
        Path(path).write_text("".join(line + "\n" for line in lines))

    def plot(self) -> Figure:
        """Return a figure: rows a second, state and watermark lag over time (needs matplotlib)."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 6), layout="constrained")
        panels = figure.subplots(len(PANELS), sharex=True)
        for axes, (title, value) in zip(panels, PANELS.items(), strict=True):
            for query in dict.fromkeys(batch.query for batch in self.batches):
                points = [(b.started, value(b)) for b in self.batches if b.query == query]
                axes.plot(*zip(*points, strict=True), marker=".", label=query)
            axes.set_ylabel(title)
        if self.batches:
            panels[0].legend()
        return figure

    # ---- what Spark calls ----

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is measured yet."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing was done."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Take in what a micro-batch did."""
        metrics = read_progress(json.loads(event.progress.json))
        with self._lock:
            self._batches.append(metrics)
        if self._on_batch is not None:
            self._on_batch(metrics)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Keep why a query failed, if it did."""
        if event.exception is not None:
            with self._lock:
                self._failures[str(event.runId)] = event.exception


PANELS: dict[str, Callable[[BatchMetrics], float | None]] = {
    "rows a second": lambda batch: batch.rows_per_second,
    "state, MB": lambda batch: batch.state_bytes / 1e6,
    "watermark lag, s": lambda batch: batch.watermark_lag,
}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_STAMP = pa.timestamp("us", "UTC")
_TYPES = {
    "batch": pa.int64(),
    "started": _STAMP,
    "seconds": pa.float64(),
    "rows": pa.int64(),
    "rows_per_second": pa.float64(),
    "state_rows": pa.int64(),
    "state_bytes": pa.int64(),
    "watermark": _STAMP,
    "watermark_lag": pa.float64(),
}
_SCHEMA = pa.schema([(field.name, _TYPES.get(field.name, pa.string())) for field in fields(BatchMetrics)])


def read_progress(report: Mapping[str, Any]) -> BatchMetrics:
    """Return the metrics in a progress report of Spark (`query.lastProgress`, or its JSON).

    >>> report = {"name": "cars", "runId": "1", "batchId": 3, "timestamp": "2026-01-01T00:00:00.000Z",
    ...           "durationMs": {"triggerExecution": 500}, "numInputRows": 1000,
    ...           "eventTime": {"max": "2026-01-01T00:00:09.000Z", "watermark": "2026-01-01T00:00:04.000Z"},
    ...           "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 512}]}
    >>> batch = read_progress(report)
    >>> batch.rows_per_second, batch.state_bytes, batch.watermark_lag
    (2000.0, 512, 5.0)
    """
    seconds = report.get("durationMs", {}).get("triggerExecution", 0) / 1000
    times = {name: _moment(text) for name, text in report.get("eventTime", {}).items()}
    # Spark's word for a watermark that is not known yet, and for the newest of times that are all null.
    known = {name: moment for name, moment in times.items() if moment != _EPOCH}
    newest, watermark = known.get("max"), known.get("watermark")
    stores = report.get("stateOperators", [])
    return BatchMetrics(
        query=report.get("name") or str(report.get("id")),
        run=str(report.get("runId")),
        batch=report["batchId"],
        started=_moment(report["timestamp"]),
        seconds=seconds,
        rows=report["numInputRows"],
        rows_per_second=report["numInputRows"] / seconds if seconds else 0.0,
        state_rows=sum(store["numRowsTotal"] for store in stores),
        state_bytes=sum(store["memoryUsedBytes"] for store in stores),
        watermark=watermark,
        watermark_lag=(newest - watermark).total_seconds() if newest and watermark else None,
        observed={
            f"{name}.{metric}": value
            for name, row in report.get("observedMetrics", {}).items()
            for metric, value in row.items()
        },
    )


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def _iso(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime.datetime) else str(value)
