"""A column of type null takes the first real type that comes: rows are as if it had had it from the start."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

import muntin as mt
from muntin.engine.plan.decisions import merges_ahead
from muntin.spark.combining import Combine
from muntin.spark.job import make_job
from muntin.spark.packing import BUCKET, Pack

VALUES: dict[str, pa.Array] = {
    "float": pa.array([1.5, None, 2.5]),
    "integer": pa.array([1, 2**60 + 1, None]),
    "unsigned": pa.array([2**63, 1, None], pa.uint64()),
    "text": pa.array(["a", "b", None]),
    "decimal": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.25")]),
    "time": pa.array([1, None, 3], pa.timestamp("us")),
    "flag": pa.array([True, False, None]),
}
NULLS = {"null": pa.nulls(3), "dictionary of nulls": pa.nulls(3).dictionary_encode()}
STREAM = [[1, 2, 12], [13, 14, 25], [26]]  # the times of three batches; the second brings the type
POLICIES = {"in order": {}, "delay": {"watermark": 3}, "late": {"watermark": 3, "lateness": 5}}


def run(
    queries: Any, first: pa.Array, later: pa.Array, *, restored: bool = False, **setting: Any
) -> list[pa.Table]:
    """The tables that an operator gives over columns `v` and `w`, of which `v` has no values at first."""
    subject = mt.WindowOperator(queries, time="t", **setting)
    tables = []
    for times, values in zip(STREAM, (first, later, later), strict=True):
        count = len(times)
        tables.append(subject.process({"t": times, "v": values.slice(0, count), "w": [1, 5, 2][:count]}))
        if restored:
            subject = mt.WindowOperator.restore(subject.snapshot())
    return [*tables, subject.finish()]


def check(queries: Any, later: pa.Array, first: pa.Array | None = None, **setting: Any) -> None:
    """Rows are the same, and the last table has the same types, as if the type had been known."""
    first = NULLS["null"] if first is None else first
    found = run(queries, first, later, **setting)
    want = run(queries, pa.nulls(3, later.type), later, **setting)
    assert [table.to_pylist() for table in found] == [table.to_pylist() for table in want]
    assert sum(table.num_rows for table in want)
    for one, other in zip(found[1:], want[1:], strict=True):
        assert one.schema == other.schema


# ---- values ----

AGGREGATES: dict[str, list[str]] = {
    "sum": ["float", "integer", "decimal"],
    "mean": ["float", "integer"],
    "variance": ["float", "integer"],
    "min": list(VALUES),
    "first": list(VALUES),
    "count": list(VALUES),
    "median": ["float", "integer"],
    "mode": ["float", "integer", "text"],
    "collect": list(VALUES),
    "count_distinct": ["float", "text"],
    "concat": ["text"],
    "m4": ["float", "integer", "text"],
    "approx_count_distinct": ["float", "integer", "text"],
}
WINDOWS = {
    "grid": mt.tumbling(10),
    "session": mt.session(3),
    "count": mt.count_tumbling(2),
    "rolling": mt.rolling(5),
    "last n": mt.last_n(2, every=10),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_type_after_nulls(kind, window, policy):
    aggregates = {name: getattr(mt, name)("v") for name, kinds in AGGREGATES.items() if kind in kinds}
    query = WINDOWS[window].agg(**aggregates)
    for restored in (False, True):
        check(query, VALUES[kind], restored=restored, **POLICIES[policy])


@pytest.mark.parametrize("first", NULLS)
def test_the_smallest_case(first):
    subject = mt.WindowOperator(mt.tumbling(10).agg(a=mt.sum("v")), time="t")
    subject.process({"t": [1], "v": NULLS[first].slice(2)})
    subject.process({"t": [2], "v": [0.5]})
    rows = subject.finish()
    assert rows["a"].to_pylist() == [0.5]
    assert rows.schema.field("a").type == pa.float64()


@pytest.mark.parametrize("store", ["lazy", "eager", "sliding"])
@pytest.mark.parametrize("kind", ["float", "integer", "text"])
def test_every_store_takes_a_type_up(kind, store):
    query = mt.sliding(10, every=5).agg(top=mt.max("v"), first=mt.first("v"), n=mt.count("v"))
    check(query, VALUES[kind], store=store)


@pytest.mark.parametrize("kind", VALUES)
def test_nulls_beside_values(kind):
    """Of two columns, either may have no type yet; in the second, null is a value."""
    beside = mt.tumbling(10).agg(which=mt.argmax("w", "v"))
    above = mt.tumbling(10).agg(whose=mt.argmax("v", "w"))
    for restored in (False, True):
        check([beside, above], VALUES[kind], restored=restored)


class Longest(mt.Aggregate):
    """An aggregate of a user's, over numbers or anything else."""

    commutative = True

    def combine(a, b):
        return max(a, b)


