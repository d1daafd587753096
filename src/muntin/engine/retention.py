"""Retention: what is live in an engine, and when the rest is evicted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices
from muntin.engine import tuning
from muntin.engine.ingest.batch import Values
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.output.early import EarlyResults
from muntin.engine.overflow import IntegerSums
from muntin.engine.partials.pool import crowded, pooled
from muntin.engine.slices.slice_manager import SliceManager
from muntin.engine.slices.window_manager import WindowManager
from muntin.engine.store.cells import AggregateStore


class Retention:
    """The part of an engine that counts what it holds, and evicts what no window to come can hold."""

    slices: SliceManager
    windows: WindowManager
    sums: IntegerSums
    watermark: int
    lateness: int
    early: EarlyResults | None

    def start_counting(self) -> None:
        """Hold nothing yet."""
        self._unseen = 0  # records since it was last seen whether there is something to evict
        self._cells = 256  # with twice as many, it is time to evict some

    # ---- what is live ----

    def slice_count(self) -> int:
        """Return the number of live slices, those of each key counted."""
        return sum(int(np.count_nonzero(live)) for _, live in self.live())

    def live(self) -> list[tuple[AggregateStore, NDArray[np.bool_]]]:
        """Return which cells of each store a window to come can hold."""
        return self.slices.live(self.watermark - self.lateness)

    def live_keys(self, keys: KeyTable) -> int:
        """Return the number of keys that something is remembered of."""
        if not keys.names:
            return 1
        return len(self._remembered(keys, [store.column("code")[live] for store, live in self.live()]))

    def _remembered(self, keys: KeyTable, cells: list[Codes]) -> Indices:
        """Return the numbers of keys that have cells, or something else to be remembered."""
        reach = self.watermark - self.lateness
        remembered = np.zeros(len(keys), bool)
        held = [codes for family in self.slices.families.values() for codes in family.remembered(reach)]
        early = () if self.early is None else (self.early.remembered(),)
        for codes in (*cells, *held, self.windows.remembered(), *early):
            remembered[codes] = True
        return remembered.nonzero()[0]

    def held_for(self) -> dict[str, tuple[int, int]]:
        """Return for each query the number of live slices that serve it, and their bytes.

        Of a slice, what the query reads: its bounds, and the partials of its fields. Slices that serve
        several queries are counted for each of them.
        """
        found, reach = {}, self.watermark - self.lateness
        for family in self.slices.families.values():
            count = int(np.count_nonzero(family.live(reach)))
            for planned in family.queries:
                found[planned.name] = count, count * family.store.bytes_of(planned.fields())
        return found

    def records_kept(self) -> int:
        """Return the number of records kept."""
        kept = sum(family.records for family in self.slices.families.values())
        return kept + (len(self.slices.log) if self.slices.log is not None else 0)

    def state_bytes(self) -> int:
        """Return the bytes of live slices, and of records that are kept."""
        total = sum(store.cell_bytes * int(np.count_nonzero(live)) for store, live in self.live())
        total += sum(family.nbytes for family in self.slices.families.values())
        total += sum(partials.nbytes for partials in self.slices.fields.values())
        return total + (self.slices.log.nbytes if self.slices.log is not None else 0)

    # ---- eviction ----

    def evict_now_and_then(self, keys: KeyTable, records: int = tuning.LOOK_AFTER) -> None:
        """Evict what is out of reach, once it may be half of all; looks only now and then."""
        self._unseen += records
        if self._unseen < tuning.LOOK_AFTER and not crowded(self.slices.fields):
            return
        self._unseen = 0
        if self._crowded() or len(keys) > 2 * self._cells:
            self.evict(keys)

    def evict_slices(self) -> None:
        """Evict slices that are out of reach, once they may be half of all: between the parts of a batch."""
        if self._crowded():
            self.slices.evict(self.watermark - self.lateness)
            if crowded(self.slices.fields):
                self._compact_pools()

    def evict(self, keys: KeyTable) -> None:
        """Evict all that no window to come can hold."""
        reach = self.watermark - self.lateness
        self.slices.evict(reach)
        if self.early is not None:
            self.early.evict(reach)
        self.windows.evict(reach)
        self._forget_keys(keys)
        self._compact_pools()
        if self.sums.may_overflow():
            self.sums.look_again(self.slices.stores(), self._kept_values())
        self._cells = max(256, self._held(), len(keys))

    def _crowded(self) -> bool:
        return self._held() > 2 * self._cells or crowded(self.slices.fields)

    def _held(self) -> int:
        """Return the number of cells, and of records that are kept to split them."""
        families = self.slices.families.values()
        return int(sum(family.store.count + family.splittable for family in families))

    def _compact_pools(self) -> None:
        """Leave values behind that no slice has any more."""
        fields = pooled(self.slices.fields)
        if not fields:
            return
        for family in self.slices.families.values():
            family.drop_derived()
        for number, partials in fields.items():
            stores = [store for store in self.slices.stores() if number in store.fields]
            packed = partials.pack([store.states(number) for store in stores])
            for store, states in zip(stores, packed, strict=True):
                store.place(number, states)

    def _kept_values(self) -> list[Mapping[int, Values]]:
        """Return the values of all records that are kept."""
        kept = [values for family in self.slices.families.values() for values in family.kept_values()]
        return kept if self.slices.log is None else [*kept, *(c.values for c in self.slices.log.chunks)]

    def _forget_keys(self, keys: KeyTable) -> None:
        """Forget keys without slices, if nothing of theirs must be remembered."""
        if not keys.names:
            return
        live = self._remembered(keys, [store.column("code") for store in self.slices.stores()])
        if not keys.mostly_gone(len(live)):
            return
        codes = keys.retain(live)
        self.slices.keep_keys(codes)
        self.windows.keep_keys(codes)
        if self.early is not None:
            self.early.keep_keys(codes)
