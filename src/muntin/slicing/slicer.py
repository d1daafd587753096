"""The stream slicer: cuts a batch once, at the edges of all windows, into panes that all queries share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muntin.slicing import loops
from muntin.slicing.edges import EdgeGrid, Progression
from muntin.slicing.fields import FieldPartials, Values
from muntin.slicing.store import Panes

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Stretch:
    """Records of a batch that are handled together: times, keys, and the values that each field reads."""

    times: Places
    codes: Places
    keys: int  # codes are below this
    values: Mapping[int, Values]
    falls: int  # how often a time is less than one before it
    low: int
    high: int

    def __len__(self) -> int:
        return len(self.times)

    def take(self, at: Places) -> Stretch:
        """Return some of the records, in this order."""
        times = self.times[at]
        running = np.maximum.accumulate(times)
        return Stretch(
            times,
            self.codes[at] if self.keys > 1 else self.codes,
            self.keys,
            {number: values.take(at) for number, values in self.values.items()},
            int(np.count_nonzero(times < running)),
            int(times.min()),
            int(times.max()),
        )


class StreamSlicer:
    """Knows the edges; gives panes."""

    def __init__(self, progressions: list[Progression], gap: int | None) -> None:
        self.gap = gap
        self.grid = EdgeGrid(progressions) if progressions else None
        # With sessions, slices are at most a gap long: no two records of a pane are then further apart,
        # so that a pane lies in one session whatever the order of its records.
        pitched = [*progressions, (gap, 0)] if gap is not None else progressions
        self._edges = EdgeGrid(pitched)

    def cut(self, stretch: Stretch, fields: Mapping[int, FieldPartials]) -> Panes:
        """Return the panes of a stretch of records; their starts are edges of windows on grids."""
        edges = self._edges.starts(stretch.times, stretch.low, stretch.high)
        if stretch.keys == 1 and not stretch.falls:
            return self._cut_sorted(stretch, edges, fields)
        slices, keys = len(edges), stretch.keys
        dense = slices * keys <= max(4 * len(stretch), 65536)
        table = np.full(slices * keys if dense else keys, -1, np.int64)
        room = min(len(stretch), slices * keys) if dense else len(stretch)
        pane = np.empty(len(stretch), np.int64)
        code, at, first, last, rows = np.empty((5, room), np.int64)
        count = loops.run(
            "cut", stretch.times, stretch.codes, keys, edges, table, pane, code, at, first, last, rows
        )
        states = {
            number: partials.of_panes(stretch.values[number], pane, count)
            for number, partials in fields.items()
        }
        starts = self._grid_starts(edges)[at[:count]]
        return Panes(code[:count], starts, first[:count], last[:count], rows[:count], states)

    def _cut_sorted(self, stretch: Stretch, edges: Places, fields: Mapping[int, FieldPartials]) -> Panes:
        times = stretch.times
        begins = np.searchsorted(times, edges[1:]) if len(edges) > 1 else edges[:0]
        bounds = np.concatenate([[0], begins, [len(times)]])
        filled = bounds[1:] > bounds[:-1]
        bounds = np.append(bounds[:-1][filled], len(times))
        states = {
            number: partials.of_segments(stretch.values[number], bounds)
            for number, partials in fields.items()
        }
        return Panes(
            np.zeros(len(bounds) - 1, np.int64),
            self._grid_starts(edges)[filled],
            times[bounds[:-1]],
            times[bounds[1:] - 1],
            np.diff(bounds),
            states,
        )

    def _grid_starts(self, edges: Places) -> Places:
        """Return for each slice the last edge of a grid at or before its start."""
        if self.grid is None or self.gap is None:
            return edges
        marks = self.grid.starts(edges, int(edges[0]), int(edges[-1]))
        return marks[np.searchsorted(marks, edges, side="right") - 1]
