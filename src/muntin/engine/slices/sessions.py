"""Slices of sessions: runs of records that are no gap apart, of which sessions with longer gaps are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Indices, Times
from muntin.engine.partials.base import FieldPartials
from muntin.engine.plan.queries import PlannedQuery
from muntin.engine.rows import FOREVER, NEVER, UPDATE, Rows, with_retractions
from muntin.engine.slices.family import (
    Adapted,
    Arrival,
    Cuts,
    Moment,
    Origin,
    Setting,
    Spot,
    TimeFamily,
    soonest,
)
from muntin.engine.store.cells import BEHIND, AggregateStore
from muntin.engine.store.ordered import Ordered
from muntin.engine.store.panes import Panes

Session = tuple[int, int, int]  # key, start, end


class SessionSlices(TimeFamily):
    """The runs of all sessions over one stream; they are cut with the least gap."""

    kind = "session"
    often = ("_next_ends", "_old")

    def __init__(self, setting: Setting, origin: Origin, fields: Mapping[int, FieldPartials]) -> None:
        super().__init__(setting, origin, fields)
        self.gap = self.widest = 0
        self._next_ends: dict[int, int] = {}  # up to this, no session of a query comes into view
        self._old: dict[int, set[Session]] | None = None  # that were in view, and that a call may change

    def adapt(self, adapted: Adapted) -> None:
        """Follow a change of the queries."""
        super().adapt(adapted)
        gaps = [planned.window for planned in self.queries]
        self.gap, self.widest = min(gaps), max(gaps)
        self._next_ends = {planned.number: NEVER for planned in self.queries}

    def cuts(self) -> Cuts:
        """Return the gap: no pane is longer."""
        return Cuts([], (), self.gap)

    # ---- records ----

    def add(self, arrival: Arrival) -> NDArray[np.int64] | None:
        """Put records into runs, remembering the sessions that they may change."""
        panes = arrival.panes_after(self.origin, self.store.fields)
        if panes is None or not len(panes):
            return None
        if arrival.touching and self.setting.lateness:
            stretch = arrival.stretch
            codes = np.unique(stretch.codes) if stretch.keys > 1 else np.zeros(1, np.int64)
            self._old = {p.number: self._in_view(p, arrival.before, codes) for p in self.queries}
        self.note_single(arrival.stretch.low)
        return self.merge(panes, self.gap, arrival)

    def put(self, panes: Panes) -> None:
        """Put panes into runs."""
        self.merge(panes, self.gap, None)
        self.note_single(int(panes.first.min()))

    def adds_single(self) -> bool:
        """Tell whether the stream has no origin, which each record would have to be compared with."""
        return self.origin is None

    def spot(self, code: int, t: int) -> Spot | None:
        """Return the latest run of a key, if a record joins it alone, or is past it."""
        at = self.store.run_of(code, t, self.gap)
        return None if at == BEHIND else Spot(self.store, t, at)

    def note_single(self, t: int) -> None:
        """Look out for a session that a record may have begun; others only get longer."""
        gaps = {planned.number: planned.window for planned in self.queries}
        self._next_ends = {number: min(end, t + gaps[number]) for number, end in self._next_ends.items()}

    def part_size(self, keys: int, *, alone: bool) -> int | None:
        """Return 0: records may come in parts of any size."""
        del keys, alone
        return 0

    def wants(self, times: Times, frozen: Times, overdue: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which late records are within the lateness."""
        del frozen
        return ~overdue & (times > (NEVER if self.origin is None else self.origin))

    # ---- rows ----

    @staticmethod
    def _sessions(planned: PlannedQuery, ordered: Ordered) -> tuple[Indices, ...]:
        """Return sessions: the number of fresh records, key, start, end, and range of cells of each."""
        if not len(ordered):
            nothing = np.empty(0, np.int64)
            return (nothing,) * 6
        low, high = session_ranges(ordered, planned.window)
        end = ordered.last[high - 1] + planned.window
        fresh = np.add.reduceat(ordered.fresh, low)
        return fresh, ordered.code[low], ordered.first[low], end, low, high

    def _in_view(self, planned: PlannedQuery, watermark: int, codes: Indices) -> set[Session]:
        """Return the sessions of these keys that are in view."""
        _, code, start, end, _, _ = self._sessions(planned, self.store.ordered())
        at = np.flatnonzero((end < watermark) & np.isin(code, codes))
        return set(zip(code[at].tolist(), start[at].tolist(), end[at].tolist(), strict=True))

    def advance(self, moment: Moment) -> list[tuple[AggregateStore, Rows]]:
        """Return sessions that came into view, changed or went."""
        found = []
        old, self._old = self._old, None
        for planned in self.queries:
            if old is None and moment.view <= self._next_ends[planned.number]:
                continue
            rows = self._rows(planned, moment, None if old is None else old[planned.number])
            if len(rows):
                found.append((self.store, rows))
        return found

    def _rows(self, planned: PlannedQuery, moment: Moment, old: set[Session] | None) -> Rows:
        """Return sessions that came into view, changed or went; `old` has those that may have."""
        fresh, code, start, end, low, high = self._sessions(planned, self.store.ordered())
        shown = end < moment.view
        left = end[~shown]
        self._next_ends = {**self._next_ends, planned.number: int(left.min()) if len(left) else FOREVER}
        emitted = shown & (end >= moment.before)
        change = np.zeros(len(code), np.int8)
        gone: list[Session] = []
        if old is not None:
            emitted, gone = _changes(old, (code, start, end), shown, emitted, fresh, change)
        at = np.flatnonzero(emitted)
        query = np.full(len(at), planned.number)
        rows = Rows(query, code[at], start[at], end[at], None, change[at], low[at], high[at])
        return with_retractions(rows, planned.number, gone) if gone else rows

    def is_there(self, planned: PlannedQuery, code: int, identity: tuple[int, ...]) -> bool:
        """Tell whether a key has a session with these bounds."""
        start = end = None
        for first, last in self.store.spans_of(code):  # from the latest run on
            if start is not None and start - last > planned.window:
                if (start, end) == identity:
                    return True
                start = None
            end = last + planned.window if start is None else end
            start = first
        return (start, end) == identity

    def next_deadline(self) -> float:
        """Return the first watermark past the end of a session."""
        return soonest(end + 1 for end in self._next_ends.values())

    def look_up(self, planned: PlannedQuery, start: int, end: int, code: int | None) -> Rows | None:
        """Return for each key the runs between two times as a row; None if there are none."""
        if planned.origin is not None:
            start = max(start, planned.origin + 1)
        ordered = self.store.ordered()
        found = ordered.runs_of((ordered.start >= start) & (ordered.last < end), code)
        if found is None:
            return None
        low, high = found
        query = np.full(len(low), planned.number)
        return Rows(
            query, ordered.code[low], ordered.first[low], ordered.last[high - 1] + 1, None, None, low, high
        )

    # ---- eviction ----

    def live(self, reach: float) -> NDArray[np.bool_]:
        """Return the runs of sessions that a record can still join."""
        live = np.zeros(self.store.count, bool)
        ordered = self.store.ordered()
        if len(ordered):
            low, high = session_ranges(ordered, self.widest)
            joinable = ordered.last[high - 1] + self.widest >= reach
            places = np.arange(self.store.count) if ordered.places is None else ordered.places
            live[places[np.repeat(joinable, high - low)]] = True
        return live

    # ---- what it holds ----

    def describe(self, words: Callable[[int], str]) -> dict[str, str]:
        """Return what runs are."""
        return {"sessions": f"runs of records at most {words(self.gap)} apart"}

    def describe_memory(self, words: Callable[[int], str], late: str) -> dict[str, str]:
        """Return for how long runs are held."""
        return {"sessions": f"a cell per run and key, until {words(self.widest)} after its last record{late}"}


