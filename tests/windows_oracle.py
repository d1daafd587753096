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
from typing import Any

from tests.conditions import WHERE, having
from tests.oracle import answer, ewm, quantile
from tests.oracle_grids import GRIDS, grid_windows, grid_windows_between
from tests.oracle_windows import KINDS, identity_of, whole_measures
from tests.window_types import FOREVER, NEVER, Arrived, Bounds, Key, Record, Row, Spec, Time, Window

COUNTS = ("count_tumbling", "count_sliding")
USERS = ("user_window", "policy_window", "aware")

__all__ = ["COUNTS", "GRIDS", "NEVER", "Oracle", "Record", "Row", "Spec", "one_shot", "row_order"]


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
    "ewm": lambda values: ewm(values, 0.3),
    "third": lambda values: quantile(values, 1 / 3),
    "quantiles": lambda values: [quantile(values, q) for q in (0.25, 0.5, 0.9)],
}

EMPTY: dict[str, Any] = {}  # their answers over no value, where that is not null


def aggregate(call: tuple[str, ...], records: tuple[Arrived, ...]) -> Any:
    """The aggregate (function, *columns) of records in canonical order; None is null."""
    name, *columns = call
    if not columns:
        return answer(name, list(records))
    if len(columns) == 2:
        return answer(name, [tuple(getattr(a.record, c) for c in columns) for a in records])
    values = [getattr(a.record, columns[0]) for a in records]
    if name in ("m4", "rate"):
        return answer(name, [(v, a.record.t) for v, a in zip(values, records, strict=True)])
    present = [v for v in values if v is not None]
    if name in OWN:
        return OWN[name](present) if present else EMPTY.get(name)
    return answer(name, present)


