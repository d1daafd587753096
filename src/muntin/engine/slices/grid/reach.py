"""How far the records of each key reach, and which windows without records lie between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices, Times
from muntin.engine.rows import FOREVER, NEVER
from muntin.engine.transaction import Transactional
from muntin.windows.grid import end, last_ended

_FAR = -NEVER  # past all times
_FILLS = {"first": _FAR, "last": NEVER, "old_first": _FAR, "upto": NEVER}  # of a key without records


class Reach(NamedTuple):
    """Keys, ascending, with the times of their first and their last record."""

    code: Codes
    first: Times
    last: Times

    def keys(self) -> int:
        """Return a number that all keys are below."""
        return int(self.code[-1]) + 1 if len(self.code) else 0


NOWHERE = Reach(*(np.empty(0, np.int64) for _ in range(3)))


class Stretches(NamedTuple):
    """Windows from one number to another, by key."""

    code: Codes
    begin: Indices
    stop: Times

    def take(self, at: Indices | NDArray[np.bool_]) -> Stretches:
        """Return some of the stretches."""
        return Stretches(self.code[at], self.begin[at], self.stop[at])

    def counts(self) -> Indices:
        """Return how many windows there are in each."""
        counts: Indices = np.maximum(self.stop - self.begin + 1, 0)
        return counts

    def windows(self) -> tuple[Indices, Indices]:
        """Return key and number of each window."""
        counts = self.counts()
        begins = np.repeat(self.begin - np.cumsum(counts) + counts, counts)
        return np.repeat(self.code, counts), np.arange(len(begins)) + begins


def without(stretches: Stretches, holes: Sequence[Stretches]) -> Stretches:
    """Return what is left of stretches, one for each key, without some windows of theirs."""
    every = [hole.take(np.isin(hole.code, stretches.code)) for hole in holes]
    # A hole just before each stretch and one just past it: what is left lies between two neighbours.
    every += [Stretches(stretches.code, at, at) for at in (stretches.begin - 1, stretches.stop + 1)]
    code, begin, stop = (np.concatenate(columns) for columns in zip(*every, strict=True))
    at = np.searchsorted(stretches.code, code)
    begin, stop = np.maximum(begin, stretches.begin[at] - 1), np.minimum(stop, stretches.stop[at] + 1)
    order = np.lexsort((begin, code))
    order = order[begin[order] <= stop[order]]
    code, begin, stop = code[order], begin[order], stop[order]
    ranked, rank = np.unique(stop, return_inverse=True)
    key = np.cumsum(np.append(0, code[1:] != code[:-1])) * len(ranked)
    highest = ranked[np.maximum.accumulate(key + rank) - key]  # the last window in a hole so far, of its key
    left = Stretches(code[1:], highest[:-1] + 1, begin[1:] - 1)
    return left.take((code[1:] == code[:-1]) & (left.stop >= left.begin))


class Spans(Transactional):
    """For a query with emit_empty: how far each key reaches, and what of it is in view already."""

    def __init__(self, grid: Any) -> None:
        self.grid = grid
        self.first: Times = np.full(1, _FAR)
        self.last: Times = np.full(1, NEVER)
        # As they were when windows between records last came out; up to the watermark of that time.
        self.old_first: Indices = np.full(1, _FAR)
        self.upto: Indices = np.full(1, NEVER)
        # Windows with records, by key and end, that came out and do not lie between two records of their key.
        self.filled: tuple[Indices, Indices] = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._fresh = NOWHERE  # keys that records came for in this call
        self._due = NEVER  # before this, no window comes into view between records that were there

    # ---- records ----

    def reach(self, codes: Codes, times: Times) -> Reach:
        """Return how far keys will reach with these records."""
        if 8 * len(codes) < len(self.first):
            distinct, codes = np.unique(codes, return_inverse=True)
        else:
            distinct = np.arange(int(codes.max()) + 1)
        first, last = np.full(len(distinct), _FAR), np.full(len(distinct), NEVER)
        np.minimum.at(first, codes, times)
        np.maximum.at(last, codes, times)
        came = last > NEVER
        code, first, last = distinct[came], first[came], last[came]
        known = code < len(self.first)
        first[known] = np.minimum(first[known], self.first[code[known]])
        last[known] = np.maximum(last[known], self.last[code[known]])
        return Reach(code, first, last)

    def see(self, reach: Reach) -> None:
        """Take in how far keys reach."""
        self._reserve(reach.keys())
        for held in (self.first, self.last):
            self.overwrite(held, reach.code)
        self.first[reach.code], self.last[reach.code] = reach.first, reach.last
        self._fresh = reach

    def _reserve(self, keys: int) -> None:
        """Make room for so many keys."""
        had = len(self.first)
        if keys > had:
            for name, fill in _FILLS.items():
                grown = np.full(max(keys, 2 * had), fill)
                grown[:had] = getattr(self, name)
                setattr(self, name, grown)

    def fill(self, code: Codes, ends: Times) -> None:
        """Take in windows with records that come out."""
        self.filled = (np.append(self.filled[0], code), np.append(self.filled[1], ends))

    # ---- windows ----

    def held(self, code: Codes, start: Times, ends: Times) -> NDArray[np.bool_]:
        """Tell which windows lay between records of their key before this call."""
        known = code < len(self.first)
        code = np.where(known, code, 0)
        held: NDArray[np.bool_] = known & (self.old_first[code] < start) & (self.upto[code] >= ends)
        return held

    def between(self, reach: Reach, watermark: int) -> tuple[Stretches, Stretches]:
        """Return the windows between records in view, where keys reach so far, and those of them that were.

        Only of keys that get more of them.
        """
        now = self._windows(reach.code, reach.first, np.minimum(reach.last, watermark))
        first, upto = np.full(len(reach.code), _FAR), np.full(len(reach.code), NEVER)
        known = reach.code < len(self.first)
        first[known], upto[known] = self.old_first[reach.code[known]], self.upto[reach.code[known]]
        old = self._windows(reach.code, first, upto)
        more = now.counts() > old.counts()
        return now.take(more), old.take(more)

    def due_keys(self, reach: Reach, watermark: int) -> Reach:
        """Return the keys that may get more windows: those that records came for, or all."""
        if watermark < self._due:
            return reach
        size = max(len(self.first), reach.keys())
        first, last = np.full(size, _FAR), np.full(size, NEVER)
        first[: len(self.first)], last[: len(self.last)] = self.first, self.last
        first[reach.code], last[reach.code] = reach.first, reach.last
        code = np.flatnonzero(last > NEVER)
        return Reach(code, first[code], last[code])

    def _windows(self, code: Codes, first: Times, upto: Indices) -> Stretches:
        """Return the windows that start after a time, and end at another or before."""
        none = first > upto
        first, upto = np.where(none, 0, first), np.where(none, 0, upto)
        return Stretches(code, self.grid.high(first) + 1, last_ended(self.grid, upto))

    def numbers(self, ends: Times) -> Indices:
        """Return the windows with these ends."""
        grid = self.grid
        found: Indices = grid.high(ends - 1) if grid.irregular else last_ended(grid, ends - grid.pitch) + 1
        return found

    def filled_windows(self) -> Stretches:
        """Return the windows with records that came out and do not lie between two of their key."""
        code, ends = self.filled
        windows = self.numbers(ends)
        return Stretches(code, windows, windows)

    def come_out(self, watermark: int) -> tuple[Indices, Indices]:
        """Return the empty windows, by key and number, that come into view with this call."""
        reach = self.due_keys(self._fresh, watermark)
        now, old = self.between(reach, watermark)
        left = without(now, [old, self.filled_windows()]) if len(now.code) else now
        for held in (self.old_first, self.upto):
            self.overwrite(held, reach.code)
        self.old_first[reach.code] = reach.first
        self.upto[reach.code] = np.minimum(reach.last, watermark)
        self._fresh = NOWHERE
        self._look_out(reach, watermark)
        code, ends = self.filled
        if len(now.code):  # they will not be asked for again
            beyond = (ends > self.upto[code]) | (self.numbers(ends) <= self.grid.high(self.old_first[code]))
            self.filled = (code[beyond], ends[beyond])
        return left.windows()

    def _look_out(self, reach: Reach, watermark: int) -> None:
        """Note when the next window comes into view between records that are there."""
        if watermark >= self._due:
            self._due = FOREVER
        waiting = reach.last > watermark
        if waiting.any():
            least = int(np.maximum(reach.first[waiting], watermark).min())
            self._due = min(self._due, int(end(self.grid, last_ended(self.grid, least) + 1)))

    # ---- keys ----

    def remembered(self) -> Indices:
        """Return the keys that had records."""
        return np.flatnonzero(self.last > NEVER)

    def keep_keys(self, codes: Codes) -> None:
        """Give keys other numbers: codes[old] is the new one, below 0 for those that are forgotten."""
        self._reserve(len(codes) + 1)
        places = np.append(np.flatnonzero(codes >= 0), len(codes))  # so that there is room for one more
        for name in _FILLS:
            setattr(self, name, getattr(self, name)[places])
        self.filled = (codes[self.filled[0]], self.filled[1])

    # ---- snapshots ----

    def dump(self) -> list[Any]:
        """Return it as JSON can hold it."""
        used = int(np.count_nonzero(np.maximum.accumulate((self.last > NEVER)[::-1])))
        filled = sorted(zip(*(column.tolist() for column in self.filled), strict=True))
        return [self.first[:used].tolist(), self.last[:used].tolist(), filled]

    def load(self, first: list[int], last: list[int], filled: list[tuple[int, int]], watermark: int) -> None:
        """Be as when it was dumped."""
        code = np.arange(len(first))
        self.see(Reach(code, np.array(first, np.int64), np.array(last, np.int64)))
        keys, ends = np.array(filled, np.int64).reshape(-1, 2).T.copy()
        self.filled = (keys, ends)
        self.old_first, self.upto = self.first.copy(), np.minimum(self.last, watermark)
        self._fresh = NOWHERE
