"""emit_empty: which windows without records come out, whatever else runs beside, and how many at most."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import muntin as mt
from muntin.engine.slices.grid import empty_windows
from muntin.engine.slices.grid.reach import Stretches, without
from tests import workloads
from tests.test_operator import check, run_operator
from tests.windows_oracle import GRIDS, Record, Spec
from tests.workloads import KEYS, Advance, Finish, Process, Setting, Workload

FAR = 2**40

# ---- random workloads ----


@st.composite
def silent(draw: st.DrawFn) -> Workload:
    """A run in which grids report empty windows, and records are late for some queries and not for others."""
    policy = draw(st.sampled_from(["manual", 0, 3, 7, "in_order"]))
    lateness = 0 if policy == "in_order" else draw(st.sampled_from([0, 3, 20, 60]))
    setting = Setting(policy, lateness, tie=False, spells=False)
    queries = []
    for place in range(draw(st.integers(2, 4))):
        spec = draw(workloads.specs(f"q{place}", setting))
        empty = spec.kind in GRIDS and draw(st.sampled_from([True, True, True, False]))
        spec = replace(spec, aggregates={"n": ("count",)}, emit_empty=empty, emit="all")
        queries.append(replace(spec, where=draw(st.sampled_from([None, None, "w > 0"]))))
    keys = draw(st.sampled_from([(), ("k",)]))
    pool = draw(st.lists(KEYS[keys], min_size=1, max_size=3, unique=True))
    lags = draw(st.sampled_from(workloads.LAGS[1:]))
    drawn = workloads.packed([0, 1, 2, 5, 17, 40], lags, [0.0], [0, 1], pool)
    records = drawn.map(lambda parts: (parts[0], Record(*parts[1:])))
    steps = draw(workloads.steps(records, policy == "manual"))
    steps = [step for step in steps if step[0] not in ("add", "remove")]
    clock = workloads.Clock(policy, draw(st.sampled_from([0, -20, 100])))
    calls = workloads.put_together(steps, [spec.name for spec in queries], [], clock)
    return Workload(queries, [*calls, Finish()], policy, lateness, keys)


@settings(max_examples=settings().max_examples * 2)
@given(workload=silent())
def test_operator_agrees_with_the_oracle(workload):
    check(workload)


@pytest.mark.filterwarnings("ignore:record .* goes back in time")
@given(workload=silent())
def test_a_query_gives_the_same_rows_alone_as_beside_others(workload):
    beside = list(run_operator(workload))
    for spec in workload.queries:
        alone = run_operator(replace(workload, queries=[spec]))
        for number, (one, all_of_them) in enumerate(zip(alone, beside, strict=True)):
            mine = [row for row in all_of_them.rows if row.query == spec.name]
            assert _sorted(one.rows) == _sorted(mine), (spec.name, number)


def _sorted(rows: list) -> list:
    return sorted((str(row.key), row.start, row.end, str(row.id), row.revision, row) for row in rows)


@pytest.mark.filterwarnings("ignore:record .* goes back in time")
@given(workload=silent())
def test_what_is_counted_before_a_call_is_what_comes_out(workload):
    counted = []

    def count(expected: Any) -> None:
        listed = list(expected)
        counted.append(sum(one.empty() for one in listed))
        assert counted[-1] <= sum(one.most() for one in listed)

    workload = replace(workload, queries=[replace(spec, where=None) for spec in workload.queries])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muntin.engine.engine.refuse_many", count)
        for step in run_operator(workload):
            came = sum(row.change == "insert" and row.values["n"] == 0 for row in step.rows)
            assert came == sum(counted)
            counted.clear()


# ---- one query beside another ----


def spec(name: str, kind: str, *params: int, **flags: Any) -> Spec:
    return Spec(name, kind, params, {"n": ("count",)}, **flags)


def batch(*times: int, key: tuple = ()) -> Process:
    return Process([Record(t=t, v=0.0, w=0, key=key) for t in times])


def test_a_late_record_between_windows_that_counts_for_another_query_makes_none_empty():
    # 12 lies between [10, 11) and [15, 16): late, it counts for the long window alone.
    queries = [spec("q", "sliding", 1, 5, 0, emit_empty=True), spec("long", "tumbling", 100, 0)]
    calls = [batch(30), Advance(30), batch(12), Finish()]
    check(Workload(queries, calls, policy="manual", lateness=20))
    check(Workload(queries[:1], calls, policy="manual", lateness=20))


def test_a_record_on_time_between_windows_makes_those_after_it_empty():
    query = spec("q", "sliding", 1, 5, 0, emit_empty=True)
    calls = [batch(12, 30), Advance(31), Finish()]
    check(Workload([query], calls, policy="manual", lateness=20))


def test_a_late_record_that_counts_for_a_session_makes_no_window_empty():
    queries = [spec("q", "sliding", 1, 5, 0, emit_empty=True), spec("visits", "session", 3)]
    check(Workload(queries, [batch(30), batch(12), Finish()], policy=0, lateness=20))


# ---- too many ----


def jump(**more: Any) -> tuple[mt.WindowOperator, dict]:
    """An operator with a record at 0, and a batch that jumps far ahead."""
    query = mt.tumbling(2).agg(n=mt.count(), emit_empty=True, name="short")
    operator = mt.WindowOperator(query, time="t", **more)
    assert operator.process({"t": [0]}).num_rows == 0
    return operator, {"t": [FAR]}


def unchanged(operator: mt.WindowOperator, call: Callable[[], Any], count: int) -> None:
    """A call is refused with the number of empty windows that it would emit, and changes nothing."""
    before = (operator.watermark, operator.metrics, operator.snapshot())
    for _ in range(2):
        with pytest.raises(ValueError, match=f"would emit {count:,} empty windows.* of query 'short'"):
            call()
        assert (operator.watermark, operator.metrics, operator.snapshot()) == before


def test_a_record_far_ahead_is_refused_and_changes_nothing():
    operator, far = jump()
    unchanged(operator, lambda: operator.process(far), FAR // 2 - 1)
    rows = operator.process({"t": [6]})
    assert rows["n"].to_pylist() == [1, 0, 0]
    assert operator.finish()["n"].to_pylist() == [1]


def test_the_first_batch_may_be_refused_and_fixes_nothing():
    operator = mt.WindowOperator(mt.tumbling(2).agg(n=mt.count(), emit_empty=True), time="t", key="k")
    with pytest.raises(ValueError, match="empty windows"):
        operator.process({"t": [0, FAR], "k": ["a", "a"]})
    assert operator.process({"t": [0, 5], "k": [1, 1]})["n"].to_pylist() == [1, 0]


def test_an_advance_and_a_finish_are_refused_and_may_be_made_in_steps():
    operator, far = jump(watermark="manual")
    assert operator.process(far).num_rows == 0
    unchanged(operator, lambda: operator.advance(FAR + 2), FAR // 2 - 1)
    unchanged(operator, operator.finish, FAR // 2 - 1)
    assert operator.advance(6)["n"].to_pylist() == [1, 0, 0]


def test_a_restored_operator_refuses_what_the_saved_one_would():
    operator, far = jump()
    restored = mt.WindowOperator.restore(operator.snapshot())
    unchanged(restored, lambda: restored.process(far), FAR // 2 - 1)


def test_aggregate_refuses_too_many_empty_windows():
    with pytest.raises(ValueError, match=r"549,755,813,887 empty windows.*leave out emit_empty"):
        mt.aggregate({"t": [FAR, 0]}, mt.tumbling(2).agg(n=mt.count(), emit_empty=True), time="t")


@pytest.mark.parametrize("grid", [mt.sliding(3, every=1), mt.sliding(1, every=3), mt.cumulate(6, step=2)])
def test_every_grid_refuses_them(grid):
    operator = mt.WindowOperator(grid.agg(n=mt.count(), emit_empty=True), time="t")
    operator.process({"t": [0]})
    with pytest.raises(ValueError, match="empty windows"):
        operator.process({"t": [FAR]})
    assert operator.watermark == 0
    assert operator.metrics.records_in == 1


def test_calendars_refuse_them():
    operator = mt.WindowOperator(
        mt.calendar("day").agg(n=mt.count(), emit_empty=True), time="t", key="k", watermark="manual"
    )
    times = pa.array([0, 300_000_000_000 // 2], pa.timestamp("s"))
    for key in range(6):  # of 1.7 million days each
        operator.process({"t": times, "k": [key, key]})
    with pytest.raises(ValueError, match="10,416,660 empty windows"):
        operator.finish()
    assert operator.watermark is None


def test_queries_under_several_conditions_are_counted_together():
    queries = [
        mt.tumbling(1).agg(n=mt.count(), emit_empty=True, name="short"),
        mt.tumbling(1).agg(n=mt.count(), emit_empty=True, where="w > 0", name="some"),
    ]
    operator = mt.WindowOperator(queries, time="t")
    operator.process({"t": [0], "w": [1]})
    unchanged(operator, lambda: operator.process({"t": [6_000_001], "w": [1]}), 12_000_000)
    assert operator.process({"t": [6_000_001], "w": [0]}).num_rows == 6_000_002


def test_an_advance_is_refused_if_all_conditions_together_have_too_many():
    queries = [
        mt.tumbling(1).agg(n=mt.count(), emit_empty=True, name="short"),
        mt.tumbling(1).agg(n=mt.count(), emit_empty=True, where="w > 0", name="some"),
    ]
    operator = mt.WindowOperator(queries, time="t", watermark="manual")
    operator.process({"t": [0, 6_000_001], "w": [1, 1]})
    unchanged(operator, lambda: operator.advance(6_000_001), 12_000_000)
    assert operator.advance(2)["n"].to_pylist() == [1, 1, 0, 0]


def test_windows_with_records_do_not_count(monkeypatch):
    monkeypatch.setattr(empty_windows, "MOST", 2)
    query = mt.tumbling(2).agg(n=mt.count(), emit_empty=True)
    operator = mt.WindowOperator(query, time="t", watermark=4)
    assert operator.process({"t": list(range(0, 40, 2))})["n"].to_pylist() == [1] * 17
    assert operator.process({"t": [48]})["n"].to_pylist() == [1, 1, 1, 0, 0]
    assert operator.process({"t": [54]})["n"].to_pylist() == [0, 0, 1]
    with pytest.raises(ValueError, match="3 empty windows"):
        operator.process({"t": [62]})
    late = mt.WindowOperator(query, time="t", watermark=4, lateness=100)
    late.process({"t": [100]})
    assert late.process({"t": [90, 92, 96]})["n"].to_pylist() == [1, 1, 0]
    with pytest.raises(ValueError, match="3 empty windows"):
        late.process({"t": [82]})


def test_exactly_ten_million_are_emitted():
    query = mt.tumbling(1).agg(n=mt.count(), emit_empty=True)
    assert mt.aggregate({"t": [0, 10_000_001]}, query, time="t").num_rows == 10_000_002


def test_what_is_left_of_stretches_without_holes():
    stretches = Stretches(np.array([1, 4]), np.array([0, -5]), np.array([9, -1]))
    holes = [
        Stretches(np.array([1, 1, 4, 7]), np.array([3, 2, -9, 0]), np.array([4, 6, -5, 9])),
        Stretches(np.array([4, 1]), np.array([-1, 8]), np.array([5, 7])),
    ]
    code, k = without(stretches, holes).windows()
    assert list(zip(code.tolist(), k.tolist(), strict=True)) == [
        *((1, n) for n in (0, 1, 7, 8, 9)),
        *((4, n) for n in (-4, -3, -2)),
    ]
