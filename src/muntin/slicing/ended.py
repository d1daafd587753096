"""Which windows on a grid, of time or of positions, hold records and have ended."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muntin.slicing import loops
from muntin.slicing.edges import LookUp
from muntin.slicing.plan import PlannedQuery
from muntin.slicing.rows import INSERT, UPDATE, Rows, filled
from muntin.slicing.store import AggregateStore, Ordered
from muntin.windows.grid import Grid, end, last_ended

Places = NDArray[np.int64]
_HANDFUL = 32  # windows


def next_end(grid: Grid, watermark: int) -> int:
    """Return the first end of a window past a watermark."""
    return int(end(grid, last_ended(grid, watermark) + 1))


def single_slices(planned: PlannedQuery, store: AggregateStore, seen: int, shown: int) -> Rows:
    """Return windows that are slices: those that end after `seen`, and at `shown` or before."""
    starts, length = store.column("start"), planned.window.length
    if store.by_time():
        low = np.arange(*starts.searchsorted([seen - length, shown - length], side="right").tolist())
    else:
        ended = (starts > seen - length) & (starts <= shown - length)
        low = np.arange(store.count) if ended.all() else ended.nonzero()[0]
    start, code = starts[low], store.column("code")[low]
    query = filled(len(low), planned.number)
    return Rows(query, code, start, start + length, None, None, low, low + 1, by_place=True)


def listed_windows(ordered: Ordered, ranges: list[tuple[PlannedQuery, int, int]]) -> list[Rows]:
    """Return windows of a single key, looked up one by one, of all queries at once."""
    if sum(last - first for _, first, last in ranges) + len(ranges) <= _HANDFUL:
        return _few_windows(ordered, ranges)
    cells = LookUp(ordered.start, int(ordered.start[-1]))
    aligned = [r for r in ranges if r[0].window.length % r[0].window.pitch == 0 and r[0].window.steps == 1]
    others = [r for r in ranges if r not in aligned] if len(aligned) < len(ranges) else []
    found = []
    if aligned:
        # Where windows end, others of the query start: look up starts only, up to those of the last ends.
        overlaps = np.array([p.window.length // p.window.pitch for p, _, _ in aligned])
        query, starts, counts = _starts(aligned, overlaps)
        places = cells.at_or_past(starts)
        stop = np.cumsum(counts + overlaps)
        kept = np.ones(len(starts), bool)
        for overlap, last in zip(overlaps.tolist(), stop.tolist(), strict=True):
            kept[last - overlap : last] = False
        at = np.flatnonzero(kept)
        ends = at + (overlaps[0] if len(overlaps) == 1 else np.repeat(overlaps, counts))
        found.append((query[at], starts[at], starts[ends], places[at], places[ends]))
    if others:
        query, starts, counts = _starts(others, np.zeros(len(others), np.int64))
        first = np.concatenate([np.arange(first, last + 1) for _, first, last in others])
        pitches = np.repeat([p.window.pitch for p, _, _ in others], counts)
        ends = first * pitches + np.repeat([p.window.first_end for p, _, _ in others], counts)
        found.append((query, starts, ends, cells.at_or_past(starts), cells.at_or_past(ends)))
    groups = []
    for query, starts, ends, low, high in found:
        rows = Rows(query, np.full(len(query), ordered.code[0]), starts, ends, None, None, low, high)
        held = high > low
        groups.append(rows if held.all() else rows.take(np.flatnonzero(held)))
    return groups


def _few_windows(ordered: Ordered, ranges: list[tuple[PlannedQuery, int, int]]) -> list[Rows]:
    """Return a handful of windows of a single key: lists are faster than arrays for so few."""
    listed = [(p.number, p.window, k) for p, first, last in ranges for k in range(first, last + 1)]
    starts = np.array([grid.start(k) for _, grid, k in listed], np.int64)
    ends = np.array([end(grid, k) for _, grid, k in listed], np.int64)
    low, high = ordered.start.searchsorted(starts), ordered.start.searchsorted(ends)
    query = np.array([number for number, _, _ in listed], np.int64)
    code = np.full(len(query), ordered.code[0])
    rows = Rows(query, code, starts, ends, None, None, low, high)
    held = high > low
    return [rows if held.all() else rows.take(np.flatnonzero(held))]


def _starts(ranges: list[tuple[PlannedQuery, int, int]], more: Places) -> tuple[Places, Places, Places]:
    """Return query and start of the windows of ranges, with some more of each; and the counts without."""
    counts = np.array([last - first + 1 for _, first, last in ranges])
    lengths = counts + more
    begins = np.array([first for _, first, _ in ranges]) - (np.cumsum(lengths) - lengths)
    k = np.arange(int(lengths.sum())) + np.repeat(begins, lengths)
    grids = [planned.window for planned, _, _ in ranges]
    if any(grid.steps > 1 for grid in grids):
        k //= np.repeat([grid.steps for grid in grids], lengths)
    starts = k * np.repeat([grid.period for grid in grids], lengths)
    starts += np.repeat([grid.offset for grid in grids], lengths)
    return np.repeat([planned.number for planned, _, _ in ranges], lengths), starts, counts


def found_windows(planned: PlannedQuery, ordered: Ordered, key_ends: Places, first: int, last: int) -> Rows:
    """Return the windows numbered from first to last that hold a record.

    Goes by cells, not by windows: each window is found at the first cell that it holds, so that silent
    spells cost nothing.
    """
    grid: Grid = planned.window
    highest, begin = grid.high(ordered.start), grid.low(ordered.start)
    same = ordered.code[1:] == ordered.code[:-1]
    begin[1:] = np.where(same, np.maximum(begin[1:], highest[:-1] + 1), begin[1:])
    begin = np.maximum(begin, first)
    counts = np.maximum(np.minimum(highest, last) - begin + 1, 0)
    low = np.repeat(np.arange(len(begin)), counts)
    k = np.arange(len(low)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[low]
    ends = end(grid, k)
    high = np.empty(len(low), np.int64)
    if len(low):
        loops.run("upper_cells", low, key_ends, ordered.start, ends, high)
    query = np.full(len(low), planned.number)
    return Rows(query, ordered.code[low], grid.start(k), ends, None, None, low, high)


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
    low = _search(ordered, code, grid.start(k))
    high = _search(ordered, code, end(grid, k))
    held = high > low
    code, k, low, high = code[held], k[held], low[held], high[held]
    change = np.where(end(grid, k) <= before[code], UPDATE, INSERT).astype(np.int8)
    query = np.full(len(k), planned.number)
    return Rows(query, code, ordered.first[low], ordered.last[high - 1], k, change, low, high)


def _search(ordered: Ordered, code: Places, start: Places) -> Places:
    """Return the first cell of a key at or past a start."""
    begins = np.searchsorted(ordered.code, code)
    if len(ordered) and ordered.code[0] == ordered.code[-1]:
        return np.searchsorted(ordered.start, start)
    ends = np.searchsorted(ordered.code, code, side="right")
    out = np.empty(len(code), np.int64)
    for i, (begin, stop) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        out[i] = begin + np.searchsorted(ordered.start[begin:stop], start[i])
    return out
