"""Recalculate: keep the records, combine them all at each query."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import BOTTOM, SlidingWindow
from muntin.swag.bulk import Bulk


class Recalculate(SlidingWindow):
    """The yardstick: correct for any aggregate, n - 1 combines a query.

    >>> import muntin as mt
    >>> w = mt.swag.Recalculate(mt.max_count())
    >>> for v in [4, 5, 3, 5]:
    ...     w.insert(v)
    >>> w.query(), w.combines
    (2, 3)
    """

    bulk: ClassVar[Bulk] = Bulk("recalculate", partials=0)

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._records: deque[Any] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def insert(self, value: Any) -> None:
        """Add a record at the newer end."""
        self._records.append(self._lift(value))

    def evict(self) -> None:
        """Remove the oldest record."""
        self._require_record()
        self._records.popleft()

    def query(self) -> Any:
        """Return the aggregate of the window."""
        records = iter(self._records)
        total = next(records, BOTTOM)
        for state in records:
            total = self._combine(total, state)
        return self._answer(total)

    @property
    def stored_partials(self) -> int:
        """One per record."""
        return len(self._records)

    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert that the records are stored as they are."""
        if window is not None:
            for k, (got, state) in enumerate(zip(self._records, self._lifted(window), strict=True)):
                self._expect(f"record {k}", got, [state])
