"""For emit_empty: which windows without records lie between two records of their key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muntin.slicing.rows import Rows
from muntin.slicing.transaction import Transactional
from muntin.windows.grid import Grid, end, last_ended

Places = NDArray[np.int64]


class Spans(Transactional):
    """For emit_empty: the first and the last record of each key, and windows with records beyond them."""

    def __init__(self) -> None:
        self.first: Places = np.full(1, 2**62)
        self.last: Places = np.full(1, -(2**62))
        self.old_first, self.old_last = self.first.copy(), self.last.copy()
        # Windows, by key and end, that were emitted with records, and did not lie between two of their key.
        self.filled: set[tuple[int, int]] = set()

    def see(self, codes: Places, times: Places) -> None:
        """Take in records."""
        need = int(codes.max()) + 1
        if need > len(self.first):
            self.first = np.append(self.first, np.full(need - len(self.first), 2**62))
            self.last = np.append(self.last, np.full(need - len(self.last), -(2**62)))
        self.overwrite(self.first, codes)
        self.overwrite(self.last, codes)
        np.minimum.at(self.first, codes, times)
        np.maximum.at(self.last, codes, times)

    def fill(self, rows: Rows, number: int) -> None:
        """Take in windows with records that are emitted."""
        at = np.flatnonzero((rows.query == number) & (rows.high > rows.low))
        if len(at):
            self.filled = self.filled.union(zip(rows.code[at].tolist(), rows.end[at].tolist(), strict=True))

    def settle(self) -> None:
        """Remember how it is, as the state before the next call."""
        self.old_first, self.old_last = self.first.copy(), self.last.copy()

    def newly_held(self, grid: Grid, before: int, after: int) -> tuple[Places, Places]:
        """Return the empty windows, by key and number, that lie between records now and did not before."""
        code = np.flatnonzero(self.last > -(2**62))
        begin, stop = self._held_range(grid, self.first[code], self.last[code], after)
        known = code < len(self.old_last)
        known[known] = self.old_last[code[known]] > -(2**62)
        old = code[known]
        old_begin, old_stop = self._held_range(grid, self.old_first[old], self.old_last[old], before)
        none = old_stop < old_begin
        old_begin, old_stop = (
            np.where(none, stop[known] + 1, old_begin),
            np.where(none, stop[known], old_stop),
        )
        codes = np.concatenate([code[~known], old, old])
        first = np.concatenate([begin[~known], begin[known], np.maximum(old_stop + 1, begin[known])])
        last = np.concatenate([stop[~known], np.minimum(old_begin - 1, stop[known]), stop[known]])
        counts = np.maximum(last - first + 1, 0)
        held = np.repeat(codes, counts)
        k = np.arange(len(held)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
        pairs = zip(held.tolist(), end(grid, k).tolist(), strict=True)
        empty = np.array([pair not in self.filled for pair in pairs], bool)
        self._prune(grid, code, begin, stop)
        return held[empty], k[empty]

    @staticmethod
    def _held_range(grid: Grid, first: Places, last: Places, watermark: int) -> tuple[Places, Places]:
        """Return the first and last window in view that lie between two records."""
        return grid.high(first) + 1, last_ended(grid, np.minimum(last, watermark))

    def _prune(self, grid: Grid, code: Places, begin: Places, stop: Places) -> None:
        """Forget windows that will not be asked for again: they lie between two records by now."""
        low = dict(zip(code.tolist(), end(grid, begin).tolist(), strict=True))
        high = dict(zip(code.tolist(), end(grid, stop).tolist(), strict=True))
        self.filled = {(key, ends) for key, ends in self.filled if not low[key] <= ends <= high[key]}

    def held(self, code: Places, start: Places, end_: Places) -> NDArray[np.bool_]:
        """Tell which windows lay between records of their key before this call."""
        known = code < len(self.old_first)
        code = np.where(known, code, 0)
        held: NDArray[np.bool_] = known & (self.old_first[code] < start) & (self.old_last[code] >= end_)
        return held
