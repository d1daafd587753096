"""Columns of emitted rows: their answers and bounds as Arrow, in their types."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin import columnar
from muntin.algebra.column_types import pairs_type
from muntin.columnar import Indices, Times
from muntin.engine.rows import (
    INSERT,
    NEVER,
    NO,
    NO_BOUND,
    Answers,
    Emission,
    concatenated,
    filled_in,
    struct_of,
)

CHANGES = columnar.texts(["insert", "update", "retract"])
# Columns hold booleans as 0 and 1.
_BOOLEAN_PAIRS, _STORED_PAIRS = pairs_type(pa.bool_()), pairs_type(pa.int64())


def answer_column(
    chunks: Sequence[tuple[Indices, Answers | None, Any]], count: int
) -> tuple[NDArray[Any] | None, NDArray[np.bool_] | None]:
    """Return the answers of all rows (None: all are null), and which are null.

    Chunks without answers are empty windows.
    """
    first = chunks[0][1]
    if first is not None and len(chunks[0][0]) == count and not isinstance(first.data, list):
        return first.data, first.missing
    parts = [(at, *_chunk(at, answers, aggregate.empty)) for at, answers, aggregate in chunks]
    parts = [(at, data, gone) for at, data, gone in parts if not gone.all()]
    if not parts:
        return None, None
    objects = any(data.dtype == object for _, data, _ in parts)
    out = np.empty(count, object) if objects else np.zeros(count, np.result_type(*(d for _, d, _ in parts)))
    missing = np.ones(count, bool)
    for at, data, gone in parts:
        out[at] = _as_objects(data) if objects and data.dtype.names is not None else data
        missing[at] = gone
    return out, missing if missing.any() else None


def _chunk(at: Indices, answers: Answers | None, empty: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the answers of some rows, and which are null."""
    if answers is None:
        column = np.full(len(at), empty, None if type(empty) in (int, float, bool) else object)
        return column, np.full(len(at), empty is None)
    if not isinstance(answers.data, list):
        return answers.data, np.zeros(len(at), bool) if answers.missing is None else answers.missing
    column = np.empty(len(at), object)
    column[:] = answers.data
    return column, np.array([value is None for value in answers.data], bool)


def _as_objects(records: NDArray[Any]) -> NDArray[Any]:
    """Return records of numbers as dicts, beside those of values that are no plain numbers."""
    out = np.empty(len(records), object)
    out[:] = [struct_of(record) for record in records]
    return out


def as_arrow(data: NDArray[Any], missing: NDArray[np.bool_] | None, kind: pa.DataType | None) -> pa.Array:
    """Return answers as an Arrow column of a type; None: as they come."""
    if data.dtype == object:
        values = data.tolist()
        if missing is not None:
            values = [None if gone else v for v, gone in zip(values, missing.tolist(), strict=True)]
        if kind == _BOOLEAN_PAIRS:
            return pa.array(values, _STORED_PAIRS).cast(kind)
        if kind is not None and pa.types.is_list(kind):
            return _lists(values, kind)
        if kind is not None and pa.types.is_struct(kind):
            return _structs(values, kind)
        if kind == pa.float64():
            values = [None if v is None else float(v) for v in values]  # a mean of decimals
        elif kind == pa.bool_():
            values = [None if v is None else bool(v) for v in values]  # truths are read as numbers
        return _objects(values, kind)
    if data.dtype.names is not None and kind is not None:
        flags = {name: data[NO + name] for name in data.dtype.names if NO + name in data.dtype.names}
        parts = [
            as_arrow(np.ascontiguousarray(data[field.name]), flags.get(field.name), field.type)
            for field in kind
        ]
        mask = None if missing is None else pa.array(missing)
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    array = columnar.numbers(data, missing=missing)
    if kind is None or array.type == kind:
        return array
    if pa.types.is_temporal(kind):
        return array.cast(pa.int64() if kind.bit_width == 64 else pa.int32()).view(kind)
    return array.cast(kind)


def _lists(rows: list[Any], kind: pa.DataType) -> pa.Array:
    """Return lists as a column; a number in one may stand for a time or a flag."""
    flat = [value for row in rows if row is not None for value in row]
    numbers = np.array(flat) if flat and type(flat[0]) in (int, float) else None
    if numbers is not None and numbers.dtype == (np.int64 if type(flat[0]) is int else np.float64):
        values = as_arrow(numbers, None, kind.value_type)
    else:
        values = pa.array(flat, kind.value_type)
    ends = itertools.accumulate(0 if row is None else len(row) for row in rows)
    begins = itertools.chain([0], ends)
    offsets = [None if row is None else at for row, at in zip([*rows, ()], begins, strict=True)]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


def _structs(rows: list[Any], kind: pa.StructType) -> pa.Array:
    """Return dicts as a column; a number in one may stand for a flag."""
    parts = []
    for field in kind:
        column = np.empty(len(rows), object)
        column[:] = [None if row is None else row[field.name] for row in rows]
        parts.append(as_arrow(column, None, field.type))
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array([row is None for row in rows]))


def _objects(values: list[Any], kind: pa.DataType | None) -> pa.Array:
    try:
        return pa.array(values, kind)
    except pa.ArrowInvalid:
        if kind is None or not pa.types.is_decimal(kind):
            raise
        raise OverflowError(f"a sum of decimals does not fit {kind}.") from None


