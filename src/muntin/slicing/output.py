"""Emitted windows as an Arrow table: rows in order, columns in their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.slicing.fields import Answers
from muntin.slicing.window_manager import NEVER, RETRACT, Emission

Places = NDArray[np.int64]
FIXED = ("query", "window_start", "window_end", "window_id", "revision", "change")
CHANGES = pa.array(["insert", "update", "retract"])


def joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays end to end."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def row_order(emission: Emission) -> Places | None:
    """Return rows by retractions first, then end, start, query and number; None if they are so already."""
    end, start, query, number, change = (
        joined(parts)
        for parts in (emission.end, emission.start, emission.query, emission.id, emission.change)
    )
    key = _sort_key(end, start, query) if not len(number) or number.max() == NEVER else None
    retracts = bool((change == RETRACT).any())
    if key is not None and not retracts:
        if (key[1:] >= key[:-1]).all():
            return None
        return np.argsort(key)
    return np.lexsort((number, query, start, end, change != RETRACT))


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
        return pa.array(values, kind)
    array = pa.array(data, mask=missing)
    if kind is None or array.type == kind:
        return array
    if pa.types.is_temporal(kind):
        return array.cast(pa.int64() if kind.bit_width == 64 else pa.int32()).view(kind)
    return array.cast(kind)


def coded(indices: NDArray[Any], dictionary: pa.Array) -> pa.Array:
    """Return a dictionary-encoded column of strings."""
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), dictionary)


def times(ticks: Places, kind: pa.DataType) -> pa.Array:
    """Return ticks as times of a type."""
    array = pa.array(ticks)
    if pa.types.is_timestamp(kind):
        return array.view(kind)
    return array if kind == pa.int64() else array.cast(kind)


def window_columns(
    emission: Emission, order: Places | None, names: Mapping[int, int], labels: pa.Array, time: pa.DataType
) -> dict[str, pa.Array]:
    """Return the fixed columns."""

    def taken(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        whole = joined(parts)
        return whole if order is None else whole[order]

    query, number = taken(emission.query), taken(emission.id)
    lookup = np.zeros(max(names, default=0) + 1, np.int32)
    for k, place in names.items():
        lookup[k] = place
    return {
        "query": coded(lookup[query], labels),
        "window_start": times(taken(emission.start), time),
        "window_end": times(taken(emission.end), time),
        "window_id": pa.nulls(len(number), pa.int64())
        if number.max() == NEVER
        else pa.array(number, mask=number == NEVER),
        "revision": pa.array(taken(emission.revision)),
        "change": coded(taken(emission.change), CHANGES),
    }
