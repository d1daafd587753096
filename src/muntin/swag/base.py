"""What all sliding-window aggregators share: states, the bottom marker, counted combines, errors."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Absent, Aggregate
from muntin.algebra.laws import close
from muntin.swag.bulk import Bounds, Bulk, run

EMPTY_WINDOW: Final = "evict from an empty window: insert a record first."
BOTTOM: Final = Absent("⊥")  # no state: combines with x to x; a null value lifts to it


def checked(aggregate: Any, user: str) -> Aggregate:
    """Return the aggregate, or say what is wrong with it."""
    if isinstance(aggregate, Aggregate):
        return aggregate
    if callable(aggregate):
        name = getattr(aggregate, "__name__", "it")
        raise TypeError(f"{user} needs an aggregate; call {name}() to make one.")
    raise TypeError(f"{user} needs an aggregate such as mt.max(), not {aggregate!r}.")


class Combiner:
    """Lifts values, combines states and counts it, lowers answers."""

    inverting: ClassVar[bool] = False  # whether states must keep their precision through inverses

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = checked(aggregate, type(self).__name__)
        self.combines = 0
        self._algebra = self._aggregate.algebra(inverting=self.inverting)
        self._combine_states = self._algebra.combine
        self._lift_value = self._algebra.lift
        self._arity = self._aggregate.arity
        self._admitted: dict[type, Any] = {}  # the types seen so far, each with a state to try others on

    def _lift(self, value: Any) -> Any:
        """Return the state of one record; nothing has changed if this raises."""
        if self._arity > 1:
            return self._lift_several(value)
        if type(value) not in self._admitted:
            value = self._plain(value)
            if value is BOTTOM:
                return BOTTOM
            self._admit(type(value), self._lift_value(value), value)
        return self._lift_value(value)

    def _lift_several(self, record: Any) -> Any:
        if not isinstance(record, tuple) or len(record) != self._arity:
            raise TypeError(f"{self._aggregate!r} takes a tuple of {self._arity} values, not {record!r}.")
        value = self._plain(record[0])
        if value is BOTTOM or None in record[1 : self._aggregate.required]:
            return BOTTOM
        state = self._lift_value(value, *record[1:])
        self._admit(type(value), state, value)
        return state

    def _plain(self, value: Any) -> Any:
        """Turn nulls into the bottom marker and NumPy's scalars, whose integers wrap, into Python's."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None and self._aggregate.skips_nulls:
            return BOTTOM
        if self._aggregate.numeric and not isinstance(value, (numbers.Real, Decimal)):
            raise TypeError(f"{self._aggregate!r} takes numbers, not {value!r}.")
        return value

    def _admit(self, kind: type, state: Any, value: Any) -> None:
        """Refuse a value that cannot be combined with those before it, while the window is still whole."""
        if kind in self._admitted:
            return
        for other, sample in self._admitted.items():
            try:
                self._combine_states(self._combine_states(sample, state), sample)
            except TypeError as error:
                clash = f"{value!r} with the {other.__name__} values before it"
                raise TypeError(f"{self._aggregate!r} cannot combine {clash}.") from error
        self._admitted[kind] = state

    def _combine(self, a: Any, b: Any) -> Any:
        self.combines += 1
        if a is BOTTOM:
            return b
        if b is BOTTOM:
            return a
        return self._combine_states(a, b)

    def _answer(self, state: Any) -> Any:
        return self._aggregate.empty if state is BOTTOM else self._algebra.lower(state)

    def _product(self, states: Iterable[Any]) -> Any:
        """Combine states in order without counting: for checks."""
        total: Any = BOTTOM
        for state in states:
            if total is BOTTOM or state is BOTTOM:
                total = state if total is BOTTOM else total
            else:
                total = self._combine_states(total, state)
        return total

    def _expect(self, what: str, got: Any, states: Iterable[Any]) -> None:
        """Assert that a stored partial is the product of these states (for check_invariants)."""
        want = self._product(states)
        bottoms = (got is BOTTOM, want is BOTTOM)
        same = got is want if any(bottoms) else self._same(got, want)
        assert same, f"{what}: {got!r} is stored, but the records give {want!r}"

    def _same(self, a: Any, b: Any) -> bool:
        return close(a, b) or close(self._algebra.lower(a), self._algebra.lower(b))


class SlidingWindow(Combiner, ABC):
    """A first-in, first-out window that always knows its aggregate."""

    bulk: ClassVar[Bulk]

    @abstractmethod
    def insert(self, value: Any) -> None:
        """Add a record at the newer end."""

    @abstractmethod
    def evict(self) -> None:
        """Remove the oldest record."""

    @abstractmethod
    def query(self) -> Any:
        """Return the aggregate of the window, from the oldest record to the newest."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def stored_partials(self) -> int:
        """How many partial aggregates are stored right now."""

    @abstractmethod
    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert the paper's invariants; given the window's records, those of its contents as well."""

    def _lifted(self, window: Sequence[Any]) -> list[Any]:
        assert len(window) == len(self), f"{len(self)} records are in the window, not {len(window)}"
        return [self._lift(value) for value in window]

    def _require_record(self) -> None:
        if len(self) == 0:
            raise IndexError(EMPTY_WINDOW)

    @classmethod
    def slide(
        cls,
        aggregate: Aggregate,
        values: Any,
        window: int | None = None,
        *,
        times: Any = None,
        length: Any = None,
    ) -> NDArray[Any]:
        """Run over a whole column, compiled: the answer after each record.

        The window is the last `window` records, or with `times` those in (t - length, t]. The answers
        are a masked array if any of them is null.

        >>> import muntin as mt
        >>> mt.swag.DabaLite.slide(mt.max(), [3, 1, 2, 0], window=2).tolist()
        [3, 3, 2, 2]
        >>> mt.swag.DabaLite.slide(mt.sum(), [1, 2, 3], times=[0, 5, 12], length=10).tolist()
        [1, 3, 5]
        """
        aggregate = checked(aggregate, f"{cls.__name__}.slide")
        bulk = cls._bulk_for(aggregate)

        def one_at_a_time(records: list[Any], limits: Bounds) -> list[Any]:
            return cls(aggregate).slide_over(records, limits)

        return run(bulk, aggregate, values, window, times, length, one_at_a_time)

    @classmethod
    def _bulk_for(cls, aggregate: Aggregate) -> Bulk:
        del aggregate  # most algorithms run the same way for all
        return cls.bulk

    def slide_over(self, records: list[Any], limits: Bounds) -> list[Any]:
        """Return the answer after each record, one record at a time."""
        answers, first = [], 0
        for i, record in enumerate(records):
            for _ in range(first, limits.first(i)):
                self.evict()
            first = limits.first(i)
            self.insert(record)
            answers.append(self.query())
        return answers
