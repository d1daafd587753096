"""What all workers of a job must know: queries, columns, types. It travels with the code, never as state."""

from __future__ import annotations

import copy
import datetime
import decimal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.aggregation import aggregate
from muntin.engine import Engine
from muntin.engine.ingest import KeyTable, clock_of, read_times
from muntin.engine.output import check_truth
from muntin.expressions import Expression, marked, sources
from muntin.settings import Settings, as_queries
from muntin.windows import count_tumbling
from muntin.windows.base import Query
from muntin.windows.durations import Clock, Duration

NullTime = Literal["fail", "drop"]  # what becomes of records without a time


@dataclass(frozen=True)
class Job:
    """A set of queries over columns of a DataFrame."""

    queries: Mapping[str, Query]
    time: str
    keys: tuple[str, ...]
    tie: str | None
    types: Mapping[str, pa.DataType]  # of all columns that are read, and of expressions over them
    lateness: Duration
    delay: int  # in ticks: how far the watermark is behind the largest time
    ahead: bool  # records are merged into panes before the shuffle
    buckets: int
    null_time: NullTime = "fail"
    whole: Mapping[str, pa.DataType] = field(default_factory=dict)  # all columns, if late records are kept
    where: Expression | None = None  # which records it takes; None: all, or each query says
    wheres: tuple[str | None, ...] = (None,)  # of the jobs that it is one of

    @property
    def lanes(self) -> tuple[Job, ...]:
        """The jobs for queries under one condition each; their buckets come one job after the other."""
        by_where: dict[Any, dict[str, Query]] = {}
        for name, query in self.queries.items():
            by_where.setdefault(query.where, {})[name] = query
        order = sorted(by_where, key=lambda where: (where is not None, str(where)))  # whichever comes first
        wheres = tuple(None if where is None else str(where) for where in order)
        return tuple(replace(self, queries=by_where[w], where=w, wheres=wheres) for w in order)

    @property
    def columns(self) -> list[str]:
        """The columns of the DataFrame that workers need."""
        return [name for name in {**self.types, **self.whole} if not isinstance(name, Expression)]

    @property
    def reads(self) -> list[str]:
        """The columns and expressions that engines need."""
        inputs = [name for query in self.queries.values() for name in query.columns()]
        return list(dict.fromkeys([self.time, *self.keys, *([self.tie] if self.tie else ()), *inputs]))

    def taken(self, table: pa.Table) -> tuple[pa.Table, NDArray[np.bool_] | None]:
        """Return what the engines of a job of one condition read, and which records they are; None: all.

        Expressions stand under names that no column has.
        """
        chosen = None
        if self.where is not None:
            chosen = np.asarray(self.where.evaluate(table).cast(pa.bool_()).fill_null(False))
            table = table.filter(pa.array(chosen))
        columns = {name: table[name] for name in self.whole}
        for name in self.reads:
            columns[marked(name)] = name.evaluate(table) if isinstance(name, Expression) else table[name]
        return pa.table(columns), chosen

    @property
    def clock(self) -> Clock:
        """What one tick of the time column is."""
        return clock_of(self.types[self.time])

    @property
    def clock_ticks(self) -> int:
        """Ticks in a millisecond, the unit of Spark's watermarks."""
        nanoseconds = self.clock.nanoseconds
        return 1 if nanoseconds is None else 10**6 // nanoseconds

    def engine(self, *, empty: bool = False) -> Engine:
        """Return an engine with these queries, or with none yet."""
        time_type = self.types[self.time]
        engine = Engine(
            [],
            dict(self.types),
            time_type,
            self.clock,
            policy="manual",
            delay=0,
            lateness=self.lateness.ticks(self.clock, "lateness"),
            tied=self.tie is not None,
            store="auto",
            ahead=self.delay,
        )
        if not empty:
            for name, query in self.queries.items():
                engine.plan_query(name, query, None)
        return engine

    def own_objects(self) -> bool:
        """Tell whether a user's aggregate has states of any kind, which only records can stand for."""
        return any(field.opaque for field in self.engine().slices.fields.values())

    def key_table(self) -> KeyTable:
        """Return an empty table of keys."""
        keys = KeyTable(self.keys)
        keys.load([pa.array([], self.types[name]) for name in self.keys])
        return keys

    def setting(self) -> dict[str, Any]:
        """Return what must stay the same for a state to make sense, as JSON can hold it."""
        return {
            "time": self.time,
            "key": list(self.keys),
            "types": {name: str(self.types[name]) for name in (*self.keys, self.time)},
            "tie": self.tie,
            "lateness": self.lateness.ticks(self.clock, "lateness"),
            "buckets": self.buckets,
            "where": None if self.wheres == (None,) else list(self.wheres),
        }

    def output_schema(self) -> pa.Schema:
        """Return the columns of the rows that come out."""
        engine = self.engine()
        kinds = dict(engine.tables.answer_types)
        for name, query in self.queries.items():
            for column, function in query.aggregates.items():
                if engine.tables.answer_types[column] is None:
                    kind = _answer_type(query, column, function, engine.types)
                    if kinds[column] not in (None, kind):
                        both = f"{kinds[column]} for one query and {kind} for {name!r}"
                        raise TypeError(f"column {column!r} would be {both}; give them different names.")
                    kinds[column] = kind
        kinds |= {"query": pa.string(), "change": pa.string()}
        if pa.types.is_integer(self.types[self.time]):  # a bound may not fit a narrow integer
            kinds |= dict.fromkeys(("window_start", "window_end"), pa.int64())
        empty = engine.tables.empty(self.key_table()).schema
        return pa.schema([(column.name, kinds.get(column.name) or column.type) for column in empty])


