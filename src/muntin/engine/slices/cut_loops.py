"""Compiled loops that list edges and cut a batch at them."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.compiled import Compiled

# Plain functions over arrays: they are compiled on first use and kept on disk. Of an index that is unsigned,
# code does not ask whether it counts from the end, which takes longer than the rest of a short loop.


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


run = Compiled(
    "cut_loops",
    look_up,
    bounds,
    cut_alone,
    cut_dense,
    cut_in_turn,
    cut_sparse,
    list_edges,
)
