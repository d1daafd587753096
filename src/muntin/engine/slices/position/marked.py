"""Slices of windows that are stretches of a key's records, found by looking at them.

Records that nothing can come before any more are settled: listers read them once, in canonical order, and
they are folded into slices that begin where a window of any query begins or ends. The others are kept as
records; listers that go on from where the settled ones are read them anew when something has changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices, Times, frozen
from muntin.engine import loops
from muntin.engine.ingest.batch import Stretch, Values
from muntin.engine.ingest.columns import Columns
from muntin.engine.listers import lister_loops
from muntin.engine.listers.base import FAR, Batch, Found, Lister, runs, together
from muntin.engine.partials.base import FieldPartials
from muntin.engine.rows import NEVER, RETRACT, Rows
from muntin.engine.slices.family import Adapted, Arrival, Moment, Origin, Retype, Setting, SliceFamily
from muntin.engine.slices.position.settled import Fresh, Settled, Windows
from muntin.engine.slices.position.splitting import KeptRecords
from muntin.engine.slices.record_log import Chunk, RecordLog, WaitingRecords
from muntin.engine.slices.revisions import Shifts, View, Viewed, gone_rows, no_numbers, viewed_rows
from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.ordered import Ordered
from muntin.engine.transaction import Transactional

_WHERE = "where their windows begin and end"


class MarkedSlices(SliceFamily):
    """The slices of all such windows over one stream; those of settled records are in `store`."""

    kind = "position"
    by_position = True

    def __init__(self, setting: Setting, origin: Origin, fields: Mapping[int, FieldPartials]) -> None:
        super().__init__(setting, origin, fields)
        self.settled = Settled(self.store)
        self.pending = WaitingRecords(fields)
        self.views: dict[int, View] = {}  # by query
        self._arrived: list[Stretch] = []  # in order, since the last call

    def adapt(self, adapted: Adapted) -> None:
        """Follow a change of the queries; listers and views that are there already stay."""
        self.queries, fields, decisions = adapted.queries, adapted.fields, adapted.decisions
        known = self.settled.listers
        listers = {p.number: known.get(p.number) or self.setting.make_lister(p) for p in self.queries}
        splitting = {p.number for p in self.queries if decisions[p.number].splits == "by recomputing"}
        each_record = any(decisions[p.number].cut_at == "each record" for p in self.queries)
        views = {p.number: View(p.query.window.identity()) for p in self.queries}
        self.store.set_fields(fields)
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

    def retype(self, listers: Mapping[int, Lister], read: Retype) -> None:
        """Go on with other listers, by query, and hold kept records in the form that `read` gives."""
        settled = self.settled
        settled.kept.batches = [replace(b, values=read(b.values, len(b))) for b in settled.kept.batches]
        new = {number: lister for number, lister in listers.items() if number in settled.listers}
        settled.listers = {**settled.listers, **new}

    def signals(self, columns: Columns, count: int) -> dict[int, Values]:
        """Return what listers read of a batch."""
        return {lister.signal: lister.read(columns, count) for lister in self.settled.listers.values()}

    def add(self, arrival: Arrival) -> None:
        """Take in records that count."""
        stretch, tie = arrival.after(self.origin)
        if not len(stretch):
            return
        self.settled.reserve(stretch.keys)
        if self.setting.in_order:
            self._arrived = [*self._arrived, stretch]
        else:
            self.pending.add(stretch, tie)

    def wants(self, times: Times, frozen: Times, overdue: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which late records are within the lateness."""
        del frozen
        return ~overdue & (times > (NEVER if self.origin is None else self.origin))

    def advance(self, moment: Moment) -> list[tuple[AggregateStore, Rows]]:
        """Read what can be read; return windows that came into view, changed or went."""
        if moment.before == moment.view and not self._arrived and not self.pending.any_fresh(moment.view):
            self.pending.settle()  # no time has passed, and all new records are above the watermark
            return []
        store, found = self._advance(moment.view, self.setting.lateness, final=moment.final)
        return [(store, rows) for rows in found]

    def only(self, numbers: Collection[int]) -> None:
        """Serve no queries but these, for a trial that is undone."""
        super().only(numbers)
        settled = self.settled
        settled.save()
        settled.listers = {n: lister for n, lister in settled.listers.items() if n in numbers}
        settled.splitting = settled.splitting & set(numbers)
        self.views = {n: view for n, view in self.views.items() if n in numbers}

    def record_counts(self, codes: Codes) -> Indices:
        """Return how many records keys have had: settled ones, and those that wait."""
        seen = self.settled.seen
        total: Indices = seen + np.bincount(self.pending.codes(), minlength=len(seen))
        return total[codes]

    def shifts(self) -> Shifts | None:
        """Return where fresh records lie among those that wait."""
        if not self.pending.any_fresh(math.inf):
            return None
        waiting = self.pending.whole()
        return Shifts(waiting.codes, waiting.is_fresh(), self.settled.seen)

    def still_shown(
        self, number: int, windows: Mapping[tuple[int, ...], bool], reach: int
    ) -> set[tuple[int, ...]]:
        """Return windows that are in view and may change, and numbers that later ones may have again."""
        view = self.views[number]
        if view.names[0] == "window_end":
            return {who for who in windows if who[1] >= reach}
        held = view.held_windows()
        return {who for who, gone in windows.items() if gone or who in held}

    def may_change(self, identity: tuple[int, ...], reach: int) -> bool:
        """Return False: views number the revisions of these windows."""
        del identity, reach
        return False

    def has_revisions(self, identity: tuple[int, ...]) -> bool:
        """Tell whether the view of its query has numbered revisions of a window."""
        number, *who = identity
        return number in self.views and tuple(who) in self.views[number].revisions

    def _advance(self, watermark: float, lateness: int, *, final: bool) -> tuple[AggregateStore, list[Rows]]:
        settled = self.settled
        if not (lateness or self.setting.tied):
            in_order = self.setting.in_order
            batch = self._in_turn() if in_order else self._batch(self.pending.until(watermark))
            self.pending.drop(watermark, equal=True)
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
        shown = pending.until(watermark)
        shifts = Shifts(shown.codes, shown.is_fresh(), settled.seen.copy())
        reach = watermark - lateness
        done = shown.times < reach if self.setting.tied else shown.times <= reach
        pending.drop(reach, equal=not self.setting.tied)
        batch = self._batch(shown.take(done))
        found = settled.read(batch, reach, final=final, listers=settled.listers.values())
        changing = self._batch(shown.take(~done))
        tail = settled.copy(store=changing is not None or bool(settled.splitting))
        listers = [lister for lister in tail.listers.values() if not lister.only_settled]
        shown_windows = tail.read(changing, watermark, final=final, listers=listers)
        pending.settle()
        rows = []
        for number, view in self.views.items():
            rows += self._changed_rows(
                tail.store, number, view, found.get(number, []), shown_windows.get(number, []), shifts
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
        self, times: Times, codes: Codes | None, stretch: Stretch, order: Indices | None = None
    ) -> Batch:
        values = stretch.values
        wanted = self.pending.fields
        some = {n: values[n] if order is None else values[n].take(order) for n in wanted}
        return self._runs(times, codes, some)

    def _runs(self, times: Times, codes: Codes | None, values: Mapping[int, Values]) -> Batch:
        if codes is None:
            codes, bounds = np.zeros(1, np.int64), np.array([0, len(times)])
        else:
            codes, bounds = runs(codes)
        base = self.settled.seen[codes] - bounds[:-1]
        return Batch(frozen(times), codes, bounds, base, values)

    def _batch(self, records: Chunk) -> Batch | None:
        """Return records that were kept; None if there are none."""
        return self._runs(records.times, records.codes, records.values) if len(records) else None

    # ---- rows ----

    @staticmethod
    def _placed(
        store: AggregateStore, windows: Found, fresh: Fresh | None
    ) -> tuple[Viewed, Indices, Indices]:
        """Return windows with their bounds, and the slices that they are made of."""
        ordered = store.ordered()
        if fresh is not None:  # windows end among the records read last as a rule, or just past them
            low, within = fresh.place(ordered, windows.code, windows.begin)
            high, ended = fresh.place(ordered, windows.code, windows.end)
            for place, found, edge in ((low, within, windows.begin), (high, ended, windows.end)):
                older = np.flatnonzero(~found)  # ends too, where windows lie wholly before their record
                place[older] = _located(ordered, windows.code[older], edge[older])
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

    @property
    def splittable(self) -> int:
        """The number of records that are kept to split slices."""
        return len(self.settled.kept)

    def evict(self, reach: float) -> None:
        """Evict slices, records of slices that are gone, and revisions that are out of reach."""
        super().evict(reach)
        store, oldest = self.settled.store, np.full(len(self.settled.seen), FAR)
        np.minimum.at(oldest, store.column("code"), store.column("start"))
        self.settled.kept.keep(oldest)
        for view in self.views.values():
            view.let_go(reach)

        for lister in self.settled.listers.values():
            waiting = self.pending.values_of(lister.signal)
            values = lister.let_go(waiting)
            if values is not None and values is not waiting:
                self.pending.replace(lister.signal, values)

    def remembered(self, reach: float) -> Iterable[Codes]:
        """Return the keys that something must be remembered of beside their slices."""
        self.settled.reserve(len(self.settled.seen))
        remembered = np.zeros(len(self.settled.seen), bool)
        for lister in self.settled.listers.values():
            remembered |= lister.remembers(self.settled.seen, reach)
        remembered[self.pending.codes()] = True
        for view in self.views.values():
            remembered[view.codes()] = True
        return (np.flatnonzero(remembered),)

    def keep_keys(self, codes: Codes) -> None:
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

    def logs(self) -> Iterable[RecordLog]:
        """Return the records that wait."""
        return (self.pending,)

    @property
    def nbytes(self) -> int:
        """The bytes of kept records, and of what listers hold."""
        kept = self.pending.nbytes + self.settled.kept.nbytes
        return kept + sum(lister.nbytes for lister in self.settled.listers.values())

    def kept_values(self) -> Iterable[Mapping[int, Values]]:
        """Return the values of records that wait, and of those in slices that may be split."""
        waiting = [chunk.values for chunk in self.pending.chunks]
        return [*waiting, *(batch.values for batch in self.settled.kept.batches)]

    def describe(self, words: Callable[[int], str]) -> dict[str, str]:
        """Return where slices are cut."""
        del words
        how = "each by itself: windows look back from each" if self.settled.each_record else _WHERE
        if self.settled.splitting:
            how += f", at most {self.settled.size.most} at a time: windows begin in hindsight, and split them"
        return {"records": f"by position of a key's records, {how}"}

    def describe_memory(self, words: Callable[[int], str], late: str) -> dict[str, str]:
        """Return which slices and records are held."""
        del words
        facts = {"windows that records mark off": "slices of open windows and of what windows look back to"}
        if self.settled.splitting:
            facts["records that windows may begin at"] = "those of slices that may be split"
        if not self.setting.in_order:
            facts["records in doubt"] = f"those above the watermark{late}: others may come before them"
        return facts


def _located(ordered: Ordered, code: Codes, position: Indices) -> Indices:
    """Return the slices that begin at positions."""
    out = np.empty(len(code), np.int64)
    lister_loops.run("locate", frozen(ordered.code), frozen(ordered.start), code, position, out)
    return out


def _nothing(view: View) -> Found:
    none = np.empty(0, np.int64)
    return Found(none, none, none, None, none, none, (none, none) if "measure_start" in view.names else None)
