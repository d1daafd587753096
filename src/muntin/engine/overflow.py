"""What sums of integers could come to, so that one that leaves 64 bits is seen before it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muntin.engine.ingest.batch import Values
from muntin.engine.plan.queries import Plan
from muntin.engine.slices.slice_manager import SliceManager
from muntin.engine.store.cells import AggregateStore
from muntin.engine.transaction import Transactional

_NEAR = 2**62


class IntegerSums(Transactional):
    """The fields that add up integers, and what no sum of theirs can be larger than."""

    def __init__(self, plan: Plan, slices: SliceManager) -> None:
        self.bounds: dict[int, int] = {}
        self._plan = plan
        self._slices = slices

    def may_overflow(self) -> bool:
        """Tell whether a sum could have come near the end of 64 bits."""
        return any(bound >= _NEAR for bound in self.bounds.values())

    def fields(self) -> list[int]:
        """Return the fields that add up integers."""
        return [number for number in self._plan.fields if self._slices.fields[number].adds_integers]

    def expect(self, values: Mapping[int, Values]) -> None:
        """Count values in."""
        for number in self.fields():
            column = values[number].columns[0]
            largest = max(int(column.max()), -int(column.min()))
            bound = self.bounds.get(number, 0) + largest * values[number].count
            self.bounds = {**self.bounds, number: bound}

    def expect_one(self, number: int, value: int) -> bool:
        """Count a single value in; tell whether no sum of its field can be near the end of 64 bits."""
        bound = self.bounds.get(number, 0) + abs(value)
        self.bounds = {**self.bounds, number: bound}
        return bound < _NEAR

    def look_again(self, stores: Iterable[AggregateStore], kept: Iterable[Mapping[int, Values]]) -> None:
        """Find anew what sums could come to: what is live, and what records may be cut otherwise."""
        stores, kept = list(stores), list(kept)
        self.bounds = {}
        for number in self.fields():
            partials = self._slices.fields[number]
            total = 0
            for store in stores:
                if number in store.fields:
                    total += partials.sum_bound(store.states(number))
            for values in kept:
                if number in values:
                    total += sum(abs(v) for v in values[number].columns[0].tolist())
            self.bounds[number] = total
