"""The order of emitted rows: by end, start and query."""

from __future__ import annotations

import numpy as np

from muntin.columnar import Indices, Times, frozen
from muntin.engine import tuning
from muntin.engine.rows import INSERT, NEVER, RETRACT, Emission, concatenated, filled_in
from muntin.engine.slices.grid import window_loops


def row_order(emission: Emission) -> Indices | None:
    """Return rows by retractions first, then end, start, query and number; None if they are so already."""
    if emission.count == 1:
        return None
    end, start, query = (concatenated(parts) for parts in (emission.end, emission.start, emission.query))
    number = filled_in(emission.id, emission.query, NEVER)
    change = filled_in(emission.change, emission.query, INSERT)
    if number is None and (change is None or not change.any()):
        return _by_bounds(end, start, query)
    retracted = np.zeros(len(query), bool) if change is None else change == RETRACT
    if number is not None and not retracted.any() and (query == query[0]).all():
        columns = (end, start, number)
        if all((column[1:] >= column[:-1]).all() for column in columns):
            return None
    order = np.lexsort((query if number is None else number, query, start, end, ~retracted))
    return None if (order[1:] > order[:-1]).all() else order


def _by_bounds(end: Times, start: Times, query: Indices) -> Indices | None:
    """Return rows by end, start and query; None if they are so already."""
    if len(end) >= tuning.MANY_ROWS:
        columns, begins = (
            [frozen(column) for column in (end, start, query)],
            np.empty(tuning.STREAKS, np.int64),
        )
        count = window_loops.run("streaks", *columns, begins)
        if count == 1:
            return None
        if count <= tuning.STREAKS:
            order, stops = np.empty(len(end), np.int64), np.append(begins[1:count], len(end))
            window_loops.run("merge", *columns, begins[:count], stops, order)
            return order
        by_end = _by_end(end, start, query)
        if by_end is not None:
            return by_end
    key = _sort_key(end, start, query)
    if key is not None:
        return None if (key[1:] >= key[:-1]).all() else np.argsort(key)
    order = np.lexsort((query, start, end))
    return None if (order[1:] > order[:-1]).all() else order


def _by_end(end: Times, start: Times, query: Indices) -> Indices | None:
    """Return the order of rows whose ends lie close together, without comparing them; else None.

    Longer windows start earlier if they end together, so those of one length and query go in blocks.
    """
    low, high, length = int(end.min()), int(end.max()), end - start
    begins = np.flatnonzero(np.append(True, (query[1:] != query[:-1]) | (length[1:] != length[:-1])))
    if 8 * len(begins) > len(end) or high - low >= 2**63:
        return None
    stops = np.append(begins[1:], len(query))
    blocks = np.lexsort((query[begins], -length[begins]))
    shift = max(0, (high - low).bit_length() - len(end).bit_length())
    counts = np.zeros(((high - low) >> shift) + 3, np.int64)
    order = np.empty(len(end), np.int64)
    done = window_loops.run("order_by_end", end, begins[blocks], stops[blocks], low, shift, counts, order)
    return order if done else None


def _sort_key(end: Times, start: Times, query: Indices) -> Indices | None:
    """Return one number per row that sorts as end, start and query do; None if it would not fit."""
    low, length = int(end.min()), end - start
    longest, queries = int(length.max()), int(query.max()) + 1
    spread = longest - int(length.min()) + 1
    if (int(end.max()) - low + 1) * spread * queries >= 2**62:
        return None
    return ((end - low) * spread + (longest - length)) * queries + query