@pytest.mark.parametrize("kind", ["float", "integer", "text", "decimal"])
def test_aggregates_of_ones_own(kind):
    check(mt.sliding(10, every=5).agg(a=Longest("v")), VALUES[kind])


def test_columns_of_the_output_have_no_type_before_their_column_has():
    aggregates = {"total": mt.sum("v"), "top": mt.max("v"), "every": mt.collect("v"), "line": mt.m4("v")}
    own = {"mean": mt.mean("v"), "n": mt.count("v"), "middle": mt.median("v")}
    subject = mt.WindowOperator(mt.tumbling(10).agg(**aggregates, **own), time="t")
    rows = subject.process({"t": [1, 12], "v": pa.nulls(2)})
    assert rows.num_rows == 1
    kinds = dict(zip(rows.column_names, rows.schema.types, strict=True))
    assert [kinds[name] for name in aggregates] == [pa.null()] * 4
    assert [kinds[name] for name in own] == [pa.float64(), pa.int64(), pa.float64()]
    assert [rows[name].to_pylist() for name in (*aggregates, *own)] == [[None]] * 5 + [[0], [None]]
    rows = subject.process({"t": [13, 25], "v": [1, 2]})
    kinds = dict(zip(rows.column_names, rows.schema.types, strict=True))
    assert [kinds[name] for name in ("total", "top", "every")] == [
        pa.int64(),
        pa.int64(),
        pa.list_(pa.int64()),
    ]


def test_several_batches_without_values():
    subject = mt.WindowOperator(mt.tumbling(100).agg(a=mt.sum("v"), b=mt.sum("w")), time="t")
    for t in range(4):
        subject.process({"t": [t], "v": [None], "w": [None]})
    subject.process({"t": [5], "v": [0.5], "w": [None]})
    subject = mt.WindowOperator.restore(subject.snapshot())
    subject.process({"t": [6], "v": [None], "w": [1]})
    rows = subject.finish()
    assert rows.select(["a", "b"]).to_pylist() == [{"a": 0.5, "b": 1}]
    assert rows.schema.field("b").type == pa.int64()


def test_later_values_are_held_to_the_first_real_type():
    subject = mt.WindowOperator(mt.tumbling(100).agg(a=mt.sum("v")), time="t")
    for values in ([None], [1], [None], [2.0]):
        subject.process({"t": [1], "v": values})
    with pytest.raises(TypeError, match=r"'v' was int64 in the first batch and is double now"):
        subject.process({"t": [2], "v": [0.5]})
    assert subject.finish()["a"].to_pylist() == [3]


def test_a_query_that_is_added_while_there_are_no_values():
    subject = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count("v")), time="t")
    subject.process({"t": [1], "v": [None]})
    subject.add(mt.tumbling(10).agg(top=mt.max("v"), best=mt.max("x"), name="new"))
    subject.process({"t": [11], "v": [None], "x": [None]})
    subject.process({"t": [12], "v": ["a"], "x": [0.5]})
    old, new = subject.finish().to_pylist()
    assert (old["n"], new["top"], new["best"]) == (1, "a", 0.5)


# ---- windows ----


def when_there(state, t, row):
    return state, int(row.v is not None), 0


class WhenThere(mt.ContextAwareWindow):
    """Windows that begin with each value."""

    columns = ("v",)

    def notify(self, edges, record):
        if record.v is not None:
            edges.add(record.t, record.t + 5)


