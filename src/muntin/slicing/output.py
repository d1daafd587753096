"""Emitted windows as an Arrow table: rows in order, columns in their types."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.slicing.edges import NEVER
from muntin.slicing.fields import Answers
from muntin.slicing.rows import INSERT, RETRACT, Emission

Places = NDArray[np.int64]
FIXED = ("query", "window_start", "window_end", "window_id", "revision", "change")
CHANGES = pa.array(["insert", "update", "retract"])


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays end to end."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _filled(parts: Sequence[NDArray[Any] | None], sizes: Sequence[NDArray[Any]], fill: int) -> Any:
    """Return arrays end to end, with a constant where there is none; None if there is none at all."""
    if all(part is None for part in parts):
        return None
    pairs = zip(parts, sizes, strict=True)
    return joined([np.full(len(size), fill) if part is None else part for part, size in pairs])


def row_order(emission: Emission) -> Places | None:
    """Return rows by retractions first, then end, start, query and number; None if they are so already."""
    if emission.count == 1:
        return None
    end, start, query = (joined(parts) for parts in (emission.end, emission.start, emission.query))
    number = _filled(emission.id, emission.query, NEVER)
    change = _filled(emission.change, emission.query, INSERT)
    key = _sort_key(end, start, query) if number is None and change is None else None
    if key is not None:
        return None if (key[1:] >= key[:-1]).all() else np.argsort(key)
    retracted = np.zeros(len(query), bool) if change is None else change == RETRACT
    return np.lexsort((query if number is None else number, query, start, end, ~retracted))


def _sort_key(end: Places, start: Places, query: Places) -> Places | None:
    """Return one number per row that sorts as end, start and query do; None if it would not fit."""
    low, length = int(end.min()), end - start
    longest, queries = int(length.max()), int(query.max()) + 1
    spread = longest - int(length.min()) + 1
    if (int(end.max()) - low + 1) * spread * queries >= 2**62:
        return None
    return ((end - low) * spread + (longest - length)) * queries + query


def answer_column(
    chunks: Sequence[tuple[Places, Answers | None, Any]], count: int
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
        out[at] = data
        missing[at] = gone
    return out, missing if missing.any() else None


def _chunk(at: Places, answers: Answers | None, empty: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the answers of some rows, and which are null."""
    if answers is None:
        column = np.full(len(at), empty, None if type(empty) in (int, float, bool) else object)
        return column, np.full(len(at), empty is None)
    if not isinstance(answers.data, list):
        return answers.data, np.zeros(len(at), bool) if answers.missing is None else answers.missing
    column = np.empty(len(at), object)
    column[:] = answers.data
    return column, np.array([value is None for value in answers.data], bool)


def as_arrow(data: NDArray[Any], missing: NDArray[np.bool_] | None, kind: pa.DataType | None) -> pa.Array:
    """Return answers as an Arrow column of a type; None: as they come."""
    if data.dtype == object:
        values = data.tolist()
        if missing is not None:
            values = [None if gone else v for v, gone in zip(values, missing.tolist(), strict=True)]
        if kind == pa.float64():
            values = [None if v is None else float(v) for v in values]  # a mean of decimals
        return pa.array(values, kind)
    array = pa.array(data, mask=missing)
    if kind is None or array.type == kind:
        return array
    if pa.types.is_temporal(kind):
        return array.cast(pa.int64() if kind.bit_width == 64 else pa.int32()).view(kind)
    return array.cast(kind)


def in_turn(tables: Sequence[pa.Table]) -> pa.Table:
    """Return tables one after the other, each ordered, and ending no later than the next one begins."""
    tables = [part.cast(tables[-1].schema) for part in tables]  # a type may have widened
    table = pa.concat_tables(tables)
    parts = [part["window_end"] for part in tables if part.num_rows]
    if all(one[-1] != other[0] for one, other in itertools.pairwise(parts)):
        return table
    end, start = (table[name].cast(pa.int64()).to_numpy() for name in ("window_end", "window_start"))
    query = table["query"].combine_chunks().indices.to_numpy()  # labels are in the order of queries
    return table.take(pa.array(np.lexsort((query, start, end))))


def coded(indices: NDArray[Any], dictionary: pa.Array) -> pa.Array:
    """Return a dictionary-encoded column of strings."""
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), dictionary, safe=False)


def fit(emission: Emission, kind: pa.DataType) -> bool:
    """Tell whether the bounds of all windows fit a type of times."""
    if not pa.types.is_integer(kind):
        return True
    limits = np.iinfo(kind.to_pandas_dtype())
    low, high = min(int(s.min()) for s in emission.start), max(int(e.max()) for e in emission.end)
    return bool(limits.min <= low and high <= limits.max)


def times(ticks: Places, kind: pa.DataType) -> pa.Array:
    """Return ticks as times of a type."""
    array = pa.array(ticks)
    if pa.types.is_timestamp(kind):
        return array.view(kind)
    return array if kind == pa.int64() else array.cast(kind)


class Constants:
    """Arrow columns that are most often all the same, made once and cut to size."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, count: int) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Return numbers that are null, revisions that are 0, and changes that are inserts."""
        if count > self._count:
            self._count = max(64, count)
            zeros = np.zeros(self._count, np.int64)
            self._nulls, self._zeros = pa.nulls(self._count, pa.int64()), pa.array(zeros)
            self._inserts = coded(zeros, CHANGES)
        return self._nulls.slice(0, count), self._zeros.slice(0, count), self._inserts.slice(0, count)


_constants = Constants()


def window_columns(
    emission: Emission, order: Places | None, places: NDArray[Any], labels: pa.Array, time: pa.DataType
) -> list[pa.Array]:
    """Return the fixed columns; `places` has for each number of a query the place of its label."""

    def taken(whole: NDArray[Any]) -> NDArray[Any]:
        return whole if order is None else whole[order]

    number, revision, change = _constants(emission.count)
    numbers = _filled(emission.id, emission.query, NEVER)
    revisions = _filled(emission.revision, emission.query, 0)
    changes = _filled(emission.change, emission.query, INSERT)
    if numbers is not None:
        numbers = taken(numbers)
        number = pa.array(numbers, mask=numbers == NEVER)
    return [
        coded(places[taken(joined(emission.query))], labels),
        times(taken(joined(emission.start)), time),
        times(taken(joined(emission.end)), time),
        number,
        revision if revisions is None else pa.array(taken(revisions)),
        change if changes is None else coded(taken(changes), CHANGES),
    ]