def session_ranges(runs: Ordered, gap: int) -> tuple[Indices, Indices]:
    """Return the ranges of runs that make up sessions with this gap."""
    apart = (runs.code[1:] != runs.code[:-1]) | (runs.first[1:] - runs.last[:-1] > gap)
    low = np.flatnonzero(np.append(True, apart))
    return low, np.append(low[1:], len(runs))


def _changes(
    old: set[Session],
    sessions: tuple[Indices, Indices, Indices],
    shown: NDArray[np.bool_],
    fresh_view: NDArray[np.bool_],
    fresh: Indices,
    change: NDArray[np.int8],
) -> tuple[NDArray[np.bool_], list[Session]]:
    """Compare with the sessions that were in view: return which are emitted, and which are gone.

    `change` is filled in.
    """
    code, start, end = sessions
    emitted = fresh_view.copy()
    left = set(old)
    touched = shown & ~fresh_view
    touched &= np.isin(code, np.array([key for key, _, _ in old], np.int64)) | (fresh > 0)
    for i in np.flatnonzero(touched).tolist():
        identity = (int(code[i]), int(start[i]), int(end[i]))
        if identity in left:
            left.remove(identity)
            emitted[i] = fresh[i] > 0
            change[i] = UPDATE
        else:
            emitted[i] = fresh[i] > 0  # one of a key that no record came for was there before
    return emitted, sorted(left)
