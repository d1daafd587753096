"""The smallest inputs of bugs that random workloads have found in the operator."""

import math

import pyarrow as pa
import pytest

import muntin as mt
from muntin.engine.output.row_columns import in_turn
from tests.aggregates import Picky
from tests.test_operator import check
from tests.windows_oracle import Record, Spec
from tests.workloads import Add, Advance, Finish, Process, Remove, Restore, Workload


def batch(*times: int, v: float | None = 0.0, w: int | None = 0, key: tuple = ()) -> Process:
    return Process([Record(t=t, v=v, w=w, key=key, tie=0) for t in times])


def spec(name: str, kind: str, *params: int, agg: tuple[str, ...] = ("count",), **flags: bool) -> Spec:
    return Spec(name=name, kind=kind, params=params, aggregates={"_".join(agg): agg}, **flags)


def test_a_difference_of_prefixes_does_not_know_where_all_is_null():
    records = [Record(t=t, v=0.0, w=0 if t == 10 else None, key=(), tie=0) for t in (0, 3, 10, 13, 14)]
    query = spec("q", "session", 1, agg=("sum", "w"))
    check(Workload([query], [Process(records), Finish()], store="sliding"))


def test_no_prefix_is_subtracted_across_values_that_are_not_finite():
    values = [(0, math.inf), (20, 1.0), (40, math.nan), (60, 2.0)]
    records = [Record(t=t, v=v, w=0, key=(), tie=0) for t, v in values]
    query = spec("q", "session", 4, agg=("mean", "v"))
    check(Workload([query], [Process(records), Finish()], policy=30, store="sliding"))


def test_a_query_that_comes_does_not_cut_slices_before_it():
    # The record at 33 comes after the one at 34, which lies in a slice from before the query was there.
    late = [Record(t=33, v=0.0, w=-4, key=(), tie=0)]
    first = [Record(t=32, v=0.0, w=4, key=(), tie=0), Record(t=34, v=0.0, w=2, key=(), tie=0)]
    queries = [spec("q", "cumulate", 4, 4, agg=("last", "w"))]
    added = Add(spec("fine", "cumulate", 1, 1, agg=("affine", "w")))
    check(Workload(queries, [Process(first), added, Process(late), Finish()], policy=10))


def test_a_field_that_a_removed_query_left_still_has_its_columns():
    queries = [
        spec("arg", "tumbling", 4, 0, agg=("argmin", "v", "w")),
        spec("span", "tumbling", 4, 0, agg=("relative_variation", "v")),
    ]
    check(Workload(queries, [batch(1), Remove("arg"), batch(2, 9), Finish()]))


def test_the_only_planned_query_may_go_while_another_waits_for_its_column():
    added = Add(spec("new", "tumbling", 1, 0, agg=("min", "v")))
    calls = [batch(0, key=("a",)), added, Remove("q"), batch(3, 7, key=("a",)), Restore(), Finish()]
    check(Workload([spec("q", "tumbling", 8, 0)], calls, keys=("k",)))


def test_a_watermark_before_the_first_batch_holds_for_it():
    check(Workload([spec("q", "tumbling", 4, 0)], [Advance(1007), batch(1), Finish()], policy=3))
    check(Workload([spec("q", "tumbling", 4, 0)], [Advance(-25), Restore(), batch(1), Finish()]))


def test_an_empty_window_may_hold_a_record_that_was_late_for_it():
    queries = [spec("short", "tumbling", 3, 0, emit_empty=True), spec("long", "tumbling", 7, 0)]
    check(Workload(queries, [batch(-4), batch(4, 1), batch(12), Finish()], policy=1))


def test_a_record_late_for_a_query_does_not_stretch_its_empty_windows():
    queries = [spec("short", "tumbling", 1, 0, emit_empty=True), spec("long", "tumbling", 4, 0)]
    check(Workload(queries, [batch(7, 5), Finish()], policy=0))