FRAMES: list[tuple[Any, str]] = [
    *((mt.delta_frame("v", by=0.5), kind) for kind in ("float", "integer")),
    *((mt.threshold_frame("v", ">", 1), kind) for kind in ("float", "integer")),
    (mt.threshold_frame("v", ">=", "a"), "text"),
    (mt.threshold_frame("v", ">", datetime.datetime(1969, 1, 1)), "time"),
    *((mt.aggregate_frame(mt.sum("v"), reaches=2), kind) for kind in ("float", "integer", "decimal")),
    *((mt.aggregate_frame(mt.count("v"), reaches=2), kind) for kind in ("float", "text")),
    *((mt.state_window("v"), kind) for kind in VALUES),
    (mt.punctuation(when="v"), "flag"),
    (mt.punctuation(when="v", end="v"), "flag"),
    (mt.landmark(when="v", length=5), "flag"),
    (mt.landmark(when="v", every=5), "flag"),
    (mt.policy_window(trigger=mt.policies.every(2), evict=mt.policies.delta("v", 1.0)), "float"),
    (mt.policy_window(trigger=mt.policies.when("v"), evict=mt.policies.keep(2)), "flag"),
    (mt.user_window(when_there, state=0, columns=["v"]), "float"),
    (WhenThere(), "text"),
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("window", "kind"), FRAMES, ids=lambda case: str(case)[:40])
def test_windows_over_a_column_without_values(window, kind, policy):
    query = window.agg(n=mt.count(), last=mt.last("w"))
    own = window.kind in ("user_window", "context_aware_window")  # snapshots need the query again
    for restored in (False,) if own else (False, True):
        check(query, VALUES[kind], restored=restored, **POLICIES[policy])


def test_a_run_of_nulls_goes_on_whatever_the_type():
    for kind, values in VALUES.items():
        subject = mt.WindowOperator(mt.state_window("v").agg(n=mt.count()), time="t")
        later = pa.concat_arrays([pa.nulls(1, values.type), values.slice(0, 1)])
        batches = [{"t": [1, 2], "v": [None, None]}, {"t": [3, 4], "v": later}, {"t": [5], "v": [None]}]
        rows = pa.concat_tables([*map(subject.process, batches), subject.finish()])
        assert rows["n"].to_pylist() == [3, 1, 1], kind


def test_a_measure_without_values():
    subject = mt.WindowOperator(mt.on("v", mt.tumbling(10)).agg(n=mt.count()), time="t")
    with pytest.raises(ValueError, match="the measure 'v' is null in row 0"):
        subject.process({"t": [1], "v": [None]})


def test_times_without_values():
    subject = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="t")
    with pytest.raises(ValueError, match="the time column 't' is null in row 0"):
        subject.process({"t": [None]})


# ---- keys ----


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("key", ["v", ["v", "w"], ["w", "v"]], ids=str)
def test_keys_without_values(key, kind, policy):
    query = mt.tumbling(10).agg(n=mt.count())
    for first in NULLS.values():
        for restored in (False, True):
            check(query, VALUES[kind], first, key=key, restored=restored, **POLICIES[policy])


def test_the_null_key_stays_the_same_key():
    subject = mt.WindowOperator(mt.tumbling(100).agg(n=mt.count()), time="t", key="k")
    for key in ([None], ["a"], [None], [None, "a"]):
        subject.process({"t": [1] * len(key), "k": key})
    assert {row["k"]: row["n"] for row in subject.finish().to_pylist()} == {None: 3, "a": 2}


# ---- expressions and conditions ----

CONDITIONS = {
    "where": mt.tumbling(10).agg(a=mt.sum("w"), where="v > 1"),
    "several": [
        mt.tumbling(10).agg(a=mt.sum("v"), where="w > 1"),
        mt.session(3).agg(b=mt.max("v")),
        mt.tumbling(5).agg(c=mt.first("v"), where="w > 100"),
    ],
    "expression": mt.tumbling(10).agg(a=mt.sum(mt.expr("v * 2")), b=mt.max(mt.expr("v + w"))),
    "frame": mt.delta_frame(mt.expr("v - 1"), by=0.1).agg(n=mt.count()),
    "flag": mt.punctuation(when=mt.expr("v > 1")).agg(n=mt.count()),
    "having": mt.tumbling(10).agg(a=mt.sum("v"), having="a > 1"),
    "changes": mt.tumbling(5).agg(a=mt.sum("v"), emit="on_change"),
}


