"""The operator gives the rows that the semantics page asks for, call by call.

Random workloads run on the operator and on the brute-force oracle side by side. The examples below them were
worked out by hand from the page, and hold for both.
"""

import math
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import muntin as mt
from tests.conditions import COMPUTED
from tests.oracle import OVER_PAIRS, agrees
from tests.windows_oracle import Oracle, Record, Row, Spec, one_shot, row_order
from tests.workloads import (
    Add,
    Advance,
    Call,
    Finish,
    Process,
    Remove,
    Restore,
    Workload,
    batch_of,
    query_of,
    tables,
    workloads,
)

FIXED = {"query", "window_start", "window_end", "window_id", "revision", "change"}
FIXED |= {"measure_start", "measure_end", "final"}


@dataclass
class Step:
    """What one call has led to."""

    rows: list[Row]
    late: list[dict]  # the records dropped by it
    dropped: int  # their number as the metrics have it
    watermark: int | None
    queries: list[Spec]  # those the operator has now
    columns: list[str]  # of the late output


# ---- the two engines ----


def run_oracle(workload: Workload) -> Iterator[Step]:
    """Run a workload on the oracle."""
    oracle = Oracle(workload.queries, workload.policy, workload.lateness, workload.tie)
    for call in workload.calls:
        rows = _ask_oracle(oracle, call)
        late = [_as_row(record, workload) for record in oracle.take_late()]
        watermark = oracle.watermark if math.isfinite(oracle.watermark) else None
        specs = [query.spec for query in oracle.queries.values()]
        yield Step(rows, late, len(late), watermark, specs, [])


def _ask_oracle(oracle: Oracle, call: Call) -> list[Row]:
    match call:
        case Process(records):
            return oracle.process(records)
        case Advance(to):
            return oracle.advance(to)
        case Add(spec):
            oracle.add(spec)
        case Remove(name):
            oracle.remove(name)
        case Finish():
            return oracle.finish()
    return []


def _as_row(record: Record, workload: Workload) -> dict:
    values = {
        "t": record.t,
        "v": record.v,
        "w": record.w,
        **dict(zip(workload.keys, record.key, strict=True)),
    }
    marks = {name: getattr(record, name) for name in "pqsm"} if workload.marked else {}
    return values | ({"tie": record.tie} if workload.tie else {}) | marks


class Seconds:
    """An operator over timestamps in seconds that takes and gives integers."""

    TIME = pa.timestamp("s")

    def __init__(self, operator: mt.WindowOperator) -> None:
        self._operator = operator

    def _cast(self, table: pa.Table, kind: pa.DataType, *names: str) -> pa.Table:
        for name in names:
            if name in table.column_names:
                place = table.column_names.index(name)
                table = table.set_column(place, name, table[name].cast(kind))
        return table

    def _whole(self, rows: pa.Table) -> pa.Table:
        rows = self._cast(rows, pa.int64(), "window_start", "window_end")
        for column in rows.schema:
            if pa.types.is_struct(column.type):  # of m4, which has times, too
                whole = pa.struct(
                    [(f.name, pa.int64() if f.type == self.TIME else f.type) for f in column.type]
                )
                rows = self._cast(rows, whole, column.name)
        return rows

    def process(self, batch: pa.Table) -> pa.Table:
        return self._whole(self._operator.process(self._cast(pa.table(batch), self.TIME, "t")))

    def advance(self, to: int) -> pa.Table:
        return self._whole(self._operator.advance(pa.scalar(to, pa.int64()).cast(self.TIME)))

    def finish(self) -> pa.Table:
        return self._whole(self._operator.finish())

    def take_late(self) -> pa.Table:
        return self._cast(self._operator.take_late(), pa.int64(), "t")

    @property
    def watermark(self) -> Any:
        mark = self._operator.watermark
        return mark.value if isinstance(mark, pa.Scalar) else mark

    def restore(self, snapshot: bytes, queries: list) -> "Seconds":
        return Seconds(mt.WindowOperator.restore(snapshot, queries=queries))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)


