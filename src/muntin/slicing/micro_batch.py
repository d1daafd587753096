"""The engine under one watermark for each micro-batch: the policy of Spark.

All records of a micro-batch are judged by its watermark, then the view moves from the old watermark to it in
one go. Records may also come as panes, cut and merged elsewhere.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.slicing.edges import NEVER
from muntin.slicing.ended import count_late
from muntin.slicing.engine import Engine
from muntin.slicing.fields import Values
from muntin.slicing.keys import KeyTable
from muntin.slicing.pace import Survey
from muntin.slicing.rows import Emission
from muntin.slicing.slicer import Stretch
from muntin.slicing.store import Panes
from muntin.windows.base import Query

Places = NDArray[np.int64]


class MicroBatchEngine(Engine):
    """An engine that is told the watermark with each batch."""

    def take(self, name: str, query: Query, origin: int | None) -> None:
        """Take up one query, whose stream begins after the origin.

        Each by itself: its fields then follow from it alone, so that whoever cuts panes for this engine needs
        to know nothing of the queries that were there before.
        """
        self._take_up(name, query, origin)

    def process_at(
        self,
        watermark: int,
        times: Places,
        codes: Places,
        keys: KeyTable,
        values: dict[int, Values],
        tie: NDArray[np.generic] | None,
        survey: Survey,
    ) -> tuple[pa.Table, Places]:
        """Take in records, and move the watermark; return rows, and the places of records dropped."""
        before, emission = self.watermark, Emission()
        marks = np.full(len(times), watermark)
        self._note(codes, times, marks, watermark)
        stretch = Stretch(times, codes, len(keys), values, survey.disordered, survey.low, survey.high)
        if survey.low >= watermark:
            on_time: Stretch | None = stretch
            behind = dropped = np.empty(0, np.int64)
            on_time_tie = tie
        else:
            in_time, behind, dropped = self._classify(stretch, marks)
            on_time = stretch.take(in_time) if len(in_time) else None
            on_time_tie = None if tie is None else tie[in_time]
        touching = on_time is not None and on_time.low < before
        self._absorb(on_time, on_time_tie, before, touching)
        self.largest, self.watermark = max(self.largest, survey.high), watermark
        frozen = before
        if len(behind):
            frozen = self._freeze(emission, before, watermark)
            part = stretch.take(behind)
            self.slices.update(part, None if tie is None else tie[behind], overdue=True)
        self._emit(emission, before, watermark, frozen, touching or len(behind) > 0)
        return self.tables.table(emission, keys), dropped

    def process_panes_at(self, watermark: int, panes: Panes, keys: KeyTable) -> tuple[pa.Table, int]:
        """Take in panes, and move the watermark; return rows, and the number of records dropped.

        Only where `merges_ahead` allows it for all queries.
        """
        before, emission = self.watermark, Emission()
        self._old_sessions = None
        panes, dropped = self._wanted_panes(watermark, panes)
        codes, times = np.append(panes.code, panes.code), np.append(panes.first, panes.last)
        self._note(codes, times, np.full(len(times), watermark), watermark)
        self.watermark = watermark
        frozen, late = before, False
        if len(panes):
            self.largest = max(self.largest, int(panes.last.max()))
            behind = int(panes.start.min()) < watermark - self.lateness
            late = behind or int(panes.first.min()) < before
            if behind:
                frozen = self._freeze(emission, before, watermark)
            self._put(panes)
        self._emit(emission, before, watermark, frozen, late)
        return self.tables.table(emission, keys), dropped

    def _freeze(self, emission: Emission, before: int, watermark: int) -> int:
        """Emit windows that no record counts for any more, before late ones change their slices."""
        rows = self.windows.grid_rows(before, watermark, before, watermark, True)
        self._rows(emission, [(self.slices.grid, r) for r in rows])
        return max(before, watermark)

    def _wanted_panes(self, watermark: int, panes: Panes) -> tuple[Panes, int]:
        """Return the panes that count for some window, and how many late records the others hold."""
        if watermark == NEVER or not len(panes):
            return panes, 0
        marks = np.full(len(panes), watermark)
        wanted = panes.last >= watermark
        for planned in self.plan.of_family("grid"):
            wanted |= count_late(planned, panes.start, marks - self.lateness)
        if wanted.all():
            return panes, 0
        return panes.take(np.flatnonzero(wanted)), int(panes.rows[~wanted].sum())

    def _put(self, panes: Panes) -> None:
        slices = self.slices
        if slices.grid is not None and slices.slicer is not None and slices.slicer.grid is not None:
            starts = slices.slicer.grid.floors(panes.start)  # who cut them may have known of more edges
            slices._put(slices.grid, panes.starting(starts), None)
        for origin, store in slices.sessions.items():
            slices._put(store, panes, slices.gap(origin))
            self.windows.expect_sessions(int(panes.first.min()))