@pytest.mark.parametrize("restored", [False, True], ids=["on", "restored"])
@pytest.mark.parametrize("kind", ["float", "integer"])
@pytest.mark.parametrize("case", CONDITIONS)
def test_conditions_and_expressions_over_a_column_without_values(case, kind, restored):
    values = pa.array([1.5, None, 2.5]) if kind == "float" else pa.array([1, None, 3])
    for policy in ("in order", "delay"):
        check(CONDITIONS[case], values, restored=restored, **POLICIES[policy])


def test_an_expression_that_has_a_value_where_its_columns_have_none():
    query = mt.tumbling(100).agg(a=mt.sum(mt.expr("COALESCE(v, 0)")))
    subject = mt.WindowOperator(query, time="t")
    subject.process({"t": [1], "v": [None]})
    subject.process({"t": [2], "v": [2.0]})
    with pytest.raises(
        TypeError, match=r"'COALESCE\(v, 0\)' gave int64 while .* and is double now, with values"
    ):
        subject.process({"t": [3], "v": [0.5]})
    assert subject.finish()["a"].to_pylist() == [2]


def test_conditions_that_see_an_expression_in_different_types():
    query = mt.tumbling(100).agg(a=mt.sum(mt.expr("COALESCE(v, w)")), where="w > 1", name="some")
    other = mt.tumbling(100).agg(b=mt.max(mt.expr("COALESCE(v, w)")), where="w > 100", name="none")
    third = mt.tumbling(100).agg(c=mt.min(mt.expr("COALESCE(v, w)")), where="w IS NULL", name="nulls")
    for order in ([query, other, third], [third, other, query]):
        subject = mt.WindowOperator(order, time="t")
        subject.process({"t": [1, 2], "v": [None, None], "w": [5, None]})
        subject.process({"t": [3, 4], "v": [7, 8], "w": [200, None]})
        rows = {row["query"]: row for row in subject.finish().to_pylist()}
        assert (rows["some"]["a"], rows["none"]["b"], rows["nulls"]["c"]) == (12, 7, 8)


# ---- what is refused leaves no trace ----


class Fussy(mt.Aggregate):
    """Fails over values below zero."""

    commutative = True

    def lift(v):
        if v < 0:
            raise ValueError("below zero")
        return [v]

    def combine(a, b):
        return a + b

    def lower(a):
        return len(a)


REFUSING = [(window, policy) for window in ("grid", "session") for policy in POLICIES]
REFUSING += [("count", "in order"), ("rolling", "in order"), ("frame", "in order")]  # else, records wait


@pytest.mark.parametrize("where", [None, "w IS NOT NULL"])
@pytest.mark.parametrize(("window", "policy"), REFUSING)
def test_a_type_that_came_with_a_refused_batch_is_forgotten(window, policy, where):
    made = {**WINDOWS, "frame": mt.delta_frame("v", by=1)}[window]
    query = made.agg(own=Fussy("w"), top=mt.max("v"), every=mt.collect("v"), where=where)
    subject, twin = (mt.WindowOperator(query, time="t", key="k", **POLICIES[policy]) for _ in range(2))
    for each in (subject, twin):
        each.process({"t": [1, 12], "v": [None, None], "w": [1, 2], "k": [None, None]})
    with pytest.raises(ValueError, match="below zero"):
        subject.process({"t": [13, 14], "v": [1, 2], "w": [1, -1], "k": [1, 2]})
    assert subject.metrics == twin.metrics
    good = [
        {"t": [13, 25], "v": [0.5, 2.5], "w": [1, 2], "k": ["x", "y"]},
        {"t": [40], "v": [1.0], "w": [3], "k": ["x"]},
    ]
    for batch in good:
        assert told(subject.process(batch)) == told(twin.process(batch))
    assert told(subject.finish()) == told(twin.finish())


def told(table: pa.Table) -> list[Any]:
    """Rows as dicts, in an order of their own: that among keys is not defined."""
    return sorted(table.to_pylist(), key=repr)


