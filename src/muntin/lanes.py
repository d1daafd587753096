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

from muntin.algebra.aggregate import TIME
from muntin.expressions import Expression, sources
from muntin.slicing import arrow, having, intake, loops, output, snapshot
from muntin.slicing.empty_windows import refuse_many
from muntin.slicing.engine import Engine, undone_if_broken
from muntin.slicing.fields import Values
from muntin.slicing.keys import KeyTable
from muntin.slicing.pace import Pace, Survey
from muntin.slicing.window_manager import Store
from muntin.windows.base import Query
from muntin.windows.durations import LIMIT, Duration

Places = NDArray[np.int64]
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Setting:
    """What the engines of all lanes are made with."""

    policy: str
    delay: Duration | None
    lateness: Duration
    tie: str | None
    store: Store

    def engine(
        self, queries: Sequence[tuple[str, Query]], types: dict[str, pa.DataType], time_type: pa.DataType
    ) -> Engine:
        """Return an engine for queries over columns of these types."""
        clock = intake.clock_of(time_type)
        delay = self.delay.ticks(clock, "watermark") if self.delay is not None else 0
        lateness = self.lateness.ticks(clock, "lateness")
        if delay + lateness >= LIMIT:
            raise ValueError("watermark and lateness together must be shorter than 2^62.")
        return Engine(
            queries,
            types,
            time_type,
            clock,
            policy=self.policy,
            delay=delay,
            lateness=lateness,
            tied=self.tie is not None,
            store=self.store,
        )


class Lane:
    """The queries under one condition, with keys and slices of their own."""

    def __init__(self, where: Expression | None, key: Sequence[str]) -> None:
        self.where = where
        self.keys = KeyTable(key)
        self.queries: list[tuple[str, Query]] = []
        self.engine: Engine | None = None  # there is none before the first record

    def inputs(self) -> list[str]:
        """Return the columns and expressions that queries read."""
        names = {name: None for _, query in self.queries for name in query.columns()}
        if self.engine is not None:
            # A field that a removed query left may serve others, with all its columns.
            names |= dict.fromkeys(self.engine.columns())
        return list(names)

    def add(self, name: str, query: Query, setting: Setting, other: Engine, types: Any) -> None:
        """Take up a query of a running operator; the watermark so far is that of another lane."""
        if self.engine is None:
            engine = setting.engine([], dict(types), other.types[TIME])
            engine.watermark, engine.largest = other.watermark, other.largest
            self.keys.load([pa.nulls(0, types[key]) for key in self.keys.names])
            self.engine = engine
        self.engine.add(name, query)

    def forget(self, name: str) -> None:
        """Drop a query, also one that was not taken up in the end."""
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


def lane_for(lanes: list[Lane], where: Expression | None, key: Sequence[str]) -> Lane:
    """Return the lane with a condition, a new one if there is none yet."""
    found = next((lane for lane in lanes if lane.where == where), None)
    if found is None:
        found = Lane(where, key)
        lanes.append(found)
    return found


def check_columns(time: Any, key: Sequence[str]) -> None:
    """Refuse times and keys that are no columns, and keys that other columns of the output are named like."""
    for what, name in (("the time", time), *(("a key", name) for name in key)):
        if isinstance(name, Expression):
            raise ValueError(f"{what} is a column, not {name!r}: add the expression to the records as one.")
    for name in key:
        if name in output.FIXED or key.count(name) > 1:
            raise ValueError(f"the key column {name!r} is named twice, or like a column of the output.")


@dataclass
class _Part:
    """The records of a batch that a lane takes in: read, but not yet taken."""

    lane: Lane
    engine: Engine
    waiting: list[Any]  # what the engine took up for them
    at: Places | None  # their places in the batch; None: all
    times: Places
    codes: Places
    values: dict[int, Values]
    tie: NDArray[np.generic] | None


