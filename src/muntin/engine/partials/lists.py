"""Fields whose partials are lists of values in order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Indices
from muntin.engine.partials import value_count_loops
from muntin.engine.partials.base import States
from muntin.engine.partials.pool import Pool, PooledField, Ranged
from muntin.engine.rows import Answers


class ListField(PooledField):
    """All values in the order of their records."""

    counted = False

    def keys(self, numbers: NDArray[Any]) -> NDArray[np.int64]:
        """Return the bits of numbers."""
        return np.ascontiguousarray(numbers).view(np.int64)

    def numbers(self, keys: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers with these bits."""
        return keys.view(np.float64) if self.kinds == ("f8",) else keys

    def _appended(self, column: NDArray[Any], bounds: Indices) -> States:
        pool = self.pool
        pool.reserve(len(column))
        pool.values[pool.used : pool.used + len(column)] = column
        states = np.stack([bounds[:-1], bounds[1:]], axis=1) + pool.used
        pool.used += len(column)
        return states

    def _joined(self, older: States, newer: States) -> States:
        pairs = np.stack([older, newer], axis=1).reshape(-1, 2)
        self.pool.reserve(int((pairs[:, 1] - pairs[:, 0]).sum()))
        out = self._copied(self.pool, pairs)
        return np.stack([out[::2, 0], out[1::2, 1]], axis=1)

    def _joined_whole(self, states: States, bounds: Indices) -> States | None:
        self.pool.reserve(int((states[:, 1] - states[:, 0]).sum()))
        out = self._copied(self.pool, states)
        return np.stack([out[bounds[:-1], 0], out[bounds[1:] - 1, 1]], axis=1)

    def _copy(self, old: Pool, states: States, out: States) -> int:
        pool = self.pool
        used: int = value_count_loops.run("copy_lists", old.values, states, pool.values, pool.used, out)
        return used

    def _answers(self, windows: Ranged, aggregate: Any) -> Answers:
        finish, data = aggregate.finisher(), []
        for low, high in zip(windows.low.tolist(), windows.high.tolist(), strict=True):
            slices = [self.pool.values[begin:end] for begin, end in windows.states[low:high].tolist()]
            values = self.numbers(np.concatenate(slices)).tolist()
            data.append(finish(values) if values else aggregate.empty)
        return Answers(data, None)
