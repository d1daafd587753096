"""Early results: windows that are not complete, shown as they are until they are final or gone.

Which windows are open is what `finish()` would emit. That is asked in a trial, which is undone, so that no
family of slices needs to know of it:

    call  -->  final rows of all queries  -->  follow those of windows that were shown early
                                          -->  a trial: show what is open, take back what is gone

A trial is made in calls in which the newest time passes a multiple of a query's `early`, and where records
may have left no window of an identity that was shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices
from muntin.engine.ingest.batch import Stretch
from muntin.engine.plan.queries import Plan, PlannedQuery
from muntin.engine.rows import (
    FOREVER,
    INSERT,
    NEVER,
    NO_BOUND,
    RETRACT,
    UPDATE,
    Emission,
    Rows,
    concatenated,
    filled_in,
    queries_of,
)
from muntin.engine.slices.family import Moment, SliceFamily
from muntin.engine.slices.revisions import Shifts
from muntin.engine.slices.slice_manager import SliceManager
from muntin.engine.slices.window_manager import WindowManager
from muntin.engine.store.cells import AggregateStore
from muntin.engine.transaction import Transactional, trial
from muntin.settings import MEASURES
from muntin.windows.durations import Clock

OPEN, FINAL, GONE = 0, 1, 2  # in view early; in view; in view no more
Identity = tuple[int, ...]


class Shown(NamedTuple):
    """What is known of a window that had an early row, or is gone: as it is in the view."""

    state: int
    revision: int  # of its last row
    final: bool  # whether that was a final one, or took one back
    start: int
    stop: int
    begin: int  # the position of its first record, where slices start at positions
    records: int  # how many it has; -1: others came among them

    def moved(self, begin: int, records: int) -> Shown:
        """Return it where its records are now."""
        return Shown(*self[:5], begin, records)

    def taken_back(self) -> Shown:
        """Return it after a retraction."""
        return Shown(GONE, self.revision + 1, *self[2:6], -1)

    def after_row(self, *, final: bool) -> Shown:
        """Return it after a row that is final or not."""
        return Shown(self.state, self.revision, final, *self[3:])


Windows = dict[int, dict[Identity, Shown]]  # by key
Lost = tuple[int, list[tuple[int, Identity]]]  # a query, and windows of its keys that are gone


class Came(NamedTuple):
    """The keys of the records of a call, and whether one was older than a record before it."""

    codes: Sequence[int]
    behind: bool

    @classmethod
    def of(cls, stretch: Stretch, largest: int) -> Came:
        """Return it for records after which the largest time was this before."""
        codes = np.unique(stretch.codes).tolist() if stretch.keys > 1 else [0]
        return cls(codes, stretch.disordered or stretch.low < largest)


class EarlyResults(Transactional):
    """What the queries with early results have shown, and what they show next."""

    often = ("newest", "known")

    def __init__(self, slices: SliceManager, windows: WindowManager, newest: int) -> None:
        self.slices = slices
        self.windows = windows
        self.newest = newest  # the largest time seen; NEVER: none yet
        self.known: dict[int, Windows] = {}  # by query
        self.queries: dict[int, PlannedQuery] = {}
        self._every: dict[int, int] = {}  # in ticks, by query

    def follow(self, queries: Iterable[PlannedQuery], clock: Clock) -> None:
        """Follow a change of the queries."""
        self.save()
        self.queries = {planned.number: planned for planned in queries}
        self._every = {number: planned.query.early_ticks(clock) for number, planned in self.queries.items()}
        self.known = {number: self.known.get(number, {}) for number in self.queries}

    # ---- a call ----

    def stirs(self, newest: int, code: int) -> bool:
        """Tell whether a call with a record of a key may change what is shown."""
        touched = (n for n, known in self.known.items() if code in known)
        return bool(self._due(newest)) or any(self._vanishes(n, behind=False) for n in touched)

    def shift(self) -> None:
        """Follow records that come between others, before they are put into slices."""
        for family, numbers in self._families(self.known):
            shifts = family.shifts() if family.by_position else None
            if shifts is not None:
                for code in shifts.codes():
                    for number in numbers:
                        self._move(number, code, shifts)

    def _move(self, number: int, code: int, shifts: Shifts) -> None:
        """Let windows of a key be where their records are now."""
        shown = self.known[number].get(code, {}).items()
        whole = [(who, window) for who, window in shown if window.state == OPEN and window.records > 0]
        begins = np.array([window.begin for _, window in whole], np.int64)
        lasts = np.array([window.begin + window.records - 1 for _, window in whole], np.int64)
        moved = [shifts.now(code, positions).tolist() for positions in (begins, lasts)]
        for (who, window), begin, last in zip(whole, *moved, strict=True):
            count = window.records if last - begin + 1 == window.records else -1
            if (begin, count) != (window.begin, window.records):
                self._set(number, code, who, window.moved(begin, count))

    def report(self, emission: Emission, moment: Moment, newest: int, came: Came | None) -> None:
        """Number the rows of windows that were shown early; add early rows to an emission."""
        retracted = self._follow_final(emission)
        if moment.final:
            return
        assert emission.final is not None
        assert emission.final_before is not None
        complete, before = emission.count, [emission.final_before]
        due = self._due(newest)
        self.newest = max(self.newest, newest)
        gone, asked = self._gone(came, due)
        if due or asked:
            show = partial(self._show, due, asked, retracted, moment.after, emission, before)
            gone += trial(self.slices, show)
        for number, windows in gone:
            before.append(self._take_back(number, windows, emission))
        emission.final = np.append(emission.final, np.zeros(emission.count - complete, bool))
        emission.final_before = np.concatenate(before)

    def _due(self, newest: int) -> set[int]:
        """Return the queries whose open windows are to be shown."""
        if newest == NEVER:
            return set()
        if self.newest == NEVER:
            return set(self.queries)
        return {n for n, every in self._every.items() if newest // every > self.newest // every}

    def _vanishes(self, number: int, *, behind: bool) -> bool:
        how = self.queries[number].query.window.vanishes()
        return how == "always" or (behind and how == "out of order")

    # ---- final rows ----

    def _follow_final(self, emission: Emission) -> set[tuple[int, int, Identity]]:
        """Let the rows of windows that were shown early follow the early ones; return what is taken back."""
        emission.final, emission.final_before = np.ones(emission.count, bool), np.ones(emission.count, bool)
        retracted: set[tuple[int, int, Identity]] = set()
        begin = 0
        for group, query in enumerate(emission.query):
            change = emission.change[group]
            for number in queries_of(query) & self.queries.keys():
                mine = query == number
                if not self.known[number]:
                    mine &= False if change is None else change == RETRACT
                at = np.flatnonzero(mine)
                if len(at):
                    before = emission.final_before[begin : begin + len(query)]
                    retracted |= self._follow_rows(emission, group, number, at, before)
            begin += len(query)
        return retracted

    def _follow_rows(
        self, emission: Emission, group: int, number: int, at: Indices, before: NDArray[np.bool_]
    ) -> set[tuple[int, int, Identity]]:
        """Follow the rows of a query in a group of an emission; `before` is filled in."""
        count, known = len(emission.query[group]), self.known[number]
        change, revision, was = emission.change[group], emission.revision[group], emission.was[group]
        change = np.full(count, INSERT, np.int8) if change is None else change.copy()
        revision = np.zeros(count, np.int64) if revision is None else revision.copy()
        starts, stops = (np.full(count, NO_BOUND) if was is None else was[side].copy() for side in (0, 1))
        rows = _rows_of(emission, group).take(at)
        lasting = bool(self.slices.setting.lateness or self.slices.setting.tied)
        retracted = set()
        where = zip(*(column.tolist() for column in (at, rows.code, rows.start, rows.end)), strict=True)
        for (i, code, start, stop), who in zip(where, self._identities(rows), strict=True):
            old, gone = known.get(code, {}).get(who), bool(change[i] == RETRACT)
            if old is None and not gone:
                continue
            if old is not None:
                revision[i], before[i] = old.revision + 1, old.final
                if old.state == OPEN:
                    change[i], starts[i], stops[i] = UPDATE, old.start, old.stop
            if gone:
                retracted.add((number, code, who))
            now = Shown(GONE if gone else FINAL, int(revision[i]), True, start, stop, 0, -1)
            self._set(number, code, who, now if gone or lasting else None)
        emission.change[group], emission.revision[group] = change, revision
        emission.was[group] = (starts, stops)
        return retracted

    # ---- early rows ----

    def _families(self, numbers: Collection[int]) -> Iterator[tuple[SliceFamily, list[int]]]:
        """Return the families of some queries, with these."""
        by_query = self.slices.by_query
        for family in self.slices.families.values():
            mine = [number for number in numbers if by_query[number] is family]
            if mine:
                yield family, mine

    def _gone(self, came: Came | None, due: set[int]) -> tuple[list[Lost], set[int]]:
        """Return windows that are gone, of queries that are not due, and the queries that must be asked."""
        gone: list[Lost] = []
        asked: set[int] = set()
        for number, known in self.known.items() if came is not None else ():
            assert came is not None
            if number in due or not self._vanishes(number, behind=came.behind):
                continue
            family, planned = self.slices.by_query[number], self.queries[number]
            touched = [
                (code, who, family.is_there(planned, code, who))
                for code in came.codes
                if code in known
                for who, window in known[code].items()
                if window.state == OPEN
            ]
            missing = [(code, who) for code, who, there in touched if there is False]
            gone += [(number, missing)] if missing else []
            asked |= {number for _, _, there in touched if there is None}
        return gone, asked

    def _show(
        self,
        due: set[int],
        asked: set[int],
        retracted: set[tuple[int, int, Identity]],
        watermark: int,
        into: Emission,
        before: list[NDArray[np.bool_]],
    ) -> list[Lost]:
        """Add open windows of the queries that are due to an emission; return which windows are gone."""
        there: dict[int, set[tuple[int, Identity]]] = {number: set() for number in due | asked}
        moment = Moment(watermark, FOREVER, final=True, frozen=watermark)
        for family, numbers in self._families(there):
            family.only(numbers)
            for store, rows in family.advance(moment):
                for number in queries_of(rows.query) & there.keys():
                    some = rows.take(np.flatnonzero(rows.query == number))
                    windows = list(zip(some.code.tolist(), self._identities(some), strict=True))
                    there[number].update(windows)
                    if number not in due:
                        continue
                    again = [(number, *window) in retracted for window in windows]
                    new, flags = self._news(number, windows, again, _sizes(family, store, some), some)
                    if len(new):
                        self.windows.emit([(store, new)], into)
                        before.append(flags)
        lost = [(number, self._missing(number, windows)) for number, windows in there.items()]
        return [(number, windows) for number, windows in lost if windows]

    def _news(
        self,
        number: int,
        windows: Sequence[tuple[int, Identity]],
        again: Sequence[bool],
        sizes: tuple[Indices, Indices],
        rows: Rows,
    ) -> tuple[Rows, NDArray[np.bool_]]:
        """Return the rows of open windows that are new or have changed, and whether the row before was final.

        Those that were final until this call (`again`) are shown no earlier than in the next one that is due.
        """
        known = self.known[number]
        chosen, change, revision, starts, stops, before = [], [], [], [], [], []
        bounds = zip(*(column.tolist() for column in (rows.start, rows.end, *sizes)), strict=True)
        for i, ((code, who), where) in enumerate(zip(windows, bounds, strict=True)):
            old = known.get(code, {}).get(who)
            shown = old is not None and old.state == OPEN
            if again[i] or (shown and old is not None and old[3:] == where):
                continue
            chosen.append(i)
            change.append(UPDATE if shown else INSERT)
            revision.append(0 if old is None else old.revision + 1)
            starts.append(NO_BOUND if old is None else old.start)
            stops.append(NO_BOUND if old is None else old.stop)
            before.append(old is not None and old.final)
            self._set(number, code, who, Shown(OPEN, revision[-1], False, *where))
        new = rows.take(np.array(chosen, np.int64))
        new.change, new.revision = np.array(change, np.int8), np.array(revision, np.int64)
        new.was = (np.array(starts, np.int64), np.array(stops, np.int64))
        return new, np.array(before, bool)

    def _missing(self, number: int, there: set[tuple[int, Identity]]) -> list[tuple[int, Identity]]:
        """Return the windows that were shown and are not among those that are open."""
        return [
            (code, who)
            for code, windows in self.known[number].items()
            for who, window in windows.items()
            if window.state == OPEN and (code, who) not in there
        ]

    def _take_back(
        self, number: int, windows: Sequence[tuple[int, Identity]], into: Emission
    ) -> NDArray[np.bool_]:
        """Add the retractions of early rows to an emission; none of these was final."""
        planned, family = self.queries[number], self.slices.by_query[number]
        shown = [self.known[number][code][who] for code, who in windows]
        columns = dict(
            zip(planned.query.window.identity(), np.array([who for _, who in windows]).T, strict=True)
        )
        none = np.zeros(len(windows), np.int64)
        rows = Rows(
            np.full(len(windows), number),
            np.array([code for code, _ in windows], np.int64),
            np.array([window.start for window in shown], np.int64),
            np.array([window.stop for window in shown], np.int64),
            columns.get("window_id", np.full(len(windows), NEVER)),
            np.full(len(windows), RETRACT, np.int8),
            none,
            none,
        )
        rows.revision = np.array([window.revision + 1 for window in shown], np.int64)
        if MEASURES[0] in columns:
            rows.measure = (columns[MEASURES[0]], columns[MEASURES[1]])
        for (code, who), window in zip(windows, shown, strict=True):
            self._set(number, code, who, window.taken_back())
        self.windows.emit([(family.store, rows)], into)
        return np.zeros(len(windows), bool)

    def take_back(self, emission: Emission, at: Indices, failed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which rows, at these places of an emission, are final; those that failed are retractions."""
        assert emission.final is not None
        assert emission.final_before is not None
        query, code = concatenated(emission.query), concatenated(emission.code)
        for number in queries_of(query[at[failed]]) & self.queries.keys():
            mine = at[failed & (query[at] == number)]
            columns = {name: column[mine] for name, column in _whole_columns(emission).items()}
            identity = (columns[name].tolist() for name in self.queries[number].query.window.identity())
            for place, key, *who in zip(mine.tolist(), code[mine].tolist(), *identity, strict=True):
                window = self.known[number].get(key, {}).get(tuple(who))
                if window is not None:
                    now = window.after_row(final=bool(emission.final_before[place]))
                    self._set(number, key, tuple(who), now)
        return np.where(failed, emission.final_before[at], emission.final[at])

    # ---- what is known ----

    def _set(self, number: int, code: int, who: Identity, window: Shown | None) -> None:
        """Remember a window; None: forget it."""
        known = self.known[number]
        if code not in known:
            self.overwrite_item(known, code)
            known[code] = {}
        windows = known[code]
        self.overwrite_item(windows, who)
        if window is not None:
            windows[who] = window
        else:
            windows.pop(who, None)
            if not windows:
                self.overwrite_item(known, code)
                del known[code]

    def _identities(self, rows: Rows) -> Iterator[Identity]:
        """Return what tells the windows of rows of one query apart."""
        columns = {"window_start": rows.start, "window_end": rows.end, "window_id": rows.id}
        columns |= dict(zip(MEASURES, (None, None) if rows.measure is None else rows.measure, strict=True))
        names = self.queries[int(rows.query[0])].query.window.identity()
        chosen = [column.tolist() for name in names if (column := columns[name]) is not None]
        return zip(*chosen, strict=True)

    def knows(self, identity: tuple[int, ...]) -> bool:
        """Tell whether a window, by query, key and identity, had early rows and may get more."""
        number, code, *who = identity
        return tuple(who) in self.known.get(number, {}).get(code, {})

    def evict(self, reach: int) -> None:
        """Forget windows that get no more rows."""
        for number, known in self.known.items():
            over = {
                (code, *who): window.state == GONE
                for code, windows in known.items()
                for who, window in windows.items()
                if window.state != OPEN
            }
            kept = self.slices.by_query[number].still_shown(number, over, reach) if over else set()
            for code, *who in over.keys() - kept:
                self._set(number, code, tuple(who), None)

    def remembered(self) -> Codes:
        """Return the keys of windows that are known."""
        return np.array(sorted({code for known in self.known.values() for code in known}), np.int64)

    def keep_keys(self, codes: Codes) -> None:
        """Give keys other numbers: codes[old] is the new one."""
        self.known = {
            number: {int(codes[code]): windows for code, windows in known.items()}
            for number, known in self.known.items()
        }


