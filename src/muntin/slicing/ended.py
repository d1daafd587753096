"""Which windows on a grid, of time or of positions, hold records and have ended."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muntin.slicing import loops
from muntin.slicing.edges import LookUp
from muntin.slicing.plan import PlannedQuery
from muntin.slicing.rows import INSERT, UPDATE, Rows, filled, joined
from muntin.slicing.store import AggregateStore, Ordered, search
from muntin.windows.grid import Grid, end, last_ended

Places = NDArray[np.int64]
_HANDFUL = 32  # windows
_NOTHING = np.empty(0, np.int64)
_AT_HAND = 1 << 14  # cells that fit into fast memory


def next_end(grid: Grid, watermark: int) -> int:
    """Return the first end of a window past a watermark."""
    return int(end(grid, last_ended(grid, watermark) + 1))


def single_slices(planned: PlannedQuery, store: AggregateStore, seen: int, shown: int) -> Rows:
    """Return windows that are slices: those that end after `seen`, and at `shown` or before."""
    starts, length = store.column("start"), planned.window.length
    if store.by_time():
        first, stop = (int(starts.searchsorted(t - length, "right")) for t in (seen, shown))
        low, start, code = np.arange(first, stop), starts[first:stop].copy(), np.zeros(stop - first, np.int64)
    else:
        ended = (starts > seen - length) & (starts <= shown - length)
        low = np.arange(store.count) if ended.all() else ended.nonzero()[0]
        start, code = starts[low], store.column("code")[low]
    query = filled(len(low), planned.number)
    return Rows(query, code, start, start + length, None, None, low, low + 1, by_place=True)


def listed_windows(ordered: Ordered, ranges: list[tuple[PlannedQuery, int, int]]) -> Rows:
    """Return windows of a single key, looked up one by one, of all queries at once."""
    count = sum(last - first + 1 for _, first, last in ranges)
    if count <= _HANDFUL:
        return _few_windows(ordered, ranges)
    cells = LookUp(ordered.start, int(ordered.start[-1]))
    if not cells.even:
        return joined([found_windows(p, ordered, first, last) for p, first, last in ranges])
    grids = [((p.number, first, last), p.window) for p, first, last in ranges]
    told = [(*which, g.steps, g.period, g.offset, g.pitch, g.first_end) for which, g in grids]
    query, start, end_, low, high = (np.empty(count, np.int64) for _ in range(5))
    # What lies before a query that was added is one slice, from the beginning of time on.
    span = min(max(1, int(ordered.start[-1] - ordered.start[0]) * _AT_HAND // len(ordered)), 2**61)
    held = loops.run(
        "list_windows",
        *(np.array(told), np.empty((len(told), 4), np.int64), span),
        *(ordered.start, cells.shift, cells.table, query, start, end_, low, high),
    )
    code = np.broadcast_to(ordered.code[0], count)  # takes no room
    rows = Rows(query, code, start, end_, None, None, low, high)
    return rows if held == count else rows.take((high > low).nonzero()[0])


def _few_windows(ordered: Ordered, ranges: list[tuple[PlannedQuery, int, int]]) -> Rows:
    """Return a handful of windows of a single key: lists are faster than arrays for so few."""
    listed = [(p.number, p.window, k) for p, first, last in ranges for k in range(first, last + 1)]
    starts = np.array([grid.start(k) for _, grid, k in listed], np.int64)
    ends = np.array([end(grid, k) for _, grid, k in listed], np.int64)
    low, high = ordered.start.searchsorted(starts), ordered.start.searchsorted(ends)
    query = np.array([number for number, _, _ in listed], np.int64)
    code = np.full(len(query), ordered.code[0])
    rows = Rows(query, code, starts, ends, None, None, low, high)
    held = high > low
    return rows if held.all() else rows.take(held.nonzero()[0])


def found_windows(planned: PlannedQuery, ordered: Ordered, first: int, last: int) -> Rows:
    """Return the windows numbered from first to last that hold a record.

    Goes by cells, not by windows: each window is found at the first cell that it holds, so that silent
    spells cost nothing.
    """
    grid: Grid = planned.window
    told = (first, last, grid.steps, grid.period, grid.offset, grid.pitch, grid.first_end)
    count = loops.run("windows_of_cells", ordered.code, ordered.start, told, *([_NOTHING] * 5))
    code, start, end_, low, high = (np.empty(count, np.int64) for _ in range(5))
    loops.run("windows_of_cells", ordered.code, ordered.start, told, code, start, end_, low, high)
    return Rows(filled(count, planned.number), code, start, end_, None, None, low, high)


def count_windows(
    planned: PlannedQuery, ordered: Ordered, before: Places, after: Places, changed: Places, partial: bool
) -> Rows:
    """Return windows of positions that are full and new, or hold a new one; with `partial`, all begun."""
    grid: Grid = planned.window
    codes = ordered.code[np.append(True, ordered.code[1:] != ordered.code[:-1])]
    least = np.minimum(before[codes], changed[codes])  # windows that end past this are new or changed
    first = np.maximum(last_ended(grid, least) + 1, 0)
    last = grid.high(after[codes] - 1) if partial else last_ended(grid, after[codes])
    counts = np.maximum(last - first + 1, 0)
    code = np.repeat(codes, counts)
    k = np.arange(len(code)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    low = search(ordered, code, grid.start(k))
    high = search(ordered, code, end(grid, k))
    held = high > low
    code, k, low, high = code[held], k[held], low[held], high[held]
    change = np.where(end(grid, k) <= before[code], UPDATE, INSERT).astype(np.int8)
    query = np.full(len(k), planned.number)
    return Rows(query, code, ordered.first[low], ordered.last[high - 1], k, change, low, high)
