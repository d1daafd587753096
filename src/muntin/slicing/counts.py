"""Slices of count windows: by position of a key's records in canonical order.

Records whose position is final are settled: folded into slices of positions, as if the stream were in
order. The rest is kept as records. Where windows are in view that may still change, there are slices of
all records in view beside the settled ones, from which a late record pushes others on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from muntin.slicing.edges import NEVER, EdgeGrid, Progression
from muntin.slicing.fields import FieldPartials
from muntin.slicing.records import RecordLog, canonical
from muntin.slicing.shifts import Moves, Shift
from muntin.slicing.slicer import Stretch
from muntin.slicing.store import AggregateStore, Panes
from muntin.slicing.transaction import Transactional
from muntin.slicing.workload import Removal

Places = NDArray[np.int64]


class CountSlices(Transactional):
    """The slices of all count windows over one stream."""

    def __init__(self, fields: Mapping[int, FieldPartials], *, in_order: bool, tied: bool) -> None:
        self.store = AggregateStore(fields)
        self.pending = RecordLog(fields)
        self.grid: EdgeGrid | None = None
        self.longest = 0
        self.seen: Places = np.zeros(1, np.int64)  # settled records of each key
        self.viewed: Places = np.zeros(1, np.int64)  # records of each key whose windows are in view
        self.changed: Places = np.zeros(1, np.int64)  # the least position that is new, if one in view is
        self.removal: Mapping[int, Removal] = {}  # how a record leaves a slice, by field
        self.removed: frozenset[tuple[int, str]] = frozenset()  # what was done of that, for whoever asks
        self._in_order = in_order
        self._tied = tied
        self._shown: AggregateStore | None = None  # slices of all records in view, if not only settled ones
        self.upto: float = -math.inf  # the records up to this time are in view

    def cut_at(self, progressions: list[Progression], longest: int) -> None:
        """Cut at these positions from now on."""
        self.grid = EdgeGrid(progressions)
        self.longest = longest
        self.forget_shown()
        if self.store.count:
            self.store.recut(self.grid.floors(self.store.column("start")))

    @property
    def records(self) -> int:
        """The number of records kept."""
        return len(self.pending)

    def add(self, stretch: Stretch, tie: NDArray[np.generic] | None) -> None:
        """Take in records that count."""
        self._reserve(stretch.keys)
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

    def advance(self, watermark: float, lateness: int) -> AggregateStore:
        """Settle what no record can come before any more; return a store with all that is in view."""
        self.changed = self.changes()
        if self._in_order:
            self.viewed = self.seen.copy()
            return self.store
        pending = self.pending
        self.viewed = self.seen.copy()
        if len(pending):
            if lateness or self._tied:
                self._show(watermark)
            reach = watermark - lateness
            final = pending.times < reach if self._tied else pending.times <= reach
            self._settle(self.store, self._pending(final))
            pending.keep(~final)
        pending.settle()
        self.upto = watermark
        if not len(pending) or not (lateness or self._tied):
            self.viewed = self.seen.copy()
            self.forget_shown()
        return self.store if self._shown is None else self._shown

    def forget_shown(self) -> None:
        """Make the slices of records in view anew when they are next asked for."""
        self._shown = None

    def _show(self, watermark: float) -> None:
        """Bring the slices of records in view up to date, with those that are in view now."""
        pending = self.pending
        shown = pending.times <= watermark
        settled = self.seen.copy()
        if self._shown is None:
            self._shown = self.store.copy()
            self._settle(self._shown, self._pending(shown))
            self.viewed, self.seen = self.seen, settled
            return
        self.viewed = self.seen + np.bincount(pending.codes[shown], minlength=len(self.seen))
        old = ~pending.fresh & (pending.times <= self.upto)
        if (shown & ~old).any():
            at = shown.nonzero()[0]
            codes, was = pending.codes[at], old[at]
            before = np.full(len(at), NEVER)
            before[was] = self._starts(self._positions(codes[was]))
            values = {number: values.take(at) for number, values in pending.values.items()}
            now = self._starts(self._positions(codes))
            moves = Moves(codes, pending.times[at], values, before, now)
            shift = Shift(self._shown, self.store, moves, self.removal)
            shift.run()
            self.removed |= shift.removed
        live = self._shown.column("start") + self.longest > self.seen[self._shown.column("code")]
        if 2 * np.count_nonzero(live) < self._shown.count:
            self._shown.keep(live)

    def _starts(self, positions: Places) -> Places:
        """Return where the slices of positions start."""
        assert self.grid is not None
        return self.grid.floors(positions)

    def changes(self) -> Places:
        """Return the least position of a fresh record of each key, if it is in view; else what is in view."""
        pending, least = self.pending, self.viewed.copy()
        if pending.fresh.any():
            positions = self._positions(pending.codes)
            np.minimum.at(least, pending.codes[pending.fresh], positions[pending.fresh])
        return least

    def before(self) -> AggregateStore:
        """Return slices of all records that were in view before this call; `advance` changes them."""
        if self._shown is None and (self.viewed > self.seen).any():
            self._shown, settled = self.store.copy(), self.seen.copy()
            self._settle(self._shown, self._pending(~self.pending.fresh & (self.pending.times <= self.upto)))
            self.seen = settled
        return self.store if self._shown is None else self._shown

    def _pending(self, which: NDArray[np.bool_]) -> Stretch:
        at = np.flatnonzero(which)
        times = self.pending.times[at]
        values = {number: values.take(at) for number, values in self.pending.values.items()}
        return Stretch(times, self.pending.codes[at], 2, values, False, 0, 0)

    def _positions(self, codes: Places) -> Places:
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

    def live(self) -> NDArray[np.bool_]:
        """Return which slices a window to come can hold."""
        store = self.store
        base = store.ordered().base if store.by_time() else None
        if base is not None:
            live = np.zeros(store.count, bool)
            live[max(0, self.seen[0] - self.longest + 1 - base) :] = True
            return live
        live = store.column("start") + self.longest > self.seen[store.column("code")]
        return live

    def remembered(self) -> Places:
        """Return the keys whose positions are counted."""
        return np.append(np.flatnonzero(self.seen), self.pending.codes)

    def keep_keys(self, codes: Places) -> None:
        """Give keys other numbers: codes[old] is the new one, below 0 for those that are forgotten."""
        self._reserve(len(codes) + 1)
        places = np.append(np.flatnonzero(codes >= 0), len(codes))  # so that there is room for one more
        self.seen, self.viewed, self.changed = (
            held[places] for held in (self.seen, self.viewed, self.changed)
        )
        self.store.renumber(codes)
        self.pending.renumber(codes)
        self.forget_shown()

    @property
    def nbytes(self) -> int:
        """The bytes of kept records."""
        return self.pending.nbytes

    def _reserve(self, keys: int) -> None:
        if keys > len(self.seen):
            room = max(keys, 2 * len(self.seen))
            for name in ("seen", "viewed", "changed"):
                grown = np.zeros(room, np.int64)
                grown[: len(getattr(self, name))] = getattr(self, name)
                setattr(self, name, grown)
