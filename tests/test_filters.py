"""Conditions on records and on rows, and expressions for columns: the operator does as the oracle says."""

from dataclasses import replace

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import muntin as mt
from muntin.techniques import Cutty, Slicing, Stream, UnsupportedWorkload
from tests.conditions import FLAGS, NUMBERS, WHERE, having
from tests.mixed_workloads import mixed, mixed_tables
from tests.test_operator import check, check_rows, told
from tests.window_types import Spec
from tests.windows_oracle import one_shot
from tests.workloads import Add, Workload, batch_of, query_of

# ---- random workloads ----

_OVER_NUMBERS = ("count", "sum", "min", "max", "mean", "first", "last", "collect")


@st.composite
def filtered(draw: st.DrawFn, spec: Spec, wheres: list[str | None]) -> Spec:
    """A query with conditions, and with expressions where it had columns."""
    aggregates = dict(spec.aggregates)
    for call in spec.aggregates.values():
        if call[0] in _OVER_NUMBERS and len(call) == 2 and draw(st.booleans()):
            computed = (call[0], draw(st.sampled_from(list(NUMBERS))))
            del aggregates["_".join(call)]
            aggregates["_".join(computed)] = computed
    params = spec.params
    if spec.kind in ("threshold_frame", "delta_frame", "state_window") and draw(st.booleans()):
        params = (draw(st.sampled_from(list(NUMBERS))), *params[1:])
    if spec.kind.startswith(("punctuation", "landmark")) and draw(st.booleans()):
        params = (draw(st.sampled_from(list(FLAGS))), *params[1:])
    condition = None
    if draw(st.booleans()):
        column = draw(st.sampled_from(list(aggregates)))
        condition = (column, draw(st.sampled_from(list(having(column, aggregates[column])))))
    where = draw(st.sampled_from(wheres))
    return replace(spec, aggregates=aggregates, params=params, where=where, having=condition)


@st.composite
def with_conditions(draw: st.DrawFn, drawn: st.SearchStrategy[Workload]) -> Workload:
    """A workload whose queries are under a few conditions."""
    workload = draw(drawn)
    wheres = draw(st.lists(st.sampled_from([None, *WHERE]), min_size=1, max_size=3))
    queries = [draw(filtered(spec, wheres)) for spec in workload.queries]
    calls = [
        Add(draw(filtered(call.spec, wheres))) if isinstance(call, Add) else call for call in workload.calls
    ]
    return replace(workload, queries=queries, calls=calls)


@settings(max_examples=100)
@given(workload=with_conditions(mixed()))
def test_operator_agrees_with_the_oracle(workload):
    check(workload)


MOVING = ("rolling_rows", "last_n", "landmark_every", "punctuation", "landmark_length", "threshold_frame")
MOVING += ("delta_frame", "aggregate_frame", "state_window", "on", "landmark_until_every")


@st.composite
def corrected(draw: st.DrawFn) -> Workload:
    """A workload whose windows keep their identity when late records change their bounds."""
    workload = draw(mixed(MOVING).filter(lambda drawn: drawn.lateness > 0))
    return replace(workload, queries=[draw(filtered(spec, [None])) for spec in workload.queries])


@settings(max_examples=100)
@given(workload=corrected())
def test_rows_that_are_taken_back_agree_with_the_oracle(workload):
    check(workload)


@settings(max_examples=30)
@given(workload=with_conditions(mixed_tables()))
def test_aggregate_agrees_with_the_oracle(workload):
    batch = workload.calls[0]
    queries = [query_of(spec) for spec in workload.queries]
    table = batch_of(batch.records, workload.keys, False, batch.form, True)
    rows = mt.aggregate(table, queries, time="t", key=list(workload.keys) or None, columns="all")
    got = told(rows, workload.keys)
    want = one_shot(workload.queries, batch.records) if batch.records else []
    check_rows(got, want, workload.queries, "mt.aggregate")


# ---- worked out by hand ----


def rows(table, *names):
    """Some columns of a result, row by row."""
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def test_records_that_are_left_out_move_the_watermark():
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count(), where="v > 0"), time="ts", watermark=5)
    assert op.process({"ts": [1], "v": [1]}).num_rows == 0
    assert rows(op.process({"ts": [15], "v": [-1]}), "window_start", "n") == [(0, 1)]
    assert op.watermark == 10
    assert op.process({"ts": [3, 4], "v": [1, -1]}).num_rows == 0
    assert op.take_late().to_pylist() == [{"ts": 3, "v": 1}, {"ts": 4, "v": -1}]
    assert op.metrics.late_dropped == 2
    assert op.metrics.records_in == 4


