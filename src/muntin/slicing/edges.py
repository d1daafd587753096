"""The merged edges of all windows on a grid: where slices begin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Progression = tuple[int, int]  # period and phase: edges at phase + k * period


class EdgeGrid:
    """Edges of several arithmetic progressions, merged.

    >>> grid = EdgeGrid([(10, 0), (4, 1)])
    >>> grid.floor(12), grid.next(12)
    (10, 13)
    >>> grid.starts(np.array([3, 11]), 3, 11).tolist()
    [1, 5, 9, 10]
    """

    def __init__(self, progressions: Iterable[Progression]) -> None:
        self.progressions = _least(progressions)
        self._periods = np.array([period for period, _ in self.progressions], np.int64)
        self._phases = np.array([phase for _, phase in self.progressions], np.int64)
        self._current = (0, 0)  # the slice found last: the next record is most often in it

    def floor(self, t: int) -> int:
        """Return the last edge at or before t."""
        begin, end = self._current
        if not begin <= t < end:
            floors = (t - self._phases) // self._periods * self._periods + self._phases
            begin, end = int(floors.max()), int((floors + self._periods).min())
            self._current = begin, end
        return begin

    def next(self, t: int) -> int:
        """Return the first edge after t."""
        self.floor(t)
        return self._current[1]

    def floors(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the last edge at or before each time."""
        out: Any = None
        for period, phase in self.progressions:
            floors = (times - phase) // period * period + phase
            out = floors if out is None else np.maximum(out, floors, out=out)
        result: NDArray[np.int64] = out
        return result

    def starts(self, times: NDArray[np.int64], low: int, high: int) -> NDArray[np.int64]:
        """Return edges, ascending, among which is the last one at or before each of the times.

        All edges from low to high, if they are not many more than there are times; else only those.
        """
        first = self.floor(low)
        if self._current[1] > high:
            return np.array([first])
        k = (low - self._phases) // self._periods + 1
        counts = (high - self._phases) // self._periods + 1 - k
        if float(counts.sum(dtype=float)) > 2 * len(times) + 1024:
            return np.unique(self.floors(times))
        offsets = np.cumsum(counts) - counts
        k = np.repeat(k - offsets, counts) + np.arange(int(counts.sum()))
        edges = k * np.repeat(self._periods, counts) + np.repeat(self._phases, counts)
        return np.concatenate([[first], np.unique(edges)])

    def count_between(self, low: int, high: int) -> float:
        """Return how many edges there are from low to high, those of several progressions counted apart."""
        return float(((high - low) / self._periods).sum())


def _least(progressions: Iterable[Progression]) -> list[Progression]:
    """Leave out progressions whose edges all lie on another one."""
    kept: list[Progression] = []
    for period, phase in sorted(set(progressions)):
        if not any(period % p == 0 and phase % p == f for p, f in kept):
            kept.append((period, phase))
    return kept
