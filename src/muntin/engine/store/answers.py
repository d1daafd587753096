"""From the slices of windows to their answers: partials folded once per field, then lowered."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.algebra.builtin import BuiltIn
from muntin.columnar import Indices
from muntin.engine.partials.base import States
from muntin.engine.partials.compiled import finish
from muntin.engine.plan.queries import Plan
from muntin.engine.rows import RETRACT, Answers, Rows, queries_of
from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.strategies import Ranges, choose
from muntin.settings import Store


class FoldedRows:
    """The partials of windows, folded once per field."""

    def __init__(
        self,
        store: AggregateStore,
        setting: Store,
        rows: Rows,
        plan: Plan,
    ) -> None:
        self.combines = 0
        self._plan = plan
        self._twins = plan.twins()
        self._store = store
        self._setting = setting
        self._rows = rows
        self._empty = rows.high == rows.low
        self._any_empty = not rows.by_place and bool(self._empty.any())
        self.queries = queries_of(rows.query)
        self._places: dict[tuple[int, ...], Indices] = {}
        self._whole: Ranges | None = None  # of all rows
        self._states: dict[int, States] = {}  # of all rows whose queries read the field

    def _of(self, numbers: tuple[int, ...]) -> NDArray[np.bool_] | None:
        """Tell which rows are of these queries; None: all."""
        if self.queries <= set(numbers):
            return None
        chosen = np.zeros(int(self._rows.query.max()) + 1, bool)
        chosen[[n for n in numbers if n < len(chosen)]] = True
        mine: NDArray[np.bool_] = chosen[self._rows.query]
        return mine

    def places(self, numbers: tuple[int, ...]) -> Indices:
        """Return the rows of some queries that are not empty."""
        if numbers not in self._places:
            mine = self._of(numbers)
            if self._any_empty:
                mine = ~self._empty if mine is None else mine & ~self._empty
            found = np.arange(len(self._rows)) if mine is None else np.flatnonzero(mine)
            self._places[numbers] = found
        return self._places[numbers]

    def empty(self, numbers: tuple[int, ...]) -> Indices:
        """Return the rows of some queries that are empty windows."""
        if not self._any_empty:
            return np.empty(0, np.int64)
        mine = self._of(numbers)
        empty = self._empty if self._rows.change is None else self._empty & (self._rows.change != RETRACT)
        return np.flatnonzero(empty if mine is None else empty & mine)

    def of(self, numbers: tuple[int, ...], field_: int) -> States:
        """Return a field's partials for the rows of some queries."""
        if field_ not in self._states:
            self._states[field_] = self._fold(field_, self.places(self._plan.readers(field_)))
        states, mine = self._states[field_], self.places(numbers)
        if len(mine) == len(states):
            return states
        return states[np.searchsorted(self.places(self._plan.readers(field_)), mine)]

    def _fold(self, number: int, at: Indices) -> States:
        """Fold the ranges of some rows; those of queries with the same windows only once."""
        rows = self._rows
        whole = len(at) == len(rows)
        if rows.by_place:
            return self._store.states(number)[rows.low if whole else rows.low[at]]
        ranges = self._ranges_at(None if whole else at)
        first = {twin for number, twin in self._twins.items() if number in self.queries}
        if len(first) == len(self.queries):
            return self._fold_ranges(number, ranges)
        low, high, query = ranges.low, ranges.high, ranges.query
        ends = [0, *(np.flatnonzero(query[1:] != query[:-1]) + 1).tolist(), len(query)]
        kept, blocks, begin_of = [], [], {}
        count = 0
        for begin, stop in itertools.pairwise(ends):
            twin = self._twins[int(query[begin])]
            if twin not in begin_of:
                begin_of[twin] = count
                kept.append(np.arange(begin, stop))
                count += stop - begin
            blocks.append(np.arange(begin_of[twin], begin_of[twin] + stop - begin))
        alone = np.concatenate(kept)
        some = Ranges(self._store, low[alone], high[alone], query[alone], len(self.queries))
        return self._fold_ranges(number, some)[np.concatenate(blocks)]

    def _ranges_at(self, at: Indices | None) -> Ranges:
        """Return the ranges of some rows; those of all (None) are kept, with what is known of them."""
        rows, queries = self._rows, len(self.queries)
        if at is not None:
            return Ranges(self._store, rows.low[at], rows.high[at], rows.query[at], queries)
        if self._whole is None:
            self._whole = Ranges(self._store, rows.low, rows.high, rows.query, queries)
        return self._whole

    def _fold_ranges(self, number: int, ranges: Ranges) -> States:
        strategy = choose(self._setting, self._store.fields[number], ranges)
        states, combines = strategy.fold(number, ranges)
        self.combines = max(self.combines, combines)
        return states


def answers_of(
    store: AggregateStore,
    aggregate: Aggregate,
    reads: tuple[tuple[int, int], ...],
    states_of: Callable[[int], States],
) -> Answers:
    """Return the answers of an aggregate, given the partials of the fields that it reads."""
    first = reads[0][0]
    if store.fields[first].part is None:
        return store.fields[first].answers(states_of(first), aggregate)
    fused = cast(BuiltIn, aggregate)  # no other has components
    found: dict[int, Any] = {}  # the components of each field
    missing: NDArray[np.bool_] | None = None
    for number in dict.fromkeys(number for number, _ in reads):
        partials, states = store.fields[number], states_of(number)
        found[number] = partials.components(states, floats=fused.floats)
        present = partials.present(states)
        if present is not None and not present.all():
            missing = ~present if missing is None else missing | ~present
    components = [found[number][component] for number, component in reads]
    if any(isinstance(c, list) for c in components):  # as objects, all of them
        components = [_listed(c, missing) for c in components]
        missing = None
    answers = finish(fused, components)
    if missing is None:
        return answers
    if aggregate.empty is not None:  # a count of nothing
        return Answers(np.where(missing, aggregate.empty, answers.data), answers.missing)
    return Answers(answers.data, missing if answers.missing is None else missing | answers.missing)


def _listed(component: Any, missing: NDArray[np.bool_] | None) -> list[Any]:
    """Return a component as Python's objects, None where there is no value, as a field of objects has it."""
    if isinstance(component, list):
        return component
    values: list[Any] = component.tolist()
    if missing is None:
        return values
    return [None if gone else value for value, gone in zip(values, missing.tolist(), strict=True)]
