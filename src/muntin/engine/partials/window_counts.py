"""What aggregates ask of the value counts of windows, found for many windows at once.

Windows are ranges of slices, none of which is merged: a wavelet matrix over the entries of all slices gives
order statistics, a sweep the numbers of distinct values, and counts that go along with windows the modes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Indices, Times
from muntin.engine.partials import value_count_loops
from muntin.engine.partials.base import States
from muntin.engine.partials.pool import Pool, PooledField, Ranged
from muntin.engine.rows import Answers
from muntin.kernels import ranks


@dataclass(frozen=True)
class Entries:
    """The entries of slices end to end, and the range of each window among them."""

    values: NDArray[Any]
    weights: Indices
    begin: Indices
    end: Times


@dataclass(frozen=True)
class Block:
    """Windows that lie close together, with the entries about them: numbered by value."""

    which: Indices
    distinct: NDArray[Any]  # values, ascending
    codes: NDArray[np.int32]
    weights: Indices
    begin: Indices
    end: Times


class WindowCounts:
    """The value counts of windows over runs of a pool: `muntin.algebra.holistic.ValueCounts`."""

    def __init__(self, field: PooledField, windows: Ranged) -> None:
        self._windows = windows
        self._pool, self._numbers = field.pool, field.numbers
        self._of_floats = field.kinds == ("f8",)

    def quantiles(self, q: float | tuple[float, ...]) -> Answers:
        """Return the values at a share of the records of each window, or lists of those at several."""
        windows, several = self._windows, isinstance(q, tuple)
        shares: Any = q if several else (q,)
        found = self._slid(windows, shares)
        missing = None
        if found is None:
            count = self._records(windows)
            missing = count == 0
            there = np.flatnonzero(~missing)
            found = np.full((len(shares), len(windows)), np.nan)
            found[:, there] = self._quantiles(windows[there], count[there], shares).T
        if several:
            rows = found.T.tolist()
            if missing is not None:
                rows = [None if gone else row for row, gone in zip(rows, missing.tolist(), strict=True)]
            return Answers(rows, None)
        return Answers(found[0], missing if missing is not None and missing.any() else None)

    def distinct(self) -> Answers:
        """Return the numbers of distinct values."""
        there, some = self._with_values()
        data = np.zeros(len(there), np.int64)
        data[there] = self._distinct(some)
        return Answers(data, None)

    def most_frequent(self) -> Answers:
        """Return the values that occur most often, the smallest of several."""
        there, some = self._with_values()
        modes = np.zeros(len(there), self._pool.values.dtype)
        modes[there] = self._modes(some)
        return Answers(self._numbers(modes), None if there.all() else ~there)

    def values(self) -> Answers:
        """Return lists of the distinct values, ascending."""
        there, some = self._with_values()
        lists = np.full(len(there), None, object)
        lists[there] = self._collected(some)
        return Answers(lists.tolist(), None)

    def _with_values(self) -> tuple[NDArray[np.bool_], Ranged]:
        """Return which windows have a value, and those."""
        there = self._records(self._windows) > 0
        return there, self._windows if there.all() else self._windows[there]

    def _records(self, windows: Ranged) -> Indices:
        """Return how many records windows have."""
        total, bounds = self._pool.total, _bounds(windows.states)
        if bounds is None:
            sizes = total[windows.states[:, 1]] - total[windows.states[:, 0]]
            before = np.append(0, np.cumsum(sizes))
        else:
            before = total[bounds]
        records: Indices = before[windows.high] - before[windows.low]
        return records

    def _quantiles(self, windows: Ranged, count: Indices, shares: tuple[float, ...]) -> NDArray[np.float64]:
        """Return the values at shares of all records, interpolated."""
        rank = (count[:, None] - 1) * np.array(shares)
        below = np.floor(rank).astype(np.int64)
        share = rank - below
        above = np.minimum(below + 1, count[:, None] - 1)
        low, high = self._ranked(windows, below, above, share > 0)
        between = (share > 0) & (low != high)
        if not between.any():
            return low
        found = np.clip(low * (1 - share) + high * share, low, high)
        return np.where(between, found, low)

    def _ranked(
        self, windows: Ranged, below: Indices, above: Indices, wanted: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the values of ranks within windows, and of the ranks above them where they are wanted."""
        which = np.repeat(np.arange(len(windows)), below.shape[1])
        at = np.flatnonzero(wanted)
        ranks = np.append(below.ravel(), above.ravel()[at])
        values = self._selected(windows, np.append(which, which[at]), ranks)
        low = values[: len(which)]
        high = low.copy()
        high[at] = values[len(which) :]
        return low.reshape(below.shape), high.reshape(below.shape)

    def _slid(self, windows: Ranged, shares: tuple[float, ...]) -> NDArray[np.float64] | None:
        """Return quantiles of windows that slide: each entry comes and goes once. None if they do not."""
        low, high, states = windows.low, windows.high, windows.states
        if self._pool.objects or int(high.sum() - low.sum()) <= 2 * len(low):
            return None
        if not value_count_loops.run("go_forward", low, high):
            return None
        close, single = value_count_loops.run("end_to_end", states, low, high)
        begin, end, base = low, high, int(states[low[0], 0] - low[0])
        if len(low) == 1 and not single:  # its slices are in order already
            return None
        if not single:
            begin, end, base = states[low, 0], states[high - 1, 1], 0
        if not close or (begin == end).any():
            return None
        total = self._pool.total
        if total[end[-1] + base] - total[begin[0] + base] >= 2**31:
            return None
        floats = self._of_floats
        return ranks.slide(self._pool.values, total, begin, end, shares, floats=floats, base=base)

    def _selected(self, windows: Ranged, which: Indices, rank: Indices) -> NDArray[np.float64]:
        """Return the values of ranks within windows, as floats."""
        out = np.empty(len(which), self._pool.values.dtype)
        slices = windows.high - windows.low
        single = (slices == 1)[which] & (not self._pool.objects)
        at = np.flatnonzero(single)
        if len(at):
            begin, end = windows.states[windows.low[which[at]]].T.copy()
            picked = np.empty(len(at), np.int64)
            value_count_loops.run("pick", self._pool.values, self._pool.total, begin, end, rank[at], picked)
            out[at] = picked
        at = np.flatnonzero(~single)
        if len(at) and self._few(windows[which[at]]):
            out[at] = self._picked(windows[which[at]], rank[at])
        elif len(at):
            out[at] = self._searched(windows[which[at]], rank[at])
        return self._floats(out)

    def _floats(self, keys: NDArray[Any]) -> NDArray[np.float64]:
        numbers: NDArray[np.float64] = self._numbers(keys).astype(np.float64, copy=False)
        return numbers

    def _few(self, windows: Ranged) -> bool:
        """Tell whether it is cheaper to look at the slices of each window than to number all entries."""
        if self._pool.objects:
            return False
        slices = windows.high - windows.low
        entries = self._within(windows)
        length = max(2.0, entries / max(1, int(windows.high.max() - windows.low.min())))
        steps = float(slices.sum()) * math.log2(length) * (math.log2(length) + math.log2(slices.max() + 1))
        return steps < entries * (25 + 2 * math.log2(entries + 2)) + len(windows) * 100

    @staticmethod
    def _within(windows: Ranged) -> int:
        """Return the number of entries in the slices that windows have."""
        sizes = windows.states[:, 1] - windows.states[:, 0]
        return int(sizes[_held(windows)].sum())

    def _picked(self, windows: Ranged, rank: Indices) -> Indices:
        out, room = np.empty(len(rank), np.int64), int((windows.high - windows.low).max())
        left = np.empty((3, room), np.int64)
        told = (self._pool.values, self._pool.total, windows.states, windows.low, windows.high)
        value_count_loops.run("pick_of_several", *told, rank, left, out)
        return out

    def _searched(self, windows: Ranged, rank: Indices) -> NDArray[Any]:
        """Return values of ranks, each bit of their numbers found for all windows of a block at once."""
        out = np.empty(len(rank), self._pool.values.dtype)
        for block in self._blocks(windows):
            codes, weights = block.codes, block.weights
            begin, end, left = block.begin.copy(), block.end.copy(), rank[block.which]
            found = np.zeros(len(left), np.int64)
            ranks, before = np.empty(len(codes) + 1, np.int32), np.empty(len(codes) + 1, np.int64)
            for bit in range((len(block.distinct) - 1).bit_length() - 1, -1, -1):
                ahead, ahead_weights = np.empty_like(codes), np.empty_like(weights)
                zeros = value_count_loops.run(
                    "halve", codes, weights, bit, ranks, before, ahead, ahead_weights
                )
                value_count_loops.run("descend", ranks, before, zeros, bit, begin, end, left, found)
                codes, weights = ahead, ahead_weights
            out[block.which] = block.distinct[found]
        return out

    def _distinct(self, windows: Ranged) -> Indices:
        """Return how many distinct values windows have."""
        first = windows.states[windows.low]
        out = first[:, 1] - first[:, 0]
        at = np.flatnonzero(windows.high - windows.low > 1)
        for block in self._blocks(windows[at]) if len(at) else ():
            found = np.empty(len(block.which), np.int64)
            last, tree = np.full(len(block.distinct), -1), np.zeros(len(block.codes) + 1, np.int64)
            by_end = np.argsort(block.end, kind="stable")
            value_count_loops.run(
                "count_distinct", block.codes, block.begin, block.end, by_end, last, tree, found
            )
            out[at[block.which]] = found
        return out

    def _modes(self, windows: Ranged) -> NDArray[Any]:
        """Return the most frequent values, the smallest of several."""
        out = np.empty(len(windows), self._pool.values.dtype)
        for block in self._blocks(windows):
            found = np.empty(len(block.which), np.int64)
            told = (block.codes, block.weights, block.begin, block.end)
            direct = int((block.end - block.begin).sum())
            steps = np.abs(np.diff(block.begin)).sum() + np.abs(np.diff(block.end)).sum()
            room = 1 << (len(block.distinct) - 1).bit_length()
            if direct <= 2 * int(steps) * room.bit_length():
                value_count_loops.run("modes", *told, np.zeros(room, np.int64), found)
            else:
                value_count_loops.run("slide_modes", *told, np.zeros(2 * room, np.int64), found)
            out[block.which] = block.distinct[found]
        return out

    def _collected(self, windows: Ranged) -> NDArray[Any]:
        """Return lists of the distinct values."""
        out = np.empty(len(windows), object)
        for block in self._blocks(windows):
            numbers = self._numbers(block.distinct)
            for w, begin, end in zip(
                block.which.tolist(), block.begin.tolist(), block.end.tolist(), strict=True
            ):
                out[w] = numbers[np.unique(block.codes[begin:end])].tolist()
        return out

    # ---- the entries of windows ----

    def _entries(self, windows: Ranged) -> Entries:
        bounds = _bounds(windows.states)
        if bounds is not None:
            first, last = int(windows.low.min()), int(windows.high.max())
            begin, end = int(bounds[first]), int(bounds[last])
            places = bounds - begin
            values, weights = self._pool.values[begin:end], self._pool.counts(begin, end)
            return Entries(values, weights, places[windows.low], places[windows.high])
        held = _held(windows)
        values, weights, places = gathered(self._pool, windows.states[held])
        number = np.append(0, np.cumsum(held))
        return Entries(values, weights, places[number[windows.low]], places[number[windows.high]])

    def _blocks(self, windows: Ranged) -> Iterator[Block]:
        """Return windows in blocks, so that what is looked up for each is at hand."""
        if not len(windows):
            return
        entries = self._entries(windows)
        begin, end, order = entries.begin, entries.end, None
        if (begin[1:] < begin[:-1]).any():
            order = np.argsort(begin, kind="stable")
            begin, end = begin[order], end[order]
        for at, stop in ranks.stretches(begin, 4 * int((end - begin).max())):
            low, high = int(begin[at]), int(end[at:stop].max())
            distinct, codes = ranks.numbered(entries.values[low:high])
            which = np.arange(at, stop) if order is None else order[at:stop]
            weights = entries.weights[low:high]
            yield Block(which, distinct, codes, weights, begin[at:stop] - low, end[at:stop] - low)


def gathered(pool: Pool, states: States) -> tuple[NDArray[Any], Indices, Indices]:
    """Return the entries of slices end to end."""
    sizes = states[:, 1] - states[:, 0]
    bounds = np.append(0, np.cumsum(sizes))
    at = np.arange(int(bounds[-1])) + np.repeat(states[:, 0] - bounds[:-1], sizes)
    return pool.values[at], pool.total[at + 1] - pool.total[at], bounds


def _bounds(states: States) -> Indices | None:
    """Return where slices begin, and the last one ends, if they lie end to end in their pool; else None."""
    if not len(states) or (states[1:, 0] != states[:-1, 1]).any():
        return None
    return np.append(states[:, 0], states[-1, 1])


def _held(windows: Ranged) -> NDArray[np.bool_]:
    """Return which slices some window has."""
    slices = len(windows.states)
    steps = np.bincount(windows.low, minlength=slices) - np.bincount(windows.high, minlength=slices)[:slices]
    held: NDArray[np.bool_] = np.cumsum(steps) > 0
    return held