def test_rows_of_queries_that_were_added_come_in_their_order():
    queries = [spec("q", "count_sliding", 2, 8, agg=("min", "w"))]
    added = [Add(spec("x", "count_tumbling", 2, agg=("squares", "v"))), Add(spec("y", "sliding", 2, 9, 0))]
    check(Workload(queries, [batch(1), *added, batch(20, 27, 28, 40), Finish()]))


def test_a_large_scattered_batch_gives_the_rows_of_many_small_ones():
    count = 1 << 21
    times = pa.array(range(count))
    table = pa.table({"t": times, "k": pa.array([t % 7 for t in range(count)]), "v": times})
    query = mt.tumbling(1 << 16).agg(total=mt.sum("v"))
    whole = mt.WindowOperator(query, time="t", key="k")
    small = mt.WindowOperator(query, time="t", key="k")
    rows = pa.concat_tables([whole.process(table), whole.finish()])
    parts = [small.process(table.slice(at, 100_000)) for at in range(0, count, 100_000)]
    other = pa.concat_tables([*parts, small.finish()])
    order = [("window_start", "ascending"), ("k", "ascending")]
    assert rows.sort_by(order).to_pylist() == other.sort_by(order).to_pylist()
    assert rows["window_end"].to_pylist() == sorted(rows["window_end"].to_pylist())


def test_rows_of_parts_that_end_at_one_time_come_in_order():
    def rows(start: int, end: int, query: int) -> pa.Table:
        labels = pa.DictionaryArray.from_arrays(pa.array([query], pa.int32()), pa.array(["grid", "visits"]))
        return pa.table({"query": labels, "window_start": [start], "window_end": [end]})

    table = in_turn([rows(5, 10, 0), rows(2, 10, 1), rows(9, 12, 1)])
    assert table["window_start"].to_pylist() == [2, 5, 9]
    assert in_turn([rows(5, 10, 0), rows(2, 11, 1)])["window_start"].to_pylist() == [5, 2]


def test_a_refused_batch_leaves_no_record_behind():
    query = mt.tumbling(100).agg(first=mt.first("v"), last=mt.last("v"), own=Picky("v"))
    operator = mt.WindowOperator(query, time="t", watermark=50)
    operator.process({"t": [10, 20], "v": [10, 20]})
    with pytest.raises(ValueError, match="999"):
        operator.process({"t": [1, 40], "v": [999, 998]})
    operator.process({"t": [5, 30], "v": [5, 30]})
    (row,) = operator.finish().select(["first", "last", "own"]).to_pylist()
    assert row == {"first": 5, "last": 30, "own": 65}


@pytest.mark.parametrize("store", ["auto", "lazy", "eager", "sliding"])
def test_look_ups_leave_windows_as_they_are(store):
    query = mt.sliding(50, every=10).agg(low=mt.min("v"))
    looked_at, alone = (mt.WindowOperator(query, time="t", watermark=100, store=store) for _ in range(2))
    for operator in (looked_at, alone):
        operator.process({"t": list(range(300)), "v": [300.0 - t for t in range(300)]})
    assert looked_at.lookup(160, 300)["low"].to_pylist() == [1.0]
    assert looked_at.lookup(160, 170)["low"].to_pylist() == [131.0]
    assert looked_at.finish().to_pylist() == alone.finish().to_pylist()


def test_look_ups_are_no_windows_that_change():
    operator = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count(), emit="on_change"), time="t")
    operator.process({"t": [1, 2]})
    for _ in range(2):
        assert operator.lookup(0, 20)["n"].to_pylist() == [2]
    assert operator.process({"t": [12]})["n"].to_pylist() == [2]


