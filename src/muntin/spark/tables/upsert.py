"""What a micro-batch changes in a table of windows: which rows go, and the latest of those that stand.

Tables for foreachBatch are made of it: `ParquetTable` and `SqlTable`. In both, a micro-batch goes in whole or
not at all, and one that Spark sends again after a failure changes nothing: the number of the last one is kept
with the rows, for each streaming query (which keeps its identity in its checkpoint). A query that starts
afresh, with a new checkpoint, replaces the rows that it computes anew.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from muntin.settings import FIXED
from muntin.spark.identity import BOUNDS, Identities
from muntin.spark.late import refuse_late

IDENTITY = "window_key"  # the column by which rows are told apart
_LONGEST = 400  # characters of an identity; a longer one is replaced by its digest
_IN_MICROSECONDS = {"s": 10**6, "ms": 10**3, "us": 1}


class Changes(NamedTuple):
    """What a micro-batch says of windows: each is told of once, by its highest revision."""

    windows: pa.Array  # the identities of all of them
    standing: pa.Table  # the rows of those that are not retracted, with their identities
    fixed: frozenset[str]  # the columns that tell windows apart, and so must keep their kind


def stream_of(batch: DataFrame) -> str:
    """Return the identity of the streaming query that a micro-batch comes from: it outlives restarts."""
    stream = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if stream is None:
        raise RuntimeError("this DataFrame is no micro-batch: give the table to writeStream.foreachBatch.")
    return stream


def changes_of(rows: pa.Table, identities: Identities) -> Changes:
    """Return what rows say; `identities` say by query what tells windows apart."""
    keys = _key_columns(rows.column_names)
    rows = rows.cast(pa.schema([field.with_type(_stored_type(field.type)) for field in rows.schema]))
    rows = rows.append_column(IDENTITY, _identities(rows, keys, identities))
    frame = pa.table({"identity": rows[IDENTITY], "revision": rows["revision"], "row": np.arange(len(rows))})
    # ascending, so that the last row of each identity is its highest revision
    highest = frame.sort_by("revision").group_by("identity", use_threads=False).aggregate([("row", "last")])
    rows = rows.take(highest["row_last"].combine_chunks())
    standing = rows.filter(pc.not_equal(rows["change"], "retract")).drop_columns(["change"])
    return Changes(rows[IDENTITY].combine_chunks(), standing, frozenset([*keys, "query", *BOUNDS]))


def _key_columns(names: list[str]) -> list[str]:
    """Return the columns before those that all windows have; ValueError unless the latter are in order."""
    refuse_late(names)
    first = names.index("query") if "query" in names else 0
    fixed = [name for name in names[first:] if name not in ("measure_start", "measure_end")]
    if tuple(fixed[: len(FIXED)]) != FIXED:
        raise ValueError(
            f"these are no rows of window_aggregate, but of {', '.join(names)}: after the keys they have "
            f"{', '.join(FIXED)}, in this order."
        )
    if IDENTITY in names:
        raise ValueError(f"the column {IDENTITY!r} is one that the table adds: give yours another name.")
    return names[:first]


def _identities(rows: pa.Table, keys: list[str], identities: Identities) -> pa.Array:
    """Return what tells windows apart, as text: as their query says, else by a number or by their bounds.

    A long text is shortened to its digest.

    >>> bounds = {"window_start": [0], "window_end": [5], "window_id": [None]}
    >>> _identities(pa.table({"car": ["a"], "query": ["q"], **bounds}), ["car"], {}).to_pylist()
    ['["a", "q", 0, 5]']
    """
    whose = [_told_apart(rows[name]) for name in (*keys, "query")]
    bounds = {name: _told_apart(rows[name]) for name in BOUNDS if name in rows.column_names}
    told = []
    for row, owner in enumerate(zip(*whose, strict=True)):
        usual = ("window_start", "window_end") if bounds["window_id"][row] is None else ("window_id",)
        columns = identities.get(owner[-1], usual)
        told.append(_short(as_json([*owner, *(bounds[name][row] for name in columns)])))
    return pa.array(told, pa.string())


def _told_apart(column: pa.ChunkedArray) -> list[Any]:
    """Return values, with times as whole numbers: the same in every zone, and in every unit that holds them.

    >>> _told_apart(pa.chunked_array([pa.array([1500], pa.timestamp("ms", "Europe/Berlin"))]))
    [1500000]
    >>> _told_apart(pa.chunked_array([pa.array([1500, 1500000], pa.timestamp("ns"))]))
    ['1500 ns', 1500]
    """
    if not (pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type)):
        return list(column.to_pylist())
    ticks = column.cast(pa.int64()).to_pylist()
    if column.type.unit != "ns":
        size = _IN_MICROSECONDS[column.type.unit]
        return [None if t is None else t * size for t in ticks]
    return [t // 1000 if t is not None and t % 1000 == 0 else t and f"{t} ns" for t in ticks]


def _short(identity: str) -> str:
    return identity if len(identity) <= _LONGEST else hashlib.sha256(identity.encode()).hexdigest()


def _stored_type(given: pa.DataType) -> pa.DataType:
    """Return a type as tables have it: times in UTC, for the zone of a session is no part of what is stored.

    >>> _stored_type(pa.list_(pa.timestamp("us", "Europe/Berlin")))
    ListType(list<item: timestamp[us, tz=UTC]>)
    """
    if pa.types.is_dictionary(given):
        return _stored_type(given.value_type)
    if pa.types.is_timestamp(given) and given.tz is not None:
        return pa.timestamp(given.unit, "UTC")
    if pa.types.is_list(given):
        return pa.list_(given.value_field.with_type(_stored_type(given.value_type)))
    if pa.types.is_struct(given):
        return pa.struct([field.with_type(_stored_type(field.type)) for field in given])
    return given


def as_json(value: Any) -> str:
    """Return a value as JSON, with text for what JSON has no form for.

    >>> from decimal import Decimal
    >>> as_json(["車", Decimal("1.50"), b"x", float("nan")])
    '["車", "1.50", "78", "NaN"]'
    """
    try:
        return json.dumps(value, ensure_ascii=False, default=_text, allow_nan=False)
    except ValueError:  # there is a float that JSON cannot write
        return json.dumps(_finite(value), ensure_ascii=False, default=_text, allow_nan=False)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def _finite(value: Any) -> Any:
    """Return a value with text for numbers that are none, as PostgreSQL and Spark write them."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, (list, tuple)) else value
