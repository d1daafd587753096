"""Slices of bounded size, and the records in them, so that windows can begin and end within one.

Where windows begin in hindsight, slices that are already there are split: their partials are computed anew
from the records. A split costs as many records as the slice holds, a window as many partials as it has
slices; the size follows what both have cost (Section 6.3.3 of general stream slicing).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from muntin.columnar import Codes, Indices, Times, frozen
from muntin.engine import tuning
from muntin.engine.ingest.batch import Values
from muntin.engine.listers import lister_loops
from muntin.engine.listers.base import Batch, runs
from muntin.engine.slices.record_log import joined
from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.ordered import Ordered
from muntin.engine.store.panes import Panes
from muntin.engine.transaction import Transactional


class Size(Transactional):
    """How many records a slice may hold, by what splits and windows have cost."""

    def __init__(self) -> None:
        self.most = tuning.FIRST_SIZE

    def weigh(self, split: int, merged: int) -> None:
        """Follow the cost of windows: records folded anew to split slices, and slices merged."""
        if split > 2 * merged:
            self.most = max(1, self.most // 2)
        elif merged > 2 * split:
            self.most = min(tuning.LARGEST_SIZE, 2 * self.most)


class KeptRecords(Transactional):
    """The records of slices that may be split, as they were read."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    def copy(self) -> KeptRecords:
        """Return records to be added to by themselves."""
        twin = KeptRecords()
        twin.batches = self.batches
        return twin

    def add(self, batch: Batch) -> None:
        """Keep records; batches are put together so that there are few of them."""
        batches = [*self.batches, batch]
        while len(batches) > 1 and len(batches[-2]) <= 2 * len(batches[-1]):
            newer, older = batches.pop(), batches.pop()
            batches.append(_together(older, newer))
        self.batches = batches

    def set_fields(self, fields: Iterable[int]) -> None:
        """Keep the values of these fields only."""
        self.batches = [replace(b, values={n: b.values[n] for n in fields}) for b in self.batches]

    def take(self, code: Codes, position: Indices) -> tuple[Indices, dict[int, Values]]:
        """Return the times and values of records, in this order."""
        where, times, values = [], [], []
        for part in self.batches:
            place = part.places(code, position)
            at = np.flatnonzero(place >= 0)
            if len(at):
                where.append(at)
                times.append(part.times[place[at]])
                values.append({number: some.take(place[at]) for number, some in part.values.items()})
        back = np.argsort(np.concatenate(where))
        found = {n: joined([some[n] for some in values]).take(back) for n in values[0]}
        return np.concatenate(times)[back], found

    def keep(self, needed: Indices) -> None:
        """Let go of the records of each key before a position."""
        kept = []
        for part in self.batches:
            wanted = part.positions() >= np.repeat(needed[part.codes], np.diff(part.bounds))
            if wanted.all():
                kept.append(part)
            elif wanted.any():
                kept.append(_some(part, np.flatnonzero(wanted)))
        self.batches = kept

    def renumber(self, codes: Codes) -> None:
        """Give keys other numbers: codes[old] is the new one."""
        self.batches = [replace(batch, codes=codes[batch.codes]) for batch in self.batches]

    def whole(self) -> Batch | None:
        """Return all records by key and position."""
        if len(self.batches) > 1:
            self.batches = [functools.reduce(_together, self.batches)]
        return self.batches[0] if self.batches else None

    @property
    def nbytes(self) -> int:
        """The bytes of all columns."""
        columns = [c for b in self.batches for v in b.values.values() for c in (*v.columns, v.valid)]
        return sum(c.nbytes for c in (*columns, *(b.times for b in self.batches)) if c is not None)


def split(store: AggregateStore, kept: KeptRecords, code: Codes, position: Indices, seen: Indices) -> int:
    """Cut slices of keys at positions within them; return the number of records that were folded anew."""
    ordered = store.ordered()
    at = cell_at(ordered, code, position)
    within = np.flatnonzero((ordered.start[at] < position) & (position < seen[code]))
    if not len(within):
        return 0
    at, cuts = at[within], position[within]
    cells = np.unique(at)
    code, start, rows = ordered.code[cells], ordered.start[cells], ordered.rows[cells]
    begins = np.cumsum(rows) - rows
    which = np.repeat(np.arange(len(cells)), rows)
    position = np.arange(len(which)) - begins[which] + start[which]
    times, values = kept.take(code[which], position)
    number = np.searchsorted(cells, at)
    cut = np.unique(np.append(begins, begins[number] + cuts - start[number]))
    bounds = np.append(cut, len(position))
    states = {n: partials.of_segments(values[n], bounds) for n, partials in store.fields.items()}
    spans = (times[cut], times[bounds[1:] - 1], np.diff(bounds))
    panes = Panes(code[which[cut]], position[cut], *spans, states)
    store.replace_cells(cells if ordered.places is None else ordered.places[cells], panes)
    return len(position)


def cell_at(ordered: Ordered, code: Codes, position: Indices) -> Indices:
    """Return the slice of its key that each position lies in, or is just past."""
    at = np.empty(len(code), np.int64)
    lister_loops.run("locate", frozen(ordered.code), frozen(ordered.start), code, position + 1, at)
    return at - 1


def _some(batch: Batch, at: Indices) -> Batch:
    """Return some of the records of a batch, the last ones of each of its keys."""
    values = {number: some.take(at) for number, some in batch.values.items()}
    return _by_key(batch.times[at], batch.each_code()[at], batch.positions()[at], values)


def _together(older: Batch, newer: Batch) -> Batch:
    """Return the records of two batches, those of a key in the order of their positions."""
    code = np.concatenate([older.each_code(), newer.each_code()])
    order = np.argsort(code, kind="stable")
    code, position = code[order], np.concatenate([older.positions(), newer.positions()])[order]
    values = {n: joined([older.values[n], some]).take(order) for n, some in newer.values.items()}
    return _by_key(np.concatenate([older.times, newer.times])[order], code, position, values)


def _by_key(times: Times, code: Codes, position: Indices, values: Mapping[int, Values]) -> Batch:
    codes, bounds = runs(code)
    return Batch(frozen(times), codes, bounds, position[bounds[:-1]] - bounds[:-1], values)