def make_job(
    queries: Query | Sequence[Query],
    type_of: Callable[[str], pa.DataType],
    *,
    time: str | None,
    key: str | Sequence[str] | None,
    tie: str | None,
    lateness: Any,
    buckets: int,
) -> Job:
    """Check the arguments as the embedded engine does; return the job."""
    listed = as_queries(queries)
    settings = Settings.of(
        listed, time=time, key=key, watermark="manual", lateness=lateness, tie=tie, store="auto"
    )
    named = dict(settings.named(listed))
    time, read = str(settings.time), _types(settings, named.values(), type_of)
    read_times(pa.array([], read[time]), time)  # refuses what is no time
    job = Job(named, time, settings.key, tie, read, settings.lateness, 0, False, buckets)
    job.engine()  # refuses what no engine can compute
    return job


def _types(
    settings: Settings, queries: Iterable[Query], type_of: Callable[[str], pa.DataType]
) -> dict[str, pa.DataType]:
    """Return the types of all columns that are read, and of expressions over them."""
    listed = list(queries)
    names = settings.inputs(name for query in listed for name in query.columns())
    wheres = dict.fromkeys(query.where for query in listed if isinstance(query.where, Expression))
    types = {source: type_of(source) for name in (*names, *wheres) for source in sources(name)}

    def computed(expression: Expression) -> pa.DataType:
        empty = {source: pa.array([], types[source]) for source in expression.columns}
        return expression.evaluate(empty or {"": pa.nulls(0)}).type

    types |= {name: computed(name) for name in names if isinstance(name, Expression)}
    for where in wheres:
        check_truth(where, computed(where), "where")
    return types


_SAMPLES: list[tuple[Any, Any]] = [
    (pa.types.is_boolean, True),
    (pa.types.is_integer, 1),
    (pa.types.is_floating, 1.0),
    (pa.types.is_decimal, decimal.Decimal(1)),
    (pa.types.is_string, "a"),
    (pa.types.is_binary, b"a"),
    (pa.types.is_date, datetime.date(2001, 1, 1)),
    (pa.types.is_timestamp, datetime.datetime(2001, 1, 1)),
    (pa.types.is_duration, datetime.timedelta(1)),
    (pa.types.is_list, []),
]


def _answer_type(query: Query, column: str, function: Any, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """Return the type of answers that the engine leaves open: of values of type null, or a user's own.

    A user's aggregate is asked for the answer over one record of made-up values: its type is that of all.
    """
    known = function.answer_type(types)
    if known is not None:
        return known
    sample: dict[str, pa.Array] = {"": pa.array([0])}
    for name in function.columns:
        value = next((v for test, v in _SAMPLES if test(types[name])), None)
        sample[marked(name)] = pa.array([value], types[name])
    twin = copy.copy(function)
    twin.columns = tuple(marked(name) for name in function.columns)  # an expression, as if it were a column
    one = count_tumbling(1).agg(**{column: twin})
    kind = aggregate(sample, one, time="").schema.field(column).type
    if pa.types.is_null(kind):
        raise TypeError(
            f"the type of {column!r} in {query!r} cannot be told: {function!r} gives no answer over "
            f"{ {name: a.to_pylist()[0] for name, a in sample.items() if name} }."
        )
    return kind
