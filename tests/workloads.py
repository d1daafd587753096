"""Random workloads for the window operator: queries, a stream in batches, and the calls in between.

A workload is plain data that both the operator and the oracle can run. Times are drawn as a clock that moves
on and records that lag behind it, so that parts of a workload can be left out and the rest stays as it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa

import muntin as mt
from muntin.windows import feature_window
from tests.aggregates import Affine, Listed, SumOfSquares, Union
from tests.conditions import COMPUTED
from tests.packed import as_often, packed
from tests.user_functions import DISCRETIZERS
from tests.windows_oracle import COUNTS, GRIDS, NEVER, Record, Spec


class Collected(Listed):
    """Lists whose answer over nothing is null: not commutative, on the object path."""

    empty = None


OWN = {"affine": Affine, "squares": SumOfSquares, "union": Union, "collected": Collected}
# Aggregates with parameters, which a call has no room for.
OWN |= {
    "ewm": lambda column: mt.ewm(column, alpha=0.3),
    "slope": lambda y, x: mt.regression(y, x, only="slope"),
    "third": lambda column: mt.quantile(column, q=1 / 3),
    "quantiles": lambda column: mt.quantile(column, q=[0.25, 0.5, 0.9]),
}

# ---- workloads ----


@dataclass(frozen=True)
class Process:
    """A batch: of records, handed over as a "table", a record "batch", or a dict of "lists" or "arrays"."""

    records: list[Record]
    form: str = "table"


@dataclass(frozen=True)
class Advance:
    """The watermark is moved by hand."""

    to: int


@dataclass(frozen=True)
class Add:
    """A query joins."""

    spec: Spec


@dataclass(frozen=True)
class Remove:
    """A query leaves."""

    name: str


@dataclass(frozen=True)
class Restore:
    """The operator is replaced by what its snapshot gives."""


@dataclass(frozen=True)
class Finish:
    """The stream ends."""


Call = Process | Advance | Add | Remove | Restore | Finish


@dataclass
class Workload:
    """All that a run needs; `policy` is "in_order", "manual" or a delay."""

    queries: list[Spec]
    calls: list[Call]
    policy: str | int = "in_order"
    lateness: int = 0
    keys: tuple[str, ...] = ()
    tie: bool = False
    store: str = "auto"
    marked: bool = False  # records have predicates, a state and a measure
    seconds: bool = False  # times are timestamps in seconds


# ---- in muntin's own terms ----


def bound(call: tuple[str, ...]) -> mt.Aggregate:
    """The aggregate of the library that a spec calls by name."""
    name, *columns = (column_of(word) for word in call)
    return OWN[name](*columns) if name in OWN else getattr(mt, name)(*columns)


def column_of(name: Any) -> Any:
    """What a spec names, as the library takes it."""
    return mt.expr(name) if name in COMPUTED else name


def query_of(spec: Spec, seconds: bool = False) -> Any:
    """The library's query for a spec; with `seconds`, for times that are timestamps."""
    if seconds and spec.kind in ("tumbling", "sliding", "session"):
        spec = replace(spec, params=tuple(f"{n}s" for n in spec.params))
    match spec.kind, spec.params:
        case "tumbling", (length, offset):
            window = mt.tumbling(length, offset=offset)
        case "sliding", (length, every, offset):
            window = mt.sliding(length, every=every, offset=offset)
        case "cumulate", (length, step):
            window = mt.cumulate(length, step=step)
        case "session", (gap,):
            window = mt.session(gap)
        case "count_tumbling", (n,):
            window = mt.count_tumbling(n)
        case "count_sliding", (n, every):
            window = mt.count_sliding(n, every=every)
        case _:
            window = marked_window(spec)
    aggregates = {column: bound(call) for column, call in spec.aggregates.items()}
    return window.agg(
        name=spec.name,
        emit_empty=spec.emit_empty,
        emit_partial=spec.emit_partial,
        emit=spec.emit,
        where=spec.where,
        having=None if spec.having is None else spec.having[1],
        early=f"{spec.early}s" if seconds and spec.early is not None else spec.early,
        **aggregates,
    )


