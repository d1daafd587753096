"""Slices of windows on grids of time: one store for all of them, cut where any window begins or ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Times
from muntin.engine import tuning
from muntin.engine.partials.base import FieldPartials
from muntin.engine.plan.queries import PlannedQuery
from muntin.engine.rows import INSERT, NEVER, UPDATE, Rows
from muntin.engine.slices.edges import EdgeGrid
from muntin.engine.slices.family import Adapted, Arrival, Cuts, Moment, Origin, Setting, Spot, TimeFamily
from muntin.engine.slices.grid.empty_windows import EmptyWindows, Expected, Records
from muntin.engine.slices.grid.windows import (
    count_late,
    found_windows,
    listed_windows,
    next_end,
    own_windows,
    single_slices,
)
from muntin.engine.slices.slicer import StreamSlicer
from muntin.engine.store.cells import BEHIND, AggregateStore
from muntin.engine.store.ordered import Ordered
from muntin.engine.store.panes import Panes
from muntin.engine.transaction import Steps, Transactional
from muntin.windows.grid import last_ended


class GridSlices(TimeFamily):
    """The slices of all windows on grids; queries that came later read those after their origin."""

    kind = "grid"
    by_origin = False
    takes_overdue = True
    on_grid = True
    often = ("_next_end", "dropped_before")

    def __init__(self, setting: Setting, origin: Origin, fields: Mapping[int, FieldPartials]) -> None:
        super().__init__(setting, origin, fields)
        self.empty = EmptyWindows(setting.lateness)
        self.dropped_before = NEVER  # slices that start before this are gone
        self._edges: EdgeGrid | None = None  # where batches are cut
        self._kept_edges: EdgeGrid | None = None  # those that stay once windows have ended, if fewer
        self._next_end: float = NEVER  # before this, no window ends
        self._slice_by_slice: PlannedQuery | None = None  # the only query, if each of its windows is a slice
        self._listed: list[Any] = []  # users' grids, which get to know longer windows as they are asked

    @property
    def longest(self) -> int:
        """The length of the longest window; that of a user's grid is known as far as it was asked."""
        length: int = max(planned.window.length for planned in self.queries)
        return length

    def begin(self, steps: Steps) -> None:
        """Write down the lengths of users' grids, which say what is live."""
        steps += [(grid.restore, grid.length) for grid in self._listed]

    def rolled_back(self) -> None:
        """Let users' grids know of the slices that there are."""
        starts = self.store.column("start")
        for grid in self._listed:
            grid.learn(starts[starts > NEVER])

    # ---- queries ----

    def adapt(self, adapted: Adapted) -> None:
        """Follow a change of the queries."""
        super().adapt(adapted)
        self.empty.follow(self.queries)
        self._next_end = NEVER
        self._listed = [planned.window for planned in self.queries if planned.window.listed]
        starts = [(*p.window.progressions()[0], _origin(p)) for p in self.queries if not p.window.irregular]
        only_starts = all(adapted.decisions[p.number].cut_at == "starts" for p in self.queries)
        cuts = self.cuts()
        fewer = only_starts and set(starts) != set(cuts.progressions)
        self._kept_edges = EdgeGrid(starts, cuts.irregular) if fewer else None
        first = self.queries[0]
        alone = len(self.queries) == 1 and first.origin is None and not first.query.emit_empty
        alone = alone and not first.window.irregular and first.window.steps == 1
        end_to_end = alone and first.window.pitch == first.window.length
        self._slice_by_slice = first if end_to_end else None

    def cuts(self) -> Cuts:
        """Return the edges of all windows."""
        regular = [p for p in self.queries if not p.window.irregular]
        irregular = [(p.window, _origin(p)) for p in self.queries if p.window.irregular]
        return Cuts(
            [(*edge, _origin(p)) for p in regular for edge in p.window.progressions()], irregular, None
        )

    def cut_anew(self, slicer: StreamSlicer) -> None:
        """Merge slices at edges that there are no longer."""
        self._edges = slicer.grid
        if self.store.count and slicer.grid:
            cut = slicer.grid.floors(self.store.column("start"))
            if (cut != self.store.column("start")).any():
                self.store.recut(cut)

    def lasting_edges(self) -> EdgeGrid | None:
        """Return the edges of slices that stay, once windows that end there have passed."""
        return self._kept_edges or self._edges

    # ---- records ----

    def add(self, arrival: Arrival) -> NDArray[np.int64]:
        """Put records into slices."""
        return self.merge(arrival.panes(), None, arrival)

    def put(self, panes: Panes) -> None:
        """Put panes into slices; who cut them may have known of more edges."""
        if self._edges is not None:
            self.merge(panes.starting(self._edges.floors(panes.start)), None, None)

    def adds_single(self) -> bool:
        """Tell whether no query reports windows without records."""
        return not self.reports_empty

    @property
    def checks_times(self) -> bool:
        """Whether a grid says itself how far it reaches."""
        return any(planned.window.irregular for planned in self.queries)

    @property
    def reports_empty(self) -> bool:
        """Whether a query reports windows without records."""
        return bool(self.empty.spans)

    def spot(self, code: int, t: int) -> Spot | None:
        """Return the slice of a record, if it is the latest of its key."""
        assert self._edges is not None
        start = self._edges.floor(t)
        at = self.store.place_of(code, start)
        return None if at == BEHIND else Spot(self.store, start, at)

    def part_size(self, keys: int, *, alone: bool) -> int | None:
        """Return a size that pays where records are scattered over cells and each window is one of them."""
        del alone
        if self.empty.spans or self._slice_by_slice is None or keys <= 1:
            return None
        return tuning.PART

    def wants(self, times: Times, frozen: Times, overdue: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which late records count for a window that is not done, however late they are."""
        del overdue
        wanted = np.zeros(len(times), bool)
        for planned in self.queries:
            wanted |= count_late(planned, times, frozen)
        return wanted

    def check_span(self, low: int, high: int) -> None:
        """Refuse times that a grid does not reach."""
        for planned in self.queries:
            if planned.window.irregular:
                planned.window.check(low, high)

    def expect_empty(self, records: Records, before: int, after: int) -> list[Expected]:
        """Return what records, and a watermark after them, would do for queries with empty windows."""
        return self.empty.expect(records, before, after, self.store) if self.empty.spans else []

    # ---- rows ----

    def advance(self, moment: Moment) -> list[tuple[AggregateStore, Rows]]:
        """Return windows that came into view or changed, and those without records."""
        rows = [*self._rows(moment, None), *self.empty.rows(moment.after)]
        return [(self.store, some) for some in rows]

    def freeze(self, moment: Moment, level: int) -> list[tuple[AggregateStore, Rows]]:
        """Return windows that no record counts for any more once the watermark is at a level."""
        return [(self.store, some) for some in self._rows(moment, level)]

    def _rows(self, moment: Moment, freezing: int | None) -> list[Rows]:
        """Return windows that came into view, or (in a late call) are in view and changed.

        Only those that freeze after `moment.frozen` and, unless it is None, no later than at `freezing`.
        """
        store, lateness, late = self.store, self.setting.lateness, moment.late
        if not store.count:
            return []
        seen = moment.before if not late else moment.frozen - lateness
        shown = moment.after if freezing is None else min(moment.after, freezing - lateness)
        if not late and shown < self._next_end:
            return []
        if not late and self._slice_by_slice is not None:
            found = [single_slices(self._slice_by_slice, store, seen, shown)]
        else:
            found = self._windows_between(store.ordered(), seen, shown)
        if freezing is None:
            self._next_end = min(next_end(p.window, moment.after) for p in self.queries)
        if late:
            found = [self._changed(store.ordered(), rows, moment.before) for rows in found]
        found = [rows for rows in found if len(rows)]
        for rows in found:
            self.empty.fill(rows)
        return found

    def _windows_between(self, ordered: Ordered, seen: int, shown: int) -> list[Rows]:
        """Return the windows with records that end after `seen`, and at `shown` or before."""
        one_key = ordered.code[0] == ordered.code[-1]
        if one_key:
            low, high = int(ordered.start[0]), int(ordered.start[-1])
        else:
            low, high = int(ordered.start.min()), int(ordered.start.max())
        seen, shown = max(seen, low), min(shown, high + self.longest)
        if shown <= seen:
            return []
        ranges = []
        found = [own_windows(p, ordered, seen, shown) for p in self.queries if p.window.listed]
        for planned in self.queries:
            if planned.window.listed:
                continue
            first = last_ended(planned.window, seen) + 1
            if planned.origin is not None:
                first = max(first, planned.window.high(planned.origin) + 1)
            ranges.append((planned, first, last_ended(planned.window, shown)))
        ranges = [(planned, first, last) for planned, first, last in ranges if first <= last]
        if not ranges:
            return found
        dense: list[tuple[PlannedQuery, int, int]] = []
        sparse: list[tuple[PlannedQuery, int, int]] = []
        for planned, first, last in ranges:
            some = one_key and not planned.window.irregular and last - first < len(ordered) + 64
            (dense if some else sparse).append((planned, first, last))
        found += [listed_windows(ordered, dense)] if dense else []
        return found + [found_windows(planned, ordered, first, last) for planned, first, last in sparse]

    def _changed(self, ordered: Ordered, rows: Rows, before: int) -> Rows:
        """Return windows that are new in view or have fresh records, saying which."""
        fresh = np.append(0, np.cumsum(ordered.fresh))
        records = np.append(0, np.cumsum(ordered.rows))
        new = fresh[rows.high] - fresh[rows.low]
        viewed = rows.end <= before
        had = (records[rows.high] - records[rows.low] > new) & viewed
        had |= viewed & self.empty.held(rows)
        rows.change = np.where(had, UPDATE, INSERT).astype(np.int8)
        return rows.take(np.flatnonzero(~viewed | (new > 0)))

    def next_deadline(self) -> float:
        """Return the next end of a window; any moment may bring windows without records."""
        return NEVER if self.empty.spans else self._next_end

    def emitted_until(self, watermark: int) -> None:
        """Note that all windows up to a watermark were emitted elsewhere."""
        self._next_end = min(next_end(p.window, watermark) for p in self.queries)

    def look_up(self, planned: PlannedQuery, start: int, end: int, code: int | None) -> Rows | None:
        """Return for each key the slices between two times as a row; None if there are none."""
        if planned.origin is not None:
            start = max(start, planned.origin + 1)
        edges = self.lasting_edges()
        if edges is not None:
            start = max(start, self.dropped_before)
            start = start if edges.floor(start) == start else edges.next(start)
            end = max(start, edges.floor(end))
        ordered = self.store.ordered()
        found = ordered.runs_of((ordered.start >= start) & (ordered.start < end), code)
        if found is None:
            return None
        low, high = found
        query, begins, ends = (np.full(len(low), number) for number in (planned.number, start, end))
        return Rows(query, ordered.code[low], begins, ends, None, None, low, high)

    # ---- eviction ----

    def live(self, reach: float) -> NDArray[np.bool_]:
        """Return the slices that the longest window can reach."""
        live: NDArray[np.bool_] = self.store.column("start") > reach - self.longest
        return live

    def evict(self, reach: float) -> None:
        """Evict slices; ends of windows that have passed are edges no longer, where nothing comes late."""
        if self._kept_edges is not None and self.store.count:
            self.store.recut(self._kept_edges.floors(self.store.column("start")))
        super().evict(reach)
        self.dropped_before = max(self.dropped_before, int(reach) - self.longest + 1)

    def remembered(self, reach: float) -> Iterable[Codes]:
        """Return the keys whose windows without records are followed."""
        del reach
        return [spans.remembered() for spans in self.empty.spans.values()]

    def keep_keys(self, codes: Codes) -> None:
        """Give keys other numbers."""
        super().keep_keys(codes)
        for spans in self.empty.spans.values():
            spans.keep_keys(codes)

    # ---- what it holds ----

    def parts(self) -> Iterable[Transactional]:
        """Return slices, and what is known of windows without records."""
        return self.store, self.empty

    def describe_memory(self, words: Callable[[int], str], late: str) -> dict[str, str]:
        """Return for how long slices are held."""
        held = f"a cell per slice and key, for the longest window of {words(self.longest)}{late}"
        return {"slices of grids": held}


def _origin(planned: PlannedQuery) -> int:
    return NEVER if planned.origin is None else planned.origin
