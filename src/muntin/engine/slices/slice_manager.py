"""The slice manager: updates, merges and splits slices so that their edges match those of windows.

Each family of windows has slices of its own kind (see family.py). A batch is cut once for all families that
cut by time; which records are kept for partials whose order matters is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices, Times
from muntin.engine.ingest.batch import Stretch, Values
from muntin.engine.listers.base import Lister
from muntin.engine.partials.base import FieldPartials
from muntin.engine.plan.decisions import (
    Abilities,
    Decisions,
    Removal,
    Stream,
    characteristics,
    decide,
    together,
)
from muntin.engine.plan.queries import Plan, PlannedQuery
from muntin.engine.slices.families import FAMILIES
from muntin.engine.slices.family import Adapted, Arrival, Origin, Setting, SliceFamily, Ties
from muntin.engine.slices.record_log import RecordLog, canonical
from muntin.engine.slices.slicer import StreamSlicer
from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.panes import Panes
from muntin.engine.transaction import Transactional


class SliceManager(Transactional):
    """Holds all slices of an operator."""

    often = ("update_combines",)

    def __init__(
        self,
        plan: Plan,
        fields: Mapping[int, FieldPartials],
        make_lister: Callable[[PlannedQuery], Lister],
        *,
        in_order: bool,
        tied: bool,
        lateness: int,
        eager: bool,
    ) -> None:
        self.plan = plan
        self.eager = eager
        self.fields = dict(fields)
        self.setting = Setting(in_order, tied, lateness, make_lister)
        self.families: dict[tuple[str, Origin], SliceFamily] = {}  # by kind and stream
        self.by_query: dict[int, SliceFamily] = {}
        self.log: RecordLog | None = None
        self.slicer: StreamSlicer | None = None
        self.decisions: dict[int, Decisions] = {}  # by query
        self.update_combines = 0
        self.one_by_one = False
        self.adapt(self.fields)

    def of_kind(self, kind: str) -> dict[Origin, Any]:
        """Return the families of a kind, by stream."""
        return {origin: family for (name, origin), family in self.families.items() if name == kind}

    # ---- queries come and go ----

    def adapt(self, fields: Mapping[int, FieldPartials]) -> None:
        """Match slices to the queries of the plan: make and drop families, cut and merge slices."""
        self.save()
        self.parts_changed()
        self.fields = dict(fields)
        self.decisions = self._decide()
        known, self.families, self.by_query = self.families, {}, {}
        for (kind, origin), queries in self._grouped().items():
            some = {number: self.fields[number] for number in Plan.fields_of(queries)}
            family = known.get((kind, origin)) or FAMILIES[kind](self.setting, origin, some)
            family.save()
            family.adapt(Adapted(queries, some, self.decisions, self._removals(queries)))
            self.families[kind, origin] = family
            self.by_query |= dict.fromkeys((planned.number for planned in queries), family)
        self._cut_anew()
        self._adapt_log()
        own = any(plan.own is not None for plan in self.plan.fields.values())
        # Single records are added without a detour over arrays, where nothing can break off half-way.
        single = all(family.adds_single() for family in self.families.values())
        self.one_by_one = single and not (own or self.eager or self.log is not None)
        if self.eager:
            self._keep_trees()

    def _grouped(self) -> dict[tuple[str, Origin], list[PlannedQuery]]:
        """Return the queries that share slices, in the order of the registry."""
        found: dict[tuple[str, Origin], list[PlannedQuery]] = {}
        for kind, family in FAMILIES.items():
            for planned in self.plan.queries:
                if planned.family == kind:
                    origin = planned.origin if family.by_origin else None
                    found.setdefault((kind, origin), []).append(planned)
        return found

    def _cut_anew(self) -> None:
        """Cut at the edges of all windows from now on."""
        cuts = [cut for family in self.families.values() if (cut := family.cuts()) is not None]
        progressions = [edge for cut in cuts for edge in cut.progressions]
        irregular = [grid for cut in cuts for grid in cut.irregular]
        gap = min((cut.gap for cut in cuts if cut.gap is not None), default=None)
        self.slicer = StreamSlicer(progressions, gap, irregular) if cuts else None
        if self.slicer is not None:
            for family in self.families.values():
                family.cut_anew(self.slicer)

    def _keep_trees(self) -> None:
        for store in self.time_stores():
            store.folds.keep_trees()

    def _decide(self) -> dict[int, Decisions]:
        """Follow the decision trees for each query; many have the same kind of window and fields."""
        looking_back = {p.origin for p in self.plan.queries if p.query.window.each_record}
        known: dict[Any, Decisions] = {}
        decisions = {}
        for planned in self.plan.queries:
            window, fields = planned.query.window, tuple(sorted(planned.fields()))
            stream = self._stream(looks_back=planned.origin in looking_back)
            made = known.get((type(window), fields, stream))
            if made is None:
                each = (decide(characteristics(window, self.abilities(n), stream)) for n in fields)
                made = known[type(window), fields, stream] = together(each)
            decisions[planned.number] = made
        return decisions

    def _stream(self, *, looks_back: bool = False) -> Stream:
        corrects = self.setting.tied or self.setting.lateness > 0  # windows in view may change
        return Stream(self.setting.in_order, corrects, looks_back)

    def abilities(self, number: int) -> Abilities:
        """Return what can be done with the partials of a field, in the form that they are kept in."""
        partials = self.fields[number]
        return Abilities(self.plan.fields[number].commutative, partials.removes_exactly, partials.selective)

    def removals(self) -> dict[int, Removal]:
        """Return how a record leaves a slice, by field: Figure 6 for each, where windows are by count."""
        return self._removals(self.plan.queries)

    def _removals(self, queries: list[PlannedQuery]) -> dict[int, Removal]:
        counting = [planned for planned in queries if planned.query.window.by_count]
        if not counting:
            return {}
        window, stream = counting[0].query.window, self._stream()
        return {
            number: decide(characteristics(window, self.abilities(number), stream)).removal
            for number in Plan.fields_of(counting)
        }

    def _adapt_log(self) -> None:
        """Keep records where the decision trees ask for them: an order that may be lost matters."""
        queries = [p for family in self._cut_by_time() for p in family.queries]
        ordered = [n for n in Plan.fields_of(queries) if not self.plan.fields[n].commutative]
        if not any(self.decisions[planned.number].keep_records for planned in queries):
            self.log = None
        elif self.log is None:
            self.log = RecordLog(ordered)
        else:
            self.log.set_fields(ordered)

    # ---- update ----

    def update(
        self, stretch: Stretch, tie: Ties, *, before: int, touching: bool = False, overdue: bool = False
    ) -> None:
        """Add records to their slices, under a watermark; overdue ones only where they count all the same."""
        if self.slicer is not None and self.log is not None:
            order = canonical(stretch, tie)
            stretch, tie = stretch.take(order), None if tie is None else tie[order]
            self.log.add(stretch, tie, overdue=overdue)
        families = [f for f in self.families.values() if f.takes_overdue or not overdue]
        fields = {n: p for f in families if f.by_time for n, p in f.store.fields.items()}
        arrival = Arrival(stretch, tie, self.slicer, fields, before=before, touching=touching)
        for family in families:
            cells = family.add(arrival)
            if self.log is not None and cells is not None and len(cells):
                self._recompute(family.store, cells, with_overdue=family.takes_overdue)
        self.update_combines += arrival.combines
        if self.eager:
            self.update_combines += sum(store.folds.refresh() for store in self.time_stores())

    def put(self, panes: Panes) -> None:
        """Add panes that were cut elsewhere."""
        for family in self._cut_by_time():
            before = family.store.count
            family.put(panes)
            self.update_combines += len(panes) - (family.store.count - before)

    def add_one(self, t: int, code: int, values: Mapping[int, Values]) -> bool:
        """Add a record to the latest slices of its key, or begin new ones; tell whether that was enough."""
        if not self.one_by_one:
            return False
        spots = [family.spot(code, t) for family in self.families.values()]
        if None in spots:
            return False
        for spot in spots:
            assert spot is not None
            self.update_combines += spot.store.add_one(spot.at, code, spot.start, t, values)
        for family in self.families.values():
            family.note_single(t)
        return True

    def _recompute(self, store: AggregateStore, cells: Indices, *, with_overdue: bool) -> None:
        """Compute partials whose order was lost anew from the records.

        Not those of slices with records from before there was a query that needs their order: what other
        queries read of them does not hang on it.
        """
        assert self.log is not None
        code, first, last, rows = (store.column(name)[cells] for name in ("code", "first", "last", "rows"))
        records, which = self.log.within(code, first, last)
        kept = np.ones(len(records), bool) if with_overdue else ~records.overdue
        whole = np.bincount(which[kept], minlength=len(cells)) == rows
        cells, at = cells[whole], np.flatnonzero(kept & whole[which])
        if not len(cells):
            return
        bounds = np.append(0, np.cumsum(rows[whole]))
        for number in self.log.fields:
            if number in store.fields:
                partials = store.fields[number]
                store.replace(number, cells, partials.of_segments(records.values[number].take(at), bounds))
        self.update_combines += len(at) - len(cells)

    def wanted(self, times: Times, frozen: Times, overdue: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which late records count for some query."""
        wanted = np.zeros(len(times), bool)
        for family in self.families.values():
            wanted |= family.wants(times, frozen, overdue)
        return wanted

    def part_size(self, keys: int) -> int:
        """Return how many records of a large batch to take in at once; 0: all."""
        alone = len(self.families) == 1
        sizes = [family.part_size(keys, alone=alone) for family in self.families.values()]
        return 0 if None in sizes else max((size or 0 for size in sizes), default=0)

    def convert(self, number: int, new: FieldPartials) -> None:
        """Hold a field's partials in another form from now on, in all stores."""
        old = self.fields[number]
        self.save()
        self.parts_changed()
        self.fields = {**self.fields, number: new}
        for family in self.families.values():
            family.drop_derived()
            if number in family.store.fields:
                states = old.converted(family.store.states(number), new)
                family.store.convert(number, new, states)
        self.decisions = self._decide()  # a form that knows nulls, or objects, can do less
        for family in self.families.values():
            family.set_removals(self._removals(list(family.queries)))

    # ---- transactions ----

    def parts(self) -> Iterator[Transactional]:
        """Return fields, families, and records that are kept."""
        yield from self.fields.values()
        yield from self.families.values()
        if self.log is not None:
            yield self.log

    def rolled_back(self) -> None:
        """Let the slicer forget what it has asked grids."""
        if self.slicer is not None:
            self.slicer.forget()

    # ---- eviction ----

    def settle(self) -> None:
        """Forget which records are fresh: the call that brought them is over."""
        for family in self.families.values():
            family.settle()
        if self.log is not None:
            self.log.settle()

    def _cut_by_time(self) -> list[SliceFamily]:
        return [family for family in self.families.values() if family.by_time]

    def time_stores(self) -> list[AggregateStore]:
        """Return the stores of slices that are cut by time."""
        return [family.store for family in self._cut_by_time()]

    def stores(self) -> list[AggregateStore]:
        """Return all stores."""
        return [family.store for family in self.families.values()]

    def live(self, reach: int) -> list[tuple[AggregateStore, NDArray[np.bool_]]]:
        """Return which cells of each store a window to come can hold."""
        return [(family.store, family.live(reach)) for family in self.families.values()]

    def evict(self, reach: int) -> None:
        """Evict slices and records that no window to come can hold."""
        for family in self.families.values():
            family.evict(reach)
        if self.log is not None and len(self.log):
            self._evict_records(self.log)

    def _evict_records(self, log: RecordLog) -> None:
        first = np.full(int(log.codes().max()) + 1, 2**62)  # of the records of each key that are in slices
        for store in self.time_stores():
            alive = store.column("code") < len(first)
            np.minimum.at(first, store.column("code")[alive], store.column("first")[alive])
        log.keep(lambda chunk: chunk.times >= first[chunk.codes])

    def keep_keys(self, codes: Codes) -> None:
        """Give keys other numbers: codes[old] is the new one, below 0 for those that are forgotten."""
        for family in self.families.values():
            family.keep_keys(codes)
        if self.log is not None:
            self.log.keep(lambda chunk: codes[chunk.codes] >= 0)
            self.log.renumber(codes)
