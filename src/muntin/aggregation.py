"""aggregate: all windows of a finite table at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from muntin import results
from muntin.engine.ingest import inputs
from muntin.lanes import with_final
from muntin.operator import WindowOperator
from muntin.results import Columns, Returns
from muntin.settings import Store
from muntin.windows.base import Query


def aggregate(
    table: Any,
    queries: Query | Iterable[Query],
    *,
    time: str | None = None,
    key: str | Sequence[str] | None = None,
    tie: str | None = None,
    store: Store = "auto",
    returns: Returns = "input",
    columns: Columns = "needed",
    wide: bool = False,
) -> Any:
    """Compute windows over a finite table in any row order: nothing is late, each window comes out once.

    Rows come by window end and start, query, window number and key.

    Args:
        table: What `WindowOperator.process` takes: a table of Arrow, a frame of pandas or polars, records,
            the path of a Parquet or CSV file, and so on. Files, datasets and readers are read bit by bit, and
            only the columns that are needed.
        queries: One or more.
        time: The column of event times; may be left out where queries of `mt.sql` name it, like `key`.
        key: A column or several; None: one stream.
        tie: A column that settles the order of equal times.
        store: How windows are made up of slices.
        returns: "input" for a frame of the library that the table came from (a table of Arrow for all that is
            neither of pandas nor of polars), or "pyarrow", "pandas" or "polars".
        columns: "needed" leaves out `revision`, `change`, and `window_id` where no window has one; "all".
        wide: One row for each key and window end, with a column `query_aggregate` for each aggregate; an
            error if a query has two rows for one key and end.

    >>> import muntin as mt
    >>> table = {"ts": [12, 4, 1], "v": [4.0, 2.0, 1.0]}
    >>> mt.aggregate(table, mt.tumbling(10).agg(total=mt.sum("v")), time="ts").column("total").to_pylist()
    [3.0, 4.0]
    >>> several = [mt.tumbling(n).agg(total=mt.sum("v"), name=f"by_{n}") for n in (5, 10)]
    >>> mt.aggregate(table, several, time="ts", wide=True).to_pylist()[-1]
    {'window_end': 20, 'by_5_total': None, 'by_10_total': 4.0}
    """
    results.check_shape(returns, columns, wide, corrected=False)
    settings: dict[str, Any] = {"time": time, "key": key, "watermark": "manual", "tie": tie, "store": store}
    operator = WindowOperator(queries, **settings)
    named = operator.queries.items()
    early = any(query.early is not None for _, query in named)
    if early:  # all windows are complete when the first rows come out
        operator = WindowOperator(
            [dataclasses.replace(query, name=name, early=None) for name, query in named], **settings
        )
    for piece in inputs.pieces(table, operator.input_columns, operator.time):
        operator.process(piece)
    rows = results.in_key_order(operator.finish())
    library = results.library_of(table) if returns == "input" else returns
    rows = with_final(rows) if early else rows
    return results.shaped(rows, operator.queries, library, columns, wide, corrected=False)
