"""WindowOperator: batches in, Arrow tables of windows out."""

from __future__ import annotations

import datetime
import math
import time as clock_time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.algebra.aggregate import Absent
from muntin.slicing import intake, loops, output
from muntin.slicing.fields import CompiledField, FieldPartials, Values, make_field
from muntin.slicing.keys import KeyTable
from muntin.slicing.plan import Plan, PlannedQuery
from muntin.slicing.slice_manager import SliceManager
from muntin.slicing.slicer import Stretch
from muntin.slicing.window_manager import FOREVER, NEVER, Emission, Spans, Store, WindowManager
from muntin.windows.base import Query
from muntin.windows.durations import LIMIT, Clock, Duration

PROCESSING_TIME: Final = Absent("PROCESSING_TIME")  # as `time`: records are stamped as they come
_STAMP = pa.timestamp("us", "UTC")
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Metrics:
    """What an operator has done and holds."""

    records_in: int
    late_dropped: int
    windows_emitted: int
    slices: int
    keys: int
    records_kept: int
    state_bytes: int
    combines: int
    update_combines: int
    final_combines: int


class WindowOperator:
    """Any mix of windows over one keyed stream, cut once into slices that all of them share.

    >>> import muntin as mt
    >>> op = mt.WindowOperator([mt.tumbling(10).agg(total=mt.sum("v"))], time="ts")
    >>> op.process({"ts": [1, 4, 12], "v": [1.0, 2.0, 4.0]}).select(["window_start", "total"]).to_pylist()
    [{'window_start': 0, 'total': 3.0}]
    >>> op.finish().select(["window_start", "total"]).to_pylist()
    [{'window_start': 10, 'total': 4.0}]
    """

    def __init__(
        self,
        queries: Query | Iterable[Query],
        *,
        time: str | Absent,
        key: str | Sequence[str] | None = None,
        watermark: Any = "in_order",
        lateness: Any = 0,
        tie: str | None = None,
        store: Store = "auto",
    ) -> None:
        self._time = time
        self._keys = KeyTable([key] if isinstance(key, str) else list(key or ()))
        self._tie = tie
        self._policy = watermark if watermark in ("in_order", "manual") else "delay"
        self._delay = Duration.of(watermark, "watermark", least=0) if self._policy == "delay" else None
        self._lateness = Duration.of(lateness, "lateness", least=0)
        if self._policy == "in_order" and self._lateness.amount:
            raise ValueError(
                "lateness needs a watermark that lets records be late: watermark='5s' or 'manual'."
            )
        if store not in ("auto", "lazy", "eager", "sliding"):
            raise ValueError(f"store is 'auto', 'lazy', 'eager' or 'sliding', not {store!r}.")
        self._store: Store = store
        self._queries: list[tuple[str, Query]] = []
        self._named = 0
        for query in _as_queries(queries):
            self._name(query)
        self._check_columns()
        self._schema = intake.Schema()
        self._engine: Engine | None = None
        self._pending_watermark: Any = None
        self._finished = False
        self._late: list[pa.Table] = []
        self._late_dropped = 0
        self._records_in = 0
        if time is PROCESSING_TIME:
            self._last_stamp = 0

    # ---- queries ----

    def _name(self, query: Query) -> str:
        name = query.name if query.name is not None else f"q{self._named}"
        if any(name == other for other, _ in self._queries):
            raise ValueError(f"there is a query named {name!r} already; give each its own name=.")
        if query.emit == "on_change" and self._lateness.amount:
            raise ValueError(f"query {name!r}: emit='on_change' needs lateness 0.")
        self._queries.append((name, query))
        self._named += 1
        return name

    def _check_columns(self) -> None:
        taken = {*self._keys.names, *output.FIXED, "measure_start", "measure_end"}
        for name in self._keys.names:
            if name in output.FIXED or self._keys.names.count(name) > 1:
                raise ValueError(f"the key column {name!r} is named twice, or like a column of the output.")
        for name, query in self._queries:
            for column in query.aggregates:
                if column in taken:
                    raise ValueError(
                        f"query {name!r} names an aggregate {column!r}, like a key or a fixed column of the output."
                    )

    def _inputs(self) -> list[str]:
        """Return the value columns that queries read."""
        names = {n: None for _, query in self._queries for a in query.aggregates.values() for n in a.columns}
        return list(names)

    def add(self, query: Query) -> str:
        """Add a query to the running operator; it reports windows that it sees whole. Returns its name.

        >>> import muntin as mt
        >>> op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
        >>> op.add(mt.session(5).agg(n=mt.count(), name="visits"))
        'visits'
        """
        self._running()
        if not isinstance(query, Query):
            raise TypeError(f"a query is what a window's agg() gives, not {query!r}.")
        before = list(self._queries)
        name = self._name(query)
        try:
            self._check_columns()
            if self._engine is not None:
                self._engine.add(name, query)
        except BaseException:
            self._queries = before
            self._named -= 1
            raise
        return name

    def remove(self, name: str) -> None:
        """Remove a query: its open windows are not emitted, no other query's results change."""
        self._running()
        names = [other for other, _ in self._queries]
        if name not in names:
            raise KeyError(f"there is no query named {name!r}; there are {', '.join(map(repr, names))}.")
        if len(names) == 1:
            raise ValueError(f"{name!r} is the only query; an operator needs at least one.")
        self._queries = [(other, query) for other, query in self._queries if other != name]
        if self._engine is not None:
            self._engine.remove(name)

    # ---- the stream ----

    def process(self, batch: Any) -> pa.Table:
        """Take in a batch of records; return the windows that came into view or changed."""
        self._running()
        table = intake.as_table(batch)
        stamps = None
        if self._time is PROCESSING_TIME:
            stamps = pa.array(np.full(table.num_rows, self._now())).view(_STAMP)
            names: list[str] = []
        else:
            names = [str(self._time)]
        names += [*self._keys.names, *([self._tie] if self._tie else []), *self._inputs()]
        if not table.num_rows:
            return self._nothing()
        columns, types = self._schema.columns(table, list(dict.fromkeys(names)))
        times_column = stamps if stamps is not None else columns[str(self._time)]
        times = intake.read_times(times_column, str(self._time))
        engine = self._engine or self._build(types, times_column.type)
        survey = engine.survey(times)
        intake.check_range(survey[1], survey[2], str(self._time))
        values = engine.read_values(columns, len(times))
        tie = _tie_values(columns[self._tie], self._tie) if self._tie else None
        # All is checked: from here on the operator changes.
        if self._engine is None:
            self._engine = engine
            self._schema.fix(types)
            self._settle_watermark()
        codes = self._keys.encode([columns[name] for name in self._keys.names])
        emission, dropped = engine.process(times, codes, len(self._keys), values, tie, survey)
        self._records_in += len(times)
        if dropped is not None:
            self._drop(table, dropped)
        return self._table(emission)

    def _drop(self, table: pa.Table, dropped: Places) -> None:
        if self._policy == "in_order" and not self._late_dropped:
            warnings.warn(
                f"record {int(dropped[0])} of the batch goes back in time and counts for nothing: the stream is "
                "not in order. Give watermark='5s' (or 'manual'), or use mt.aggregate for a finite table.",
                UserWarning,
                stacklevel=3,
            )
        self._late_dropped += len(dropped)
        self._late.append(table.take(pa.array(dropped)))

    def advance(self, watermark: Any = None) -> pa.Table:
        """Say that all records before this time have arrived; return the windows that came into view."""
        self._running()
        if watermark is None:
            if self._time is not PROCESSING_TIME:
                raise TypeError("advance() needs a watermark; only in processing time does it mean now.")
            watermark = pa.scalar(self._now(), pa.int64()).cast(_STAMP)
        if self._engine is None:
            self._hold_watermark(watermark)
            return self._nothing()
        ticks = _ticks(watermark, self._engine.time_type)
        if ticks < self._engine.watermark:
            raise ValueError(f"the watermark cannot go back from {self.watermark} to {watermark}.")
        return self._table(self._engine.advance(ticks))

    def _hold_watermark(self, watermark: Any) -> None:
        """Keep a watermark until the first batch says what times are."""
        if isinstance(watermark, bool) or not isinstance(
            watermark, (int, np.integer, datetime.datetime, np.datetime64, pa.Scalar)
        ):
            raise TypeError(f"a watermark is an integer, a datetime or an Arrow scalar, not {watermark!r}.")
        if self._pending_watermark is not None:
            kind = pa.timestamp("ns") if not isinstance(watermark, (int, np.integer)) else pa.int64()
            old, new = _ticks(self._pending_watermark, kind), _ticks(watermark, kind)
            if new < old:
                raise ValueError(f"the watermark cannot go back from {self._pending_watermark} to {watermark}.")
        self._pending_watermark = watermark

    def _settle_watermark(self) -> None:
        assert self._engine is not None
        if self._pending_watermark is not None:
            self._engine.watermark = _ticks(self._pending_watermark, self._engine.time_type)
            self._pending_watermark = None

    def finish(self) -> pa.Table:
        """End the stream: return all windows that are still open. Afterwards only look, not process."""
        if self._finished:
            return self._nothing()
        emission = self._engine.finish() if self._engine is not None else None
        self._finished = True
        return self._table(emission) if emission is not None else self._nothing()

    def _running(self) -> None:
        if self._finished:
            raise RuntimeError("the stream was ended by finish(); make a new WindowOperator for another.")

    def _now(self) -> int:
        now = clock_time.time_ns() // 1000
        self._last_stamp = max(self._last_stamp, now)
        return self._last_stamp

    # ---- what can be seen ----

    @property
    def watermark(self) -> Any:
        """The watermark: an integer, or an Arrow scalar where times are timestamps; None before the first."""
        if self._finished:
            return math.inf
        if self._engine is None:
            return self._pending_watermark
        if self._engine.watermark == NEVER:
            return None
        kind = self._engine.time_type
        if pa.types.is_timestamp(kind):
            return pa.scalar(self._engine.watermark, pa.int64()).cast(kind)
        return self._engine.watermark

    def take_late(self) -> pa.Table:
        """Return the records that were dropped since the last call, as they came."""
        late, self._late = self._late, []
        if not late:
            return pa.table({})
        return pa.concat_tables(late, promote_options="permissive")

    @property
    def metrics(self) -> Metrics:
        """What the operator has done and holds."""
        engine = self._engine
        if engine is None:
            return Metrics(self._records_in, self._late_dropped, 0, 0, 0, 0, 0, 0, 0, 0)
        engine.let_go(self._keys)
        updates, finals = engine.slices.update_combines, engine.windows.final_combines
        return Metrics(
            self._records_in,
            self._late_dropped,
            engine.windows.windows_emitted,
            engine.slice_count(),
            len(self._keys) if engine.slice_count() or self._keys.names else 0,
            engine.records_kept(),
            engine.state_bytes() + self._keys.nbytes,
            updates + finals,
            updates,
            finals,
        )

    # ---- tables ----

    def _build(self, types: dict[str, pa.DataType], time_type: pa.DataType) -> Engine:
        clock = intake.clock_of(time_type)
        delay = self._delay.ticks(clock, "watermark") if self._delay is not None else 0
        lateness = self._lateness.ticks(clock, "lateness")
        if delay + lateness >= LIMIT:
            raise ValueError("watermark and lateness together must be shorter than 2^62.")
        return Engine(
            self._queries,
            types,
            time_type,
            clock,
            policy=self._policy,
            delay=delay,
            lateness=lateness,
            tied=self._tie is not None,
            store=self._store,
        )

    def _nothing(self) -> pa.Table:
        return self._table(Emission())

    def _table(self, emission: Emission) -> pa.Table:
        engine = self._engine
        if engine is None:
            return pa.table({})
        table = engine.table(emission, self._keys)
        engine.breathe(self._keys)
        return table


