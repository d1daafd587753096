"""Rows of a few windows at a time, by Python's numbers: for records that come one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin import columnar
from muntin.algebra import sums
from muntin.algebra.builtin import BuiltIn
from muntin.engine import tuning
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.output import row_columns
from muntin.engine.plan.queries import Plan, PlannedQuery
from muntin.engine.rows import NEVER
from muntin.engine.slices.family import SliceFamily
from muntin.engine.store.cells import AggregateStore
from muntin.windows.grid import end, last_ended

_WINDOWS, _CELLS, _SCANNED = 16, 48, 4096  # more are for arrays
_SIMPLE = (sums.same, sums.whole, sums.divide)  # in Python as in machine code, whatever the numbers


class Found(NamedTuple):
    """A window that ended, and the cells that it is made of; they sort as rows do."""

    end: int
    start: int
    query: int
    code: int
    cells: Sequence[int]


def ended(
    queries: Sequence[PlannedQuery], store: AggregateStore, before: int, after: int
) -> list[Found] | None:
    """Return the windows with records that end after one watermark and up to another; None if many."""
    if before == NEVER or store.count > _SCANNED:
        return None
    starts, found, cells, windows = store.column("start"), [], 0, 0
    for planned in queries:
        grid = planned.window
        first, last = last_ended(grid, before) + 1, last_ended(grid, after)
        if planned.origin is not None:
            first = max(first, grid.high(planned.origin) + 1)
        windows += max(0, last - first + 1)
        if windows > _WINDOWS:
            return None
        for k in range(first, last + 1):
            start, stop = grid.start(k), end(grid, k)
            for code, places in _cells(store, starts, start, stop).items():
                found.append(Found(stop, start, planned.number, code, places))
                cells += len(places)
            if cells > _CELLS:
                return None
    found.sort()
    return found


def _cells(
    store: AggregateStore, starts: NDArray[np.int64], start: int, stop: int
) -> dict[int, Sequence[int]]:
    """Return the cells from one time up to another, by key."""
    if store.by_time():
        low, high = starts.searchsorted((start, stop)).tolist()
        return {0: range(low, high)} if high > low else {}
    within = ((starts >= start) & (starts < stop)).nonzero()[0]
    if not store.in_order:
        within = within[store.column("rows")[within] > 0]
        within = within[starts[within].argsort()]
    found: dict[int, Any] = {}
    for place, code in zip(within.tolist(), store.column("code")[within].tolist(), strict=True):
        found.setdefault(code, []).append(place)
    return found


class Read(NamedTuple):
    """A component of a field, and how its scalars are read."""

    field: int
    begin: int
    stop: int
    read: Any


class Asked(NamedTuple):
    """An output column of a query."""

    column: str
    aggregate: BuiltIn
    reads: list[Read]


def asked(planned: PlannedQuery, store: AggregateStore) -> list[Asked] | None:
    """Return what a query asks for; None if Python's numbers might differ from machine code."""
    found = []
    for column, given in planned.query.aggregates.items():
        if not given.fuses:
            return None
        aggregate = cast(BuiltIn, given)
        if aggregate.finisher() not in _SIMPLE:
            return None
        reads = []
        for number, component in planned.reads[column]:
            part, kinds = store.fields[number].part, store.fields[number].kinds
            if part is None or kinds is None:
                return None
            read = (part.read_float if aggregate.floats else None) or part.read
            reads.append(Read(number, *part.spans()[component], read))
        found.append(Asked(column, aggregate, reads))
    return found


class Folder:
    """Folds the cells of windows, those of equal windows once."""

    def __init__(self, store: AggregateStore) -> None:
        self._store = store
        self._states: dict[tuple[int, int, int], tuple[Any, ...] | None] = {}
        self._combines: dict[int, int] = {}

    def combines(self) -> int:
        """Return the number of combines, fields being combined together."""
        return max(self._combines.values(), default=0)

    def value(self, ask: Asked, window: Found) -> Any:
        """Return an answer; None: null."""
        components = []
        for read in ask.reads:
            scalars = self._folded(read.field, window.cells)
            if scalars is None:
                return ask.aggregate.empty
            mine = scalars[read.begin : read.stop]
            components.append(read.read(*mine) if read.read else mine[0])
        return ask.aggregate.finisher()(*components)

    def _folded(self, number: int, cells: Sequence[int]) -> tuple[Any, ...] | None:
        """Return the scalars of a field over cells; None if there is no value."""
        what = (number, cells[0], cells[-1])
        if what not in self._states:
            self._states[what] = self._fold(number, cells)
            self._combines[number] = self._combines.get(number, 0) + len(cells) - 1
        return self._states[what]

    def _fold(self, number: int, cells: Sequence[int]) -> tuple[Any, ...] | None:
        partials: Any = self._store.fields[number]
        states = self._store.states(number)
        alone = len(partials.part.fields) == 1
        state = None
        for cell in cells:
            scalars = states[cell].tolist()
            if partials.nullable:
                if not scalars[0]:
                    continue
                scalars = scalars[1] if alone else scalars[1:]
            state = scalars if state is None else partials.part.combine(state, scalars)
        return (state,) if alone and state is not None else state


