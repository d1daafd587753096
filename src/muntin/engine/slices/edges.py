"""The merged edges of all windows on a grid: where slices begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import distinct
from muntin.engine import tuning
from muntin.engine.rows import NEVER
from muntin.engine.slices import cut_loops

_NONE = -(2**63)  # no edge
Progression = tuple[
    int, int, int
]  # period, phase, origin: edges at phase + k * period that lie after the origin


class EdgeGrid:
    """Edges of several arithmetic progressions, merged.

    Queries that came later have an origin: they add no edge to what was cut before they came. `irregular`
    are grids that say themselves where their edges are, with their origins.

    >>> grid = EdgeGrid([(10, 0, NEVER), (4, 1, 6)])
    >>> grid.floor(6), grid.floor(12), grid.next(12)
    (0, 10, 13)
    >>> grid.starts(np.array([3, 11]), 3, 11).tolist()
    [0, 9, 10]
    """

    def __init__(
        self, progressions: Iterable[Progression], irregular: Sequence[tuple[Any, int]] = ()
    ) -> None:
        # What is taken off a time is not above 0, and less than a period: 64 bits hold the difference.
        self.progressions = [(period, -(-phase % period), o) for period, phase, o in _least(progressions)]
        self.irregular = irregular
        periods = np.array(self.progressions, np.int64).reshape(-1, 3)
        self._periods, self._phases, self._origins = periods.T
        self.everywhere = (1, 0, NEVER) in self.progressions  # one of them has all ticks as edges
        self.forget()

    def forget(self) -> None:
        """Ask grids again: a call was broken off, and they are as if it had not asked them."""
        self._current = (0, 0)  # the slice found last: the next record is most often in it

    def floor(self, t: int) -> int:
        """Return the last edge at or before t."""
        begin, end = self._current
        if not begin <= t < end:
            few = len(self.progressions) <= tuning.FEW_GRIDS
            begin, end = self._around_few(t) if few else self._around(t)
            for grid, origin in self.irregular:
                start, stop = grid.around(t)
                begin = max(begin, start) if start > origin else begin
                end = min(end, stop if stop > origin else grid.around(origin)[1])
            self._current = (begin, end)
        return begin

    def _around(self, t: int) -> tuple[int, int]:
        """Return the last edge at or before t, and the first after it."""
        floors = (t - self._phases) // self._periods * self._periods + self._phases
        after = np.maximum(t, self._origins)
        ends = (after - self._phases) // self._periods * self._periods + self._phases + self._periods
        floors[(floors <= self._origins) & (self._origins > NEVER)] = _NONE
        begin = int(floors.max())
        return NEVER if begin == _NONE else begin, int(ends.min())

    def _around_few(self, t: int) -> tuple[int, int]:
        """Return the same by plain integers, which are faster than arrays for a few progressions."""
        begin, end = _NONE, 2**63
        for period, phase, origin in self.progressions:
            into = (t - phase) % period
            if t - into > begin and (t - into > origin or origin == NEVER):
                begin = t - into
            after = max(t, origin)
            end = min(end, after - (after - phase) % period + period)
        return NEVER if begin == _NONE else begin, end

    def next(self, t: int) -> int:
        """Return the first edge after t."""
        self.floor(t)
        return self._current[1]

    def floors(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the last edge at or before each time."""
        if self.everywhere:
            return times
        out = np.full(len(times), _NONE)
        for period, phase, origin in self.progressions:
            floors = (times - phase) // period * period + phase
            if origin > NEVER:
                floors[floors <= origin] = _NONE
            np.maximum(out, floors, out=out)
        for grid, origin in self.irregular:
            after = times > origin  # of what lies before, the grid is not asked: NEVER is no time
            floors = np.full(len(times), _NONE)
            floors[after] = grid.floors(times[after])
            np.maximum(out, np.where(floors > origin, floors, _NONE), out=out)
        out[out == _NONE] = NEVER
        return out

    def starts(self, times: NDArray[np.int64], low: int, high: int) -> NDArray[np.int64]:
        """Return edges, ascending, among which is the last one at or before each of the times.

        All edges from low to high, if they are not many more than there are times; else only those.
        """
        first = self.floor(low)
        if self._current[1] > high:
            return np.array([first])
        k = (np.maximum(low, self._origins) - self._phases) // self._periods + 1
        counts = np.maximum((high - self._phases) // self._periods + 1 - k, 0)
        most = 2 * len(times) + 1024
        others = [grid.between(max(low, origin), high, most) for grid, origin in self.irregular]
        if float(counts.sum(dtype=float)) > most or any(some is None for some in others):
            return distinct(np.sort(self.floors(times)))
        edges = np.empty(int(counts.sum()) + 1, np.int64)
        edges[0] = first
        cut_loops.run("list_edges", k, counts, self._periods, self._phases, edges)
        edges = np.concatenate([edges, *others]) if others else edges
        edges.sort()
        return distinct(edges)

    def count_between(self, low: int, high: int) -> float:
        """Return how many edges there are from low to high, those of several progressions counted apart."""
        irregular = sum((high - low) / grid.length for grid, _ in self.irregular)
        return float(((high - low) / self._periods).sum() + irregular)


class LookUp:
    """Finds places among ascending edges through a table of short stretches, in a step or two.

    Only where edges lie evenly enough: `even` says whether no stretch has many, and 64 bits hold how far
    times lie apart.
    """

    def __init__(self, edges: NDArray[np.int64], high: int) -> None:
        self.edges = edges
        spread = max(high, int(edges[-1])) - int(edges[0]) + 1
        self.even = spread < 2**63
        if not self.even:
            return
        self.shift = max(0, spread.bit_length() - len(edges).bit_length())
        self.table = np.empty((spread >> self.shift) + 2, np.int32)
        most = cut_loops.run("look_up", edges, self.shift, self.table)
        self.even = most <= tuning.EVEN


def _least(progressions: Iterable[Progression]) -> list[Progression]:
    """Leave out progressions whose edges all lie on another one."""
    listed = sorted(set(progressions))
    if len(listed) > 64:  # looking for them would take longer than they do
        return listed
    kept: list[Progression] = []
    for period, phase, origin in listed:
        if not any(period % p == 0 and phase % p == f and o <= origin for p, f, o in kept):
            kept.append((period, phase, origin))
    return kept
