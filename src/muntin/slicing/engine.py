"""The engine: slicer, slice manager, window manager and stores of one operator, in ticks and key numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.algebra.aggregate import TIME
from muntin.slicing import intake, loops, output
from muntin.slicing.edges import NEVER
from muntin.slicing.empty_windows import Expected, Records, refuse_many
from muntin.slicing.ended import count_late
from muntin.slicing.fields import FieldPartials, Values, frozen, make_field
from muntin.slicing.holdings import Holdings
from muntin.slicing.keys import KeyTable
from muntin.slicing.kinds import check_inputs, make_lister
from muntin.slicing.listers import Columns, Lister
from muntin.slicing.overflow import IntegerSums
from muntin.slicing.pace import Pace, Survey
from muntin.slicing.plan import Plan, PlannedQuery
from muntin.slicing.pooled import crowded, pooled
from muntin.slicing.rows import FOREVER, Emission
from muntin.slicing.single import SingleRecords
from muntin.slicing.slice_manager import SliceManager
from muntin.slicing.slicer import Stretch
from muntin.slicing.tables import RowTables
from muntin.slicing.transaction import Transactional
from muntin.slicing.untyped import retype
from muntin.slicing.user_errors import AggregateError, located
from muntin.slicing.window_manager import Store, WindowManager
from muntin.windows.base import Query
from muntin.windows.durations import Clock

Places = NDArray[np.int64]
_PART = 1 << 20  # records
_SMALL_PART = 1 << 16
_FEW_QUERIES = 64
_LOOK = 64  # records
_NOTHING = np.empty(0, np.int64)


class Engine(Holdings, Transactional):
    """The running state of an operator, in ticks and key numbers."""

    often = ("watermark", "largest", "single", "_old_sessions", "_unseen", "_cells")

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
    ) -> None:
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
        planned = self.plan.add(queries, None)
        fields = {number: self._field(number) for number in self.plan.fields}
        in_order, corrects, eager = policy == "in_order" and not tied, tied or lateness > 0, store == "eager"
        self.slices = SliceManager(
            self.plan, fields, self._lister, in_order=in_order, tied=tied, corrects=corrects, eager=eager
        )
        self.windows = self.tables.windows = WindowManager(self.plan, self.slices, lateness, store)
        self.windows.empty.watch(planned)
        self.waiting: list[tuple[str, Query, int | None]] = []  # queries over columns that no batch had yet
        self._untyped = {name for name, kind in self.types.items() if pa.types.is_null(kind)}
        self._old_sessions: dict[int, set[tuple[int, int, int]]] | None = None  # that a batch may change
        self.sums = IntegerSums(self.plan, self.slices)
        self._unseen = 0  # records since it was last seen whether there is something to let go
        self._cells = 256  # with twice as many, it is time to let go of some
        self.single: SingleRecords | None = None  # what takes in batches of one record

    def parts(self) -> Iterable[Transactional]:
        """Return plan, slices, windows and what is counted."""
        return self.plan, self.slices, self.windows, self.tables, self.sums

    # ---- queries ----

    def _field(self, number: int, *, nullable: bool = False) -> FieldPartials:
        plan = self.plan.fields[number]
        kinds = intake.kinds_of(plan, self.types)
        return make_field(plan.field, plan.own, kinds, nullable=nullable)

    def _lister(self, planned: PlannedQuery) -> Lister:
        return make_lister(planned, self.types)

    def add(self, name: str, query: Query) -> None:
        """Take up a query; its stream begins after the largest time so far."""
        origin = None if self.largest == NEVER else self.largest
        self._take_up(name, query, origin)

    def _take_up(self, name: str, query: Query, origin: int | None) -> None:
        self.save()
        self.single = None
        if self.waiting or any(name not in self.types for name in query.columns()):
            query.window.resolved(self.plan.clock)
            self.waiting = [*self.waiting, (name, query, origin)]  # the next batch tells its columns' types
            return
        query.window.resolved(self.plan.clock)  # may raise: nothing has changed yet
        check_inputs(query.window, self.types)
        self.tables.plan_answers([(name, query)], self.types)
        planned = self.plan.add([(name, query)], origin)
        known = self.slices.fields
        self.slices.adapt({n: known.get(n) or self._field(n) for n in self.plan.fields})
        self.windows.adapt()
        self.windows.empty.watch(planned)

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
            self._take_up(name, query, origin)
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

    # ---- records ----

    def survey(self, times: Places) -> Survey:
        """Look at the order of a batch's times."""
        disordered = len(times) > 1 and loops.run("disordered", times)
        if not disordered and times[0] >= self.watermark:
            return Survey(False, int(times[0]), int(times[-1]), False)
        low, high, late = loops.run("survey", times, self.watermark, self.delay)
        return Survey(disordered, low, high, late > 0)

    def check_span(self, low: int, high: int) -> None:
        """Refuse times that a grid does not reach."""
        for planned in self.plan.of_family("grid"):
            if planned.window.irregular:
                planned.window.check(low, high)

    def columns(self) -> set[str]:
        """Return the columns that fields and windows read."""
        windows = {name for p in self.plan.queries for name, _ in p.query.window.inputs()}
        return self.plan.columns() | windows

    def read_values(self, columns: dict[str, pa.Array], times: Places) -> dict[int, Values]:
        """Return what each field reads; fields that meet their first null go on in a form that holds it."""
        shared, count = Columns(columns), len(times)
        read = {name: shared.read(name) for name in self.plan.columns()}
        read[TIME] = intake.Column(frozen(times), None, "i8")
        found = {}
        for number, plan in self.plan.fields.items():
            partials = self.slices.fields[number]
            values = found[number] = intake.read_values(plan, read, count, partials.kinds)
            self.accept(number, values)
        for slices in self.slices.positions.values():
            for lister in slices.settled.listers.values():
                found[lister.signal] = lister.read(shared, count)
        return found

    def accept(self, number: int, values: Values) -> None:
        """Let a field hold these values, in another form if need be."""
        partials = self.slices.fields[number]
        accepting = partials.accept(values)
        if accepting is not partials:
            self.single = None
            self.slices.convert(number, accepting)

    def process(
        self,
        times: Places,
        codes: Places,
        keys: KeyTable,
        values: dict[int, Values],
        tie: NDArray[np.generic] | None,
        survey: Survey,
    ) -> tuple[pa.Table, Places | None]:
        """Take in records; return rows, and the places of records that were dropped."""
        try:
            return self._process_records(times, codes, keys, values, tie, survey)
        except AggregateError as error:
            raise self.located(error, values) from error.__cause__

    def located(self, error: AggregateError, values: Mapping[int, Values]) -> AggregateError:
        """Return the error of a user's aggregate with the record that it came from."""
        for number, plan in self.plan.fields.items():
            if plan.own is error.aggregate and number in values:
                return located(error, values[number].columns, values[number].valid)
        return error

    def _process_records(
        self,
        times: Places,
        codes: Places,
        keys: KeyTable,
        values: dict[int, Values],
        tie: NDArray[np.generic] | None,
        survey: Survey,
    ) -> tuple[pa.Table, Places | None]:
        self.sums.expect(values)
        if len(times) == 1 and not survey.late and survey.low >= self.watermark:
            rows = self.process_one(survey.low, int(codes[0]), values, keys)
            if rows is not None:
                return rows, None
        part = self._part(len(keys)) if len(times) > _SMALL_PART else None
        if part is not None and len(times) > part:
            return self._process_parts(times, codes, keys, values, part)
        emission, dropped = self._process(times, codes, len(keys), values, tie, survey)
        return self.tables.table(emission, keys), dropped

    def _part(self, keys: int) -> int | None:
        """Return how many records of a large batch to take in at once; None: all.

        Where rows are final and those of a later part end later, parts give the same rows in the same order.
        It pays where records are scattered over cells, or each has cells of its own: what a part needs fits
        into memory that is used again.
        """
        final = not self.lateness and not self.slices.tied and not self.slices.positions
        if not final or self.windows.empty.spans or len(self.plan.queries) > _FEW_QUERIES:
            return None
        counts = list(self.slices.counts.values())
        if not counts:
            return _PART if keys > 1 and self.windows.slice_by_slice is not None else None
        only = len(counts) == 1 and self.slices.grid is None and not self.slices.sessions
        if not only or keys > 1 or self.policy != "in_order":
            return None
        return max(_SMALL_PART, counts[0].longest)

    def _process_parts(
        self, times: Places, codes: Places, keys: KeyTable, values: dict[int, Values], size: int
    ) -> tuple[pa.Table, Places | None]:
        tables, dropped = [], []
        for begin in range(0, len(times), size):
            part = slice(begin, begin + size)
            some = {number: v.part(part) for number, v in values.items()}
            numbers = codes[part] if len(keys) > 1 else codes
            survey = self.survey(times[part])
            emission, late = self._process(times[part], numbers, len(keys), some, None, survey)
            tables.append(self.tables.table(emission, keys))
            if late is not None:
                dropped.append(late + begin)
            if self._crowded():
                self.slices.let_go(self.watermark, self.lateness)
                if crowded(self.slices.fields):
                    self._pack_pools()
        return output.in_turn(tables), np.concatenate(dropped) if dropped else None

    def process_one(self, t: int, code: int, values: dict[int, Values], keys: KeyTable) -> pa.Table | None:
        """Take in a record that is in order for its key; None if it is not that simple."""
        spans = self.windows.empty.spans
        if spans or self.sums.may_overflow() or not self.slices.add_one(t, code, values):
            return None
        before = self.watermark
        after = before if self.delay < 0 else max(before, t - self.delay)
        self.largest, self.watermark = max(self.largest, t), after
        self.windows.expect_sessions(t)
        if self.windows.quiet_until(after):
            return self.tables.empty(keys)
        rows = self._few_rows(before, after, keys)
        if rows is not None:
            return rows
        emission = Emission()
        self._old_sessions = None
        self._emit(emission, before, after, before, False)
        return self.tables.table(emission, keys)

    def _few_rows(self, before: int, after: int, keys: KeyTable) -> pa.Table | None:
        """Return the rows of windows that end, if all are on grids and there are few; else None."""
        store = self.slices.grid
        if store is None or not self.windows.only_grids(after):
            return None
        few = self.tables.few(store, keys)
        found = few.rows(store, before, after, keys) if few is not None else None
        if found is None:
            return None
        rows, combines = found
        self.windows.ended(after, rows.num_rows, combines)
        return rows

    def adds_singly(self) -> bool:
        """Tell whether a record in order, without nulls, needs no more than to be added to its slices."""
        irregular = any(planned.window.irregular for planned in self.plan.of_family("grid"))
        return self.slices.one_by_one and not (irregular or self.waiting)

    def _process(
        self,
        times: Places,
        codes: Places,
        keys: int,
        values: dict[int, Values],
        tie: NDArray[np.generic] | None,
        survey: Survey,
    ) -> tuple[Emission, Places | None]:
        before, marks = self.watermark, None
        after = before if self.delay < 0 else max(before, survey.high - self.delay)
        if survey.late:
            marks = np.empty(len(times), np.int64)
            loops.run("watermarks", times, before, self.delay, marks)
        stretch = Stretch(times, codes, keys, values, survey.disordered, survey.low, survey.high)
        return self._take_in(stretch, tie, Pace(marks, after, max(self.largest, survey.high)))

    def process_paced(
        self,
        times: Places,
        codes: Places,
        keys: KeyTable,
        values: dict[int, Values],
        tie: NDArray[np.generic] | None,
        survey: Survey,
        pace: Pace,
    ) -> tuple[pa.Table, Places | None]:
        """Take in some of a batch's records, under a watermark that all of them move; like `process`."""
        stretch = Stretch(times, codes, len(keys), values, survey.disordered, survey.low, survey.high)
        emission, dropped = self._take_in(stretch, tie, pace)
        return self.tables.table(emission, keys), dropped

    def _take_in(
        self, stretch: Stretch, tie: NDArray[np.generic] | None, pace: Pace
    ) -> tuple[Emission, Places | None]:
        before, after, marks = self.watermark, pace.after, pace.marks
        self._note(stretch.codes, stretch.times, marks, after)
        emission = Emission()
        if marks is None:
            self._absorb(stretch, tie, before, stretch.low < before)
            self.largest, self.watermark = pace.largest, after
            self._emit(emission, before, after, before, stretch.low < before)
            return emission, None
        in_time, behind, dropped = self._classify(stretch, marks)
        on_time = stretch.take(in_time) if len(in_time) else None
        touching = on_time is not None and on_time.low < before
        self._absorb(on_time, tie if tie is None else tie[in_time], before, touching)
        self.largest, self.watermark = pace.largest, after
        frozen = before
        for group in self._freezes(behind, marks):
            level = int(marks[group[0]])
            rows = self.windows.grid_rows(before, after, frozen, level, True)
            self._rows(emission, [(self.slices.grid, r) for r in rows])
            frozen = max(frozen, level)
            part = stretch.take(group)
            self.slices.update(part, tie if tie is None else tie[group], overdue=True)
        self._emit(emission, before, after, frozen, touching or len(behind) > 0)
        return emission, dropped if len(dropped) else None

    def _classify(self, stretch: Stretch, marks: Places) -> tuple[Places, Places, Places]:
        """Return the places of records that all count, that only grids still want, and that are dropped."""
        times = stretch.times
        late = times < marks
        if self.policy == "in_order":
            return np.flatnonzero(~late), np.empty(0, np.int64), np.flatnonzero(late)
        overdue = times < marks - self.lateness
        at = np.flatnonzero(late)
        dropped = at[~self._wanted(times[at], marks[at], overdue[at])]
        kept = np.ones(len(times), bool)
        kept[dropped] = False
        return np.flatnonzero(~overdue & kept), np.flatnonzero(overdue & kept), dropped

    def _wanted(self, times: Places, marks: Places, overdue: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which late records count for some query."""
        wanted = np.zeros(len(times), bool)
        for planned in self.plan.queries:
            if planned.family == "grid":
                wanted |= count_late(planned, times, marks - self.lateness)
            else:
                wanted |= ~overdue & (times > (NEVER if planned.origin is None else planned.origin))
        return wanted

    def _freezes(self, behind: Places, marks: Places) -> list[Places]:
        """Split overdue records, in the order they came, where a window froze in between."""
        slicer = self.slices.slicer
        if not len(behind) or slicer is None or slicer.grid is None:
            return []
        levels = slicer.grid.floors(marks[behind] - self.lateness)
        return np.split(behind, np.flatnonzero(levels[1:] != levels[:-1]) + 1)

    def _absorb(
        self, stretch: Stretch | None, tie: NDArray[np.generic] | None, before: int, touching: bool
    ) -> None:
        """Put records that count for all into slices, remembering the sessions that they may change."""
        self._old_sessions = None
        if stretch is None:
            return
        if touching and self.lateness and self.slices.sessions:
            codes = np.unique(stretch.codes) if stretch.keys > 1 else np.zeros(1, np.int64)
            self._old_sessions = self.windows.sessions_in_view(before, codes)
        self.slices.update(stretch, tie)
        self.windows.expect_sessions(stretch.low)

    def expect_empty(self, codes: Places, times: Places, marks: Places | None, after: int) -> list[Expected]:
        """Return what records, and a watermark after them, would do for queries that report empty windows."""
        if not self.windows.empty.spans:
            return []
        if len(codes) != len(times):  # there is but one key
            codes = np.zeros(len(times), np.int64)
        records = Records(codes, times, marks)
        if marks is not None and self.policy == "in_order":
            records = records.take(times >= marks)
        assert self.slices.grid is not None
        return self.windows.empty.expect(records, self.watermark, after, self.slices.grid)

    def _note(self, codes: Places, times: Places, marks: Places | None, after: int) -> None:
        """Take in how far keys reach; refuse a call with too many empty windows before anything changes."""
        expected = self.expect_empty(codes, times, marks, after)
        refuse_many(expected)
        self.windows.empty.see(expected)

    # ---- rows ----

    def advance(self, watermark: int, keys: KeyTable) -> pa.Table:
        """Move the watermark; FOREVER ends the stream."""
        self._note(_NOTHING, _NOTHING, None, watermark)
        emission = Emission()
        self._old_sessions = None
        before, self.watermark = self.watermark, watermark
        self._emit(emission, before, watermark, before, False, final=watermark == FOREVER)
        return self.tables.table(emission, keys)

    def _emit(
        self, emission: Emission, before: int, after: int, frozen: int, late: bool, *, final: bool = False
    ) -> None:
        windows = self.windows
        groups = [(self.slices.grid, rows) for rows in windows.grid_rows(before, after, frozen, None, late)]
        groups += [(self.slices.grid, rows) for rows in windows.empty.rows(after)]
        view = math.inf if final else after
        if self.slices.sessions:
            groups += windows.session_rows(before, view, self._old_sessions)
        if self.slices.counts:
            groups += windows.count_rows(view, final=final)
        if self.slices.positions:
            groups += windows.position_rows(view, final=final)
        self._rows(emission, groups)
        self.slices.settle()

    def _rows(self, emission: Emission, groups: list[Any]) -> None:
        if groups:
            self.windows.emit(groups, emission)

    # ---- letting go ----

    def breathe(self, keys: KeyTable, records: int = _LOOK) -> None:
        """Let go of what is out of reach, once it may be half of all; looks only now and then."""
        self._unseen += records
        if self._unseen < _LOOK and not crowded(self.slices.fields):
            return
        self._unseen = 0
        if self._crowded() or len(keys) > 2 * self._cells:
            self.let_go(keys)

    def _crowded(self) -> bool:
        return self._held() > 2 * self._cells or crowded(self.slices.fields)

    def _pack_pools(self) -> None:
        """Leave values behind that no slice has any more."""
        fields = pooled(self.slices.fields)
        for slices in self.slices.counts.values() if fields else ():
            slices.forget_shown()
        for number, partials in fields.items():
            stores = [store for store in self._stores() if number in store.fields]
            packed = partials.pack([store.states(number) for store in stores])
            for store, states in zip(stores, packed, strict=True):
                store.place(number, states)

    def _held(self) -> int:
        """Return the number of cells, and of records that are kept to split them."""
        kept = sum(len(slices.settled.kept) for slices in self.slices.positions.values())
        return kept + int(sum(store.count for store in self._stores()))

    def let_go(self, keys: KeyTable) -> None:
        """Let go of all that no window to come can hold."""
        self.slices.let_go(self.watermark, self.lateness)
        self.windows.let_go(self.watermark)
        self._forget_keys(keys)
        self._pack_pools()
        if self.sums.may_overflow():
            self.sums.look_again(self._stores(), self._kept_values())
        self._cells = max(256, self._held(), len(keys))

    def _kept_values(self) -> list[Mapping[int, Values]]:
        """Return the values of all records that are kept."""
        kept = [slices.pending.values for slices in self._by_position()]
        kept += [] if self.slices.log is None else [self.slices.log.values]
        batches = [
            batch for slices in self.slices.positions.values() for batch in slices.settled.kept.batches
        ]
        return [*kept, *(batch.values for batch in batches)]

    def _forget_keys(self, keys: KeyTable) -> None:
        """Forget keys without slices, if nothing of theirs must be remembered."""
        if not keys.names:
            return
        live = self._remembered(keys, [store.column("code") for store in self._stores()])
        if not keys.mostly_gone(len(live)):
            return
        codes = keys.retain(live)
        self.slices.keep_keys(codes)
        self.windows.keep_keys(codes)