def operator_of(workload: Workload) -> Any:
    """The operator that a workload starts with."""
    policy = workload.policy
    delayed = workload.seconds and policy not in ("in_order", "manual")
    operator = mt.WindowOperator(
        [query_of(spec, workload.seconds) for spec in workload.queries],
        time="t",
        key=list(workload.keys) or None,
        watermark=f"{policy}s" if delayed else policy,
        lateness=f"{workload.lateness}s" if workload.seconds else workload.lateness,
        tie="tie" if workload.tie else None,
        store=workload.store,
    )
    return Seconds(operator) if workload.seconds else operator


def run_operator(workload: Workload) -> Iterator[Step]:
    """Run a workload on the operator."""
    operator = operator_of(workload)
    specs = {spec.name: spec for spec in workload.queries}
    for call in workload.calls:
        before = operator.metrics.late_dropped
        rows: list[Row] = []
        match call:
            case Process(records, form):
                rows = told(
                    operator.process(batch_of(records, workload.keys, workload.tie, form, workload.marked)),
                    workload.keys,
                )
            case Advance(to):
                rows = told(operator.advance(to), workload.keys)
            case Add(spec):
                operator.add(query_of(spec, workload.seconds))
                specs[spec.name] = spec
            case Remove(name):
                operator.remove(name)
                del specs[name]
            case Restore():
                queries = [query_of(spec, workload.seconds) for spec in specs.values()]
                operator = operator.restore(operator.snapshot(), queries=queries)
                before = operator.metrics.late_dropped
            case Finish():
                rows = told(operator.finish(), workload.keys)
        late = operator.take_late()
        dropped = operator.metrics.late_dropped - before
        watermark, queries = operator.watermark, list(specs.values())
        yield Step(rows, late.to_pylist(), dropped, watermark, queries, late.column_names)


def told(table: pa.Table, keys: tuple[str, ...]) -> list[Row]:
    """The rows of a result, in the oracle's form."""
    return [
        Row(
            tuple(row[name] for name in keys),
            row["query"],
            row["window_start"],
            row["window_end"],
            row["window_id"],
            row["change"],
            row["revision"],
            {name: value for name, value in row.items() if name not in FIXED.union(keys)},
            measures=_measures(row),
            final=row.get("final", True),
        )
        for row in table.to_pylist()
    ]


def _measures(row: dict) -> tuple | None:
    bounds = row.get("measure_start"), row.get("measure_end")
    return None if None in bounds else bounds


# ---- the comparison ----


