"""Count windows over slices of one record each: however batches are cut, and whatever comes later."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import muntin as mt
from muntin.engine import tuning
from muntin.engine.store.ordered import RecordColumns
from tests.oracle import agrees, answer

AGGREGATES = {
    "middle": mt.median("v"),
    "some": mt.quantile("v", [0.1, 0.9]),
    "total": mt.sum("v"),
    "high": mt.max("v"),
    "all": mt.collect("v"),
    "modal": mt.mode("v"),
    "rows": mt.count(),
}
Batch = list[tuple[int, str, float | None]]
NUMBERS = st.sampled_from([-3.5, 0.0, -0.0, 1.0, 1.0, 2.5, 1e9, math.inf, -math.inf])
VALUES = st.one_of(st.none(), NUMBERS)  # with a null, records are taken in in another way


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large batches are taken in by parts, which only those of many records would be."""
    monkeypatch.setattr(tuning, "SMALL_PART", 5)


def table(batch: Batch) -> pa.Table:
    columns = zip(*batch, strict=True) if batch else ([], [], [])
    kinds = (pa.int64(), pa.string(), pa.float64())
    return pa.table(
        {n: pa.array(c, k) for n, c, k in zip(("t", "key", "v"), map(list, columns), kinds, strict=True)}
    )


def rows_of(tables: list[pa.Table]) -> list[dict[str, Any]]:
    return [row for some in tables for row in some.to_pylist()]


def queries(length: int, every: int) -> list[mt.Query]:
    names = ["a"] if every == 1 else ["a", "b"]  # slices have one record each anyway
    steps = [every, 1]
    return [
        mt.count_sliding(length, every=step).agg(**AGGREGATES, name=name, emit_partial=True)
        for name, step in zip(names, steps, strict=False)
    ]


def cut(records: Batch, sizes: list[int]) -> list[Batch]:
    bounds = [0, *itertools.accumulate(sizes), len(records)]
    return [records[a:b] for a, b in itertools.pairwise(bounds)]


