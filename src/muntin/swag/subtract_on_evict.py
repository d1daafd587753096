"""Subtract-on-Evict: one running state; the inverse takes out what leaves."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

from muntin.algebra.aggregate import Aggregate, Function
from muntin.swag.base import BOTTOM, SlidingWindow
from muntin.swag.bulk import Bulk


def _finite(state: Any) -> float:
    """Return 0 for a state of finite numbers, NaN for any other."""
    if isinstance(state, float):
        return state - state
    if isinstance(state, tuple):
        return sum(_finite(item) for item in state)
    return 0.0


def _ample(_state: Any) -> float:
    return 1.0


class SubtractOnEvict(SlidingWindow):
    """Constant time for aggregates with an inverse.

    Rounding that inverses leave behind is added up; when the state can bear no more of it, or has
    taken in what is not finite, it is computed anew from the records.

    >>> import muntin as mt
    >>> w = mt.swag.SubtractOnEvict(mt.sum())
    >>> for v in [1e300, 1.0, 2.0]:
    ...     w.insert(v)
    >>> w.evict()
    >>> w.query()
    3.0
    """

    bulk: ClassVar[Bulk] = Bulk("subtract_on_evict", partials=0, inverting=True)
    inverting = True

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        if self._algebra.invert_oldest is None:
            raise TypeError(
                f"SubtractOnEvict needs an inverse for the older end, and {self._aggregate!r} has none; "
                "DabaLite needs no inverse."
            )
        self._invert_oldest: Function = self._algebra.invert_oldest
        self._error_step = self._algebra.error_step or _finite
        self._error_limit = self._algebra.error_limit or _ample
        self._records: deque[Any] = deque()
        self._values = 0  # records that are not null
        self._total: Any = BOTTOM
        self._error = 0.0

    def __len__(self) -> int:
        return len(self._records)

    def insert(self, value: Any) -> None:
        """Add a record at the newer end: one combine."""
        state = self._lift(value)
        self._total = self._combine(self._total, state)
        self._records.append(state)
        if state is not BOTTOM:
            self._values += 1
            self._error += self._error_step(self._total)

    def evict(self) -> None:
        """Remove the oldest record: one inverse, counted as a combine."""
        self._require_record()
        state = self._records.popleft()
        self.combines += 1
        if state is BOTTOM:
            return
        self._values -= 1
        if self._values == 0:
            self._total, self._error = BOTTOM, 0.0
            return
        self._total = self._invert_oldest(self._total, state)
        self._error += self._error_step(self._total)
        if not self._error <= self._error_limit(self._total):
            self._recompute()

    def _recompute(self) -> None:
        total: Any = BOTTOM
        for state in self._records:
            total = self._combine(total, state)
        self._total = total
        self._error = 0.0 * self._error_step(total)  # NaN again while what is not finite is in the window

    def query(self) -> Any:
        """Return the aggregate of the window: no combine."""
        return self._answer(self._total)

    @property
    def stored_partials(self) -> int:
        """One per record, and the running one."""
        return len(self._records) + 1

    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert that the running state is the product of the records."""
        assert self._values == sum(state is not BOTTOM for state in self._records)
        self._expect("the running state", self._total, self._records)
        if window is not None:
            self._expect("the running state", self._total, self._lifted(window))
