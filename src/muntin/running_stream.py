"""The stream of an operator while it runs: what each call does, once it has its turn."""

from __future__ import annotations

import dataclasses
import math
import time as clock_time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from muntin import columnar, lanes
from muntin.algebra.aggregate import Absent
from muntin.columnar import Indices
from muntin.engine.engine import Engine
from muntin.engine.explain import Explanation, explain, in_lanes
from muntin.engine.ingest import inputs, reader
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.ingest.lateness import rows_of, together
from muntin.engine.ingest.reading import read_batch
from muntin.engine.ingest.single_record import SingleRecords
from muntin.engine.ingest.times import Time, as_time, goes_back, shown, ticks_of
from muntin.engine.output.lookup import list_slices, look_up
from muntin.engine.rows import FOREVER, NEVER, Emission
from muntin.engine.state import envelope
from muntin.engine.state.description import Described
from muntin.engine.state.queries import describe_query
from muntin.engine.state.tables import table_of
from muntin.engine.transaction import Exclusive, Steps, Transactional
from muntin.expressions import Expression, marked, unmarked
from muntin.lanes import Lane
from muntin.metrics import Metrics, QueryMetrics
from muntin.settings import Settings, time_and_key
from muntin.windows.base import Query
from muntin.windows.durations import LIMIT, Duration
from muntin.windows.grid import plain

PROCESSING_TIME: Final = Absent("PROCESSING_TIME")  # as `time`: records are stamped as they come
_STAMP = pa.timestamp("us", "UTC")