@settings(max_examples=150, deadline=None)
@example([math.inf, -math.inf], 2, 1, [], False)  # half-way between them is no number
@given(
    st.one_of(st.lists(some, min_size=1, max_size=70) for some in (NUMBERS, VALUES)),
    st.integers(1, 9),
    st.integers(1, 3),
    st.lists(st.integers(0, 30), max_size=8),
    st.booleans(),
)
def test_batches_of_any_size_give_the_rows_of_one_by_one(values, length, every, sizes, snapshot):
    records = [(i // 2, "k", v) for i, v in enumerate(values)]
    operators = [mt.WindowOperator(queries(length, every), time="t") for _ in range(2)]
    large, one_by_one = [], []
    for batch in cut(records, sizes):
        large.append(operators[0].process(table(batch)))
        one_by_one += [operators[1].process(table([record])) for record in batch]
        if snapshot:
            operators[0] = mt.WindowOperator.restore(operators[0].snapshot())
    got, want = (rows_of([*t, o.finish()]) for t, o in zip((large, one_by_one), operators, strict=True))

    def identity(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["query"], row["window_id"]

    assert repr(sorted(got, key=identity)) == repr(sorted(want, key=identity))  # there may be NaN
    whole = [row for row in got if row["query"] == "a" and row["rows"] == length]
    for row in whole:
        held = [v for v in values[row["window_id"] * every :][:length] if v is not None]
        assert row["all"] == (held or None)
        assert agrees(row["middle"], answer("median", held))


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(st.lists(some, min_size=20, max_size=50) for some in (NUMBERS, VALUES)),
    st.lists(st.tuples(st.sampled_from("kl"), VALUES), min_size=1, max_size=30),
    st.sampled_from(["another key", "another window", "a window less"]),
)
def test_what_comes_later_finds_the_records(values, later, change):
    first = [(i, "k", v) for i, v in enumerate(values)]
    second = [(100 + i, key if change == "another key" else "k", v) for i, (key, v) in enumerate(later)]
    found = []
    for batches in ([first, second], [[record] for record in first + second]):
        listed = [mt.count_sliding(4, every=1).agg(**AGGREGATES, name="a")]
        listed.append(mt.count_tumbling(3).agg(**AGGREGATES, name="b"))
        operator = mt.WindowOperator(listed, time="t", key="key" if change == "another key" else None)
        tables = []
        for batch in batches:
            if batch[0] == second[0] and change == "a window less":
                operator.remove("a")
            if batch[0] == second[0] and change == "another window":
                operator.add(mt.count_sliding(2, every=1).agg(**AGGREGATES, name="c"))
            tables.append(operator.process(table(batch)))
        found.append(rows_of([*tables, operator.finish()]))
    first_rows, second_rows = (sorted(map(repr, rows)) for rows in found)
    assert first_rows == second_rows


def test_records_leave_once_no_window_can_hold_them():
    operator = mt.WindowOperator(mt.count_sliding(3, every=1).agg(m=mt.median("v")), time="t")
    for begin in (0, 1000):
        rows = operator.process(table([(begin + i, "k", float(i)) for i in range(1000)]))
        assert rows["m"].to_pylist()[-1] == 998.0
    (counts,) = operator._engine.slices.of_kind("count").values()
    assert isinstance(counts.store._columns, RecordColumns)
    assert counts.store.count < 20  # but for the last part
    assert operator.metrics.slices == 2


def test_rows_do_not_change_with_what_comes_after_them():
    operator = mt.WindowOperator(mt.count_sliding(2, every=1).agg(m=mt.median("v")), time="t")
    first = operator.process(table([(i, "k", float(i)) for i in range(40)]))
    listed = first.to_pylist()
    operator.process(table([(100 + i, "k", -1.0) for i in range(40)]))
    operator.process(table([(200, "k", -1.0)]))
    assert first.to_pylist() == listed


def test_a_store_that_lost_all_cells_of_several_keys_takes_in_others():
    operator = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="t", key="key", watermark="manual")
    operator.process(table([(5, key, 0.0) for key in "abc"]))
    store = operator._engine.slices.of_kind("grid")[None].store
    store.keep(np.zeros(3, bool))
    operator.process(table([(95, "c", 0.0), (95, "b", 0.0)]))
    operator.process(table([(75, "b", 0.0)]))
    ordered = store.ordered()
    assert (ordered.code.tolist(), ordered.start.tolist()) == ([1, 1, 2], [70, 90, 90])


def test_integers_and_rows_in_order_over_parts():
    values = np.random.default_rng(3).integers(-50, 50, 200)
    operator = mt.WindowOperator(mt.count_sliding(7, every=1).agg(m=mt.median("v")), time="t")
    rows = operator.process({"t": np.arange(200), "v": values})
    assert rows["window_id"].to_pylist() == list(range(194))
    assert rows["window_start"].to_pylist() == list(range(194))
    assert rows["m"].to_pylist() == [float(np.median(values[k : k + 7])) for k in range(194)]


def test_a_batch_that_breaks_off_changes_nothing():
    class Picky(mt.Aggregate):
        @staticmethod
        def lift(v: float) -> list[float]:
            if v < 0:
                raise ValueError("below zero")
            return [v]

        @staticmethod
        def combine(a: list[float], b: list[float]) -> list[float]:
            return a + b

        @staticmethod
        def lower(a: list[float]) -> float:
            return a[-1]

    query = mt.count_sliding(3, every=1).agg(last=Picky("v"), m=mt.median("v"))
    operators = [mt.WindowOperator(query, time="t") for _ in range(2)]
    batches = [[(i, "k", float(i)) for i in range(9)], [(i, "k", float(i)) for i in range(9, 30)]]
    for k, batch in enumerate(batches):
        if k:
            with pytest.raises(ValueError, match="below zero"):
                operators[0].process(table([*batch, (99, "k", -1.0)]))
        got, want = (operator.process(table(batch)).to_pylist() for operator in operators)
        assert got == want


def test_what_is_asked_does_not_change_the_bytes_of_the_state():
    operator = mt.WindowOperator(mt.count_sliding(10, every=1).agg(s=mt.sum("v")), time="t")
    operator.process(table([(i, "k", 1.0) for i in range(200)]))
    before = operator.metrics.state_bytes
    operator.snapshot()
    assert operator.metrics.state_bytes == before > 0
