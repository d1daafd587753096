"""Records that come too late: they come out as they went in, and cost no window."""

from __future__ import annotations

import datetime
import warnings

import numpy as np
import pyarrow as pa
import pytest

import muntin as mt
from muntin import columnar
from tests.arrow_types import COLUMNS

LATE = 3  # the place of the record that comes too late
TIMES = [5, 14, 25, 3]


def operator(**setting) -> mt.WindowOperator:
    """An operator that lets a record of time 3 be late, once there is one of 25."""
    return mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts", **{"watermark": 0, **setting})


def bounds(rows: pa.Table) -> list[int]:
    return rows["window_start"].to_pylist()


# ---- columns that nobody reads ----


@pytest.mark.parametrize("name", COLUMNS)
def test_a_late_record_beside_a_column_of_any_type(name):
    column = COLUMNS[name]
    subject = operator()
    assert bounds(subject.process(pa.table({"ts": TIMES, "x": column}))) == [0, 10]
    late = subject.take_late()
    late.validate(full=True)
    assert late.schema.field("x").type == column.type
    assert late.to_pydict() == {"ts": [3], "x": column.to_pylist()[LATE:]}


@pytest.mark.parametrize("name", COLUMNS)
def test_some_rows_of_a_column_of_any_type(name):
    column = pa.concat_arrays([COLUMNS[name]] * 3).slice(1)
    values = column.to_pylist()
    for places in ([0], [0, 1, 2], [1, 4, 5, 10], list(range(11))):
        taken = columnar.rows(column, np.array(places))
        taken.validate(full=True)
        assert taken.type == column.type
        assert taken.to_pylist() == [values[k] for k in places]


def test_late_records_beside_texts_of_polars():
    import polars

    subject = operator()
    frame = polars.DataFrame({"ts": TIMES, "s": ["a", "b", "c", "d"]})
    frame = frame.with_columns(c=polars.col("s").cast(polars.Categorical))
    assert bounds(subject.process(frame, returns="pyarrow")) == [0, 10]
    assert subject.take_late().to_pylist() == [{"ts": 3, "s": "d", "c": "d"}]


@pytest.mark.parametrize("name", COLUMNS)
def test_late_records_of_any_type_are_kept_in_a_snapshot(name):
    subject = operator()
    subject.process(pa.table({"ts": TIMES, "x": COLUMNS[name]}))
    late = mt.WindowOperator.restore(subject.snapshot()).take_late()
    assert late.to_pydict() == subject.take_late().to_pydict()


def test_a_late_record_that_a_condition_lets_through():
    query = mt.tumbling(10).agg(n=mt.count("s"), where="ts > 0")
    subject = mt.WindowOperator(query, time="ts", watermark=0)
    views = pa.array(["a", "b", "c", "d"], pa.string_view())
    assert bounds(subject.process(pa.table({"ts": TIMES, "s": views}))) == [0, 10]
    assert subject.take_late().to_pylist() == [{"ts": 3, "s": "d"}]


# ---- one table of batches with different columns ----


def late_of(*batches) -> pa.Table:
    """The late records of batches: all of time 1 of an operator that has seen one of 100."""
    subject = operator()
    subject.process({"ts": [100]})
    for batch in batches:
        assert subject.process(batch).num_rows == 0
    late = subject.take_late()
    late.validate(full=True)
    assert subject.take_late().num_rows == 0
    return late


def test_a_name_that_two_columns_have():
    twice = pa.Table.from_arrays([pa.array([1]), pa.array(["a"]), pa.array([2.0])], ["ts", "x", "x"])
    late = late_of(twice)
    assert late.schema == twice.schema
    assert [column.to_pylist() for column in late.columns] == [[1], ["a"], [2.0]]
    late = late_of({"ts": [1], "x": ["b"]}, twice, {"ts": [1]})
    assert late.column_names == ["ts", "x", "x"]
    assert [column.to_pylist() for column in late.columns] == [[1, 1, 1], ["b", "a", None], [None, 2.0, None]]


def test_times_that_no_common_unit_holds():
    far, near = pa.array([2**40], pa.timestamp("s")), pa.array([7], pa.timestamp("ns"))
    late = late_of({"ts": [1], "x": near}, {"ts": [1], "x": far})
    assert late.schema.names == ["ts", "x", "x (timestamp[s])"]
    assert [column.null_count for column in late.columns] == [0, 1, 1]
    assert late["x"].chunk(0) == near
    assert late["x (timestamp[s])"].chunk(1) == far


