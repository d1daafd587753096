"""Two-Stacks: a queue made of two stacks, each of which knows the aggregate from its top down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import BOTTOM, SlidingWindow
from muntin.swag.bulk import Bulk


class TwoStacks(SlidingWindow):
    """Amortized constant time; one evict in n flips the whole back stack.

    Combines: query 1, insert 1, evict amortized 1 and at most n. Stores 2n partials.

    >>> import muntin as mt
    >>> w = mt.swag.TwoStacks(mt.max())
    >>> for v in [5, 3, 4]:
    ...     w.insert(v)
    >>> w.evict()
    >>> w.query()
    4
    """

    bulk: ClassVar[Bulk] = Bulk("two_stacks", partials=2)

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._front: list[tuple[Any, Any]] = []  # (val, agg); the top is the oldest record
        self._back: list[tuple[Any, Any]] = []  # the top is the newest

    def __len__(self) -> int:
        return len(self._front) + len(self._back)

    def _top(self, stack: list[tuple[Any, Any]]) -> Any:
        return stack[-1][1] if stack else BOTTOM

    def query(self) -> Any:
        """Return the aggregate of the window: one combine."""
        return self._answer(self._combine(self._top(self._front), self._top(self._back)))

    def insert(self, value: Any) -> None:
        """Add a record at the newer end: one combine."""
        state = self._lift(value)
        self._back.append((state, self._combine(self._top(self._back), state)))

    def evict(self) -> None:
        """Remove the oldest record: no combine, unless the front is empty."""
        self._require_record()
        if not self._front:  # flip
            while self._back:
                state, _ = self._back.pop()
                self._front.append((state, self._combine(state, self._top(self._front))))
        self._front.pop()

    @property
    def stored_partials(self) -> int:
        """Two per record."""
        return sum(len(pair) for pair in self._front) + sum(len(pair) for pair in self._back)

    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert that each agg is the product of its val and those below it in the stack."""
        front = [val for val, _ in reversed(self._front)]
        back = [val for val, _ in self._back]
        for i, (_, agg) in enumerate(reversed(self._front)):
            self._expect(f"F[{i}].agg", agg, front[i:])
        for i, (_, agg) in enumerate(self._back):
            self._expect(f"B[{i}].agg", agg, back[: i + 1])
        if window is not None:
            for i, (val, state) in enumerate(zip(front + back, self._lifted(window), strict=True)):
                self._expect(f"val {i}", val, [state])