def test_a_late_record_that_counts_somewhere_is_not_dropped():
    short = mt.tumbling(10).agg(n=mt.count(), where="v > 0", name="short")
    long = mt.tumbling(100).agg(n=mt.count(), where="v < 9", name="long")
    op = mt.WindowOperator([short, long], time="ts", watermark=0)
    op.process({"ts": [30], "v": [1]})
    op.process({"ts": [1, 2, 3], "v": [5, 20, -1]})  # 2 is late for the one, and not for the other
    assert op.take_late().to_pylist() == [{"ts": 2, "v": 20}]
    got = rows(op.finish(), "query", "window_start", "n")
    assert got == [("long", 0, 3), ("short", 30, 1)] or got == [("short", 30, 1), ("long", 0, 3)]


def test_in_order_one_warning():
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count(), where="v > 0"), time="ts")
    with pytest.warns(UserWarning, match="record 1 of the batch goes back in time"):
        op.process({"ts": [5, 3], "v": [-1, -1]})
    op.process({"ts": [4], "v": [1]})
    assert op.metrics.late_dropped == 2
    assert op.finish().num_rows == 0


def test_rows_of_all_conditions_in_one_table():
    queries = [
        mt.tumbling(10).agg(n=mt.count(), where="v > 1", name="b"),
        mt.tumbling(10).agg(top=mt.max(mt.expr("v * 2")), name="a"),
        mt.on("v", mt.tumbling(5)).agg(n=mt.count(), where="v > 0", name="c"),
    ]
    records = {"ts": [1, 2, 3], "v": [1, 2, 3], "k": ["x", "x", "y"]}
    table = mt.aggregate(records, queries, time="ts", key="k", columns="all")
    names = ["k", "query", "window_start", "window_end", "window_id", "measure_start", "measure_end"]
    assert table.column_names == [*names, "revision", "change", "n", "top"]
    got = rows(table, "query", "k", "n", "top", "measure_end")
    assert sorted(got[:2]) == [("c", "x", 2, None, 5), ("c", "y", 1, None, 5)]
    assert sorted(got[2:4]) == [("b", "x", 1, None, None), ("b", "y", 1, None, None)]
    assert sorted(got[4:]) == [("a", "x", None, 4, None), ("a", "y", None, 6, None)]


def test_having_leaves_out_retracts_and_lets_in():
    query = mt.tumbling(10).agg(total=mt.sum("v"), having="total > 5")
    op = mt.WindowOperator(query, time="ts", watermark=0, lateness=100)

    def told(**batch):
        return rows(op.process(batch), "window_start", "change", "revision", "total")

    assert told(ts=[1, 10], v=[9, 0]) == [(0, "insert", 0, 9)]
    assert told(ts=[2], v=[-5]) == [(0, "retract", 1, None)]
    assert told(ts=[3], v=[3]) == [(0, "update", 2, 7)]
    assert told(ts=[20], v=[9]) == []  # the window from 10 fails at first
    assert told(ts=[11, 4], v=[8, -9]) == [(0, "retract", 3, None), (10, "update", 1, 8)]
    assert op.metrics.windows_emitted == 5


BOUNDS = ("window_start", "window_end", "change", "revision")


@pytest.mark.parametrize("restored", [False, True])
def test_a_row_that_is_taken_back_has_the_bounds_last_shown(restored):
    query = mt.count_tumbling(2).agg(total=mt.sum("v"), having="total > 5")
    op = mt.WindowOperator(query, time="ts", watermark=0, lateness=100)

    def told(ts, v):
        nonlocal op
        op = mt.WindowOperator.restore(op.snapshot()) if restored else op
        return rows(op.process({"ts": ts, "v": v}), *BOUNDS)

    assert told([10, 50], [1, 9]) == [(10, 50, "insert", 0)]
    assert told([20], [1]) == [(10, 50, "retract", 1)]  # it is 10 to 20 now
    assert told([15], [1]) == [(10, 50, "retract", 2), (20, 50, "insert", 0)]
    assert told([5], [8]) == [(20, 50, "retract", 1), (5, 10, "update", 3)]
    assert told([4], [0]) == [(20, 50, "retract", 2), (4, 5, "update", 4), (20, 50, "insert", 0)]