def test_the_time_column_keeps_its_type_where_another_column_does_not():
    late = late_of({"ts": pa.array([1], pa.int32()), "x": ["a"]}, {"ts": [1], "x": [2]})
    assert late.schema.field("ts").type == pa.int64()
    assert late.to_pydict() == {"ts": [1, 1], "x": ["a", None], "x (int64)": [None, 2]}


def test_columns_that_are_read_have_the_type_in_which_they_are():
    subject = mt.WindowOperator(mt.tumbling("1s").agg(n=mt.count()), time="ts", watermark="0s")
    micro, milli = pa.timestamp("us"), pa.timestamp("ms")
    subject.process({"ts": pa.array([10**7], micro)})
    subject.process({"ts": pa.array([1], milli)})
    subject.process({"ts": pa.array([1001], micro)})
    late = subject.take_late()
    assert late.schema.field("ts").type == micro
    assert late["ts"].cast(pa.int64()).to_pylist() == [1000, 1001]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1], [2.0]),
        ([None], [2]),
        (pa.array(["a"], pa.string_view()), ["b"]),
        (pa.array(["a"]).dictionary_encode(), pa.array(["b"], pa.large_string())),
        (pa.nulls(1), pa.nulls(1).dictionary_encode()),
        ([1], pa.nulls(1, pa.string())),
    ],
    ids=["float", "null", "view", "dictionary", "nulls", "null text"],
)
def test_values_that_the_first_type_holds_stay_in_one_column(first, second):
    batches = [{"ts": [1], "x": values} for values in (first, second)]
    late = late_of(*batches)
    assert late.column_names == ["ts", "x"]
    whole = [value for batch in batches for value in pa.table(batch)["x"].to_pylist()]
    assert late["x"].to_pylist() == whole


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ([2**53 + 1], [0.5], "x (double)"),
        ([0.5], [2**53 + 1], "x (int64)"),
        ([1], ["1"], "x (string)"),
        (["1"], [b"1"], "x (binary)"),
        ([True], [1], "x (int64)"),
        ([[1]], [1], "x (int64)"),
    ],
)
def test_nothing_is_lost_between_two_types(first, second, name):
    late = late_of({"ts": [1], "x": first}, {"ts": [1], "x": second})
    assert late.to_pydict() == {"ts": [1, 1], "x": [*first, None], name: [None, *second]}


@pytest.mark.parametrize("name", COLUMNS)
def test_any_type_beside_another(name):
    column = COLUMNS[name].slice(3)
    numbers = {"ts": [1], "x": [datetime.time(1)]}
    odd = {"ts": [1], "x": column}
    for batches in ([numbers, odd, numbers], [odd, numbers, odd]):
        late = late_of(*batches)
        came = [pa.table(batch)["x"].to_pylist()[0] for batch in batches]
        columns = [late[k].to_pylist() for k in range(1, late.num_columns)]
        for row, value in enumerate(came):
            found = [values[row] for values in columns if values[row] is not None]
            assert found == ([] if value is None else [value])


# ---- the warning comes before anything has changed ----


@pytest.mark.parametrize("where", [None, "ts >= 0"])
def test_where_warnings_are_errors_a_broken_promise_of_order_changes_nothing(where):
    query = mt.tumbling(10).agg(n=mt.count(), where=where)
    subject, twin = (mt.WindowOperator(query, time="ts") for _ in range(2))
    for each in (subject, twin):
        each.process({"ts": [1]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="record 2 of the batch goes back in time"):
            subject.process({"ts": [5, 25, 3]})
    assert subject.metrics == twin.metrics
    assert subject.take_late().num_rows == 0
    for batch in ({"ts": [5, 25]}, {"ts": [31]}):
        assert subject.process(batch).to_pylist() == twin.process(batch).to_pylist()


@pytest.mark.parametrize("where", [None, "ts >= 0"])
def test_the_first_late_record_is_warned_about_where_it_was_handed_over(where):
    subject = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count(), where=where), time="ts")
    views = pa.array(["a", "b", "c"], pa.string_view())
    with pytest.warns(UserWarning, match="record 2 of the batch goes back in time") as caught:
        rows = subject.process(pa.table({"ts": [5, 25, 3], "s": views}))
    assert caught[0].filename == __file__
    assert bounds(rows) == [0]
    assert subject.take_late().to_pylist() == [{"ts": 3, "s": "c"}]
    subject.process({"ts": [2]})  # is not warned about again
    assert subject.metrics.late_dropped == 2
