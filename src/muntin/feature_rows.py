"""Features: for each record of a table, what was known of its key at its time, in the table's own order.

The definitions are queries like others, over windows that look back from each record. Over a finite table
they are computed at once: the records lie by key and time, each is a slice, and windows are ranges of them,
which are folded as all others are. `features.queries` gives the same definitions to a `WindowOperator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa

from muntin import columnar
from muntin.algebra import last, sums
from muntin.algebra.builtin import BuiltIn
from muntin.columnar import Codes, Indices, Times
from muntin.engine import loops
from muntin.engine.engine import Engine
from muntin.engine.ingest import as_arrow, reader
from muntin.engine.ingest.batch import Values
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.output import row_columns
from muntin.engine.plan.queries import PlannedQuery
from muntin.engine.rows import Rows, filled
from muntin.engine.store.answers import FoldedRows, answers_of
from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.panes import Panes
from muntin.engine.store.record_sums import RecordSums
from muntin.results import in_library
from muntin.settings import Settings
from muntin.windows.base import Query
from muntin.windows.rolling import FeatureWindow, LookBack, feature_window, rolling

Closed = Literal["right", "left"]


class Features:
    """Computes features over tables, and gives their definitions to operators."""

    def __call__(
        self,
        table: Any,
        features: Mapping[str, Query],
        *,
        time: str,
        key: str | Sequence[str] | None = None,
        closed: Closed = "right",
        tie: str | None = None,
    ) -> Any:
        """Return a table with a further column for each feature, its rows as they were.

        A feature is a rolling window with one aggregate, or a tumbling or calendar window up to the record,
        or `features.lag`. With `closed="right"` the window of a record holds those up to and with it, in the
        order of time and then of rows (`tie` names a column that orders rows of one time); with `"left"` only
        those of earlier times. What comes in as pandas or polars comes back as such, all else as Arrow.

        >>> import muntin as mt
        >>> calls = {"ts": [1, 2, 4], "who": ["a", "b", "a"], "minutes": [3.0, 5.0, 8.0]}
        >>> wanted = {"talked": mt.rolling(10).agg(mt.sum("minutes")), "before": mt.features.lag("minutes")}
        >>> mt.features(calls, wanted, time="ts", key="who").select(["talked", "before"]).to_pydict()
        {'talked': [3.0, 5.0, 11.0], 'before': [None, None, 3.0]}
        """
        queries = self.queries(features, closed=closed)
        given: dict[str, Any] = {"watermark": "manual", "lateness": 0, "tie": tie, "store": "auto"}
        settings = Settings.of(queries, time=time, key=key, **given)
        arrow = as_arrow(table)
        for name in features:
            if name in arrow.schema.names:
                raise ValueError(f"the table has a column {name!r} already: give the feature another name.")
        return _with_columns(table, arrow, _Computation(settings, queries, arrow).columns())

    def queries(self, features: Mapping[str, Query], *, closed: Closed = "right") -> list[Query]:
        """Return the features as queries of a `WindowOperator`, each under its name.

        The operator emits a row for each record and feature, and `op.latest(key)` returns the newest values
        of a key. What the windows of a key's last record hold is kept for good.

        >>> import muntin as mt
        >>> queries = mt.features.queries({"talked": mt.rolling(10).agg(mt.sum("minutes"))})
        >>> op = mt.WindowOperator(queries, time="ts", key="who")
        >>> _ = op.process({"ts": [1, 2, 4], "who": ["a", "b", "a"], "minutes": [3.0, 5.0, 8.0]})
        >>> op.latest("a")
        {'talked': 11.0}
        """
        if not isinstance(features, Mapping) or not features:
            raise TypeError("features are a dict, as in {'avg': mt.rolling('10m').agg(mt.mean('v'))}.")
        return [_query(name, query, closed) for name, query in features.items()]

    def lag(self, column: str, n: int = 1) -> Query:
        """Return the feature that is what a column held `n` records before, null where there is none.

        With `closed="left"`, records of the same time are not counted.

        >>> import muntin as mt
        >>> mt.features.lag("price", 2)
        feature_window(rolling(rows=1), closed='right', back=2).agg(value=last('price'))
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"n is a whole number from 1, not {n!r}.")
        return feature_window(rolling(rows=1), back=n).agg(last(column))


features = Features()
"""Computes features over tables: `mt.features(table, {...}, time=..., key=...)`; see `Features`."""


