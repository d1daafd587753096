"""Settled records: listers and slices of windows that records mark off, as far as records have been read."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Flags, Indices, Times
from muntin.engine.listers import lister_loops
from muntin.engine.listers.base import Batch, Found, Lister
from muntin.engine.slices.position.splitting import KeptRecords, Size, cell_at, split
from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.ordered import Ordered
from muntin.engine.store.panes import Panes
from muntin.engine.transaction import Transactional

Windows = dict[int, list[Found]]  # by query


class Fresh:
    """Where the slices of the records that were read last lie in their store."""

    def __init__(self, batch: Batch, begins: Flags) -> None:
        self._batch = batch
        self._number = np.cumsum(begins, dtype=np.int32)  # of each record's slice

    def place(self, ordered: Ordered, code: Codes, position: Indices) -> tuple[Indices, NDArray[np.bool_]]:
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
        lister_loops.run("place", run, stop, position, *told)
        return out, within


class Settled(Transactional):
    """Listers and slices as far as records have been read."""

    def __init__(self, store: AggregateStore) -> None:
        self.store = store
        self.listers: dict[int, Lister] = {}  # by query
        self.seen: Indices = np.zeros(1, np.int64)  # records of each key
        self.cut: Indices = np.zeros(1, np.int64)  # where the last slice of each key begins
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
        twin.leave_transaction()
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

    def _split(self, code: Codes, begin: Indices, end: Times) -> None:
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

    def needed(self, reach: float) -> Indices:
        """Return for each key the least position that a window to come may hold."""
        ordered = self.store.ordered()
        least = np.full(len(self.seen), 2**62)
        for lister in self.listers.values():
            needed = lister.needed(self.seen, reach, ordered)
            if needed is None:
                return np.zeros(len(self.seen), np.int64)
            np.minimum(least, needed, out=least)
        return least