def test_look_ups_cover_what_they_say():
    operator = mt.WindowOperator(mt.sliding(60, every=10).agg(n=mt.count()), time="t")
    operator.process({"t": list(range(1000))})
    restored = mt.WindowOperator.restore(operator.snapshot())
    assert operator.lookup(0, 990).to_pylist() == restored.lookup(0, 990).to_pylist()
    (row,) = restored.lookup(0, 990).to_pylist()
    assert row["n"] == row["window_end"] - row["window_start"]
    odd = mt.WindowOperator(mt.sliding(15, every=10).agg(n=mt.count()), time="t")  # ends at 5, 15, ..
    odd.process({"t": [11, 16]})
    before = odd.lookup(10, 15).to_pylist()
    odd.snapshot()
    assert odd.lookup(10, 15).to_pylist() == before == []
    operator.add(mt.tumbling(10).agg(low=mt.min("t"), name="new"))
    operator.process({"t": [1003, 1012]})
    assert operator.lookup(0, 1020, name="new").to_pylist() == [
        {"window_start": 1000, "window_end": 1020, "low": 1003}
    ]


def test_look_ups_of_sessions_end_past_their_last_record():
    operator = mt.WindowOperator(mt.session(5).agg(n=mt.count()), time="t", key="k")
    operator.process({"t": [1, 3, 20], "k": ["a", "a", "b"]})
    found = operator.lookup(0, 100).sort_by("k").to_pylist()
    assert found == [
        {"k": "a", "window_start": 1, "window_end": 4, "n": 2},
        {"k": "b", "window_start": 20, "window_end": 21, "n": 1},
    ]
    for row in found:  # the same stretch, asked for as it was told
        again = operator.lookup(row["window_start"], row["window_end"], key=row["k"]).to_pylist()
        assert again == [row]
    assert operator.lookup(1, 3, key="a").num_rows == 0


def test_equal_count_windows_may_differ_in_whether_partial_ones_are_wanted():
    queries = [
        mt.count_tumbling(2).agg(total=mt.sum("v")),
        mt.count_tumbling(2).agg(total=mt.sum("v"), emit_partial=True),
    ]
    operator = mt.WindowOperator(queries, time="t", watermark="manual")
    operator.process({"t": [1, 2, 3], "v": [1, 2, 4]})
    assert operator.finish()["total"].to_pylist() == [3, 3, 4]


def test_a_query_that_cannot_be_added_leaves_no_column_behind():
    operator = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="t")
    operator.process({"t": [1]})
    with pytest.raises(TypeError, match="give a whole number"):
        operator.add(mt.tumbling("10s").agg(other=mt.count()))
    assert "other" not in operator.finish().column_names


def test_an_overflow_by_single_late_records_goes_back_in_time():
    operator = mt.WindowOperator(mt.tumbling(1000).agg(total=mt.sum("v")), time="t", watermark=100)
    for t, v in [(500, 1), (405, 2**62), (405, 2**62), (405, 2**62)]:
        operator.process({"t": [t], "v": [v]})
    with pytest.raises(OverflowError):
        operator.process({"t": [2000], "v": [0]})
    assert operator.watermark == 400


def test_times_that_widen_within_a_large_batch():
    times = [1] * (1 << 20) + [50] * 10
    table = pa.table({"t": pa.array(times, pa.uint8()), "k": pa.array([t % 2 for t in range(len(times))])})
    operator = mt.WindowOperator(mt.tumbling(10, offset=5).agg(n=mt.count()), time="t", key="k")
    rows = operator.process(table)
    assert rows["window_start"].to_pylist() == [-5, -5]
    assert rows["n"].to_pylist() == [1 << 19, 1 << 19]


def test_snapshots_of_unnamed_queries_and_of_a_watermark_in_nanoseconds():
    queries = [mt.tumbling(10).agg(n=mt.count()), mt.tumbling(20).agg(n=mt.count())]
    operator = mt.WindowOperator(queries, time="t")
    operator.remove("q0")
    operator.add(mt.tumbling(5).agg(n=mt.count(), name="q0"))
    assert mt.WindowOperator.restore(operator.snapshot()).finish().num_rows == 0
    early = mt.WindowOperator(queries[0], time="t", watermark="manual")
    early.advance(pa.scalar(1, pa.timestamp("ns")))
    assert mt.WindowOperator.restore(early.snapshot()).watermark == pa.scalar(1, pa.timestamp("ns"))


