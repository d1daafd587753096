"""The way of rows into a sink: kept as they come, and folded at the end or shown as they are."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from muntin.cli.pipeline.config import Pipeline
from muntin.cli.pipeline.folding import fold
from muntin.cli.pipeline.sinks import Parts, plain, write_table
from muntin.cli.pipeline.states import State
from muntin.cli.reports import Report


class Outlet:
    """Takes the rows of each step by its number; the same number again replaces them."""

    def __init__(self, pipeline: Pipeline, state: State, report: Report) -> None:
        self._pipeline, self._state, self._report = pipeline, state, report
        sink = pipeline.sink
        self._changes = sink.path is not None and sink.rows == "changes"
        if self._changes and sink.path is not None:
            self._parts = Parts(sink.path, sink.format)
            self._parts.check()
        else:
            self._parts = state.parts
        self._empty: pa.Table | None = None
        self._written = 0
        self.steps = 0  # that this run has done

    def begin(self, after: int) -> None:
        """Forget the rows of steps from this number on: their run did not get to say that they count.

        Those of steps before it must be there, unless they went into a folder of the user's.
        """
        self._state.go_on(after, with_parts=not self._changes)
        self._parts.remove_from(after)

    @staticmethod
    def joined(tables: Sequence[pa.Table]) -> pa.Table:
        """Return rows of several calls as one table; a type may have widened in between."""
        return pa.concat_tables(map(plain, tables), promote_options="permissive")

    def write(self, number: int, rows: pa.Table | None) -> None:
        """Take the rows of a step, which may have none."""
        if rows is not None:
            rows = plain(rows)
            self._empty = rows.slice(0, 0)
            self._written += rows.num_rows
        self._state.ledger.note(number, self._parts.write(number, rows))
        self.steps += 1

    def end(self, *, complete: bool) -> tuple[int, str | None]:
        """Put the rows that stand into the sink; return how many, and where they are.

        If that is not the end and there are none yet, what an earlier run has left there stays.
        """
        sink = self._pipeline.sink
        if self._changes:
            return self._written, str(sink.path)
        rows = self._parts.read()
        if rows is None and not complete:
            return 0, None
        rows = rows if rows is not None else self._empty if self._empty is not None else pa.table({})
        if sink.rows == "folded":
            rows = fold(rows, self._pipeline.key, self._pipeline.named_queries())
        if sink.path is None:
            self._report.rows(rows)
            return rows.num_rows, None
        write_table(sink.path, rows, sink.format)
        return rows.num_rows, str(sink.path)