def check(workload: Workload) -> None:
    """Run the operator and the oracle side by side and compare what each call gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # records that break the promise of order are meant
        pairs = zip(workload.calls, run_oracle(workload), run_operator(workload), strict=True)
        for number, (call, want, got) in enumerate(pairs):
            where = f"call {number}, {type(call).__name__}"
            check_rows(got.rows, want.rows, want.queries, where)
            check_late(got, want, workload, where)
            if not isinstance(call, Finish):  # what the watermark reads once it is infinite is not fixed
                assert got.watermark == want.watermark, where


def check_rows(got: list[Row], want: list[Row], specs: list[Spec], where: str) -> None:
    """The same rows in the right order, each with the right values and with null where it has none."""
    got_by, want_by = ({_identity(row): row for row in rows} for rows in (got, want))
    assert len(got_by) == len(got), f"{where}: a row came twice: {got}"
    surplus, missing = got_by.keys() - want_by.keys(), want_by.keys() - got_by.keys()
    assert not surplus, f"{where}: too much {surplus}, missing {missing}"
    assert not missing, f"{where}: missing {missing}"
    places = {spec.name: place for place, spec in enumerate(specs)}
    order = [row_order(row, places) for row in got]
    assert order == sorted(order), f"{where}: rows are out of order"
    calls = {spec.name: spec.aggregates for spec in specs}
    for identity, row in want_by.items():
        check_values(got_by[identity], row, calls[row.query], f"{where}, {identity}")


def _identity(row: Row) -> tuple:
    bounds = (row.start, row.end, row.id, row.measures)
    return row.key, row.query, *bounds, row.change, row.revision, row.final


def check_values(got: Row, want: Row, calls: dict[str, tuple[str, ...]], where: str) -> None:
    """Equal aggregates, but for rounding; null in the columns of other queries."""
    for name, value in want.values.items():
        found = got.values[name]
        assert agrees(found, value, scale(calls[name], want)), f"{where}: {name} is {found}, not {value}"
        whole = isinstance(found, int)
        assert not isinstance(value, (int, float)) or whole == isinstance(value, int), f"{where}: {name}"
    others = {name: value for name, value in got.values.items() if name not in want.values}
    assert not any(value is not None for value in others.values()), f"{where}: {others}"


def scale(call: tuple[str, ...], row: Row) -> float:
    """How large the terms of an aggregate are, which bounds the rounding of their sum; 0 elsewhere."""
    if call[0] not in ("sum", "mean", "variance", "stddev", "squares", "ewm", "rate", *OVER_PAIRS):
        return 0.0
    sizes = []
    for name in call[1:]:
        values = [getattr(arrived.record, name) for arrived in row.records]
        sizes.append([abs(v) for v in values if v is not None and math.isfinite(v)])
    if call[0] in OVER_PAIRS:
        return math.prod(1.0 + math.fsum(column) for column in sizes)
    return math.fsum(v * v for v in sizes[0]) if call[0] == "squares" else math.fsum(sizes[0])


def check_late(got: Step, want: Step, workload: Workload, where: str) -> None:
    """The same records were dropped, and counted; columns that no query reads may be missing."""
    assert got.dropped == want.dropped, f"{where}: {got.dropped} records dropped, not {want.dropped}"
    assert len(got.late) == len(want.late), where
    if not want.late:
        return
    needed = {"t", *workload.keys, *(["tie"] if workload.tie else [])}
    read = {c for spec in want.queries for call in spec.aggregates.values() for c in call[1:]}
    needed.update(read - COMPUTED.keys())
    assert needed <= set(got.columns), f"{where}: the late output lacks {needed - set(got.columns)}"
    columns = [column for column in want.late[0] if column in got.columns]
    got_late, want_late = (Counter(repr([row[c] for c in columns]) for row in s.late) for s in (got, want))
    assert got_late == want_late, where


# ---- random workloads ----

# Shards are spread over processes; 250 examples each by default, 2500 in the long profile.
SHARDS = range(8)


@pytest.mark.parametrize("shard", SHARDS)
@settings(max_examples=settings().max_examples * 5 // 2)
@given(workload=workloads())
def test_operator_agrees_with_the_oracle(shard, workload):
    check(workload)


@pytest.mark.parametrize("shard", range(4))
@given(workload=tables(), shuffle=st.randoms(use_true_random=False))
def test_aggregate_agrees_with_the_oracle(shard, workload, shuffle):
    batch = workload.calls[0]
    records = list(batch.records)
    shuffle.shuffle(records)
    queries = [query_of(spec) for spec in workload.queries]
    table = batch_of(records, workload.keys, False, batch.form)
    rows = mt.aggregate(table, queries, time="t", key=list(workload.keys) or None, columns="all")
    got = told(rows, workload.keys)
    check_rows(got, one_shot(workload.queries, records), workload.queries, "mt.aggregate")
    assert all((row.change, row.revision) == ("insert", 0) for row in got)


# ---- worked out by hand ----


def at(*pairs: tuple[int, float]) -> Process:
    """A batch of records (time, value)."""
    return Process([Record(t, float(v)) for t, v in pairs])


def over(name: str, kind: str, *params: int, calls: str = "sum_v", **flags) -> Spec:
    """A query with aggregates such as sum_v."""
    return Spec(name, kind, params, {call: tuple(call.split("_")) for call in calls.split()}, **flags)


def line(row: Row, spec: Spec) -> str:
    """A row in one line: change, revision, query, bounds, number, values."""
    number = "" if row.id is None else f" #{row.id}"
    values = " ".join(str(row.values[name]) for name in spec.aggregates)
    return f"{row.change} {row.revision}: {row.query} {row.start}..{row.end}{number} = {values}"


@pytest.fixture(params=[run_oracle, run_operator], ids=["oracle", "operator"])
def run(request):
    """Run queries over calls on one engine; for each call, the lines of its rows."""

    def lines(queries, *calls, **setting):
        steps = request.param(Workload(queries, list(calls), **setting))
        return [[line(row, _spec(step, row)) for row in step.rows] for step in steps]

    return lines


def _spec(step: Step, row: Row) -> Spec:
    return next(spec for spec in step.queries if spec.name == row.query)


def test_tumbling(run):
    #  0   1   2   3   4   5   6   7   8   9  10  11  12
    #  .   1   .   .   2   3   .   .   .   4   .   5   .
    #  [------------------)                                 3
    #                      [------------------)             7
    #                                          [-------...  5
    assert run(
        [over("q", "tumbling", 5, 0)], at((1, 1), (4, 2), (5, 3)), at((9, 4)), at((11, 5)), Finish()
    ) == [
        ["insert 0: q 0..5 = 3.0"],
        [],
        ["insert 0: q 5..10 = 7.0"],
        ["insert 0: q 10..15 = 5.0"],
    ]


def test_tumbling_with_an_offset_below_zero(run):
    # -7  -6  -5  -4  -3  -2  -1   0   1   2   3
    #  .   .   .   .   1   2   .   .   .   4   8
    #  [------------------)                          1
    #                      [------------------)      6
    #                                          [---  8
    assert run([over("q", "tumbling", 5, -7)], at((-3, 1), (-2, 2), (2, 4), (3, 8)), Finish()) == [
        ["insert 0: q -7..-2 = 1.0", "insert 0: q -2..3 = 6.0"],
        ["insert 0: q 3..8 = 8.0"],
    ]


def test_sliding_by_what_does_not_divide_the_length(run):
    # -3  -2  -1   0   1   2   3   4   5   6   7   8   9  10  11
    #  .   .   .   .   1   .   .   2   .   .   4   .   .   .   .
    #  [------------------)                                         1
    #              [------------------)                             3
    #                          [------------------)                 6
    #                                      [------------------)     4
    assert run([over("q", "sliding", 5, 3, 0)], at((1, 1), (4, 2), (7, 4)), Finish()) == [
        ["insert 0: q -3..2 = 1.0", "insert 0: q 0..5 = 3.0"],
        ["insert 0: q 3..8 = 6.0", "insert 0: q 6..11 = 4.0"],
    ]


def test_sliding_by_more_than_the_length_leaves_records_out(run):
    #  0   1   2   3   4   5   6   7
    #  .   1   .   2   .   .   4   .
    #  [------)                         1
    #                      [------)     4
    assert run([over("q", "sliding", 2, 5, 0)], at((1, 1), (3, 2), (6, 4)), Finish()) == [
        ["insert 0: q 0..2 = 1.0"],
        ["insert 0: q 5..7 = 4.0"],
    ]


def test_cumulate(run):
    #  0   1   2   3   4   5   6   7   8   9  10  11  12
    #  .   1   .   2   .   .   .   .   .   4   .   .   .
    #  [------)                                             1
    #  [--------------)                                     3
    #  [----------------------)                             3
    #                          [--------------)             4, the one before it is empty
    #                          [----------------------)     4
    assert run([over("q", "cumulate", 6, 2)], at((1, 1), (3, 2)), at((9, 4)), Finish()) == [
        ["insert 0: q 0..2 = 1.0"],
        ["insert 0: q 0..4 = 3.0", "insert 0: q 0..6 = 3.0"],
        ["insert 0: q 6..10 = 4.0", "insert 0: q 6..12 = 4.0"],
    ]


def test_a_record_exactly_the_gap_after_the_last_joins_its_session(run):
    #  1   2   3   4   5   6   7   8   9  10  11
    #  1   .   .   2   .   .   4   .   .   .   8     gap 3
    #  [----------------------------------)          7: at 7 the window from 1 to 7 was not yet out
    #                                          [---
    calls = at((1, 1), (4, 2)), at((7, 4)), at((11, 8)), Finish()
    assert run([over("q", "session", 3)], *calls) == [
        [],
        [],
        ["insert 0: q 1..10 = 7.0"],
        ["insert 0: q 11..14 = 8.0"],
    ]


def test_a_session_waits_until_the_watermark_has_passed_its_end(run):
    calls = at((1, 1)), Advance(4), at((4, 2)), Advance(7), Advance(8)
    assert run([over("q", "session", 3)], *calls, policy="manual")[3:] == [[], ["insert 0: q 1..7 = 3.0"]]


def test_two_sessions_bridged_by_a_late_record(run):
    #  1   2   3   4   5   6   7   8   9  10  11  12
    #  1   2   .   .   .   .   .   4   .   .   .   W     gap 3
    #  [--------------)                                  3
    #                              [----------)          4
    #                  8                                 at most 3 from either
    #  [--------------------------------------)         15
    calls = at((1, 1), (2, 2), (8, 4)), Advance(12), at((5, 8))
    assert run([over("q", "session", 3)], *calls, policy="manual", lateness=10) == [
        [],
        ["insert 0: q 1..5 = 3.0", "insert 0: q 8..11 = 4.0"],
        ["retract 1: q 1..5 = None", "retract 1: q 8..11 = None", "insert 0: q 1..11 = 15.0"],
    ]


def test_a_session_that_a_late_record_reopens(run):
    #  1   2   3   4   5   6   7   8
    #  1   2   .   .   .   W               gap 3
    #  [--------------)                    3
    #              4                       the session now ends at 7, which the watermark has not passed
    #  [----------------------)    W       7
    calls = at((1, 1), (2, 2)), Advance(6), at((4, 4)), Advance(7), Advance(8)
    assert run([over("q", "session", 3)], *calls, policy="manual", lateness=10) == [
        [],
        ["insert 0: q 1..5 = 3.0"],
        ["retract 1: q 1..5 = None"],
        [],
        ["insert 0: q 1..7 = 7.0"],
    ]


def test_count_sliding_with_disorder(run):
    #  1   2   3   4   5   6   7
    #  1   2   .   4   5   6   .      three records at each second
    #  [----------]                   #0 = 7
    #              [------]           #1 = 15
    #          3                      one late record moves all after it
    #  [------]                       #0 = 6
    #          [------]               #1 = 12
    #                  [------]       #2 = 18, once 7 is there
    calls = at((1, 1), (2, 2), (4, 4), (5, 5), (6, 6)), Advance(6), at((3, 3)), at((7, 7)), Advance(7)
    assert run([over("q", "count_sliding", 3, 2)], *calls, policy="manual", lateness=9) == [
        [],
        ["insert 0: q 1..4 #0 = 7.0", "insert 0: q 4..6 #1 = 15.0"],
        ["update 1: q 1..3 #0 = 6.0", "update 1: q 3..5 #1 = 12.0"],
        [],
        ["insert 0: q 5..7 #2 = 18.0"],
    ]


def test_late_for_one_window_in_time_for_a_longer_one(run):
    #  0   1   2   3   4   5   6   7   8   9       delay 3
    #  .   .   1   .   .   .   W   .   .   2
    #  [------------------)                        short: out at 6, without
    #              4                               this one, which finds the watermark at 6;
    #  [--------------------------------------...  long: still open
    queries = [over("short", "tumbling", 5, 0), over("long", "tumbling", 20, 0), over("s", "session", 3)]
    assert run(queries, at((2, 1), (9, 2)), at((3, 4)), Finish(), policy=3) == [
        ["insert 0: short 0..5 = 1.0", "insert 0: s 2..5 = 1.0"],
        [],
        ["insert 0: short 5..10 = 2.0", "insert 0: s 9..12 = 2.0", "insert 0: long 0..20 = 7.0"],
    ]


@pytest.mark.parametrize("engine", [run_oracle, run_operator])
def test_late_for_all_is_dropped(engine):
    workload = Workload([over("q", "tumbling", 5, 0)], [at((2, 1), (9, 2)), at((3, 4), (5, 8))], policy=3)
    first, second = engine(workload)
    assert (first.dropped, first.late, first.watermark) == (0, [], 6)
    assert (second.dropped, [row["t"] for row in second.late], second.watermark) == (1, [3], 6)


def test_corrections_within_the_lateness(run):
    #  0   1   2   3   4   5   6   7   8   9  10  11
    #  .   1   .   .   .   W
    #  [------------------)                            1
    #          2                                       [0, 5) is open to records until the watermark is at 8
    #              4                   W               and no longer
    queries = [over("q", "tumbling", 5, 0)]
    calls = at((1, 1)), Advance(5), at((2, 2)), Advance(7), at((3, 4)), Advance(8), at((4, 8)), Finish()
    assert run(queries, *calls, policy="manual", lateness=3) == [
        [],
        ["insert 0: q 0..5 = 1.0"],
        ["update 1: q 0..5 = 3.0"],
        [],
        ["update 2: q 0..5 = 7.0"],
        [],
        [],
        [],
    ]


def test_in_order_a_record_that_goes_back_counts_for_nothing(run):
    #  0   1   2   3   4   5   6   7   8   9
    #  .   .   1   .   2   .
    #              4                            even though its window is open
    #  [------------------)                     3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        rows = run([over("q", "tumbling", 5, 0)], at((2, 1), (4, 2), (3, 4)), Finish())
    assert rows == [[], ["insert 0: q 0..5 = 3.0"]]


def test_empty_windows_between_records(run):
    #  0   1   2   3   4   5   6   7
    #  .   1   .   .   .   .   .   2
    #  [------)                           1, of one record
    #          [------)                   null, of none
    #                  [------)           null, of none
    #                          [------)   2
    queries = [over("q", "tumbling", 2, 0, calls="sum_v count", emit_empty=True)]
    assert run(queries, at((1, 1)), Advance(6), at((7, 2)), Finish()) == [
        [],
        ["insert 0: q 0..2 = 1.0 1"],
        ["insert 0: q 2..4 = None 0", "insert 0: q 4..6 = None 0"],
        ["insert 0: q 6..8 = 2.0 1"],
    ]


def test_an_empty_window_that_a_late_record_fills(run):
    queries = [over("q", "tumbling", 2, 0, calls="sum_v count", emit_empty=True)]
    assert run(queries, at((1, 1), (5, 2)), Advance(5), at((3, 4)), policy="manual", lateness=3) == [
        [],
        ["insert 0: q 0..2 = 1.0 1", "insert 0: q 2..4 = None 0"],
        ["update 1: q 2..4 = 4.0 1"],
    ]


def test_partial_count_windows_come_out_at_the_end(run):
    #  1   2   3   4   5
    #  1   2   4   .   8
    #  [------]            #0 = 7
    #      [----------]    #1 = 14
    #          [-------    #2 = 12, partial
    #                 [-   #3 = 8, partial
    queries = [
        over("full", "count_sliding", 3, 1),
        over("partial", "count_sliding", 3, 1, emit_partial=True),
        over("three", "count_tumbling", 3, emit_partial=True),
    ]
    assert run(queries, at((1, 1), (2, 2), (3, 4), (5, 8)), Finish()) == [
        [
            "insert 0: full 1..3 #0 = 7.0",
            "insert 0: partial 1..3 #0 = 7.0",
            "insert 0: three 1..3 #0 = 7.0",
            "insert 0: full 2..5 #1 = 14.0",
            "insert 0: partial 2..5 #1 = 14.0",
        ],
        [
            "insert 0: partial 3..5 #2 = 12.0",
            "insert 0: partial 5..5 #3 = 8.0",
            "insert 0: three 5..5 #1 = 8.0",
        ],
    ]


def test_an_added_query_sees_what_is_later_than_all_so_far(run):
    #  0   1   2   3   4   5   6   7   8   9  10  11  12
    #  .   1   .   .   .   .   .   2  add
    #                                  4   .   .   .   8
    #  [------------------)[------------------)[-----...    old: 1, 6, 8
    #                                          [-----...    new: 8, for it has not seen all of [5, 10)
    #                                  [----------)[---     runs: 4, 8
    old, new, runs = over("old", "tumbling", 5, 0), over("new", "tumbling", 5, 0), over("runs", "session", 3)
    assert run([old], at((1, 1), (7, 2)), Add(new), Add(runs), at((8, 4), (12, 8)), Finish()) == [
        ["insert 0: old 0..5 = 1.0"],
        [],
        [],
        ["insert 0: old 5..10 = 6.0", "insert 0: runs 8..11 = 4.0"],
        ["insert 0: old 10..15 = 8.0", "insert 0: new 10..15 = 8.0", "insert 0: runs 12..15 = 8.0"],
    ]


def test_an_added_query_does_not_take_late_records_from_before(run):
    new = over("new", "count_tumbling", 1)
    calls = at((7, 2)), Add(new), at((7, 4), (5, 8), (9, 16)), Finish()
    setting = {"policy": "manual", "lateness": 50}
    assert run([over("old", "tumbling", 10, 0)], *calls, **setting)[-1] == [
        "insert 0: new 9..9 #0 = 16.0",
        "insert 0: old 0..10 = 30.0",
    ]


def test_a_removed_query_takes_its_open_windows_along(run):
    queries = [over("a", "tumbling", 5, 0), over("b", "tumbling", 5, 0)]
    assert run(queries, at((1, 1)), Remove("a"), at((2, 2)), Finish()) == [
        [],
        [],
        [],
        ["insert 0: b 0..5 = 3.0"],
    ]


def test_rows_that_tell_nothing_new_are_left_out(run):
    #  0   1   2   3   4   5   6   7   8   9
    #  5   .   5   .   6   .   6   .   5   .
    #  [------)        [------)        [---     those between repeat the one before
    query = over("q", "tumbling", 2, 0, calls="last_v", emit="on_change")
    assert run([query], at((0, 5), (2, 5), (4, 6)), at((6, 6), (8, 5)), Finish()) == [
        ["insert 0: q 0..2 = 5.0"],
        ["insert 0: q 4..6 = 6.0"],
        ["insert 0: q 8..10 = 5.0"],
    ]


def test_a_tie_comes_before_arrival(run):
    #  1   2
    #  b   .     b and a have the same time; a has the smaller tie and comes first, though it arrives later
    #  a   .
    query = over("q", "count_tumbling", 1, calls="first_w")
    later, earlier = Record(1, w=20, tie=2), Record(1, w=10, tie=1)
    assert run([query], Process([later]), Process([earlier]), tie=True) == [
        ["insert 0: q 1..1 #0 = 20"],
        ["update 1: q 1..1 #0 = 10", "insert 0: q 1..1 #1 = 20"],
    ]
    assert run([query], Process([later]), Process([earlier])) == [
        ["insert 0: q 1..1 #0 = 20"],
        ["insert 0: q 1..1 #1 = 10"],
    ]


def test_each_key_has_windows_of_its_own_under_one_watermark(run):
    #  a:  1   .   .   .                      [0, 2) is out because b has moved on
    #  null:   2   .   .
    #  b:  .   .   .   4
    queries = [over("q", "tumbling", 2, 0), over("n", "count_tumbling", 1)]
    batch = Process([Record(0, 1.0, key=("a",)), Record(1, 2.0, key=(None,)), Record(3, 4.0, key=("b",))])
    rows, rest = run(queries, batch, Finish(), keys=("k",))
    assert sorted(rows) == [
        "insert 0: n 0..0 #0 = 1.0",
        "insert 0: n 1..1 #0 = 2.0",
        "insert 0: n 3..3 #0 = 4.0",
        "insert 0: q 0..2 = 1.0",
        "insert 0: q 0..2 = 2.0",
    ]
    assert rest == ["insert 0: q 2..4 = 4.0"]


def test_a_snapshot_changes_nothing(run):
    queries = [over("q", "session", 3), over("n", "count_sliding", 2, 1)]
    calls = at((1, 1), (8, 4)), Advance(12), at((4, 8))
    restored = [call for each in calls for call in (Restore(), each)]
    setting = {"policy": "manual", "lateness": 10}
    assert run(queries, *restored, **setting)[1::2] == run(queries, *calls, **setting)


# ---- the face of the operator ----


def test_columns_and_their_types():
    workload = Workload([over("q", "tumbling", 5, 0, calls="sum_v count")], [], keys=("site", "unit"))
    operator = operator_of(workload)
    operator.process(batch_of([Record(1, 1.0, key=("x", None))], workload.keys, tie=False))
    table = operator.finish()
    fixed = ["query", "window_start", "window_end", "window_id", "revision", "change"]
    assert table.column_names == ["site", "unit", *fixed, "sum_v", "count"]
    types = {column.name: column.type for column in table.schema}
    for name in ("query", "change"):
        assert pa.types.is_dictionary(types[name])
        assert types[name].value_type == pa.string()
    assert {types[name] for name in ("window_start", "window_end", "window_id", "revision")} == {pa.int64()}
    assert (types["site"], types["unit"]) == (pa.string(), pa.int64())
    assert (types["sum_v"], types["count"]) == (pa.float64(), pa.int64())


def test_nothing_goes_on_after_the_end():
    operator = operator_of(Workload([over("q", "tumbling", 5, 0)], []))
    batch = batch_of([Record(1, 1.0)], (), tie=False)
    operator.process(batch)
    assert operator.finish().num_rows == 1
    assert operator.finish().num_rows == 0
    with pytest.raises((RuntimeError, ValueError)):
        operator.process(batch)
    with pytest.raises((RuntimeError, ValueError)):
        operator.advance(100)


def test_the_watermark_never_goes_back():
    operator = operator_of(Workload([over("q", "tumbling", 5, 0)], [], policy="manual"))
    assert operator.watermark is None
    operator.process(batch_of([Record(1, 1.0)], (), tie=False))
    assert operator.watermark is None
    operator.advance(7)
    operator.advance(7)
    with pytest.raises(ValueError, match="7"):
        operator.advance(6)
    assert operator.watermark == 7


def test_the_first_broken_promise_of_order_is_warned_about():
    operator = operator_of(Workload([over("q", "tumbling", 5, 0)], []))
    with pytest.warns(UserWarning, match=r"watermark=[\s\S]*mt\.aggregate") as seen:
        operator.process(batch_of([Record(2, 1.0), Record(1, 1.0)], (), tie=False))
    assert seen[0].filename == __file__  # where the user calls
    operator.process(batch_of([Record(1, 1.0)], (), tie=False))  # and only the first
    assert operator.metrics.late_dropped == 2


def test_one_shot_takes_rows_in_any_order():
    #  1   2   3   4   5   6   7   8
    #  1   .   2   .   .   .   .   4
    #  [----------------------)         3, gap 4
    #                              [-   4
    table = pa.table({"t": [8, 3, 1], "v": [4.0, 2.0, 1.0]})
    query = mt.session(4).agg(total=mt.sum("v"), name="q")
    rows = mt.aggregate(table, query, time="t", columns="all").to_pylist()
    told = [(r["window_start"], r["window_end"], r["change"], r["revision"], r["total"]) for r in rows]
    assert told == [(1, 7, "insert", 0, 3.0), (8, 12, "insert", 0, 4.0)]