def in_turn(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables one after the other, each ordered, and ending no later than the next one begins."""
    tables = [part.cast(tables[-1].schema) for part in tables]  # a type may have widened
    table = pa.concat_tables(tables)
    parts = [part["window_end"] for part in tables if part.num_rows]
    if all(one[-1] != other[0] for one, other in itertools.pairwise(parts)):
        return table
    end, start = (table[name].cast(pa.int64()).to_numpy() for name in ("window_end", "window_start"))
    query = table["query"].combine_chunks().indices.to_numpy()  # labels are in the order of queries
    return table.take(columnar.numbers(np.lexsort((query, start, end))))


def coded(indices: NDArray[Any], dictionary: pa.Array) -> pa.Array:
    """Return a dictionary-encoded column of strings."""
    places = columnar.numbers(indices.astype(np.int32, copy=False))
    return pa.DictionaryArray.from_arrays(places, dictionary, safe=False)


def fit(emission: Emission, kind: pa.DataType) -> bool:
    """Tell whether the bounds of all windows fit a type of times."""
    if not pa.types.is_integer(kind):
        return True
    limits = np.iinfo(kind.to_pandas_dtype())
    low, high = min(int(s.min()) for s in emission.start), max(int(e.max()) for e in emission.end)
    return bool(limits.min <= low and high <= limits.max)


def times(ticks: Times, kind: pa.DataType) -> pa.Array:
    """Return ticks as times of a type."""
    if pa.types.is_timestamp(kind):
        return columnar.numbers(ticks, kind)
    return columnar.numbers(ticks) if kind == pa.int64() else columnar.numbers(ticks).cast(kind)


class WindowColumns:
    """Makes the fixed columns; those that are most often all the same are made once and cut to size."""

    def __init__(
        self,
        numbers: Sequence[int],
        labels: Sequence[str],
        time: pa.DataType,
        measure: pa.DataType | None = None,
        *,
        early: bool = False,
    ) -> None:
        self._measure = measure  # None: no query has one
        self._early = early  # whether there is a column that tells early results
        self.labels = columnar.texts(labels)
        self._time = time
        self._places = np.zeros(max(numbers, default=0) + 1, np.int32)  # of labels, by a query's number
        self._places[list(numbers)] = np.arange(len(numbers))
        self._room = 0

    def __call__(self, emission: Emission, order: Indices | None) -> list[pa.Array]:
        """Return query, bounds, number, revision and change of emitted rows."""

        def taken(whole: NDArray[Any]) -> NDArray[Any]:
            return whole if order is None else whole[order]

        def cut(constant: pa.Array) -> pa.Array:
            return constant.slice(0, emission.count)

        if emission.count > self._room:
            self._make(max(64, emission.count))
        numbers = filled_in(emission.id, emission.query, NEVER)
        revisions = filled_in(emission.revision, emission.query, 0)
        changes = filled_in(emission.change, emission.query, INSERT)
        if numbers is not None:
            numbers = taken(numbers)
        alone = len(self.labels) == 1
        return [
            cut(self._queries)
            if alone
            else coded(self._places[taken(concatenated(emission.query))], self.labels),
            times(taken(concatenated(emission.start)), self._time),
            times(taken(concatenated(emission.end)), self._time),
            cut(self._nulls) if numbers is None else _numbered(numbers),
            *(self._measures(emission, order) if self._measure is not None else ()),
            cut(self._zeros) if revisions is None else columnar.numbers(taken(revisions)),
            cut(self._inserts) if changes is None else coded(taken(changes), CHANGES),
            *([self._final(emission, order)] if self._early else ()),
        ]

    @staticmethod
    def _final(emission: Emission, order: Indices | None) -> pa.Array:
        """Return which rows are final."""
        final = emission.final
        if final is None:
            return pa.array(np.ones(emission.count, bool))
        return pa.array(final if order is None else final[order])

    def _measures(self, emission: Emission, order: Indices | None) -> list[pa.Array]:
        """Return the bounds by another measure than time, null where there are none."""
        columns = []
        for side in (0, 1):
            parts = [None if bounds is None else bounds[side] for bounds in emission.measure]
            bounds = filled_in(parts, emission.query, NO_BOUND)
            if bounds is None:
                columns.append(pa.nulls(emission.count, self._measure))
                continue
            bounds = bounds if order is None else bounds[order]
            columns.append(columnar.numbers(bounds, missing=bounds == NO_BOUND).cast(self._measure))
        return columns

    def _make(self, room: int) -> None:
        self._room, zeros = (
            room,
            columnar.numbers(np.zeros(room, np.int64)),
        )  # memory that nobody has to touch
        none = pa.py_buffer(np.zeros(room // 8 + 1, np.int8))
        self._nulls = pa.Array.from_buffers(pa.int64(), room, [none, zeros.buffers()[1]], null_count=room)
        self._zeros, places = zeros, np.zeros(room, np.int32)
        self._inserts, self._queries = coded(places, CHANGES), coded(places, self.labels)


def _numbered(numbers: Indices) -> pa.Array:
    """Return the numbers of windows, null where there is none."""
    missing = numbers == NEVER
    return columnar.numbers(numbers, missing=missing if missing.any() else None)
