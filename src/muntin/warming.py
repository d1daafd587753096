"""Warming up: made-up records of a schema, and the calls that let everything they need be compiled."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.engine.ingest import as_arrow
from muntin.engine.ingest.times import NANOSECONDS
from muntin.windows.base import Query, Window
from muntin.windows.durations import Duration

if TYPE_CHECKING:
    from muntin.operator import WindowOperator

_RECORDS = 32
_DAY = 86_400 * 10**9
_FAR = 400 * _DAY  # from the others to the last record: windows of a year end before it
_FAR_TICKS = 10**9
_START = datetime.datetime(2026, 1, 1)
_START_SECONDS = 1_767_225_600  # the same, since 1970
_VALUES: list[tuple[Callable[[pa.DataType], bool], Callable[[int], Any]]] = [
    (pa.types.is_boolean, lambda k: k % 4 == 1),
    (pa.types.is_integer, lambda k: k + 1),
    (pa.types.is_floating, lambda k: k + 1.5),
    (pa.types.is_decimal, lambda k: decimal.Decimal(0 * k)),  # which every precision has room for
    (pa.types.is_string, lambda k: f"text {k}"),
    (pa.types.is_large_string, lambda k: f"text {k}"),
    (pa.types.is_binary, lambda k: f"text {k}".encode()),
    (pa.types.is_date, lambda k: (_START + datetime.timedelta(days=k)).date()),
    (pa.types.is_timestamp, lambda k: _START + datetime.timedelta(seconds=k)),
    (pa.types.is_duration, lambda k: datetime.timedelta(seconds=k)),
    (pa.types.is_list, lambda k: [None] * (k % 2)),
]


def sample(
    schema: Any, time: str | None, keys: Sequence[str], queries: Iterable[Query]
) -> Iterator[pa.Table]:
    """Return tables of made-up records, with nulls among the values in the last; records as they are.

    The times of the tables lie close together and far apart, as their way through slices depends on that.

    >>> import muntin as mt
    >>> fields = pa.schema({"ts": pa.int64(), "car": pa.string(), "v": pa.float64()})
    >>> tables = sample(fields, "ts", ["car"], [mt.tumbling(60).agg(total=mt.sum("v"))])
    >>> [(table["ts"].to_pylist()[:3], table["v"].null_count) for table in tables]
    [([0, 1, 2], 0), ([0, 180, 360], 0), ([0, 20, 40], 0), ([0, 20, 40], 2)]
    """
    if not isinstance(schema, pa.Schema):
        table = as_arrow(schema, time)
        yield table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
        return
    asked = list(queries)
    unit = _shortest(query.window for query in asked)
    for step, key_count in ((0, 2), (3 * unit, 2), (unit // 3, 6)):
        columns = {field.name: _column(field, time, keys, step, key_count) for field in schema}
        yield pa.table(columns)
    fixed = {time, *keys, *(name for query in asked for name, _ in query.window.inputs())}
    nullable = [field.name for field in schema if field.nullable and field.name not in fixed]
    if nullable:
        kept = pa.array([None if k % 16 == 3 else k for k in range(_RECORDS)], pa.int64())
        yield pa.table(columns | {name: columns[name].take(kept) for name in nullable})


def _shortest(windows: Iterable[Window]) -> int:
    """Return the shortest duration of windows, in nanoseconds or whatever integers count."""
    found = [_DAY]
    for window in windows:
        for value in vars(window).values():
            if isinstance(value, Duration) and value.amount > 0:
                found.append(value.amount)
            elif isinstance(value, Window):
                found.append(_shortest([value]))
    return min(found)


def _column(field: pa.Field, time: str | None, keys: Sequence[str], step: int, key_count: int) -> pa.Array:
    kind = field.type
    if pa.types.is_dictionary(kind):
        plain = _column(field.with_type(kind.value_type), time, keys, step, key_count)
        return plain.dictionary_encode().cast(kind)
    if field.name == time and (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        return _times(kind, step)
    value = next((make for holds, make in _VALUES if holds(kind)), None)
    if value is None:
        return pa.nulls(_RECORDS, kind)
    numbers = (k % key_count if field.name in keys else k for k in range(_RECORDS))
    return pa.array([value(k) for k in numbers], kind)


def _times(kind: pa.DataType, step: int) -> pa.Array:
    """Return times a step apart (0: a tick), of which the last lies far behind the others."""
    if pa.types.is_timestamp(kind):
        tick = NANOSECONDS[kind.unit]
        far, start, step = _FAR // tick, _START_SECONDS * 10**9 // tick, step // tick
    else:
        start, far = 0, _FAR_TICKS if kind.bit_width >= 32 else 2 * _RECORDS
    step = max(1, min(step, far // _RECORDS))
    ticks = [start + k * step for k in range(_RECORDS - 1)] + [start + far]
    return pa.array(ticks, pa.int64()).cast(kind)


def exercise(operator: WindowOperator, table: pa.Table, *, in_order: bool) -> None:
    """Let an operator take in records in batches, in and out of order, and one by one."""
    half = table.num_rows // 2
    first = table.slice(0, half)
    operator.process(first)
    if not in_order:
        operator.process(first.take(pa.array(range(half - 1, -1, -1))))
    operator.process(table.slice(half, 3))
    for row in range(half + 3, table.num_rows - 1):
        operator.process(table.slice(row, 1))
    last = table.slice(table.num_rows - 1, 1)
    operator.process(last.to_batches()[0] if last.num_rows else last)
    if operator.newest is not None and operator.time is not None:
        operator.advance(operator.newest)
    operator.finish()
