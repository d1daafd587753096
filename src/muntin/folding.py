"""Emitted rows, folded: the last word on each window."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin import columnar
from muntin.columnar import Indices
from muntin.engine.ingest import as_arrow
from muntin.results import (
    IDENTITY,
    Identities,
    in_library,
    key_columns,
    key_ranks,
    library_of,
    note_of,
    sortable,
)
from muntin.settings import FIXED, as_queries
from muntin.windows.base import Query


def fold(tables: Any, *, queries: Query | Iterable[Query] | Mapping[str, Query] | None = None) -> Any:
    """Keep the highest revision of each window, and drop what was retracted.

    Args:
        tables: The rows of calls of an operator, in any order: one table or several, of pyarrow, pandas or
            polars, with all columns. What comes back is of the kind of the first, by window end and key.
        queries: Those that the rows are of, or `op.queries`, which has them by name. Needed only where the
            rows are corrected and do not say any more what tells windows apart: tables of an operator do,
            polars loses it. Early rows of other queries, which were removed before their windows were
            complete, are dropped.

    >>> import muntin as mt
    >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="t", watermark=0, lateness=10)
    >>> tables = [op.process({"t": [1, 12]}), op.process({"t": [2, 20]}), op.finish()]
    >>> sum(table.num_rows for table in tables)
    4
    >>> mt.fold(tables).select(["window_start", "revision", "n"]).to_pylist()[:2]
    [{'window_start': 0, 'revision': 1, 'n': 2}, {'window_start': 10, 'revision': 0, 'n': 1}]
    """
    several = isinstance(tables, Iterable) and not hasattr(tables, "columns")
    given = list(tables) if several else [tables]
    read = [_read(table) for table in given]
    rows = [table for table in read if table.num_columns]
    if not rows:
        return in_library(pa.table({}), library_of(given[0]) if given else "pyarrow")
    identities: dict[str, Sequence[str]] = {}
    for table, source in zip(read, given, strict=True):
        identities |= noted(table, source)
    whole = _all_final(pa.concat_tables(rows, promote_options="permissive"), rows)
    if queries is not None:
        if isinstance(queries, Mapping):
            named = dict(queries)
        else:
            named = {query.name or f"q{place}": query for place, query in enumerate(as_queries(queries))}
        identities |= {name: query.window.identity() for name, query in named.items()}
        whole = _without_left_overs(whole, named)
    return in_library(_in_order(_folded(whole, identities), identities), library_of(given[0]))


def _all_final(whole: pa.Table, parts: Sequence[pa.Table]) -> pa.Table:
    """Return rows of which those are final that come from tables in which no query was early."""
    names = whole.column_names
    if "final" not in names or all("final" in part.column_names for part in parts):
        return whole
    at = names.index("final")
    if at != names.index("change") + 1 or not pa.types.is_boolean(whole.schema.field(at).type):
        return whole  # an aggregate of that name
    return whole.set_column(at, "final", pc.fill_null(whole["final"], True))


def _without_left_overs(rows: pa.Table, queries: Mapping[str, Query]) -> pa.Table:
    """Return rows without the early ones of queries that are no more: nobody takes those back."""
    if "final" not in rows.column_names or any("final" in query.aggregates for query in queries.values()):
        return rows  # no query is early; an aggregate may have that name
    there = pc.is_in(rows["query"], pa.array(list(queries), pa.string()))
    return rows.filter(pc.or_(there, pc.fill_null(rows["final"], True)))


def noted(table: pa.Table, source: Any) -> Identities:
    """Return what is written there, or in the attributes of the frame of pandas that a table comes from."""
    kept = getattr(source, "attrs", {}).get(IDENTITY)
    told = (table.schema.metadata or {}).get(IDENTITY.encode())
    found: Identities = kept if kept is not None else json.loads(told) if told is not None else {}
    return found


def _read(table: Any) -> pa.Table:
    """Return rows as a table with plain texts; refuse what is no table of rows with all columns."""
    rows = as_arrow(table)
    missing = [name for name in FIXED if rows.num_columns and name not in rows.column_names]
    if missing:
        raise KeyError(
            f"fold() takes rows of an operator with all columns (columns='all'); there is no {missing[0]!r}."
        )
    columns = {name: columnar.plain(columnar.one_piece(rows[name])) for name in rows.column_names}
    columns |= {name: columns[name].cast(pa.string()) for name in ("query", "change") if columns}
    return pa.table(columns, metadata=rows.schema.metadata)


def _folded(rows: pa.Table, identities: Identities) -> pa.Table:
    keys, parts = key_columns(rows), []
    for query in pc.unique(rows["query"]).to_pylist():
        own = rows.filter(pc.equal(rows["query"], query))
        if query in identities:
            own = own.take(columnar.numbers(last_revisions(own, keys, identities[query])))
        elif not pc.all(pc.equal(own["change"], "insert")).as_py():
            raise ValueError(
                f"the rows of query {query!r} are corrected, and do not say any more what tells its windows "
                "apart: give the queries, as in mt.fold(tables, queries=queries)."
            )
        parts.append(own.filter(pc.not_equal(own["change"], "retract")))
    return pa.concat_tables(parts) if parts else rows


def last_revisions(rows: pa.Table, keys: Sequence[str], identity: Sequence[str]) -> Indices:
    """Return where in the rows of a query the highest revision of each window is."""
    told = [key_ranks(rows, keys), *(sortable(rows[name]) for name in identity)]
    order = np.lexsort((sortable(rows["revision"]), *told))
    last = np.ones(len(order), bool)
    if len(order):
        last[:-1] = np.logical_or.reduce([np.diff(values[order]) != 0 for values in told])
    kept: Indices = order[last]
    return kept


def _in_order(rows: pa.Table, identities: Identities) -> pa.Table:
    """Return rows by window end and start, query, number and key; their texts as an operator has them."""
    known = {name: place for place, name in enumerate(identities)}
    names = rows["query"].to_pylist()
    query = np.array([known.setdefault(name, len(known)) for name in names], np.int64)
    start, end, number = (sortable(rows[name]) for name in ("window_start", "window_end", "window_id"))
    order = np.lexsort((key_ranks(rows, key_columns(rows)), number, query, start, end))
    rows = rows.take(columnar.numbers(order))
    for name in ("query", "change"):
        rows = rows.set_column(rows.column_names.index(name), name, rows[name].dictionary_encode())
    return rows.replace_schema_metadata(note_of(identities))
