"""Runs: the distinct values of a slice, ascending, each with how often it occurs; and what is asked of them.

Windows are ranges of slices. What many of them ask is found for all at once, without merging the slices of
any: a wavelet matrix over the entries of all slices gives order statistics, a sweep the numbers of distinct
values, and counts that go along with windows the modes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.holistic import CountDistinct, Median, Mode, Quantile
from muntin.kernels import ranks
from muntin.slicing import run_loops
from muntin.slicing.fields import Answers, States, Values
from muntin.slicing.pooled import _LONG, Pool, PooledField, Ranged

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Entries:
    """The entries of slices end to end, and the range of each window among them."""

    values: NDArray[Any]
    weights: Places
    begin: Places
    end: Places


@dataclass(frozen=True)
class Block:
    """Windows that lie close together, with the entries about them: numbered by value."""

    which: Places
    distinct: NDArray[Any]  # values, ascending
    codes: NDArray[np.int32]
    weights: Places
    begin: Places
    end: Places


class RunsField(PooledField):
    """The distinct values of each slice, and how often they occur."""

    counted = True

    def keys(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """Return numbers as integers in the same order; NaN is the largest, and -0.0 is 0.0."""
        return ranks.as_keys(numbers) if numbers.dtype == np.float64 else numbers

    def numbers(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers that integers stand for."""
        return ranks.as_floats(keys) if self.kinds == ("f8",) else keys

    def _appended(self, column: NDArray[Any], bounds: Places) -> States:
        pool = self.pool
        pool.reserve(len(column))
        if pool.objects:
            return self._append_objects(column, bounds)
        ordered, sizes = np.array(column), np.diff(bounds)
        for s in np.flatnonzero(sizes > _LONG).tolist():
            ordered[bounds[s] : bounds[s + 1]].sort()
        run_loops.run("sort_segments", ordered, bounds, _LONG)
        states = self.allocate(len(sizes))
        pool.used = run_loops.run("encode", ordered, bounds, pool.values, pool.total, pool.used, states)
        return states

    def followed(self, states: States, values: Values) -> States:
        """Return partials, followed by those of records, each by itself."""
        if self.pool.objects or values.valid is not None:
            return super().followed(states, values)
        (column,) = values.columns
        room = self.pool.append(len(column))
        if column.dtype == np.float64:
            ranks.write_keys(column, room)
        else:
            room[:] = column
        whole = np.empty((len(states) + len(column), 2), np.int64)
        whole[: len(states)] = states
        run_loops.run("number_singles", self.pool.total, self.pool.used - len(column), whole[len(states) :])
        return whole

    def _append_objects(self, column: NDArray[Any], bounds: Places) -> States:
        states = self.allocate(len(bounds) - 1)
        for s in range(len(states)):
            ordered = np.sort(column[bounds[s] : bounds[s + 1]], kind="stable")
            states[s] = self._append_run(ordered, np.ones(len(ordered), np.int64))
        return states

    def _append_run(self, ordered: NDArray[Any], counts: Places) -> tuple[int, int]:
        """Append ascending objects, which may repeat, with how often each occurs."""
        pool, begin = self.pool, self.pool.used
        if not len(ordered):
            return begin, begin
        firsts = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).astype(bool)))
        pool.reserve(len(firsts))
        end = begin + len(firsts)
        pool.values[begin:end] = ordered[firsts]
        pool.total[begin + 1 : end + 1] = np.cumsum(np.add.reduceat(counts, firsts)) + pool.total[begin]
        pool.used = end
        return begin, end

    def _joined(self, older: States, newer: States) -> States:
        pool, out = self.pool, self.allocate(len(older))
        pool.reserve(int((older[:, 1] - older[:, 0] + newer[:, 1] - newer[:, 0]).sum()))
        if not pool.objects:
            pool.used = run_loops.run("join_runs", pool.values, pool.total, pool.used, older, newer, out)
            return out
        for s, ((a, b), (c, d)) in enumerate(zip(older.tolist(), newer.tolist(), strict=True)):
            values = np.concatenate([pool.values[a:b], pool.values[c:d]])
            order = np.argsort(values, kind="stable")
            counts = np.append(pool.counts(a, b), pool.counts(c, d))
            out[s] = self._append_run(values[order], counts[order])
        return out

    def _joined_whole(self, states: States, bounds: Places) -> States | None:
        """Sort values anew where they hardly repeat: that is faster than merging many runs."""
        total = self.pool.total
        records = np.append(0, np.cumsum(total[states[:, 1]] - total[states[:, 0]]))
        if self.pool.objects or records[-1] > 2 * (states[:, 1] - states[:, 0]).sum():
            return None
        values, counts, _ = self._gathered(states)
        return self._appended(np.repeat(values, counts), records[bounds])

    def _copy(self, old: Pool, states: States, out: States) -> int:
        pool = self.pool
        used: int = run_loops.run(
            "copy_runs", old.values, old.total, states, pool.values, pool.total, pool.used, out
        )
        return used

    # ---- answers ----

    def _answers(self, windows: Ranged, aggregate: Any) -> Answers:
        if isinstance(aggregate, (Median, Quantile)):
            return self._quantile_answers(windows, aggregate)
        missing = self._records(windows) == 0
        there = np.flatnonzero(~missing)
        some = windows if len(there) == len(windows) else windows[there]
        if isinstance(aggregate, CountDistinct):
            data = np.zeros(len(windows), np.int64)
            data[there] = self._distinct(some)
            return Answers(data, None)
        if isinstance(aggregate, Mode):
            modes = np.zeros(len(windows), self.pool.values.dtype)
            modes[there] = self._modes(some)
            return Answers(self.numbers(modes), missing if missing.any() else None)
        lists = np.full(len(windows), None, object)
        lists[there] = self._collected(some)
        return Answers(lists.tolist(), None)

    def _quantile_answers(self, windows: Ranged, aggregate: Median | Quantile) -> Answers:
        several = isinstance(aggregate.q, tuple)
        shares: Any = aggregate.q if several else (aggregate.q,)
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

    def _records(self, windows: Ranged) -> Places:
        """Return how many records windows have."""
        total, bounds = self.pool.total, _bounds(windows.states)
        if bounds is None:
            sizes = total[windows.states[:, 1]] - total[windows.states[:, 0]]
            before = np.append(0, np.cumsum(sizes))
        else:
            before = total[bounds]
        records: Places = before[windows.high] - before[windows.low]
        return records

    def _quantiles(self, windows: Ranged, count: Places, shares: tuple[float, ...]) -> NDArray[np.float64]:
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
        self, windows: Ranged, below: Places, above: Places, wanted: NDArray[np.bool_]
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
        if self.pool.objects or int(high.sum() - low.sum()) <= 2 * len(low):
            return None
        if not run_loops.run("go_forward", low, high):
            return None
        close, single = run_loops.run("end_to_end", states, low, high)
        begin, end, base = low, high, int(states[low[0], 0] - low[0])
        if len(low) == 1 and not single:  # its slices are in order already
            return None
        if not single:
            begin, end, base = states[low, 0], states[high - 1, 1], 0
        if not close or (begin == end).any():
            return None
        total = self.pool.total
        if total[end[-1] + base] - total[begin[0] + base] >= 2**31:
            return None
        floats = self.kinds == ("f8",)
        return ranks.slide(self.pool.values, total, begin, end, shares, floats=floats, base=base)

    def _selected(self, windows: Ranged, which: Places, rank: Places) -> NDArray[np.float64]:
        """Return the values of ranks within windows, as floats."""
        out = np.empty(len(which), self.pool.values.dtype)
        slices = windows.high - windows.low
        single = (slices == 1)[which] & (not self.pool.objects)
        at = np.flatnonzero(single)
        if len(at):
            begin, end = windows.states[windows.low[which[at]]].T.copy()
            picked = np.empty(len(at), np.int64)
            run_loops.run("pick", self.pool.values, self.pool.total, begin, end, rank[at], picked)
            out[at] = picked
        at = np.flatnonzero(~single)
        if len(at) and self._few(windows[which[at]]):
            out[at] = self._picked(windows[which[at]], rank[at])
        elif len(at):
            out[at] = self._searched(windows[which[at]], rank[at])
        return self._floats(out)

    def _floats(self, keys: NDArray[Any]) -> NDArray[np.float64]:
        numbers: NDArray[np.float64] = self.numbers(keys).astype(np.float64, copy=False)
        return numbers

    def _few(self, windows: Ranged) -> bool:
        """Tell whether it is cheaper to look at the slices of each window than to number all entries."""
        if self.pool.objects:
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

    def _picked(self, windows: Ranged, rank: Places) -> Places:
        out, room = np.empty(len(rank), np.int64), int((windows.high - windows.low).max())
        left = np.empty((3, room), np.int64)
        told = (self.pool.values, self.pool.total, windows.states, windows.low, windows.high)
        run_loops.run("pick_of_several", *told, rank, left, out)
        return out

    def _searched(self, windows: Ranged, rank: Places) -> NDArray[Any]:
        """Return values of ranks, each bit of their numbers found for all windows of a block at once."""
        out = np.empty(len(rank), self.pool.values.dtype)
        for block in self._blocks(windows):
            codes, weights = block.codes, block.weights
            begin, end, left = block.begin.copy(), block.end.copy(), rank[block.which]
            found = np.zeros(len(left), np.int64)
            ranks, before = np.empty(len(codes) + 1, np.int32), np.empty(len(codes) + 1, np.int64)
            for bit in range((len(block.distinct) - 1).bit_length() - 1, -1, -1):
                ahead, ahead_weights = np.empty_like(codes), np.empty_like(weights)
                zeros = run_loops.run("halve", codes, weights, bit, ranks, before, ahead, ahead_weights)
                run_loops.run("descend", ranks, before, zeros, bit, begin, end, left, found)
                codes, weights = ahead, ahead_weights
            out[block.which] = block.distinct[found]
        return out

    def _distinct(self, windows: Ranged) -> Places:
        """Return how many distinct values windows have."""
        first = windows.states[windows.low]
        out = first[:, 1] - first[:, 0]
        at = np.flatnonzero(windows.high - windows.low > 1)
        for block in self._blocks(windows[at]) if len(at) else ():
            found = np.empty(len(block.which), np.int64)
            last, tree = np.full(len(block.distinct), -1), np.zeros(len(block.codes) + 1, np.int64)
            by_end = np.argsort(block.end, kind="stable")
            run_loops.run("count_distinct", block.codes, block.begin, block.end, by_end, last, tree, found)
            out[at[block.which]] = found
        return out

    def _modes(self, windows: Ranged) -> NDArray[Any]:
        """Return the most frequent values, the smallest of several."""
        out = np.empty(len(windows), self.pool.values.dtype)
        for block in self._blocks(windows):
            found = np.empty(len(block.which), np.int64)
            told = (block.codes, block.weights, block.begin, block.end)
            direct = int((block.end - block.begin).sum())
            steps = np.abs(np.diff(block.begin)).sum() + np.abs(np.diff(block.end)).sum()
            room = 1 << (len(block.distinct) - 1).bit_length()
            if direct <= 2 * int(steps) * room.bit_length():
                run_loops.run("modes", *told, np.zeros(room, np.int64), found)
            else:
                run_loops.run("slide_modes", *told, np.zeros(2 * room, np.int64), found)
            out[block.which] = block.distinct[found]
        return out

    def _collected(self, windows: Ranged) -> NDArray[Any]:
        """Return lists of the distinct values."""
        out = np.empty(len(windows), object)
        for block in self._blocks(windows):
            numbers = self.numbers(block.distinct)
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
            values, weights = self.pool.values[begin:end], self.pool.counts(begin, end)
            return Entries(values, weights, places[windows.low], places[windows.high])
        held = _held(windows)
        values, weights, places = self._gathered(windows.states[held])
        number = np.append(0, np.cumsum(held))
        return Entries(values, weights, places[number[windows.low]], places[number[windows.high]])

    def _gathered(self, states: States) -> tuple[NDArray[Any], Places, Places]:
        """Return the entries of slices end to end."""
        sizes = states[:, 1] - states[:, 0]
        bounds = np.append(0, np.cumsum(sizes))
        at = np.arange(int(bounds[-1])) + np.repeat(states[:, 0] - bounds[:-1], sizes)
        return self.pool.values[at], self.pool.total[at + 1] - self.pool.total[at], bounds

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


def _bounds(states: States) -> Places | None:
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