@dataclass
class Intake:
    """A batch on its way into all lanes of an operator: all of them take it in, or none."""

    setting: Setting
    schema: intake.Schema
    time: str
    table: pa.Table | pa.RecordBatch
    stamps: pa.Array | None  # times, if records are stamped as they come

    def process(self, lanes: Sequence[Lane], held: Callable[[Engine], None]) -> tuple[list[pa.Table], Places]:
        """Take in the batch; return rows, and the places of records that are late and count for nothing.

        `held` tells a new engine the watermark so far.
        """
        asked = dict.fromkeys(lane.where for lane in lanes if lane.where is not None)
        names = [*([self.time] if self.stamps is None else ()), *asked]
        columns, types = self.schema.columns(self.table, names)
        for condition in asked:
            having.check_truth(condition, columns[condition].type, "where")
        column = columns[self.time] if self.stamps is None else self.stamps
        times = intake.read_times(column, self.time)
        parts: list[_Part] = []
        known = [len(lane.keys) for lane in lanes]
        try:
            for lane in lanes:
                chosen = None if lane.where is None else _true(columns[lane.where])
                parts.append(self._read(lane, chosen, times, column.type, types, held))
            if any(part.waiting or part.lane.engine is None for part in parts):
                check_answers(part.engine for part in parts)
            rows, dropped = self._take_in(parts, times)
        except BaseException:
            for part in parts:
                part.engine.put_back(part.waiting)
            for lane, count in zip(lanes, known, strict=True):
                lane.keys.truncate(count)
                if lane.engine is None:  # the first batch fixes nothing if it is refused
                    lane.keys = KeyTable(lane.keys.names)
            raise
        for part in parts:
            part.lane.engine = part.engine
            part.engine.breathe(part.lane.keys, len(part.times))
        self.schema.fix(types)
        return rows, dropped

    def _read(
        self,
        lane: Lane,
        chosen: NDArray[np.bool_] | None,
        times: Places,
        time_type: pa.DataType,
        types: dict[str, pa.DataType],
        held: Callable[[Engine], None],
    ) -> _Part:
        """Read the records that a lane takes in; add the types of its columns to those of others."""
        tie = self.setting.tie
        names = list(dict.fromkeys([*lane.keys.names, *([tie] if tie else []), *lane.inputs()]))
        columns, found = self.schema.columns(self._filtered(names, chosen), names)
        types |= found
        engine = lane.engine
        if engine is None:
            engine = self.setting.engine(lane.queries, {**types}, time_type)
            held(engine)
        waiting = engine.take_up(types)
        part = _Part(lane, engine, waiting, None, times, np.zeros(1, np.int64), {}, None)
        try:
            if chosen is not None:
                part.at = np.flatnonzero(chosen)
                part.times = times[part.at]
            if len(part.times):
                part.values = engine.read_values(columns, part.times)
                part.tie = intake.tie_values(columns[tie], tie) if tie else None
                part.codes = lane.keys.encode([columns[name] for name in lane.keys.names])
                engine.sums.expect(part.values)
            elif lane.keys.types is None:
                lane.keys.load([columns[name] for name in lane.keys.names])
        except BaseException:
            engine.put_back(waiting)
            raise
        return part

    def _filtered(self, names: Sequence[str], chosen: NDArray[np.bool_] | None) -> pa.Table | pa.RecordBatch:
        """Return what a lane reads of its records."""
        if chosen is None:
            return self.table
        read = dict.fromkeys(source for name in names for source in sources(name))
        found = pa.table({name: arrow.named(self.table, name) for name in read} or {"": pa.array(chosen)})
        filtered: pa.Table = found.filter(pa.array(chosen))
        return filtered

    def _take_in(self, parts: Sequence[_Part], times: Places) -> tuple[list[pa.Table], Places]:
        """Let all engines take in their records, or none; each is late or not by all that came before it."""
        first = parts[0].engine
        survey = first.survey(times)
        intake.check_range(survey.low, survey.high, self.time)
        for part in parts:
            if len(part.times):
                part.engine.check_span(int(part.times.min()), int(part.times.max()))
        before, largest = first.watermark, max(first.largest, survey.high)
        after = before if first.delay < 0 else max(before, survey.high - first.delay)
        marks = np.full(len(times), before)
        if survey.late:
            loops.run("watermarks", times, before, first.delay, marks)
        refuse_many(
            expected
            for part in parts
            for expected in part.engine.expect_empty(
                part.codes, part.times, (marks if part.at is None else marks[part.at]), after
            )
        )
        counts = np.zeros(len(times), bool)  # which late records do, for some query

        def take_in() -> list[pa.Table]:
            rows = []
            for part in parts:
                if not len(part.times):
                    part.engine.largest = largest
                    rows.append(part.engine.advance(after, part.lane.keys))
                    continue
                own = marks if part.at is None else marks[part.at]
                late = bool(survey.late and (part.times < own).any())
                told, dropped = _paced(part, Pace(own if late else None, after, largest))
                rows.append(told)
                taken = np.ones(len(part.times), bool)
                taken[dropped] = False
                counts[slice(None) if part.at is None else part.at] |= taken
            return rows

        risky = any(part.engine.risky() for part in parts)
        told = undone_if_broken([part.engine for part in parts], take_in) if risky else take_in()
        return told, np.flatnonzero((times < marks) & ~counts) if survey.late else np.empty(0, np.int64)