def _query(name: str, query: Query, closed: Closed) -> Query:
    """Return the query of a feature."""
    if not isinstance(query, Query) or len(query.aggregates) != 1:
        raise TypeError(
            f"feature {name!r} is a window with one aggregate, as in mt.rolling('10m').agg(mt.mean('v'))."
        )
    plain = Query(query.window, query.aggregates, query.name)
    if query.where is not None or replace(query, time=None, key=None) != plain:
        raise ValueError(
            f"feature {name!r} can have no where, having or emit: leave values out by an expression, as in "
            "mt.expr('CASE WHEN v > 0 THEN v END')."
        )
    (aggregate,) = query.aggregates.values()
    window = query.window
    if isinstance(window, FeatureWindow):
        window = feature_window(window.window, closed, window.back - (closed == "left"))
    else:
        window = feature_window(window, closed)
    return Query(window, {name: aggregate}, name)


class _Computation:
    """The features of one table."""

    def __init__(
        self, settings: Settings, queries: Sequence[Query], table: pa.Table | pa.RecordBatch
    ) -> None:
        time, tie = str(settings.time), settings.tie
        read = [name for query in queries for name in query.columns()]
        names = list(dict.fromkeys([time, *settings.key, *([tie] if tie else []), *read]))
        columns, types = reader.Schema().columns(table, names)
        times = reader.read_times(columns[time], time)
        self.engine = Engine.of(settings, [(str(q.name), q) for q in queries], types, columns[time].type)
        self.count = len(times)
        if not self.count:
            return
        low, high = int(times.min()), int(times.max())
        reader.check_range(low, high, time)
        values = self.engine.read_values(columns, times)
        self.engine.sums.expect(values)
        codes = KeyTable(settings.key).encode([columns[name] for name in settings.key])
        several = len(codes) == self.count
        self.order = _canonical_order(
            times, codes if several else None, reader.tie_values(columns[tie], tie) if tie else None
        )
        self.times = times if self.order is None else times[self.order]
        self.codes = codes[self._taken] if several else np.zeros(self.count, np.int64)
        self._place()
        self.store = self._stored(values)
        self.sums: dict[int, RecordSums] = {}  # by field

    @property
    def _taken(self) -> Any:
        return slice(None) if self.order is None else self.order

    def _place(self) -> None:
        """Find where the records of each key begin, and those of each of its times."""
        at = np.arange(self.count)
        new = np.append(True, self.codes[1:] != self.codes[:-1])
        later = new | np.append(True, self.times[1:] != self.times[:-1])
        self.at, self.ends = at, at + 1
        self._low = np.empty(self.count, np.int64)  # for one feature after the other
        self.key_begins = np.maximum.accumulate(np.where(new, at, 0))
        self.time_begins = np.maximum.accumulate(np.where(later, at, 0))

    def _stored(self, values: Mapping[int, Values]) -> AggregateStore:
        """Return the records as slices of one record each, by key and time."""
        fields = self.engine.slices.fields
        bounds = np.arange(self.count + 1)
        states = {}
        for number, partials in fields.items():
            some = values[number] if self.order is None else values[number].take(self.order)
            states[number] = partials.of_segments(some, bounds)
        store = AggregateStore(fields)
        ones = np.ones(self.count, np.int64)
        start = self.at - self.key_begins
        store.add(Panes(self.codes, start, self.times, self.times.copy(), ones, states))
        return store

    def columns(self) -> dict[str, pa.Array]:
        """Return the column of each feature, in the order of the table."""
        return {planned.name: self._column(planned) for planned in self.engine.plan.queries}

    def _column(self, planned: PlannedQuery) -> pa.Array:
        kind = self.engine.tables.answer_types[planned.name]
        if not self.count:
            return pa.nulls(0, kind or pa.null())
        low, high = self._ranges(planned.window)
        summed = self._summed(planned, low, high)
        if summed is not None:
            return summed
        number = filled(self.count, planned.number)
        rows = Rows(number, self.codes, self.times, self.times, None, None, low, high)
        folded = FoldedRows(self.store, "auto", rows, self.engine.plan)
        aggregate, reads = planned.query.aggregates[planned.name], planned.reads[planned.name]
        chunks: list[Any] = []
        numbers = (planned.number,)
        with np.errstate(all="ignore"):
            if len(places := folded.places(numbers)):
                chunks.append(
                    (places, answers_of(self.store, aggregate, reads, partial(folded.of, numbers)), aggregate)
                )
        if len(empty := folded.empty(numbers)):
            chunks.append((empty, None, aggregate))
        data, missing = row_columns.answer_column(chunks, self.count)
        if data is None:
            return pa.nulls(self.count, kind or pa.null())
        return row_columns.as_arrow(self._in_place(data), self._in_place(missing), kind)

    def _summed(self, planned: PlannedQuery, low: Indices, high: Indices) -> pa.Array | None:
        """Return a count, or a sum or mean of floats without nulls, in one pass; None if it is none."""
        aggregate, reads = planned.query.aggregates[planned.name], planned.reads[planned.name]
        fields = [self.store.fields[number] for number, _ in reads]
        if not aggregate.fuses or any(field.nullable for field in fields):
            return None
        finish = cast(BuiltIn, aggregate).finisher()
        if finish is sums.whole and fields[0].counts_records:
            return columnar.numbers(self._in_place(high - low))
        number = reads[-1][0]
        mean = finish is sums.divide
        if fields[-1].part is not sums.COMPENSATED_SUM or not (mean or finish is sums.same):
            return None
        if number not in self.sums:
            self.sums[number] = RecordSums(self.store, number, self.key_begins)
        if not self.sums[number].exact:
            return None
        out = self.sums[number].over(low, high, self.at if self.order is None else self.order, mean=mean)
        empty = low == high
        return columnar.numbers(out, missing=self._in_place(empty) if empty.any() else None)

    def _in_place(self, column: Any) -> Any:
        """Return a column in the order of the table."""
        if column is None or self.order is None:
            return column
        out = np.empty_like(column)
        out[self.order] = column
        return out

    def _ranges(self, rule: LookBack) -> tuple[Indices, Indices]:
        """Return from which record to before which one each window reaches."""
        low, high = self._low, self.time_begins if rule.before else self.ends
        if rule.back:
            high = np.maximum(high - rule.back, self.key_begins)
        if rule.rows is not None:
            np.maximum(np.subtract(high, rule.rows, out=low), self.key_begins, out=low)
        else:
            if rule.since is None:
                loops.run("first_within", self.times, self.key_begins, rule.length, low)
            else:
                past = rule.since.start(rule.since.high(self.times)) - 1
                loops.run("first_past", self.times, self.key_begins, past, low)
        return low, np.maximum(low, high) if rule.back else high


