"""A ring of records in the leaves of a FlatFAT, compiled: what `EagerStore` does, for many records."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels import Kernel
from muntin.techniques.partials import Partials, State, read
from muntin.techniques.stream import Places


class Ring:
    """The leaves are the records of one aggregate; `batched` changes are combined together."""

    def __init__(self, kernel: Kernel, columns: tuple[Any, ...], *, batched: bool) -> None:
        self._kernel = kernel
        self._columns = columns
        self._entry = "append_all" if batched else "append"
        self._ends = np.zeros(3, np.int64)
        self.capacity = 1
        self._nodes = kernel.layout.allocate(2)
        self.updates = self.merges = 0
        self.peak = 1  # of nodes

    @classmethod
    def over(cls, partials: Partials, *, batched: bool) -> Ring | None:
        """Return a ring, if there is one aggregate only and it is compiled."""
        part = partials.alone()
        if part is None or part.columns is None or part.kernel is None:
            return None
        return cls(part.kernel, part.columns.arrays, batched=batched)

    def append(self, low: int, high: int) -> None:
        """Append the records from low to high; the ring is doubled when it is full."""
        while low < high:
            used = int(self._ends[1] - self._ends[0])
            if used == self.capacity:
                self._arrange(2 * self.capacity)
            stop = min(high, low + self.capacity - used)
            arguments = (self._columns, np.ones(1, bool), low, stop, self._nodes, self.capacity, self._ends)
            self.updates += self._kernel.run(self._entry, *arguments)
            low = stop

    def _arrange(self, capacity: int) -> None:
        nodes = self._kernel.layout.allocate(2 * capacity)
        self.updates += self._kernel.run("moved", self._nodes, self.capacity, nodes, capacity, self._ends)
        self._nodes, self.capacity = nodes, capacity
        self.peak = max(self.peak, 2 * capacity - 1)

    def suffixes(self, low: Places) -> list[State]:
        """Return the states of the records from each of these on."""
        out = self._kernel.layout.allocate(len(low))
        self.merges += self._kernel.run("suffixes", self._nodes, self.capacity, self._ends, low, out)
        return [(read(cell),) for cell in out]

    def remove_up_to(self, number: int) -> None:
        """Free the records before this one; a ring that is used to less than a quarter is halved."""
        self._ends[0] = max(self._ends[0], min(number, self._ends[1]))
        while self.capacity > 1 and 4 * (self._ends[1] - self._ends[0]) < self.capacity:
            self._arrange(self.capacity // 2)