class Engine:
    """The running state of an operator, in ticks and key numbers."""

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
        self.types = dict(types)
        self.time_type = time_type
        self.policy = policy
        self.delay = {"in_order": 0, "manual": -1}.get(policy, delay)  # -1: records do not move the watermark
        self.lateness = lateness
        self.watermark = NEVER
        self.largest = NEVER
        self.answer_types: dict[str, pa.DataType | None] = {}
        self.plan = Plan(clock)
        self._plan_answers(queries)
        planned = self.plan.add(queries, None)
        fields = {number: self._field(number) for number in self.plan.fields}
        in_order = policy == "in_order" and not tied
        self.slices = SliceManager(self.plan, fields, in_order=in_order, tied=tied)
        self.windows = WindowManager(self.plan, self.slices, lateness, store)
        self._watch_empty(planned)
        self._cells = 256  # with twice as many, it is time to let go of some

    # ---- queries ----

    def _plan_answers(self, queries: Iterable[tuple[str, Query]]) -> None:
        """Find the type of each output column; one name must not have two."""
        found = dict(self.answer_types)
        for name, query in queries:
            for column, aggregate in query.aggregates.items():
                intake.check_types(aggregate, self.types)
                kind = intake.answer_type(aggregate, self.types)
                if found.get(column) not in (None, kind) and kind is not None:
                    raise TypeError(
                        f"column {column!r} would be {found[column]} for one query and {kind} for {name!r}; "
                        "give them different names."
                    )
                found[column] = kind if kind is not None else found.get(column)
        self.answer_types = found

    def _field(self, number: int, *, nullable: bool = False) -> FieldPartials:
        plan = self.plan.fields[number]
        kinds = intake.kinds_of(plan, self.types)
        return make_field(plan.field, plan.own, kinds, nullable=nullable)

    def _watch_empty(self, planned: Iterable[PlannedQuery]) -> None:
        for query in planned:
            if query.query.emit_empty:
                self.windows.spans[query.number] = Spans()

    def add(self, name: str, query: Query) -> None:
        """Take up a query; its stream begins after the largest time so far."""
        missing = [n for a in query.aggregates.values() for n in a.columns if n not in self.types]
        if missing:
            raise KeyError(
                f"query {name!r} reads column {missing[0]!r}, which the operator has not read so far; it reads "
                f"{', '.join(sorted(self.types))}."
            )
        self._plan_answers([(name, query)])
        origin = None if self.largest == NEVER else self.largest
        planned = self.plan.add([(name, query)], origin)
        for number in self.plan.fields:
            if number not in self.slices.fields:
                self.slices.fields[number] = self._field(number)
        self.slices.adapt()
        self._watch_empty(planned)

    def remove(self, name: str) -> None:
        """Drop a query."""
        gone = self.plan.remove(name)
        self.slices.fields = {n: f for n, f in self.slices.fields.items() if n in self.plan.fields}
        self.slices.adapt()
        self.windows.spans.pop(gone.number, None)
        kept = {column for planned in self.plan.queries for column in planned.query.aggregates}
        self.answer_types = {column: kind for column, kind in self.answer_types.items() if column in kept}

    # ---- records ----

    def survey(self, times: Places) -> tuple[int, int, int, int, int]:
        """Return falls, least, largest, late and overdue records of a batch."""
        lateness = 0 if self.policy == "in_order" else self.lateness
        found: tuple[int, int, int, int, int] = loops.run("survey", times, self.watermark, self.delay, lateness)
        return found

    def read_values(self, columns: dict[str, pa.Array], count: int) -> dict[int, Values]:
        """Return what each field reads; fields that meet their first null go on in a form that can hold it."""
        used = {name for plan in self.plan.fields.values() for name in plan.field.columns}
        read = {name: intake.read_column(columns[name]) for name in used}
        found = {}
        for number, plan in self.plan.fields.items():
            kinds = intake.kinds_of(plan, self.types)
            partials = self.slices.fields[number]
            if not isinstance(partials, CompiledField):
                kinds = None
            values = intake.read_values(plan, read, count, kinds)
            found[number] = values
            if isinstance(partials, CompiledField):
                if values.kinds is None:
                    self._widen(number, None)
                elif values.valid is not None and not partials.nullable:
                    self._widen(number, values.kinds)
        return found

    def _widen(self, number: int, kinds: tuple[str, ...] | None) -> None:
        """Hold a field's partials in a form that knows nulls, or as objects."""
        plan, old = self.plan.fields[number], self.slices.fields[number]
        assert isinstance(old, CompiledField)
        new = make_field(plan.field, plan.own, kinds, nullable=True)
        self.slices.convert(number, old, new)

    def process(
        self,
        times: Places,
        codes: Places,
        keys: int,
        values: dict[int, Values],
        tie: NDArray[np.generic] | None,
        survey: tuple[int, int, int, int, int],
    ) -> tuple[Emission, Places | None]:
        """Take in records; return rows, and the places of records that were dropped."""
        falls, low, high, late, overdue = survey
        stretch = Stretch(times, codes, keys, values, falls, low, high)
        before = self.watermark
        after = before if self.delay < 0 else max(before, high - self.delay)
        emission = Emission()
        dropped = None
        if not late:
            self._absorb(stretch, tie, before, low < before)
            self.largest, self.watermark = max(self.largest, high), after
            self._emit(emission, before, after, before, low < before)
            return emission, None
        marks = np.empty(len(times), np.int64)
        loops.run("watermarks", times, before, self.delay, marks)
        in_time, behind, dropped = self._classify(stretch, marks)
        on_time = stretch.take(in_time) if len(in_time) else None
        touching = on_time is not None and on_time.low < before
        self._absorb(on_time, tie if tie is None else tie[in_time], before, touching)
        self.largest, self.watermark = max(self.largest, high), after
        frozen = before
        for group in self._freezes(behind, marks):
            level = int(marks[group[0]])
            rows = self.windows.grid_rows(before, after, frozen, level, True)
            self._rows(emission, [(self.slices.grid, r) for r in rows])
            frozen = max(frozen, level)
            part = stretch.take(group)
            self._see(part)
            self.slices.update(part, tie if tie is None else tie[group], overdue=True)
        self._emit(emission, before, after, frozen, touching or len(behind) > 0)
        del overdue
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
            origin = NEVER if planned.origin is None else planned.origin
            if planned.family == "grid":
                last = planned.window.high(times)
                ends = last * planned.window.pitch + planned.window.first_end
                counts = (ends > times) & (ends > marks - self.lateness) & (planned.window.start(last) > origin)
            else:
                counts = ~overdue & (times > origin)
            wanted |= counts
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
        self._see(stretch)
        self.slices.update(stretch, tie)

    def _see(self, stretch: Stretch) -> None:
        for number, spans in self.windows.spans.items():
            (planned,) = [p for p in self.plan.queries if p.number == number]
            codes = stretch.codes if stretch.keys > 1 else np.zeros(len(stretch), np.int64)
            seen = stretch.times > (NEVER if planned.origin is None else planned.origin)
            if seen.any():
                spans.see(codes[seen], stretch.times[seen])

    # ---- rows ----

    def advance(self, watermark: int) -> Emission:
        """Move the watermark."""
        emission = Emission()
        self._old_sessions = None
        before, self.watermark = self.watermark, watermark
        self._emit(emission, before, watermark, before, False)
        return emission

    def finish(self) -> Emission:
        """Move the watermark past all."""
        emission = Emission()
        self._old_sessions = None
        before, self.watermark = self.watermark, FOREVER
        self._emit(emission, before, FOREVER, before, False, final=True)
        return emission

    def _emit(
        self, emission: Emission, before: int, after: int, frozen: int, late: bool, *, final: bool = False
    ) -> None:
        windows = self.windows
        groups = [(self.slices.grid, rows) for rows in windows.grid_rows(before, after, frozen, None, late)]
        for planned in self.plan.of_family("grid"):
            if planned.query.emit_empty:
                rows = windows.empty_rows(planned, before, after)
                if rows is not None:
                    groups.append((self.slices.grid, rows))
        view = math.inf if final else after
        if self.slices.sessions:
            groups += windows.session_rows(before, view, self._old_sessions)
        if self.slices.counts:
            groups += windows.count_rows(view, final=final)
        self._rows(emission, groups)
        self.slices.settle()
        for spans in windows.spans.values():
            spans.settle()

    def _rows(self, emission: Emission, groups: list[Any]) -> None:
        if groups:
            self.windows.emit(groups, emission)

    def table(self, emission: Emission, keys: KeyTable) -> pa.Table:
        """Return rows as a table."""
        labels = pa.array([planned.name for planned in self.plan.queries])
        names = {planned.number: k for k, planned in enumerate(self.plan.queries)}
        if not emission.count:
            return self._empty_table(keys, labels)
        order = output.row_order(emission)
        answers = {}
        for column in self.answer_types:
            chunks = emission.answers.get(column)
            data, missing = output.answer_column(chunks, emission.count) if chunks else (None, None)
            if data is not None and order is not None:
                data, missing = data[order], None if missing is None else missing[order]
            answers[column] = (data, missing)
        codes = output.joined(emission.code)
        fixed = output.window_columns(emission, order, names, labels, self.time_type)
        columns = dict(
            zip(keys.names, keys.values(codes if order is None else codes[order]), strict=True)
        )
        columns |= fixed
        for column, (data, missing) in answers.items():
            columns[column] = self._answer_column(column, data, missing, emission.count)
        table = pa.table(columns)
        kept = self._on_change(emission, order, answers)
        if kept is not None:
            table = table.filter(pa.array(kept))
        self.windows.windows_emitted += table.num_rows
        return table

    def _answer_column(self, column: str, data: Any, missing: Any, count: int) -> pa.Array:
        kind = self.answer_types[column]
        if data is None:
            return pa.nulls(count, kind or pa.null())
        array = output.as_arrow(data, missing, kind)
        if kind is None and not pa.types.is_null(array.type):
            self.answer_types[column] = array.type
        return array

    def _empty_table(self, keys: KeyTable, labels: pa.Array) -> pa.Table:
        codes = np.empty(0, np.int8)
        columns = dict(zip(keys.names, keys.values(np.empty(0, np.int64)), strict=True))
        columns["query"] = output.coded(codes, labels)
        columns |= {name: pa.array([], self.time_type) for name in ("window_start", "window_end")}
        columns |= {name: pa.array([], pa.int64()) for name in ("window_id", "revision")}
        columns["change"] = output.coded(codes, output.CHANGES)
        columns |= {column: pa.array([], kind or pa.null()) for column, kind in self.answer_types.items()}
        return pa.table(columns)

    def _on_change(
        self, emission: Emission, order: Places | None, answers: dict[str, Any]
    ) -> NDArray[np.bool_] | None:
        """Tell which rows to keep of queries that report only changes; None: all."""
        watched = {p.number: p for p in self.plan.queries if p.query.emit == "on_change"}
        query, code = output.joined(emission.query), output.joined(emission.code)
        if order is not None:
            query, code = query[order], code[order]
        rows = np.flatnonzero(np.isin(query, list(watched)))
        if not len(rows):
            return None
        kept = np.ones(len(query), bool)
        for i in rows.tolist():
            planned = watched[int(query[i])]
            values = tuple(_value(*answers[column], i) for column in planned.query.aggregates)
            who = (planned.number, int(code[i]))
            kept[i] = not _same(self.windows.previous.get(who), values)
            self.windows.previous[who] = values
        return kept

    # ---- letting go ----

    def breathe(self, keys: KeyTable) -> None:
        """Let go of what is out of reach, once it may be half of all."""
        if sum(store.count for store in self._stores()) > 2 * self._cells or len(keys) > 2 * self._cells:
            self.let_go(keys)

    def let_go(self, keys: KeyTable) -> None:
        """Let go of all that no window to come can hold."""
        self.slices.let_go(math.inf if self.watermark == FOREVER else self.watermark, self.lateness)
        self.windows.let_go(self.watermark)
        self._forget_keys(keys)
        self._cells = max(256, self.slice_count(), len(keys))

    def _forget_keys(self, keys: KeyTable) -> None:
        """Forget keys without slices, if nothing of theirs must be remembered."""
        remembering = self.slices.counts or self.windows.spans or self.windows.previous
        if not keys.names or remembering:
            return
        stores = self._stores()
        live = np.unique(np.concatenate([store.live_codes() for store in stores]))
        if 2 * len(live) + 16 > len(keys):
            return
        codes = keys.retain(live)
        for store in stores:
            store.renumber(codes)
        if self.slices.log is not None:
            self.slices.log.keep(codes[self.slices.log.codes] >= 0)
            self.slices.log.renumber(codes)
        revisions = self.windows.revisions
        self.windows.revisions = {
            (q, int(codes[code]), *rest): revision
            for (q, code, *rest), revision in revisions.items()
            if codes[code] >= 0
        }

    def _stores(self) -> list[Any]:
        return [*self.slices.time_stores(), *(slices.store for slices in self.slices.counts.values())]

    def slice_count(self) -> int:
        """Return the number of live slices, those of each key counted."""
        return sum(store.slices for store in self._stores())

    def records_kept(self) -> int:
        """Return the number of records kept."""
        kept = sum(len(slices.pending) for slices in self.slices.counts.values())
        return kept + (len(self.slices.log) if self.slices.log is not None else 0)

    def state_bytes(self) -> int:
        """Return the bytes of slices and records."""
        total = sum(store.nbytes for store in self._stores())
        total += sum(slices.pending.nbytes for slices in self.slices.counts.values())
        return total + (self.slices.log.nbytes if self.slices.log is not None else 0)