def test_a_frame_that_is_taken_back_has_the_bounds_last_shown():
    query = mt.threshold_frame("v", ">", 0).agg(top=mt.max("v"), having="top > 5")
    op = mt.WindowOperator(query, time="ts", watermark=0, lateness=100)

    def told(*records):
        ts, v = zip(*records, strict=True)
        return rows(op.process({"ts": ts, "v": v}), *BOUNDS, "window_id")

    assert told((10, 1), (20, 9), (30, 0)) == [(10, 20, "insert", 0, 0)]
    assert told((15, 0)) == [(10, 20, "retract", 1, 0), (20, 20, "insert", 0, 1)]
    assert told((5, 1)) == [(10, 20, "retract", 2, 0)]
    assert told((7, 8)) == [(5, 10, "update", 3, 0)]
    changed = [(5, 10, "retract", 4, 0), (7, 10, "update", 1, 1), (20, 20, "insert", 0, 2)]
    assert told((6, 0)) == changed


def test_a_row_that_was_never_shown_is_taken_back_with_the_bounds_it_had():
    query = mt.count_tumbling(2).agg(total=mt.sum("v"), having="total > 5")
    op = mt.WindowOperator(query, time="ts", watermark=0, lateness=100)
    assert op.process({"ts": [10, 50], "v": [1, 1]}).num_rows == 0
    assert rows(op.process({"ts": [20], "v": [1]}), *BOUNDS) == [(10, 50, "retract", 1)]
    assert rows(op.process({"ts": [15], "v": [1]}), *BOUNDS) == [(10, 50, "retract", 2)]


def test_bounds_last_shown_are_forgotten_with_their_windows():
    query = mt.count_tumbling(2).agg(total=mt.sum("v"), having="total > 5")
    op = mt.WindowOperator(query, time="ts", watermark=0, lateness=50)
    sizes = []
    for start in range(0, 40_000, 100):
        op.process({"ts": [start, start + 40], "v": [1, 9]})
        assert rows(op.process({"ts": [start + 20, start + 30], "v": [1, 1]}), *BOUNDS)[0][2] == "retract"
        sizes.append(len(op.snapshot()))
    assert max(sizes[10:]) < sizes[9] + 200


def test_having_with_empty_windows_and_changes_only():
    query = mt.tumbling(10).agg(
        n=mt.count(), emit_empty=True, having="n = 0 OR window_start = 0", name="gaps"
    )
    changes = mt.tumbling(10).agg(n=mt.count(), emit="on_change", having="n < 2", name="changes")
    table = mt.aggregate({"ts": [1, 2, 35, 45, 55, 56]}, [query, changes], time="ts")
    assert rows(table, "query", "window_start", "n") == [
        ("gaps", 0, 2),
        ("gaps", 10, 0),
        ("gaps", 20, 0),
        ("changes", 30, 1),
    ]


def lanes_of(*more):
    return mt.WindowOperator(
        [
            mt.sliding(10, every=5).agg(n=mt.count(), name="all"),
            mt.sliding(10, every=5).agg(s=mt.sum(mt.expr("v + 1")), where="v > 1", name="some"),
            *more,
        ],
        time="ts",
        key="k",
        watermark=0,
    )


def test_snapshots_hold_conditions_and_expressions():
    frame = mt.threshold_frame(mt.expr("v - 1"), ">", 0).agg(
        best=mt.argmax(mt.expr("v * 2"), "ts"), where="k LIKE 'a%'", having='"best" > 0', name="frame"
    )
    plain, kept = lanes_of(frame), lanes_of(frame)
    for k in range(8):
        batch = {"ts": [3 * k, 3 * k + 1], "v": [k % 3, (k + 1) % 4], "k": ["a", "b"]}
        assert kept.process(batch).equals(plain.process(batch))
        kept = mt.WindowOperator.restore(kept.snapshot())
        assert [query for _, query in kept._queries] == [query for _, query in plain._queries]
    assert kept.finish().equals(plain.finish())


def test_conditions_come_and_go():
    op = lanes_of()
    op.process({"ts": [1, 2], "v": [1, 2], "k": ["a", "a"]})
    op.add(mt.tumbling(10).agg(low=mt.min("w"), where="w > 0", name="low"))
    op.process({"ts": [12, 13], "v": [5, 5], "w": [3, -3], "k": ["a", "b"]})
    emitted = op.metrics.windows_emitted
    op.remove("all")
    op.remove("some")
    assert op.metrics.windows_emitted == emitted
    assert rows(op.process({"ts": [31], "w": [1], "k": ["a"]}), "query", "k", "low") == [("low", "a", 3)]
    op = mt.WindowOperator.restore(op.snapshot())
    assert rows(op.finish(), "k", "window_start", "low") == [("a", 30, 1)]