@pytest.mark.parametrize(
    ("query", "bad", "match"),
    [
        (mt.tumbling(10).agg(a=mt.sum("v")), ["x"], r"sum\('v'\) needs numbers, but column 'v' holds string"),
        (mt.delta_frame("v", by=1).agg(n=mt.count()), ["x"], "needs numbers other than uint64 in column 'v'"),
        (
            mt.punctuation(when="v").agg(n=mt.count()),
            [1.5],
            "needs booleans in column 'v', which holds double",
        ),
        (mt.tumbling(10).agg(a=mt.max("v"), having="a > 1"), ["x"], "having|string"),
        (mt.tumbling(10).agg(a=mt.max("v"), where="v > 1"), ["x"], "string"),
    ],
    ids=["sum", "frame", "flag", "having", "where"],
)
def test_a_type_that_does_not_suit_is_refused(query, bad, match):
    subject, twin = (mt.WindowOperator(query, time="t") for _ in range(2))
    for each in (subject, twin):
        each.process({"t": [1], "v": [None]})
    with pytest.raises(TypeError, match=match):
        subject.process({"t": [2], "v": bad})
    fine = [True] if query.window.kind == "punctuation" else [2]
    for batch in ({"t": [3], "v": fine}, {"t": [14], "v": fine}):
        assert subject.process(batch).to_pylist() == twin.process(batch).to_pylist()
    assert subject.finish().to_pylist() == twin.finish().to_pylist()


def test_one_name_with_two_types_is_refused_when_the_types_come():
    queries = [mt.tumbling(10).agg(a=mt.max("v")), mt.session(3).agg(a=mt.max("w"))]
    subject = mt.WindowOperator(queries, time="t")
    subject.process({"t": [1], "v": [None], "w": [1]})
    with pytest.raises(TypeError, match="column 'a' would be"):
        subject.process({"t": [2], "v": ["x"], "w": [1]})
    subject.process({"t": [2], "v": [3], "w": [1]})
    assert sorted(subject.finish()["a"].to_pylist()) == [1, 3]


def test_keys_of_a_refused_batch_are_forgotten():
    subject = mt.WindowOperator(mt.tumbling(10).agg(own=Fussy("v")), time="t", key="k")
    subject.process({"t": [1], "k": ["a"], "v": [1]})
    with pytest.raises(ValueError, match="below zero"):
        subject.process({"t": [2, 3], "k": ["b", "c"], "v": [1, -1]})
    assert subject.metrics.keys == 1
    subject.process({"t": [4, 5], "k": ["c", "a"], "v": [1, 1]})
    assert {row["k"]: row["own"] for row in subject.finish().to_pylist()} == {"a": 2, "c": 1}


# ---- on Spark's workers ----


@pytest.mark.parametrize(
    "window", [mt.tumbling(10), mt.session(3), mt.state_window("v"), mt.punctuation(when="v")]
)
@pytest.mark.parametrize("key", [None, "k"])
def test_void_columns_on_workers(window, key):
    """There, the type of a column is that of the DataFrame, and void stays void."""
    aggregates = {name: getattr(mt, name)("v") for name in ("sum", "min", "collect", "m4", "mean", "count")}
    query = window.agg(**aggregates, n=mt.count())
    types = {"t": pa.int64(), "v": pa.null(), "k": pa.null()}
    job = make_job(query, types.__getitem__, time="t", key=key, tie=None, lateness=0, buckets=1)
    job = dataclasses.replace(job, ahead=merges_ahead(query, late=False))
    table = pa.table({"t": [1, 2, 3], "v": pa.nulls(3), "k": pa.nulls(3)}).select(job.columns)
    table = table.append_column(BUCKET, pa.array([0] * 3, pa.int32()))
    packed = pa.Table.from_batches(list(Pack(job, ticks=False)(iter(table.to_batches()))))
    rows = Combine(job, job.output_schema())(packed)
    assert rows["n"].to_pylist() == ([] if window.kind == "punctuation" else [3])
    assert rows.schema.field("sum").type == pa.int64()
    assert rows.schema.field("min").type == pa.null()
