"""A brute-force reading of the semantics page: which rows each call must give.

No slices and no incremental aggregates. Every record that was ever handed over is kept, with the watermark
just before it; after each call the view of every query is built anew from all of them and compared with the
view before the call. No code is shared with src: windows are described by `Spec`, times are integers.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.oracle import answer

NEVER = -math.inf  # the watermark, and the largest time seen, before there is any
FOREVER = math.inf  # the watermark once the stream is finished
GRIDS = ("tumbling", "sliding", "cumulate")
COUNTS = ("count_tumbling", "count_sliding")

Key = tuple[Any, ...]
Bounds = tuple[int, int]
Time = int | float  # an integer, NEVER or FOREVER


# ---- what goes in and what comes out ----


@dataclass(frozen=True)
class Spec:
    """A query. `params` by kind: tumbling (length, offset), sliding (length, every, offset),
    cumulate (length, step), session (gap,), count_tumbling (n,), count_sliding (n, every).

    `aggregates` maps the name of an output column to a function and the columns it reads: ("sum", "v").
    """

    name: str
    kind: str
    params: tuple[int, ...]
    aggregates: dict[str, tuple[str, ...]]
    emit_empty: bool = False
    emit_partial: bool = False
    emit: str = "all"


class Record(NamedTuple):
    """One record as handed over; `key` holds a value per key column, `tie` is 0 where no tie is named."""

    t: int
    v: float | None = None
    w: int | None = None
    key: Key = ()
    tie: int = 0


class Arrived(NamedTuple):
    """A record with its place in the stream and the watermark just before it."""

    seq: int
    record: Record
    watermark: Time


class Window(NamedTuple):
    """A window of a view, with the records that count for it in canonical order."""

    start: int
    end: int
    id: int | None
    records: tuple[Arrived, ...]


class Row(NamedTuple):
    """One row of a result; `records` are those behind it, for whoever wants to judge rounding."""

    key: Key
    query: str
    start: int
    end: int
    id: int | None
    change: str
    revision: int
    values: dict[str, Any]
    records: tuple[Arrived, ...] = ()


@dataclass
class Query:
    """A query of the operator: `since` is the largest time seen when it was added."""

    spec: Spec
    since: Time
    # Which windows a record counts for depends only on what was known when it arrived, so it is looked up
    # here the second time: (sequence number) -> windows. Grids only.
    counted: dict[int, list[Bounds]] = field(default_factory=dict)


# ---- aggregates ----


def _affine(values: list[int]) -> int:
    slope, shift = 1, 0
    for v in values:
        slope, shift = slope * (v * 7 + 1) % 10007, (shift * (v * 7 + 1) + v + 3) % 10007
    return slope * 10007 + shift


# What the user-written aggregates of the tests are, over at least one value and no null.
OWN = {
    "affine": _affine,
    "squares": lambda values: answer("sum", [v * v for v in values]),
    "union": lambda values: sorted(set(values)),
    "collected": list,
}


def aggregate(call: tuple[str, ...], records: tuple[Arrived, ...]) -> Any:
    """The aggregate (function, *columns) of records in canonical order; None is null."""
    name, *columns = call
    if not columns:
        return answer(name, list(records))
    if len(columns) == 2:
        return answer(name, [tuple(getattr(a.record, c) for c in columns) for a in records])
    values = [getattr(a.record, columns[0]) for a in records]
    present = [v for v in values if v is not None]
    if name in OWN:
        return OWN[name](present) if present else None
    return answer(name, present)


def same(a: Any, b: Any) -> bool:
    """Equality of answers, in which NaN equals NaN."""
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


# ---- time grids ----


def _grid_near(spec: Spec, low: int, high: int) -> Iterator[Bounds]:
    """All windows of a grid that touch [low, high], and some beside it."""
    if spec.kind == "cumulate":
        length, step = spec.params
        for k in range(low // length - 1, high // length + 2):
            for j in range(1, length // step + 1):
                yield k * length, k * length + j * step
        return
    length, offset = spec.params[0], spec.params[-1]
    every = length if spec.kind == "tumbling" else spec.params[1]
    for k in range((low - offset - length) // every - 1, (high - offset) // every + 2):
        yield k * every + offset, k * every + offset + length


def grid_windows(spec: Spec, t: int) -> list[Bounds]:
    """The windows of a grid that hold the time t."""
    return [(start, end) for start, end in _grid_near(spec, t, t) if start <= t < end]


def grid_windows_between(spec: Spec, first: int, last: int) -> list[Bounds]:
    """The windows of a grid with a record before them and one after: `first` and `last` are their times."""
    return [(start, end) for start, end in _grid_near(spec, first, last) if first < start and end <= last]


# ---- the operator ----


class Oracle:
    """The operator as a state machine over calls; each gives its rows in the order they must have.

    `policy` is "in_order", "manual", or a delay. `tie` says whether records of equal time are ordered by
    their `tie` before their arrival.
    """

    def __init__(
        self, specs: list[Spec], policy: str | int = "in_order", lateness: int = 0, tie: bool = False
    ):
        self.queries = {spec.name: Query(spec, NEVER) for spec in specs}
        self.policy = policy
        self.lateness = lateness
        self.tie = tie
        self.watermark: Time = NEVER
        self.largest: Time = NEVER
        self.arrived: dict[Key, list[Arrived]] = defaultdict(list)
        self.dropped: list[Record] = []
        self._dropped_ever: set[int] = set()
        self._size = 0
        self._views: dict[str, dict[tuple, Window]] = {spec.name: {} for spec in specs}
        self._told: Counter[tuple] = Counter()  # how many rows each identity has had

    @property
    def finished(self) -> bool:
        return self.watermark == FOREVER

    # ---- calls ----

    def process(self, records: list[Record]) -> list[Row]:
        """Take records one by one: each meets the watermark left by those before it."""
        self._refuse_after_finish()
        for record in records:
            self._take(record)
        return self._difference() if records else []

    def advance(self, watermark: int) -> list[Row]:
        """Move the watermark, never back."""
        self._refuse_after_finish()
        if watermark < self.watermark:
            raise ValueError(f"the watermark is at {self.watermark} already")
        self.watermark = watermark
        return self._difference()

    def finish(self) -> list[Row]:
        """Let the watermark pass everything."""
        if self.finished:
            return []
        self.watermark = FOREVER
        return self._difference()

    def add(self, spec: Spec) -> None:
        """From now on answer this query too, over records later than all seen so far."""
        self.queries[spec.name] = Query(spec, self.largest)
        self._views[spec.name] = {}

    def remove(self, name: str) -> None:
        """Forget a query; what it has open is not emitted."""
        del self.queries[name], self._views[name]

    def take_late(self) -> list[Record]:
        """The records dropped since the last call, in the order of arrival."""
        dropped, self.dropped = self.dropped, []
        return dropped

    def _refuse_after_finish(self) -> None:
        if self.finished:
            raise RuntimeError("the stream is finished")

    # ---- records ----

    def _take(self, record: Record) -> None:
        arrived = Arrived(self._size, record, self.watermark)
        self._size += 1
        self.arrived[record.key].append(arrived)
        late = record.t < self.watermark
        if late and not any(self._counts(query, arrived) for query in self.queries.values()):
            self.dropped.append(record)
            self._dropped_ever.add(arrived.seq)
        self.largest = max(self.largest, record.t)
        if self.policy == "in_order":
            self.watermark = max(self.watermark, self.largest)
        elif self.policy != "manual":
            self.watermark = max(self.watermark, self.largest - self.policy)

    def _counts(self, query: Query, arrived: Arrived) -> bool:
        if query.spec.kind in GRIDS:
            return bool(self._windows_for(query, arrived))
        return self._in_time(query, arrived)

    def _in_time(self, query: Query, arrived: Arrived) -> bool:
        """The rule of all windows but time grids (in order, the lateness is 0)."""
        t = arrived.record.t
        return t > query.since and t >= arrived.watermark - self.lateness

    def _windows_for(self, query: Query, arrived: Arrived) -> list[Bounds]:
        """The rule of time grids: the windows that a record counts for."""
        if arrived.seq not in query.counted:
            t, watermark = arrived.record.t, arrived.watermark
            broken = self.policy == "in_order" and t < watermark
            query.counted[arrived.seq] = [
                (start, end)
                for start, end in grid_windows(query.spec, t)
                if not broken and watermark < end + self.lateness and start > query.since
            ]
        return query.counted[arrived.seq]

    def _canonical(self, key: Key) -> list[Arrived]:
        if self.tie:
            return sorted(self.arrived[key], key=lambda a: (a.record.t, a.record.tie, a.seq))
        return sorted(self.arrived[key], key=lambda a: (a.record.t, a.seq))

    # ---- views ----

    def _view(self, query: Query) -> dict[tuple, Window]:
        """All windows of a query whose emission condition holds, by their identity."""
        kind, name = query.spec.kind, query.spec.name
        find = self._grid if kind in GRIDS else self._sessions if kind == "session" else self._positions
        view = {}
        for key in self.arrived:
            for window in find(query, self._canonical(key)):
                bounds = (window.start, window.end)
                view[name, key, window.id if kind in COUNTS else bounds] = window
        return view

    def _grid(self, query: Query, records: list[Arrived]) -> Iterator[Window]:
        """Windows that have ended: those with records and, if they are wanted, those without."""
        members: dict[Bounds, list[Arrived]] = defaultdict(list)
        for arrived in records:
            for bounds in self._windows_for(query, arrived):
                members[bounds].append(arrived)
        if query.spec.emit_empty:
            seen = [a for a in records if a.seq not in self._dropped_ever]
            times = [a.record.t for a in seen if self._counts(query, a) or self._in_time(query, a)]
            for bounds in grid_windows_between(query.spec, min(times), max(times)) if times else []:
                members[bounds]  # made if there is none
        for (start, end), inside in members.items():
            if self.watermark >= end:
                yield Window(start, end, None, tuple(inside))

    def _sessions(self, query: Query, records: list[Arrived]) -> Iterator[Window]:
        """Maximal runs with at most `gap` between neighbours, once no record in time can join."""
        (gap,) = query.spec.params
        runs: list[list[Arrived]] = []
        for arrived in records:
            if not self._in_time(query, arrived):
                continue
            if runs and arrived.record.t - runs[-1][-1].record.t <= gap:
                runs[-1].append(arrived)
            else:
                runs.append([arrived])
        for run in runs:
            end = run[-1].record.t + gap
            if self.watermark > end:
                yield Window(run[0].record.t, end, None, tuple(run))

    def _positions(self, query: Query, records: list[Arrived]) -> Iterator[Window]:
        """Windows over positions among the records that count: full ones, partial ones at the end."""
        size, every = query.spec.params[0], query.spec.params[-1]
        records = [a for a in records if self._in_time(query, a)]
        for number, first in enumerate(range(0, len(records), every)):
            inside = tuple(records[first : first + size])
            whole = len(inside) == size or (self.finished and query.spec.emit_partial)
            if whole and self.watermark >= inside[-1].record.t:
                yield Window(inside[0].record.t, inside[-1].record.t, number, inside)

    # ---- corrections ----

    def _difference(self) -> list[Row]:
        """The rows that lead from the view before this call to the view after it."""
        rows = []
        for query in self.queries.values():
            before, after = self._views[query.spec.name], self._view(query)
            rows += self._retractions(query, before, after)
            rows += self._changes(query, before, after)
            self._views[query.spec.name] = after
        places = {name: place for place, name in enumerate(self.queries)}
        rows.sort(key=lambda row: row_order(row, places))
        return rows

    def _retractions(self, query: Query, before: dict, after: dict) -> Iterator[Row]:
        for identity, window in before.items():
            if identity not in after:
                nothing = dict.fromkeys(query.spec.aggregates)
                yield self._row(identity, window._replace(records=()), "retract", nothing)

    def _changes(self, query: Query, before: dict, after: dict) -> Iterator[Row]:
        on_change = query.spec.emit == "on_change"
        previous = _previous_windows(after) if on_change else {}
        for identity, window in after.items():
            if before.get(identity) == window:  # the same bounds and the same records
                continue
            values = _values(query.spec, window)
            if identity in previous:
                last = _values(query.spec, previous[identity])
                if all(same(values[name], last[name]) for name in values):
                    continue
            yield self._row(identity, window, "update" if identity in before else "insert", values)

    def _row(self, identity: tuple, window: Window, change: str, values: dict[str, Any]) -> Row:
        name, key, _ = identity
        revision = self._told[identity]
        self._told[identity] += 1
        return Row(key, name, window.start, window.end, window.id, change, revision, values, window.records)


def _values(spec: Spec, window: Window) -> dict[str, Any]:
    return {name: aggregate(call, window.records) for name, call in spec.aggregates.items()}


def _previous_windows(view: dict[tuple, Window]) -> dict[tuple, Window]:
    """For each window of a view the one before it of the same key, where there is one."""
    previous: dict[tuple, Window] = {}
    last: dict[Key, Window] = {}
    for identity in sorted(view, key=lambda i: (view[i].id or 0, view[i].end, view[i].start)):
        key = identity[1]
        if key in last:
            previous[identity] = last[key]
        last[key] = view[identity]
    return previous


def row_order(row: Row, places: dict[str, int]) -> tuple:
    """How rows of one call are ordered, given the place of each query; keys come in any order."""
    return row.change != "retract", row.end, row.start, places[row.query], -1 if row.id is None else row.id


def one_shot(specs: list[Spec], records: list[Record]) -> list[Row]:
    """What `mt.aggregate` gives: nothing is late, and everything comes out once."""
    oracle = Oracle(specs, "manual")
    oracle.process(records)
    return oracle.finish()
