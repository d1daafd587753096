"""Slices of count windows: by position of a key's records in canonical order.

Records whose position is final are settled: folded into slices of positions, as if the stream were in
order. The rest is kept as records. Where windows are in view that may still change, there are slices of
all records in view beside the settled ones, from which a late record pushes others on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices, Times
from muntin.engine import tuning
from muntin.engine.ingest.batch import Stretch, Values
from muntin.engine.partials.base import FieldPartials
from muntin.engine.plan.decisions import Removal
from muntin.engine.rows import NEVER, Rows
from muntin.engine.slices.edges import EdgeGrid
from muntin.engine.slices.family import Adapted, Arrival, Moment, Origin, Setting, SliceFamily
from muntin.engine.slices.position import count_windows
from muntin.engine.slices.position.shift import Moves, Shift
from muntin.engine.slices.record_log import Chunk, RecordLog, WaitingRecords, canonical
from muntin.engine.slices.revisions import Shifts
from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.panes import Panes
from muntin.engine.transaction import Transactional
from muntin.windows.grid import end


class CountSlices(SliceFamily):
    """The slices of all count windows over one stream."""

    kind = "count"
    by_position = True

    def __init__(self, setting: Setting, origin: Origin, fields: Mapping[int, FieldPartials]) -> None:
        super().__init__(setting, origin, fields)
        self.pending = WaitingRecords(fields)
        self.grid: EdgeGrid | None = None
        self.longest = 0
        self.seen: Indices = np.zeros(1, np.int64)  # settled records of each key
        self.viewed: Indices = np.zeros(1, np.int64)  # records of each key whose windows are in view
        self.changed: Indices = np.zeros(1, np.int64)  # the least position that is new, if one in view is
        self.removal: Mapping[int, Removal] = {}  # how a record leaves a slice, by field
        self.removed: frozenset[tuple[int, str]] = frozenset()  # what was done of that, for whoever asks
        self._in_order: bool | None = None  # whether positions are final at once, as was decided
        self._shown: AggregateStore | None = None  # slices of all records in view, if not only settled ones
        self.upto: float = -math.inf  # the records up to this time are in view

    def adapt(self, adapted: Adapted) -> None:
        """Follow a change of the queries: cut at the positions of their windows from now on."""
        self.queries = adapted.queries
        if self._in_order is None:
            self._in_order = not any(adapted.decisions[p.number].keep_records for p in self.queries)
        self.store.set_fields(adapted.fields)
        self.pending.set_fields(adapted.fields)
        self.removal = adapted.removals
        self.grid = EdgeGrid([(*p, NEVER) for planned in self.queries for p in planned.window.progressions()])
        self.longest = max(planned.window.length for planned in self.queries)
        self.forget_shown()
        if self.store.count:
            self.store.recut(self.grid.floors(self.store.column("start")))

    def set_removals(self, removals: Mapping[int, Removal]) -> None:
        """Follow a change of how records leave slices, by field."""
        self.removal = removals

    @property
    def records(self) -> int:
        """The number of records kept."""
        return len(self.pending)

    def add(self, arrival: Arrival) -> None:
        """Take in records that count."""
        stretch, tie = arrival.after(self.origin)
        if not len(stretch):
            return
        self.reserve(stretch.keys)
        if self._in_order:
            if stretch.keys > 1:
                stretch = stretch.take(canonical(stretch, None))
            elif self._passes_through(stretch):
                self._append(stretch)
                return
            self._settle(self.store, stretch)
        else:
            self.pending.add(stretch, tie)

    def _passes_through(self, stretch: Stretch) -> bool:
        """Tell whether each record has a slice of its own, and there are no more older ones that stay."""
        store = self.store
        if self.grid is None or not self.grid.everywhere or not store.by_time():
            return False
        base = store.ordered().base if store.count else self.seen[0]
        each = base is not None and base + store.count == self.seen[0]
        return each and len(stretch) >= min(store.count, self.longest)

    def _append(self, stretch: Stretch) -> None:
        """Add records of the only key, and let go of what no window to come can hold."""
        kept = min(self.store.count, self.longest - 1)
        self.store.append_records(int(self.seen[0]), stretch.times, stretch.values, kept)
        self.seen = self.seen + np.bincount([0], [len(stretch)], len(self.seen)).astype(np.int64)

    def part_size(self, keys: int, *, alone: bool) -> int | None:
        """Return a size that pays where each record of the only key has a cell of its own."""
        if not alone or keys > 1 or not self.setting.in_order:
            return None
        return max(tuning.SMALL_PART, self.longest)

    def wants(self, times: Times, frozen: Times, overdue: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which late records are within the lateness."""
        del frozen
        return ~overdue & (times > (NEVER if self.origin is None else self.origin))

    def advance(self, moment: Moment) -> list[tuple[AggregateStore, Rows]]:
        """Return windows that came into view or changed; at the end of the stream partial ones, if wanted."""
        if not (self._in_order or moment.final) and self.pending.low > moment.view:
            self.pending.settle()  # all records that wait are above the watermark
            self.upto = moment.view
            return []
        viewed = self.viewed.copy()
        held = {
            p.number: count_windows.changing_windows(p, self)
            for p in self.queries
            if p.query.having is not None
        }
        store = self._advance(moment.view, self.setting.lateness)
        ordered = store.ordered()
        if not len(ordered):
            return []
        before = np.zeros(len(self.viewed), np.int64)
        before[: len(viewed)] = viewed
        found = []
        for planned in self.queries:
            partial = moment.final and planned.query.emit_partial
            rows = count_windows.new_windows(planned, ordered, before, self.viewed, self.changed, partial)
            if len(rows):
                rows.was = count_windows.bounds_in(held.get(planned.number), rows)
                found.append((store, rows))
        return found

    def may_change(self, identity: tuple[int, ...], reach: int) -> bool:
        """Tell whether a window has positions that are not settled."""
        del reach
        number, code, window = identity
        planned = next(p for p in self.queries if p.number == number)
        return bool(end(planned.window, window) > self.seen[code])

    def record_counts(self, codes: Codes) -> Indices:
        """Return how many records keys have had: settled ones, and those that wait."""
        seen = self.seen
        total: Indices = seen + np.bincount(self.pending.codes(), minlength=len(seen))
        return total[codes]

    def shifts(self) -> Shifts | None:
        """Return where fresh records lie among those that wait."""
        if not self.pending.any_fresh(math.inf):
            return None
        waiting = self.pending.whole()
        return Shifts(waiting.codes, waiting.is_fresh(), self.seen)

    def _advance(self, watermark: float, lateness: int) -> AggregateStore:
        """Settle what no record can come before any more; return a store with all that is in view."""
        self.changed = self.changes()
        if self._in_order:
            self.viewed = self.seen.copy()
            return self.store
        pending = self.pending
        self.viewed = self.seen.copy()
        if len(pending):
            shown, reach = pending.until(watermark), watermark - lateness
            if lateness or self.setting.tied:
                self._show(shown)
            final = shown.times < reach if self.setting.tied else shown.times <= reach
            self._settle(self.store, _stretch(shown.take(final)))
            pending.drop(reach, equal=not self.setting.tied)
        pending.settle()
        self.upto = watermark
        if not len(pending) or not (lateness or self.setting.tied):
            self.viewed = self.seen.copy()
            self.forget_shown()
        return self.store if self._shown is None else self._shown

    def forget_shown(self) -> None:
        """Make the slices of records in view anew when they are next asked for."""
        self._shown = None

    def _show(self, shown: Chunk) -> None:
        """Bring the slices of records in view up to date, with those that are in view now."""
        settled = self.seen.copy()
        if self._shown is None:
            self._shown = self.store.copy()
            self._settle(self._shown, _stretch(shown))
            self.viewed, self.seen = self.seen, settled
            return
        codes = shown.codes
        self.viewed = self.seen + np.bincount(codes, minlength=len(self.seen))
        was = ~shown.is_fresh() & (shown.times <= self.upto)
        if not was.all():
            before = np.full(len(codes), NEVER)
            before[was] = self._starts(self._positions(codes[was]))
            now = self._starts(self._positions(codes))
            moves = Moves(codes, shown.times, shown.values, before, now)
            shift = Shift(self._shown, self.store, moves, self.removal)
            shift.run()
            self.removed |= shift.removed
        live = self._shown.column("start") + self.longest > self.seen[self._shown.column("code")]
        if 2 * np.count_nonzero(live) < self._shown.count:
            self._shown.keep(live)

    def _starts(self, positions: Indices) -> Indices:
        """Return where the slices of positions start."""
        assert self.grid is not None
        return self.grid.floors(positions)

    def changes(self) -> Indices:
        """Return the least position of a fresh record of each key, if it is in view; else what is in view."""
        least = self.viewed.copy()
        if self.pending.any_fresh(self.upto):  # later ones come after all that is in view
            held = self.pending.until(self.upto)
            fresh = held.is_fresh()
            np.minimum.at(least, held.codes[fresh], self._positions(held.codes)[fresh])
        return least

    def before(self) -> AggregateStore:
        """Return slices of all records that were in view before this call; `advance` changes them."""
        if self._shown is None and (self.viewed > self.seen).any():
            self._shown, settled = self.store.copy(), self.seen.copy()
            held = self.pending.until(self.upto)
            self._settle(self._shown, _stretch(held.take(~held.is_fresh())))
            self.seen = settled
        return self.store if self._shown is None else self._shown

    def _positions(self, codes: Codes) -> Indices:
        """Return the position of records that lie by key."""
        begins = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        lengths = np.diff(np.append(begins, len(codes)))
        return np.arange(len(codes)) - np.repeat(begins, lengths) + self.seen[codes]

    def _settle(self, store: AggregateStore, stretch: Stretch) -> None:
        """Fold records, by key and in order, into slices of their positions."""
        if not len(stretch):
            return
        assert self.grid is not None
        if stretch.keys > 1:
            codes = stretch.codes
            positions = self._positions(codes)
        else:
            codes = np.zeros(len(stretch), np.int64)
            positions = np.arange(len(codes)) + self.seen[0]
        starts = self._starts(positions)
        if self.grid.everywhere:
            bounds, first = np.arange(len(codes) + 1), stretch.times.copy()
            last, rows = first.copy(), np.ones(len(codes), np.int64)
        else:
            new = (starts[1:] != starts[:-1]) | (codes[1:] != codes[:-1])
            bounds = np.concatenate([[0], np.flatnonzero(new) + 1, [len(codes)]])
            begins, rows = bounds[:-1], np.diff(bounds)
            first, last = stretch.times[begins], stretch.times[bounds[1:] - 1]
            codes, starts = codes[begins], starts[begins]
        states = {n: p.of_segments(stretch.values[n], bounds) for n, p in store.fields.items()}
        store.add(Panes(codes, starts, first, last, rows, states))
        self.seen = self.seen + np.bincount(codes, rows, minlength=len(self.seen)).astype(np.int64)

    def parts(self) -> Iterable[Transactional]:
        """Return slices, and records that wait."""
        return self.store, self.pending

    def rolled_back(self) -> None:
        """Drop the slices of records in view, which calls change in place."""
        self.forget_shown()

    def drop_derived(self) -> None:
        """Drop the slices of records in view."""
        self.forget_shown()

    def live(self, reach: float) -> NDArray[np.bool_]:
        """Return the slices of the last positions, which a window to come can hold."""
        del reach
        store = self.store
        base = store.ordered().base if store.by_time() else None
        if base is not None:
            live = np.zeros(store.count, bool)
            live[max(0, self.seen[0] - self.longest + 1 - base) :] = True
            return live
        live = store.column("start") + self.longest > self.seen[store.column("code")]
        return live

    def remembered(self, reach: float) -> Iterable[Codes]:
        """Return the keys whose positions are counted."""
        del reach
        return np.flatnonzero(self.seen), self.pending.codes()

    def keep_keys(self, codes: Codes) -> None:
        """Give keys other numbers: codes[old] is the new one, below 0 for those that are forgotten."""
        self.reserve(len(codes) + 1)
        places = np.append(np.flatnonzero(codes >= 0), len(codes))  # so that there is room for one more
        self.seen, self.viewed, self.changed = (
            held[places] for held in (self.seen, self.viewed, self.changed)
        )
        self.store.renumber(codes)
        self.pending.renumber(codes)
        self.forget_shown()

    def logs(self) -> Iterable[RecordLog]:
        """Return the records that wait."""
        return (self.pending,)

    @property
    def nbytes(self) -> int:
        """The bytes of kept records."""
        return self.pending.nbytes

    def kept_values(self) -> Iterable[Mapping[int, Values]]:
        """Return the values of records that wait."""
        return [chunk.values for chunk in self.pending.chunks]

    def describe(self, words: Callable[[int], str]) -> dict[str, str]:
        """Return where slices are cut."""
        del words
        return {"counts": "by position of a key's records"}

    def describe_memory(self, words: Callable[[int], str], late: str) -> dict[str, str]:
        """Return which slices and records are held."""
        del words
        facts = {
            "count windows": f"slices of the last {self.longest} records of each key, and how many it had"
        }
        if not self._in_order:
            facts["records that wait"] = f"those above the watermark{late}: their position may change"
        return facts

    def reserve(self, keys: int) -> None:
        """Make room for so many keys."""
        if keys > len(self.seen):
            room = max(keys, 2 * len(self.seen))
            for name in ("seen", "viewed", "changed"):
                grown = np.zeros(room, np.int64)
                grown[: len(getattr(self, name))] = getattr(self, name)
                setattr(self, name, grown)


def _stretch(records: Chunk) -> Stretch:
    """Return records that lie by key."""
    return Stretch(records.times, records.codes, 2, records.values, False, 0, 0)
