"""Compiled loops that find and link cells."""

from __future__ import annotations

from typing import Any

from muntin.kernels.compiled import Compiled

# Plain functions over arrays: they are compiled on first use and kept on disk. Of an index that is unsigned,
# code does not ask whether it counts from the end, which takes longer than the rest of a short loop.


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


def walk_back(older: Any, first: Any, at: int, past: int, rows: int, out: Any) -> int:
    """Write the cells of a key from its latest on: those past a time, and so many before its last time."""
    count = 0
    earlier = 0
    newest = first[at] if at >= 0 else 0
    while at >= 0 and count < len(out):
        if first[at] <= past and earlier >= rows:
            break
        if first[at] < newest:
            earlier += 1
        out[count] = at
        count += 1
        at = older[at]
    return count


run = Compiled(
    "cell_loops",
    follow,
    find_cells,
    find_runs,
    prefixes_to_make,
    walk_back,
)
