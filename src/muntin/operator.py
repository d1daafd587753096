"""WindowOperator: batches in, Arrow tables of windows out."""

from __future__ import annotations

import dataclasses
import math
import time as clock_time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin import lanes
from muntin.algebra.aggregate import Absent
from muntin.algebra.holistic import Concat
from muntin.expressions import Expression, marked, unmarked
from muntin.lanes import Lane
from muntin.settings import time_and_key
from muntin.slicing import arrow, envelope, having, intake, output, snapshot
from muntin.slicing.edges import NEVER
from muntin.slicing.engine import Engine
from muntin.slicing.explain import Explanation, explain, in_lanes
from muntin.slicing.keys import KeyTable
from muntin.slicing.late import rows_of, together
from muntin.slicing.lookups import look_up
from muntin.slicing.rows import FOREVER, Emission
from muntin.slicing.single import SingleRecords
from muntin.slicing.times import Time, as_time, goes_back, shown, ticks_of
from muntin.slicing.transaction import Exclusive, Steps, Transactional, run
from muntin.slicing.window_manager import Store
from muntin.windows.base import Query
from muntin.windows.durations import Duration
from muntin.windows.grid import plain

PROCESSING_TIME: Final = Absent("PROCESSING_TIME")  # as `time`: records are stamped as they come
_STAMP = pa.timestamp("us", "UTC")
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Metrics:
    """What an operator has done, and what is live in it; as much again may wait to be let go.

    Under several conditions (`where`), slices, keys and records are those of all of them together.
    """

    records_in: int
    late_dropped: int
    windows_emitted: int
    slices: int
    keys: int
    records_kept: int
    state_bytes: int
    combines: int
    update_combines: int
    final_combines: int


