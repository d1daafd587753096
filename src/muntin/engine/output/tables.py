"""Tables: emitted rows as Arrow, with the types that all tables of an operator share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.columnar import Indices
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.output import having, row_columns
from muntin.engine.output.early import EarlyResults
from muntin.engine.output.few_rows import FewWindows
from muntin.engine.output.order import row_order
from muntin.engine.plan.queries import Plan
from muntin.engine.rows import Emission, concatenated, struct_of
from muntin.engine.slices.family import SliceFamily
from muntin.engine.slices.window_manager import WindowManager
from muntin.engine.transaction import Transactional
from muntin.expressions.expression import Expression
from muntin.settings import FINAL
from muntin.windows.base import Query


class RowTables(Transactional):
    """Makes tables of the rows of an operator."""

    often = ()

    def __init__(self, plan: Plan, time_type: pa.DataType) -> None:
        self.plan = plan
        self.time_type = time_type
        self.answer_types: dict[str, pa.DataType | None] = {}  # None: the first answer or value will tell
        self.windows: WindowManager  # set once there is one
        self.early: EarlyResults | None = None  # set while a query has some
        self._nothing: pa.Table | None = None  # the table without rows
        self._measures: dict[str, pa.DataType] = {}  # by column
        self._few: tuple[pa.Table, FewWindows] | None = None  # for rows like those of this table

    def rolled_back(self) -> None:
        """Drop the table without rows, and the page that a few are written to: it may hold some already."""
        self._nothing = self._few = None

    def forget(self) -> None:
        """Follow a change of the queries."""
        self._nothing = None

    def drop_answers(self) -> None:
        """Forget output columns that no query has any more."""
        self.save()
        kept = {column for planned in self.plan.queries for column in planned.query.aggregates}
        self.answer_types = {column: kind for column, kind in self.answer_types.items() if column in kept}
        self.forget()

    def plan_answers(self, queries: Iterable[tuple[str, Query]], types: Mapping[str, pa.DataType]) -> None:
        """Find the type of each output column; one name must not have two."""
        self.save()
        found = dict(self.answer_types)
        asked: dict[tuple[str, Aggregate], str] = {}  # for whom first: many queries ask for the same
        for name, query in queries:
            for column, aggregate in query.aggregates.items():
                if asked.setdefault((column, aggregate), name) != name:
                    continue
                aggregate.check_columns(types)
                kind = _known_type(aggregate, types)
                if found.get(column) not in (None, kind) and kind is not None:
                    raise TypeError(
                        f"column {column!r} would be {found[column]} for one query and {kind} for {name!r}; "
                        "give them different names."
                    )
                found[column] = kind if kind is not None else found.get(column)
        for name, query in queries:
            having.check_types(name, query, types, found)
        self.answer_types = found
        self.note_measures(queries, types)
        self.forget()

    def note_measures(self, queries: Iterable[tuple[str, Query]], types: Mapping[str, pa.DataType]) -> None:
        """Remember the types of the columns that windows have their bounds in."""
        for _, query in queries:
            if query.window.measured:
                self._measures = {
                    **self._measures,
                    **{name: types[name] for name, _ in query.window.inputs()},
                }

    def _measure_type(self) -> pa.DataType | None:
        """Return the type of bounds by another measure; None: no query has one."""
        measured = [p.query.window for p in self.plan.queries if p.query.window.measured]
        kinds = [self._measures[name] for window in measured for name, _ in window.inputs()]
        if not kinds:
            return None
        return pa.float64() if any(pa.types.is_floating(kind) for kind in kinds) else pa.int64()

    def table(self, emission: Emission, keys: KeyTable) -> pa.Table:
        """Return emitted rows as a table."""
        table, order, answers = self.looked_up(emission, keys)
        kept = self._on_change(emission, order, answers) if emission.count and self._watched else None
        if kept is not None:
            table = table.filter(pa.array(kept))
        if table.num_rows and self._conditions:
            failed = having.failing(table, self._conditions)
            bounds = None
            if self._moving:
                at = np.arange(emission.count) if order is None else order
                at = at if kept is None else at[kept]
                bounds = self.windows.last_shown.take_back(emission, at, failed, self._moving)
            final = None
            if self.early is not None:
                at = np.arange(emission.count) if order is None else order
                final = self.early.take_back(emission, at if kept is None else at[kept], failed)
            table = having.reported(table, failed, bounds, final)
        self.windows.windows_emitted += table.num_rows
        return table

    def looked_up(
        self, emission: Emission, keys: KeyTable
    ) -> tuple[pa.Table, Indices | None, dict[str, Any]]:
        """Return rows as a table, with their order and answers."""
        if not emission.count:
            return self.empty(keys), None, {}
        if self.time_type != pa.int64() and not row_columns.fit(emission, self.time_type):
            self.save()
            self.time_type, self._nothing = (
                pa.int64(),
                None,
            )  # windows reach beyond what a narrow integer holds
        schema = self.empty(keys).schema
        order = row_order(emission)
        answers: dict[str, Any] = {}
        for column in self.answer_types:
            chunks = emission.answers.get(column)
            data, missing = row_columns.answer_column(chunks, emission.count) if chunks else (None, None)
            if data is not None and order is not None:
                data, missing = data[order], None if missing is None else missing[order]
            answers[column] = (data, missing)
        codes = concatenated(emission.code)
        columns = keys.values(codes if order is None else codes[order]) if keys.names else []
        columns += self._window_columns(emission, order)
        for column, (data, missing) in answers.items():
            columns.append(self._answer_column(column, data, missing, emission.count))
        if self._nothing is None:  # an answer has told its type
            schema = self.empty(keys).schema
        return pa.Table.from_arrays(columns, names=schema.names), order, answers

    def _answer_column(self, column: str, data: Any, missing: Any, count: int) -> pa.Array:
        kind = self.answer_types[column]
        if data is None:
            return pa.nulls(count, kind or pa.null())
        array = row_columns.as_arrow(data, missing, kind)
        if kind is None and not pa.types.is_null(array.type):
            self.save()
            self.answer_types = {**self.answer_types, column: array.type}
            self._nothing = None
        return array

    def empty(self, keys: KeyTable) -> pa.Table:
        """Return the table without rows."""
        if self._nothing is None:
            names, numbers = [p.name for p in self.plan.queries], [p.number for p in self.plan.queries]
            measure = self._measure_type()
            early = any(p.query.early is not None for p in self.plan.queries)
            self._window_columns = row_columns.WindowColumns(
                numbers, names, self.time_type, measure, early=early
            )
            self._watched = {p.number: p for p in self.plan.queries if p.query.emit == "on_change"}
            asked = {p.name: p.query.having for p in self.plan.queries}
            self._conditions = {name: had for name, had in asked.items() if isinstance(had, Expression)}
            # Queries under a condition whose windows stay the same when their bounds change.
            told = {
                p.number: p.query.window.identity() for p in self.plan.queries if p.query.having is not None
            }
            self._moving = {n: names for n, names in told.items() if names != ("window_start", "window_end")}
            self._nothing = self._empty_table(keys)
        return self._nothing

    def few(self, grid: SliceFamily, keys: KeyTable) -> FewWindows | None:
        """Return what makes a few rows at a time; None if some are left out."""
        empty = self.empty(keys)
        if self._watched or self._conditions or FINAL in empty.column_names:
            return None
        if self._few is None or self._few[0] is not empty:
            self._few = (empty, FewWindows(self.plan, grid, empty, keys))
        return self._few[1]

    def _empty_table(self, keys: KeyTable) -> pa.Table:
        codes = np.empty(0, np.int8)
        columns = dict(zip(keys.names, keys.values(np.empty(0, np.int64)), strict=True))
        columns["query"] = row_columns.coded(codes, self._window_columns.labels)
        columns |= {name: pa.nulls(0, self.time_type) for name in ("window_start", "window_end")}
        columns["window_id"] = pa.nulls(0, pa.int64())
        measure = self._measure_type()
        if measure is not None:
            columns |= {name: pa.nulls(0, measure) for name in ("measure_start", "measure_end")}
        columns["revision"] = pa.nulls(0, pa.int64())
        columns["change"] = row_columns.coded(codes, row_columns.CHANGES)
        if any(p.query.early is not None for p in self.plan.queries):
            columns[FINAL] = pa.nulls(0, pa.bool_())
        columns |= {column: pa.nulls(0, kind or pa.null()) for column, kind in self.answer_types.items()}
        return pa.table(columns)

    def _on_change(
        self, emission: Emission, order: Indices | None, answers: dict[str, Any]
    ) -> NDArray[np.bool_] | None:
        """Tell which rows to keep of queries that report only changes; None: all."""
        watched = self._watched
        query, code = concatenated(emission.query), concatenated(emission.code)
        if order is not None:
            query, code = query[order], code[order]
        rows = np.flatnonzero(np.isin(query, list(watched)))
        if not len(rows):
            return None
        kept = np.ones(len(query), bool)
        for i in rows.tolist():
            planned = watched[int(query[i])]
            values = tuple(_value(answers[column], i) for column in planned.query.aggregates)
            who = (planned.number, int(code[i]))
            kept[i] = not _same(self.windows.previous.get(who), values)
            self.windows.overwrite_item(self.windows.previous, who)
            self.windows.previous[who] = values
        return kept


def _known_type(aggregate: Aggregate, types: Mapping[str, pa.DataType]) -> pa.DataType | None:
    """Return the type of an aggregate's answers; None where the first one, or a first value, will tell."""
    column = aggregate.value_column
    if column is not None and pa.types.is_null(types[column]):
        return None
    return aggregate.answer_type(types)


def _value(answers: tuple[Any, Any], i: int) -> Any:
    data, missing = answers
    if data is None or (missing is not None and missing[i]):
        return None
    return struct_of(data[i]) if data.dtype.names is not None else data[i]


def _same(old: tuple[Any, ...] | None, new: tuple[Any, ...]) -> bool:
    if old is None:
        return False
    return all(_equal(a, b) for a, b in zip(old, new, strict=True))


def _equal(a: Any, b: Any) -> bool:
    """Tell whether two answers are equal; NaN equals NaN, also within lists and structs."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f" == b.dtype.kind)
    return a is b or bool(a == b) or bool(a != a and b != b)
