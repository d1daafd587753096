"""The engine: slicer, slice manager, window manager and stores of one operator, in ticks and key numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.algebra.aggregate import TIME
from muntin.columnar import Indices, Times, frozen
from muntin.engine import tuning
from muntin.engine.ingest.batch import Stretch, Values
from muntin.engine.ingest.columns import Column, Columns, read_values
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.ingest.reader import clock_of
from muntin.engine.ingest.reading import Batch
from muntin.engine.ingest.single_record import SingleRecords
from muntin.engine.ingest.watermark import Schedule, Survey, along, at_once, survey_times
from muntin.engine.listers.base import Lister
from muntin.engine.listers.factory import check_inputs, make_lister
from muntin.engine.output import row_columns
from muntin.engine.output.early import Came, ReportsEarly
from muntin.engine.output.latest import LatestValues
from muntin.engine.output.tables import RowTables
from muntin.engine.overflow import IntegerSums
from muntin.engine.partials.base import FieldPartials
from muntin.engine.partials.factory import make_field
from muntin.engine.plan import column_types
from muntin.engine.plan.queries import Plan, PlannedQuery
from muntin.engine.retention import Retention
from muntin.engine.retyping import retype
from muntin.engine.rows import FOREVER, NEVER, Emission
from muntin.engine.slices.family import Moment
from muntin.engine.slices.grid.empty_windows import Expected, Records, refuse_many
from muntin.engine.slices.slice_manager import SliceManager
from muntin.engine.slices.window_manager import WindowManager
from muntin.engine.store.panes import Panes
from muntin.engine.transaction import Transactional
from muntin.engine.user_errors import AggregateError, located
from muntin.settings import Settings, Store
from muntin.windows.base import Query
from muntin.windows.durations import LIMIT, Clock, longest

_NOTHING = np.empty(0, np.int64)


class Engine(Retention, ReportsEarly, Transactional):
    """The running state of an operator, in ticks and key numbers."""

    often = ("watermark", "largest", "single", "_unseen", "_cells")

    def __init__(
        self,
        queries: Sequence[tuple[str, Query]],
        types: dict[str, pa.DataType],
        time_type: pa.DataType,
        clock: Clock,
        *,
        policy: str,
        delay: int,
        lateness: int,
        tied: bool,
        store: Store,
        ahead: int | None = None,
    ) -> None:
        self.ahead = ahead
        self.types = {**types, TIME: time_type}
        self.policy = policy
        self.delay = {"in_order": 0, "manual": -1}.get(policy, delay)  # -1: records do not move the watermark
        self.lateness = lateness
        self.watermark = NEVER
        self.largest = NEVER
        self.plan = Plan(clock)
        self.tables = RowTables(self.plan, time_type)
        self.tables.plan_answers(queries, self.types)
        for _, query in queries:
            check_inputs(query.window, self.types)
        self.plan.add(queries, None)
        fields = {number: self._field(number) for number in self.plan.fields}
        in_order, eager = policy == "in_order" and not tied, store == "eager"
        self.slices = SliceManager(
            self.plan, fields, self._lister, in_order=in_order, tied=tied, lateness=lateness, eager=eager
        )
        self.windows = self.tables.windows = WindowManager(self.plan, self.slices, store)
        self.waiting: list[tuple[str, Query, int | None]] = []  # queries over columns that no batch had yet
        self._untyped = {name for name, kind in self.types.items() if pa.types.is_null(kind)}
        self.sums = IntegerSums(self.plan, self.slices)
        self.single: SingleRecords | None = None  # what takes in batches of one record
        self._latest: LatestValues | None = None  # made with its first use
        self.start_counting()
        self.start_early()

    @classmethod
    def of(
        cls,
        settings: Settings,
        queries: Sequence[tuple[str, Query]],
        types: dict[str, pa.DataType],
        time_type: pa.DataType,
    ) -> Engine:
        """Return an engine for queries over columns of these types."""
        clock = clock_of(time_type)
        delay = settings.delay.ticks(clock, "watermark") if settings.delay is not None else 0
        lateness = settings.lateness.ticks(clock, "lateness")
        if delay + lateness >= LIMIT:
            raise ValueError(
                f"watermark ({settings.delay}) and lateness ({settings.lateness}) together must be shorter "
                f"than {longest(settings.lateness)}."
            )
        return cls(
            queries,
            types,
            time_type,
            clock,
            policy=settings.policy,
            delay=delay,
            lateness=lateness,
            tied=settings.tie is not None,
            store=settings.store,
        )

    def parts(self) -> Iterable[Transactional]:
        """Return plan, slices, windows and what is counted."""
        parts = (self.plan, self.slices, self.windows, self.tables, self.sums)
        return parts if self.early is None else (*parts, self.early)

    # ---- queries ----

    def _field(self, number: int, *, nullable: bool = False) -> FieldPartials:
        plan = self.plan.fields[number]
        kinds = column_types.kinds_of(plan, self.types)
        return make_field(plan.field, plan.own, kinds, nullable=nullable)

    def _lister(self, planned: PlannedQuery) -> Lister:
        return make_lister(planned, self.types)

    def add(self, name: str, query: Query) -> None:
        """Take up a query; its stream begins after the largest time so far."""
        self.plan_query(name, query, None if self.largest == NEVER else self.largest)

    def plan_query(self, name: str, query: Query, origin: int | None) -> None:
        """Plan one query, whose stream begins after the origin, once the types of its columns are known.

        Each by itself: its fields then follow from it alone, so that whoever cuts panes for this engine needs
        to know nothing of the queries that were there before.
        """
        self.save()
        self.single = None
        if self.waiting or any(name not in self.types for name in query.columns()):
            self.plan.resolved(query)
            self.waiting = [*self.waiting, (name, query, origin)]  # the next batch tells its columns' types
            return
        self.plan.resolved(query)  # may raise: nothing has changed yet
        check_inputs(query.window, self.types)
        self.tables.plan_answers([(name, query)], self.types)
        self.plan.add([(name, query)], origin)
        known = self.slices.fields
        self.slices.adapt({n: known.get(n) or self._field(n) for n in self.plan.fields})
        self.windows.adapt()
        self.follow_early()

    def take_up(self, types: dict[str, pa.DataType]) -> bool:
        """Take up types of columns that no batch had, or that were null; tell whether there were some.

        Queries that waited for them are planned, and what is held for columns of nulls takes their types.
        """
        real = {n: types[n] for n in self._untyped if not pa.types.is_null(types.get(n, pa.null()))}
        if not self.waiting and not real:
            return False
        self.save()
        waiting, self.waiting = self.waiting, []
        self._set_types({**types, **self.types, **real}, real)
        for name, query, origin in waiting:
            self.plan_query(name, query, origin)
        return True

    def _set_types(self, types: dict[str, pa.DataType], changed: Collection[str]) -> None:
        """Set the types of columns, of which some have been null so far."""
        if changed:
            queries = [(planned.name, planned.query) for planned in self.plan.queries]
            for _, query in queries:
                check_inputs(query.window, types)
            self.tables.plan_answers(queries, types)
        self.types, self._untyped = types, {n for n, kind in types.items() if pa.types.is_null(kind)}
        if changed:
            retype(self, changed)

    def has(self, name: str) -> bool:
        """Tell whether there is such a query."""
        return any(name == planned.name for planned in self.plan.queries) or any(
            name == other for other, _, _ in self.waiting
        )

    def remove(self, name: str) -> None:
        """Drop a query."""
        self.save()
        if any(name == other for other, _, _ in self.waiting):
            self.waiting = [waiting for waiting in self.waiting if waiting[0] != name]
            return
        self.single = None
        gone = self.plan.remove(name)
        self.slices.adapt({n: f for n, f in self.slices.fields.items() if n in self.plan.fields})
        self.windows.adapt()
        self.windows.forget(gone.number)
        self.tables.drop_answers()
        self.follow_early()

    # ---- records ----

    def survey(self, times: Times) -> Survey:
        """Look at the order of a batch's times."""
        return survey_times(times, self.watermark, self.delay)

    def latest_values(self, code: int) -> dict[str, Any]:
        """Return the newest values of a key by query."""
        if self._latest is None or self._latest.queries is not self.plan.queries:
            self._latest = LatestValues(self)
        return self._latest.of(code)

    def check_span(self, low: int, high: int) -> None:
        """Refuse times that windows do not reach."""
        for family in self.slices.families.values():
            family.check_span(low, high)

    def columns(self) -> set[str]:
        """Return the columns that fields and windows read."""
        windows = {name for p in self.plan.queries for name, _ in p.query.window.inputs()}
        return self.plan.columns() | windows

    def read_values(self, columns: Mapping[str, pa.Array], times: Times) -> dict[int, Values]:
        """Return what each field reads; fields that meet their first null go on in a form that holds it."""
        shared, count = Columns(columns), len(times)
        read = {name: shared.read(name) for name in self.plan.columns()}
        read[TIME] = Column(frozen(times), None, "i8")
        found = {}
        for number, plan in self.plan.fields.items():
            partials = self.slices.fields[number]
            values = found[number] = read_values(plan, read, count, partials.kinds)
            self.accept(number, values)
        for family in self.slices.families.values():
            found |= family.signals(shared, count)
        return found

    def accept(self, number: int, values: Values) -> None:
        """Let a field hold these values, in another form if need be."""
        partials = self.slices.fields[number]
        accepting = partials.accept(values)
        if accepting is not partials:
            self.single = None
            self.slices.convert(number, accepting)

    def process(self, batch: Batch, keys: KeyTable) -> tuple[pa.Table, Indices | None]:
        """Take in records, which may move the watermark; return rows, and the indices of those dropped."""
        stretch, tie, survey = batch
        times, values = stretch.times, stretch.values
        self.sums.expect(values)
        try:
            if len(times) == 1 and not survey.late and survey.low >= self.watermark:
                rows = self.ingest_one(survey.low, int(stretch.codes[0]), values, keys)
                if rows is not None:
                    return rows, None
            size = self._part_size(len(keys)) if len(times) > tuning.SMALL_PART else 0
            if 0 < size < len(times):
                return self._ingest_parts(stretch, keys, size)
            return self.ingest(stretch, tie, keys, self._along(times, survey))
        except AggregateError as error:
            raise self.located(error, values) from error.__cause__

    def _along(self, times: Times, survey: Survey) -> Schedule:
        return along(times, survey, self.watermark, self.largest, self.delay)

    def located(self, error: AggregateError, values: Mapping[int, Values]) -> AggregateError:
        """Return the error of a user's aggregate with the record that it came from."""
        for number, plan in self.plan.fields.items():
            if plan.own is error.aggregate and number in values:
                return located(error, values[number].columns, values[number].valid)
        return error

    def _part_size(self, keys: int) -> int:
        """Return how many records of a large batch to take in at once; 0: all.

        Where rows are final and those of a later part end later, parts give the same rows in the same order.
        It pays where records are scattered over cells, or each has cells of its own.
        """
        final = not self.lateness and not self.slices.setting.tied
        if not final or len(self.plan.queries) > tuning.PART_QUERIES or self.early is not None:
            return 0
        return self.slices.part_size(keys)

    def _ingest_parts(self, whole: Stretch, keys: KeyTable, size: int) -> tuple[pa.Table, Indices | None]:
        tables, dropped = [], []
        for begin in range(0, len(whole), size):
            part = slice(begin, begin + size)
            times = whole.times[part]
            survey = self.survey(times)
            values = {number: v.part(part) for number, v in whole.values.items()}
            codes = whole.codes[part] if whole.keys > 1 else whole.codes
            some = Stretch(times, codes, whole.keys, values, survey.disordered, survey.low, survey.high)
            rows, late = self.ingest(some, None, keys, self._along(times, survey))
            tables.append(rows)
            if late is not None:
                dropped.append(late + begin)
            self.evict_slices()
        return row_columns.in_turn(tables), np.concatenate(dropped) if dropped else None

    def ingest_one(self, t: int, code: int, values: Mapping[int, Values], keys: KeyTable) -> pa.Table | None:
        """Take in a record that is in order for its key; None if it is not that simple."""
        if self.sums.may_overflow() or not self.slices.add_one(t, code, values):
            return None
        before = self.watermark
        after = before if self.delay < 0 else max(before, t - self.delay)
        came = None if self.early is None else Came([code], t < self.largest)
        self.largest, self.watermark = max(self.largest, t), after
        if self.windows.quiet_until(after) and (self.early is None or not self.early.stirs(t, code)):
            return self.tables.empty(keys)
        rows = self._few_rows(before, after, keys)
        if rows is not None:
            return rows
        return self._advance(Emission(), Moment(before, after, frozen=before), keys, came)

    def _few_rows(self, before: int, after: int, keys: KeyTable) -> pa.Table | None:
        """Return the rows of windows that end, if all are on grids and there are few; else None."""
        grid = self.windows.on_grids_only(after)
        few = None if grid is None else self.tables.few(grid, keys)
        if grid is None or few is None:
            return None
        found = few.rows(grid.store, before, after, keys)
        if found is None:
            return None
        rows, combines, cells = found
        grid.emitted_until(after)
        self.windows.windows_emitted += rows.num_rows
        self.windows.final_combines += combines
        if combines:
            self.windows.share_combines(combines, cells)
        return rows

    def adds_singly(self) -> bool:
        """Tell whether a record in order, without nulls, needs no more than to be added to its slices."""
        checks = any(family.checks_times for family in self.slices.families.values())
        return self.slices.one_by_one and not (checks or self.waiting)

    def ingest(
        self, stretch: Stretch, tie: NDArray[np.generic] | None, keys: KeyTable, schedule: Schedule
    ) -> tuple[pa.Table, Indices | None]:
        """Take in records while the watermark moves; return rows, and the indices of records dropped.

        Records are late or not by the watermark just before each. Those beyond the lateness still count for
        windows on grids that are not done; which are done is settled group by group, as the watermark moves.
        """
        before, marks = self.watermark, schedule.marks
        self._note(Records(stretch.codes, stretch.times, marks), schedule.after)
        emission, frozen = Emission(), before
        if marks is None:
            late, dropped = stretch.low < before, None
            self.slices.update(stretch, tie, before=before, touching=late)
        else:
            in_time, behind, gone = self._classify(stretch, marks)
            dropped = gone if len(gone) else None
            late = len(behind) > 0
            if len(in_time):
                on_time = stretch.take(in_time)
                late |= on_time.low < before
                self.slices.update(on_time, _at(tie, in_time), before=before, touching=on_time.low < before)
            for group in self._freezes(behind, marks):
                level = int(marks[group[0]])
                moment = Moment(before, schedule.after, late=True, frozen=frozen)
                self.windows.freeze(moment, level, emission)
                frozen = max(frozen, level)
                self.slices.update(stretch.take(group), _at(tie, group), before=before, overdue=True)
        came = None if self.early is None else Came.of(stretch, self.largest)
        self.largest, self.watermark = schedule.largest, schedule.after
        moment = Moment(before, schedule.after, late=late, frozen=frozen)
        return self._advance(emission, moment, keys, came), dropped

    def ingest_at(self, watermark: int, batch: Batch, keys: KeyTable) -> tuple[pa.Table, Indices | None]:
        """Take in a micro-batch, all records of which are judged by one watermark: the policy of Spark."""
        stretch, tie, survey = batch
        return self.ingest(stretch, tie, keys, at_once(stretch.times, survey, watermark, self.largest))

    def ingest_panes(self, watermark: int, panes: Panes, keys: KeyTable) -> tuple[pa.Table, int]:
        """Take in panes that were cut and merged elsewhere; return rows, and the number of records dropped.

        Only where `merges_ahead` allows it for all queries. The watermark then moves, as in `ingest_at`.
        """
        before, emission = self.watermark, Emission()
        panes, dropped = self._wanted_panes(watermark, panes)
        codes, times = np.append(panes.code, panes.code), np.append(panes.first, panes.last)
        self._note(Records(codes, times, np.full(len(times), watermark)), watermark)
        self.watermark = watermark
        frozen, late = before, False
        if len(panes):
            self.largest = max(self.largest, int(panes.last.max()))
            behind = int(panes.start.min()) < watermark - self.lateness
            late = behind or int(panes.first.min()) < before
            if behind:
                self.windows.freeze(Moment(before, watermark, late=True, frozen=before), watermark, emission)
                frozen = max(before, watermark)
            self.slices.put(panes)
        came = None if self.early is None else Came(np.unique(panes.code).tolist(), True)
        moment = Moment(before, watermark, late=late, frozen=frozen)
        return self._advance(emission, moment, keys, came), dropped

    def _wanted_panes(self, watermark: int, panes: Panes) -> tuple[Panes, int]:
        """Return the panes that count for some window, and how many late records the others hold."""
        if watermark == NEVER or not len(panes):
            return panes, 0
        frozen = np.full(len(panes), watermark - self.lateness)
        overdue = np.ones(len(panes), bool)
        wanted = (panes.last >= watermark) | self.slices.wanted(panes.start, frozen, overdue)
        if wanted.all():
            return panes, 0
        return panes.take(np.flatnonzero(wanted)), int(panes.rows[~wanted].sum())

    def _classify(self, stretch: Stretch, marks: Times) -> tuple[Indices, Indices, Indices]:
        """Return the indices of records that all count, that only grids still want, and that are dropped."""
        times = stretch.times
        late = times < marks
        if self.policy == "in_order":
            return np.flatnonzero(~late), _NOTHING, np.flatnonzero(late)
        overdue = times < marks - self.lateness
        at = np.flatnonzero(late)
        dropped = at[~self.slices.wanted(times[at], marks[at] - self.lateness, overdue[at])]
        kept = np.ones(len(times), bool)
        kept[dropped] = False
        return np.flatnonzero(~overdue & kept), np.flatnonzero(overdue & kept), dropped

    def _freezes(self, behind: Indices, marks: Times) -> list[Indices]:
        """Split overdue records, in the order they came, where a window froze in between."""
        slicer = self.slices.slicer
        if not len(behind) or slicer is None or slicer.grid is None:
            return []
        levels = slicer.grid.floors(marks[behind] - self.lateness)
        return np.split(behind, np.flatnonzero(levels[1:] != levels[:-1]) + 1)

    def expect_empty(self, records: Records, after: int) -> list[Expected]:
        """Return what records, and a watermark after them, would do for queries that report empty windows."""
        codes, times, marks = records
        if len(codes) != len(times):  # there is but one key
            codes = np.zeros(len(times), np.int64)
        some = Records(codes, times, marks)
        if marks is not None and self.policy == "in_order":
            some = some.take(times >= marks)
        families = self.slices.families.values()
        return [one for family in families for one in family.expect_empty(some, self.watermark, after)]

    def _note(self, records: Records, after: int) -> None:
        """Take in how far keys reach; refuse a call with too many empty windows before anything changes."""
        if not any(family.reports_empty for family in self.slices.families.values()):
            return
        expected = self.expect_empty(records, after)
        refuse_many(expected)
        for one in expected:
            one.spans.see(one.reach)

    # ---- rows ----

    def advance(self, watermark: int, keys: KeyTable) -> pa.Table:
        """Move the watermark; FOREVER ends the stream."""
        self._note(Records(_NOTHING, _NOTHING, None), watermark)
        before, self.watermark = self.watermark, watermark
        moment = Moment(before, watermark, final=watermark == FOREVER, frozen=before)
        return self._advance(Emission(), moment, keys)

    def _advance(
        self, emission: Emission, moment: Moment, keys: KeyTable, came: Came | None = None
    ) -> pa.Table:
        """Return the rows of an emission, and of all windows that came into view, changed or went."""
        if self.early is not None:
            self.early.shift()
        self.windows.advance(moment, emission)
        self.slices.settle()
        if self.early is not None:
            self.early.report(emission, moment, self.newest(), came)
        return self.tables.table(emission, keys)


def _at(tie: NDArray[np.generic] | None, at: Indices) -> NDArray[np.generic] | None:
    return None if tie is None else tie[at]