def same(a: Any, b: Any) -> bool:
    """Equality of answers, in which NaN equals NaN."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return all(same(a[name], b[name]) for name in a)
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


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
        self._size = 0
        self._views: dict[str, dict[tuple, Window]] = {spec.name: {} for spec in specs}
        self._told: Counter[tuple] = Counter()  # how many rows each identity has had
        self._last: dict[tuple, Bounds] = {}  # the bounds that each identity was last reported with
        self._open: dict[str, dict[tuple, Window]] = {spec.name: {} for spec in specs}  # provisional ones
        self._newest: Time = NEVER  # the largest time seen at the end of the last call
        self._final: dict[tuple, bool] = {}  # whether the last row of each identity was final

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
        self._open[spec.name] = {}

    def remove(self, name: str) -> None:
        """Forget a query; what it has open is not emitted, and another of its name begins anew."""
        del self.queries[name], self._views[name], self._open[name]
        self._final = {told: final for told, final in self._final.items() if told[0] != name}
        self._told = Counter({told: rows for told, rows in self._told.items() if told[0] != name})
        self._last = {told: bounds for told, bounds in self._last.items() if told[0] != name}

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
        return _passes(query, arrived) and t > query.since and t >= arrived.watermark - self.lateness

    def _on_time(self, query: Query, arrived: Arrived) -> bool:
        """Whether a record of the query's stream came before the watermark had passed it."""
        t = arrived.record.t
        return _passes(query, arrived) and t > query.since and t >= arrived.watermark

    def _windows_for(self, query: Query, arrived: Arrived) -> list[Bounds]:
        """The rule of time grids: the windows that a record counts for."""
        if arrived.seq not in query.counted:
            t, watermark = arrived.record.t, arrived.watermark
            broken = self.policy == "in_order" and t < watermark
            query.counted[arrived.seq] = [
                (start, end)
                for start, end in grid_windows(query.spec, t)
                if not broken and watermark < end + self.lateness and start > query.since
                if _passes(query, arrived)
            ]
        return query.counted[arrived.seq]

    def _canonical(self, key: Key) -> list[Arrived]:
        if self.tie:
            return sorted(self.arrived[key], key=lambda a: (a.record.t, a.record.tie, a.seq))
        return sorted(self.arrived[key], key=lambda a: (a.record.t, a.seq))

    # ---- views ----

    def _view(self, query: Query) -> dict[tuple, Window]:
        """All windows of a query whose emission condition holds, by their identity."""
        return {i: window for i, window in self._windows(query).items() if self.watermark >= window.due}

    def _windows(self, query: Query) -> dict[tuple, Window]:
        """All windows of a query that `finish()` would emit now, by their identity."""
        kind, name = query.spec.kind, query.spec.name
        view = {}
        for key in self.arrived:
            records = self._canonical(key)
            windows = self._grid(query, records) if kind in GRIDS else self._others(query, records)
            for window in windows:
                view[name, key, identity_of(kind, window)] = window
        return view

    def _provisional(self, query: Query) -> dict[tuple, Window]:
        """The windows of a query that are in view before they are complete."""
        early, name = query.spec.early, query.spec.name
        if early is None:
            return {}
        windows = {i: w for i, w in self._windows(query).items() if self.watermark < w.due}
        newest = self.newest()
        if newest > NEVER and (self._newest == NEVER or newest // early > self._newest // early):
            # One that was final until now is retracted, and comes no earlier than in the next such call.
            return {i: window for i, window in windows.items() if i not in self._views[name]}
        return {i: window for i, window in self._open[name].items() if i in windows}

    def newest(self) -> Time:
        """The largest time seen."""
        return self.largest

    def _others(self, query: Query, records: list[Arrived]) -> Iterator[Window]:
        """All windows but those of time grids, over the records that count."""
        kind = query.spec.kind
        records = [a for a in records if self._in_time(query, a)]
        if kind in USERS:
            records = [a for a in records if self._shown(a)]
        windows = KINDS[kind](query.spec, records)
        if kind == "aware":  # rows are final: late records are waited for
            return (window._replace(due=window.due + self.lateness) for window in windows)
        return (
            whole_measures(query.spec, records, windows) if kind == "on" and query.since > NEVER else windows
        )

    def _shown(self, arrived: Arrived) -> bool:
        """Whether user and policy windows see a record yet: once t <= W - L.

        Where a tie orders records of equal time, one that is still in time may come before others of its
        time. Rows are final, so that the time must have passed: t < W - L.
        """
        known = self.watermark - self.lateness
        return arrived.record.t < known or (arrived.record.t == known and not self.tie)

    def _grid(self, query: Query, records: list[Arrived]) -> Iterator[Window]:
        """Windows with records and, if they are wanted, those without."""
        members: dict[Bounds, list[Arrived]] = defaultdict(list)
        for arrived in records:
            for bounds in self._windows_for(query, arrived):
                members[bounds].append(arrived)
        if query.spec.emit_empty:
            times = [a.record.t for a in records if self._on_time(query, a) or self._counts(query, a)]
            for bounds in grid_windows_between(query.spec, min(times), max(times)) if times else []:
                members[bounds]  # made if there is none
        for (start, end), inside in members.items():
            yield Window(start, end, None, tuple(inside), end)

    # ---- corrections ----

    def _difference(self) -> list[Row]:
        """The rows that lead from the view before this call to the view after it."""
        rows = []
        for query in self.queries.values():
            name = query.spec.name
            final, complete, shown = self._view(query), self._views[name], self._provisional(query)
            self._complete = complete.keys() | final.keys()
            before, after = self._open[name] | complete, shown | final
            changed = [*self._retractions(query, before, after), *self._changes(query, before, after)]
            rows += [seen for row in changed if (seen := self._seen(query.spec, row, before)) is not None]
            self._views[name], self._open[name] = final, shown
        self._newest = max(self._newest, self.newest())
        places = {name: place for place, name in enumerate(self.queries)}
        rows.sort(key=lambda row: row_order(row, places))
        return rows

    def _retractions(self, query: Query, before: dict, after: dict) -> Iterator[Row]:
        for known, window in before.items():
            if known not in after:
                nothing = dict.fromkeys(query.spec.aggregates)
                yield self._row(known, window._replace(records=()), "retract", nothing)

    def _changes(self, query: Query, before: dict, after: dict) -> Iterator[Row]:
        on_change = query.spec.emit == "on_change"
        previous = _previous_windows(after) if on_change else {}
        for identity, window in after.items():
            same_records = identity in before and before[identity]._replace(due=window.due) == window
            if same_records and not (identity in self._open[query.spec.name] and identity in self._complete):
                continue  # the same bounds and the same records, and as final as before
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
        bounds = (window.start, window.end, window.id)
        final = identity in self._complete
        return Row(key, name, *bounds, change, revision, values, window.records, window.measures, final)

    def _seen(self, spec: Spec, row: Row, before: dict) -> Row | None:
        """The row as it is emitted: one that fails is left out if it is the first, and retracted else.

        A retraction of what was never reported has the bounds that the window had before this call.
        """
        identity = (spec.name, row.key, identity_of(spec.kind, row))
        if spec.having is not None and row.change != "retract":
            column, text = spec.having
            if having(column, spec.aggregates[column])[text](row) is not True:
                if row.revision == 0:
                    self._final[identity] = row.final
                    return None
                start, end = self._last.get(identity) or before[identity][:2]
                nothing = dict.fromkeys(row.values)
                taken_back = self._final.get(identity, True)
                row = row._replace(start=start, end=end, change="retract", values=nothing, records=())
                row = row._replace(final=taken_back)
        self._final[identity] = row.final
        self._last[identity] = (row.start, row.end)
        return row


def _passes(query: Query, arrived: Arrived) -> bool:
    """Whether a record reaches the windows of a query at all."""
    return query.spec.where is None or WHERE[query.spec.where](arrived.record) is True


def _values(spec: Spec, window: Window) -> dict[str, Any]:
    return {name: aggregate(call, window.records) for name, call in spec.aggregates.items()}


def _previous_windows(view: dict[tuple, Window]) -> dict[tuple, Window]:
    """For each window of a view the one before it of the same key, where there is one."""
    previous: dict[tuple, Window] = {}
    last: dict[Key, Window] = {}
    for identity in sorted(view, key=lambda i: _sequence(i, view[i])):
        key = identity[1]
        if key in last:
            previous[identity] = last[key]
        last[key] = view[identity]
    return previous


def _sequence(identity: tuple, window: Window) -> tuple:
    """Where a window stands among those of its query and key."""
    if window.measures is not None:
        return window.measures[::-1]
    if isinstance(identity[2], int):  # the window's number, or its end
        return (identity[2],)
    return (window.end, window.start if window.id is None else window.id)


def row_order(row: Row, places: dict[str, int]) -> tuple:
    """How rows of one call are ordered, given the place of each query; keys come in any order."""
    return row.change != "retract", row.end, row.start, places[row.query], -1 if row.id is None else row.id


def one_shot(specs: list[Spec], records: list[Record]) -> list[Row]:
    """What `mt.aggregate` gives: nothing is late, and everything comes out once."""
    oracle = Oracle(specs, "manual")
    oracle.process(records)
    return oracle.finish()
