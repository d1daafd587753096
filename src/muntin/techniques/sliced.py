"""Techniques that cut an in-order stream into slices: Panes, Pairs, Pairs+ and Cutty.

A slice is folded record by record; where the next one begins, its partial goes into the store. The techniques
differ in where slices begin, and in whether a window may end within one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Literal

import numpy as np

from muntin.swag.base import BOTTOM
from muntin.techniques.base import Counts, Technique, row
from muntin.techniques.partials import Partials, State
from muntin.techniques.ring import Course, Ring, Taken
from muntin.techniques.stores import EagerStore, LazyStore, Store
from muntin.techniques.stream import INTEGERS, Places, Row, UnsupportedWorkload, Workload

StoreName = Literal["lazy", "eager"]
_MANY = 4096  # records: for fewer, compiling would take longer


def checked(store: StoreName) -> StoreName:
    """Return a store's name; refuse others."""
    if store not in ("lazy", "eager"):
        raise ValueError(f"store is 'lazy' or 'eager', not {store!r}.")
    return store


class _Sliced(Technique):
    """What they share."""

    store: StoreName

    @abstractmethod
    def cuts(self, workload: Workload) -> Places:
        """Return the positions of the records that slices begin with, the first of them 0."""

    def _run(self, workload: Workload, partials: Partials) -> list[Row]:
        course = Course.of(workload, self.cuts(workload))
        ring = Ring.over(partials) if len(workload) >= _MANY else None
        if ring is not None:
            states, taken = ring.follow(course, eager=self.store == "eager")
        else:
            states, taken = self._one_by_one(course, partials)
        rows = [row(workload, partials, w, state) for w, state in enumerate(states)]
        self.counts = Counts(
            online=len(workload) - len(course.cuts),
            update=taken.updates,
            merge=taken.merges,
            slices=len(course.cuts),
            partials=taken.partials,
            bytes=taken.partials * partials.state_bytes,
        )
        return rows

    def _one_by_one(self, course: Course, partials: Partials) -> tuple[list[State], Taken]:
        """Go from edge to edge: where a slice begins, or windows end.

        At each, the slice that is full is stored first, windows are merged next, and only then is what none
        of the open windows needs let go.
        """
        store: Store = EagerStore(partials) if self.store == "eager" else LazyStore(partials)
        active, reached, most = BOTTOM, 0, 0
        states: list[State] = []
        edges = zip(course.edges, course.is_cut, course.upto, course.needed, strict=True)
        for p, is_cut, upto, needed in edges:
            active = partials.combine(active, partials.fold(reached, int(p)))
            reached = int(p)
            if is_cut:
                store.append(active)
                active = BOTTOM
            most = max(most, store.end - store.first + (active is not BOTTOM))
            for begin in course.begins[len(states) : upto].tolist():
                total = store.merge(begin, store.end)
                store.merges += total is not BOTTOM and active is not BOTTOM
                states.append(partials.combine(total, active))
            store.remove_up_to(int(needed))
        room = most if isinstance(store, LazyStore) else store.peak + 1  # and the slice being filled
        return states, Taken(store.updates, store.merges, room)


def _edges(workload: Workload, edges: Places) -> Places:
    """Return edges without repetition, from the first record on."""
    return np.unique(np.append(edges[edges < len(workload)], 0)) if len(workload) else edges[:0]


class Cutty(_Sliced):
    """Slices begin where windows begin, and nowhere else; a window may end within the slice being filled.

    In-order streams; any window whose begin is known with its first record. After Carbone et al., "Cutty:
    Aggregate Sharing for User-Defined Windows" (2016), Algorithm 1, but what is stored is freed only after
    windows were merged.
    """

    def __init__(self, store: StoreName = "eager") -> None:
        self.store = checked(store)

    def check(self, workload: Workload) -> None:
        """Ask for records in order."""
        self._needs_order(workload)

    def cuts(self, workload: Workload) -> Places:
        """Return where windows begin."""
        return _edges(workload, workload.windows.begin)


class _Periodic(_Sliced):
    """Techniques that know where windows begin and end in advance."""

    def check(self, workload: Workload) -> None:
        """Ask for records in order, and for periodic windows."""
        self._needs_order(workload)
        for query in workload.queries:
            if query.window.family not in ("grid", "count"):
                kind = query.window.kind
                raise UnsupportedWorkload(f"{type(self).__name__} needs periodic windows; a {kind} is not.")


class Pairs(_Periodic):
    """Slices begin where windows begin or end, so that each slide falls into two; a lazy store.

    In-order streams, periodic windows of any number of queries. After Krishnamurthy et al., "On-the-fly
    sharing for streamed aggregation" (2006).
    """

    store: StoreName = "lazy"

    def cuts(self, workload: Workload) -> Places:
        """Return where windows begin and end."""
        return _edges(workload, np.concatenate([workload.windows.begin, workload.windows.end]))


class PairsPlus(Pairs):
    """Pairs with an eager store."""

    store: StoreName = "eager"


class Panes(_Periodic):
    """Slices of one size: the greatest common divisor of range and slide; a lazy store.

    In-order streams, one periodic query. After Li et al., "No pane, no gain" (2005).
    """

    def __init__(self, store: StoreName = "lazy") -> None:
        self.store = checked(store)

    def check(self, workload: Workload) -> None:
        """Ask for one periodic query."""
        super().check(workload)
        if len(workload.queries) > 1:
            raise UnsupportedWorkload("Panes serves one query; its panes are those of one range and slide.")

    def cuts(self, workload: Workload) -> Places:
        """Return where panes begin that have records."""
        (query,) = workload.queries
        grid = query.window.resolved(INTEGERS)
        size = math.gcd(grid.length, grid.pitch)
        along = np.arange(len(workload)) if query.window.family == "count" else workload.times
        pane = (along - grid.offset) // size
        return _edges(workload, np.flatnonzero(np.diff(pane)) + 1)
