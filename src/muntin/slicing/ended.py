"""Which windows on a grid, of time or of positions, hold records and have ended."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.slicing import machines, window_loops
from muntin.slicing.counts import CountSlices
from muntin.slicing.edges import NEVER, LookUp
from muntin.slicing.fields import frozen
from muntin.slicing.plan import PlannedQuery
from muntin.slicing.rows import INSERT, UPDATE, Rows, filled, joined
from muntin.slicing.store import AggregateStore, Ordered
from muntin.slicing.views import matches, no_bounds
from muntin.windows.durations import LIMIT
from muntin.windows.grid import end, last_ended

Places = NDArray[np.int64]
_HANDFUL = 32  # windows
_NOWHERE = -(2**63)  # before all bounds of windows, which may lie beyond all times
_NOTHING = np.empty(0, np.int64)
_AT_HAND = 1 << 12  # windows that fit into fast memory


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
    if count <= _HANDFUL:
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
    span = min((ends_to - ends_from) * _AT_HAND // count + 1, LIMIT)
    room = min(count, int(np.minimum(span // pitch + 1, last - first + 1).sum()))
    stretch = max(0, span.bit_length() - _AT_HAND.bit_length())
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
    code, start, end_, low, high = (np.empty(count, np.int64) for _ in range(5))
    window_loops.run("windows_of_cells", ordered.code, ordered.start, told, code, start, end_, low, high)
    return Rows(filled(count, planned.number), code, start, end_, None, None, low, high)


def _irregular_windows(planned: PlannedQuery, ordered: Ordered, first: int, last: int) -> Rows:
    grid: Any = planned.window
    highest, begin = grid.high(ordered.start), grid.low(ordered.start)
    same = ordered.code[1:] == ordered.code[:-1]
    begin[1:] = np.where(same, np.maximum(begin[1:], highest[:-1] + 1), begin[1:])
    begin = np.maximum(begin, first)
    counts = np.maximum(np.minimum(highest, last) - begin + 1, 0)
    low = np.repeat(np.arange(len(begin)), counts)
    k = np.arange(len(low)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[low]
    code, ends, high = ordered.code[low], end(grid, k), np.empty(len(low), np.int64)
    machines.run("locate", frozen(ordered.code), frozen(ordered.start), code, ends, high)
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
        machines.run("locate", frozen(ordered.code), frozen(ordered.start), code, bound, out)
    query = np.full(len(code), planned.number)
    return Rows(query, code, begins, ends, None, None, low, high)


def latest_ends(planned: PlannedQuery, times: Places) -> Places:
    """Return the latest end of a window of a user's grid that holds each time; _NOWHERE: none does."""
    grid, origin = planned.window, _NOWHERE if planned.origin is None else planned.origin
    starts, which = np.unique(grid.floors(times), return_inverse=True)
    latest = [max((e for s, e in grid.held(t) if s > origin), default=_NOWHERE) for t in starts.tolist()]
    ends: Places = np.array(latest, np.int64)[which]
    return ends


def count_late(planned: PlannedQuery, times: Places, frozen: Places) -> NDArray[np.bool_]:
    """Tell which late records count for a window of a grid: for one that ends after `frozen`."""
    grid = planned.window
    if grid.listed:
        return latest_ends(planned, times) > frozen
    last = grid.high(times)
    ends = end(grid, last)
    counts: NDArray[np.bool_] = (ends > times) & (ends > frozen)
    return counts if planned.origin is None else counts & (grid.start(last) > planned.origin)


def _first_cells(ordered: Ordered, code: Places, start: Places) -> Places:
    """Return the first cells of keys at or past starts."""
    if ordered.base is not None:
        return np.clip(start - ordered.base, 0, len(ordered))
    out = np.empty(len(code), np.int64)
    machines.run("locate", frozen(ordered.code), frozen(ordered.start), code, start, out)
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


def count_windows(
    planned: PlannedQuery, ordered: Ordered, before: Places, after: Places, changed: Places, partial: bool
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
    return count_windows(planned, slices.before().ordered(), viewed, viewed, least, False)


def bounds_in(old: Rows | None, rows: Rows) -> tuple[Places, Places] | None:
    """Return the bounds that count windows have among others, NO_BOUND where they are not there."""
    if old is None or old.id is None or rows.id is None:
        return None
    match = matches([old.code, old.id], [rows.code, rows.id])
    at = np.flatnonzero(match >= 0)
    start, stop = no_bounds(len(rows)), no_bounds(len(rows))
    start[at], stop[at] = old.start[match[at]], old.end[match[at]]
    return start, stop
