"""The slice manager: updates, merges and splits slices so that their edges match those of windows.

Windows on grids share one store of cells, sessions another, whose cells are runs of records no gap
apart; count windows have slices by position. A batch is cut once for grids and sessions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.slicing.counts import CountSlices
from muntin.slicing.edges import NEVER, EdgeGrid
from muntin.slicing.fields import CompiledField, FieldPartials, Values
from muntin.slicing.listers import Lister
from muntin.slicing.plan import Plan, PlannedQuery
from muntin.slicing.positions import PositionSlices
from muntin.slicing.records import RecordLog, canonical
from muntin.slicing.slicer import StreamSlicer, Stretch
from muntin.slicing.store import BEHIND, AggregateStore, Panes
from muntin.slicing.transaction import Transactional
from muntin.slicing.views import View
from muntin.slicing.workload import (
    Abilities,
    Decisions,
    Removal,
    Stream,
    characteristics,
    decide,
    together,
)

Places = NDArray[np.int64]
Ties = NDArray[np.generic] | None
Origin = int | None


class SliceManager(Transactional):
    """Holds all slices of an operator."""

    often = ("update_combines", "dropped_before")

    def __init__(
        self,
        plan: Plan,
        fields: Mapping[int, FieldPartials],
        make_lister: Callable[[PlannedQuery], Lister],
        *,
        in_order: bool,
        tied: bool,
        corrects: bool,
        eager: bool,
    ) -> None:
        self.plan = plan
        self._make_lister = make_lister
        self.eager = eager
        self.fields = dict(fields)
        self.in_order = in_order  # equal times included: no record ever comes before another
        self.tied = tied
        self._corrects = corrects  # windows in view may change
        self.grid: AggregateStore | None = None
        self.sessions: dict[Origin, AggregateStore] = {}
        self.counts: dict[Origin, CountSlices] = {}
        self.positions: dict[Origin, PositionSlices] = {}
        self.log: RecordLog | None = None
        self.slicer: StreamSlicer | None = None
        self.decisions: dict[int, Decisions] = {}  # by query
        self.update_combines = 0
        self.dropped_before = NEVER  # slices of grids that start before this are gone
        self._kept_edges: EdgeGrid | None = None
        self.adapt(self.fields)

    # ---- queries come and go ----

    def adapt(self, fields: Mapping[int, FieldPartials]) -> None:
        """Match slices to the queries of the plan: make and drop stores, cut at other edges, merge slices."""
        self.save()
        self.parts_changed()
        self.fields = dict(fields)
        self.decisions = self._decide()
        grids = self.plan.of_family("grid")
        sessions = self._by_origin("session")
        counts = self._by_origin("count")
        gaps = [planned.window for queries in sessions.values() for planned in queries]
        origins = [(planned.window, NEVER if planned.origin is None else planned.origin) for planned in grids]
        irregular = [(grid, origin) for grid, origin in origins if grid.irregular]
        regular = [(grid, origin) for grid, origin in origins if not grid.irregular]
        edges = [(*p, origin) for grid, origin in regular for p in grid.progressions()]
        starts = [(*grid.progressions()[0], origin) for grid, origin in regular]
        only_starts = all(self.decisions[planned.number].cut_at == "starts" for planned in grids)
        fewer = bool(grids) and only_starts and set(starts) != set(edges)
        self._kept_edges = EdgeGrid(starts, irregular) if fewer else None
        self.slicer = StreamSlicer(edges, min(gaps, default=None), irregular) if bool(grids or gaps) else None
        self.grid = self._adapted(self.grid, grids) if grids else None
        if self.grid is not None and self.grid.count and self.slicer is not None and self.slicer.grid:
            cut = self.slicer.grid.floors(self.grid.column("start"))
            if (cut != self.grid.column("start")).any():
                self.grid.recut(cut)
        self.sessions = {
            origin: self._adapted(self.sessions.get(origin), queries) for origin, queries in sessions.items()
        }
        self.counts = {origin: self._adapted_counts(origin, queries) for origin, queries in counts.items()}
        positions = self._by_origin("position")
        self.positions = {o: self._adapted_positions(o, queries) for o, queries in positions.items()}
        self._adapt_log()
        own = any(plan.own is not None for plan in self.plan.fields.values())
        late_sessions = any(origin is not None for origin in self.sessions)
        # Single records are added without a detour over arrays, where nothing can break off half-way.
        by_position = self.counts or self.positions
        self.one_by_one = not (own or late_sessions or by_position or self.eager or self.log is not None)
        if self.eager:
            self._keep_trees()

    def lasting_edges(self) -> EdgeGrid | None:
        """Return the edges of slices that stay, once windows that end there have passed."""
        return self._kept_edges or (self.slicer.grid if self.slicer is not None else None)

    def _keep_trees(self) -> None:
        for store in self.time_stores():
            compiled = {n: p for n, p in store.fields.items() if isinstance(p, CompiledField)}
            store.folds.keep_trees(compiled)

    def _decide(self) -> dict[int, Decisions]:
        """Follow the decision trees for each query; many have the same kind of window and fields."""
        looking_back = {p.origin for p in self.plan.of_family("position") if p.query.window.each_record}
        known: dict[Any, Decisions] = {}
        decisions = {}
        for planned in self.plan.queries:
            window, fields = planned.query.window, tuple(sorted(planned.fields()))
            stream = Stream(self.in_order, self._corrects, planned.origin in looking_back)
            made = known.get((type(window), fields, stream))
            if made is None:
                each = (decide(characteristics(window, self.abilities(n), stream)) for n in fields)
                made = known[type(window), fields, stream] = together(each)
            decisions[planned.number] = made
        return decisions

    def abilities(self, number: int) -> Abilities:
        """Return what can be done with the partials of a field, in the form that they are kept in."""
        partials = self.fields[number]
        return Abilities(self.plan.fields[number].commutative, partials.removes_exactly, partials.selective)

    def removals(self) -> dict[int, Removal]:
        """Return how a record leaves a slice of count windows, by field: Figure 6 for each."""
        counts = self.plan.of_family("count")
        if not counts:
            return {}
        stream = Stream(self.in_order, self._corrects)
        return {
            number: decide(characteristics(counts[0].query.window, self.abilities(number), stream)).removal
            for number in Plan.fields_of(counts)
        }

    def _by_origin(self, family: str) -> dict[Origin, list[PlannedQuery]]:
        found: dict[Origin, list[PlannedQuery]] = {}
        for planned in self.plan.of_family(family):
            found.setdefault(planned.origin, []).append(planned)
        return found

    def _partials(self, queries: list[PlannedQuery]) -> dict[int, FieldPartials]:
        return {number: self.fields[number] for number in Plan.fields_of(queries)}

    def _adapted(self, store: AggregateStore | None, queries: list[PlannedQuery]) -> AggregateStore:
        if store is None:
            return AggregateStore(self._partials(queries))
        store.set_fields(self._partials(queries))
        return store

    def _adapted_counts(self, origin: Origin, queries: list[PlannedQuery]) -> CountSlices:
        slices = self.counts.get(origin)
        if slices is None:
            keeps = any(self.decisions[planned.number].keep_records for planned in queries)
            slices = CountSlices(self._partials(queries), in_order=not keeps, tied=self.tied)
        else:
            slices.store.set_fields(self._partials(queries))
            slices.pending.set_fields(self._partials(queries))
        slices.removal = self.removals()
        edges = [(*p, NEVER) for planned in queries for p in planned.window.progressions()]
        slices.cut_at(edges, max(planned.window.length for planned in queries))
        return slices

    def _adapted_positions(self, origin: Origin, queries: list[PlannedQuery]) -> PositionSlices:
        slices = self.positions.get(origin)
        fields = self._partials(queries)
        if slices is None:
            slices = PositionSlices(fields, in_order=self.in_order, tied=self.tied)
        known = slices.settled.listers
        listers = {p.number: known.get(p.number) or self._make_lister(p) for p in queries}
        splitting = {p.number for p in queries if self.decisions[p.number].splits == "by recomputing"}
        each_record = any(self.decisions[p.number].cut_at == "each record" for p in queries)
        views = {p.number: View(p.query.window.identity()) for p in queries}
        slices.adapt(fields, listers, views, splitting=splitting, each_record=each_record)
        return slices

    def _adapt_log(self) -> None:
        """Keep records where the decision trees ask for them: an order that may be lost matters."""
        queries = [*self.plan.of_family("grid"), *self.plan.of_family("session")]
        ordered = [n for n in Plan.fields_of(queries) if not self.plan.fields[n].commutative]
        if not any(self.decisions[planned.number].keep_records for planned in queries):
            self.log = None
        elif self.log is None:
            self.log = RecordLog(ordered)
        else:
            self.log.set_fields(ordered)

    # ---- update ----

    def update(self, stretch: Stretch, tie: Ties, *, overdue: bool = False) -> None:
        """Add records to their slices; overdue ones only to those of grids."""
        if self.slicer is not None:
            if self.log is not None:
                order = canonical(stretch, tie)
                stretch, tie = stretch.take(order), None if tie is None else tie[order]
                self.log.add(stretch, tie, overdue=overdue)
            self._update_time_slices(stretch, overdue)
            if self.eager:
                self.update_combines += sum(store.folds.refresh() for store in self.time_stores())
        if not overdue:
            for origin, slices in self.counts.items():
                part, ties = _after(stretch, tie, origin)
                if len(part):
                    slices.add(part, ties)
            for origin, marked in self.positions.items():
                part, ties = _after(stretch, tie, origin)
                if len(part):
                    marked.add(part, ties)

    def add_one(self, t: int, code: int, values: Mapping[int, Values]) -> bool:
        """Add a record to the latest slices of its key, or begin new ones; tell whether that was enough."""
        if not self.one_by_one:
            return False
        places = []
        if self.grid is not None and self.slicer is not None and self.slicer.grid is not None:
            start = self.slicer.grid.floor(t)
            places.append((self.grid, start, self.grid.place_of(code, start)))
        places += [(store, t, store.run_of(code, t, self.gap(None))) for store in self.sessions.values()]
        if any(at == BEHIND for _, _, at in places):
            return False
        for store, start, at in places:
            self.update_combines += store.add_one(at, code, start, t, values)
        return True

    def _update_time_slices(self, stretch: Stretch, overdue: bool) -> None:
        assert self.slicer is not None
        stores = [self.grid] if self.grid is not None else []
        stores += [] if overdue else list(self.sessions.values())
        fields = {number: p for store in stores for number, p in store.fields.items()}
        if not stores:
            return
        panes = self.slicer.cut(stretch, fields)
        self.update_combines += len(stretch) - len(panes)
        if self.grid is not None:
            self._put(self.grid, panes, None)
        if overdue:
            return
        for origin, store in self.sessions.items():
            part = _after(stretch, None, origin)[0]
            if len(part):
                some = panes if part is stretch else self.slicer.cut(part, store.fields)
                self._put(store, some, self.gap(origin))

    def _put(self, store: AggregateStore, panes: Panes, gap: int | None) -> None:
        before = store.count
        cells = store.add(panes, gap, tied=self.tied)
        self.update_combines += len(panes) - (store.count - before)
        if self.log is not None and len(cells):
            self._recompute(store, cells, with_overdue=gap is None)

    def _recompute(self, store: AggregateStore, cells: Places, *, with_overdue: bool) -> None:
        """Compute partials whose order was lost anew from the records.

        Not those of slices with records from before there was a query that needs their order: what other
        queries read of them does not hang on it.
        """
        assert self.log is not None
        code, first, last = (store.column(name)[cells] for name in ("code", "first", "last"))
        spans = [
            self.log.within(*span) for span in zip(code.tolist(), first.tolist(), last.tolist(), strict=True)
        ]
        places = [np.arange(span.start, span.stop) for span in spans]
        if not with_overdue:
            places = [at[~self.log.overdue[at]] for at in places]
        whole = [
            len(at) == rows for at, rows in zip(places, store.column("rows")[cells].tolist(), strict=True)
        ]
        cells, places = cells[whole], list(itertools.compress(places, whole))
        if not len(cells):
            return
        at = np.concatenate(places)
        bounds = np.append(0, np.cumsum([len(some) for some in places]))
        for number in self.log.fields:
            if number in store.fields:
                partials = store.fields[number]
                store.replace(number, cells, partials.of_segments(self.log.values[number].take(at), bounds))
        self.update_combines += len(at) - len(cells)

    def gap(self, origin: Origin) -> int:
        """Return the least gap of the sessions over a stream: runs further apart never meet."""
        least: int = min(p.window for p in self.plan.of_family("session") if p.origin == origin)
        return least

    def convert(self, number: int, new: FieldPartials) -> None:
        """Hold a field's partials in another form from now on, in all stores."""
        old = self.fields[number]
        self.save()
        self.parts_changed()
        self.fields = {**self.fields, number: new}
        stores = [*self.time_stores(), *(slices.store for slices in self.counts.values())]
        stores += [slices.store for slices in self.positions.values()]
        for slices in self.counts.values():
            slices.forget_shown()
        for store in stores:
            if number in store.fields:
                store.convert(number, new, old.converted(store.states(number), new))
        self.decisions = self._decide()  # a form that knows nulls, or objects, can do less
        for slices in self.counts.values():
            slices.removal = self.removals()

    # ---- transactions ----

    def parts(self) -> Iterator[Transactional]:
        """Return fields, stores, and records that are kept."""
        yield from self.fields.values()
        yield from self.time_stores()
        yield from self.counts.values()
        yield from self.positions.values()
        if self.log is not None:
            yield self.log

    # ---- letting go ----

    def settle(self) -> None:
        """Forget which records are fresh: the call that brought them is over."""
        for store in self.time_stores():
            store.settle()
        if self.log is not None:
            self.log.settle()

    def time_stores(self) -> list[AggregateStore]:
        """Return the stores of grids and sessions."""
        return [*([self.grid] if self.grid is not None else []), *self.sessions.values()]

    def live(self, watermark: int, lateness: int) -> list[tuple[AggregateStore, NDArray[np.bool_]]]:
        """Return which cells of each store a window to come can hold."""
        reach = watermark - lateness
        found: list[tuple[AggregateStore, NDArray[np.bool_]]] = []
        if self.grid is not None:
            longest = max(planned.window.length for planned in self.plan.of_family("grid"))
            found.append((self.grid, self.grid.column("start") > reach - longest))
        for origin, store in self.sessions.items():
            widest = max(p.window for p in self.plan.of_family("session") if p.origin == origin)
            found.append((store, self._open_runs(store, widest, reach)))
        found += [(slices.store, slices.live()) for slices in self.counts.values()]
        found += [(slices.store, slices.live(reach)) for slices in self.positions.values()]
        return found

    def let_go(self, watermark: int, lateness: int) -> None:
        """Let go of slices and records that no window to come can hold."""
        # Ends of windows matter until they pass: where nothing comes late, only starts remain edges.
        if self.grid is not None and self._kept_edges is not None and self.grid.count:
            self.grid.recut(self._kept_edges.floors(self.grid.column("start")))
        for store, kept in self.live(watermark, lateness):
            store.keep(kept)
        for slices in self.positions.values():
            slices.let_go(watermark - lateness)
        if self.grid is not None:
            longest = max(planned.window.length for planned in self.plan.of_family("grid"))
            self.dropped_before = max(self.dropped_before, watermark - lateness - longest + 1)
        if self.log is not None and len(self.log):
            self._let_go_records()

    def keep_keys(self, codes: Places) -> None:
        """Give keys other numbers: codes[old] is the new one, below 0 for those that are forgotten."""
        for store in self.time_stores():
            store.renumber(codes)
        for counted in self.counts.values():
            counted.keep_keys(codes)
        for marked in self.positions.values():
            marked.keep_keys(codes)
        if self.log is not None:
            self.log.keep(codes[self.log.codes] >= 0)
            self.log.renumber(codes)

    @staticmethod
    def _open_runs(store: AggregateStore, gap: int, reach: int) -> NDArray[np.bool_]:
        """Return the runs of sessions that a record can still join."""
        kept = np.zeros(store.count, bool)
        ordered = store.ordered()
        if len(ordered):
            low, high = session_ranges(ordered.code, ordered.first, ordered.last, gap)
            joinable = ordered.last[high - 1] + gap >= reach
            places = np.arange(store.count) if ordered.places is None else ordered.places
            kept[places[np.repeat(joinable, high - low)]] = True
        return kept

    def _let_go_records(self) -> None:
        assert self.log is not None
        kept = np.zeros(len(self.log), bool)
        for store in self.time_stores():
            first = np.full(int(self.log.codes.max()) + 1, 2**62)
            alive = store.column("code") < len(first)
            np.minimum.at(first, store.column("code")[alive], store.column("first")[alive])
            kept |= self.log.times >= first[self.log.codes]
        self.log.keep(kept)


def session_ranges(code: Places, first: Places, last: Places, gap: int) -> tuple[Places, Places]:
    """Return the ranges of runs, by key and time, that make up sessions with this gap."""
    begins = np.append(True, (code[1:] != code[:-1]) | (first[1:] - last[:-1] > gap))
    low = np.flatnonzero(begins)
    return low, np.append(low[1:], len(code))


def _after(stretch: Stretch, tie: Ties, origin: Origin) -> tuple[Stretch, Ties]:
    """Return the records after an origin."""
    if origin is None or stretch.low > origin:
        return stretch, tie
    at = np.flatnonzero(stretch.times > origin)
    if not len(at):
        return Stretch(stretch.times[:0], stretch.codes[:0], stretch.keys, {}, False, 0, 0), tie
    return stretch.take(at), None if tie is None else tie[at]
