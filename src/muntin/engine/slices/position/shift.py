"""Slices of count windows in view, as records out of order push others to the next slices.

A record that comes late takes a position, and the last record of each later slice moves on to the next one.
Counts and sums of integers subtract it; what selects is computed anew only if it was the one selected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices, Times
from muntin.engine.ingest.batch import Values
from muntin.engine.partials.base import FieldPartials, States
from muntin.engine.plan.decisions import Removal
from muntin.engine.rows import NEVER
from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.panes import Panes

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Moves:
    """Records in view that may still move, by key and position, with the start of their slice."""

    codes: Codes
    times: Times
    values: Mapping[int, Values]
    before: Indices  # NEVER: in none
    now: Indices

    def groups(self, which: Flags, slices: Indices) -> tuple[Indices, Indices]:
        """Return the places of some records, and bounds between those of different slices."""
        at = which.nonzero()[0]
        code, start = self.codes[at], slices[at]
        new = (code[1:] != code[:-1]) | (start[1:] != start[:-1])
        return at, np.concatenate([[0], np.flatnonzero(new) + 1, [len(at)]])


class Shift:
    """The slices that records leave or enter, and what they hold afterwards."""

    def __init__(
        self, store: AggregateStore, settled: AggregateStore, moves: Moves, removal: Mapping[int, Removal]
    ) -> None:
        self._store, self._settled, self._moves, self._removal = store, settled, moves, removal
        self.removed: set[tuple[int, str]] = set()  # how records have left slices, by field
        entering = moves.before != moves.now
        self._entering = moves.groups(entering, moves.now)
        self._leaving = moves.groups(entering & (moves.before > NEVER), moves.before)
        first = self._entering[0][self._entering[1][:-1]]
        self._code, self._start = moves.codes[first], moves.now[first]
        self._at = store.find(self._code, self._start)  # -1: a new slice
        self._base = settled.find(self._code, self._start)  # -1: all its records may still move
        self._within = self._all_records()

    def _all_records(self) -> tuple[Indices, Indices]:
        """Return the records, of those that may move, in each slice that some enter, and their bounds."""
        moves = self._moves
        at, bounds = moves.groups(np.ones(len(moves.codes), bool), moves.now)
        changed = np.logical_or.reduceat(moves.before != moves.now, bounds[:-1])
        kept = np.repeat(changed, np.diff(bounds))
        return at[kept], np.append(0, np.cumsum(np.diff(bounds)[changed]))

    def run(self) -> None:
        """Bring the slices up to date."""
        states = {number: self._shifted(number, p) for number, p in self._store.fields.items()}
        at, bounds = self._within
        times, rows = self._moves.times[at], np.diff(bounds)
        first, last = times[bounds[:-1]], times[bounds[1:] - 1]
        settled = self._base >= 0
        first[settled] = self._settled.column("first")[self._base[settled]]
        rows[settled] += self._settled.column("rows")[self._base[settled]]
        old, new = (self._at >= 0).nonzero()[0], (self._at < 0).nonzero()[0]
        if len(old):
            self._store.bound(self._at[old], first[old], last[old], rows[old])
            for number, column in states.items():
                self._store.replace(number, self._at[old], column[old])
        if len(new):
            some = {number: column[new] for number, column in states.items()}
            where = (self._code[new], self._start[new])
            self._store.add(Panes(*where, first[new], last[new], rows[new], some))

    def _shifted(self, number: int, partials: FieldPartials) -> States:
        """Return the partials of the slices that records enter, as they are now."""
        anew = self._at < 0
        values, removal = self._moves.values[number], self._removal[number]
        at, bounds = self._leaving
        if len(at):
            self.removed.add((number, removal))
        if removal == "recompute" or anew.all():
            return self._computed(number, partials, np.ones(len(anew), bool))
        states = self._store.states(number)[self._at]  # those of new slices are not looked at
        if len(at):
            left, gone = self._left_from(), partials.of_segments(values.take(at), bounds)
            if removal == "invert":
                anew[left] |= np.diff(bounds) == self._store.column("rows")[self._at[left]]  # nothing stays
                stays = ~anew[left]
                states[left[stays]] = partials.without(states[left[stays]], gone[stays])
            else:
                anew[left[partials.selected(states[left], gone)]] = True
        at, bounds = self._entering
        come, kept = partials.of_segments(values.take(at), bounds), np.flatnonzero(~anew)
        partials.merge(states, kept, np.zeros(len(kept), bool), come[kept])
        if anew.any():
            states[anew] = self._computed(number, partials, anew)
        return states

    def _left_from(self) -> Indices:
        """Return which of the slices records leave."""
        at, bounds = self._leaving
        first = at[bounds[:-1]]
        index = {key: i for i, key in enumerate(zip(self._code.tolist(), self._start.tolist(), strict=True))}
        codes, starts = self._moves.codes[first].tolist(), self._moves.before[first].tolist()
        return np.array([index[key] for key in zip(codes, starts, strict=True)], np.int64)

    def _computed(self, number: int, partials: FieldPartials, which: Flags) -> States:
        """Return the partials of some slices, computed from what is settled and the records."""
        at, bounds = self._within
        sizes = np.diff(bounds)
        records = self._moves.values[number].take(at[np.repeat(which, sizes)])
        states = partials.of_segments(records, np.append(0, np.cumsum(sizes[which])))
        base = self._base[which]
        settled = (base >= 0).nonzero()[0]
        if len(settled):
            whole = self._settled.states(number)[base[settled]]
            partials.merge(whole, np.arange(len(whole)), np.zeros(len(whole), bool), states[settled])
            states[settled] = whole
        return states
