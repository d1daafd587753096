"""Where partials are kept: a row of them (lazy), or the leaves of a FlatFAT (eager).

Partials are appended at the newer end and removed from the older one. Their numbers grow for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice

from muntin.swag.base import BOTTOM
from muntin.techniques.partials import Partials, State


class LazyStore:
    """Partials in a row: nothing is combined before a window is asked for."""

    def __init__(self, partials: Partials) -> None:
        self._partials = partials
        self._states: deque[State] = deque()
        self.first = 0  # the number of the oldest
        self.updates = self.merges = 0

    @property
    def end(self) -> int:
        """The number of the next."""
        return self.first + len(self._states)

    def append(self, state: State) -> None:
        """Add a partial at the newer end."""
        self._states.append(state)

    def merge(self, low: int, high: int) -> State:
        """Combine the partials from low to high."""
        total: State = BOTTOM
        for state in islice(self._states, low - self.first, high - self.first):
            self.merges += total is not BOTTOM
            total = self._partials.combine(total, state)
        return total

    def remove_up_to(self, number: int) -> None:
        """Free the partials before this one."""
        while self.first < number and self._states:
            self._states.popleft()
            self.first += 1


class EagerStore:
    """A FlatFAT whose leaves are a ring: `capacity` of them, a power of two.

    The root is at 1, the children of node v at 2v and 2v + 1. Each append combines all ancestors of its leaf,
    from those children that have leaves within the ring. Removals change no node: a window is made up of
    nodes that hold none but leaves of its own. A full ring is doubled, and one that is used to less than a
    quarter is halved and combined anew; at a third, as in the paper, a window that slides by half of its
    range could do both again and again. An empty one stays as it is, to be filled again.
    """

    def __init__(self, partials: Partials) -> None:
        self._partials = partials
        self.first = self.end = 0
        self._oldest_then = 0  # the oldest when the newest was added
        self.capacity = 1
        self._nodes: list[State] = [BOTTOM, BOTTOM]
        self.updates = self.merges = 0
        self.peak = 1  # of nodes

    def append(self, state: State) -> None:
        """Add a partial at the newer end."""
        self._reserve()
        v = self.capacity + (self.end & (self.capacity - 1))
        self.end += 1
        self._oldest_then = self.first
        self._nodes[v] = state
        while v > 1:
            v >>= 1
            self._join(v)

    def extend(self, states: list[State]) -> None:
        """Add partials at once: what depends on several of them is combined once, while there is room."""
        while states:
            self._reserve()
            room = self.capacity - (self.end - self.first)
            begin = self.end
            self.end += min(room, len(states))
            self._set(dict(enumerate(states[:room], start=begin)))
            states = states[room:]

    def insert(self, number: int, state: State) -> None:
        """Put a partial before the one with this number: all from there on move by a leaf."""
        self._reserve()
        moved = self._leaves(number, self.end)
        self.end += 1
        self._set(dict(enumerate([state, *moved], start=number)))

    def _leaves(self, low: int, high: int) -> list[State]:
        return [self._nodes[self.capacity + (p & (self.capacity - 1))] for p in range(low, high)]

    def _set(self, leaves: dict[int, State]) -> None:
        """Write leaves, and combine what depends on them, level by level."""
        self._oldest_then = self.first
        slots = [number & (self.capacity - 1) for number in leaves]
        for slot, state in zip(slots, leaves.values(), strict=True):
            self._nodes[self.capacity + slot] = state
        nodes: Iterable[int] = {(self.capacity + slot) >> 1 for slot in slots} - {0}
        while nodes:
            for v in nodes:
                self._join(v)
            nodes = {v >> 1 for v in nodes} - {0}

    def _join(self, v: int) -> None:
        left, right = self._within(2 * v), self._within(2 * v + 1)
        if left and right:
            self.updates += 1
            self._nodes[v] = self._partials.combine(self._nodes[2 * v], self._nodes[2 * v + 1])
        elif left or right:
            self._nodes[v] = self._nodes[2 * v if left else 2 * v + 1]

    def _within(self, v: int) -> bool:
        """Tell whether the ring has a leaf below a node."""
        below = self.capacity >> (v.bit_length() - 1)
        begin = v * below - self.capacity
        first, last = self.first & (self.capacity - 1), (self.end - 1) & (self.capacity - 1)
        if last < first:
            return begin <= last or begin + below > first
        return begin <= last and begin + below > first

    def _reserve(self) -> None:
        if self.end - self.first == self.capacity:
            self._arrange(2 * self.capacity)

    def _arrange(self, capacity: int) -> None:
        """Lay the partials out in a ring of another size."""
        states = self._leaves(self.first, self.end)
        self.capacity = capacity
        self.peak = max(self.peak, 2 * capacity - 1)
        self._nodes = [BOTTOM] * (2 * capacity)
        self._set(dict(enumerate(states, start=self.first)))

    def merge(self, low: int, high: int) -> State:
        """Combine the partials from low to high: at most two nodes of each level."""
        mask = self.capacity - 1
        if low >= high:
            return BOTTOM
        first, last, newest = low & mask, (high - 1) & mask, high == self.end
        if first <= last:
            return self._stretch(first, last, newest)
        return self._plus(self._range(first, self.capacity), self._stretch(0, last, newest))

    def _stretch(self, low: int, high: int, newest: bool) -> State:
        """Combine the leaves from slot low to high; if these are the newest, few nodes hold most of them.

        The nodes above the newest leaf were combined with it. One that had no leaf of the lap before holds
        just those from its first leaf to the newest.
        """
        if not newest:
            return self._range(low, high + 1)
        oldest = self._oldest_then & (self.capacity - 1)
        limit = oldest if oldest > high else self.capacity  # leaves from here on were of the lap before
        v, begin, size = self.capacity + high, high, 1
        while v > 1 and (start := begin & -2 * size) >= low and start + 2 * size <= limit:
            v, begin, size = v >> 1, start, 2 * size
        return self._plus(self._range(low, begin), self._nodes[v])

    def _range(self, low: int, high: int) -> State:
        left: State = BOTTOM
        right: State = BOTTOM
        v, u = self.capacity + low, self.capacity + high
        while v < u:
            if v & 1:
                left = self._plus(left, self._nodes[v])
                v += 1
            if u & 1:
                u -= 1
                right = self._plus(self._nodes[u], right)
            v, u = v >> 1, u >> 1
        return self._plus(left, right)

    def _plus(self, a: State, b: State) -> State:
        self.merges += a is not BOTTOM and b is not BOTTOM
        return self._partials.combine(a, b)

    def remove_up_to(self, number: int) -> None:
        """Free the partials before this one: no node has to change."""
        self.first = max(self.first, min(number, self.end))
        while 0 < 4 * (self.end - self.first) < self.capacity:
            self._arrange(self.capacity // 2)


Store = LazyStore | EagerStore