def _true(values: pa.Array) -> NDArray[np.bool_]:
    """Return for which records a condition is true; one that is null for all of them has no type yet."""
    return np.asarray(values.cast(pa.bool_()).fill_null(False))


def _paced(part: _Part, pace: Pace) -> tuple[pa.Table, Any]:
    """Take in the records of a part; return rows, and the places of records that were dropped."""
    times = part.times
    disordered = len(times) > 1 and bool(loops.run("disordered", times))
    survey = Survey(disordered, int(times.min()), int(times.max()), pace.marks is not None)
    rows, dropped = part.engine.process_paced(
        times, part.codes, part.lane.keys, part.values, part.tie, survey, pace
    )
    return rows, [] if dropped is None else dropped


def advance(lanes: Sequence[Lane], watermark: int) -> list[pa.Table]:
    """Move the watermark of all lanes, or of none."""
    engines = [lane.running() for lane in lanes]
    if len(lanes) > 1:
        refuse_many(one for engine in engines for one in engine.expect_empty(_NONE, _NONE, None, watermark))

    def move() -> list[pa.Table]:
        return [lane.running().advance(watermark, lane.keys) for lane in lanes]

    if len(lanes) > 1 and any(engine.risky() for engine in engines):
        moved: list[pa.Table] = undone_if_broken(engines, move)
        return moved
    return move()


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
    recoded = [_recoded(table, numbers) for table in tables]
    whole = pa.concat_tables(recoded, promote_options="permissive").combine_chunks()
    answers = dict.fromkeys(column for _, query in queries for column in query.aggregates)
    keys = whole.column_names[: whole.column_names.index("query")]
    names = [*keys, *output.FIXED[:4], *output.MEASURES, *output.FIXED[4:], *answers]
    there = set(whole.column_names)  # without those of a query that waits
    return having.in_order(whole.select([name for name in names if name in there]))


def _recoded(table: pa.Table, numbers: dict[str, int]) -> pa.Table:
    """Return rows whose queries are numbered among those of all lanes."""
    query = table["query"].combine_chunks()
    places = np.array([numbers[name] for name in query.dictionary.to_pylist()], np.int32)
    column = output.coded(places[np.asarray(query.indices)], arrow.texts(list(numbers)))
    return table.set_column(table.column_names.index("query"), "query", column)


# ---- snapshots ----


def describe(lanes: Sequence[Lane]) -> dict[str, Any]:
    """Return all of the lanes that is not a table; the first one stands by itself."""
    for lane in lanes:
        if lane.engine is not None:
            lane.engine.let_go(lane.keys)
    engines = [None if lane.engine is None else snapshot.describe_engine(lane.engine) for lane in lanes]
    where = [None if lane.where is None else str(lane.where) for lane in lanes]
    return {"engine": engines[0], "where": where, "lanes": engines[1:]}


def dump(lanes: Sequence[Lane]) -> dict[str, pa.Table]:
    """Return the tables of all lanes."""
    tables: dict[str, pa.Table] = {}
    for k, lane in enumerate(lanes):
        own = snapshot.engine_tables(lane.running(), lane.keys)
        tables |= {_of_lane(k, name): table for name, table in own.items()}
    return tables


def _of_lane(k: int, name: str) -> str:
    return f"lane {k} {name}" if k else name


def in_turn(lanes: Sequence[Lane], described: Mapping[str, Any]) -> list[Lane]:
    """Return lanes in the order in which they were described."""
    order = described.get("where", [None])
    return sorted(lanes, key=lambda lane: order.index(None if lane.where is None else str(lane.where)))


def load(
    lanes: Sequence[Lane],
    described: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    setting: Setting,
    types: dict[str, pa.DataType],
) -> None:
    """Fill lanes as they were described."""
    engines = [described["engine"], *described.get("lanes", [])]
    for k, (lane, told) in enumerate(zip(lanes, engines, strict=True)):
        own = dict(tables) if not k else {}
        if k:
            start = _of_lane(k, "")
            own = {n.removeprefix(start): table for n, table in tables.items() if n.startswith(start)}
        lane.keys.load([own["keys"].column(c).combine_chunks() for c in range(len(lane.keys.names))])
        engine = setting.engine([], types, own["time"].schema.field("time").type)
        snapshot.load_engine(engine, told, own, dict(lane.queries))
        lane.engine = engine
