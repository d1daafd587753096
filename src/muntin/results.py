"""Results in the shape that the caller asked for: which library's, which columns, long or wide."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from muntin import columnar
from muntin.columnar import Indices
from muntin.engine.ingest import KeyTable
from muntin.engine.ingest.inputs import origin
from muntin.windows.base import Query

Returns = Literal["input", "pyarrow", "pandas", "polars"]
Columns = Literal["needed", "all"]
_LIBRARIES, _COLUMNS = get_args(Returns), get_args(Columns)
_LOWEST = np.iinfo(np.int64).min
IDENTITY = "muntin.identity"  # in the metadata of rows: which columns tell the windows of a query apart
Identities = Mapping[str, Sequence[str]]  # those columns, by the name of a query
_OF_CORRECTIONS = ("revision", "change")


def check_shape(returns: str, columns: str, wide: bool, corrected: bool) -> None:
    """Refuse a shape that there is none of; `corrected`: rows may take back or replace earlier ones."""
    for what, given, known in (("returns", returns, _LIBRARIES), ("columns", columns, _COLUMNS)):
        if given not in known:
            raise ValueError(f"{what} is {' or '.join(map(repr, known))}, not {given!r}.")
    if wide and corrected:
        raise ValueError(
            "wide=True cannot show corrections: leave lateness out, or fold the rows with mt.fold first."
        )


def library_of(given: Any) -> str:
    """Return the library in whose frames the answer to a batch is given: pandas, polars or pyarrow."""
    if isinstance(given, (pa.Table, pa.RecordBatch)):
        return "pyarrow"
    return origin(given, "DataFrame") or origin(given, "LazyFrame") or "pyarrow"


def shaped(
    rows: pa.Table, queries: Mapping[str, Query], library: str, columns: str, wide: bool, corrected: bool
) -> Any:
    """Return rows in a shape."""
    if wide:
        rows = widened(rows, queries)
    elif columns == "needed":
        left_out = () if corrected else _OF_CORRECTIONS
        if not any("window_id" in query.window.identity() for query in queries.values()):
            left_out = (*left_out, "window_id")
        rows = rows.select([name for name in rows.column_names if name not in left_out])
    return in_library(rows, library)


def in_library(rows: pa.Table, library: str) -> Any:
    """Return a table as a frame of pandas or polars, or as it is."""
    if library == "pandas":
        return _in_pandas(rows)
    return importlib.import_module("polars").from_arrow(rows) if library == "polars" else rows


def _in_pandas(rows: pa.Table) -> Any:
    """Return a frame of pandas in which whole numbers stay whole beside nulls."""
    pandas = importlib.import_module("pandas")
    kinds = {pa.bool_(): pandas.BooleanDtype()}
    for bits in (8, 16, 32, 64):
        kinds[getattr(pa, f"int{bits}")()] = getattr(pandas, f"Int{bits}Dtype")()
        kinds[getattr(pa, f"uint{bits}")()] = getattr(pandas, f"UInt{bits}Dtype")()
    nullable = [n for n in rows.column_names if rows[n].null_count and rows[n].type in kinds]
    frame = rows.drop_columns(nullable).to_pandas()
    for name in nullable:
        column = rows[name].to_pandas(types_mapper=kinds.get)
        frame.insert(rows.column_names.index(name), name, column)
    if rows.schema.metadata and IDENTITY.encode() in rows.schema.metadata:
        frame.attrs[IDENTITY] = json.loads(rows.schema.metadata[IDENTITY.encode()])
    return frame


def note_of(identities: Identities) -> pa.KeyValueMetadata:
    """Return the metadata of rows that says what tells their windows apart."""
    return pa.KeyValueMetadata({IDENTITY: json.dumps(identities)})


# ---- order ----


def key_columns(rows: pa.Table) -> list[str]:
    """Return the names of the key columns, which come before `query`."""
    names = list(rows.column_names)
    return names[: names.index("query")] if "query" in names else []


def in_key_order(rows: pa.Table) -> pa.Table:
    """Return rows that are in order up to their keys in the order of these, too."""
    names = key_columns(rows)
    if not names or rows.num_rows < 2:
        return rows
    rank = key_ranks(rows, names)
    changes = np.zeros(rows.num_rows - 1, bool)
    for name in ("window_end", "window_start", "query", "window_id"):
        values = sortable(rows[name])
        changes |= values[1:] != values[:-1]
    place = np.append(0, np.cumsum(changes)) * (int(rank.max()) + 1) + rank
    if (place[1:] >= place[:-1]).all():
        return rows
    return rows.take(columnar.numbers(np.argsort(place, kind="stable")))


def key_ranks(rows: pa.Table, names: Sequence[str]) -> Indices:
    """Return the rank of each row's key among all keys, null last.

    Keys that Arrow puts in no order, such as lists, come in that of their first rows.
    """
    if not names or not rows.num_rows:
        return np.zeros(rows.num_rows, np.int64)
    table = KeyTable(names)
    codes = table.encode([columnar.plain(columnar.one_piece(rows[name])) for name in names])
    keys = dict(zip(names, table.columns(), strict=True))
    ordered = [(name, "ascending") for name, column in keys.items() if _has_order(column.type)]
    if not ordered:
        return codes
    ranks = np.empty(len(table), np.int64)
    ranks[columnar.data(pc.sort_indices(pa.table(keys), ordered))] = np.arange(len(table))
    ranked: Indices = ranks[codes]
    return ranked


def _has_order(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return False
    try:
        pc.sort_indices(pa.nulls(0, kind))
    except pa.ArrowNotImplementedError:
        return False
    return True


def sortable(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return the bounds or numbers of windows as NumPy sorts them; null comes before all others.

    >>> sortable(pa.chunked_array([[3, None]])).tolist()
    [3, -9223372036854775808]
    """
    array = columnar.one_piece(column)
    if pa.types.is_dictionary(array.type):
        array = array.indices
    if pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    if not array.null_count:
        return columnar.data(array)
    kind, lowest = (pa.float64(), -np.inf) if pa.types.is_floating(array.type) else (pa.int64(), _LOWEST)
    valid, values = array.cast(kind).buffers()
    place = slice(array.offset, array.offset + len(array))
    there = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[place]
    return np.where(there, np.frombuffer(values, np.dtype(kind.to_pandas_dtype()))[place], lowest)


