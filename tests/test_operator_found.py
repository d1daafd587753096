"""The smallest inputs of bugs that random workloads have found in the operator."""

import math

import pyarrow as pa

import muntin as mt
from muntin.slicing.output import in_turn
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