def test_only_queries_without_a_condition_are_left():
    op = lanes_of()
    op.process({"ts": [1, 9], "v": [1, 2], "k": ["a", "a"]})
    op.remove("some")
    for t in (11, 13, 21):
        op.process({"ts": [t], "v": [1], "k": ["a"]})
    assert rows(op.finish(), "window_start", "n") == [(15, 1), (20, 1)]


def test_all_conditions_take_a_batch_or_none():
    class Picky(mt.Aggregate):
        commutative = True

        def lift(v):
            if v == 13:
                raise ZeroDivisionError("13")
            return [v]

        def combine(a, b):
            return a + b

        def lower(a):
            return len(a)

    op, other = (lanes_of(mt.session(2).agg(p=Picky("v"), where="v <> 7", name="own")) for _ in range(2))
    good = [{"ts": [t, t + 1], "v": [t, 2], "k": ["a", "b"]} for t in (1, 5, 9)]
    for batch in good:
        with pytest.raises(
            ValueError, match=r"Picky.lift raised ZeroDivisionError.* at record 0 of the batch"
        ):
            op.process({"ts": [batch["ts"][0], 90], "v": [13, 3], "k": ["a", "c"]})
        assert op.process(batch).to_pylist() == other.process(batch).to_pylist()
    with pytest.raises(OverflowError, match="left the 64-bit range"):
        op.process({"ts": [91], "v": [2**63 - 1], "k": ["a"]})
    assert op.finish().to_pylist() == other.finish().to_pylist()


def test_having_that_breaks_off_leaves_all_as_it_was():
    query = mt.tumbling(10).agg(top=mt.max("v"), having="top * 4 > 0")
    op = mt.WindowOperator(query, time="ts")
    op.process({"ts": [1], "v": [2]})
    op.process({"ts": [2], "v": [2**62]})
    for _ in range(2):
        with pytest.raises(OverflowError, match="the expression 'top \\* 4 > 0' left the 64-bit range"):
            op.process({"ts": [11], "v": [1]})
    assert op.watermark == 2
    assert rows(op.lookup(0, 10), "top") == [(2**62,)]


def test_a_time_that_cannot_be_compared_leaves_all_as_it_was():
    query = mt.tumbling("10s").agg(n=mt.count(), having="window_start > TIMESTAMP '2020-01-01'")
    op = mt.WindowOperator(query, time="ts")

    def batch(*times):
        return pa.table({"ts": pa.array(times, pa.timestamp("s"))})

    op.process(batch(2**61))
    before = op.snapshot()
    for later in (batch(2**61 + 20), batch(2**61 + 1, 2**61 + 20)):
        with pytest.raises(ValueError, match="would result in out of bounds timestamp"):
            op.process(later)
        assert op.snapshot() == before


def test_unsigned_integers_in_conditions():
    table = pa.table({"ts": [1, 2, 12], "u": pa.array([2**64 - 1, 0, 7], pa.uint64())})
    query = mt.tumbling(10).agg(m=mt.max("u"), n=mt.count(), where="u > 1", having="m > 9")
    assert rows(mt.aggregate(table, query, time="ts"), "m", "n") == [(2**64 - 1, 1)]


def test_look_ups_metrics_and_words():
    op = lanes_of()
    op.process({"ts": [1, 2, 6], "v": [1, 2, 3], "k": ["a", "a", "b"]})
    assert rows(op.lookup(0, 10, key="a", name="all"), "k", "n") == [("a", 2)]
    assert rows(op.lookup(0, 10, name="some"), "k", "s") == [("a", 3), ("b", 4)]
    assert op.lookup(0, 10, key="c", name="some").num_rows == 0
    assert op.metrics.slices == 4  # a and b in each
    text, facts = str(op.explain()), op.explain().as_dict()
    assert "All records:" in text
    assert "Records where v > 1:" in text
    assert "some: sliding(10, every=5) (context free), s=sum(expr('v + 1')), where v > 1" in text
    assert [query["name"] for query in facts["queries"]] == ["all", "some"]
    assert [lane["where"] for lane in facts["lanes"]] == [None, "v > 1"]


