"""Compiled loops over records and cells that are the same for every aggregate."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.compiled import Compiled

# Plain functions over arrays: they are compiled on first use and kept on disk. Of a place that is unsigned,
# code does not ask whether it counts from the end, which takes longer than the rest of a short loop.


def disordered(times: Any) -> bool:
    """Tell whether a record has a time less than that of the one before; stops where one has."""
    for begin in range(0, len(times) - 1, 4096):
        block = times[begin : begin + 4097]
        count = 0
        for i in range(len(block) - 1):
            count += block[i + 1] < block[i]
        if count:
            return True
    return False


def survey(times: Any, watermark: int, delay: int) -> Any:
    """Return the least and the largest time, and how many records are below the watermark.

    It trails the largest time by `delay`; a negative delay: records do not move it. Goes block by block:
    where the least time of a block is not late, none of it is.
    """
    low = times[0]
    high = times[0]
    late = 0
    for begin in range(0, len(times), 64):
        block = times[begin : begin + 64]
        least = block[0]
        most = block[0]
        for i in range(1, len(block)):
            least = min(least, block[i])
            most = max(most, block[i])
        if delay < 0:
            if least < watermark:
                for i in range(len(block)):
                    late += block[i] < watermark
        elif least < watermark or least + delay < max(high, most):
            bound = max(watermark + delay, high)
            for i in range(len(block)):
                bound = max(bound, block[i])
                late += block[i] + delay < bound
        low = min(low, least)
        high = max(high, most)
    return low, high, late


def watermarks(times: Any, watermark: int, delay: int, out: Any) -> None:
    """Write the watermark just before each record."""
    current = watermark
    for i in range(len(times)):
        out[i] = current
        if delay >= 0:
            current = max(current, times[i] - delay)


def look_up(edges: Any, shift: int, table: Any) -> int:
    """Write, for each stretch of 2^shift ticks from the first edge on, the last edge at or before it.

    Return the most edges that lie in one stretch.
    """
    k = 0
    most = 0
    for b in range(len(table)):
        begin = edges[0] + (b << shift)
        before = k
        while k + 1 < len(edges) and edges[k + 1] <= begin:
            k += 1
        most = max(most, k - before)
        table[b] = k
    return most


def bounds(times: Any, edges: Any, out: Any) -> None:
    """Write how many of the ascending times lie before each edge but the first; all before the last."""
    k = 1
    n = len(edges)
    for i in range(len(times)):
        while k < n and edges[k] <= times[i]:
            out[k - 1] = i
            k += 1
    while k < n:
        out[k - 1] = len(times)
        k += 1


def cut_alone(
    times: Any, edges: Any, shift: int, table: Any, pane: Any, pane_first: Any, pane_last: Any, pane_rows: Any
) -> None:
    """Number the pane of each record by slice, and count and bound the records of each.

    `table` says for short stretches of time where to look among the edges, which end with a far one. Most
    records are in the slice of the one before, so that its numbers are kept at hand.
    """
    begin = end = edges[0]
    k = rows = 0
    first = last = begin
    for i in range(len(times)):
        t = times[i]
        if t < begin or t >= end:
            if rows:
                pane_rows[k] += rows
                pane_first[k] = min(pane_first[k], first)
                pane_last[k] = max(pane_last[k], last)
            k = table[(t - edges[0]) >> shift]
            while edges[k + 1] <= t:
                k += 1
            begin, end = edges[k], edges[k + 1]
            rows = 0
            first = last = t
        pane[i] = k
        rows += 1
        first = min(first, t)
        last = max(last, t)
    if rows:
        pane_rows[k] += rows
        pane_first[k] = min(pane_first[k], first)
        pane_last[k] = max(pane_last[k], last)


def cut_dense(
    times: Any,
    codes: Any,
    keys: int,
    edges: Any,
    shift: int,
    table: Any,
    pane: Any,
    pane_first: Any,
    pane_last: Any,
    pane_rows: Any,
) -> None:
    """Number the pane of each record by slice and key, and count and bound the records of each."""
    begin = end = edges[0]
    cells = 0
    for i in range(len(times)):
        t = times[i]
        if t < begin or t >= end:
            k = table[(t - edges[0]) >> shift]
            while edges[k + 1] <= t:
                k += 1
            begin, end = edges[k], edges[k + 1]
            cells = k * keys
        p = np.uint64(cells + codes[i])
        pane[i] = p
        rows = pane_rows[p]
        pane_rows[p] = rows + 1
        if rows == 0:
            pane_first[p] = t
            pane_last[p] = t
        else:
            pane_first[p] = min(pane_first[p], t)
            pane_last[p] = max(pane_last[p], t)


def cut_in_turn(
    times: Any,
    codes: Any,
    keys: int,
    edges: Any,
    shift: int,
    table: Any,
    pane: Any,
    pane_first: Any,
    pane_last: Any,
    pane_rows: Any,
) -> None:
    """Number panes as `cut_dense` does, where no time is less than the one before."""
    begin = end = edges[0]
    cells = 0
    for i in range(len(times)):
        t = times[i]
        if t < begin or t >= end:
            k = table[(t - edges[0]) >> shift]
            while edges[k + 1] <= t:
                k += 1
            begin, end = edges[k], edges[k + 1]
            cells = k * keys
        p = np.uint64(cells + codes[i])
        pane[i] = p
        rows = pane_rows[p]
        pane_rows[p] = rows + 1
        if rows == 0:
            pane_first[p] = t
        pane_last[p] = t


def cut_sparse(
    times: Any,
    codes: Any,
    edges: Any,
    shift: int,
    table: Any,
    numbers: Any,
    pane: Any,
    pane_code: Any,
    pane_slice: Any,
    pane_first: Any,
    pane_last: Any,
    pane_rows: Any,
) -> int:
    """The same where slices times keys are too many: panes are numbered as they come; return how many.

    A key that comes back to an earlier slice gets a new pane for it.
    """
    panes = 0
    origin = edges[0]
    for i in range(len(times)):
        t = times[i]
        k = table[(t - origin) >> shift]
        while edges[k + 1] <= t:
            k += 1
        code = codes[i]
        p = numbers[code]
        if p < 0 or pane_slice[p] != k:
            p = panes
            panes += 1
            numbers[code] = p
            pane_code[p] = code
            pane_slice[p] = k
            pane_first[p] = t
            pane_last[p] = t
            pane_rows[p] = 0
        pane[i] = p
        pane_rows[p] += 1
        pane_first[p] = min(pane_first[p], t)
        pane_last[p] = max(pane_last[p], t)
    return panes


def list_edges(k: Any, counts: Any, periods: Any, phases: Any, edges: Any) -> None:
    """Write the edges of progressions, from their k-th on, behind the first place."""
    at = 1
    for p in range(len(k)):
        edge = k[p] * periods[p] + phases[p]
        for _ in range(counts[p]):
            edges[at] = edge
            edge += periods[p]
            at += 1


def follow(codes: Any, starts: Any, cell_start: Any, count: int, latest: Any, older: Any) -> bool:
    """Link panes behind the latest cells of their keys, each later than the one before; False: one is not.

    They will be the cells from `count` on. If one is not later, all is as before.
    """
    for p in range(len(codes)):
        c = latest[codes[p]]
        if c >= 0 and (starts[c - count] if c >= count else cell_start[c]) >= starts[p]:
            for q in range(p - 1, -1, -1):
                latest[codes[q]] = older[q]
            return False
        older[p] = c
        latest[codes[p]] = count + p
    return True


def find_cells(
    codes: Any,
    starts: Any,
    firsts: Any,
    lasts: Any,
    rows: Any,
    latest: Any,
    older: Any,
    cell_code: Any,
    cell_start: Any,
    cell_first: Any,
    cell_last: Any,
    cell_rows: Any,
    cell_fresh: Any,
    count: int,
    at: Any,
    blank: Any,
    behind: Any,
    tied: bool,
    undo: Any,
    undone: Any,
) -> Any:
    """Find or make the cell of each pane; `at` and `blank` say which, and whether it is new.

    A key's cells are linked from its latest to ever older ones. `behind` says whether a pane begins
    before the last record of its cell. Cells that change are written to `undo` as they were, `undone[0]` of
    them. Returns the number of cells, and whether one was put between others.
    """
    between = False
    there = count
    changes = 0
    for p in range(len(codes)):
        code = codes[p]
        start = starts[p]
        newer = -1
        c = latest[code]
        while c >= 0 and cell_start[c] > start:
            newer = c
            c = older[c]
        blank[p] = c < 0 or cell_start[c] != start
        changed = newer if blank[p] else c
        if 0 <= changed < there:
            row = undo[changes]
            row[0] = changed
            row[1] = cell_start[changed]
            row[2] = cell_first[changed]
            row[3] = cell_last[changed]
            row[4] = cell_rows[changed]
            row[5] = older[changed]
            changes += 1
            undone[0] = changes
        if blank[p]:
            older[count] = c
            if newer >= 0:
                older[newer] = count
                between = True
            else:
                latest[code] = count
            c = count
            count += 1
            cell_code[c] = code
            cell_start[c] = start
            cell_first[c] = firsts[p]
            cell_last[c] = lasts[p]
            cell_rows[c] = 0
            cell_fresh[c] = 0
        at[p] = c
        behind[p] = not blank[p] and firsts[p] < cell_last[c] + tied
        cell_rows[c] += rows[p]
        cell_fresh[c] += rows[p]
        if firsts[p] < cell_first[c]:
            cell_first[c] = firsts[p]
        if lasts[p] > cell_last[c]:
            cell_last[c] = lasts[p]
    return count, between


def find_runs(
    codes: Any,
    firsts: Any,
    lasts: Any,
    rows: Any,
    gap: int,
    latest: Any,
    older: Any,
    cell_code: Any,
    cell_start: Any,
    cell_first: Any,
    cell_last: Any,
    cell_rows: Any,
    cell_fresh: Any,
    count: int,
    at: Any,
    blank: Any,
    behind: Any,
    tied: bool,
    kept: Any,
    gone: Any,
    undo: Any,
    undone: Any,
) -> Any:
    """Find or make the run of each pane; runs that a pane bridges become one.

    Pairs of `kept` and `gone` cells are to be merged, in turn, after the panes. Cells that change are
    written to `undo` as they were, `undone[0]` of them. Returns the number of cells, of such pairs, and
    whether a cell was put between others.
    """
    between = False
    pairs = 0
    there = count
    changes = 0
    for p in range(len(codes)):
        code = codes[p]
        newer = -1
        c = latest[code]
        while c >= 0 and cell_first[c] - gap > lasts[p]:
            newer = c
            c = older[c]
        blank[p] = c < 0 or cell_last[c] + gap < firsts[p]
        changed = newer if blank[p] else c
        if 0 <= changed < there:
            row = undo[changes]
            row[0] = changed
            row[1] = cell_start[changed]
            row[2] = cell_first[changed]
            row[3] = cell_last[changed]
            row[4] = cell_rows[changed]
            row[5] = older[changed]
            changes += 1
            undone[0] = changes
        if blank[p]:
            older[count] = c
            if newer >= 0:
                older[newer] = count
                between = True
            else:
                latest[code] = count
            c = count
            count += 1
            cell_code[c] = code
            cell_first[c] = firsts[p]
            cell_last[c] = lasts[p]
            cell_rows[c] = 0
            cell_fresh[c] = 0
        at[p] = c
        behind[p] = not blank[p] and firsts[p] < cell_last[c] + tied
        cell_rows[c] += rows[p]
        cell_fresh[c] += rows[p]
        cell_first[c] = min(cell_first[c], firsts[p])
        cell_last[c] = max(cell_last[c], lasts[p])
        b = older[c]
        while b >= 0 and cell_last[b] + gap >= cell_first[c]:
            kept[pairs] = c
            gone[pairs] = b
            pairs += 1
            cell_first[c] = min(cell_first[c], cell_first[b])
            cell_last[c] = max(cell_last[c], cell_last[b])
            cell_rows[c] += cell_rows[b]
            cell_fresh[c] += cell_fresh[b]
            if b < there:
                row = undo[changes]
                row[0] = b
                row[1] = cell_start[b]
                row[2] = cell_first[b]
                row[3] = cell_last[b]
                row[4] = cell_rows[b]
                row[5] = older[b]
                changes += 1
                undone[0] = changes
            cell_rows[b] = 0  # a cell without records is gone
            older[c] = older[b]
            b = older[b]
        cell_start[c] = cell_first[c]
    return count, pairs, between


def number_keys(keys: Any, low: int, numbers: Any, codes: Any, distinct: Any) -> int:
    """Number integer keys as they come, through a table from `low` on; return how many there are."""
    count = 0
    for i in range(len(keys)):
        k = np.uint64(keys[i] - low)
        if numbers[k] < 0:
            numbers[k] = count
            distinct[count] = keys[i]
            count += 1
        codes[i] = numbers[k]
    return count


def group(codes: Any, ends: Any, order: Any) -> None:
    """Write the places of each code one after the other, in their order; `ends` counts codes at first."""
    total = 0
    for k in range(len(ends)):
        total += ends[k]
        ends[k] = total - ends[k]
    for i in range(len(codes)):
        k = codes[i]
        order[ends[k]] = i
        ends[k] += 1


def prefixes_to_make(
    codes: Any, starts: Any, places: Any, since: Any, low: Any, high: Any, ends: Any, made: Any, new: Any
) -> int:
    """Write the places of cells whose prefixes ranges of cells need, and that are not made; return how many.

    Cells that start at since[code] or later have changed. `ends` has a zero for each code.
    """
    for w in range(len(low)):
        c = codes[low[w]]
        if high[w] > ends[c]:
            ends[c] = high[w]
    count = 0
    for i in range(len(codes)):
        c = codes[i]
        p = places[i]
        if starts[i] >= since[c]:
            made[p] = False
        if i < ends[c] and not made[p]:
            made[p] = True
            new[count] = p
            count += 1
    return count


run = Compiled(
    "loops",
    disordered,
    survey,
    watermarks,
    look_up,
    bounds,
    cut_alone,
    cut_dense,
    cut_in_turn,
    cut_sparse,
    list_edges,
    follow,
    find_cells,
    find_runs,
    number_keys,
    group,
    prefixes_to_make,
)
