"""Sums over ranges of records that lie by key and time: differences of prefixes, in one pass each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Indices
from muntin.engine import loops
from muntin.engine.partials.compiled import CompiledField
from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.folding import each


class RecordSums:
    """Prefixes of a field of float sums, each with its rounding error, over a store of one record a cell."""

    def __init__(self, store: AggregateStore, number: int, begins: Indices) -> None:
        self._store, self._number, self._begins = store, number, begins
        partials: Any = store.fields[number]
        self._partials: CompiledField = partials
        at = np.arange(store.count)
        prefixes = partials.allocate(store.count)
        partials.scan(store.states(number), store.older(), at, prefixes)
        self._head, self._rest = (np.ascontiguousarray(column) for column in partials.scalar_views(prefixes))
        largest = partials.largest(prefixes, at)
        self._lost = largest * 2.0**-98  # as far as a prefix may be off: see CompiledField.doubtful
        self.exact = math.isfinite(self._lost)  # no difference is taken across values that are not finite

    def over(self, low: Indices, high: Indices, order: Indices, *, mean: bool) -> NDArray[np.float64]:
        """Return the sums or means of ranges, that of range i at order[i]; 0 where a range is empty."""
        out = np.zeros(len(low))
        doubtful = np.empty(len(low), np.int64)
        told = (self._head, self._rest, low, high, self._begins, self._lost, order, mean, out, doubtful)
        at = doubtful[: loops.run("sums_between", *told)]
        if len(at):
            states, _ = each(self._store, self._number, low[at], high[at])
            sums = self._partials.components(states, floats=True)[0]
            out[order[at]] = sums / (high[at] - low[at]) if mean else sums
        return out
