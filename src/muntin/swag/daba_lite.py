"""DABA Lite: DABA's constant time with one partial per record instead of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import BOTTOM, SlidingWindow
from muntin.swag.bulk import Bulk
from muntin.swag.chunked import ChunkedDeque
from muntin.swag.daba import check_sizes


class DabaLite(SlidingWindow):
    """Worst-case constant time for any associative aggregate: the one to choose for low latency.

    Combines: query 1, insert at most 3, evict at most 2, on average 3 for both. Stores n + 2 partials.

    >>> import muntin as mt
    >>> w = mt.swag.DabaLite(mt.max())
    >>> for v in [5, 3, 4]:
    ...     w.insert(v)
    >>> w.evict()
    >>> w.query(), len(w)
    (4, 2)
    """

    bulk: ClassVar[Bulk] = Bulk("daba_lite", rows="daba_lite_rows", extra_rows=3)

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._deque = ChunkedDeque()
        self._F, self._E = self._deque.start, self._deque.end  # they move with the deque
        self._L, self._R, self._A, self._B = (self._F.copy() for _ in range(4))
        self._agg_ra: Any = BOTTOM
        self._agg_b: Any = BOTTOM

    def __len__(self) -> int:
        return len(self._deque)

    def _pi_f(self) -> Any:
        return BOTTOM if self._F.at == self._B.at else self._F.value

    def _pi_a(self) -> Any:
        return BOTTOM if self._A.at == self._B.at else self._A.value

    def query(self) -> Any:
        """Return the aggregate of the window: one combine."""
        return self._answer(self._combine(self._pi_f(), self._agg_b))

    def insert(self, value: Any) -> None:
        """Add a record at the newer end: at most three combines."""
        state = self._lift(value)
        self._agg_b = self._combine(self._agg_b, state)
        self._deque.push_back(state)
        self._fixup()

    def evict(self) -> None:
        """Remove the oldest record: at most two combines."""
        self._require_record()
        self._deque.pop_front()
        self._fixup()

    def _fixup(self) -> None:
        F, L, R, A, B, E = self._F, self._L, self._R, self._A, self._B, self._E
        if F.at == B.at:  # singleton
            B.put(E)
            A.put(E)
            R.put(E)
            L.put(E)
            self._agg_ra = self._agg_b = BOTTOM
            return
        if L.at == B.at:  # flip
            L.put(F)
            A.put(E)
            B.put(E)
            self._agg_ra, self._agg_b = self._agg_b, BOTTOM
        if L.at == R.at:  # shift
            A.forward()
            R.forward()
            L.forward()
        else:  # shrink; L is not R here, so its sublist has an aggregate
            L.value = self._combine(L.value, self._agg_ra)
            L.forward()
            accumulated = self._pi_a()
            A.back()
            A.value = self._combine(A.value, accumulated)

    @property
    def stored_partials(self) -> int:
        """One per record, and two for the green sublists."""
        return self._deque.occupied() + 2

    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert the contents and size invariants."""
        L, R, A, B = check_sizes(self._deque, self._L, self._R, self._A, self._B)
        self._expect("aggB", self._agg_b, self._deque.cells(self._B, self._E))
        if window is None:
            return
        states, cells = self._lifted(window), list(self._deque.cells(self._F, self._E))
        for i, cell in enumerate(cells):
            plain = R <= i < A or i >= B
            stretch = [states[i]] if plain else states[i:R] if L <= i < R else states[i:B]
            self._expect(f"*(F + {i})", cell, stretch)
        if L != R:
            self._expect("aggRA", self._agg_ra, states[R:B])