def _of_64_bits(kind: pa.DataType) -> bool:
    return kind in (pa.int64(), pa.float64()) or (pa.types.is_temporal(kind) and kind.bit_width == 64)


class Page:
    """Rows as Arrow columns that are written row by row."""

    def __init__(self, empty: pa.Table, keys: Sequence[str], labels: pa.Array) -> None:
        names = [name for name in empty.column_names if name not in keys]
        self.used = 0
        self._start, self._end = np.zeros(tuning.PAGE, np.int64), np.zeros(tuning.PAGE, np.int64)
        self._query = np.zeros(tuning.PAGE, np.int32)
        self._answers: dict[str, NDArray[Any]] = {}
        self._valid: dict[str, NDArray[np.uint8]] = {}  # a bit per row
        columns = []
        for name in names:
            kind = empty.schema.field(name).type
            fixed = self._fixed(name, kind, labels)
            columns.append(fixed if fixed is not None else self._answer(name, kind))
        self._batch = pa.RecordBatch.from_arrays(columns, names=names)

    @staticmethod
    def holds(empty: pa.Table, columns: Sequence[str]) -> bool:
        """Tell whether rows have bounds and answers of 64 bits, so that they can be written."""
        return all(_of_64_bits(empty.schema.field(name).type) for name in ("window_start", *columns))

    def _fixed(self, name: str, kind: pa.DataType, labels: pa.Array) -> pa.Array | None:
        if name == "query":
            return row_columns.coded(self._query, labels)
        if name in ("window_start", "window_end"):
            return columnar.numbers(self._start if name == "window_start" else self._end, kind)
        if name in ("window_id", "measure_start", "measure_end"):
            return pa.nulls(tuning.PAGE, kind)
        zeros = np.zeros(tuning.PAGE, np.int64)
        if name == "revision":
            return columnar.numbers(zeros)
        return row_columns.coded(zeros, row_columns.CHANGES) if name == "change" else None

    def _answer(self, name: str, kind: pa.DataType) -> pa.Array:
        if not _of_64_bits(kind):
            return pa.nulls(tuning.PAGE, kind)  # of a query whose windows are not on a grid
        self._answers[name] = np.zeros(tuning.PAGE, np.float64 if kind == pa.float64() else np.int64)
        self._valid[name] = np.zeros(tuning.PAGE // 8, np.uint8)
        buffers = [pa.py_buffer(self._valid[name]), pa.py_buffer(self._answers[name])]
        return pa.Array.from_buffers(kind, tuning.PAGE, buffers)

    def write(self, start: int, end: int, query: int, answers: dict[str, Any]) -> None:
        """Write a row; columns without an answer stay null."""
        row = self.used
        self._start[row], self._end[row], self._query[row] = start, end, query
        for name, value in answers.items():
            if value is not None:
                self._answers[name][row] = value
                self._valid[name][row >> 3] |= 1 << (row & 7)
        self.used = row + 1

    def last(self, count: int, keys: dict[str, pa.Array]) -> pa.Table:
        """Return the last rows with their keys."""
        rows = self._batch.slice(self.used - count, count)
        for place, (name, column) in enumerate(keys.items()):
            rows = rows.add_column(place, name, column)
        return pa.Table.from_batches([rows])


class FewWindows:
    """Makes rows of windows on grids that end, as long as there are few."""

    def __init__(self, plan: Plan, grid: SliceFamily, empty: pa.Table, keys: KeyTable) -> None:
        self._queries = grid.queries
        self._places = {planned.number: place for place, planned in enumerate(plan.queries)}
        self._asked = {planned.number: asked(planned, grid.store) for planned in self._queries}
        self._labels = columnar.texts([planned.name for planned in plan.queries])
        self._empty = empty
        self._names = keys.names
        columns = [column for planned in self._queries for column in planned.query.aggregates]
        plain = all(ask is not None for ask in self._asked.values()) and Page.holds(empty, columns)
        plain = plain and not any(planned.window.irregular for planned in self._queries)
        self._page = Page(empty, self._names, self._labels) if plain else None

    def rows(
        self, store: AggregateStore, before: int, after: int, keys: KeyTable
    ) -> tuple[pa.Table, int, dict[int, float]] | None:
        """Return rows of windows that end between two watermarks; None if many.

        Beside them, the number of combines, and how many cells the windows of each query have.
        """
        if self._page is None:
            return None
        found = ended(self._queries, store, before, after)
        if not found:
            return None if found is None else (self._empty, 0, {})
        if self._page.used + len(found) > tuning.PAGE:
            self._page = Page(self._empty, self._names, self._labels)
        folder = Folder(store)
        cells: dict[int, float] = {}
        for window in found:
            cells[window.query] = cells.get(window.query, 0) + len(window.cells)
            answers = {ask.column: folder.value(ask, window) for ask in self._asked[window.query] or ()}
            self._page.write(window.start, window.end, self._places[window.query], answers)
        columns: list[pa.Array] = []
        if self._names:
            columns = keys.values(np.array([window.code for window in found], np.int64))
        rows = self._page.last(len(found), dict(zip(self._names, columns, strict=True)))
        return rows, folder.combines(), cells
