"""Ad-hoc look-ups: a query's aggregates over a stretch of live slices, beside its windows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from muntin.slicing.engine import Engine
from muntin.slicing.keys import KeyTable
from muntin.slicing.plan import PlannedQuery
from muntin.slicing.rows import Emission, Rows
from muntin.slicing.store import Ordered


def look_up(engine: Engine, name: str, start: int, end: int, code: int | None, keys: KeyTable) -> pa.Table:
    """Return the aggregates of a query over the live slices that lie between two times, by key."""
    planned = next((p for p in engine.plan.queries if p.name == name), None)
    if planned is None or planned.family not in ("grid", "session"):
        raise ValueError(f"look-ups are by time: query {name!r} has no slices by time yet.")
    slices = engine.slices
    store = slices.grid if planned.family == "grid" else slices.sessions[planned.origin]
    assert store is not None
    if planned.origin is not None:
        start = max(start, planned.origin + 1)
    edges = slices.lasting_edges()
    if planned.family == "grid" and edges is not None:
        start = max(start, slices.dropped_before)
        start = start if edges.floor(start) == start else edges.next(start)
        end = max(start, edges.floor(end))
    rows = _stretches(planned, store.ordered(), start, end, code)
    emission = Emission() if rows is None else engine.windows.look_up(store, rows)
    table, _, _ = engine.tables.looked_up(emission, keys)
    return table.select([*keys.names, "window_start", "window_end", *planned.query.aggregates])


def _stretches(
    planned: PlannedQuery, ordered: Ordered, start: int, end: int, code: int | None
) -> Rows | None:
    """Return for each key the slices between two times as a row; None if there are none."""
    last = ordered.last if planned.family == "session" else ordered.start
    chosen = (ordered.start >= start) & (last < end)
    if code is not None:
        chosen &= ordered.code == code
    at = np.flatnonzero(chosen)
    if not len(at):
        return None
    apart = np.diff(at) + np.diff(ordered.code[at]) != 1
    low, high = at[np.append(True, apart)], at[np.append(apart, True)] + 1
    begins, ends = np.full(len(low), start), np.full(len(low), end)
    if planned.family == "session":
        begins, ends = ordered.first[low], ordered.last[high - 1] + 1
    query = np.full(len(low), planned.number)
    return Rows(query, ordered.code[low], begins, ends, None, None, low, high)
