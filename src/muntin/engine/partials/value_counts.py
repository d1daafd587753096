"""Fields whose partials are runs: the distinct values of a slice, ascending, each with how often it occurs.

What aggregates ask of them is found for many windows at once, without merging slices: see window_counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Indices
from muntin.engine import tuning
from muntin.engine.ingest.batch import Values
from muntin.engine.partials import value_count_loops
from muntin.engine.partials.base import States
from muntin.engine.partials.pool import Pool, PooledField, Ranged
from muntin.engine.partials.window_counts import WindowCounts, gathered
from muntin.engine.rows import Answers
from muntin.kernels import ranks


class RunsField(PooledField):
    """The distinct values of each slice, and how often they occur."""

    counted = True

    def keys(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """Return numbers as integers in the same order; NaN is the largest, and -0.0 is 0.0."""
        return ranks.as_keys(numbers) if numbers.dtype == np.float64 else numbers

    def numbers(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers that integers stand for."""
        return ranks.as_floats(keys) if self.kinds == ("f8",) else keys

    def _appended(self, column: NDArray[Any], bounds: Indices) -> States:
        pool = self.pool
        pool.reserve(len(column))
        if pool.objects:
            return self._append_objects(column, bounds)
        ordered, sizes = np.array(column), np.diff(bounds)
        for s in np.flatnonzero(sizes > tuning.LONG_SEGMENT).tolist():
            ordered[bounds[s] : bounds[s + 1]].sort()
        value_count_loops.run("sort_segments", ordered, bounds, tuning.LONG_SEGMENT)
        states = self.allocate(len(sizes))
        pool.used = value_count_loops.run(
            "encode", ordered, bounds, pool.values, pool.total, pool.used, states
        )
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
        value_count_loops.run(
            "number_singles", self.pool.total, self.pool.used - len(column), whole[len(states) :]
        )
        return whole

    def _append_objects(self, column: NDArray[Any], bounds: Indices) -> States:
        states = self.allocate(len(bounds) - 1)
        for s in range(len(states)):
            ordered = np.sort(column[bounds[s] : bounds[s + 1]], kind="stable")
            states[s] = self._append_run(ordered, np.ones(len(ordered), np.int64))
        return states

    def _append_run(self, ordered: NDArray[Any], counts: Indices) -> tuple[int, int]:
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
            pool.used = value_count_loops.run(
                "join_runs", pool.values, pool.total, pool.used, older, newer, out
            )
            return out
        for s, ((a, b), (c, d)) in enumerate(zip(older.tolist(), newer.tolist(), strict=True)):
            values = np.concatenate([pool.values[a:b], pool.values[c:d]])
            order = np.argsort(values, kind="stable")
            counts = np.append(pool.counts(a, b), pool.counts(c, d))
            out[s] = self._append_run(values[order], counts[order])
        return out

    def _joined_whole(self, states: States, bounds: Indices) -> States | None:
        """Sort values anew where they hardly repeat: that is faster than merging many runs."""
        total = self.pool.total
        records = np.append(0, np.cumsum(total[states[:, 1]] - total[states[:, 0]]))
        if self.pool.objects or records[-1] > 2 * (states[:, 1] - states[:, 0]).sum():
            return None
        values, counts, _ = gathered(self.pool, states)
        return self._appended(np.repeat(values, counts), records[bounds])

    def _copy(self, old: Pool, states: States, out: States) -> int:
        pool = self.pool
        used: int = value_count_loops.run(
            "copy_runs", old.values, old.total, states, pool.values, pool.total, pool.used, out
        )
        return used

    # ---- answers ----

    def _answers(self, windows: Ranged, aggregate: Any) -> Answers:
        answers: Answers = aggregate.of_counts(WindowCounts(self, windows))
        return answers
