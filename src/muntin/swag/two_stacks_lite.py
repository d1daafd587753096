"""Two-Stacks Lite: both stacks in one deque, with a single partial for the back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import BOTTOM, SlidingWindow
from muntin.swag.bulk import Bulk
from muntin.swag.chunked import ChunkedDeque


class TwoStacksLite(SlidingWindow):
    """Two-Stacks in half the room: the best throughput where a rare pause does no harm.

    Combines: query 1, insert 1, evict amortized 1 and at most n. Stores n + 1 partials.

    >>> import muntin as mt
    >>> w = mt.swag.TwoStacksLite(mt.mean())
    >>> for v in [5, 3, 4]:
    ...     w.insert(v)
    >>> w.evict()
    >>> w.query()
    3.5
    """

    bulk: ClassVar[Bulk] = Bulk("two_stacks_lite", rows="two_stacks_lite_rows", extra_rows=2)

    def __init__(self, aggregate: Aggregate) -> None:
        super().__init__(aggregate)
        self._deque = ChunkedDeque()
        self._F, self._E = self._deque.start, self._deque.end  # they move with the deque
        self._B = self._F.copy()
        self._agg_b: Any = BOTTOM

    def __len__(self) -> int:
        return len(self._deque)

    def _pi_f(self) -> Any:
        return BOTTOM if self._F.at == self._B.at else self._F.value

    def query(self) -> Any:
        """Return the aggregate of the window: one combine."""
        return self._answer(self._combine(self._pi_f(), self._agg_b))

    def insert(self, value: Any) -> None:
        """Add a record at the newer end: one combine."""
        state = self._lift(value)
        self._agg_b = self._combine(self._agg_b, state)
        self._deque.push_back(state)

    def evict(self) -> None:
        """Remove the oldest record: no combine, unless the front is empty."""
        self._require_record()
        if self._F.at == self._B.at:
            self._flip()
        self._deque.pop_front()

    def _flip(self) -> None:
        at = self._E.copy()
        at.back()
        newer = at.value
        while at.at != self._F.at:
            at.back()
            newer = self._combine(at.value, newer)
            at.value = newer
        self._B.put(self._E)
        self._agg_b = BOTTOM

    @property
    def stored_partials(self) -> int:
        """One per record, and one for the back."""
        return self._deque.occupied() + 1

    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert that front cells reach up to B, and that the back's partial is that of its cells."""
        back = list(self._deque.cells(self._B, self._E))
        self._expect("aggB", self._agg_b, back)
        if window is None:
            return
        states, cells = self._lifted(window), list(self._deque.cells(self._F, self._E))
        B = len(states) - len(back)
        for i, cell in enumerate(cells):
            self._expect(f"*(F + {i})", cell, states[i:B] if i < B else [states[i]])
