"""Holdings: what is live in an engine, counted for those who watch it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.slicing.counts import CountSlices
from muntin.slicing.keys import KeyTable
from muntin.slicing.pooled import pooled
from muntin.slicing.positions import PositionSlices
from muntin.slicing.slice_manager import SliceManager
from muntin.slicing.store import AggregateStore
from muntin.slicing.window_manager import WindowManager

Places = NDArray[np.int64]


class Holdings:
    """The part of an engine that counts."""

    slices: SliceManager
    windows: WindowManager
    watermark: int
    lateness: int

    def _stores(self) -> list[Any]:
        return [*self.slices.time_stores(), *(slices.store for slices in self._by_position())]

    def _by_position(self) -> list[CountSlices | PositionSlices]:
        return [*self.slices.counts.values(), *self.slices.positions.values()]

    def slice_count(self) -> int:
        """Return the number of live slices, those of each key counted."""
        return sum(int(np.count_nonzero(live)) for _, live in self.live())

    def live(self) -> list[tuple[AggregateStore, NDArray[np.bool_]]]:
        """Return which cells of each store a window to come can hold."""
        return self.slices.live(self.watermark, self.lateness)

    def live_keys(self, keys: KeyTable) -> int:
        """Return the number of keys that something is remembered of."""
        if not keys.names:
            return 1
        return len(self._remembered(keys, [store.column("code")[live] for store, live in self.live()]))

    def _remembered(self, keys: KeyTable, cells: list[Places]) -> Places:
        """Return the numbers of keys that have cells, or something else to be remembered."""
        reach = self.watermark - self.lateness
        remembered = np.zeros(len(keys), bool)
        counted = [slices.remembered() for slices in self.slices.counts.values()]
        marked = [slices.remembered(reach) for slices in self.slices.positions.values()]
        for codes in (*cells, *counted, *marked, *self.windows.remembered()):
            remembered[codes] = True
        return remembered.nonzero()[0]

    def records_kept(self) -> int:
        """Return the number of records kept."""
        kept = sum(slices.records for slices in self._by_position())
        return kept + (len(self.slices.log) if self.slices.log is not None else 0)

    def state_bytes(self) -> int:
        """Return the bytes of live slices, and of records that are kept."""
        total = sum(store.cell_bytes * int(np.count_nonzero(live)) for store, live in self.live())
        total += sum(slices.nbytes for slices in self._by_position())
        total += sum(partials.nbytes for partials in pooled(self.slices.fields).values())
        return total + (self.slices.log.nbytes if self.slices.log is not None else 0)
