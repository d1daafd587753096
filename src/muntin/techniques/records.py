"""Techniques that keep records: Naive, TupleBuffer, AggregateTree and the ReactiveAggregator."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from muntin.techniques.base import Counts, Technique, row
from muntin.techniques.partials import Partials
from muntin.techniques.ring import Ring, oldest_needed
from muntin.techniques.stores import EagerStore
from muntin.techniques.stream import Places, Row, Workload

_MANY = 4096  # records: for fewer, compiling would take longer


class TupleBuffer(Technique):
    """One sorted buffer of records for all queries; each window is folded from its records when it ends.

    Any stream and any window. Where each record belongs is found by sorting them all at once: combines are
    those of the technique, the copies that its insertions would take are not made.
    """

    def check(self, workload: Workload) -> None:
        """Take everything."""

    def _run(self, workload: Workload, partials: Partials) -> list[Row]:
        windows, rows, merges = workload.windows, [], 0
        for w in range(len(windows)):
            begin, end = int(windows.begin[w]), int(windows.end[w])
            rows.append(row(workload, partials, w, partials.fold(begin, end)))
            merges += end - begin - 1
        records = self._held(workload)
        self.counts = Counts(merge=merges, records=records, bytes=records * partials.record_bytes)
        return rows

    def _held(self, workload: Workload) -> int:
        return held(workload, np.ones(len(workload.windows), bool))


class Naive(TupleBuffer):
    """A buffer per query, shared with no other; each window is folded from its records when it ends."""

    def _held(self, workload: Workload) -> int:
        return sum(held(workload, workload.windows.query == query) for query in range(len(workload.queries)))


def held(workload: Workload, which: np.ndarray) -> int:
    """Return how many records a buffer holds at once, at most, for these windows.

    A record stays until no window that is open, or has yet to begin, needs it: before each emission, those
    that have arrived less those before the oldest window.
    """
    at, begin = workload.windows.at[which], workload.windows.begin[which]
    oldest = np.minimum.accumulate(begin[::-1])[::-1]
    if workload.in_order:
        return int((at - oldest).max(initial=0))
    rank = workload.rank
    return max((int((rank[:a] >= o).sum()) for a, o in zip(at, oldest, strict=True)), default=0)


class AggregateTree(Technique):
    """A FlatFAT over records: each changes log2(n) nodes, and windows are combined from nodes.

    Any stream and any window. A record out of order moves all leaves after its place. After Traub et al.,
    "Efficient Window Aggregation with General Stream Slicing" (2019), Section 3.2.
    """

    batched = False

    def check(self, workload: Workload) -> None:
        """Take everything."""

    def _run(self, workload: Workload, partials: Partials) -> list[Row]:
        many = workload.in_order and len(workload) >= _MANY
        ring = Ring.over(partials, batched=self.batched) if many else None
        return self._compiled(workload, partials, ring) if ring else self._one_by_one(workload, partials)

    def _compiled(self, workload: Workload, partials: Partials, ring: Ring) -> list[Row]:
        windows = workload.windows
        rows: list[Row] = []

        def emit(low: int, high: int) -> None:
            states = ring.suffixes(windows.begin[low:high])
            rows.extend(row(workload, partials, w, s) for w, s in enumerate(states, start=low))

        _follow(workload, ring.append, emit, ring.remove_up_to)
        self._count(ring.updates, ring.merges, ring.peak, partials)
        return rows

    def _one_by_one(self, workload: Workload, partials: Partials) -> list[Row]:
        windows, store = workload.windows, EagerStore(partials)
        rows: list[Row] = []
        rank, arrived = workload.rank.tolist(), list[int]()

        def append(low: int, high: int) -> None:
            if self.batched:
                store.extend([partials.lift(i) for i in range(low, high)])
                return
            for i in range(low, high):
                place = bisect_right(arrived, rank[i])
                arrived.insert(place, rank[i])
                state = partials.lift(rank[i])
                if place == len(arrived) - 1:
                    store.append(state)
                else:
                    store.insert(store.first + place, state)

        def emit(low: int, high: int) -> None:
            for w in range(low, high):
                state = store.merge(int(windows.begin[w]), int(windows.end[w]))
                rows.append(row(workload, partials, w, state))

        def free(number: int) -> None:
            del arrived[: number - store.first]
            store.remove_up_to(number)

        _follow(workload, append, emit, free)
        self._count(store.updates, store.merges, store.peak, partials)
        return rows

    def _count(self, updates: int, merges: int, peak: int, partials: Partials) -> None:
        leaves = (peak + 1) // 2
        size = leaves * partials.record_bytes + (peak - leaves) * partials.state_bytes
        self.counts = Counts(update=updates, merge=merges, partials=peak, records=leaves, bytes=size)


def _follow(
    workload: Workload,
    append: Callable[[int, int], None],
    emit: Callable[[int, int], None],
    free: Callable[[int], None],
) -> None:
    """Hand over records and emit windows in turn; then free what no open window needs.

    Records that no window holds come and go as well: such a structure does not know windows beforehand.
    """
    windows = workload.windows
    reached = w = 0
    stops = np.unique(np.append(windows.at, len(workload)))
    upto = np.searchsorted(windows.at, stops, "right")
    free_to = oldest_needed(windows, stops) if workload.in_order else _settled(workload, stops)
    for p, end, number in zip(stops.tolist(), upto.tolist(), free_to.tolist(), strict=True):
        append(reached, p)
        reached = p
        if end > w:
            emit(w, end)
            w = end
        free(number)


def _settled(workload: Workload, stops: Places) -> Places:
    """Return how many records that no later window needs have arrived, with all before them."""
    windows = workload.windows
    needed = [windows.begin[windows.at > p].min(initial=len(workload)) for p in stops]
    return np.minimum(needed, [workload.complete(int(p)) for p in stops])


class ReactiveAggregator(AggregateTree):
    """The Reactive Aggregator: a FlatFAT over records whose leaves are a ring; no slices.

    In-order streams; any window. By default each record is a change of its own, as in the comparison of
    Cutty; with `batched`, changes are combined together when a window ends, as in Tangwongsan et al.,
    "General Incremental Sliding-Window Aggregation" (2015).
    """

    def __init__(self, *, batched: bool = False) -> None:
        self.batched = batched

    def check(self, workload: Workload) -> None:
        """Ask for records in order: the ring is first in, first out."""
        self._needs_order(workload)
