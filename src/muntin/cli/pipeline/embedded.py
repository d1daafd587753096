"""A pipeline on the embedded engine: no Spark, no Java."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.cli.pipeline.config import Pipeline
from muntin.cli.pipeline.outlets import Outlet
from muntin.cli.pipeline.sources import Source
from muntin.cli.pipeline.states import Reached, State
from muntin.cli.reports import Counts, Report
from muntin.console.mistakes import MistakeError, one_line
from muntin.engine.state import SnapshotError
from muntin.operator import WindowOperator
from muntin.windows.durations import Clock, Duration

_MILLISECOND = 1000  # in microseconds: Spark's watermarks are whole ones


def watermark_after(newest: int | None, delay: str | int | None, kind: pa.DataType) -> Any:
    """Return where Spark's watermark is after batches: their newest time less the delay, or None.

    >>> watermark_after(25, 5, pa.int64()), watermark_after(None, 5, pa.int64())
    (20, None)
    """
    if newest is None or delay is None:
        return None
    stamps = pa.types.is_timestamp(kind)
    ticks = Duration.of(delay, "watermark", least=0).ticks(Clock(1000 if stamps else None), "watermark")
    if not stamps:
        return newest - ticks
    watermark = newest // _MILLISECOND * _MILLISECOND - ticks
    return pa.scalar(watermark, pa.int64()).cast(kind) if watermark > 0 else None  # none before 1970


class EmbeddedRun:
    """Reads batch after batch; what came of them, and how far that is, are kept together."""

    def __init__(
        self, pipeline: Pipeline, source: Source, state: State, outlet: Outlet, report: Report
    ) -> None:
        self._pipeline, self._source, self._state = pipeline, source, state
        self._outlet, self._report = outlet, report
        reached = state.reached()
        self._done, self._largest = reached.batches, reached.largest
        self._saved = self._done
        self.operator = self._make(reached)
        late = self.operator.metrics.late_dropped
        self.counts = Counts(reached.records, reached.windows, late, None, self._done, len(source.batches))
        self._kind = source.schema.field(pipeline.time).type
        self._rows: list[pa.Table] = []  # since the last checkpoint
        outlet.begin(after=self._done)
        if state.resumes:
            report.resumed(self.counts)

    def _make(self, reached: Reached) -> WindowOperator:
        if reached.operator is not None:
            try:
                return WindowOperator.restore(reached.operator)
            except SnapshotError as error:
                raise self._state.damaged(error) from error
        p = self._pipeline
        # The watermark moves with each batch, as on Spark: both count the same records.
        return WindowOperator(
            p.queries, time=p.time, key=list(p.key), watermark="manual", lateness=p.lateness, tie=p.tie
        )

    def run(self, interrupted: threading.Event) -> bool:
        """Process what is left; tell whether it came to its end."""
        saved = time.monotonic()
        while self._done < len(self._source.batches) and not interrupted.is_set():
            self._step(self._source.read(self._done))
            self._done += 1
            self.counts.batches = self._done
            self._report.step(self.counts)
            if time.monotonic() - saved >= self._pipeline.every:
                self._save()
                saved = time.monotonic()
        self._save()
        if self._done < len(self._source.batches):
            return False
        with self._told():
            rows = self.operator.finish()
        self.counts.windows += rows.num_rows
        self._outlet.write(self._done, rows)
        return True

    def _step(self, table: pa.Table) -> None:
        with self._told():
            self._advance()
            self._keep(self.operator.process(table))
        self.operator.take_late()  # they are counted, and not kept
        self.counts.records += table.num_rows
        self.counts.late = self.operator.metrics.late_dropped
        times = table[self._pipeline.time]
        if table.num_rows:
            newest = pc.max(times.cast(pa.int64())).as_py()
            self._largest = newest if self._largest is None else max(newest, self._largest)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what the operator refuses into a sentence about the pipeline."""
        try:
            yield
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise MistakeError(f"{self._pipeline.path}: {one_line(error)}") from error

    def _advance(self) -> None:
        watermark = watermark_after(self._largest, self._pipeline.watermark, self._kind)
        if watermark is not None:
            self._keep(self.operator.advance(watermark))
            self.counts.watermark = str(watermark)

    def _keep(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self._rows.append(rows)
            self.counts.windows += rows.num_rows

    def _save(self) -> None:
        """Write the rows, then the checkpoint: rows without one are removed by the next run."""
        if self._done == self._saved:
            return
        self._outlet.write(self._done - 1, self._outlet.joined(self._rows) if self._rows else None)
        self._rows, self._saved = [], self._done
        counts, blob = self.counts, self.operator.snapshot()
        self._state.save(Reached(self._done, self._largest, counts.records, counts.windows, blob))