class ReportsEarly(Transactional):
    """The part of an engine that has early results while a query asks for them."""

    plan: Plan
    slices: SliceManager
    windows: WindowManager
    tables: Any  # that say which rows are final
    watermark: int
    largest: int
    ahead: int | None  # how far the newest time is past the watermark; None: records tell

    def start_early(self) -> None:
        """Have shown nothing yet."""
        self.early: EarlyResults | None = None
        self.follow_early()

    def follow_early(self) -> None:
        """Follow a change of the queries."""
        queries = [planned for planned in self.plan.queries if planned.query.early is not None]
        if not queries and self.early is None:
            return
        for part in (self, self.tables, self.windows):
            part.save()
        if not queries:
            self.early = None
        else:
            self.early = self.early or EarlyResults(self.slices, self.windows, self.newest())
            self.early.follow(queries, self.plan.clock)
        self.tables.early = self.early
        self.windows.shown_early = None if self.early is None else self.early.knows
        self.parts_changed()

    def newest(self) -> int:
        """Return the largest time seen: that of a record, or (Spark) the one that the watermark tells."""
        if self.ahead is None:
            return self.largest
        return NEVER if self.watermark == NEVER else self.watermark + self.ahead


def _sizes(family: SliceFamily, store: AggregateStore, rows: Rows) -> tuple[Indices, Indices]:
    """Return the position of the first record of each window, where there is one, and how many it has."""
    if rows.by_place:
        return np.zeros(len(rows), np.int64), store.column("rows")[rows.low]
    ordered = store.ordered()
    total = np.append(0, np.cumsum(ordered.rows))
    begin = ordered.start[rows.low] if family.by_position else np.zeros(len(rows), np.int64)
    return begin, total[rows.high] - total[rows.low]


def _rows_of(emission: Emission, group: int) -> Rows:
    """Return the rows of a group of an emission, without their slices."""
    none = np.zeros(len(emission.query[group]), np.int64)
    bounds = (emission.code[group], emission.start[group], emission.end[group])
    change, measure = emission.change[group], emission.measure[group]
    return Rows(emission.query[group], *bounds, emission.id[group], change, none, none, measure=measure)


def _whole_columns(emission: Emission) -> dict[str, Indices]:
    """Return the columns of all rows that may tell windows apart."""

    def column(parts: Sequence[NDArray[Any] | None], fill: int) -> Indices:
        found = filled_in(parts, emission.query, fill)
        return np.full(emission.count, fill) if found is None else found

    sides = ([None if m is None else m[side] for m in emission.measure] for side in (0, 1))
    return {
        "window_start": concatenated(emission.start),
        "window_end": concatenated(emission.end),
        "window_id": column(emission.id, NEVER),
        **{name: column(parts, NO_BOUND) for name, parts in zip(MEASURES, sides, strict=True)},
    }
