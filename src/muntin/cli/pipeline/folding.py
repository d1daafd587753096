"""Emitted rows, folded: the last word on each window, in an order that is the same on both engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from muntin import columnar
from muntin.folding import last_revisions
from muntin.windows.base import Query


def fold(rows: pa.Table, key: Sequence[str], queries: Mapping[str, Query]) -> pa.Table:
    """Return the highest revision of each window, without those that were retracted.

    How often a window was corrected depends on the batches that it was seen in: revision and change go.

    >>> import muntin as mt
    >>> told = {"query": ["q", "q"], "window_start": [0, 0], "window_end": [5, 5], "window_id": [None, None]}
    >>> told |= {"revision": [0, 1], "change": ["insert", "update"], "n": [2, 3]}
    >>> fold(pa.table(told), [], {"q": mt.tumbling(5).agg(n=mt.count())})["n"].to_pylist()
    [3]
    """
    if not rows.num_rows:
        return _shown(rows)
    order = [*key, "window_end", "window_start", "window_id"]
    folded = []
    for name, query in queries.items():
        mine = rows.filter(pc.equal(rows["query"], name))
        if mine.num_rows:
            latest = mine.take(columnar.numbers(last_revisions(mine, key, query.window.identity())))
            standing = latest.filter(pc.not_equal(latest["change"], "retract"))
            folded.append(standing.sort_by([(column, "ascending") for column in order]))
    return _shown(pa.concat_tables(folded) if folded else rows.slice(0, 0))


def _shown(rows: pa.Table) -> pa.Table:
    return rows.select([name for name in rows.column_names if name not in ("revision", "change")])
