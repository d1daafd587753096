"""What the operator shows to whoever watches it."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

import muntin as mt
from tests.dashboard.pages import batch, operator


def test_a_watcher_sees_each_call_once_all_has_changed() -> None:
    op, seen = operator(), []

    def watcher(given: Any, rows: pa.Table, nanoseconds: int) -> None:
        seen.append((given, rows, op.metrics.records_in))
        assert nanoseconds > 0

    op.watch(watcher)
    one = batch([1, 4, 30])
    rows = op.process(one)
    assert seen == [(one, rows, 3)]
    op.advance(60)
    op.finish()
    assert [given for given, _, _ in seen[1:]] == [None, None]
    op.watch(None)
    assert pickle.loads(pickle.dumps(op))._watcher is None


def test_a_refused_batch_is_not_seen() -> None:
    op, seen = operator(), []
    op.watch(lambda *call: seen.append(call))
    with pytest.raises(ValueError, match="null"):
        op.process({"ts": [1, None], "car": ["a", "a"], "speed": [1.0, 2.0]})
    assert not seen


def test_newest_is_the_largest_time_of_a_record() -> None:
    op = operator()
    assert op.newest is None
    op.process(batch([5, 30, 29]))
    assert op.newest == 30
    op.advance(100)
    assert op.newest == 30
    stamps = mt.WindowOperator(mt.tumbling("1s").agg(n=mt.count()), time="t")
    stamps.process({"t": pa.array([7], pa.timestamp("ms", "UTC"))})
    assert stamps.newest == pa.scalar(7, pa.timestamp("ms", "UTC"))
    assert (stamps.time, stamps.key, op.time, op.key) == ("t", (), "ts", ("car",))


def test_slices_of_each_family() -> None:
    queries = [
        mt.tumbling(10).agg(n=mt.count(), name="grid"),
        mt.session(3).agg(n=mt.count(), name="runs"),
        mt.count_tumbling(2).agg(n=mt.count(), name="counts"),
        mt.state_window("v").agg(n=mt.count(), name="states"),
    ]
    op = mt.WindowOperator(queries, time="t", key="k")
    assert op.slices(name="grid").num_rows == 0
    op.process({"t": [1, 2, 8, 12], "k": ["a", "a", "b", "a"], "v": [1, 1, 1, 2]})
    grid = op.slices(name="grid").to_pydict()
    assert grid == {
        "k": ["a", "a", "b"],
        "slice_start": [0, 10, 0],
        "first": [1, 12, 8],
        "last": [2, 12, 8],
        "records": [2, 1, 1],
    }
    assert op.slices("b", name="grid").to_pydict()["first"] == [8]
    assert op.slices("nobody", name="grid").num_rows == 0
    assert op.slices("a", name="runs").to_pydict()["last"] == [2, 12]
    for name in ("counts", "states"):
        by_position = op.slices("a", name=name).to_pydict()
        assert by_position["slice_start"] == [None] * len(by_position["first"])
        assert sum(by_position["records"]) == 3
    with pytest.raises(KeyError, match="no query named 'other'"):
        op.slices(name="other")
    with pytest.raises(ValueError, match="say which query"):
        op.slices()


def test_slices_are_those_that_windows_fold() -> None:
    """The records of a window's slices are as many as the window counts."""
    op = mt.WindowOperator(mt.sliding(20, every=5).agg(n=mt.count()), time="t", watermark=3, lateness=40)
    rows = op.process({"t": [1, 2, 8, 12, 13, 21, 26, 40, 9]})
    assert rows.num_rows > 4
    slices = op.slices().to_pylist()
    for row in rows.to_pylist():
        start, end = row["window_start"], row["window_end"]
        inside = [one for one in slices if start <= one["slice_start"] and one["last"] < end]
        assert sum(one["records"] for one in inside) == row["n"]


def test_queries_are_those_that_run() -> None:
    op = operator()
    assert list(op.queries) == ["tens", "top", "trips", "line"]
    op.add(mt.tumbling(7).agg(n=mt.count(), name="sevens"))
    op.remove("top")
    assert list(op.queries) == ["tens", "trips", "line", "sevens"]
    assert op.queries["sevens"].window == mt.tumbling(7)