class OwnGrid(mt.ContextFreeWindow):
    """Windows [k * period + from, k * period + to) for some pairs (from, to), as a user would write them."""

    def __init__(self, period: int, parts: tuple[tuple[int, int], ...]) -> None:
        self.period, self.parts = period, parts

    def windows(self, t: int) -> list[tuple[int, int]]:
        return [
            (k * self.period + begin, k * self.period + end)
            for begin, end in self.parts
            for k in range((t - end) // self.period + 1, (t - begin) // self.period + 1)
        ]

    def next_edge(self, t: int) -> int:
        return min(t + self.period - (t - edge) % self.period for pair in self.parts for edge in pair)


class Reaching(mt.ContextAwareWindow):
    """From the n-th last record up to each record where `p` holds, and for some time past it."""

    columns = ("p",)

    def __init__(self, n: int, past: int) -> None:
        self.n, self.past = n, past

    def notify(self, edges: Any, record: Any) -> None:
        edges.state = [*(edges.state or []), record.t][-self.n :]
        window = (edges.state[0], record.t + self.past)
        if record.p and window not in edges.windows:
            edges.add(*window)


def marked_window(spec: Spec) -> Any:
    """The library's window for a spec of one of the kinds that look at records."""
    match spec.kind, tuple(column_of(value) for value in spec.params):
        case "rolling_rows", (n,):
            return mt.rolling(rows=n)
        case "feature", (kind, amount, closed, back):
            looked = mt.rolling(rows=amount) if kind == "rows" else getattr(mt, kind)(amount)
            return feature_window(looked, closed=closed, back=back)
        case "landmark_until", (when, until):
            return mt.landmark(when, until=until)
        case "landmark_length", (when, length):
            return mt.landmark(when, length=length)
        case "landmark_every", (when, every):
            return mt.landmark(when, every=every)
        case "landmark_until_every", (when, until, every):
            return mt.landmark(when, until=until, every=every)
        case "landmark_length_every", (when, length, every):
            return mt.landmark(when, length=length, every=every)
        case "aggregate_frame", (call, reaches):
            return mt.aggregate_frame(bound(call), reaches=reaches)
        case "calendar", (unit, tz, _):
            return mt.calendar(unit, tz)
        case "policy_window", (trigger, evict):
            made = [getattr(mt.policies, name)(*given) for name, *given in (trigger, evict)]
            return mt.policy_window(*made)
        case "own", (period, parts):
            return OwnGrid(period, parts)
        case "aware", (n, past):
            return Reaching(n, past)
        case "user_window", (name,):
            function, state, columns = DISCRETIZERS[name]
            return mt.user_window(function, state=state, columns=columns)
        case "on", (measure, kind, params):
            return mt.on(measure, query_of(Spec("grid", kind, params, {"n": ("count",)})).window)
        case kind, params:
            return getattr(mt, kind)(*params)


KEY_TYPES = {"k": pa.string(), "site": pa.string(), "unit": pa.int64()}


def batch_of(
    records: list[Record], keys: tuple[str, ...], tie: bool, form: str = "table", marked: bool = False
) -> Any:
    """Records as a batch that the operator takes."""
    columns = {
        name: pa.array([r.key[place] for r in records], KEY_TYPES[name]) for place, name in enumerate(keys)
    }
    columns["t"] = pa.array([r.t for r in records], pa.int64())
    columns["v"] = pa.array([r.v for r in records], pa.float64())
    columns["w"] = pa.array([r.w for r in records], pa.int64())
    if tie:
        columns["tie"] = pa.array([r.tie for r in records], pa.int64())
    if marked:
        columns |= {name: pa.array([getattr(r, name) for r in records], pa.bool_()) for name in ("p", "q")}
        columns["s"] = pa.array([r.s for r in records], pa.float64())
        columns["m"] = pa.array([r.m for r in records], pa.int64())
    if form == "table":
        return pa.table(columns)
    if form == "batch":
        return pa.RecordBatch.from_pydict(columns)
    return {name: _loosened(column, form) for name, column in columns.items()}


def _loosened(column: pa.Array, form: str) -> Any:
    """A list or a NumPy array, where that still tells the type."""
    if form == "lists":
        return column.to_pylist() if column.null_count < len(column) else column
    if column.null_count or pa.types.is_string(column.type):
        return column
    return np.array(column.to_pylist(), column.type.to_pandas_dtype())


# ---- queries ----

CALLS: list[tuple[str, ...]] = [
    ("count",),
    ("count", "v"),
    ("sum", "v"),
    ("sum", "w"),
    ("mean", "v"),
    ("min", "v"),
    ("max", "v"),
    ("min", "w"),
    ("max", "w"),
    ("first", "v"),
    ("last", "w"),
    ("argmax", "v", "w"),
    ("argmin", "v", "w"),
    ("m4", "v"),
    ("m4", "w"),
    ("min_count", "v"),
    ("max_count", "v"),
    ("relative_variation", "v"),
    ("affine", "w"),
    ("squares", "v"),
    ("union", "w"),
    ("collected", "w"),
    ("variance", "v"),
    ("stddev", "v"),
    ("product", "v"),
    ("geomean", "v"),
    ("covariance", "v", "w"),
    ("correlation", "v", "w"),
    ("regression", "w", "v"),
    ("slope", "v", "w"),
    ("weighted_mean", "v", "ABS(w)"),
    ("ewm", "v"),
    ("ewm", "w"),
    ("rate", "v"),
    ("rate", "w"),
]
HOLISTIC: list[tuple[str, ...]] = [
    (name, column)
    for name in ("median", "third", "quantiles", "mode", "count_distinct", "collect", "collect_distinct")
    for column in ("v", "w")
]
CALLS += HOLISTIC

# Rounding may tell equal windows apart here, so that nobody can say whether they have changed.
ROUNDED = {"variance", "stddev", "product", "geomean", "covariance", "correlation", "regression", "slope"}
ROUNDED |= {"weighted_mean", "ewm", "rate"}
EXACT = [call for call in CALLS if call[0] not in ROUNDED]

_lengths = st.integers(1, 12)
_offsets = st.one_of(st.just(0), st.integers(-15, 15))

WINDOWS = {
    "tumbling": st.tuples(_lengths, _offsets),
    "sliding": st.tuples(_lengths, _lengths, _offsets),
    "cumulate": st.tuples(st.integers(1, 4), st.integers(1, 4)).map(lambda p: (p[0] * p[1], p[0])),
    "session": st.tuples(_lengths),
    "count_tumbling": st.tuples(st.integers(1, 6)),
    "count_sliding": st.tuples(st.integers(1, 6), st.integers(1, 8)),
}

_rarely = st.sampled_from([False, False, False, True])


@dataclass(frozen=True)
class Setting:
    """What holds for a whole workload, and decides which queries make sense in it."""

    policy: str | int
    lateness: int
    tie: bool
    spells: bool  # the stream falls silent for so long that nobody would want its empty windows


@st.composite
def specs(draw: st.DrawFn, name: str, setting: Setting) -> Spec:
    """A query under this name that is well defined in this setting."""
    kind = draw(st.sampled_from(list(WINDOWS)))
    params = draw(WINDOWS[kind])
    empty = kind in GRIDS and not setting.spells and draw(_rarely)
    on_change = _can_leave_out(kind, empty, setting) and draw(_rarely)
    calls = draw(
        st.lists(st.sampled_from(EXACT if on_change else CALLS), min_size=1, max_size=2, unique=True)
    )
    return Spec(
        name,
        kind,
        params,
        {"_".join(call): call for call in calls},  # a name has one type in all queries
        emit_empty=empty,
        emit_partial=kind in COUNTS and draw(_rarely),
        emit="on_change" if on_change else "all",
    )


def _can_leave_out(kind: str, empty: bool, setting: Setting) -> bool:
    """Whether emit="on_change" is free of corrections, which it has no meaning for.

    Two remain at lateness 0: a tie may put a record into a count window after its last one, and a record that
    is late for all but longer windows may reach back or ahead, so that empty windows appear late.
    """
    if setting.lateness or (setting.tie and kind in COUNTS):
        return False
    return not empty or setting.policy == "in_order"


# ---- records ----

HALVES = [n / 2 for n in sorted(range(-8, 9), key=abs)]
_POSITIVE = [n / 2 for n in range(1, 17)]
_SPECIAL = [math.nan, math.inf, -math.inf, 0.0, 1.5, -2.0, None]
VALUES = [
    HALVES,
    _POSITIVE,
    as_often(HALVES, [None]),
    as_often(_POSITIVE, [None]),
    as_often(HALVES, _SPECIAL),
]
SMALL = sorted(range(-5, 6), key=abs)
GAPS = [0, 1, 0, 1, 2, 0, 1, 3, 0, 7]
LAGS = [[0], [0, 0, 0, 0, 1, 2, 4], [*range(8)], [0, 1, 2, 5, 9, 14], [0, 0, 3, 10, 25, 40, 60]]

_names = st.sampled_from(["a", "b", "c", None])
_units = st.sampled_from([0, 1, -7, None])
KEYS = {
    (): st.just(()),
    ("k",): st.tuples(_names),
    ("site", "unit"): st.tuples(_names, _units),
}


@st.composite
def _records(draw: st.DrawFn, keys: tuple[str, ...], setting: Setting, w_nulls: bool) -> Any:
    """A strategy for records that say how far the clock moves before them, and how far they lag behind it.

    The lag stands in `t` until the workload is put together.
    """
    pool = draw(st.lists(KEYS[keys], min_size=1, max_size=4, unique=True))
    gaps = GAPS * 2 + [1000, 10**9] if setting.spells else GAPS
    values = draw(st.sampled_from(VALUES))
    lags = draw(st.sampled_from(LAGS))
    small = as_often(SMALL, [None]) if w_nulls else SMALL
    drawn = packed(gaps, lags, values, small, pool, range(4) if setting.tie else [0])
    return drawn.map(lambda parts: (parts[0], Record(*parts[1:])))


# ---- the whole ----

_FORMS = st.sampled_from(["table", "table", "table", "batch", "lists", "arrays"])


@dataclass
class Clock:
    """The clock of the stream and the operator's watermark, while a workload is put together."""

    policy: str | int
    now: int
    watermark: float = NEVER

    def stamp(self, gap: int, lagging: Record) -> Record:
        """Give a record its time, and let it move the watermark."""
        self.now += gap
        record = lagging._replace(t=self.now - lagging.t)
        if self.policy != "manual":
            delay = 0 if self.policy == "in_order" else self.policy
            self.watermark = max(self.watermark, record.t - delay)
        return record

    def advance(self, ahead: int) -> int:
        """Move the watermark to some time about now, never back."""
        self.watermark = max(self.watermark, self.now + ahead)
        return int(self.watermark)


def _lists_of(elements: st.SearchStrategy, most: int) -> st.SearchStrategy:
    """Lists of up to `most` elements: longer ones than `st.lists` would draw by itself."""
    sizes = [0, most // 3, most // 2, most // 2, most * 3 // 4, most]  # shrinks to 0
    lists = {size: st.lists(elements, min_size=size, max_size=most) for size in sizes}
    return st.sampled_from(sizes).flatmap(lists.__getitem__)


def steps(records: st.SearchStrategy, manual: bool) -> st.SearchStrategy:
    """Calls, still without times and names."""
    parts = {
        "process": (_lists_of(records, 8), _FORMS),
        "single": (st.lists(records, min_size=1, max_size=1), _FORMS),
        "advance": (st.sampled_from([*range(-25, 9), 1000]),),
        "add": (),
        "remove": (st.integers(0, 6),),
        "restore": (),
    }
    # How often each is drawn; one_of would count a repeated strategy once.
    weights = {"process": 8, "single": 2, "advance": 8 if manual else 2, "add": 2, "remove": 1, "restore": 2}
    kinds = st.sampled_from([kind for kind in parts for _ in range(weights[kind])])
    calls = {kind: st.tuples(st.just(kind), *drawn) for kind, drawn in parts.items()}
    return _lists_of(kinds.flatmap(calls.__getitem__), 20)


def put_together(steps: list[tuple], names: list[str], later: list[Spec], clock: Clock) -> list[Call]:
    """Turn steps into calls that are allowed where they stand."""
    calls: list[Call] = []
    names, later = list(names), list(later)
    for step in steps:
        match step:
            case "process" | "single", drawn, form:
                calls.append(Process([clock.stamp(gap, record) for gap, record in drawn], form))
            case "advance", ahead:
                calls.append(Advance(clock.advance(ahead)))
            case ("add",) if later:
                calls.append(Add(later.pop(0)))
                names.append(calls[-1].spec.name)
            case "remove", place if len(names) > 1:
                calls.append(Remove(names.pop(place % len(names))))
            case ("restore",):
                calls.append(Restore())
    return calls


def _uses_arguments(queries: list[Spec]) -> bool:
    return any(len(call) == 3 for spec in queries for call in spec.aggregates.values())


@st.composite
def settings_(draw: st.DrawFn) -> Setting:
    policy = draw(st.sampled_from(["in_order", 0, 1, 3, 7, 15, "manual", "manual", "manual"]))
    lateness = 0 if policy == "in_order" else draw(st.sampled_from([20, 60, 3, 8, 0, 0]))
    return Setting(policy, lateness, tie=draw(_rarely), spells=draw(_rarely))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """A whole run of the operator."""
    setting = draw(settings_())
    size, more = draw(st.integers(1, 5)), draw(st.integers(0, 2))
    queries = [draw(specs(f"q{place}", setting)) for place in range(size + more)]
    keys = draw(st.sampled_from(list(KEYS)))
    w_nulls = not _uses_arguments(queries) and draw(st.booleans())
    records = draw(_records(keys, setting, w_nulls))
    drawn = draw(steps(records, setting.policy == "manual"))
    clock = Clock(setting.policy, draw(st.sampled_from([0, 7, -1, -20, 100, -(10**9)])))
    calls = put_together(drawn, [spec.name for spec in queries[:size]], queries[size:], clock)
    if draw(st.sampled_from([True] * 9 + [False])):
        calls.append(Finish())
    return Workload(
        queries=queries[:size],
        calls=calls,
        policy=setting.policy,
        lateness=setting.lateness,
        keys=keys,
        tie=setting.tie,
        store=draw(st.sampled_from(["auto", "lazy", "eager", "sliding"])),
    )


@st.composite
def tables(draw: st.DrawFn) -> Workload:
    """A finite table in any row order, as the one batch of a workload."""
    setting = Setting("in_order", 0, tie=False, spells=draw(_rarely))  # as there, nothing is corrected
    queries = [draw(specs(f"q{place}", setting)) for place in range(draw(st.integers(1, 5)))]
    keys = draw(st.sampled_from(list(KEYS)))
    w_nulls = not _uses_arguments(queries) and draw(st.booleans())
    drawn = draw(_lists_of(draw(_records(keys, setting, w_nulls)), 60))
    clock = Clock("manual", draw(st.sampled_from([0, 7, -20, -(10**9)])))
    batch = Process([clock.stamp(gap, record) for gap, record in drawn], draw(_FORMS))
    return Workload(queries, [batch, Finish()], policy="manual", keys=keys)
