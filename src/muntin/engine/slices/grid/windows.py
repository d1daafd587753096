"""Which windows on a grid of time hold records and have ended."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Indices, Times, frozen
from muntin.engine import tuning
from muntin.engine.listers import lister_loops
from muntin.engine.plan.queries import PlannedQuery
from muntin.engine.rows import NEVER, Rows, filled, joined
from muntin.engine.slices.edges import LookUp
from muntin.engine.slices.grid import window_loops
from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.ordered import Ordered
from muntin.windows.durations import LIMIT
from muntin.windows.grid import end, last_ended

_NOWHERE = -(2**63)  # before all bounds of windows, which may lie beyond all times
_NOTHING = np.empty(0, np.int64)
MOST = 100_000_000  # windows of a query that one call may list: a loop over more would run for seconds


def next_end(grid: Any, watermark: int) -> int:
    """Return the first end of a window past a watermark, or of an own grid an edge before it."""
    if grid.listed:
        return int(grid.around(watermark)[1]) if abs(watermark) < LIMIT else watermark
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
    """Return windows of a single key, looked up one by one, of all queries at once; most often by end."""
    count = sum(last - first + 1 for _, first, last in ranges)
    if count <= tuning.HANDFUL:
        return _few_windows(ordered, ranges)
    cells = LookUp(ordered.start, int(ordered.start[-1]))
    rows = _by_end(ordered, ranges, count, cells) if cells.even else None
    if rows is None:
        rows = joined([found_windows(p, ordered, first, last) for p, first, last in ranges])
    return rows


def _by_end(
    ordered: Ordered, ranges: list[tuple[PlannedQuery, int, int]], count: int, cells: LookUp
) -> Rows | None:
    """Return windows by end, the longer ones first; None if that would take long."""
    by_length = sorted(ranges, key=lambda which: -which[0].window.length)
    grids = [((p.number, first, last), p.window) for p, first, last in by_length]
    told = np.array([(*which, g.steps, g.period, g.offset, g.pitch, g.first_end) for which, g in grids])
    first, last, pitch, first_end = told[:, 1], told[:, 2], told[:, 6], told[:, 7]
    ends_from, ends_to = int((first * pitch + first_end).min()), int((last * pitch + first_end).max())
    span = min((ends_to - ends_from) * tuning.WINDOWS_AT_HAND // count + 1, LIMIT)
    room = min(count, int(np.minimum(span // pitch + 1, last - first + 1).sum()))
    stretch = max(0, span.bit_length() - tuning.WINDOWS_AT_HAND.bit_length())
    counts = np.empty((span >> stretch) + 3, np.int64)
    start, end_ = bounds = np.empty((2, count), np.int64)  # handed out; large blocks of memory come faster
    query, low, high = others = np.empty((3, count), np.int64)
    held = window_loops.run(
        "list_windows",
        *(told, np.empty((len(told), 3), np.int64), span, ordered.start, cells.shift, cells.table),
        *(np.empty((room, 5), np.int64), stretch, counts, np.empty(room, np.int64)),
        *(query, start, end_, low, high),
    )
    if held < 0:
        return None
    if held < count:
        (start, end_), (query, low, high) = bounds[:, :held].copy(), others[:, :held].copy()
    code = np.broadcast_to(ordered.code[0], held)  # takes no room
    return Rows(query, code, start, end_, None, None, low, high, by_end=True)


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
    grid: Any = planned.window
    if grid.irregular:
        return _irregular_windows(planned, ordered, first, last)
    told = (first, last, grid.steps, *grid.starts, *grid.ends)
    count = window_loops.run("windows_of_cells", ordered.code, ordered.start, told, *([_NOTHING] * 5))
    _refuse_many(planned, count)
    code, start, end_, low, high = (np.empty(count, np.int64) for _ in range(5))
    window_loops.run("windows_of_cells", ordered.code, ordered.start, told, code, start, end_, low, high)
    return Rows(filled(count, planned.number), code, start, end_, None, None, low, high)


def _refuse_many(planned: PlannedQuery, count: int) -> None:
    """Refuse a call that would list more windows than can be a purpose, before there is room for them."""
    if count > MOST:
        raise ValueError(
            f"this call would emit {count:,} windows of query {planned.name!r}, and a call may emit {MOST:,} "
            "of one query: look for a slide that is far shorter than the window, or use smaller batches."
        )


def _irregular_windows(planned: PlannedQuery, ordered: Ordered, first: int, last: int) -> Rows:
    grid: Any = planned.window
    highest, begin = grid.high(ordered.start), grid.low(ordered.start)
    same = ordered.code[1:] == ordered.code[:-1]
    begin[1:] = np.where(same, np.maximum(begin[1:], highest[:-1] + 1), begin[1:])
    begin = np.maximum(begin, first)
    counts = np.maximum(np.minimum(highest, last) - begin + 1, 0)
    _refuse_many(planned, int(counts.sum()))
    low = np.repeat(np.arange(len(begin)), counts)
    k = np.arange(len(low)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[low]
    code, ends, high = ordered.code[low], end(grid, k), np.empty(len(low), np.int64)
    lister_loops.run("locate", frozen(ordered.code), frozen(ordered.start), code, ends, high)
    return Rows(filled(len(low), planned.number), code, grid.start(k), ends, None, None, low, high)


def own_windows(planned: PlannedQuery, ordered: Ordered, seen: int, shown: int) -> Rows:
    """Return the windows of a user's grid with records that end after `seen`, and at `shown` or before."""
    grid, origin = planned.window, _NOWHERE if planned.origin is None else planned.origin
    at = ordered.start
    if planned.origin is None:  # the first slice may begin before all times: of it, a record is asked about
        at = np.where(at > NEVER, at, ordered.first)
    cells = np.flatnonzero(at > max(seen - grid.length, origin))
    starts, which = np.unique(at[cells], return_inverse=True)
    listed = [
        (i, s, e)
        for i, t in enumerate(starts.tolist())
        for s, e in grid.held(t)
        if s > origin and seen < e <= shown
    ]
    at, begin, stop = np.array(listed, np.int64).reshape(-1, 3).T
    first = np.searchsorted(at, which)
    counts = np.searchsorted(at, which, side="right") - first
    window = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
    code = np.repeat(ordered.code[cells], counts)
    found = np.unique(np.stack([code, stop[window], begin[window]]), axis=1)  # once, whatever cells it holds
    code, ends, begins = (np.ascontiguousarray(column) for column in found)
    low, high = np.empty(len(code), np.int64), np.empty(len(code), np.int64)
    for bound, out in ((begins, low), (ends, high)):
        lister_loops.run("locate", frozen(ordered.code), frozen(ordered.start), code, bound, out)
    query = np.full(len(code), planned.number)
    return Rows(query, code, begins, ends, None, None, low, high)


def latest_ends(planned: PlannedQuery, times: Times) -> Indices:
    """Return the latest end of a window of a user's grid that holds each time; _NOWHERE: none does."""
    grid, origin = planned.window, _NOWHERE if planned.origin is None else planned.origin
    starts, which = np.unique(grid.floors(times), return_inverse=True)
    latest = [max((e for s, e in grid.held(t) if s > origin), default=_NOWHERE) for t in starts.tolist()]
    ends: Times = np.array(latest, np.int64)[which]
    return ends


def count_late(planned: PlannedQuery, times: Times, frozen: Indices) -> NDArray[np.bool_]:
    """Tell which late records count for a window of a grid: for one that ends after `frozen`."""
    grid = planned.window
    if grid.listed:
        return latest_ends(planned, times) > frozen
    last = grid.high(times)
    ends = end(grid, last)
    counts: NDArray[np.bool_] = (ends > times) & (ends > frozen)
    return counts if planned.origin is None else counts & (grid.start(last) > planned.origin)
