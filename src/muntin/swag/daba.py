"""DABA, the De-Amortized Banker's Aggregator: Two-Stacks with its flip spread over all operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import BOTTOM, SlidingWindow
from muntin.swag.bulk import Bulk
from muntin.swag.chunked import ChunkedDeque, Pointer


class Cell:
    """A record's own state, and the partial aggregate of the stretch that its sublist says."""

    __slots__ = ("agg", "val")

    def __init__(self, val: Any, agg: Any) -> None:
        self.val = val
        self.agg = agg


class Daba(SlidingWindow):
    """Worst-case constant time for any associative aggregate.

    The deque is cut by six pointers into the front (F to B), within it the left, right and accumulator
    sublists (L to R, R to A, A to B), and the back (B to E).
    Combines: query 1, insert at most 4, evict at most 3, on average 4 for both. Stores 2n partials.

    >>> import muntin as mt
    >>> w = mt.swag.Daba(mt.min())
    >>> for v in [1, 3, 4]:
    ...     w.insert(v)
    >>> w.evict()
    >>> w.query()
    3
    """

    bulk: ClassVar[Bulk] = Bulk("daba", partials=2)

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._deque = ChunkedDeque()
        self._F, self._E = self._deque.start, self._deque.end  # they move with the deque
        self._L, self._R, self._A, self._B = (self._F.copy() for _ in range(4))

    def __len__(self) -> int:
        return len(self._deque)

    def _pi_f(self) -> Any:
        return BOTTOM if self._F.at == self._B.at else self._F.value.agg

    def _pi_b(self) -> Any:
        return BOTTOM if self._B.at == self._E.at else _before(self._E).value.agg

    def _pi_l(self) -> Any:
        return BOTTOM if self._L.at == self._R.at else self._L.value.agg

    def _pi_r(self) -> Any:
        return BOTTOM if self._R.at == self._A.at else _before(self._A).value.agg

    def _pi_a(self) -> Any:
        return BOTTOM if self._A.at == self._B.at else self._A.value.agg

    def query(self) -> Any:
        """Return the aggregate of the window: one combine."""
        return self._answer(self._combine(self._pi_f(), self._pi_b()))

    def insert(self, value: Any) -> None:
        """Add a record at the newer end: at most four combines."""
        state = self._lift(value)
        self._deque.push_back(Cell(state, self._combine(self._pi_b(), state)))
        self._fixup()

    def evict(self) -> None:
        """Remove the oldest record: at most three combines."""
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
            return
        if L.at == B.at:  # flip
            L.put(F)
            A.put(E)
            B.put(E)
        if L.at == R.at:  # shift
            A.forward()
            R.forward()
            L.forward()
        else:  # shrink
            accumulated = self._pi_a()
            L.value.agg = self._combine(self._combine(self._pi_l(), self._pi_r()), accumulated)
            L.forward()
            A.back()
            A.value.agg = self._combine(A.value.val, accumulated)

    @property
    def stored_partials(self) -> int:
        """Two per record."""
        return self._deque.occupied() * len(Cell.__slots__)

    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert the values, partial aggregate and size invariants."""
        cells = list(self._deque.cells(self._F, self._E))
        L, R, A, B = check_sizes(self._deque, self._L, self._R, self._A, self._B)
        val = [cell.val for cell in cells]
        for i, cell in enumerate(cells):
            stretch = (
                (val[i:B] if i < L else val[i:R] if i < R else val[R : i + 1] if i < A else val[i:B])
                if i < B
                else val[B : i + 1]
            )
            self._expect(f"*(F + {i}).agg", cell.agg, stretch)
        if window is not None:
            for i, state in enumerate(self._lifted(window)):
                self._expect(f"*(F + {i}).val", val[i], [state])


def _before(pointer: Pointer) -> Pointer:
    older = pointer.copy()
    older.back()
    return older


def check_sizes(
    deque: ChunkedDeque, L: Pointer, R: Pointer, A: Pointer, B: Pointer
) -> tuple[int, int, int, int]:
    """Assert the size invariants, which DABA and DABA Lite share; return the pointers, counted from F."""
    before = [pointer.at - deque.start.at for pointer in (L, R, A, B)]
    left, right, accumulated, front = before
    back = len(deque) - front
    assert left <= right <= accumulated <= front, f"pointers out of order: {before}"
    if front or back:
        inner = front - left
        assert inner + 1 == front - back, (
            f"|lL| + |lR| + |lA| + 1 = {inner + 1}, |lF| - |lB| = {front - back}"
        )
        assert right - left == accumulated - right, f"|lL| = {right - left}, |lR| = {accumulated - right}"
    return left, right, accumulated, front