def _canonical_order(times: Times, codes: Codes | None, tie: Any) -> Indices | None:
    """Return the places of records by key, time, tie and row; None if they lie so already."""
    order: Indices | None = None
    if tie is not None:
        order = np.lexsort((tie, times))
    elif len(times) > 1 and bool((times[1:] < times[:-1]).any()):
        order = np.argsort(times, kind="stable")
    if codes is None:
        return order
    by_time = codes if order is None else codes[order]
    grouped = np.empty(len(codes), np.int64)
    loops.run("group", by_time, np.bincount(by_time, minlength=1), grouped)
    return grouped if order is None else order[grouped]


# ---- what comes in comes back ----


def _with_columns(table: Any, arrow: pa.Table | pa.RecordBatch, columns: Mapping[str, pa.Array]) -> Any:
    """Return a table of the same kind with further columns."""
    family = type(table).__module__.split(".")[0]
    made: Callable[..., Any] = {"pandas": _pandas, "polars": _polars}.get(family, _arrow)
    return made(table, arrow, columns)


def _pandas(table: Any, arrow: Any, columns: Mapping[str, pa.Array]) -> Any:
    del arrow
    frame = in_library(pa.table(dict(columns)), "pandas").set_axis(table.index)
    return table.assign(**{name: frame[name] for name in columns})


def _polars(table: Any, arrow: Any, columns: Mapping[str, pa.Array]) -> Any:
    import polars

    if hasattr(table, "collect"):  # evaluated again, its rows might come in another order
        table = polars.from_arrow(arrow)
    return table.with_columns(**{name: polars.Series(name, array) for name, array in columns.items()})


def _arrow(table: Any, arrow: pa.Table | pa.RecordBatch, columns: Mapping[str, pa.Array]) -> Any:
    del table
    for name, array in columns.items():
        arrow = arrow.append_column(name, array)
    return arrow


__all__ = ["Features", "features"]