class WindowOperator(Exclusive):
    """Any mix of windows over one keyed stream, cut once into slices that all of them share.

    Every call is all or nothing: whatever breaks it off, Ctrl-C too, the operator is as it was before. Calls
    of several threads wait for one another.

    >>> import muntin as mt
    >>> op = mt.WindowOperator([mt.tumbling(10).agg(total=mt.sum("v"))], time="ts")
    >>> op.process({"ts": [1, 4, 12], "v": [1.0, 2.0, 4.0]}).select(["window_start", "total"]).to_pylist()
    [{'window_start': 0, 'total': 3.0}]
    >>> op.finish().select(["window_start", "total"]).to_pylist()
    [{'window_start': 10, 'total': 4.0}]

    `time` and `key` may be left out where queries of `mt.sql` name them:

    >>> queries = mt.sql("SELECT car, SUM(v) AS total FROM TUMBLE(cars, ts, 10) GROUP BY car, window_start")
    >>> op = mt.WindowOperator(queries)
    >>> op.process({"ts": [1, 2, 12], "car": ["a", "b", "a"], "v": [1, 2, 4]}).column("total").to_pylist()
    [1, 2]
    """

    def __init__(
        self,
        queries: Query | Iterable[Query],
        *,
        time: str | Absent | None = None,
        key: str | Sequence[str] | None = None,
        watermark: Any = "in_order",
        lateness: Any = 0,
        tie: str | None = None,
        store: Store = "auto",
    ) -> None:
        listed = _as_queries(queries)
        self._time, self._key = time_and_key(listed, time, key)
        self._tie = tie
        self._policy = watermark if watermark in ("in_order", "manual") else "delay"
        self._delay = Duration.of(watermark, "watermark", least=0) if self._policy == "delay" else None
        self._lateness = Duration.of(lateness, "lateness", least=0)
        if self._policy == "in_order" and self._lateness.amount:
            raise ValueError(
                "lateness needs a watermark that lets records be late: watermark='5s' or 'manual'."
            )
        if store not in ("auto", "lazy", "eager", "sliding"):
            raise ValueError(f"store is 'auto', 'lazy', 'eager' or 'sliding', not {store!r}.")
        self._setting = lanes.Setting(self._policy, self._delay, self._lateness, tie, store)
        self._lanes: list[Lane] = []
        self._queries: list[tuple[str, Query]] = []
        self._taken: set[str] = set()  # names of queries
        self._named = 0
        self._names: list[str] | None = None  # the columns that batches must have
        self._name(listed)
        self._check_columns()
        self._schema = intake.Schema()
        self._pending_watermark: Time | None = None
        self._finished = False
        self._late: list[pa.Table] = []
        self._late_dropped = 0
        self._records_in = 0
        self._last_stamp = 0

    # ---- transactions ----

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

    # ---- queries ----

    def _name(self, queries: Iterable[Query]) -> list[str]:
        """Give queries names, and put each with those under the same condition."""
        self.save()
        taken, all_lanes = set(self._taken), list(self._lanes)
        named: list[tuple[str, Query]] = []
        by_lane: dict[Lane, list[tuple[str, Query]]] = {}
        for query in queries:
            name = query.name if query.name is not None else f"q{self._named + len(named)}"
            if name in taken:
                raise ValueError(f"there is a query named {name!r} already; give each its own name=.")
            if query.emit == "on_change" and self._lateness.amount:
                raise ValueError(f"query {name!r}: emit='on_change' needs lateness 0.")
            where = query.where if isinstance(query.where, Expression) else None
            lane = lanes.lane_for(all_lanes, where, self._key)
            all_lanes += [] if lane in all_lanes else [lane]
            by_lane.setdefault(lane, []).append((name, query))
            named.append((name, query))
            taken.add(name)
        for lane, some in by_lane.items():
            lane.take(some)
        self._queries, self._taken, self._lanes = [*self._queries, *named], taken, all_lanes
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
    def _engine(self) -> Engine | None:
        """The engine of the first lane, whose watermark all others share; None before the first record."""
        return self._lane.engine

    @property
    def _keys(self) -> KeyTable:
        return self._lane.keys

    def _check_columns(self) -> None:
        lanes.check_columns(self._time, self._key)
        taken = {*self._key, *output.FIXED, *output.MEASURES}
        for name, query in self._queries:
            having.check_names(name, query, self._key)
            for column in query.aggregates:
                if column in taken:
                    raise ValueError(
                        f"query {name!r} names an aggregate {column!r}, like a key or a fixed output column."
                    )

    def _input_names(self) -> list[str]:
        """Return all columns and expressions that batches must have."""
        time = [] if self._time is PROCESSING_TIME else [str(self._time)]
        tie = [self._tie] if self._tie else []
        inputs = [name for lane in self._lanes for name in lane.inputs()]
        return list(dict.fromkeys([*time, *self._key, *tie, *inputs]))

    def _reads(self) -> list[str]:
        """Return all columns and expressions that are read, conditions among them."""
        return [*self._input_names(), *(lane.where for lane in self._lanes if lane.where is not None)]

    def add(self, query: Query) -> str:
        """Add a query to the running operator; it reports windows that it sees whole. Returns its name.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
        >>> op.add(mt.session(5).agg(n=mt.count(), name="visits"))
        'visits'
        """
        return run(self, self._add, query)

    def _add(self, query: Query) -> str:
        self._running()
        if not isinstance(query, Query):
            raise TypeError(f"a query is what a window's agg() gives, not {query!r}.")
        time_and_key([query], self._time, self._key)
        (name,) = self._name([query])
        self._check_columns()
        if self._engine is not None:
            lane = lanes.lane_of(self._lanes, name)
            lane.add(name, query, self._setting, self._engine, self._schema.types)
            lanes.check_answers(lane.running() for lane in self._lanes)
        return name

    def remove(self, name: str) -> None:
        """Remove a query: its open windows are not emitted, no other query's results change."""
        run(self, self._remove, name)

    def _remove(self, name: str) -> None:
        self.save()
        self._running()
        names = [other for other, _ in self._queries]
        if name not in names:
            raise KeyError(f"there is no query named {name!r}; there are {', '.join(map(repr, names))}.")
        if len(names) == 1:
            raise ValueError(f"{name!r} is the only query; an operator needs at least one.")
        self._queries = [(other, query) for other, query in self._queries if other != name]
        self._taken = self._taken - {name}
        lane = lanes.lane_of(self._lanes, name)
        if len(lane.queries) == 1:
            self._lanes = [other for other in self._lanes if other is not lane]
            lanes.leave(lane, self._lanes)
        else:
            lane.forget(name)
        self._changed()

    # ---- the stream ----

    def process(self, batch: Any) -> pa.Table:
        """Take in a batch of records; return the windows that came into view or changed."""
        return run(self, self._process_batch, batch)

    def _process_batch(self, batch: Any) -> pa.Table:
        self._running()
        table = intake.as_arrow(batch)
        if not table.num_rows:
            return self._nothing()
        try:
            if self._filters:
                return self._process_filtered(table)
            rows = self._process_single(table) if table.num_rows == 1 and self._engine is not None else None
            return self._process(table) if rows is None else rows
        except UnicodeDecodeError as error:
            told = intake.invalid_text(table, self._reads())
            if told is None:
                raise
            raise ValueError(told) from error

    def _process_single(self, table: pa.Table | pa.RecordBatch) -> pa.Table | None:
        """Take in one record like those before it; None if that is not so simple."""
        engine = self._engine
        assert engine is not None
        if engine.single is None or not engine.single.schema.equals(table.schema):
            if self._tie or self._time is PROCESSING_TIME or engine.waiting:
                return None
            engine.single = SingleRecords(
                engine, table.schema, self._schema.types, str(self._time), self._keys
            )
        rows = engine.single.process(table)
        if rows is not None:
            self._records_in += 1
            engine.breathe(self._keys, 1)
        return rows

    def _stamps(self, records: int) -> pa.Array | None:
        """Return the times of records that are stamped as they come."""
        if self._time is not PROCESSING_TIME:
            return None
        return arrow.numbers(np.full(records, self._now()), _STAMP)

    def _process(self, table: pa.Table | pa.RecordBatch) -> pa.Table:
        stamps = self._stamps(table.num_rows)
        if self._names is None:
            self._names = self._input_names()
        columns, types = self._schema.columns(table, self._names)
        times_column = stamps if stamps is not None else columns[str(self._time)]
        times = intake.read_times(times_column, str(self._time))
        lane, keys = self._lane, self._keys
        engine = lane.engine
        if engine is None:
            engine = self._setting.engine(lane.queries, types, times_column.type)
            self._tell_watermark(engine)
        engine.take_up(types)
        survey = engine.survey(times)
        intake.check_range(survey.low, survey.high, str(self._time))
        engine.check_span(survey.low, survey.high)
        values = engine.read_values(columns, times)
        tie = intake.tie_values(columns[self._tie], self._tie) if self._tie else None
        codes = keys.encode([columns[name] for name in keys.names])
        rows, dropped = engine.process(times, codes, keys, values, tie, survey)
        lane.start(engine)
        self._pending_watermark = None
        self._schema.fix(types)
        self._records_in += len(times)
        engine.breathe(keys, len(times))
        if dropped is not None:
            self._drop(table, dropped)
        return rows

    def _process_filtered(self, table: pa.Table | pa.RecordBatch) -> pa.Table:
        """Take in a batch of which not all records are for all queries."""
        stamps = self._stamps(table.num_rows)
        batch = lanes.Intake(self._setting, self._schema, str(self._time), table, stamps)
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

    def _drop(self, table: pa.Table | pa.RecordBatch, dropped: Places) -> None:
        """Keep records that came too late for everything; warn of the first that broke the order."""
        first = not self._late_dropped
        self._late_dropped += len(dropped)
        self._late.append(rows_of(table, dropped))
        if self._policy == "in_order" and first:
            warnings.warn(
                f"record {int(dropped[0])} of the batch goes back in time and counts for nothing: the stream "
                "is not in order. Give watermark='5s' (or 'manual'), or use mt.aggregate for a finite table.",
                UserWarning,
                stacklevel=6,
            )

    def advance(self, watermark: Any = None) -> pa.Table:
        """Say that all records before this time have arrived; return the windows that came into view.

        `watermark` is a whole number where times are integers, else a datetime of Python, NumPy or pandas, or
        an Arrow timestamp. It is rounded down to the unit of the time column. What that does not reach, or
        lies before the watermark so far, is a ValueError. In processing time, none at all means now.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts", watermark="manual")
        >>> _ = op.process({"ts": [1, 4, 12]})
        >>> op.advance(10).column("n").to_pylist()
        [2]
        """
        return run(self, self._advance, watermark)

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
            lane.running().breathe(lane.keys)
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

    def finish(self) -> pa.Table:
        """End the stream: return all windows that are still open. Afterwards only look, not process."""
        return run(self, self._finish)

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

    # ---- what can be seen ----

    @property
    def watermark(self) -> Any:
        """The watermark: an integer, or an Arrow scalar where times are timestamps; None before the first."""
        return run(self, self._watermark)

    def _watermark(self) -> Any:
        if self._finished:
            return math.inf
        if self._engine is None:
            return self._pending_watermark
        if self._engine.watermark == NEVER:
            return None
        kind = self._engine.tables.time_type
        if pa.types.is_timestamp(kind):
            return pa.scalar(self._engine.watermark, pa.int64()).cast(kind)
        return self._engine.watermark

    def take_late(self) -> pa.Table:
        """Return the records that were dropped since the last call, as they came, in one table.

        Where the batches had different columns, a column is null for the records that came without it. Where
        one came in different types, it has the type in which the operator reads it, or else the first that it
        came in. Values that this type cannot hold without loss are in a further column, which is named after
        their type, and null in the first.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts", watermark=0)
        >>> _ = op.process({"ts": [20, 1], "note": ["a", "b"]})
        >>> _ = op.process({"ts": [30, 2], "note": [3, 4]})
        >>> op.take_late().to_pydict()
        {'ts': [1, 2], 'note': ['b', None], 'note (int64)': [None, 4]}
        """
        return run(self, self._take_late)

    def _take_late(self) -> pa.Table:
        if not self._late:
            return pa.table({})
        late = together(self._late, self._schema.types)
        self._late = []
        return late

    @property
    def metrics(self) -> Metrics:
        """What the operator has done and holds."""
        return run(self, self._metrics)

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

    def explain(self) -> Explanation:
        """Return what was decided and why, as text that people can read; as_dict() has it as data.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling("1m").agg(avg=mt.mean("v")), time="ts", watermark="5s")
        >>> print(str(op.explain()).splitlines()[0])
        Stream: out of order (watermark 5s)
        """
        return run(self, self._explain)

    def _explain(self) -> Explanation:
        watermark = self._policy if self._delay is None else str(self._delay)
        engines = [self._trial(lane) if lane.engine is None else lane.engine for lane in self._lanes]
        told = [explain(engine, watermark, str(self._lateness), self._setting.store) for engine in engines]
        return in_lanes(told, [lane.where for lane in self._lanes])

    def _trial(self, lane: Lane) -> Engine:
        """Return an engine as if times were in the finest unit, and values floats, or what they must be."""
        durations = [self._delay, self._lateness, *_durations(self._queries)]
        plain_integers = any(d is not None and d.integer for d in durations)
        kind = pa.int64() if plain_integers else pa.timestamp("ns")
        types = dict.fromkeys([*self._key, *lane.inputs()], pa.float64())
        asked = [aggregate for _, query in lane.queries for aggregate in query.aggregates.values()]
        types |= {a.columns[0]: pa.string() for a in asked if isinstance(a, Concat)}
        # What conditions read may be of another type: they are looked at when there are records.
        unconditional = [(name, dataclasses.replace(query, having=None)) for name, query in lane.queries]
        engine = self._setting.engine(unconditional, types, kind)
        whole = dict(lane.queries)
        engine.plan.queries = [dataclasses.replace(p, query=whole[p.name]) for p in engine.plan.queries]
        return engine

    def lookup(self, start: Any, end: Any, key: Any = None, *, name: str | None = None) -> pa.Table:
        """Compute the aggregates of a query over the live slices between two times, now.

        One row per key (or for one `key`) with the bounds [window_start, window_end) that whole slices cover:
        as much of the stretch as they can, never more. Those of sessions are from the first record to just
        past the last one. `name` may be left out where there is one query.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.sliding(60, every=10).agg(n=mt.count()), time="ts")
        >>> _ = op.process({"ts": [5, 15, 25, 27]})
        >>> op.lookup(8, 30).to_pylist()
        [{'window_start': 10, 'window_end': 30, 'n': 3}]
        """
        return run(self, self._lookup, start, end, key, name)

    def _lookup(self, start: Any, end: Any, key: Any, name: str | None) -> pa.Table:
        names = [other for other, _ in self._queries]
        if name is None and len(names) > 1:
            raise ValueError(f"say which query to look up: name= one of {', '.join(map(repr, names))}.")
        name = names[0] if name is None else name
        if name not in names:
            raise KeyError(f"there is no query named {name!r}; there are {', '.join(map(repr, names))}.")
        if self._engine is None:
            return pa.table({})
        lane = lanes.lane_of(self._lanes, name)
        kind = self._engine.tables.time_type
        low, high = ticks_of(start, kind, "start", up=True), ticks_of(end, kind, "end")
        code = None if key is None else lane.keys.code_of(key)
        return look_up(lane.running(), name, low, high, code, lane.keys)

    # ---- snapshots ----

    def snapshot(self) -> bytes:
        """Return the state of the operator as bytes: live slices, what is kept beside them, and late records.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
        >>> _ = op.process({"ts": [1, 4]})
        >>> mt.WindowOperator.restore(op.snapshot()).finish().column("n").to_pylist()
        [2]
        """
        return run(self, self._snapshot)

    def _snapshot(self) -> bytes:
        described = {
            "time": None if self._time is PROCESSING_TIME else self._time,
            "key": self._key,
            "watermark": self._policy if self._delay is None else plain(self._delay),
            "lateness": plain(self._lateness),
            "tie": self._tie,
            "store": self._setting.store,
            "queries": [[name, snapshot.describe_query(query)] for name, query in self._queries],
            "named": self._named,
            "finished": self._finished,
            "records_in": self._records_in,
            "late_dropped": self._late_dropped,
            "last_stamp": self._last_stamp,
            "late": len(self._late),
            **lanes.describe(self._lanes),
        }
        tables = {f"late {k}": table for k, table in enumerate(self._late)}
        if self._pending_watermark is not None:
            tables["watermark"] = pa.table({"watermark": pa.array([self._pending_watermark])})
        if self._engine is not None:
            tables |= lanes.dump(self._lanes)
            types = self._schema.types.items()
            tables["types"] = arrow.no_rows((marked(name), kind) for name, kind in types)
        return envelope.pack(described, tables)

    @classmethod
    def restore(cls, blob: bytes, queries: Iterable[Query] | None = None) -> WindowOperator:
        """Return an operator that goes on where a snapshot was taken.

        `queries` are needed only if they hold aggregates of one's own.
        """
        described, tables = envelope.unpack(blob)
        by_name = snapshot.match_queries(described["queries"], queries)
        operator = cls(
            [dataclasses.replace(by_name[name], name=name) for name, _ in described["queries"]],
            time=PROCESSING_TIME if described["time"] is None else described["time"],
            key=described["key"],
            watermark=described["watermark"],
            lateness=described["lateness"],
            tie=described["tie"],
            store=described["store"],
        )
        operator._queries = [(name, by_name[name]) for name, _ in described["queries"]]
        operator._taken = set(by_name)
        operator._named = described["named"]
        operator._finished = described["finished"]
        operator._records_in, operator._late_dropped = described["records_in"], described["late_dropped"]
        operator._last_stamp = described["last_stamp"]
        operator._late = [tables[f"late {k}"] for k in range(described["late"])]
        if "watermark" in tables:
            operator._pending_watermark = as_time(tables["watermark"]["watermark"][0], "the watermark")
        for lane in operator._lanes:  # a query without a name was given one
            lane.queries = [(name, by_name[name]) for name, _ in lane.queries]
        operator._lanes = lanes.in_turn(operator._lanes, described)
        operator._changed()
        if described["engine"] is not None:
            types = {unmarked(field.name): field.type for field in tables["types"].schema}
            operator._schema.fix(types)
            lanes.load(operator._lanes, described, tables, operator._setting, types)
        return operator

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by way of a snapshot, beside the queries, which may hold a user's functions."""
        return type(self).restore, (self.snapshot(), [query for _, query in self._queries])

    # ---- tables ----

    def _nothing(self) -> pa.Table:
        if self._engine is None:
            return pa.table({})
        empty = [lane.running().tables.table(Emission(), lane.keys) for lane in self._lanes]
        return lanes.joined(empty, self._queries)


