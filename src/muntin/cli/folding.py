"""Emitted rows, folded: the last word on each window, in an order that is the same on both engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

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
            standing = _standing(mine, [*key, *query.window.identity()])
            folded.append(standing.sort_by([(column, "ascending") for column in order]))
    return _shown(pa.concat_tables(folded) if folded else rows.slice(0, 0))


def _shown(rows: pa.Table) -> pa.Table:
    return rows.select([name for name in rows.column_names if name not in ("revision", "change")])


def _standing(rows: pa.Table, identity: Sequence[str]) -> pa.Table:
    place = pa.array(range(rows.num_rows), pa.int64())
    told = rows.select([*identity, "revision"]).append_column("row of all", place).sort_by("revision")
    # ascending, so that the last row of each window is its highest revision
    last = told.group_by(list(identity), use_threads=False).aggregate([("row of all", "last")])
    latest = rows.take(last["row of all_last"].combine_chunks())
    return latest.filter(pc.not_equal(latest["change"], "retract"))
