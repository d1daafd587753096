"""Compiled loops that find the windows of grids and put them in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.compiled import Compiled

# ---- which windows hold cells ----


def place(edges: Any, shift: int, table: Any, t: int) -> Any:
    """Return the place of the first edge at or past a time; `table` says where to look."""
    if t <= edges[0]:
        return 0
    if t > edges[-1]:
        return len(edges)
    k = table[(t - edges[0]) >> shift]
    while edges[k] < t:
        k += 1
    return k


def list_windows(
    grids: Any,
    state: Any,
    span: int,
    cells: Any,
    shift: int,
    table: Any,
    some: Any,
    stretch: int,
    counts: Any,
    order: Any,
    query: Any,
    start: Any,
    end: Any,
    low: Any,
    high: Any,
) -> int:
    """Write the windows of grids that hold cells, by end; return how many do, or -1 if it would take long.

    Each grid has its query, the first and last window, how many windows begin at one start, the period and
    offset of starts, the pitch of ends and the first end; windows that end together are written in the order
    of their grids. `table` says where to look for a time among cells. Goes on by `span` of time for all grids
    in turn, so that what it looks at is still at hand: `some` has room for the windows of a span, which are
    sorted by stretches of 2^stretch ticks; `state` has for each grid the next window, the last end and the
    first cell at or past it.
    """
    past_all = 2**63 - 1
    least = past_all
    for g in range(len(grids)):
        first, steps = grids[g, 1], grids[g, 3]
        begin = (first if steps == 1 else first // steps) * grids[g, 4] + grids[g, 5]
        state[g, 0], state[g, 1], state[g, 2] = first, begin, place(cells, shift, table, begin)
        least = min(least, first * grids[g, 6] + grids[g, 7])
    begins, stops = np.zeros(1, np.int64), np.zeros(1, np.int64)
    rows = 0
    while least < past_all:
        base, limit = least, past_all if least > past_all - span else least + span
        least = past_all
        found = 0
        for g in range(len(grids)):
            last, steps, period, offset = grids[g, 2], grids[g, 3], grids[g, 4], grids[g, 5]
            pitch, k, reached, past = grids[g, 6], state[g, 0], state[g, 1], state[g, 2]
            end_ = k * pitch + grids[g, 7]
            while k <= last and end_ < limit:
                begin = (k if steps == 1 else k // steps) * period + offset
                at = past if begin == reached else place(cells, shift, table, begin)
                reached = end_
                past = place(cells, shift, table, reached)
                if past > at:
                    some[found, 0], some[found, 1], some[found, 2] = grids[g, 0], begin, reached
                    some[found, 3], some[found, 4] = at, past
                    found += 1
                k += 1
                end_ += pitch
            state[g, 0], state[g, 1], state[g, 2] = k, reached, past
            if k <= last:
                least = min(least, end_)
        counts[:] = 0
        stops[0] = found
        if not order_by_end(some[:found, 2], begins, stops, base, stretch, counts, order):
            return -1
        for i in range(found):
            w = order[i]
            query[rows], start[rows], end[rows] = some[w, 0], some[w, 1], some[w, 2]
            low[rows], high[rows] = some[w, 3], some[w, 4]
            rows += 1
    return rows


def windows_of_cells(
    codes: Any, starts: Any, grid: Any, code: Any, start: Any, end: Any, low: Any, high: Any
) -> int:
    """Write the windows of a grid that hold cells, which lie by key and time; return how many there are.

    `grid` has the first and last window, how many begin at one start, and of starts and of ends how far apart
    they are, a phase and how many are skipped (see `Lattice`). Each window is found at the first cell that it
    holds. Writes only if there is room; count first.
    """
    first, last, steps, period, phase, skipped, pitch, end_phase, skipped_ends = grid
    rows = 0
    beyond = 0
    next_window = first
    past = 0
    for i in range(len(starts)):
        if i == 0 or codes[i] != codes[i - 1]:
            next_window = first
            past = i
        k = max(next_window, (starts[i] - end_phase) // pitch + skipped_ends + 1)
        highest = min(last, ((starts[i] - phase) // period + skipped + 1) * steps - 1)
        next_window = max(next_window, highest + 1)
        if rows == len(code):  # no room: only their number is asked for, which may be large
            beyond = min(beyond + min(max(0, highest - k + 1), 1 << 61), 1 << 61)
            continue
        while k <= highest:
            stop = (k - skipped_ends) * pitch + end_phase
            past = max(past, i)
            while past < len(starts) and codes[past] == codes[i] and starts[past] < stop:
                past += 1
            code[rows] = codes[i]
            start[rows] = ((k if steps == 1 else k // steps) - skipped) * period + phase
            end[rows] = stop
            low[rows] = i
            high[rows] = past
            rows += 1
            k += 1
    return rows + beyond


# ---- in which order ----


def order_by_end(end: Any, begins: Any, stops: Any, low: int, shift: int, counts: Any, order: Any) -> bool:
    """Write the rows of blocks by end, equal ones in the order of the blocks; False if that would take long.

    `counts` has a zero for each stretch of 2^shift ticks from low on, and two more: rows are put into
    stretches, of which there are about as many as rows, then each stretch is put in order.
    """
    for i in range(len(end)):
        counts[((end[i] - low) >> shift) + 2] += 1
    for k in range(2, len(counts)):
        counts[k] += counts[k - 1]
    for b in range(len(begins)):
        for i in range(begins[b], stops[b]):
            k = ((end[i] - low) >> shift) + 1
            order[counts[k]] = i
            counts[k] += 1
    return shift == 0 or sort_stretches(end, counts, order)


def sort_stretches(end: Any, counts: Any, order: Any) -> bool:
    """Put the rows of each stretch in the order of their ends; False if it would take long."""
    moves = 0
    for s in range(1, len(counts) - 1):
        for j in range(counts[s - 1] + 1, counts[s]):
            row = order[j]
            while j > counts[s - 1] and end[order[j - 1]] > end[row]:
                order[j] = order[j - 1]
                j -= 1
                moves += 1
            order[j] = row
        if moves > 16 * len(end) + 1024:
            return False
    return True


def before(end: Any, start: Any, query: Any, i: int, j: int) -> Any:
    """Tell whether a row belongs before another one: by end, start and query."""
    if end[i] != end[j]:
        return end[i] < end[j]
    if start[i] != start[j]:
        return start[i] < start[j]
    return query[i] < query[j]


def streaks(end: Any, start: Any, query: Any, begins: Any) -> int:
    """Write where streaks of rows in order begin, as far as there is room; return how many it found."""
    begins[0] = 0
    count = 1
    for i in range(1, len(end)):
        if before(end, start, query, i, i - 1):
            if count == len(begins):
                return count + 1
            begins[count] = i
            count += 1
    return count


def merge(end: Any, start: Any, query: Any, begins: Any, stops: Any, order: Any) -> None:
    """Write the order of all rows, which are in order from each begin to its stop."""
    for row in range(len(order)):
        least = -1
        for s in range(len(begins)):
            here = begins[s] < stops[s]
            if here and (least < 0 or before(end, start, query, begins[s], begins[least])):
                least = s
        order[row] = begins[least]
        begins[least] += 1


run = Compiled(
    "window_loops",
    place,
    list_windows,
    windows_of_cells,
    order_by_end,
    sort_stretches,
    before,
    streaks,
    merge,
)
