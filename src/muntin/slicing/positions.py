"""Slices of windows that are stretches of a key's records, found by looking at them.

Records that nothing can come before any more are settled: listers read them once, in canonical order, and
they are folded into slices that begin where a window of any query begins or ends. The others are kept as
records; listers that go on from where the settled ones are read them anew when something has changed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from muntin.slicing import loops, machines
from muntin.slicing.bounded import KeptRecords, Size, cell_at, split
from muntin.slicing.fields import FieldPartials, Values, frozen
from muntin.slicing.listers import FAR, Batch, Flags, Found, Lister, runs, together
from muntin.slicing.records import RecordLog
from muntin.slicing.rows import RETRACT, Rows
from muntin.slicing.slicer import Stretch
from muntin.slicing.store import AggregateStore, Ordered, Panes
from muntin.slicing.transaction import Transactional
from muntin.slicing.views import Shifts, View, Viewed, gone_rows, no_numbers, viewed_rows

Places = NDArray[np.int64]
Windows = dict[int, list[Found]]  # by query


class Fresh:
    """Where the slices of the records that were read last lie in their store."""

    def __init__(self, batch: Batch, begins: Flags) -> None:
        self._batch = batch
        self._number = np.cumsum(begins, dtype=np.int32)  # of each record's slice

    def place(self, ordered: Ordered, code: Places, position: Places) -> tuple[Places, NDArray[np.bool_]]:
        """Return the slices that begin at positions, and which of them lie among the records read last.

        They are the last slices of their key; a position past all its records is past all its slices.
        """
        batch = self._batch
        if len(batch.codes) == 1 and ordered.code[0] == ordered.code[-1]:
            run, stop = np.zeros(1, np.int64), np.array([len(ordered)])
        else:
            run, stop = batch.run_of(code), np.searchsorted(ordered.code, code, side="right")
        out, within = np.empty(len(code), np.int64), np.empty(len(code), bool)
        told = (batch.bounds, batch.base, self._number, out, within)
        machines.run("place", run, stop, position, *told)
        return out, within


class Settled(Transactional):
    """Listers and slices as far as records have been read."""

    def __init__(self, fields: Mapping[int, FieldPartials]) -> None:
        self.store = AggregateStore(fields)
        self.listers: dict[int, Lister] = {}  # by query
        self.seen: Places = np.zeros(1, np.int64)  # records of each key
        self.cut: Places = np.zeros(1, np.int64)  # where the last slice of each key begins
        self.edge: Flags = np.zeros(1, np.uint8)  # whether the next record of a key begins a slice
        self.fresh: Fresh | None = None  # the slices of the records that were read last
        self.splitting: set[int] = set()  # queries whose windows begin or end within slices, as was decided
        self.each_record = False  # whether each record is a slice, as was decided
        self.split_records = 0  # that were folded again because a slice was split
        self.size = Size()  # of slices that may be split
        self.kept = KeptRecords()  # in such slices

    def copy(self, *, store: bool = True) -> Settled:
        """Return a state that goes on by itself; without `store`, no slice may be cut or split."""
        twin = copy.copy(self)
        twin._journal = Transactional._journal  # what it changes need not be undone
        twin.store = self.store.copy() if store else self.store
        twin.listers = {number: lister.copy() for number, lister in self.listers.items()}
        twin.seen, twin.cut, twin.edge = self.seen.copy(), self.cut.copy(), self.edge.copy()
        twin.kept = self.kept.copy()
        return twin

    def parts(self) -> Iterable[Transactional]:
        """Return slices, listers and kept records."""
        return self.store, self.size, self.kept, *self.listers.values()

    def reserve(self, keys: int) -> None:
        """Make room for so many keys."""
        for name in ("seen", "cut", "edge"):
            held = getattr(self, name)
            if keys > len(held):
                grown = np.zeros(max(keys, 2 * len(held)), held.dtype)
                grown[: len(held)] = held
                setattr(self, name, grown)
        for lister in self.listers.values():
            lister.reserve(len(self.seen))

    def read(self, batch: Batch | None, bound: float, *, final: bool, listers: Iterable[Lister]) -> Windows:
        """Read records, then let time pass; return the windows that end, at the end of the stream all."""
        found: Windows = {}

        def add(lister: Lister, windows: Found | None) -> None:
            if windows is not None and len(windows):
                found.setdefault(lister.number, []).append(windows)

        some = list(listers)
        marks = np.zeros(0 if batch is None else len(batch), np.uint8)
        if batch is not None:
            for lister in some:
                lister.overwrite_keys(batch.codes)
                add(lister, lister.feed(batch, marks))
            for held in (self.seen, self.cut, self.edge):
                self.overwrite(held, batch.codes)
            self.seen[batch.codes] += np.diff(batch.bounds)
        for lister in some:
            add(lister, lister.pass_time(bound, self.seen))
            if final:
                add(lister, lister.rest(self.seen))
        late = [windows for number in found.keys() & self.splitting for windows in found[number]]
        if batch is not None:
            self._mark(batch, marks, late)
            self._cut(batch, marks)
            if self.each_record:
                for lister in some:
                    add(lister, lister.look_back(batch, self.store.ordered()))
        if late:
            self._split(
                *(np.concatenate([getattr(w, side) for w in late]) for side in ("code", "begin", "end"))
            )
        for windows in found.values():
            for each in windows:
                at = each.code[each.end == self.seen[each.code]]
                self.overwrite(self.edge, at)
                self.edge[at] = 1
        return found

    def _mark(self, batch: Batch, marks: Flags, late: list[Found]) -> None:
        """Mark further records before which slices are cut: where windows begin or end in hindsight."""
        if self.each_record:
            marks[:] = 1
        if not self.splitting:
            return
        marks[batch.positions() & (self.size.most - 1) == 0] = 1
        for windows in late:
            for position in (windows.begin, windows.end):
                at = batch.places(windows.code, position)
                marks[at[at >= 0]] = 1
        fields = {number: batch.values[number] for number in self.store.fields}
        self.kept.add(replace(batch, values=fields))

    def _split(self, code: Places, begin: Places, end: Places) -> None:
        """Cut older slices where windows begin or end within them, and see what that costs."""
        records = split(self.store, self.kept, np.append(code, code), np.append(begin, end), self.seen)
        ordered = self.store.ordered()
        self.split_records += records
        if records:
            self.fresh = None
            last = np.flatnonzero(np.append(ordered.code[1:] != ordered.code[:-1], True))
            self.overwrite(self.cut, ordered.code[last])
            self.cut[ordered.code[last]] = ordered.start[last]
        slices = cell_at(ordered, code, end - 1) - cell_at(ordered, code, begin) + 1
        self.size.weigh(records, int(slices.sum()))

    def _cut(self, batch: Batch, marks: Flags) -> None:
        """Fold records into slices that begin where they are marked."""
        firsts = batch.bounds[:-1]
        marks[firsts] |= self.edge[batch.codes]
        begins = marks.copy()
        begins[firsts] = 1
        at = np.flatnonzero(begins.view(bool))
        bounds = np.append(at, len(batch))
        self.fresh = Fresh(batch, begins)
        run = (
            np.searchsorted(firsts, at, side="right") - 1 if len(firsts) > 1 else np.zeros(len(at), np.int64)
        )
        code = batch.codes[run]
        start = np.where(marks[at] == 1, at + batch.base[run], self.cut[code])
        states = {n: p.of_segments(batch.values[n], bounds) for n, p in self.store.fields.items()}
        first, last = batch.times[at], batch.times[bounds[1:] - 1]
        self.store.add(Panes(code, start, first, last, np.diff(bounds), states))
        lasts = np.append(np.flatnonzero(run[1:] != run[:-1]), len(run) - 1)
        self.cut[batch.codes] = start[lasts]
        self.edge[batch.codes] = 0

    def needed(self, reach: float) -> Places:
        """Return for each key the least position that a window to come may hold."""
        ordered = self.store.ordered()
        least = np.full(len(self.seen), 2**62)
        for lister in self.listers.values():
            needed = lister.needed(self.seen, reach, ordered)
            if needed is None:
                return np.zeros(len(self.seen), np.int64)
            np.minimum(least, needed, out=least)
        return least


class PositionSlices(Transactional):
    """The slices of all such windows over one stream."""

    def __init__(self, fields: Mapping[int, FieldPartials], *, in_order: bool, tied: bool) -> None:
        self.settled = Settled(fields)
        self.pending = RecordLog(fields)
        self.views: dict[int, View] = {}  # by query
        self._in_order = in_order
        self._tied = tied
        self._arrived: list[Stretch] = []  # in order, since the last call

    @property
    def store(self) -> AggregateStore:
        """The slices of settled records."""
        return self.settled.store

    def adapt(
        self,
        fields: Mapping[int, FieldPartials],
        listers: dict[int, Lister],
        views: Mapping[int, View],
        *,
        splitting: set[int],
        each_record: bool,
    ) -> None:
        """Follow a change of the queries; views that are there already stay."""
        self.settled.store.set_fields(fields)
        had_each_record, self.settled.each_record = self.settled.each_record, each_record
        self.settled.listers, self.settled.splitting = listers, splitting
        self.views = {number: self.views.get(number, view) for number, view in views.items()}
        self.pending.set_fields([*fields, *(lister.signal for lister in listers.values())])
        self.settled.reserve(len(self.settled.seen))
        if not splitting:
            self.settled.kept = KeptRecords()
        self.settled.kept.set_fields(fields)
        if splitting and had_each_record and not each_record:
            self.settled.edge = np.ones_like(self.settled.edge)  # slices so far have no records: none goes on

    def add(self, stretch: Stretch, tie: NDArray[np.generic] | None) -> None:
        """Take in records that count."""
        self.settled.reserve(stretch.keys)
        if self._in_order:
            self._arrived = [*self._arrived, stretch]
        else:
            self.pending.add(stretch, tie)

    def advance(self, watermark: float, lateness: int, *, final: bool) -> tuple[AggregateStore, list[Rows]]:
        """Read what can be read; return windows that came into view, changed or went, and their store."""
        settled = self.settled
        if not (lateness or self._tied):
            batch = self._in_turn() if self._in_order else self._take(self.pending.times <= watermark)
            settled.fresh = None
            found = settled.read(batch, watermark, final=final, listers=settled.listers.values())
            self.pending.settle()
            rows = self._new_rows(settled.store, found)
            settled.fresh = None
            return settled.store, rows
        return self._advance_late(watermark, lateness, final=final)

    def _advance_late(
        self, watermark: float, lateness: int, *, final: bool
    ) -> tuple[AggregateStore, list[Rows]]:
        settled, pending = self.settled, self.pending
        shifts = Shifts(pending.codes, pending.fresh, settled.seen.copy())
        reach = watermark - lateness
        batch = self._take(pending.times < reach if self._tied else pending.times <= reach)
        found = settled.read(batch, reach, final=final, listers=settled.listers.values())
        shown = self._batch(np.flatnonzero(pending.times <= watermark))
        tail = settled.copy(store=shown is not None or bool(settled.splitting))
        listers = [lister for lister in tail.listers.values() if not lister.only_settled]
        changing = tail.read(shown, watermark, final=final, listers=listers)
        pending.settle()
        rows = []
        for number, view in self.views.items():
            rows += self._changed_rows(
                tail.store, number, view, found.get(number, []), changing.get(number, []), shifts
            )
        return tail.store, rows

    # ---- records ----

    def _in_turn(self) -> Batch | None:
        """Return the records that arrived in order, by key."""
        arrived, self._arrived = self._arrived, []
        if not arrived:
            return None
        (stretch,) = arrived  # a call absorbs records once
        if stretch.keys == 1:
            return self._as_batch(stretch.times, None, stretch)
        order = np.empty(len(stretch), np.int64)
        loops.run("group", stretch.codes, np.bincount(stretch.codes, minlength=1), order)
        return self._as_batch(stretch.times[order], stretch.codes[order], stretch, order)

    def _as_batch(
        self, times: Places, codes: Places | None, stretch: Stretch, order: Places | None = None
    ) -> Batch:
        values = stretch.values
        wanted = self.pending.fields
        some = {n: values[n] if order is None else values[n].take(order) for n in wanted}
        return self._runs(times, codes, some)

    def _runs(self, times: Places, codes: Places | None, values: Mapping[int, Values]) -> Batch:
        if codes is None:
            codes, bounds = np.zeros(1, np.int64), np.array([0, len(times)])
        else:
            codes, bounds = runs(codes)
        base = self.settled.seen[codes] - bounds[:-1]
        return Batch(frozen(times), codes, bounds, base, values)

    def _batch(self, at: Places) -> Batch | None:
        """Return some of the records that are kept."""
        if not len(at):
            return None
        values = {number: values.take(at) for number, values in self.pending.values.items()}
        return self._runs(self.pending.times[at], self.pending.codes[at], values)

    def _take(self, final: NDArray[np.bool_]) -> Batch | None:
        """Return records to be settled; they are no longer kept."""
        batch = self._batch(np.flatnonzero(final))
        self.pending.keep(~final)
        return batch

    # ---- rows ----

    @staticmethod
    def _placed(store: AggregateStore, windows: Found, fresh: Fresh | None) -> tuple[Viewed, Places, Places]:
        """Return windows with their bounds, and the slices that they are made of."""
        ordered = store.ordered()
        if fresh is not None:  # windows end among the records read last, or just past them
            low, within = fresh.place(ordered, windows.code, windows.begin)
            high, _ = fresh.place(ordered, windows.code, windows.end)
            older = np.flatnonzero(~within)
            low[older] = _located(ordered, windows.code[older], windows.begin[older])
        else:
            low = _located(ordered, windows.code, windows.begin)
            high = _located(ordered, windows.code, windows.end)
        start = ordered.first[low] if windows.start is None else windows.start
        stop = ordered.last[high - 1] if windows.stop is None else windows.stop
        number = no_numbers(len(windows)) if windows.id is None else windows.id
        viewed = Viewed(windows.code, windows.begin, windows.end, number, start, stop, windows.measure)
        return viewed, low, high

    def _new_rows(self, store: AggregateStore, found: Windows) -> list[Rows]:
        rows = []
        for number, windows in found.items():
            viewed, low, high = self._placed(store, together(windows), self.settled.fresh)
            rows.append(viewed_rows(number, viewed, low, high, None))
        return rows

    def _changed_rows(
        self,
        store: AggregateStore,
        number: int,
        view: View,
        found: list[Found],
        changing: list[Found],
        shifts: Shifts,
    ) -> list[Rows]:
        """Return the rows that lead from the view of a query before this call to that after it."""
        rows: list[Rows] = []
        settled = sum(map(len, found))
        windows = together([*found, *changing]) if found or changing else _nothing(view)
        viewed, low, high = self._placed(store, windows, None)
        emitted, change, was, gone = view.difference(viewed, settled, shifts)
        final = viewed.take(np.arange(settled))
        if emitted.any():
            viewed, change = viewed.take(emitted), change[emitted]
            some = viewed_rows(number, viewed, low[emitted], high[emitted], change)
            some.revision = view.number(viewed, change)
            some.was = None if was is None else (was[0][emitted], was[1][emitted])
            rows.append(some)
        if gone is not None:
            some = gone_rows(number, gone)
            some.revision = view.number(gone, np.full(len(gone), RETRACT, np.int8))
            rows.append(some)
        view.forget(final)
        return rows

    # ---- letting go ----

    def live(self, reach: float) -> NDArray[np.bool_]:
        """Return which slices a window to come can hold."""
        settled = self.settled
        ordered, live = settled.store.ordered(), np.zeros(settled.store.count, bool)
        if len(ordered):
            stop = np.append(ordered.start[1:], 0)
            last = np.append(ordered.code[1:] != ordered.code[:-1], True)
            stop[last] = settled.seen[ordered.code[last]]
            places = np.arange(len(live)) if ordered.places is None else ordered.places
            live[places] = stop > settled.needed(reach)[ordered.code]
        return live

    @property
    def records(self) -> int:
        """The number of records kept."""
        return len(self.pending) + len(self.settled.kept)

    def let_go(self, reach: float) -> None:
        """Forget records of slices that are gone, and revisions that are out of reach."""
        store, oldest = self.settled.store, np.full(len(self.settled.seen), FAR)
        np.minimum.at(oldest, store.column("code"), store.column("start"))
        self.settled.kept.keep(oldest)
        for view in self.views.values():
            view.let_go(reach)

        for lister in self.settled.listers.values():
            waiting = self.pending.values.get(lister.signal)
            self.pending.replace(lister.signal, lister.let_go(waiting))

    def remembered(self, reach: float) -> Places:
        """Return the keys that something must be remembered of beside their slices."""
        self.settled.reserve(len(self.settled.seen))
        remembered = np.zeros(len(self.settled.seen), bool)
        for lister in self.settled.listers.values():
            remembered |= lister.remembers(self.settled.seen, reach)
        remembered[self.pending.codes] = True
        for view in self.views.values():
            remembered[view.codes()] = True
        return np.flatnonzero(remembered)

    def keep_keys(self, codes: Places) -> None:
        """Give keys other numbers: codes[old] is the new one, below 0 for those that are forgotten."""
        settled, live = self.settled, np.flatnonzero(codes >= 0)
        settled.reserve(len(codes) + 1)
        places = np.append(live, len(codes))  # so that there is room for one more
        settled.seen, settled.cut, settled.edge = (
            held[places] for held in (settled.seen, settled.cut, settled.edge)
        )
        for lister in settled.listers.values():
            lister.keep_keys(places)
        settled.store.renumber(codes)
        settled.kept.renumber(codes)
        self.pending.renumber(codes)
        for view in self.views.values():
            view.renumber(codes)

    def parts(self) -> Iterable[Transactional]:
        """Return what is settled, records that wait, and views."""
        return self.settled, self.pending, *self.views.values()

    @property
    def nbytes(self) -> int:
        """The bytes of kept records, and of what listers hold."""
        kept = self.pending.nbytes + self.settled.kept.nbytes
        return kept + sum(lister.nbytes for lister in self.settled.listers.values())


def _located(ordered: Ordered, code: Places, position: Places) -> Places:
    """Return the slices that begin at positions."""
    out = np.empty(len(code), np.int64)
    machines.run("locate", frozen(ordered.code), frozen(ordered.start), code, position, out)
    return out


def _nothing(view: View) -> Found:
    none = np.empty(0, np.int64)
    return Found(none, none, none, None, none, none, (none, none) if "measure_start" in view.names else None)
