"""Windows without records, for queries with emit_empty: those between two records of their key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Times
from muntin.engine.plan.queries import PlannedQuery
from muntin.engine.rows import INSERT, Rows
from muntin.engine.slices.grid.reach import NOWHERE, Reach, Spans, Stretches, without
from muntin.engine.slices.grid.windows import count_late
from muntin.engine.store.cells import AggregateStore
from muntin.engine.transaction import Transactional
from muntin.windows.grid import end, last_ended

MOST = 10_000_000  # in one call


class Records(NamedTuple):
    """Records that a call takes in; `marks` has the watermark just before each, None: all are on time."""

    codes: Codes
    times: Times
    marks: Times | None

    def take(self, at: NDArray[np.bool_]) -> Records:
        """Return some of the records."""
        return Records(self.codes[at], self.times[at], None if self.marks is None else self.marks[at])


class Expected(NamedTuple):
    """The windows of a query between records that would come into view with a call."""

    query: PlannedQuery
    spans: Spans
    records: Records
    reach: Reach
    now: Stretches
    old: Stretches  # those that are in view already
    store: AggregateStore  # the slices so far
    frozen: int  # windows that end at this or before do not change any more
    lateness: int

    def most(self) -> float:
        """Return how many are new, with records or without."""
        return float(self.now.counts().sum(dtype=float) - self.old.counts().sum(dtype=float))

    def empty(self) -> int:
        """Return how many are new and without records.

        Each record in a slice counts for all windows that hold it and may still change; what others hold
        that are not between records yet is in `filled`.
        """
        grid, (codes, times, marks) = self.spans.grid, self.records
        low = grid.low(times)
        if marks is not None:
            low = np.maximum(low, last_ended(grid, marks - self.lateness) + 1)
        holes = [self.old, self.spans.filled_windows(), Stretches(codes, low, grid.high(times))]
        if self.store.count:
            slices = self.store.ordered()
            low = np.maximum(grid.low(slices.first), last_ended(grid, self.frozen) + 1)
            holes.append(Stretches(slices.code, low, grid.high(slices.first)))
        return sum(without(self.now, holes).counts().tolist())


def refuse_many(expected: Iterable[Expected]) -> None:
    """Refuse a call that would emit too many empty windows, of all queries together."""
    listed = list(expected)
    if sum(one.most() for one in listed) <= MOST:
        return
    counts = {one.query.name: one.empty() for one in listed}
    if sum(counts.values()) > MOST:
        raise ValueError(
            f"this call would emit {sum(counts.values()):,} empty windows, most of them of query "
            f"{max(counts, key=lambda name: counts[name])!r}, and a call may emit {MOST:,}: look for a time "
            "that is far off, advance the watermark in smaller steps, use longer windows, or leave out "
            "emit_empty."
        )


class EmptyWindows(Transactional):
    """Which windows without records come into view, by query."""

    often = ()

    def __init__(self, lateness: int) -> None:
        self.lateness = lateness
        self.spans: dict[int, Spans] = {}  # empty where no query asks for empty windows
        self._queries: dict[int, PlannedQuery] = {}

    def follow(self, queries: Iterable[PlannedQuery]) -> None:
        """Follow the records of each key, for those of the queries that ask for it."""
        asking = {planned.number: planned for planned in queries if planned.query.emit_empty}
        if asking.keys() != self.spans.keys():
            self.save()
            self.parts_changed()
            known = self.spans
            self._queries = asking
            self.spans = {n: known[n] if n in known else Spans(p.window) for n, p in asking.items()}

    def parts(self) -> Iterable[Transactional]:
        """Return what is known of the keys of each query."""
        return self.spans.values()

    # ---- records ----

    def expect(self, records: Records, before: int, after: int, store: AggregateStore) -> list[Expected]:
        """Return what records, and a watermark that moves from one time to another, would bring into view."""
        found, frozen = [], before - self.lateness
        for number, spans in self.spans.items():
            planned = self._queries[number]
            some = self._seen(planned, records)
            reach = spans.reach(some.codes, some.times) if len(some.codes) else NOWHERE
            views = spans.between(spans.due_keys(reach, after), after)
            found.append(Expected(planned, spans, some, reach, *views, store, frozen, self.lateness))
        return found

    def _seen(self, planned: PlannedQuery, records: Records) -> Records:
        """Return the records of a query that are on time, or count for a window of it."""
        codes, times, marks = records
        seen = np.ones(len(times), bool) if planned.origin is None else times > planned.origin
        if marks is not None:
            late = np.flatnonzero(times < marks)
            seen[late] &= count_late(planned, times[late], marks[late] - self.lateness)
        return records if seen.all() else Records(codes, times, marks).take(seen)

    # ---- windows ----

    def fill(self, rows: Rows) -> None:
        """Take in windows with records that come into view."""
        for number, spans in self.spans.items():
            new = rows.query == number
            if rows.change is not None:
                new &= rows.change == INSERT
            spans.fill(rows.code[new], rows.end[new])

    def held(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell which windows lay between records of their key before this call."""
        held = np.zeros(len(rows), bool)
        for number, spans in self.spans.items():
            held |= (rows.query == number) & spans.held(rows.code, rows.start, rows.end)
        return held

    def rows(self, watermark: int) -> list[Rows]:
        """Return windows without records that come into view."""
        found = []
        for number, spans in self.spans.items():
            code, k = spans.come_out(watermark)
            start, ends = spans.grid.start(k), end(spans.grid, k)
            if spans.grid.irregular:  # a calendar may leave out a day
                there = start < ends
                code, start, ends = code[there], start[there], ends[there]
            if len(code):
                none = np.zeros(len(code), np.int64)
                rows = Rows(np.full(len(code), number), code, start, ends, None, None, none, none)
                found.append(rows)
        return found

    # ---- snapshots ----

    def describe(self) -> list[Any]:
        """Return it as JSON can hold it."""
        return [[number, *spans.dump()] for number, spans in self.spans.items()]
