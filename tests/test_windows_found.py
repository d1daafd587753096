"""Inputs that windows which look at records once got wrong, as small as they can be."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import muntin as mt


def counts(window: Any, **columns: Any) -> list[int]:
    rows = mt.aggregate(columns, [window.agg(c=mt.count())], time="t")
    return rows["c"].to_pylist()


def test_calendars_over_nanoseconds() -> None:
    for unit in ("s", "ms", "us", "ns"):
        assert counts(mt.calendar("day"), t=pa.array([0, 1], pa.timestamp(unit))) == [2]


def paired(state: tuple[int, float], t: int, row: Any) -> tuple[tuple[int, float], int, int]:
    """Each record is a window."""
    return (state[0] + 1, state[1]), 1, 1 if state[0] else 0


def test_a_user_window_that_met_a_null_is_restored() -> None:
    query = mt.user_window(paired, state=(0, 0.0), columns=["v"]).agg(c=mt.count(), name="u")
    one = mt.WindowOperator(query, time="t", watermark=2)
    one.process({"t": [0, 1, 2], "v": [1.0, 2.0, 3.0]})
    one.process({"t": [3, 4], "v": pa.array([None, 5.0])})
    other = mt.WindowOperator.restore(one.snapshot(), queries=[query])
    batch = {"t": [9], "v": [1.0]}
    assert other.process(batch).equals(one.process(batch))


def test_a_compiled_state_keeps_its_type() -> None:
    def tripled(state: Any, t: int, row: Any) -> Any:
        return state * 3 + 1, 1, 0

    for state in (0.0, 0):
        query = mt.user_window(tripled, state=state).agg(c=mt.count())
        operator = mt.WindowOperator(query, time="t")
        if isinstance(state, float):
            operator.process({"t": list(range(60))})
        else:
            with pytest.raises(ValueError, match="OverflowError"):
                operator.process({"t": list(range(60))})


def test_unsigned_integers_are_refused_where_differences_are_taken() -> None:
    batch = {"t": [0], "d": np.array([2**64 - 1], np.uint64)}
    for window in (
        mt.delta_frame("d", by=2),
        mt.policy_window(mt.policies.every(1), mt.policies.delta("d", 2)),
    ):
        with pytest.raises(TypeError, match="numbers other than uint64 in column 'd'"):
            mt.WindowOperator(window.agg(c=mt.count()), time="t").process(batch)


class Late(mt.ContextAwareWindow):
    """Adds a window that starts before the records that are kept."""

    memory = 3

    def notify(self, edges: Any, record: Any) -> None:
        if record.t == 10:
            edges.add(-100, 11)


class Odd(mt.ContextAwareWindow):
    """Adds a window with bounds that are no integers."""

    def notify(self, edges: Any, record: Any) -> None:
        edges.add(record.t - 0.5, record.t + 1.5)


@pytest.mark.parametrize("cut", [1, 3, 7])
def test_edges_before_the_memory_are_refused_however_the_stream_is_cut(cut: int) -> None:
    times = [0, 1, 2, 3, 5, 10, 12]
    operator = mt.WindowOperator(Late().agg(c=mt.count()), time="t")
    batches = [{"t": times[begin : begin + cut]} for begin in range(0, 7, cut)]
    *before, last = batches if cut == 7 else batches[:-1]  # up to the one with the time 10
    for batch in before:
        operator.process(batch)
    with pytest.raises(ValueError, match=r"memory of 3.*at record 5 of its key, of time 10"):
        operator.process(last)


def test_edges_are_integers() -> None:
    with pytest.raises(ValueError, match="bounds of a window are integers"):
        mt.WindowOperator(Odd().agg(c=mt.count()), time="t").process({"t": [0, 1]})


def test_policies_beyond_what_floats_tell_apart() -> None:
    window = mt.policy_window(mt.policies.every(1), mt.policies.within(2**53 + 1))
    assert counts(window, t=[0, 1, 2**53 + 1]) == [1, 2, 2]
    far = mt.policy_window(mt.policies.every(1), mt.policies.delta("d", by=1))
    with pytest.raises(ValueError, match=r"up to 2\^53"):
        counts(far, t=[0], d=[2**60])


@pytest.mark.parametrize("reaches", [1e19, float("inf"), 2**63])
def test_a_bound_beyond_64_bits_is_not_reached(reaches: Any) -> None:
    assert counts(mt.aggregate_frame(mt.max("v"), reaches=reaches), t=[0, 1, 2], v=[2**63 - 1, 1, 2]) == [3]


def test_a_landmark_far_from_the_next_record() -> None:
    window = mt.landmark("p", length=5, every=10)
    assert counts(window, t=[-(2**62) + 1, 2**62 - 1], p=[True, False]) == [1]


def test_thresholds_compare_exactly() -> None:
    near = float(2**53)
    assert counts(mt.threshold_frame("v", "==", 2**53 + 1), t=[0], v=[near]) == []
    assert counts(mt.threshold_frame("v", "!=", 2**53 + 1), t=[0], v=[near]) == [1]
    assert counts(mt.threshold_frame("v", ">=", 2**53 + 1), t=[0, 1], v=[near, near + 2]) == [1]
    assert counts(mt.threshold_frame("v", "<", 2**53 + 1), t=[0, 1], v=[near, near + 2]) == [1]
    assert counts(mt.threshold_frame("v", ">", np.float32(2**53)), t=[0], v=[2**53 + 1]) == [1]


def test_numbers_of_numpy_are_numbers() -> None:
    assert repr(mt.delta_frame("v", by=np.int64(1))) == "delta_frame('v', by=1)"
    assert (
        repr(mt.aggregate_frame(mt.sum("v"), reaches=np.int64(5))) == "aggregate_frame(sum('v'), reaches=5)"
    )


@pytest.mark.parametrize("columns", [["t"], ["class"], ["a b"]])
def test_columns_that_are_no_fields(columns: list[str]) -> None:
    with pytest.raises(ValueError, match="fields of a named tuple"):
        mt.policy_window(lambda held: True, lambda held: 0, columns=columns)


def test_slices_from_before_the_windows_of_ones_own_are_not_asked_about():
    class Tens(mt.ContextFreeWindow):
        def windows(self, t):
            return [(t // 10 * 10, t // 10 * 10 + 10)]

        def next_edge(self, t):
            return t // 10 * 10 + 10

    op = mt.WindowOperator(
        [mt.tumbling(6).agg(n=mt.count(), name="a"), mt.count_tumbling(9).agg(n=mt.count(), name="b")],
        time="t",
    )
    op.process({"t": [8]})
    op.add(Tens().agg(n=mt.count(), name="own"))
    op.remove("a")
    op.remove("b")
    op.process({"t": [9, 11, 22]})
    assert op.finish().select(["window_start", "n"]).to_pylist() == [{"window_start": 20, "n": 1}]


# ---- slices that windows split in hindsight, alone and beside other windows ----


def operator(*queries: Any, **more: Any) -> mt.WindowOperator:
    return mt.WindowOperator(list(queries), time="t", **more)


def sums(rows: Any) -> list[tuple[Any, ...]]:
    found = rows.filter(pc.field("query") == "q0").to_pylist()
    return [(row["window_start"], row["window_end"], row["s"]) for row in found]


def one_by_one(op: mt.WindowOperator, times: Iterable[int]) -> list[tuple[Any, ...]]:
    return [row for t in times for row in sums(op.process({"t": [t], "w": [t], "v": [t], "p": [False]}))]


def test_what_is_only_shown_splits_slices_of_its_own() -> None:
    op = operator(mt.last_n(2, every=10).agg(s=mt.sum("w")), watermark=10, lateness=10)
    rows = [row for part in ([5, 6, 7], [28], [9]) for row in op.process({"t": part, "w": part}).to_pylist()]
    shown = [(row["window_start"], row["window_end"], row["s"], row["change"]) for row in rows]
    assert shown == [(6, 10, 13, "insert"), (7, 10, 16, "update")]


def test_records_after_a_split_go_on_with_its_last_slice() -> None:
    op = operator(mt.last_n(2, every=5).agg(s=mt.sum("w")), watermark="manual", lateness=10)
    op.process({"t": list(range(8)), "w": list(range(8))})
    op.advance(18)
    op.process({"t": [9], "w": [9]})
    op.advance(30)
    op.process({"t": [31], "w": [31]})
    assert sums(op.finish()) == [(9, 35, 40)]


def test_records_in_split_slices_beside_a_grid_after_a_restore() -> None:
    op = operator(mt.last_n(3, every=10).agg(s=mt.sum("w")), mt.tumbling(100).agg(n=mt.count()))
    op.process({"t": list(range(18)), "w": list(range(18))})
    op = mt.WindowOperator.restore(op.snapshot())
    assert one_by_one(op, [18, 19, 20]) == [(17, 20, 54)]


def test_records_in_split_slices_after_a_query_with_other_aggregates_is_gone() -> None:
    other = mt.punctuation("p").agg(m=mt.max("v"), name="marks")
    op = operator(mt.last_n(3, every=10).agg(s=mt.sum("w")), other)
    columns = {name: list(range(16)) for name in ("t", "w", "v")}
    op.process({**columns, "p": [False] * 16})
    op.remove("marks")
    op.process({"t": [16, 17], "w": [16, 17], "v": [16, 17], "p": [False] * 2})
    assert one_by_one(op, [18, 19, 20]) == [(17, 20, 54)]


def test_slices_of_one_record_are_not_gone_on_with_where_they_may_be_split() -> None:
    other = mt.policy_window(mt.policies.every(7), mt.policies.keep(5)).agg(n=mt.count(), name="policy")
    op = operator(mt.last_n(2, every=10).agg(s=mt.sum("w")), other)
    op.process({"t": list(range(17)), "w": list(range(17))})
    op.remove("policy")
    assert one_by_one(op, range(17, 31)) == [(18, 20, 37), (28, 30, 57)]


def test_a_sum_too_large_after_a_split_leaves_the_operator_as_it_was() -> None:
    op = operator(mt.last_n(4, every=10).agg(s=mt.sum("w")))
    large = 2**62 - 1
    op.process({"t": [0, 1, 2, 3], "w": [large] * 4})
    op.process({"t": [4, 5, 6, 7], "w": [-large] * 4})
    before = op.snapshot()
    with pytest.raises(OverflowError):
        op.process({"t": [11], "w": [0]})
    assert op.snapshot() == before


def test_a_record_by_itself_beside_a_query_with_answers_of_another_kind():
    """Rows of grids were written one by one into columns of 64 bits, also those of other queries."""
    queries = [
        mt.session(1).agg(points=mt.m4("v"), latest=mt.last("name"), name="s"),
        mt.tumbling(1).agg(n=mt.count(), name="t"),
    ]
    operator = mt.WindowOperator(queries, time="at")
    operator.process({"at": [0], "v": [0.5], "name": ["a"]})
    (row,) = operator.process({"at": [1], "v": [0.5], "name": ["b"]}).to_pylist()
    assert (row["query"], row["n"], row["points"], row["latest"]) == ("t", 1, None, None)
    rows = operator.finish().to_pylist()
    assert [(row["query"], row["latest"]) for row in rows if row["query"] == "s"] == [("s", "b")]


def test_records_from_before_their_order_mattered_are_not_lost():
    """A query that needs the order of records came; those that a merged session had before were not kept."""
    queries = [
        mt.rolling(1).agg(at=mt.argmax("v", "w"), name="r"),
        mt.session(5).agg(high=mt.max("v"), rows=mt.count(), name="s"),
    ]
    operator = mt.WindowOperator(queries, time="t", watermark="manual", lateness=20)
    operator.process({"t": [1122], "v": [9.0], "w": [1]})
    operator.add(mt.sliding(7, every=12).agg(latest=mt.last("w"), name="later"))
    operator.process({"t": [1118], "v": [2.5], "w": [0]})
    rows = [row for row in operator.finish().to_pylist() if row["query"] == "s"]
    assert [(row["window_start"], row["high"], row["rows"]) for row in rows] == [(1118, 9.0, 2)]


@pytest.mark.parametrize(
    "window",
    [
        mt.sliding(2**34, every=1),
        mt.sliding(2**40, every=1),
        mt.cumulate(2**40, step=1),
        mt.sliding(2**61, every=1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("key", [None, "key"])
def test_more_windows_than_can_be_a_purpose_are_refused_at_once(window: mt.Window, key: str | None) -> None:
    """A record that so many windows hold would keep a compiled loop busy, which no signal reaches."""
    op = mt.WindowOperator(window.agg(n=mt.count(), name="fine"), time="ts", key=key, watermark="manual")
    op.process({"ts": range(5, 5 + 8 * 2**10, 2**10), "key": ["a"] * 8})
    before, began = op.snapshot(), time.perf_counter()
    with pytest.raises(ValueError, match=r"emit [\d,]+ windows of query 'fine'.*a call may emit 100,000,000"):
        op.finish()
    assert time.perf_counter() - began < 5
    assert op.snapshot() == before


class Hours(mt.ContextFreeWindow):
    """Windows from 4 to 6 of every 10."""

    def windows(self, t: int) -> list[tuple[int, int]]:
        begin = (t - 4) // 10 * 10 + 4
        return [(begin, begin + 2)] if t < begin + 2 else []

    def next_edge(self, t: int) -> int:
        begin = (t - 4) // 10 * 10 + 4
        return begin + 2 if t < begin + 2 else begin + 10


def test_slices_between_windows_of_a_users_grid_are_found_again_after_a_restore() -> None:
    """Late records had cut one at -2, and asked about -3 first, the grid would let it begin there."""
    own, listed = Hours().agg(n=mt.count(), name="own"), mt.tumbling(12).agg(c=mt.collect("w"), name="all")
    first = {"t": [-7, -3, 0, -1, -2, 2, -2], "w": [1, 2, 6, 4, 3, 7, 3]}
    op = mt.WindowOperator([own, listed], time="t", watermark=3, lateness=20)
    op.process(first)
    op = mt.WindowOperator.restore(op.snapshot(), [own, listed])
    rows = op.process({"t": [-1, 9], "w": [5, 8]}).to_pylist()
    assert [row["c"] for row in rows if row["query"] == "all"] == [[1, 2, 3, 3, 4, 5]]
    mt.WindowOperator.restore(op.snapshot(), [own, listed])