def _as_queries(queries: Query | Iterable[Query]) -> list[Query]:
    listed = [queries] if isinstance(queries, Query) else list(queries)
    if not listed:
        raise ValueError("an operator needs at least one query, as in mt.tumbling('1m').agg(n=mt.count()).")
    for query in listed:
        if not isinstance(query, Query):
            raise TypeError(f"a query is what a window's agg() gives, not {query!r}.")
    return listed


def _ticks(watermark: Any, kind: pa.DataType) -> int:
    """Return a watermark in ticks of a time column."""
    if isinstance(watermark, pa.Scalar) and pa.types.is_integer(watermark.type):
        watermark = watermark.as_py()
    if isinstance(watermark, bool):
        raise TypeError(f"a watermark is an integer, a datetime or an Arrow scalar, not {watermark!r}.")
    if isinstance(watermark, (int, np.integer)):
        if pa.types.is_timestamp(kind):
            raise TypeError(f"the time column holds {kind}; give the watermark as a datetime or an Arrow scalar.")
        ticks = int(watermark)
    elif isinstance(watermark, (datetime.datetime, np.datetime64, pa.Scalar)):
        if not pa.types.is_timestamp(kind):
            raise TypeError(f"the time column holds {kind}; give the watermark as a whole number.")
        scalar = watermark if isinstance(watermark, pa.Scalar) else pa.scalar(watermark)
        if not pa.types.is_timestamp(scalar.type) or not scalar.is_valid:
            raise TypeError(f"a watermark is an integer, a datetime or an Arrow scalar, not {watermark!r}.")
        ticks = scalar.cast(pa.timestamp(kind.unit, scalar.type.tz), safe=False).value
    else:
        raise TypeError(f"a watermark is an integer, a datetime or an Arrow scalar, not {watermark!r}.")
    if not -LIMIT < ticks < LIMIT:
        raise ValueError(f"a watermark must lie within 2^62 of zero, not at {watermark!r}.")
    return ticks


