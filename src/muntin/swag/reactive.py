"""The Reactive Aggregator: a window of any removal order as a circular buffer in the leaves of a FlatFAT."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any

from muntin.algebra.aggregate import Aggregate
from muntin.swag.base import BOTTOM, EMPTY_WINDOW
from muntin.swag.flatfat import Tree, place

_LEAST = 8  # slots; from here on, a buffer of half the size is at least 3/8 full


class ReactiveAggregator(Tree):
    """A window whose records may leave in any order; changes are combined when it is triggered.

    While records leave first-in, first-out, free slots hold no marker: nodes skip what lies outside of
    the buffer's ends. The first removal from within turns markers on. A full buffer is compacted
    if at most 3/4 of it are records, else doubled; it is halved below 1/4.

    >>> import muntin as mt
    >>> r = mt.swag.ReactiveAggregator(mt.sum())
    >>> for v in [4, 7, 3, 2]:
    ...     r.insert(v)
    >>> r.remove(1)
    >>> r.trigger()
    9
    """

    def __init__(self, aggregate: Aggregate) -> None:
        self._front = self._end = 0  # positions grow for ever; slots are positions modulo the capacity
        self._holes: list[int] = []  # positions between them whose records were removed, in order
        self._markers = False
        self._dirty: set[int] = set()  # slots that changed since the last trigger
        super().__init__(aggregate)
        self._arrange([], _LEAST)

    def __len__(self) -> int:
        return self._end - self._front - len(self._holes)

    # ---- changes ----

    def insert(self, value: Any) -> None:
        """Add a record at the newer end."""
        state = self._lift(value)
        if self._end - self._front == self.capacity:
            compact = 4 * len(self) <= 3 * self.capacity
            self._arrange(self._records(), self.capacity if compact else 2 * self.capacity)
        self._write(self._end, state)
        self._end += 1

    def evict(self) -> None:
        """Remove the oldest record."""
        if len(self) == 0:
            raise IndexError(EMPTY_WINDOW)
        self.remove(0)

    def remove(self, i: int) -> None:
        """Remove the i-th oldest record, counting from 0."""
        i = place(i)
        if not 0 <= i < len(self):
            raise IndexError(f"there is no record {i} in a window of {len(self)}.")
        self._clear(self._position(i))
        if self.capacity > _LEAST and 4 * len(self) < self.capacity:
            self._arrange(self._records(), self.capacity // 2)

    def _position(self, i: int) -> int:
        """Return where the i-th oldest record is: as many places further as there are holes before it."""
        records_before = range(len(self._holes))
        k = bisect_left(records_before, i + 1, key=lambda k: self._holes[k] - self._front - k)
        return self._front + i + k

    def _clear(self, position: int) -> None:
        if position not in (self._front, self._end - 1) and not self._markers:
            self._mark_free_slots()
        if self._markers:
            self._write(position, BOTTOM)
        self._dirty.add(position & (self.capacity - 1))
        insort(self._holes, position)
        while self._holes and self._holes[0] == self._front:
            self._holes.pop(0)
            self._front += 1
        while self._holes and self._holes[-1] == self._end - 1:
            self._holes.pop()
            self._end -= 1

    def _write(self, position: int, state: Any) -> None:
        slot = position & (self.capacity - 1)
        self._tree[self.capacity + slot] = state
        self._dirty.add(slot)

    def _mark_free_slots(self) -> None:
        self._markers = True
        for position in range(self._end, self._front + self.capacity):
            self._write(position, BOTTOM)

    def _records(self) -> list[Any]:
        holes = set(self._holes)
        positions = (p for p in range(self._front, self._end) if p not in holes)
        return [self._tree[self.capacity + (p & (self.capacity - 1))] for p in positions]

    def _arrange(self, states: list[Any], capacity: int) -> None:
        """Start anew without holes in a buffer of this size; the next trigger combines it."""
        self._lay_out(states, capacity)
        self._front, self._end, self._holes = 0, len(states), []
        self._dirty = set(range(capacity if self._markers else len(states)))

    # ---- the answer ----

    def trigger(self) -> Any:
        """Combine all changes since the last trigger and return the aggregate of the window."""
        self._refresh(self._dirty)
        self._dirty = set()
        if len(self) == 0:
            return self._answer(BOTTOM)
        first, last = self._front & (self.capacity - 1), (self._end - 1) & (self.capacity - 1)
        if last < first:  # the buffer is inverted
            return self._answer(self._combine(self._suffix(first), self._prefix(last)))
        return self._answer(self._tree[1])

    def _join(self, v: int) -> None:
        """Combine a node from those children that have slots within the buffer."""
        if self._markers:
            super()._join(v)
            return
        left, right = self._within(2 * v), self._within(2 * v + 1)
        if left and right:
            super()._join(v)
        elif left or right:
            self._tree[v] = self._tree[2 * v if left else 2 * v + 1]

    def _within(self, v: int) -> bool:
        """Tell whether the buffer has a slot among the leaves below a node."""
        if self._front == self._end:
            return False
        below = self.capacity >> (v.bit_length() - 1)
        begin = v * below - self.capacity
        first, last = self._front & (self.capacity - 1), (self._end - 1) & (self.capacity - 1)
        if last < first:
            return begin <= last or begin + below > first
        return begin <= last and begin + below > first

    def check_invariants(self, window: Sequence[Any] | None = None) -> None:
        """Assert that the buffer fits, and right after a trigger that nodes are their children's products."""
        assert len(self) <= self._end - self._front <= self.capacity
        assert self.capacity == _LEAST or 4 * len(self) >= self.capacity, f"{len(self)} in {self.capacity}"
        if window is not None:
            assert len(window) == len(self)
            for i, (got, value) in enumerate(zip(self._records(), window, strict=True)):
                self._expect(f"record {i}", got, [self._lift(value)])
        if not self._dirty:
            for v in range(1, self.capacity):
                children = [self._tree[c] for c in (2 * v, 2 * v + 1) if self._markers or self._within(c)]
                if children:
                    self._expect(f"T({v})", self._tree[v], children)