def test_processing_time():
    op = mt.WindowOperator(
        [mt.count_tumbling(2).agg(n=mt.count(), where="v > 0"), mt.count_tumbling(1).agg(s=mt.sum("v"))],
        time=mt.PROCESSING_TIME,
    )
    table = op.process({"v": [1, -1, 2]})
    assert sorted(rows(table, "query", "n", "s"), key=str) == sorted(
        [("q0", 2, None), ("q1", None, 1), ("q1", None, -1), ("q1", None, 2)], key=str
    )


def test_expressions_in_records_that_come_one_by_one():
    query = mt.tumbling(10).agg(s=mt.sum(mt.expr("v * 2")), plain=mt.sum("v"))
    op = mt.WindowOperator(query, time="ts")
    told = [row for t in range(25) for row in rows(op.process({"ts": [t], "v": [t]}), "s", "plain")]
    assert told == [(90, 45), (290, 145)]


def test_an_expression_is_computed_after_the_filter():
    query = mt.tumbling(10).agg(s=mt.sum(mt.expr("CAST(s AS BIGINT)")), where="kind = 'number'")
    table = {"ts": [1, 2], "s": ["12", "oops"], "kind": ["number", "text"]}
    assert rows(mt.aggregate(table, query, time="ts"), "s") == [(12,)]


def test_a_column_that_is_named_like_an_expression():
    query = mt.tumbling(10).agg(computed=mt.sum(mt.expr("v + 1")), there=mt.sum("v + 1"))
    op = mt.WindowOperator(query, time="ts")
    op.process({"ts": [1], "v": [1], "v + 1": [10]})
    op = mt.WindowOperator.restore(op.snapshot())
    op.process({"ts": [2], "v": [2], "v + 1": [20]})
    assert rows(op.finish(), "computed", "there") == [(5, 30)]


def test_queries_compare_and_print_with_their_conditions():
    query = mt.tumbling(10).agg(n=mt.count(), where="v>0", having="n>1")
    assert repr(query) == "tumbling(10).agg(n=count(), where='v > 0', having='n > 1')"
    assert query == mt.tumbling(10).agg(n=mt.count(), where=mt.expr("v > 0"), having="n > 1")
    assert query != mt.tumbling(10).agg(n=mt.count(), where="v > 0")
    assert str(mt.tumbling(10).agg(n=mt.count(), where="flag").where) == "flag"


COUNT = mt.tumbling(10)
BATCH = {"ts": [1], "v": [1], "k": ["a"]}


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (
            lambda: COUNT.agg(n=mt.count(), where=3),
            TypeError,
            "where is a condition such as 'price > 0', not 3",
        ),
        (
            lambda: COUNT.agg(n=mt.count(), where="v >"),
            ValueError,
            "line 1, column 3 of the expression 'v >'",
        ),
        (lambda: COUNT.agg(n=mt.count(), having="SUM(v) > 1"), ValueError, "SUM is an aggregate"),
        (
            lambda: COUNT.agg(n=mt.count(), having="v > 1"),
            ValueError,
            r"query 'q0': having reads 'v', but its rows have 'k', 'window_start', .*'window_id', 'n'\.",
        ),
        (
            lambda: COUNT.agg(n=mt.count(), where="v + 1"),
            TypeError,
            "where is to be true or false, but 'v \\+ 1' gives int64",
        ),
        (
            lambda: COUNT.agg(n=mt.count(), having="n + 1"),
            TypeError,
            "having of query 'q0' is to be true or false, but 'n \\+ 1' gives int64",
        ),
        (lambda: COUNT.agg(n=mt.count(), having="n = 'x'"), TypeError, "int64 and string do not go together"),
        (lambda: COUNT.agg(n=mt.count(), where="z > 0"), KeyError, "the batch has no column 'z'"),
        (lambda: COUNT.agg(n=mt.sum(mt.expr("z + 1"))), KeyError, "the batch has no column 'z'"),
        (lambda: COUNT.agg(n=mt.sum(mt.expr("UPPER(k)"))), TypeError, "needs numbers, but column"),
    ],
)
def test_mistakes(make, error, said):
    with pytest.raises(error, match=said):
        mt.WindowOperator(make(), time="ts", key="k").process(BATCH)


