"""From the slices of windows to their answers: partials folded once per field, then lowered."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.algebra.builtin import BuiltIn
from muntin.slicing import folds
from muntin.slicing.fields import Answers, CompiledField, ObjectField, States, finish
from muntin.slicing.plan import Plan
from muntin.slicing.pooled import PooledField, Ranged
from muntin.slicing.rows import RETRACT, Rows, queries_of
from muntin.slicing.store import AggregateStore

Places = NDArray[np.int64]
How = Literal["each", "levels", "prefix", "slide", "tree", "ranges"]
Choice = Callable[[int, AggregateStore, Places, Places, int], How]  # of how to fold ranges


class FoldedRows:
    """The partials of windows, folded once per field."""

    def __init__(
        self,
        store: AggregateStore,
        how: Choice,
        rows: Rows,
        plan: Plan,
    ) -> None:
        self.combines = 0
        self._plan = plan
        self._twins = plan.twins()
        self._store = store
        self._how = how
        self._rows = rows
        self._empty = rows.high == rows.low
        self._any_empty = not rows.by_place and bool(self._empty.any())
        self.queries = queries_of(rows.query)
        self._places: dict[tuple[int, ...], Places] = {}
        self._prefixes: tuple[Places, Places] | None = None  # of all rows
        self._states: dict[int, States] = {}  # of all rows whose queries read the field

    def _of(self, numbers: tuple[int, ...]) -> NDArray[np.bool_] | None:
        """Tell which rows are of these queries; None: all."""
        if self.queries <= set(numbers):
            return None
        chosen = np.zeros(int(self._rows.query.max()) + 1, bool)
        chosen[[n for n in numbers if n < len(chosen)]] = True
        mine: NDArray[np.bool_] = chosen[self._rows.query]
        return mine

    def places(self, numbers: tuple[int, ...]) -> Places:
        """Return the rows of some queries that are not empty."""
        if numbers not in self._places:
            mine = self._of(numbers)
            if self._any_empty:
                mine = ~self._empty if mine is None else mine & ~self._empty
            found = np.arange(len(self._rows)) if mine is None else np.flatnonzero(mine)
            self._places[numbers] = found
        return self._places[numbers]

    def empty(self, numbers: tuple[int, ...]) -> Places:
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

    def _fold(self, number: int, at: Places) -> States:
        """Fold the ranges of some rows; those of queries with the same windows only once."""
        rows = self._rows
        whole = len(at) == len(rows)
        if rows.by_place:
            return self._store.states(number)[rows.low if whole else rows.low[at]]
        low, high, query = (column if whole else column[at] for column in (rows.low, rows.high, rows.query))
        first = {twin for number, twin in self._twins.items() if number in self.queries}
        if len(first) == len(self.queries):
            return self._fold_ranges(number, low, high, query)
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
        states = self._fold_ranges(number, low[alone], high[alone], query[alone])
        return states[np.concatenate(blocks)]

    def _fold_ranges(self, number: int, low: Places, high: Places, query: Places) -> States:
        store = self._store
        how = self._how(number, store, low, high, len(self.queries))
        partials = store.fields[number]
        if how == "ranges":
            unmerged: Any = Ranged(store.ordered_states(number), low, high)
            return unmerged  # type: ignore[no-any-return]
        if isinstance(partials, ObjectField) and partials.own is not None:
            states, combines = partials.each_answer(store.ordered_states(number), low, high)
        elif how == "each":
            states, combines = folds.each(store, number, low, high)
        elif how == "prefix":
            states, combines = store.folds.prefix(number, low, high, self._prefixes_of(low, high))
        elif how == "levels":
            states, combines = folds.by_levels(store, number, low, high)
        elif how == "tree":
            states, combines = store.folds.tree(number, low, high)
        else:
            states, combines = self._slide(number, query, low, high)
        self.combines = max(self.combines, combines)
        return states

    def _prefixes_of(self, low: Places, high: Places) -> tuple[Places, Places]:
        """Return the prefixes that ranges are differences of: those of all rows serve all fields."""
        if low is not self._rows.low:
            return folds.prefixes_of(self._store, low, high)
        if self._prefixes is None:
            self._prefixes = folds.prefixes_of(self._store, low, high)
        return self._prefixes

    def _slide(self, number: int, query: Places, low: Places, high: Places) -> tuple[States, int]:
        """Fold with two stacks, query by query: ranges go forward within one."""
        ends = [0, *(np.flatnonzero(query[1:] != query[:-1]) + 1).tolist(), len(query)]
        parts, total = [], 0
        for begin, stop in itertools.pairwise(ends):
            ranges = (low[begin:stop], high[begin:stop])
            states, combines = self._store.folds.slide(number, int(query[begin]), *ranges)
            parts.append(states)
            total += combines
        return parts[0] if len(parts) == 1 else np.concatenate(parts), total


def answers_of(
    store: AggregateStore,
    aggregate: Aggregate,
    reads: tuple[tuple[int, int], ...],
    states_of: Callable[[int], States],
) -> Answers:
    """Return the answers of an aggregate, given the partials of the fields that it reads."""
    if not isinstance(aggregate, BuiltIn):
        number = reads[0][0]
        return store.fields[number].answers(states_of(number), aggregate)
    pooled = store.fields[reads[0][0]]
    if isinstance(pooled, PooledField):
        return pooled.answers(states_of(reads[0][0]), aggregate)
    found: dict[int, Any] = {}  # the components of each field
    missing: NDArray[np.bool_] | None = None
    for number in dict.fromkeys(number for number, _ in reads):
        partials, states = store.fields[number], states_of(number)
        assert isinstance(partials, (CompiledField, ObjectField))
        found[number] = partials.components(states, floats=aggregate.floats)
        present = partials.present(states)
        if present is not None and not present.all():
            missing = ~present if missing is None else missing | ~present
    components = [found[number][component] for number, component in reads]
    if any(isinstance(c, list) for c in components):  # as objects, all of them
        components = [_listed(c, missing) for c in components]
        missing = None
    answers = finish(aggregate, components)
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
