"""Inputs that windows which look at records once got wrong, as small as they can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
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


def test_slices_that_records_mark_off_are_looked_up_by_the_times_of_their_records():
    query = mt.on("km", mt.tumbling(10)).agg(total=mt.sum("v"), n=mt.count())
    op = mt.WindowOperator([query], time="ts", key="k")
    op.process(
        {"ts": [1, 2, 3, 5, 8, 9], "k": list("ababaa"), "km": [1, 4, 9, 12, 14, 19], "v": [1, 2, 3, 4, 5, 6]}
    )
    (row,) = op.lookup(3, 100, key="a").to_pylist()
    assert row == {"k": "a", "window_start": 8, "window_end": 9, "total": 11, "n": 2}
    assert op.lookup(20, 30).num_rows == 0


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