def test_an_explanation_with_a_watermark_before_the_first_batch():
    operator = mt.WindowOperator(mt.count_tumbling(2).agg(n=mt.count()), time="t", watermark="manual")
    operator.advance(5)
    assert "count_tumbling(2)" in operator.explain()


def test_what_was_remembered_for_a_removed_query_is_forgotten():
    queries = [
        mt.tumbling(1).agg(n=mt.count(), emit="on_change", name="changes"),
        mt.tumbling(1).agg(n=mt.count(), name="all"),
    ]
    operator = mt.WindowOperator(queries, time="t", key="k")
    operator.process({"t": list(range(100)), "k": list(range(100))})
    assert operator.metrics.keys == 100
    operator.remove("changes")
    assert operator.metrics.keys == 1


def test_a_session_that_begins_before_the_open_ones_comes_into_view_first():
    # Sessions at 1 and 4 were looked out for; the one at -5 came later and ends before them.
    check(Workload([spec("q", "session", 1)], [batch(1), batch(-5, 4), Finish()], policy=7))


def test_a_session_of_another_key_comes_into_view_before_those_that_were_there():
    queries = [spec("grid", "tumbling", 1, 0), spec("q", "session", 3)]
    second = Process([Record(t=t, v=0.0, w=0, key=(k,), tie=0) for t, k in ((-1, 1), (1, 0), (4, 0))])
    check(Workload(queries, [batch(0, key=(0,)), second, Finish()], policy=1, keys=("unit",)))


def test_stacks_begin_anew_where_a_late_record_brings_earlier_windows_back():
    records = [(18, 0.0), (22, 0.0), (25, None), (27, 0.0)]
    calls = [Process([Record(t=t, v=v, w=0, key=(), tie=0)]) for t, v in records]
    query = spec("q", "sliding", 10, 1, 0, agg=("count", "v"))
    calls.insert(3, Advance(29))
    check(Workload([query], calls, policy="manual", lateness=60, store="sliding"))


def test_stacks_begin_anew_where_a_range_ends_before_what_they_hold():
    records = [(52, math.nan), (47, 0.0), (51, math.nan), (54, 0.0)]
    process = Process([Record(t=t, v=v, w=0, key=(), tie=0) for t, v in records])
    queries = [
        spec("q", "cumulate", 9, 3, agg=("max", "v")),
        spec("fine", "cumulate", 1, 1, agg=("max", "v")),
    ]
    queries[0].aggregates["n"] = ("max_count", "v")
    check(Workload(queries, [process, Finish()], policy=1, lateness=20, store="sliding"))


def test_a_snapshot_knows_a_column_that_came_as_another_went():
    added = Add(spec("new", "session", 6, agg=("last", "w")))
    calls = [batch(25), added, Remove("q"), batch(49), Restore(), Finish()]
    check(Workload([spec("q", "session", 11, agg=("min", "v"))], calls, policy=1))


def test_a_dropped_record_makes_no_empty_windows():
    # 37 is late and lies between windows: it counts for nothing, so none is known to be empty.
    query = spec("q", "sliding", 8, 10, -11, emit_empty=True)
    check(Workload([query], [Advance(79), batch(37, 79), Finish()], policy="manual", lateness=60))


def test_a_large_value_that_moves_on_leaves_no_rounding_behind():
    values = [(10, 0.1), (20, 0.2), (30, 1e12), (31, 0.0), (32, 0.0), (5, 0.0)]
    calls = [Process([Record(t=t, v=v, w=0, key=(), tie=0)]) for t, v in values]
    query = spec("q", "count_tumbling", 3, agg=("sum", "v"))
    check(Workload([query], [*calls, Finish()], policy=0, lateness=1000))


def test_a_slice_from_the_beginning_of_time_among_many_windows():
    # The slice of -18 begins before all edges of the query that was added after -5.
    added = Add(spec("new", "cumulate", 8, 2, agg=("mean", "v")))
    calls = [batch(-5), added, batch(-18), batch(66), Finish()]
    check(Workload([spec("q", "count_tumbling", 6)], calls, policy=0, lateness=60))
