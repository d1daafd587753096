"""Techniques with a bucket per window: AggregateBuckets and TupleBuckets."""

from __future__ import annotations

import numpy as np

from muntin.swag.base import BOTTOM
from muntin.techniques.base import Counts, Technique, row
from muntin.techniques.partials import Partials
from muntin.techniques.stream import Row, UnsupportedWorkload, Workload

_BUCKET_BYTES = 16  # its start and end


class _Buckets(Technique):
    """What they share: a record goes into the bucket of every window that it belongs to."""

    def check(self, workload: Workload) -> None:
        """Ask for windows that a record knows on arrival."""
        for query in workload.queries:
            if not workload.in_order and query.window.family != "grid":
                raise UnsupportedWorkload(
                    f"out of order, a record does not know the {query.window.kind} that it belongs to."
                )


class AggregateBuckets(_Buckets):
    """A partial per open window: a record is combined into each of those that hold it, at once.

    In order any window; out of order time grids, and aggregates that take records in any order.
    """

    def check(self, workload: Workload) -> None:
        """Ask for aggregates that can take records as they come."""
        super().check(workload)
        aggregates = [a for query in workload.queries for a in query.aggregates.values()]
        if not workload.in_order and not all(a.commutative for a in aggregates):
            raise UnsupportedWorkload("out of order, AggregateBuckets needs commutative aggregates.")

    def _run(self, workload: Workload, partials: Partials) -> list[Row]:
        windows, rows, updates = workload.windows, [], 0
        rank = workload.rank
        for w in range(len(windows)):
            begin, end = int(windows.begin[w]), int(windows.end[w])
            # No bucket knows of another: what one has taken in by its end can be folded then.
            if workload.in_order:
                state = partials.fold(begin, end)
            else:
                state = BOTTOM
                for i in rank[(rank >= begin) & (rank < end)].tolist():
                    state = partials.combine(state, partials.lift(i))
            updates += end - begin - 1
            rows.append(row(workload, partials, w, state))
        most = _most_open(workload)
        size = most * (partials.state_bytes + _BUCKET_BYTES)
        self.counts = Counts(update=updates, partials=most, bytes=size)
        return rows


class TupleBuckets(_Buckets):
    """The records of each open window, kept once for each; folded when it ends.

    In order any window; out of order time grids.
    """

    def _run(self, workload: Workload, partials: Partials) -> list[Row]:
        windows, rows, merges = workload.windows, [], 0
        for w in range(len(windows)):
            begin, end = int(windows.begin[w]), int(windows.end[w])
            rows.append(row(workload, partials, w, partials.fold(begin, end)))
            merges += end - begin - 1
        records = _most_copies(workload)
        size = records * partials.record_bytes + _most_open(workload) * _BUCKET_BYTES
        self.counts = Counts(merge=merges, records=records, bytes=size)
        return rows


def _first_arrivals(workload: Workload) -> np.ndarray:
    """Return when the first record of each window arrives."""
    if workload.in_order:
        return workload.windows.begin
    return np.array(
        [
            workload.arrival[b:e].min()
            for b, e in zip(workload.windows.begin, workload.windows.end, strict=True)
        ],
        np.int64,
    )


def _most_open(workload: Workload) -> int:
    """Return how many buckets there are at once, at most: each from its first record to its emission."""
    opened, closed = np.sort(_first_arrivals(workload)), np.sort(workload.windows.at)
    there = np.arange(1, len(opened) + 1) - np.searchsorted(closed, opened, "right")
    return int(there.max(initial=0))


def _most_copies(workload: Workload) -> int:
    """Return how many copies of records there are at once, at most: before each emission."""
    windows = workload.windows
    arrival = workload.arrival
    change = np.zeros(len(workload) + 2, np.int64)  # copies by arrival
    if workload.in_order:
        np.add.at(change, windows.begin, 1)  # from here on, one more for each record ...
        np.add.at(change, windows.end, -1)  # ... and from here on none
        change = np.cumsum(change)
    else:
        for b, e in zip(windows.begin, windows.end, strict=True):
            change[arrival[b:e]] += 1
    copies = np.cumsum(change)  # taken in up to and with an arrival
    gone = np.cumsum(np.append(0, windows.end - windows.begin))
    before = np.searchsorted(windows.at, windows.at, "left")  # emissions before this one
    taken = np.where(windows.at > 0, copies[windows.at - 1], 0)
    return int((taken - gone[before]).max(initial=0))