# ---- wide ----


def widened(rows: pa.Table, queries: Mapping[str, Query]) -> pa.Table:
    """Return one row for each key and window end, with a column `query_aggregate` for each aggregate.

    >>> import muntin as mt
    >>> queries = {"q": mt.tumbling(5).agg(n=mt.count()), "r": mt.tumbling(10).agg(n=mt.count())}
    >>> rows = pa.table({"query": ["q", "q", "r"], "window_end": [5, 10, 10], "n": [1, 2, 3]})
    >>> widened(rows, queries).to_pylist()
    [{'window_end': 5, 'q_n': 1, 'r_n': None}, {'window_end': 10, 'q_n': 2, 'r_n': 3}]
    """
    if "query" not in rows.column_names:
        return rows
    keys = key_columns(rows)
    rank, end = key_ranks(rows, keys), sortable(rows["window_end"])
    order = np.lexsort((rank, end))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(end[order]) != 0) | (np.diff(rank[order]) != 0)
    group = np.empty(len(order), np.int64)  # the row of the result that each row goes to
    group[order] = np.cumsum(new) - 1
    first = columnar.numbers(order[new])
    columns = {name: rows[name].take(first) for name in (*keys, "window_end")}
    told = columnar.one_piece(rows["query"])
    told = told if pa.types.is_dictionary(told.type) else told.dictionary_encode()
    names, codes = told.dictionary.to_pylist(), columnar.data(told.indices)
    for query, asked in queries.items():
        at = np.flatnonzero(codes == (names.index(query) if query in names else -1))
        _refuse_two(rows, keys, query, at, group[at])
        places = np.full(len(first), -1)
        places[group[at]] = at
        index = columnar.numbers(places, missing=places < 0)
        for aggregate in asked.aggregates:
            name = f"{query}_{aggregate}"
            if name in columns:
                raise ValueError(f"two columns of wide rows would be named {name!r}: rename a query.")
            if aggregate in rows.column_names:  # not so if a query still waits for its first record
                columns[name] = rows[aggregate].take(index)
    return pa.table(columns)


def _refuse_two(rows: pa.Table, keys: Iterable[str], query: str, at: Indices, groups: Indices) -> None:
    """Refuse a query with two rows for one key and end."""
    order = np.argsort(groups, kind="stable")
    twice = np.flatnonzero(np.diff(groups[order]) == 0)
    if len(twice):
        row = int(at[order[twice[0]]])
        named = [f"{name} {rows[name][row].as_py()!r}" for name in keys]
        where = ", ".join([*named, f"window_end {rows['window_end'][row].as_py()}"])
        raise ValueError(
            f"query {query!r} has two rows for {where}: wide=True has room for one; leave it out."
        )
