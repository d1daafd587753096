"""Lanes: the queries of an operator by the condition that lets records through to them.

Queries under one condition share slices. All lanes share one watermark, which every record moves, whether a
condition lets it through or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin import columnar
from muntin.algebra.aggregate import TIME
from muntin.columnar import Indices
from muntin.engine.engine import Engine
from muntin.engine.ingest import batch_loops, reader
from muntin.engine.ingest.columns import RefusedRecordError
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.ingest.reading import Batch, read_batch
from muntin.engine.ingest.watermark import Schedule
from muntin.engine.output import having, row_columns
from muntin.engine.slices.grid.empty_windows import Records, refuse_many
from muntin.engine.state import engine_state
from muntin.engine.state.description import Described, inconsistent
from muntin.engine.state.tables import table_of
from muntin.engine.transaction import Transactional
from muntin.engine.user_errors import AggregateError
from muntin.expressions import Expression, sources
from muntin.settings import FINAL, FIXED, MEASURES, Settings
from muntin.windows.base import Query

_NONE = np.empty(0, np.int64)


class Lane(Transactional):
    """The queries under one condition, with keys and slices of their own."""

    often = ()

    def __init__(self, where: Expression | None, key: Sequence[str]) -> None:
        self.where = where
        self.keys = KeyTable(key)
        self.queries: list[tuple[str, Query]] = []
        self.engine: Engine | None = None  # there is none before the first record

    def parts(self) -> Iterable[Transactional]:
        """Return keys and slices."""
        return (self.keys,) if self.engine is None else (self.keys, self.engine)

    def start(self, engine: Engine) -> None:
        """Take in records from now on."""
        if self.engine is None:
            self.save()
            self.engine = engine
            self.parts_changed()

    def inputs(self) -> list[str]:
        """Return the columns and expressions that queries read."""
        names = {name: None for _, query in self.queries for name in query.columns()}
        if self.engine is not None:
            # A field that a removed query left may serve others, with all its columns.
            names |= dict.fromkeys(self.engine.columns())
        return list(names)

    def add(self, name: str, query: Query, settings: Settings, other: Engine, types: Any) -> None:
        """Take up a query of a running operator; the watermark so far is that of another lane."""
        if self.engine is None:
            engine = Engine.of(settings, [], dict(types), other.types[TIME])
            engine.watermark, engine.largest = other.watermark, other.largest
            self.keys.load([pa.nulls(0, types[key]) for key in self.keys.names])
            self.start(engine)
        self.running().add(name, query)

    def take(self, queries: Iterable[tuple[str, Query]]) -> None:
        """Note further queries."""
        self.save()
        self.queries = [*self.queries, *queries]

    def forget(self, name: str) -> None:
        """Drop a query."""
        self.save()
        self.queries = [(other, query) for other, query in self.queries if other != name]
        if self.engine is not None and self.queries and self.engine.has(name):
            self.engine.remove(name)

    def running(self) -> Engine:
        """Return the engine, where there was a record already."""
        assert self.engine is not None
        return self.engine


def lane_of(lanes: Iterable[Lane], name: str) -> Lane:
    """Return the lane of a query."""
    return next(lane for lane in lanes if any(name == other for other, _ in lane.queries))


def lane_for(lanes: Iterable[Lane], where: Expression | None, key: Sequence[str]) -> Lane:
    """Return the lane with a condition, a new one if there is none yet."""
    return next((lane for lane in lanes if lane.where == where), None) or Lane(where, key)


@dataclass
class _Part:
    """The records of a batch that a lane takes in: read, but not yet taken."""

    lane: Lane
    engine: Engine
    planned: bool  # queries were that had waited for them
    at: Indices | None  # their places in the batch; None: all
    times: Indices
    batch: Batch | None  # None: there are none

    def codes(self) -> Indices:
        """Return the keys of the records."""
        return _NONE if self.batch is None else self.batch.records.codes


@dataclass
class Intake:
    """A batch on its way into all lanes of an operator."""

    settings: Settings
    schema: reader.Schema
    time: str
    table: pa.Table | pa.RecordBatch
    stamps: pa.Array | None  # times, if records are stamped as they come

    def process(
        self, lanes: Sequence[Lane], held: Callable[[Engine], None]
    ) -> tuple[list[pa.Table], Indices]:
        """Take in the batch; return rows, and the places of records that are late and count for nothing.

        `held` tells a new engine the watermark so far.
        """
        asked = dict.fromkeys(lane.where for lane in lanes if lane.where is not None)
        names = [*([self.time] if self.stamps is None else ()), *asked]
        columns, types = self.schema.columns(self.table, names)
        for condition in asked:
            having.check_truth(condition, columns[condition].type, "where")
        column = columns[self.time] if self.stamps is None else self.stamps
        times = reader.read_times(column, self.time)
        parts = []
        for lane in lanes:
            chosen = None if lane.where is None else _true(columns[lane.where])
            parts.append(self._read(lane, chosen, times, column.type, types, held))
        if any(part.planned or part.lane.engine is None for part in parts):
            check_answers(part.engine for part in parts)
        rows, dropped = self._take_in(parts, times)
        for part in parts:
            part.lane.start(part.engine)
            part.engine.evict_now_and_then(part.lane.keys, len(part.times))
        self.schema.fix(types)
        return rows, dropped

    def _read(
        self,
        lane: Lane,
        chosen: NDArray[np.bool_] | None,
        times: Indices,
        time_type: pa.DataType,
        types: dict[str, pa.DataType],
        held: Callable[[Engine], None],
    ) -> _Part:
        """Read the records that a lane takes in; add the types of its columns to those of others."""
        tie = self.settings.tie
        names = list(dict.fromkeys([*lane.keys.names, *([tie] if tie else []), *lane.inputs()]))
        columns, found = self.schema.columns(self._filtered(names, chosen), names)
        types |= {n: kind for n, kind in found.items() if pa.types.is_null(types.get(n, pa.null()))}
        # Under another condition, an expression over columns without values may have had some.
        columns |= {n: pa.nulls(len(columns[n]), types[n]) for n in names if pa.types.is_null(found[n])}
        engine = lane.engine
        if engine is None:
            engine = Engine.of(self.settings, lane.queries, {**types}, time_type)
            held(engine)
        planned = engine.take_up(types)
        part = _Part(lane, engine, planned, None, times, None)
        if chosen is not None:
            part.at = np.flatnonzero(chosen)
            part.times = times[part.at]
        if len(part.times):
            try:
                part.batch = read_batch(engine, lane.keys, columns, part.times, self.time, tie)
            except RefusedRecordError as error:
                if part.at is not None:
                    error.record = int(part.at[error.record])
                raise
            engine.sums.expect(part.batch.records.values)
        else:
            lane.keys.set_types([columns[name].type for name in lane.keys.names])
        return part

    def _filtered(self, names: Sequence[str], chosen: NDArray[np.bool_] | None) -> pa.Table | pa.RecordBatch:
        """Return what a lane reads of its records."""
        if chosen is None:
            return self.table
        read = dict.fromkeys(source for name in names for source in sources(name))
        columns = {name: columnar.plain(columnar.named(self.table, name)) for name in read}
        found = pa.table(columns or {"": pa.array(chosen)})
        filtered: pa.Table = found.filter(pa.array(chosen))
        return filtered

    def _take_in(self, parts: Sequence[_Part], times: Indices) -> tuple[list[pa.Table], Indices]:
        """Let all engines take in their records; each is late or not by all that came before it."""
        first = parts[0].engine
        survey = first.survey(times)
        reader.check_range(survey.low, survey.high, self.time)
        before, largest = first.watermark, max(first.largest, survey.high)
        after = before if first.delay < 0 else max(before, survey.high - first.delay)
        marks = np.full(len(times), before)
        if survey.late:
            batch_loops.run("watermarks", times, before, first.delay, marks)
        refuse_many(
            expected
            for part in parts
            for expected in part.engine.expect_empty(
                Records(part.codes(), part.times, marks if part.at is None else marks[part.at]), after
            )
        )
        counts = np.zeros(len(times), bool)  # which late records do, for some query
        rows = []
        for part in parts:
            if part.batch is None:
                part.engine.largest = largest
                rows.append(part.engine.advance(after, part.lane.keys))
                continue
            own = marks if part.at is None else marks[part.at]
            late = bool(survey.late and (part.times < own).any())
            emitted, dropped = _ingested(part, part.batch, Schedule(own if late else None, after, largest))
            rows.append(emitted)
            taken = np.ones(len(part.times), bool)
            taken[dropped] = False
            counts[slice(None) if part.at is None else part.at] |= taken
        return rows, np.flatnonzero((times < marks) & ~counts) if survey.late else np.empty(0, np.int64)


def _true(values: pa.Array) -> NDArray[np.bool_]:
    """Return for which records a condition is true; one that is null for all of them has no type yet."""
    return np.asarray(values.cast(pa.bool_()).fill_null(False))


def _ingested(part: _Part, batch: Batch, schedule: Schedule) -> tuple[pa.Table, Any]:
    """Take in the records of a part; return rows, and the places of records that were dropped."""
    try:
        rows, dropped = part.engine.ingest(batch.records, batch.tie, part.lane.keys, schedule)
    except AggregateError as error:
        found = part.engine.located(error, batch.records.values)
        if found.record is not None and part.at is not None:
            found.record = int(part.at[found.record])
        raise found from error.__cause__
    return rows, [] if dropped is None else dropped


def latest_values(lanes: Sequence[Lane], key: Any) -> dict[str, Any]:
    """Return the newest values of a key by query."""
    found: dict[str, Any] = {}
    for lane in lanes:
        if lane.engine is not None:
            code = lane.keys.code_of(() if key is None and not lane.keys.names else key)
            found |= lane.engine.latest_values(code if lane.keys.names else 0)
    return found


def advance(lanes: Sequence[Lane], watermark: int) -> list[pa.Table]:
    """Move the watermark of all lanes."""
    engines = [lane.running() for lane in lanes]
    if len(lanes) > 1:
        refuse_many(
            one for engine in engines for one in engine.expect_empty(Records(_NONE, _NONE, None), watermark)
        )
    return [lane.running().advance(watermark, lane.keys) for lane in lanes]


def leave(lane: Lane, others: Sequence[Lane]) -> None:
    """Let a lane go; what it has done stays counted."""
    if lane.engine is not None:
        gone, stays = lane.engine, others[0].running()
        stays.windows.windows_emitted += gone.windows.windows_emitted
        stays.windows.final_combines += gone.windows.final_combines
        stays.slices.update_combines += gone.slices.update_combines


# ---- rows ----


def check_answers(engines: Iterable[Engine]) -> None:
    """Refuse one name with two types among the output columns of all lanes."""
    found: dict[str, pa.DataType] = {}
    for engine in engines:
        for column, kind in engine.tables.answer_types.items():
            if kind is not None and found.setdefault(column, kind) != kind:
                raise TypeError(
                    f"column {column!r} would be {found[column]} for one query and {kind} for another; give "
                    "them different names."
                )


def joined(tables: Sequence[pa.Table], queries: Sequence[tuple[str, Query]]) -> pa.Table:
    """Return the rows of all lanes as one table, in order; what a query does not have is null."""
    if len(tables) == 1:
        return tables[0]
    numbers = {name: number for number, (name, _) in enumerate(queries)}
    if any(FINAL in table.column_names for table in tables):
        tables = [with_final(table) for table in tables]
    recoded = [_recoded(table, numbers) for table in tables]
    whole = pa.concat_tables(recoded, promote_options="permissive").combine_chunks()
    answers = dict.fromkeys(column for _, query in queries for column in query.aggregates)
    keys = whole.column_names[: whole.column_names.index("query")]
    names = [*keys, *FIXED[:4], *MEASURES, *FIXED[4:], FINAL, *answers]
    there = set(whole.column_names)  # without those of a query that waits
    return having.in_order(whole.select([name for name in names if name in there]))


def with_final(table: pa.Table) -> pa.Table:
    """Return rows that are all final with the column that says so, unless they have it."""
    if FINAL in table.column_names or "change" not in table.column_names:
        return table
    final = pa.array(np.ones(table.num_rows, bool))
    return table.add_column(table.column_names.index("change") + 1, FINAL, final)


def _recoded(table: pa.Table, numbers: dict[str, int]) -> pa.Table:
    """Return rows whose queries are numbered among those of all lanes."""
    query = table["query"].combine_chunks()
    places = np.array([numbers[name] for name in query.dictionary.to_pylist()], np.int32)
    column = row_columns.coded(places[np.asarray(query.indices)], columnar.texts(list(numbers)))
    return table.set_column(table.column_names.index("query"), "query", column)


# ---- snapshots ----


def describe(lanes: Sequence[Lane]) -> dict[str, Any]:
    """Return all of the lanes that is not a table; the first one stands by itself."""
    for lane in lanes:
        if lane.engine is not None:
            lane.engine.evict(lane.keys)
    engines = [None if lane.engine is None else engine_state.describe_engine(lane.engine) for lane in lanes]
    where = [None if lane.where is None else str(lane.where) for lane in lanes]
    return {"engine": engines[0], "where": where, "lanes": engines[1:]}


def dump(lanes: Sequence[Lane]) -> dict[str, pa.Table]:
    """Return the tables of all lanes."""
    tables: dict[str, pa.Table] = {}
    for k, lane in enumerate(lanes):
        own = engine_state.engine_tables(lane.running(), lane.keys)
        tables |= {_of_lane(k, name): table for name, table in own.items()}
    return tables


def _of_lane(k: int, name: str) -> str:
    return f"lane {k} {name}" if k else name


def in_turn(lanes: Sequence[Lane], described: Described) -> list[Lane]:
    """Return lanes in the order in which they were described."""
    order = [told.text_or_none() for told in described.get("where", [None]).each()]
    by_where = {None if lane.where is None else str(lane.where): lane for lane in lanes}
    if len(order) != len(lanes) or set(order) != by_where.keys():
        described.get("where", [None]).wrong("the conditions of all queries")
    return [by_where[where] for where in order]


def load(
    lanes: Sequence[Lane],
    described: Described,
    tables: Mapping[str, pa.Table],
    settings: Settings,
    types: dict[str, pa.DataType],
    time: pa.DataType,
) -> None:
    """Fill lanes as they were described, over columns of these types and times of this one."""
    engines = [described["engine"], *described.get("lanes", []).each(len(lanes) - 1)]
    tie = None if settings.tie is None else types[settings.tie]
    for k, (lane, told) in enumerate(zip(lanes, engines, strict=True)):
        start = _of_lane(k, "")
        own = {n.removeprefix(start): table for n, table in tables.items() if n.startswith(start)}
        engine_state.load_keys(lane.keys, own, types)
        shown = table_of(own, "time").every_type()["time"]
        if shown != time and not (pa.types.is_integer(shown) and pa.types.is_integer(time)):
            raise inconsistent(f"times are {time}, and windows lie in {shown}")
        reader.read_times(pa.array([], time), "time")
        engine = Engine.of(settings, [], types, shown)
        engine_state.load_engine(engine, told, own, dict(lane.queries), len(lane.keys), tie)
        lane.engine = engine
    if len({lane.running().watermark for lane in lanes}) > 1:
        described["lanes"].wrong("engines with one watermark")
