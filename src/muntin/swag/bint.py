"""B-Int: aggregates of base intervals, aligned stretches of 1, 2, 4, ... records (Arasu and Widom)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import BOTTOM, SlidingWindow
from muntin.swag.bulk import Bulk


class BInt(SlidingWindow):
    """Logarithmic time; any stretch of the window can be asked for, not only the whole.

    Level k holds the finished intervals [j * 2^k, (j + 1) * 2^k) that lie within the window. An insert
    finishes amortized one interval; a query puts together at most 2 log2 n. Stores less than 2n partials.

    >>> import muntin as mt
    >>> w = mt.swag.BInt(mt.sum())
    >>> for v in [5, 3, 4]:
    ...     w.insert(v)
    >>> w.evict()
    >>> w.query()
    7
    """

    bulk: ClassVar[Bulk] = Bulk("bint", partials=2)

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._front = self._end = 0
        self._levels: list[deque[Any]] = [deque()]
        self._first = [0]  # the number j of the oldest interval that each level keeps

    def __len__(self) -> int:
        return self._end - self._front

    def insert(self, value: Any) -> None:
        """Add a record at the newer end: a combine for each interval that it finishes."""
        total, number = self._lift(value), self._end
        self._append(0, number, total)
        self._end += 1
        level = 0
        while number & 1 and number - 1 >= self._first[level] and len(self._levels[level]) > 1:
            total = self._combine(self._levels[level][-2], total)
            level, number = level + 1, number >> 1
            self._append(level, number, total)

    def _append(self, level: int, number: int, total: Any) -> None:
        if level == len(self._levels):
            self._levels.append(deque())
            self._first.append(number)
        if not self._levels[level]:
            self._first[level] = number
        self._levels[level].append(total)

    def evict(self) -> None:
        """Remove the oldest record and the intervals that it is in: no combine."""
        self._require_record()
        for level, intervals in enumerate(self._levels):
            if intervals and self._first[level] << level <= self._front:
                intervals.popleft()
                self._first[level] += 1
        self._front += 1
        while len(self._levels) > 1 and not self._levels[-1]:
            self._levels.pop()
            self._first.pop()

    def query(self) -> Any:
        """Return the aggregate of the window: a combine less than it has base intervals."""
        total: Any = BOTTOM
        for k, (level, number) in enumerate(self._cover()):
            interval = self._levels[level][number - self._first[level]]
            total = self._combine(total, interval) if k else interval
        return self._answer(total)

    def _cover(self) -> Iterator[tuple[int, int]]:
        """Return the fewest base intervals that make up the window, from the oldest."""
        p = self._front
        while p < self._end:
            level = 0
            while p >> level & 1 == 0 and p + (2 << level) <= self._end:
                level += 1
            yield level, p >> level
            p += 1 << level

    @property
    def stored_partials(self) -> int:
        """Less than two per record."""
        return sum(len(level) for level in self._levels)

    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert that all finished intervals within the window are there, and only those."""
        states = self._lifted(window) if window is not None else None
        level = 0
        while level < len(self._levels) or (1 << level) <= len(self):
            first = -(-self._front >> level)
            last = self._end >> level
            kept = self._levels[level] if level < len(self._levels) else deque()
            assert len(kept) == max(0, last - first), (
                f"level {level} has {len(kept)} intervals, not {last - first}"
            )
            for j, interval in enumerate(kept, first):
                begin = (j << level) - self._front
                if states is not None:
                    self._expect(
                        f"interval {j} of level {level}", interval, states[begin : begin + (1 << level)]
                    )
            level += 1
