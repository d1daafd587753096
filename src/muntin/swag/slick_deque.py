"""SlickDeque: inverses where there are any, and for aggregates that select, a deque of candidates."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import BOTTOM, SlidingWindow
from muntin.swag.bulk import Bulk
from muntin.swag.subtract_on_evict import SubtractOnEvict


class SlickDeque(SlidingWindow):
    """Amortized constant time for aggregates that are invertible or selective.

    A selective aggregate is always one of its records (max, argmin, last). A record that a newer one
    beats is never the answer again, so only the others are kept; the oldest of them is the answer.
    Combines: amortized at most 2 an insert, none for evict and query. Stores at most n partials.

    >>> import muntin as mt
    >>> w = mt.swag.SlickDeque(mt.max())
    >>> for v in [5, 3, 4]:
    ...     w.insert(v)
    >>> w.query(), w.stored_partials
    (5, 2)
    """

    bulk: ClassVar[Bulk] = Bulk("slick_deque", marks=1)

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._front = self._end = 0
        self._candidates: deque[tuple[int, Any]] = deque()
        self._inverse = None if self._aggregate.selective else _inverse(self._aggregate)

    def __len__(self) -> int:
        return self._end - self._front if self._inverse is None else len(self._inverse)

    def insert(self, value: Any) -> None:
        """Add a record at the newer end, in the place of those that it beats."""
        if self._inverse is not None:
            self._inverse.insert(value)
            self.combines = self._inverse.combines
            return
        state = self._lift(value)
        while self._candidates and self._beats(state, self._candidates[-1][1]):
            self._candidates.pop()
        self._candidates.append((self._end, state))
        self._end += 1

    def _beats(self, newer: Any, older: Any) -> bool:
        """Tell whether the newer of two states is chosen; of equal ones, the older stays."""
        chosen = self._combine(older, newer)
        if chosen is newer or chosen is older:
            return chosen is not older or older is BOTTOM
        return identical(chosen, newer) and not identical(chosen, older)

    def evict(self) -> None:
        """Remove the oldest record."""
        self._require_record()
        if self._inverse is not None:
            self._inverse.evict()
            self.combines = self._inverse.combines
            return
        if self._candidates[0][0] == self._front:
            self._candidates.popleft()
        self._front += 1

    def query(self) -> Any:
        """Return the aggregate of the window: no combine."""
        if self._inverse is not None:
            return self._inverse.query()
        return self._answer(self._candidates[0][1] if self._candidates else BOTTOM)

    @property
    def stored_partials(self) -> int:
        """Those that may still become the answer."""
        return len(self._candidates) if self._inverse is None else self._inverse.stored_partials

    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert that each candidate is the answer for what comes from just after the one before it."""
        if self._inverse is not None:
            self._inverse.check_invariants(window)
            return
        numbers = [number for number, _ in self._candidates]
        assert numbers == sorted(set(numbers)), f"candidates out of order: {numbers}"
        assert not numbers or numbers[-1] == self._end - 1, "the newest record is always a candidate"
        if window is None:
            return
        states, begin = self._lifted(window), self._front
        for number, state in self._candidates:
            self._expect(f"candidate {number}", state, states[begin - self._front :])
            begin = number + 1

    @classmethod
    def _bulk_for(cls, aggregate: Aggregate) -> Bulk:
        return cls.bulk if aggregate.selective else SubtractOnEvict.bulk


def identical(a: Any, b: Any) -> bool:
    """Tell whether two states are the same, NaN with NaN, without allowing for rounding."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(identical, a, b))
    return bool(a == b or (a != a and b != b))


def _inverse(aggregate: Aggregate) -> SubtractOnEvict:
    if not aggregate.invertible:
        raise TypeError(
            f"SlickDeque needs an aggregate that is invertible or selective, and {aggregate!r} is neither; "
            "DabaLite takes any."
        )
    return SubtractOnEvict(aggregate)
