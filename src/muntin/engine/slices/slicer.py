"""The stream slicer: cuts a batch once, at the edges of all windows, into panes that all queries share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from muntin.columnar import Indices, Times
from muntin.engine import tuning
from muntin.engine.ingest.batch import Stretch
from muntin.engine.partials.base import FieldPartials
from muntin.engine.rows import NEVER
from muntin.engine.slices import cut_loops
from muntin.engine.slices.edges import EdgeGrid, LookUp, Progression
from muntin.engine.store.panes import Panes
from muntin.windows.durations import LIMIT


class StreamSlicer:
    """Knows the edges; gives panes."""

    def __init__(
        self, progressions: list[Progression], gap: int | None, irregular: Sequence[tuple[Any, int]] = ()
    ) -> None:
        self.gap = gap
        self.grid = EdgeGrid(progressions, irregular) if progressions or irregular else None
        # With sessions, slices are at most a gap long: no two records of a pane are then further apart,
        # so that a pane lies in one session whatever the order of its records.
        pitched = [*progressions, (gap, 0, NEVER)] if gap is not None else progressions
        self._edges = EdgeGrid(pitched, irregular)

    def forget(self) -> None:
        """Ask grids again: a call was broken off, and they are as if it had not asked them."""
        for edges in (self.grid, self._edges):
            if edges is not None:
                edges.forget()

    def cut(self, stretch: Stretch, fields: Mapping[int, FieldPartials]) -> Panes:
        """Return the panes of a stretch of records; their starts are edges of windows on grids."""
        edges = self._edges.starts(stretch.times, stretch.low, stretch.high)
        if stretch.keys == 1 and not stretch.disordered:
            return self._cut_sorted(stretch, edges, fields)
        if stretch.keys > tuning.SORTED_KEYS * len(stretch):  # no room for all keys, to cut a few records
            return self._cut_by_time(stretch, edges, fields)
        look_up = LookUp(edges, stretch.high)
        if not look_up.even:  # silent spells between crowded edges: by time, they are no trouble
            return self._cut_by_time(stretch, edges, fields)
        if len(edges) * stretch.keys <= max(4 * len(stretch), 65536):
            panes = self._cut_dense(stretch, look_up, fields)
        else:
            panes = self._cut_sparse(stretch, look_up, fields)
        return replace(panes, start=self._grid_starts(edges)[panes.start])

    def _cut_dense(self, stretch: Stretch, look_up: LookUp, fields: Mapping[int, FieldPartials]) -> Panes:
        """Return the panes of all slices and keys with records, slice by slice; starts are their numbers.

        Goes block by block: which panes the records of a block are in is still at hand when the fields
        are folded.
        """
        keys, count = stretch.keys, len(look_up.edges) * stretch.keys
        pane, rows = np.empty(min(len(stretch), tuning.BLOCK), np.int64), np.zeros(count, np.int64)
        first, last = np.full(count, LIMIT), np.full(count, -LIMIT)
        folded = {n: partials for n, partials in fields.items() if not partials.counts_records}
        states = {n: partials.allocate(count) for n, partials in folded.items()}
        blank = {n: np.ones(count, bool) for n in folded}
        edges = np.append(look_up.edges, 2 * LIMIT - 1)
        for begin in range(0, len(stretch), tuning.BLOCK):
            block = slice(begin, begin + tuning.BLOCK)
            times, mine = stretch.times[block], pane[: len(stretch) - begin]
            told = (edges, look_up.shift, look_up.table, mine, first, last, rows)
            if keys == 1:
                cut_loops.run("cut_alone", times, *told)
            else:
                how = "cut_dense" if stretch.disordered else "cut_in_turn"
                cut_loops.run(how, times, stretch.codes[block], keys, *told)
            for n, partials in folded.items():
                some = stretch.values[n].part(block)
                partials.scatter(some, mine, blank[n], states[n], apart=keys > tuning.SCATTERED_KEYS)
        at = rows.nonzero()[0]
        slices, codes = (at, np.zeros(len(at), np.int64)) if keys == 1 else np.divmod(at, keys)
        if len(at) < count:
            first, last, rows = first[at], last[at], rows[at]
            states = {n: some[at] for n, some in states.items()}
        return Panes(codes, slices, first, last, rows, {n: states.get(n, rows) for n in fields})

    def _cut_sparse(self, stretch: Stretch, look_up: LookUp, fields: Mapping[int, FieldPartials]) -> Panes:
        """Return panes in the order they came; starts are numbers of slices."""
        pane, code, at, first, last, rows = np.empty((6, len(stretch)), np.int64)
        count = cut_loops.run(
            "cut_sparse",
            *(stretch.times, stretch.codes, np.append(look_up.edges, 2 * LIMIT - 1), look_up.shift),
            *(look_up.table, np.full(stretch.keys, -1), pane, code, at, first, last, rows),
        )
        panes = Panes(code[:count], at[:count], first[:count], last[:count], rows[:count])
        for number, partials in fields.items():
            if partials.counts_records:
                panes.states[number] = panes.rows
            else:
                states, blank = partials.allocate(count), np.ones(count, bool)
                partials.scatter(stretch.values[number], pane, blank, states, apart=True)
                panes.states[number] = states
        return panes

    def _cut_by_time(self, stretch: Stretch, edges: Times, fields: Mapping[int, FieldPartials]) -> Panes:
        """Cut after sorting by key and time."""
        codes = stretch.codes if stretch.keys > 1 else np.zeros(len(stretch), np.int64)
        order = np.lexsort((stretch.times, codes))
        times, codes = stretch.times[order], codes[order]
        at = np.searchsorted(edges, times, side="right") - 1
        begins = np.flatnonzero(np.append(True, (at[1:] != at[:-1]) | (codes[1:] != codes[:-1])))
        bounds = np.append(begins, len(times))
        states = {n: p.of_segments(stretch.values[n].take(order), bounds) for n, p in fields.items()}
        starts = self._grid_starts(edges)[at[begins]]
        return Panes(codes[begins], starts, times[begins], times[bounds[1:] - 1], np.diff(bounds), states)

    def _cut_sorted(self, stretch: Stretch, edges: Times, fields: Mapping[int, FieldPartials]) -> Panes:
        times = stretch.times
        if len(edges) == 1:
            return self._whole(stretch, edges, fields)
        if len(edges) * 256 < len(times):
            begins = np.searchsorted(times, edges[1:])
        else:
            begins = np.empty(len(edges) - 1, np.int64)
            cut_loops.run("bounds", times, edges, begins)
        bounds = np.concatenate([[0], begins, [len(times)]])
        starts, filled = self._grid_starts(edges), bounds[1:] > bounds[:-1]
        if not filled.all():
            starts, bounds = starts[filled], np.append(bounds[:-1][filled], len(times))
        states = {
            number: partials.of_segments(stretch.values[number], bounds)
            for number, partials in fields.items()
        }
        return Panes(
            np.zeros(len(bounds) - 1, np.int64),
            starts,
            times[bounds[:-1]],
            times[bounds[1:] - 1],
            np.diff(bounds),
            states,
        )

    def _whole(self, stretch: Stretch, edges: Times, fields: Mapping[int, FieldPartials]) -> Panes:
        """Return the single pane of records that all lie in one slice."""
        bounds = np.array([0, len(stretch)])
        states = {n: p.of_segments(stretch.values[n], bounds) for n, p in fields.items()}
        code, first, last, rows = np.array([[0], [stretch.low], [stretch.high], [len(stretch)]])
        return Panes(code, self._grid_starts(edges), first, last, rows, states)

    def _grid_starts(self, edges: Times) -> Indices:
        """Return for each slice the last edge of a grid at or before its start."""
        if self.grid is None or self.gap is None:
            return edges
        marks = self.grid.starts(edges, int(edges[0]), int(edges[-1]))
        return marks[np.searchsorted(marks, edges, side="right") - 1]
