"""FlatFIT: a circular buffer of leaps; each query makes the leaps that it used reach the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import BOTTOM, SlidingWindow
from muntin.swag.bulk import Bulk

_LEAST = 8  # slots
_FREE: Any = object()


class FlatFit(SlidingWindow):
    """Amortized constant time; combines happen in queries only. Stores n partials and n pointers.

    Slot p holds the aggregate of records p up to its leap. Positions are absolute and masked into a
    buffer that doubles when it is full and halves when three quarters of it are free.

    >>> import muntin as mt
    >>> w = mt.swag.FlatFit(mt.sum())
    >>> for v in [5, 3, 4]:
    ...     w.insert(v)
    >>> w.evict()
    >>> w.query()
    7
    """

    bulk: ClassVar[Bulk] = Bulk("flatfit", marks=2)

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._front = self._end = 0
        self._partials: list[Any] = [_FREE] * _LEAST
        self._leaps = [0] * _LEAST

    def __len__(self) -> int:
        return self._end - self._front

    def insert(self, value: Any) -> None:
        """Add a record at the newer end: no combine."""
        state = self._lift(value)
        if len(self) == len(self._partials):
            self._resize(2 * len(self._partials))
        at = self._end & (len(self._partials) - 1)
        self._partials[at] = state
        self._end += 1
        self._leaps[at] = self._end

    def evict(self) -> None:
        """Remove the oldest record: no combine."""
        self._require_record()
        self._partials[self._front & (len(self._partials) - 1)] = _FREE
        self._front += 1
        if _LEAST < len(self._partials) and len(self) < len(self._partials) // 4:
            self._resize(len(self._partials) // 2)

    def _resize(self, capacity: int) -> None:
        """Move to a buffer of another size; leaps are absolute, so they stay as they are."""
        partials, leaps = [_FREE] * capacity, [0] * capacity
        old, new = len(self._partials) - 1, capacity - 1
        for p in range(self._front, self._end):
            partials[p & new] = self._partials[p & old]
            leaps[p & new] = self._leaps[p & old]
        self._partials, self._leaps = partials, leaps

    def query(self) -> Any:
        """Return the aggregate of the window: as many combines as leaps are needed, less one."""
        if self._front == self._end:
            return self._answer(BOTTOM)
        mask = len(self._partials) - 1
        stack, p = [], self._front
        while self._leaps[p & mask] != self._end:
            stack.append(p)
            p = self._leaps[p & mask]
        total = self._partials[p & mask]
        while stack:
            p = stack.pop()
            total = self._combine(self._partials[p & mask], total)
            self._partials[p & mask] = total
            self._leaps[p & mask] = self._end
        return self._answer(total)

    @property
    def stored_partials(self) -> int:
        """One per record."""
        return sum(partial is not _FREE for partial in self._partials)

    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert that each slot holds the aggregate up to its leap, and that the buffer fits."""
        capacity = len(self._partials)
        assert len(self) <= capacity, f"{len(self)} records in {capacity} slots"
        assert capacity == _LEAST or len(self) * 4 >= capacity, (
            f"only {len(self)} records in {capacity} slots"
        )
        states = self._lifted(window) if window is not None else None
        for p in range(self._front, self._end):
            leap = self._leaps[p & (capacity - 1)]
            assert p < leap <= self._end, f"slot {p} leaps to {leap}, outside of the window"
            if states is not None:
                stretch = states[p - self._front : leap - self._front]
                self._expect(f"slot {p}", self._partials[p & (capacity - 1)], stretch)
