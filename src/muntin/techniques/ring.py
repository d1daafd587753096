"""A ring of records in the leaves of a FlatFAT, compiled: what `EagerStore` does, for many records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muntin.kernels import Kernel
from muntin.techniques.partials import Partials, State, read
from muntin.techniques.stream import Places, Windows, Workload


class Taken(NamedTuple):
    """The combines that a store took, and how many partials it held at most."""

    updates: int
    merges: int
    partials: int


@dataclass(frozen=True)
class Course:
    """The edges of an in-order stream: positions where a slice begins, or windows end.

    At each, whether a slice is full, up to which window all have ended, and the first slice that is needed
    from then on. Windows are known by the slice that they begin with.
    """

    cuts: Places
    edges: Places
    is_cut: NDArray[np.bool_]
    upto: Places
    needed: Places
    begins: Places

    @classmethod
    def of(cls, workload: Workload, cuts: Places) -> Course:
        """Return the course for slices that begin at these cuts, the first of them 0."""
        windows = workload.windows
        edges = np.unique(np.concatenate([cuts[1:], windows.end, [len(workload)]]))
        upto = np.searchsorted(windows.end, edges, "right")
        begins = np.searchsorted(cuts, windows.begin)
        needed = np.searchsorted(cuts, oldest_needed(windows, edges), "right") - 1
        return cls(cuts, edges, np.isin(edges, cuts), upto, needed, begins)


def oldest_needed(windows: Windows, positions: Places) -> Places:
    """Return, for each position, where the oldest window begins that is open there; itself if none is."""
    later = np.append(np.minimum.accumulate(windows.begin[::-1])[::-1], np.iinfo(np.int64).max)
    oldest: Places = np.minimum(later[np.searchsorted(windows.end, positions, "right")], positions)
    return oldest


class Ring:
    """The leaves are the records of one aggregate; `batched` changes are combined together."""

    def __init__(self, kernel: Kernel, columns: tuple[Any, ...], *, batched: bool = False) -> None:
        self._kernel = kernel
        self._columns = columns
        self._entry = "append_all" if batched else "append"
        self._ends = np.zeros(3, np.int64)
        self.capacity = 1
        self._nodes = kernel.layout.allocate(2)
        self.updates = self.merges = 0
        self.peak = 1  # of nodes

    @classmethod
    def over(cls, partials: Partials, *, batched: bool = False) -> Ring | None:
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
        self._shrink()

    def _shrink(self) -> None:
        while 0 < 4 * (self._ends[1] - self._ends[0]) < self.capacity:
            self._arrange(self.capacity // 2)

    def follow(self, course: Course, *, eager: bool) -> tuple[list[State], Taken]:
        """Go along a whole course, with slices in the leaves; lazy: nothing is kept above them."""
        active, out = self._kernel.layout.allocate(1), self._kernel.layout.allocate(len(course.begins))
        at = np.zeros(7, np.int64)
        given = (course.edges, course.is_cut, course.upto, course.needed, course.begins, eager)
        while at[0] < len(course.edges):
            if self._ends[1] - self._ends[0] == self.capacity:
                self._arrange(2 * self.capacity)
            self._shrink()
            ring = (self._nodes, self.capacity, self._ends, active, at, out)
            self._kernel.run("sliced", self._columns, np.ones(1, bool), *given, *ring)
        states = [(read(cell),) for cell in out]
        if not eager:
            return states, Taken(0, int(at[5]), int(at[6]))
        return states, Taken(self.updates + int(at[4]), int(at[5]), self.peak + 1)
