"""Subtract-on-Evict: one running state; the inverse takes out what leaves."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

from muntin.algebra.aggregate import Aggregate, Algebra, Function
from muntin.swag.base import BOTTOM, SlidingWindow
from muntin.swag.bulk import Bulk


def _floats(state: Any) -> list[float]:
    items = state if isinstance(state, tuple) else (state,)
    return [item for item in items if isinstance(item, float)]


class _Rounding:
    """How much rounding inverses may have left in a state: as the aggregate says, or float by float."""

    def __init__(self, algebra: Algebra) -> None:
        self._step, self._limit = algebra.error_step, algebra.error_limit
        self.clear()

    def clear(self) -> None:
        self._error = 0.0
        self._errors: list[float] = []

    def grow(self, state: Any) -> None:
        if self._step is not None:
            self._error += self._step(state)
            return
        floats = _floats(state)
        errors = self._errors or [0.0] * len(floats)
        self._errors = [e + 1.2e-16 * abs(x) + (x - x) for e, x in zip(errors, floats, strict=True)]

    def bears(self, state: Any) -> bool:
        if self._limit is not None:
            return bool(self._error <= self._limit(state))
        return all(e <= 1e-12 * abs(x) for e, x in zip(self._errors, _floats(state), strict=True))


class SubtractOnEvict(SlidingWindow):
    """Constant time for aggregates with an inverse.

    Rounding that inverses leave behind is added up; when the state can bear no more of it, it is
    computed anew from the records. So it is at each evict while NaN or infinity is in the window, which
    costs n combines: DabaLite does not mind them.

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
        self._rounding = _Rounding(self._algebra)
        self._records: deque[Any] = deque()
        self._values = 0  # records that are not null
        self._total: Any = BOTTOM

    def __len__(self) -> int:
        return len(self._records)

    def insert(self, value: Any) -> None:
        """Add a record at the newer end: one combine."""
        state = self._lift(value)
        self._total = self._combine(self._total, state)
        self._records.append(state)
        if state is not BOTTOM:
            self._values += 1
            self._rounding.grow(self._total)

    def evict(self) -> None:
        """Remove the oldest record: one inverse, counted as a combine."""
        self._require_record()
        state = self._records.popleft()
        self.combines += 1
        if state is BOTTOM:
            return
        self._values -= 1
        if self._values == 0:
            self._total = BOTTOM
            self._rounding.clear()
            return
        self._total = self._invert_oldest(self._total, state)
        self._rounding.grow(self._total)
        if not self._rounding.bears(self._total):
            self._recompute()

    def _recompute(self) -> None:
        total: Any = BOTTOM
        for state in self._records:
            total = self._combine(total, state)
        self._total = total
        self._rounding.clear()
        self._rounding.grow(total)

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
