"""Partials of all aggregates of a workload, fused: one state per distinct aggregate, combined together."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from muntin.algebra.aggregate import TIME, Aggregate, Algebra
from muntin.kernels import Kernel, NotCompilableError, instantiate
from muntin.swag.base import BOTTOM
from muntin.swag.columns import Columns, as_columns
from muntin.techniques.stream import Workload

_MANY = 64  # records: for fewer, calling a kernel takes longer
State = Any  # a tuple of states, one per aggregate; BOTTOM where there is no record yet


class _Part:
    """One aggregate over its columns: the states of records and of runs of them."""

    def __init__(self, aggregate: Aggregate, workload: Workload) -> None:
        self.aggregate = aggregate
        arrays = [workload.column(workload.stream.time if n == TIME else n) for n in aggregate.inputs]
        nulls = any(array.null_count for array in arrays)
        self.columns = None if nulls or not arrays else self._numbers(arrays)
        kinds = self.columns.kinds if self.columns else None
        self.algebra: Algebra = aggregate.algebra(kinds)
        self.kernel = self._compiled()
        self._objects = [array.to_pylist() for array in arrays] if self.kernel is None else []
        self.count = len(workload)

    def _numbers(self, arrays: list[Any]) -> Columns | None:
        return as_columns(arrays[0] if len(arrays) == 1 else tuple(arrays), len(arrays))

    def _compiled(self) -> Kernel | None:
        if self.columns is None:
            return None
        try:
            return instantiate("ring", self.algebra, self.columns.kinds)
        except NotCompilableError:
            return None

    def fold(self, low: int, high: int) -> Any:
        """Return the state of the records from low to high, at least one, in order."""
        if self.kernel is None or self.columns is None or high - low < _MANY:
            state = self.lift(low)
            for i in range(low + 1, high):
                state = self.combine(state, self.lift(i))
            return state
        out = self.kernel.layout.allocate(1)
        valid = np.ones(1, bool)
        self.kernel.run("fold", self.columns.arrays, valid, low, high, out)
        return read(out[0])

    def lift(self, i: int) -> Any:
        """Return the state of one record."""
        if self.columns is not None:
            return self.algebra.lift(*(array[i].item() for array in self.columns.arrays))
        values = [column[i] for column in self._objects]
        if any(value is None for value in values[: self.aggregate.required]) and self.aggregate.skips_nulls:
            return BOTTOM
        return self.algebra.lift(*values) if values else self.algebra.lift(0)

    def combine(self, a: Any, b: Any) -> Any:
        if a is BOTTOM:
            return b
        return a if b is BOTTOM else self.algebra.combine(a, b)

    def lower(self, state: Any) -> Any:
        return self.aggregate.empty if state is BOTTOM else self.algebra.lower(state)


def read(cell: Any) -> Any:
    """Return a state that a kernel has written as a scalar or a tuple."""
    scalars = cell.tolist()
    return tuple(scalars) if isinstance(scalars, (list, tuple)) else scalars


class Partials:
    """The states of a workload's records: lift, fold, combine, lower. Counting is up to whoever calls."""

    def __init__(self, workload: Workload) -> None:
        wanted = [a for query in workload.queries for a in query.aggregates.values()]
        self._parts = [_Part(aggregate, workload) for aggregate in dict.fromkeys(wanted)]
        places = {part.aggregate: place for place, part in enumerate(self._parts)}
        self._outputs = [
            {column: places[aggregate] for column, aggregate in query.aggregates.items()}
            for query in workload.queries
        ]
        names = {name for part in self._parts for name in part.aggregate.columns}
        self.record_bytes = 8 * (1 + len(names))  # the time and the values
        self.state_bytes = 0

    def lift(self, i: int) -> State:
        """Return the state of the record at a place in canonical order."""
        return tuple(part.lift(i) for part in self._parts)

    def fold(self, low: int, high: int) -> State:
        """Return the state of the records from low to high, from left to right; BOTTOM if there is none."""
        if low == high:
            return BOTTOM
        return tuple(part.fold(low, high) for part in self._parts)

    def combine(self, a: State, b: State) -> State:
        """Return two states combined, the older first."""
        if a is BOTTOM:
            return b
        if b is BOTTOM:
            return a
        return tuple(p.combine(x, y) for p, x, y in zip(self._parts, a, b, strict=True))

    def lower(self, query: int, state: State) -> dict[str, Any]:
        """Return the answers of a query."""
        self.state_bytes = max(self.state_bytes, _size(state))
        return {c: self._parts[place].lower(state[place]) for c, place in self._outputs[query].items()}

    def alone(self) -> _Part | None:
        """Return the one aggregate, if there is one only and it is compiled."""
        (part, *others) = self._parts
        return part if not others and part.kernel is not None else None


def _size(state: Any) -> int:
    """Return the bytes of a state: eight for each number, more for what is not a number."""
    if isinstance(state, (list, tuple, set, frozenset)):
        return sum(_size(x) for x in state)
    return 8 if isinstance(state, (int, float, bool)) or state is BOTTOM else sys.getsizeof(state)