def _truncate(tables: list[pa.Table], count: int) -> None:
    del tables[count:]


def _durations(queries: Iterable[tuple[str, Query]]) -> Iterator[Duration]:
    for _, query in queries:
        if query.window.family != "count":
            yield from (value for value in vars(query.window).values() if isinstance(value, Duration))


def _as_queries(queries: Query | Iterable[Query]) -> list[Query]:
    listed = [queries] if isinstance(queries, Query) else list(queries)
    if not listed:
        raise ValueError("an operator needs at least one query, as in mt.tumbling('1m').agg(n=mt.count()).")
    for query in listed:
        if not isinstance(query, Query):
            raise TypeError(f"a query is what a window's agg() gives, not {query!r}.")
    return listed


def _back(before: Time, after: Time) -> str:
    return f"the watermark cannot go back from {shown(before)} to {shown(after)}."


def aggregate(
    table: Any,
    queries: Query | Iterable[Query],
    *,
    time: str | None = None,
    key: str | Sequence[str] | None = None,
    tie: str | None = None,
    store: Store = "auto",
) -> pa.Table:
    """Compute windows over a finite table in any row order: nothing is late, each window comes out once.

    `time` and `key` may be left out where queries of `mt.sql` name them.

    >>> import muntin as mt
    >>> table = {"ts": [12, 4, 1], "v": [4.0, 2.0, 1.0]}
    >>> mt.aggregate(table, mt.tumbling(10).agg(total=mt.sum("v")), time="ts").column("total").to_pylist()
    [3.0, 4.0]
    """
    operator = WindowOperator(queries, time=time, key=key, watermark="manual", tie=tie, store=store)
    operator.process(table)
    return operator.finish()


__all__ = ["PROCESSING_TIME", "Metrics", "WindowOperator", "aggregate"]
