"""Which count windows hold records and have ended, or may still change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from muntin.columnar import Codes, Indices, Times, frozen
from muntin.engine.listers import lister_loops
from muntin.engine.plan.queries import PlannedQuery
from muntin.engine.rows import INSERT, UPDATE, Rows, filled
from muntin.engine.slices.revisions import matches, no_bounds
from muntin.engine.store.ordered import Ordered
from muntin.windows.grid import end, last_ended

if TYPE_CHECKING:
    from muntin.engine.slices.position.counts import CountSlices


def _first_cells(ordered: Ordered, code: Codes, start: Times) -> Indices:
    """Return the first cells of keys at or past starts."""
    if ordered.base is not None:
        return np.clip(start - ordered.base, 0, len(ordered))
    out = np.empty(len(code), np.int64)
    lister_loops.run("locate", frozen(ordered.code), frozen(ordered.start), code, start, out)
    return out


def _of_single_records(planned: PlannedQuery, ordered: Ordered, first: int, last: int) -> Rows | None:
    """Return new windows of the only key, from one number to another, if each record is a cell; else None.

    Where starts of cells are one apart and windows end at cells, each cell before the last end is a record.
    """
    grid, base = planned.window, ordered.base
    if base is None or first > last:
        return None
    begin, stop = int(grid.start(first)) - base, int(end(grid, last)) - base
    if begin < 0 or stop > len(ordered):
        return None
    low = np.arange(begin, stop - grid.length + 1, grid.pitch)
    count = len(low)
    starts = ordered.first[begin : stop - grid.length + 1 : grid.pitch]
    ends = ordered.last[begin + grid.length - 1 : stop : grid.pitch]
    if starts.flags.writeable or grid.pitch > 1:  # those of the store may change, unlike the rows
        starts, ends = starts.copy(), ends.copy()
    query = np.broadcast_to(np.int64(planned.number), count)  # takes no room
    code = np.zeros(count, np.int64) if ordered.code[0] == 0 else filled(count, ordered.code[0])
    return Rows(query, code, starts, ends, np.arange(first, last + 1), None, low, low + grid.length)


def new_windows(
    planned: PlannedQuery, ordered: Ordered, before: Indices, after: Indices, changed: Indices, partial: bool
) -> Rows:
    """Return windows of positions that are full and new, or hold a new one; with `partial`, all begun."""
    grid: Any = planned.window
    one_key = ordered.code[0] == ordered.code[-1]
    codes = ordered.code[:1] if one_key else ordered.code[np.append(True, np.diff(ordered.code) != 0)]
    least = np.minimum(before[codes], changed[codes])  # windows that end past this are new or changed
    first = np.maximum(last_ended(grid, least) + 1, 0)
    last = grid.high(after[codes] - 1) if partial else last_ended(grid, after[codes])
    if one_key and end(grid, int(first[0])) > before[codes[0]]:
        rows = _of_single_records(planned, ordered, int(first[0]), int(last[0]))
        if rows is not None:
            return rows
    counts = np.maximum(last - first + 1, 0)
    code = np.repeat(codes, counts)
    k = np.arange(len(code)) + np.repeat(first - np.cumsum(counts) + counts, counts)
    low, high = (_first_cells(ordered, code, bounds) for bounds in (grid.start(k), end(grid, k)))
    held = high > low
    if not held.all():
        code, k, low, high = code[held], k[held], low[held], high[held]
    change = np.where(end(grid, k) <= before[code], UPDATE, INSERT).astype(np.int8)
    query = np.full(len(k), planned.number)
    return Rows(query, code, ordered.first[low], ordered.last[high - 1], k, change, low, high)


def changing_windows(planned: PlannedQuery, slices: CountSlices) -> Rows | None:
    """Return count windows in view that the records of a call are about to change; None: there are none."""
    least, viewed = slices.changes(), slices.viewed
    if not (least < viewed).any():
        return None
    return new_windows(planned, slices.before().ordered(), viewed, viewed, least, False)


def bounds_in(old: Rows | None, rows: Rows) -> tuple[Indices, Indices] | None:
    """Return the bounds that count windows have among others, NO_BOUND where they are not there."""
    if old is None or old.id is None or rows.id is None:
        return None
    match = matches([old.code, old.id], [rows.code, rows.id])
    at = np.flatnonzero(match >= 0)
    start, stop = no_bounds(len(rows)), no_bounds(len(rows))
    start[at], stop[at] = old.start[match[at]], old.end[match[at]]
    return start, stop
