"""Compiled loops over records and cells that are the same for every aggregate."""

from __future__ import annotations

from functools import cache
from typing import Any

# Plain functions over arrays: they are compiled on first use and kept on disk.


def survey(times: Any, watermark: int, delay: int, lateness: int) -> Any:
    """Return what a batch of times is like: first falling place, least, largest, late and overdue records.

    `delay` is how far the watermark trails the largest time; negative where records do not move it.
    """
    low = times[0]
    high = times[0]
    falls = 0
    late = 0
    overdue = 0
    if delay < 0:
        for i in range(len(times)):
            t = times[i]
            falls += t < high
            low = min(low, t)
            high = max(high, t)
            late += t < watermark
            overdue += t < watermark - lateness
        return falls, low, high, late, overdue
    bound = watermark + delay  # a record is late below the larger of this and the largest time, less delay
    for i in range(len(times)):
        t = times[i]
        falls += t < high
        low = min(low, t)
        high = max(high, t)
        bound = max(bound, t)
        late += t + delay < bound
        overdue += t + delay + lateness < bound
    return falls, low, high, late, overdue


def watermarks(times: Any, watermark: int, delay: int, out: Any) -> None:
    """Write the watermark just before each record."""
    current = watermark
    for i in range(len(times)):
        out[i] = current
        if delay >= 0:
            current = max(current, times[i] - delay)


def cut(
    times: Any,
    codes: Any,
    keys: int,
    edges: Any,
    table: Any,
    pane: Any,
    pane_code: Any,
    pane_slice: Any,
    pane_first: Any,
    pane_last: Any,
    pane_rows: Any,
) -> int:
    """Number the pane of each record, a slice of one key, and describe the panes; return how many.

    `table` has a cell per slice and key (then a pane is numbered once), or one per key: then a key that
    comes back to an earlier slice gets a new pane for it.
    """
    panes = 0
    k = 0
    slices = len(edges)
    dense = len(table) == slices * keys
    for i in range(len(times)):
        t = times[i]
        if t < edges[k] or (k + 1 < slices and t >= edges[k + 1]):
            if k + 2 < slices and t >= edges[k + 1] and t < edges[k + 2]:
                k += 1
            else:
                low = 0
                high = slices
                while high - low > 1:
                    middle = (low + high) >> 1
                    if edges[middle] <= t:
                        low = middle
                    else:
                        high = middle
                k = low
        code = codes[i] if keys > 1 else 0
        cell = k * keys + code if dense else code
        p = table[cell]
        if p < 0 or pane_slice[p] != k:
            p = panes
            panes += 1
            table[cell] = p
            pane_code[p] = code
            pane_slice[p] = k
            pane_first[p] = t
            pane_last[p] = t
            pane_rows[p] = 0
        pane[i] = p
        pane_rows[p] += 1
        if t < pane_first[p]:
            pane_first[p] = t
        if t > pane_last[p]:
            pane_last[p] = t
    return panes


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
) -> Any:
    """Find or make the cell of each pane; `at` and `blank` say which, and whether it is new.

    A key's cells are linked from its latest to ever older ones. `behind` says whether a pane begins
    before the last record of its cell. Returns the number of cells, and whether one was put between others.
    """
    between = False
    for p in range(len(codes)):
        code = codes[p]
        start = starts[p]
        newer = -1
        c = latest[code]
        while c >= 0 and cell_start[c] > start:
            newer = c
            c = older[c]
        blank[p] = c < 0 or cell_start[c] != start
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
) -> Any:
    """Find or make the run of each pane; runs that a pane bridges become one.

    Pairs of `kept` and `gone` cells are to be merged, in turn, after the panes. Returns the number of
    cells, of such pairs, and whether a cell was put between others.
    """
    between = False
    pairs = 0
    for p in range(len(codes)):
        code = codes[p]
        newer = -1
        c = latest[code]
        while c >= 0 and cell_first[c] - gap > lasts[p]:
            newer = c
            c = older[c]
        blank[p] = c < 0 or cell_last[c] + gap < firsts[p]
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
            cell_rows[b] = 0  # a cell without records is gone
            older[c] = older[b]
            b = older[b]
        cell_start[c] = cell_first[c]
    return count, pairs, between


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


def upper_cells(places: Any, key_ends: Any, starts: Any, bounds: Any, out: Any) -> None:
    """Write, for a window that begins with the cell at places[w], the first cell at or past its end.

    Windows go forward, cells are by key and time; key_ends[j] is where the cells of cell j's key end.
    """
    j = 0
    for w in range(len(places)):
        stop = key_ends[places[w]]
        if j < places[w] + 1 or j > stop:
            j = places[w] + 1
        while j > places[w] + 1 and starts[j - 1] >= bounds[w]:
            j -= 1
        while j < stop and starts[j] < bounds[w]:
            j += 1
        out[w] = j


_PLAIN = {
    function.__name__: function
    for function in (survey, watermarks, cut, find_cells, find_runs, group, upper_cells)
}


@cache
def _code() -> Any:
    from muntin.kernels import modules

    return modules.functions("loops", _PLAIN)


_ready: dict[str, Any] = {}


def run(name: str, *arguments: Any) -> Any:
    """Call a loop of this module, compiled."""
    loop = _ready.get(name)
    if loop is None:
        import numba

        type_of: Any = numba.typeof
        loop = _code().function(name, tuple(type_of(argument) for argument in arguments))
        _ready[name] = loop
    return loop(*arguments)