def _tie_values(array: pa.Array, name: str | None) -> NDArray[np.generic]:
    """Return what settles the order of equal times, as something that sorts; nulls come first."""
    if array.null_count:
        raise ValueError(f"the tie column {name!r} has nulls, which settle no order.")
    column = intake.read_column(array)
    if column.kind is None:
        return np.array(column.data.tolist(), object)
    return column.data


def _value(data: Any, missing: Any, i: int) -> Any:
    if data is None or (missing is not None and missing[i]):
        return None
    return data[i]


def _same(old: tuple[Any, ...] | None, new: tuple[Any, ...]) -> bool:
    if old is None:
        return False
    return all(a is b or a == b or (a != a and b != b) for a, b in zip(old, new, strict=True))


def aggregate(
    table: Any,
    queries: Query | Iterable[Query],
    *,
    time: str,
    key: str | Sequence[str] | None = None,
    tie: str | None = None,
    store: Store = "auto",
) -> pa.Table:
    """Compute windows over a finite table in any row order: nothing is late, each window comes out once.

    >>> import muntin as mt
    >>> table = {"ts": [12, 4, 1], "v": [4.0, 2.0, 1.0]}
    >>> mt.aggregate(table, mt.tumbling(10).agg(total=mt.sum("v")), time="ts").column("total").to_pylist()
    [3.0, 4.0]
    """
    operator = WindowOperator(queries, time=time, key=key, watermark="manual", tie=tie, store=store)
    operator.process(table)
    return operator.finish()


__all__ = ["PROCESSING_TIME", "Metrics", "WindowOperator", "aggregate"]
