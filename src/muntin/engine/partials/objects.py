"""Fields whose partials are objects of any kind, folded in Python."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muntin.algebra import extremes, sums
from muntin.algebra.aggregate import Aggregate, Algebra
from muntin.algebra.parts import Part
from muntin.columnar import Indices
from muntin.engine.ingest.batch import Values
from muntin.engine.partials.base import ABSENT, FieldPartials, States
from muntin.engine.partials.object_folds import EXACT, SharedRanges, fold_segments
from muntin.engine.rows import Answers
from muntin.engine.user_errors import named, watched


class Lowered(NamedTuple):
    """An answer where a state was."""

    answer: Any


class ObjectField(FieldPartials):
    """Partials of any kind, folded in Python."""

    nullable = True
    invertible = False

    def __init__(self, algebra: Algebra, part: Part | None, own: Aggregate | None, *, nulls: bool) -> None:
        self.algebra = algebra
        if own is not None:
            self.algebra = replace(algebra, combine=watched(own, algebra, lambda: self._trust(algebra)))
        self.part = part
        self.own = own
        self.opaque = own is not None
        # Where there are nulls, a partial does not say whether a value is left when one is taken out.
        self.removes_exactly = (
            not nulls and own is not None and own.commutative and algebra.invert is not None
        )

    def _trust(self, algebra: Algebra) -> None:
        """Call a user's combine without a step in between, once it was seen to change nothing."""
        self.algebra = algebra

    def accept(self, values: Values) -> FieldPartials:
        """Return this field, unless there is a null for the first time, and partials are reduced."""
        if values.valid is None or not self.removes_exactly:
            return self
        assert self.own is not None  # nothing else is reduced
        return ObjectField(self.own.algebra(None), None, self.own, nulls=True)

    def allocate(self, count: int) -> States:
        """Return room for so many partials."""
        return np.full(count, ABSENT, object)

    def converted(self, states: States, new: FieldPartials) -> States:
        """Return partials as they are, if they stay objects; if not, they hold no value yet."""
        return states if new.kinds is None else new.allocate(len(states))

    @contextmanager
    def _calling(self, function: str) -> Iterator[None]:
        """Let our own functions on decimals be exact, and errors of a user's name the function."""
        if self.own is None:
            with decimal.localcontext(EXACT):
                yield
            return
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:
            raise named(self.own, function, error) from error

    def _combine(self, a: Any, b: Any) -> Any:
        if a is ABSENT:
            return b
        return a if b is ABSENT else self.algebra.combine(a, b)

    def of_segments(self, values: Values, bounds: Indices) -> States:
        """Return the partials of neighbouring records, from one bound to the next."""
        out, columns = self.allocate(len(bounds) - 1), values.columns
        if values.valid is not None:
            columns = tuple(column[values.valid] for column in columns)
            bounds = np.append(0, np.cumsum(values.valid))[bounds]
        with self._calling("lift or combine"):
            listed, lift = [column.tolist() for column in columns], self.algebra.lift
            for j, state in fold_segments(listed, bounds.tolist(), lift, lambda: self.algebra.combine):
                out[j] = state
        return out

    def scatter(
        self, values: Values, at: Indices, blank: NDArray[np.bool_], states: States, *, apart: bool
    ) -> None:
        """Put record i behind the state at[i]; blank ones hold ABSENT."""
        del apart
        order = np.argsort(at, kind="stable")
        places = at[order]
        bounds = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1], [True]]))
        cells = places[bounds[:-1]]
        self.merge(states, cells, blank[cells], self.of_segments(values.take(order), bounds))
        blank[cells] = False

    def add_one(self, values: Values, states: States, at: int, new: bool) -> None:
        """Put a single record behind the state at a place, if there is one."""
        old = ABSENT if new else states[at]
        if values.valid is None or values.valid[0]:
            with self._calling("lift or combine"):
                old = self._combine(old, self.algebra.lift(*(c[0] for c in values.columns)))
        states[at] = old

    def merge(self, states: States, at: Indices, blank: NDArray[np.bool_], others: States) -> None:
        """Put each of the others behind the state at its place, in turn; blank ones are just set."""
        if blank.all():
            states[at] = others
            return
        with self._calling("combine"):
            for c, new, other in zip(at.tolist(), blank.tolist(), others, strict=True):
                states[c] = other if new else self._combine(states[c], other)

    def each_range(self, states: States, low: Indices, high: Indices) -> tuple[States, int]:
        """Return the partials of ranges, none empty, and the number of combines; overlaps are shared."""
        return self._each(states, low, high, lambda state: state)

    def each_window(self, states: States, low: Indices, high: Indices) -> tuple[States, int]:
        """Return ranges of a user's states lowered at once, so that large ones are not held together."""
        if not self.opaque:
            return self.each_range(states, low, high)
        return self._each(states, low, high, self._lowered)

    def _lowered(self, state: Any) -> Any:
        if state is ABSENT or self.own is None:
            return state if state is ABSENT else Lowered(self.algebra.lower(state))
        try:
            return Lowered(self.algebra.lower(state))
        except MemoryError:
            raise
        except Exception as error:
            raise named(self.own, "lower", error, state) from error

    def _each(self, states: States, low: Indices, high: Indices, finish: Any) -> tuple[States, int]:
        out = self.allocate(len(low))
        listed = states.tolist()
        whole = all(state is not ABSENT for state in listed)
        ranges = SharedRanges(listed, self.algebra.combine if whole else self._combine, finish)
        with self._calling("combine"):
            for w, (begin, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
                out[w] = ranges.of(begin, end)
        return out, ranges.combines

    def without(self, states: States, gone: States) -> States:
        """Return partials without those of records that leave."""
        assert self.algebra.invert is not None
        out = self.allocate(len(states))
        with self._calling("invert"):
            for i, (state, left) in enumerate(zip(states, gone, strict=True)):
                out[i] = state if left is ABSENT else self.algebra.invert(state, left)
        return out

    def present(self, states: States) -> NDArray[np.bool_] | None:
        """Return which partials hold a value."""
        return np.array([state is not ABSENT for state in states], bool)

    def components(self, states: States, *, floats: bool) -> list[list[Any]]:
        """Return each component of the part as a column; None where there is no value."""
        assert self.part is not None
        read = (self.part.read_float if floats else None) or self.part.read
        alone = len(self.part.fields) == 1
        if alone and read is None:
            return [[None if state is ABSENT else state for state in states]]
        rows = [(state,) if alone and state is not ABSENT else state for state in states]
        read = read or sums.same
        with self._calling("lower"):
            return [
                [None if row is ABSENT else read(*row[begin:end]) for row in rows]
                for begin, end in self.part.spans()
            ]

    def answers(self, states: States, aggregate: Aggregate) -> Answers:
        """Return the answers of an aggregate that is a field of its own."""
        done: list[Any] = [s if type(s) is Lowered else self._lowered(s) for s in states]
        return Answers([aggregate.empty if s is ABSENT else s.answer for s in done], None)


def records_of(*columns: NDArray[Any]) -> NDArray[Any]:
    """Return the columns of M4 as one of records."""
    kinds = [(name, column.dtype) for name, column in zip(extremes.M4_FIELDS, columns, strict=True)]
    out = np.empty(len(columns[0]), kinds)
    for (name, _), column in zip(kinds, columns, strict=True):
        out[name] = column
    return out