class RunningStream(Exclusive):
    """Queries, slices and late records of an operator; `WindowOperator` gives each call its turn."""

    def __init__(self, settings: Settings, queries: Iterable[Query]) -> None:
        self._settings = settings
        self._lanes: list[Lane] = []
        self._queries: list[tuple[str, Query]] = []
        self._named = 0
        self._names: list[str] | None = None  # the columns that batches must have
        self._name(queries)
        self._schema = reader.Schema()
        self._pending_watermark: Time | None = None
        self._finished = False
        self._late: list[pa.Table] = []
        self._late_dropped = 0
        self._records_in = 0
        self._last_stamp = 0

    often = (
        "_records_in",
        "_late_dropped",
        "_late",
        "_last_stamp",
        "_pending_watermark",
        "_finished",
        "_names",
    )

    def parts(self) -> Iterable[Transactional]:
        """Return the types of columns, and the queries under each condition with their slices."""
        return self._schema, *self._lanes

    def begin(self, steps: Steps) -> None:
        """Write down how many tables of late records there are: new ones come behind them."""
        steps.append((_truncate, self._late, len(self._late)))

    def _name(self, queries: Iterable[Query]) -> list[str]:
        """Give queries names, and put each with those under the same condition."""
        self.save()
        named = self._settings.named(queries, [name for name, _ in self._queries], self._named)
        self._settings.check_final([*self._queries, *named])
        all_lanes = list(self._lanes)
        by_lane: dict[Lane, list[tuple[str, Query]]] = {}
        for name, query in named:
            where = query.where if isinstance(query.where, Expression) else None
            lane = lanes.lane_for(all_lanes, where, self._settings.key)
            all_lanes += [] if lane in all_lanes else [lane]
            by_lane.setdefault(lane, []).append((name, query))
        for lane, some in by_lane.items():
            lane.take(some)
        self._queries, self._lanes = [*self._queries, *named], all_lanes
        self._named += len(named)
        self._changed()
        return [name for name, _ in named]

    def _changed(self) -> None:
        """Follow a change of the queries."""
        self._names = None
        self.parts_changed()
        # Most operators have one lane, which all records take: its engine sees to the watermark by itself.
        self._lane = self._lanes[0]
        self._filters = len(self._lanes) > 1 or self._lane.where is not None

    @property
    def _time(self) -> str | Absent:
        return self._settings.time

    @property
    def _engine(self) -> Engine | None:
        """The engine of the first lane, whose watermark all others share; None before the first record."""
        return self._lane.engine

    @property
    def _keys(self) -> KeyTable:
        return self._lane.keys

    def _input_names(self) -> list[str]:
        """Return all columns and expressions that batches must have."""
        return self._settings.inputs(name for lane in self._lanes for name in lane.inputs())

    def _reads(self) -> list[str]:
        """Return all columns and expressions that are read, conditions among them."""
        return [*self._input_names(), *(lane.where for lane in self._lanes if lane.where is not None)]

    def _add(self, query: Query) -> str:
        self._running()
        if not isinstance(query, Query):
            raise TypeError(f"a query is what a window's agg() gives, not {query!r}.")
        time_and_key([query], self._time, self._settings.key)
        (name,) = self._name([query])
        if self._engine is not None:
            lane = lanes.lane_of(self._lanes, name)
            lane.add(name, query, self._settings, self._engine, self._schema.types)
            lanes.check_answers(lane.running() for lane in self._lanes)
        return name

    def _remove(self, name: str) -> None:
        self.save()
        self._running()
        names = [other for other, _ in self._queries]
        if name not in names:
            raise KeyError(f"there is no query named {name!r}; there are {', '.join(map(repr, names))}.")
        if len(names) == 1:
            raise ValueError(f"{name!r} is the only query; an operator needs at least one.")
        self._queries = [(other, query) for other, query in self._queries if other != name]
        lane = lanes.lane_of(self._lanes, name)
        if len(lane.queries) == 1:
            self._lanes = [other for other in self._lanes if other is not lane]
            lanes.leave(lane, self._lanes)
        else:
            lane.forget(name)
        self._changed()

    def _process_batch(self, batch: Any) -> pa.Table:
        self._running()
        table = inputs.as_arrow(batch, self._settings.time)
        if not table.num_rows:
            return self._nothing()
        try:
            if self._filters:
                return self._process_filtered(table)
            rows = self._process_single(table) if table.num_rows == 1 and self._engine is not None else None
            return self._process(table) if rows is None else rows
        except UnicodeDecodeError as error:
            told = reader.invalid_text(table, self._reads())
            if told is None:
                raise
            raise ValueError(told) from error

    def _process_single(self, table: pa.Table | pa.RecordBatch) -> pa.Table | None:
        """Take in one record like those before it; None if that is not so simple."""
        engine = self._engine
        assert engine is not None
        if engine.single is None or not engine.single.schema.equals(table.schema):
            if self._settings.tie or self._time is PROCESSING_TIME or engine.waiting:
                return None
            engine.single = SingleRecords(
                engine, table.schema, self._schema.types, str(self._time), self._keys
            )
        rows = engine.single.process(table)
        if rows is not None:
            self._records_in += 1
            engine.evict_now_and_then(self._keys, 1)
        return rows

    def _stamps(self, records: int) -> pa.Array | None:
        """Return the times of records that are stamped as they come."""
        if self._time is not PROCESSING_TIME:
            return None
        return columnar.numbers(np.full(records, self._now()), _STAMP)

    def _process(self, table: pa.Table | pa.RecordBatch) -> pa.Table:
        stamps = self._stamps(table.num_rows)
        if self._names is None:
            self._names = self._input_names()
        columns, types = self._schema.columns(table, self._names)
        times_column = stamps if stamps is not None else columns[str(self._time)]
        times = reader.read_times(times_column, str(self._time))
        lane, keys = self._lane, self._keys
        engine = lane.engine
        if engine is None:
            engine = Engine.of(self._settings, lane.queries, types, times_column.type)
            self._tell_watermark(engine)
        engine.take_up(types)
        batch = read_batch(engine, keys, columns, times, str(self._time), self._settings.tie)
        rows, dropped = engine.process(batch, keys)
        lane.start(engine)
        self._pending_watermark = None
        self._schema.fix(types)
        self._records_in += len(times)
        engine.evict_now_and_then(keys, len(times))
        if dropped is not None:
            self._drop(table, dropped)
        return rows

    def _process_filtered(self, table: pa.Table | pa.RecordBatch) -> pa.Table:
        """Take in a batch of which not all records are for all queries."""
        stamps = self._stamps(table.num_rows)
        batch = lanes.Intake(self._settings, self._schema, str(self._time), table, stamps)
        rows, dropped = batch.process(self._lanes, self._tell_watermark)
        self._pending_watermark = None
        self._records_in += table.num_rows
        if len(dropped):
            self._drop(table, dropped)
        return lanes.joined(rows, self._queries)

    def _tell_watermark(self, engine: Engine) -> None:
        """Hand the watermark over that was waiting for the first record."""
        if self._pending_watermark is not None:
            engine.watermark = ticks_of(self._pending_watermark, engine.tables.time_type)

    def _drop(self, table: pa.Table | pa.RecordBatch, dropped: Indices) -> None:
        """Keep records that came too late for everything; warn of the first that broke the order."""
        first = not self._late_dropped
        self._late_dropped += len(dropped)
        self._late.append(rows_of(table, dropped))
        if self._settings.policy == "in_order" and first:
            warnings.warn(
                f"record {int(dropped[0])} of the batch goes back in time and counts for nothing: the stream "
                "is not in order. Give watermark='5s' (or 'manual'), or use mt.aggregate for a finite table.",
                UserWarning,
                stacklevel=8,
            )

    def _advance(self, watermark: Any) -> pa.Table:
        self._running()
        if watermark is None:
            if self._time is not PROCESSING_TIME:
                raise TypeError("advance() needs a watermark; only in processing time does it mean now.")
            watermark = pa.scalar(self._now(), pa.int64()).cast(_STAMP)
        if self._engine is None:
            self._hold_watermark(watermark)
            return self._nothing()
        ticks = ticks_of(watermark, self._engine.tables.time_type)
        if ticks < self._engine.watermark:
            raise ValueError(_back(self._watermark(), as_time(watermark, "the watermark")))
        rows = lanes.advance(self._lanes, ticks)
        for lane in self._lanes:
            lane.running().evict_now_and_then(lane.keys)
        return lanes.joined(rows, self._queries)

    def _hold_watermark(self, watermark: Any) -> None:
        """Keep a watermark until the first batch says what times are."""
        held, time = self._pending_watermark, as_time(watermark, "the watermark")
        if isinstance(time, int):
            ticks_of(time, pa.int64())  # refuses what is too far from zero
        if held is not None and isinstance(held, int) != isinstance(time, int):
            raise TypeError(
                f"the watermark was {shown(held)} so far, which is of another kind than {shown(time)}."
            )
        if held is not None and goes_back(time, held):
            raise ValueError(_back(held, time))
        self._pending_watermark = time

    def _finish(self) -> pa.Table:
        if self._finished:
            return self._nothing()
        if self._engine is None:
            rows = self._nothing()
        else:
            rows = lanes.joined(lanes.advance(self._lanes, FOREVER), self._queries)
        self._finished = True
        return rows

    def _running(self) -> None:
        if self._finished:
            raise RuntimeError("the stream was ended by finish(); make a new WindowOperator for another.")

    def _now(self) -> int:
        now = clock_time.time_ns() // 1000
        self._last_stamp = max(self._last_stamp, now)
        return self._last_stamp

    def _watermark(self) -> Any:
        if self._finished:
            return math.inf
        if self._engine is None:
            return self._pending_watermark
        if self._engine.watermark == NEVER:
            return None
        return self._as_time(self._engine.watermark)

    def _newest(self) -> Any:
        if self._engine is None or self._engine.largest == NEVER:
            return None
        return self._as_time(self._engine.largest)

    def _as_time(self, ticks: int) -> Any:
        """Return ticks as a time of the time column's type: an integer, or an Arrow scalar."""
        assert self._engine is not None
        kind = self._engine.tables.time_type
        return pa.scalar(ticks, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else ticks

    def _named_queries(self) -> Mapping[str, Query]:
        return dict(self._queries)

    def _take_late(self) -> pa.Table:
        if not self._late:
            return pa.table({})
        late = together(self._late, self._schema.types)
        self._late = []
        return late

    def _metrics(self) -> Metrics:
        if self._engine is None:
            return Metrics(self._records_in, self._late_dropped, 0, 0, 0, 0, 0, 0, 0, 0)
        engines = [lane.running() for lane in self._lanes]
        updates = sum(engine.slices.update_combines for engine in engines)
        finals = sum(engine.windows.final_combines for engine in engines)
        return Metrics(
            self._records_in,
            self._late_dropped,
            sum(engine.windows.windows_emitted for engine in engines),
            sum(engine.slice_count() for engine in engines),
            sum(lane.running().live_keys(lane.keys) for lane in self._lanes),
            sum(engine.records_kept() for engine in engines),
            sum(engine.state_bytes() for engine in engines),
            updates + finals,
            updates,
            finals,
        )

    def _query_metrics(self) -> Mapping[str, QueryMetrics]:
        found = {name: QueryMetrics(0, 0, 0) for name, _ in self._queries}
        for engine in (lane.engine for lane in self._lanes if lane.engine is not None):
            held = engine.held_for()
            for planned in engine.plan.queries:
                combines = engine.windows.combines_of(planned.number)
                found[planned.name] = QueryMetrics(*held[planned.name], combines)
        return found

    def _explain(self) -> Explanation:
        watermark = self._settings.policy if self._settings.delay is None else str(self._settings.delay)
        engines = [self._trial(lane) if lane.engine is None else lane.engine for lane in self._lanes]
        told = [
            explain(engine, watermark, str(self._settings.lateness), self._settings.store)
            for engine in engines
        ]
        return in_lanes(told, [lane.where for lane in self._lanes])

    def _trial(self, lane: Lane) -> Engine:
        """Return an engine as if times were in the finest unit, and values floats, or what they must be."""
        durations = [self._settings.delay, self._settings.lateness, *_durations(self._queries)]
        plain_integers = any(d is not None and d.integer for d in durations)
        kind = pa.int64() if plain_integers else pa.timestamp("ns")
        types = dict.fromkeys([*self._settings.key, *lane.inputs()], pa.float64())
        asked = [aggregate for _, query in lane.queries for aggregate in query.aggregates.values()]
        types |= {name: kind for a in asked for name, kind in a.needed_types().items()}
        # What conditions read may be of another type: they are looked at when there are records.
        unconditional = [(name, dataclasses.replace(query, having=None)) for name, query in lane.queries]
        engine = Engine.of(self._settings, unconditional, types, kind)
        whole = dict(lane.queries)
        engine.plan.queries = [dataclasses.replace(p, query=whole[p.name]) for p in engine.plan.queries]
        return engine

    def _lookup(self, start: Any, end: Any, key: Any, name: str | None) -> pa.Table:
        name = self._one_of_queries(name)
        if self._engine is None:
            return pa.table({})
        lane = lanes.lane_of(self._lanes, name)
        kind = self._engine.tables.time_type
        low, high = ticks_of(start, kind, "start", up=True), ticks_of(end, kind, "end")
        code = None if key is None else lane.keys.code_of(key)
        return look_up(lane.running(), name, low, high, code, lane.keys)

    def _one_of_queries(self, name: str | None) -> str:
        """Return the name of a query, which may be left out where there is one."""
        names = [other for other, _ in self._queries]
        if name is None and len(names) > 1:
            raise ValueError(f"say which query to look up: name= one of {', '.join(map(repr, names))}.")
        name = names[0] if name is None else name
        if name not in names:
            raise KeyError(f"there is no query named {name!r}; there are {', '.join(map(repr, names))}.")
        return name

    def _slices(self, key: Any, name: str | None) -> pa.Table:
        name = self._one_of_queries(name)
        if self._engine is None:
            return pa.table({})
        lane = lanes.lane_of(self._lanes, name)
        code = None if key is None else lane.keys.code_of(key)
        return list_slices(lane.running(), name, code, lane.keys)

    def _snapshot(self) -> bytes:
        described = {
            "time": None if self._time is PROCESSING_TIME else self._time,
            "key": list(self._settings.key),
            "watermark": self._settings.policy
            if self._settings.delay is None
            else plain(self._settings.delay),
            "lateness": plain(self._settings.lateness),
            "tie": self._settings.tie,
            "store": self._settings.store,
            "queries": [[name, describe_query(query)] for name, query in self._queries],
            "named": self._named,
            "finished": self._finished,
            "records_in": self._records_in,
            "late_dropped": self._late_dropped,
            "last_stamp": self._last_stamp,
            "late": len(self._late),
            **lanes.describe(self._lanes),
        }
        tables = {f"{envelope.LATE}{k}": table for k, table in enumerate(self._late)}
        if self._pending_watermark is not None:
            tables["watermark"] = pa.table({"watermark": pa.array([self._pending_watermark])})
        if self._engine is not None:
            tables |= lanes.dump(self._lanes)
            types = self._schema.types.items()
            tables["types"] = columnar.no_rows((marked(name), kind) for name, kind in types)
        version = envelope.version_of(query for _, query in self._queries)
        return envelope.pack(described, tables, version)

    def _fill(self, described: Described, tables: dict[str, pa.Table], by_name: dict[str, Query]) -> None:
        """Go on where a snapshot was taken, that of an operator with the same settings and queries."""
        self._queries = list(by_name.items())
        self._named = described["named"].whole(0)
        self._finished = described["finished"].flag()
        self._records_in, self._late_dropped = (
            described[name].whole(0) for name in ("records_in", "late_dropped")
        )
        self._last_stamp = described["last_stamp"].whole(0, LIMIT)
        late = described["late"].whole(0, len(tables))
        self._late = [table_of(tables, f"{envelope.LATE}{k}").whole() for k in range(late)]
        for lane in self._lanes:  # a query without a name was given one
            lane.queries = [(name, by_name[name]) for name, _ in lane.queries]
        self._lanes = lanes.in_turn(self._lanes, described)
        self._changed()
        if described["engine"].missing:
            if "watermark" in tables:
                self._hold_watermark(table_of(tables, "watermark").only("watermark"))
            return
        types = table_of(tables, "types").every_type()
        self._schema.fix({unmarked(name): kind for name, kind in types.items()})
        time = _STAMP if self._time is PROCESSING_TIME else self._schema.types[str(self._time)]
        lanes.load(self._lanes, described, tables, self._settings, self._schema.types, time)

    def _nothing(self) -> pa.Table:
        if self._engine is None:
            return pa.table({})
        empty = [lane.running().tables.table(Emission(), lane.keys) for lane in self._lanes]
        return lanes.joined(empty, self._queries)


def _truncate(tables: list[pa.Table], count: int) -> None:
    del tables[count:]


def _durations(queries: Iterable[tuple[str, Query]]) -> Iterator[Duration]:
    for _, query in queries:
        if not query.window.by_count:
            yield from (value for value in vars(query.window).values() if isinstance(value, Duration))
        if query.early is not None:
            yield query.early


def _back(before: Time, after: Time) -> str:
    return f"the watermark cannot go back from {shown(before)} to {shown(after)}."
