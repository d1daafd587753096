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
from muntin.techniques.base import Begins, Counts, Technique, row
from muntin.techniques.partials import Partials
from muntin.techniques.stores import EagerStore, LazyStore, Store
from muntin.techniques.stream import _INTEGERS, Places, Row, UnsupportedWorkload, Workload

StoreName = Literal["lazy", "eager"]


class _Sliced(Technique):
    """What they share."""

    store: StoreName

    @abstractmethod
    def cuts(self, workload: Workload) -> Places:
        """Return the positions of the records that slices begin with, the first of them 0."""

    def _run(self, workload: Workload, partials: Partials) -> list[Row]:
        """Go from edge to edge: where a slice begins, or windows end.

        At each, the slice that is full is stored first, windows are merged next, and only then is what none
        of the open windows needs let go.
        """
        windows, cuts = workload.windows, self.cuts(workload)
        store: Store = EagerStore(partials) if self.store == "eager" else LazyStore(partials)
        begins, rows, most = Begins(), [], 0
        opening = np.sort(windows.begin).tolist()
        slice_of = np.searchsorted(cuts, windows.begin).tolist()  # each window begins with a slice
        cut_list, begin_list = cuts.tolist(), windows.begin.tolist()
        active, reached, opened, w = BOTTOM, 0, 0, 0
        for p in np.unique(np.concatenate([cuts, windows.end, [len(workload)]])).tolist():
            if p > reached:
                active = partials.combine(active, partials.fold(reached, p))
            reached = p
            if store.end + 1 < len(cut_list) and cut_list[store.end + 1] == p:
                store.append(active)
                active = BOTTOM
            while opened < len(opening) and opening[opened] <= p:
                begins.open(opening[opened])
                opened += 1
            most = max(most, store.end - store.first + (active is not BOTTOM))
            emitted = w
            while w < len(windows) and windows.end[w] == p:
                total = store.merge(slice_of[w], store.end)
                store.merges += total is not BOTTOM and active is not BOTTOM
                rows.append(row(workload, partials, w, partials.combine(total, active)))
                begins.close(begin_list[w])
                w += 1
            if w > emitted or active is BOTTOM:
                oldest = begins.oldest(otherwise=p)
                store.remove_up_to(int(np.searchsorted(cuts, oldest, "right")) - 1)
        room = most if isinstance(store, LazyStore) else store.peak + 1  # and the slice being filled
        self.counts = Counts(
            online=len(workload),
            update=store.updates,
            merge=store.merges,
            slices=len(cuts),
            partials=room,
            bytes=room * partials.state_bytes,
        )
        return rows


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
        if store not in ("lazy", "eager"):
            raise ValueError(f"store is 'lazy' or 'eager', not {store!r}.")
        self.store = store

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
        self.store = store

    def check(self, workload: Workload) -> None:
        """Ask for one periodic query."""
        super().check(workload)
        if len(workload.queries) > 1:
            raise UnsupportedWorkload("Panes serves one query; its panes are those of one range and slide.")

    def cuts(self, workload: Workload) -> Places:
        """Return where panes begin that have records."""
        (query,) = workload.queries
        grid = query.window.resolved(_INTEGERS)
        size = math.gcd(grid.length, grid.pitch)
        along = np.arange(len(workload)) if query.window.family == "count" else workload.times
        pane = (along - grid.offset) // size
        return _edges(workload, np.flatnonzero(np.diff(pane)) + 1)
