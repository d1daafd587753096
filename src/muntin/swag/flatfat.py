"""FlatFAT: a complete binary tree of partial aggregates, flat in one array.

The root is at 1, the children of node v at 2v and 2v + 1.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import BOTTOM, Combiner


class Tree(Combiner):
    """The tree itself: `capacity` leaves, from which inner nodes are combined."""

    capacity: int
    _tree: list[Any]

    def _lay_out(self, states: list[Any], capacity: int) -> None:
        """Put states into the leaves, and the bottom marker everywhere else."""
        self.capacity = capacity
        self._tree = [BOTTOM] * capacity + states + [BOTTOM] * (capacity - len(states))

    def _refresh(self, leaves: Iterable[int]) -> None:
        """Combine what depends on these leaves, once each, level by level (lines 3 to 9 of Algorithm 2)."""
        nodes = {(self.capacity + leaf) >> 1 for leaf in leaves} - {0}
        while nodes:
            for v in nodes:
                self._join(v)
            nodes = {v >> 1 for v in nodes} - {0}

    def _join(self, v: int) -> None:
        self._tree[v] = self._combine(self._tree[2 * v], self._tree[2 * v + 1])

    def _prefix(self, i: int) -> Any:
        v = self.capacity + i
        total = self._tree[v]
        while v > 1:
            if v & 1:  # a right child: its left sibling comes before
                total = self._combine(self._tree[v - 1], total)
            v >>= 1
        return total

    def _suffix(self, j: int) -> Any:
        v = self.capacity + j
        total = self._tree[v]
        while v > 1:
            if not v & 1:
                total = self._combine(total, self._tree[v + 1])
            v >>= 1
        return total

    @property
    def stored_partials(self) -> int:
        """Two per leaf, less one."""
        return len(self._tree) - 1


def place(at: Any) -> int:
    """Return a place as an integer."""
    if not hasattr(at, "__index__") or isinstance(at, bool):
        raise TypeError(f"a place is a whole number, not {at!r}.")
    return operator.index(at)


class FlatFat(Tree):
    """A fixed number of values, any of which may change, and the aggregate of all, a prefix or a suffix.

    Room is a power of two; leaves without a value hold the bottom marker. Combines: n - 1 to build,
    at most m * (1 + ceil(log2(n / m))) for m changes, log2(n) for a prefix or suffix, none for the
    whole. Stores 2n - 1 partials.

    >>> import muntin as mt
    >>> t = mt.swag.FlatFat(mt.sum(), [1, 2, 3])
    >>> t.update({0: 5, 2: 7})
    >>> t.aggregate(), t.prefix(1), t.suffix(1)
    (14, 7, 9)
    """

    def __init__(self, aggregate: Aggregate, values: Iterable[Any]) -> None:
        super().__init__(aggregate)
        states = [self._lift(value) for value in values]
        self._size = len(states)
        self._lay_out(states, 1 << max(0, len(states) - 1).bit_length())
        self._refresh(range(self.capacity))

    def __len__(self) -> int:
        return self._size

    def update(self, changes: Mapping[int, Any]) -> None:
        """Write values to places, all or none, and combine what depends on them once."""
        states = {self._place(at): self._lift(value) for at, value in changes.items()}
        for at, state in states.items():
            self._tree[self.capacity + at] = state
        self._refresh(states)

    def aggregate(self) -> Any:
        """Return the aggregate of all values: no combine."""
        return self._answer(self._tree[1])

    def prefix(self, i: int) -> Any:
        """Return the aggregate of the values up to place i, inclusive."""
        return self._answer(self._prefix(self._place(i)))

    def suffix(self, j: int) -> Any:
        """Return the aggregate of the values from place j on, inclusive."""
        return self._answer(self._suffix(self._place(j)))

    def _place(self, at: Any) -> int:
        number = place(at)
        if not 0 <= number < self._size:
            raise IndexError(f"place {number} is outside of 0..{self._size - 1}.")
        return number

    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert that each inner node is the product of its children."""
        for v in range(1, self.capacity):
            self._expect(f"T({v})", self._tree[v], [self._tree[2 * v], self._tree[2 * v + 1]])
        if window is not None:
            assert len(window) == self._size
            for i, value in enumerate(window):
                self._expect(f"leaf {i}", self._tree[self.capacity + i], [self._lift(value)])
