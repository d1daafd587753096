"""Techniques with a bucket per window: AggregateBuckets and TupleBuckets."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from muntin.swag.base import BOTTOM
from muntin.techniques.base import Counts, Technique, row
from muntin.techniques.partials import Partials, State
from muntin.techniques.stream import INTEGERS, Row, UnsupportedWorkload, Workload
from muntin.windows.base import Window
from muntin.windows.grid import end

_BUCKET_BYTES = 16  # its start and end


class _Bucket(ABC):
    """What a window has taken in so far: the times of its records reach from `first` to `last`."""

    def __init__(self, partials: Partials, first: int, last: int) -> None:
        self._partials = partials
        self.first, self.last = first, last
        self.state: State = BOTTOM
        self.records: list[int] = []  # by their place in canonical order
        self.combines = 0

    def _join(self, state: State) -> None:
        self.combines += self.state is not BOTTOM
        self.state = self._partials.combine(self.state, state)

    @abstractmethod
    def add(self, record: int) -> None:
        """Take in a record."""

    def merge(self, other: _Bucket) -> None:
        """Take in another bucket."""
        self.combines += other.combines
        self.records += other.records
        if other.state is not BOTTOM:
            self._join(other.state)

    def finish(self) -> State:
        """Return the state of a window that ends."""
        for record in sorted(self.records):
            self._join(self._partials.lift(record))
        return self.state


class _Aggregate(_Bucket):
    """Holds one partial."""

    def add(self, record: int) -> None:
        self._join(self._partials.lift(record))


class _Tuples(_Bucket):
    """Holds records until the window ends."""

    def add(self, record: int) -> None:
        self.records.append(record)


class _Buckets(Technique):
    """What they share: a record goes into the bucket of every window that it belongs to."""

    bucket: type[_Bucket]

    def check(self, workload: Workload) -> None:
        """Ask for windows that a record knows on arrival."""
        for query in workload.queries:
            if not workload.in_order and query.window.family not in ("grid", "session"):
                raise UnsupportedWorkload(
                    f"out of order, a record does not know the {query.window.kind} that it belongs to."
                )

    def _run(self, workload: Workload, partials: Partials) -> list[Row]:
        windows = workload.windows
        if not workload.in_order:
            return self._out_of_order(workload, partials)
        # No bucket knows of another: what one has taken in by its end can be folded then.
        rows = [
            row(workload, partials, w, partials.fold(int(begin), int(stop)))
            for w, (begin, stop) in enumerate(zip(windows.begin, windows.end, strict=True))
        ]
        combines = int((windows.end - windows.begin - 1).sum())
        self.counts = self._counted(partials, combines, _most_open(workload), _most_copies(workload))
        return rows

    def _out_of_order(self, workload: Workload, partials: Partials) -> list[Row]:
        """Take records one by one, and emit windows before the arrivals at which they are due."""
        windows, rank = workload.windows, workload.rank.tolist()
        of_query: list[dict[tuple[int, int], _Bucket]] = [{} for _ in workload.queries]
        rows: list[Row] = []
        combines = most = most_records = 0
        for i in range(len(workload) + 1):
            while len(rows) < len(windows) and windows.at[len(rows)] == i:
                w = len(rows)
                bounds = (int(windows.starts[w]), int(windows.ends[w]))
                bucket = of_query[int(windows.query[w])].pop(bounds)
                rows.append(row(workload, partials, w, bucket.finish()))
                combines += bucket.combines
            if i == len(workload):
                break
            t = int(workload.times[rank[i]])
            for query, buckets in zip(workload.queries, of_query, strict=True):
                for bucket in self._those_for(query.window, t, buckets, partials):
                    bucket.add(rank[i])
            most = max(most, sum(map(len, of_query)))
            held = sum(len(bucket.records) for buckets in of_query for bucket in buckets.values())
            most_records = max(most_records, held)
        self.counts = self._counted(partials, combines, most, most_records)
        return rows

    def _those_for(
        self, window: Window, t: int, buckets: dict[tuple[int, int], _Bucket], partials: Partials
    ) -> list[_Bucket]:
        """Return the buckets of the windows that hold a time; sessions that it connects are merged."""
        if window.family == "grid":
            grid = window.resolved(INTEGERS)
            bounds = [(grid.start(k), end(grid, k)) for k in range(grid.low(t), grid.high(t) + 1)]
            return [buckets.setdefault((a, b), self.bucket(partials, a, b)) for a, b in bounds if a <= t < b]
        gap = window.resolved(INTEGERS)
        touched = sorted((b for b in buckets.values() if b.first - gap <= t <= b.last + gap), key=_first)
        one = touched[0] if touched else self.bucket(partials, t, t)
        for bucket in touched:
            del buckets[bucket.first, bucket.last + gap]
            if bucket is not one:
                one.merge(bucket)
        one.first, one.last = min(one.first, t), max(t, one.last, *(b.last for b in touched))
        buckets[one.first, one.last + gap] = one
        return [one]

    @abstractmethod
    def _counted(self, partials: Partials, combines: int, buckets: int, records: int) -> Counts:
        """Return the counts, given how many buckets and copies of records there were at once."""


def _first(bucket: _Bucket) -> int:
    return bucket.first


class AggregateBuckets(_Buckets):
    """A partial per open window: a record is combined into each of those that hold it, at once.

    In order any window; out of order time grids and sessions, and aggregates that take records in any order.
    """

    bucket = _Aggregate

    def check(self, workload: Workload) -> None:
        """Ask for aggregates that can take records as they come."""
        super().check(workload)
        aggregates = [a for query in workload.queries for a in query.aggregates.values()]
        if not workload.in_order and not all(a.commutative for a in aggregates):
            raise UnsupportedWorkload("out of order, AggregateBuckets needs commutative aggregates.")

    def _counted(self, partials: Partials, combines: int, buckets: int, records: int) -> Counts:
        del records  # it keeps none
        size = buckets * (partials.state_bytes + _BUCKET_BYTES)
        return Counts(update=combines, partials=buckets, bytes=size)


class TupleBuckets(_Buckets):
    """The records of each open window, kept once for each; folded when it ends.

    In order any window; out of order time grids and sessions.
    """

    bucket = _Tuples

    def _counted(self, partials: Partials, combines: int, buckets: int, records: int) -> Counts:
        size = records * partials.record_bytes + buckets * _BUCKET_BYTES
        return Counts(merge=combines, records=records, bytes=size)


def _most_open(workload: Workload) -> int:
    """Return how many buckets of an in-order stream there are at once, at most."""
    opened, closed = np.sort(workload.windows.begin), workload.windows.end
    there = np.arange(1, len(opened) + 1) - np.searchsorted(closed, opened, "right")
    return int(there.max(initial=0))


def _most_copies(workload: Workload) -> int:
    """Return how many copies of an in-order stream's records there are at once, at most."""
    windows = workload.windows
    opened = np.zeros(len(workload) + 1, np.int64)  # buckets that begin with a record, less those that end
    np.add.at(opened, windows.begin, 1)
    np.add.at(opened, windows.end, -1)
    taken = np.append(0, np.cumsum(np.cumsum(opened)))[windows.end]  # before each emission
    gone = np.append(0, np.cumsum(windows.end - windows.begin))
    return int((taken - gone[np.searchsorted(windows.end, windows.end)]).max(initial=0))