def test_one_name_has_one_type_under_all_conditions():
    queries = [
        mt.tumbling(10).agg(x=mt.sum("v"), name="a"),
        mt.tumbling(10).agg(x=mt.max("k"), where="v > 0", name="b"),
    ]
    with pytest.raises(TypeError, match="column 'x' would be int64 for one query and string for another"):
        mt.WindowOperator(queries, time="ts").process(BATCH)
    op = mt.WindowOperator([queries[0], mt.tumbling(10).agg(s=mt.last("k"), name="s")], time="ts")
    op.process(BATCH)
    with pytest.raises(TypeError, match="column 'x' would be int64 for one query and string"):
        op.add(queries[1])
    assert rows(op.finish(), "query", "x") == [("a", 1), ("s", None)]


def test_the_time_is_a_column():
    with pytest.raises(ValueError, match="the time is a column, not expr\\('ts \\+ 1'\\): add"):
        mt.WindowOperator(COUNT.agg(n=mt.count()), time=mt.expr("ts + 1"))


@pytest.mark.parametrize("where", ["NULL", "f", "f AND v > 0"])
def test_a_condition_that_is_null_lets_nothing_through(where):
    queries = [COUNT.agg(n=mt.count(), where=where, name="some"), COUNT.agg(n=mt.count(), name="all")]
    op = mt.WindowOperator(queries, time="ts")
    op.process({"ts": [1], "v": [1], "f": pa.nulls(1)})
    assert rows(op.process({"ts": [12], "v": [1], "f": pa.nulls(1)}), "query", "n") == [("all", 1)]


def test_a_key_is_a_column():
    with pytest.raises(ValueError, match="a key is a column, not expr\\('v % 2'\\)"):
        mt.WindowOperator(COUNT.agg(n=mt.count()), time="ts", key=mt.expr("v % 2"))


def test_a_first_batch_that_is_refused_fixes_nothing():
    op = mt.WindowOperator(COUNT.agg(s=mt.sum("v"), where="v IS NOT NULL"), time="ts", key="k")
    with pytest.raises(TypeError, match="needs numbers"):
        op.process({"ts": [1], "v": ["x"], "k": [1]})
    assert rows(op.process({"ts": [1, 12], "v": [1.5, 2.0], "k": ["a", "a"]}), "k", "s") == [("a", 1.5)]


@pytest.mark.parametrize(
    "window",
    [
        mt.aggregate_frame(mt.sum(mt.expr("v * 2")), reaches=5),
        mt.policy_window(mt.policies.when(mt.expr("v > 1")), mt.policies.delta(mt.expr("v * 2"), 3)),
        mt.on(mt.expr("v * 10"), mt.tumbling(25)),
        mt.landmark(mt.expr("v = 1"), until=mt.expr("v % 4 = 3")),
        mt.state_window(mt.expr("CASE WHEN v > 3 THEN 'high' ELSE 'low' END")),
    ],
    ids=lambda window: window.kind,
)
def test_expressions_in_windows_outlive_a_restart(window):
    op = mt.WindowOperator(window.agg(n=mt.count()), time="ts")
    got, want = [], []
    for t in range(8):
        got += op.process({"ts": [t], "v": [t]}).to_pylist()
        op = mt.WindowOperator.restore(op.snapshot())
    plain = mt.WindowOperator(window.agg(n=mt.count()), time="ts")
    want += plain.process({"ts": range(8), "v": range(8)}).to_pylist()
    assert got + op.finish().to_pylist() == want + plain.finish().to_pylist()
    assert len(got) > 0


def test_techniques_know_expressions_and_no_conditions():
    stream = Stream({"ts": [0, 4, 7, 12], "v": [1.0, 2.0, 4.0, 8.0]})
    (row, _) = Slicing().run(mt.tumbling(10).agg(s=mt.sum(mt.expr("v * 2"))), stream)
    assert row.values == {"s": 14.0}
    (row, _) = Cutty().run(mt.tumbling(10).agg(s=mt.sum(mt.expr("v * 2"))), stream)
    assert row.values == {"s": 14.0}
    with pytest.raises(UnsupportedWorkload, match="techniques know neither where nor having"):
        Cutty().run(mt.tumbling(10).agg(s=mt.sum("v"), where="v > 0"), stream)


def test_words_before_there_is_a_record():
    query = mt.tumbling(10).agg(top=mt.max("s"), where="k = 'a'", having="top = 'x' AND k = 'a'")
    text = str(mt.WindowOperator(query, time="ts", key="k").explain())
    assert (
        "q0: tumbling(10) (context free), top=max('s'), where k = 'a', having top = 'x' AND k = 'a'" in text
    )
