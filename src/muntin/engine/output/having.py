"""HAVING: which rows of a query are reported, by a condition on the rows themselves.

A window that does not fulfil the condition is left out as long as it is new, and retracted if there may have
been a row of it before, with the bounds that it was last shown with: of each window, the last row holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from muntin import columnar
from muntin.algebra.aggregate import TIME
from muntin.columnar import Indices
from muntin.engine.output import row_columns
from muntin.engine.rows import NEVER, RETRACT
from muntin.expressions.expression import Expression
from muntin.settings import FINAL, MEASURES
from muntin.windows.base import Query


def check_types(
    name: str, query: Query, types: Mapping[str, pa.DataType], answers: Mapping[str, pa.DataType | None]
) -> None:
    """Refuse a condition that the rows of a query cannot be put to, as far as their types are known."""
    having = query.having
    if not isinstance(having, Expression) or not known(query, answers):
        return
    time = types[TIME]
    kinds: dict[str, Any] = {"window_start": time, "window_end": time, "window_id": pa.int64()}
    kinds |= dict.fromkeys(MEASURES, pa.float64())
    kinds |= {column: answers[column] for column in query.aggregates}
    empty = {column: pa.nulls(0, kinds.get(column) or types[column]) for column in having.columns}
    check_truth(having, having.evaluate(empty or {"": pa.nulls(0)}).type, f"having of query {name!r}")


def check_truth(condition: Expression, kind: pa.DataType, what: str) -> None:
    """Refuse a condition that is neither true nor false."""
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise TypeError(f"{what} is to be true or false, but {str(condition)!r} gives {kind}.")


def known(query: Query, answers: Mapping[str, pa.DataType | None]) -> bool:
    """Tell whether the types of all answers of a query are known before there is one."""
    return all(answers.get(column) is not None for column in query.aggregates)


def failing(table: pa.Table, conditions: Mapping[str, Expression]) -> NDArray[np.bool_]:
    """Return which rows conditions, by query, leave out."""
    queries, changes = (table[name].combine_chunks() for name in ("query", "change"))
    labels = queries.dictionary.to_pylist()
    query, change = (np.asarray(column.indices) for column in (queries, changes))
    failed = np.zeros(table.num_rows, bool)
    for name, condition in conditions.items():
        rows = np.flatnonzero((query == labels.index(name)) & (change != RETRACT))
        if len(rows):
            holds = condition.evaluate(table.take(columnar.numbers(rows)))
            failed[rows] = ~np.asarray(pc.equal(holds, True).fill_null(False))
    return failed


def reported(
    table: pa.Table,
    failed: NDArray[np.bool_],
    bounds: tuple[Indices, Indices] | None,
    final: NDArray[np.bool_] | None = None,
) -> pa.Table:
    """Return rows without those that failed; what may have been seen is retracted, with these bounds.

    `final` tells which rows are final once those that failed are retractions; None: no row says so.
    """
    if not failed.any():
        return table
    gone = failed & (np.asarray(table["revision"].combine_chunks()) > 0)
    if gone.any():
        table = _retracted(table, gone, bounds)
        if final is not None:
            table = table.set_column(table.column_names.index(FINAL), FINAL, pa.array(final))
    kept = pa.array(gone | ~failed)
    return in_order(table.filter(kept)) if gone.any() else table.filter(kept)


def _retracted(table: pa.Table, gone: NDArray[np.bool_], bounds: tuple[Indices, Indices] | None) -> pa.Table:
    """Return rows of which some are retractions: without answers, and named so."""
    at = pa.array(np.arange(len(gone)), mask=gone)
    first = table.column_names.index("change")
    for k in range(first + 1, table.num_columns):
        table = table.set_column(k, table.schema.field(k).name, table.column(k).take(at))
    change = np.asarray(table["change"].combine_chunks().indices)
    columns = {"change": row_columns.coded(np.where(gone, RETRACT, change), row_columns.CHANGES)}
    if bounds is not None:
        for name, ticks in zip(("window_start", "window_end"), bounds, strict=True):
            columns[name] = row_columns.times(ticks, table.schema.field(name).type)
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def in_order(table: pa.Table) -> pa.Table:
    """Return rows with retractions first, then by end, start, query and number."""
    if table.num_rows < 2:
        return table
    query, change = (table[name].combine_chunks().indices for name in ("query", "change"))
    start, end = (
        np.asarray(table[name].combine_chunks().cast(pa.int64())) for name in ("window_start", "window_end")
    )
    number = np.asarray(table["window_id"].combine_chunks().fill_null(NEVER))
    order = np.lexsort((number, np.asarray(query), start, end, np.asarray(change) != RETRACT))
    return table if (order[1:] > order[:-1]).all() else table.take(columnar.numbers(order))
