"""Input of every layout that Arrow has, and input that is none: right rows, or one clear sentence."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import muntin as mt
from muntin.slicing import arrow
from tests.arrow_types import CATEGORICAL, COLUMNS

TIMES = [1, 2, 3, 4]


def told(table: pa.Table) -> list[Any]:
    """Rows as dicts, in an order of their own: that among keys is not defined."""
    return sorted(table.to_pylist(), key=repr)


def sentence(caught: pytest.ExceptionInfo) -> str:
    """The text of an error, which is one sentence."""
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
    return text


# ---- layouts ----


@pytest.mark.parametrize("name", COLUMNS)
def test_plain_values_are_the_same(name):
    whole = pa.concat_arrays([COLUMNS[name]] * 2)
    for column in (whole, whole.slice(3), whole.slice(1, 2), whole.slice(0, 0)):
        plain = arrow.plain(column)
        plain.validate(full=True)
        assert plain.type == arrow.plain_type(column.type) == arrow.plain_type(plain.type)
        assert plain.to_pylist() == column.to_pylist()


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("keys", [["k"], ["k", "l"]], ids=["alone", "with another"])
def test_keys_of_any_layout(name, keys):
    column = COLUMNS[name]
    subject = mt.WindowOperator(mt.tumbling(100).agg(n=mt.count()), time="ts", key=keys)
    for begin in (0, 10):
        subject.process(pa.table({"ts": [begin + t for t in TIMES], "k": column, "l": [7] * 4}))
        subject = mt.WindowOperator.restore(subject.snapshot())
    subject.process(pa.table({"ts": [20], "k": column.slice(3), "l": [7]}))
    rows = subject.finish()
    rows.validate(full=True)
    assert rows.schema.field("k").type == arrow.plain_type(column.type)
    values = [repr(value) for value in [*column.to_pylist() * 2, column.to_pylist()[3]]]
    found = {repr(row["k"]): row["n"] for row in rows.to_pylist()}
    assert found == {value: values.count(value) for value in values}


UNIONS = [name for name in COLUMNS if "union" in name]


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in UNIONS])
@pytest.mark.parametrize("where", [None, "ts > 0"])
def test_values_of_any_layout(name, where):
    column = COLUMNS[name]
    aggregates = {"first": mt.first("x"), "all": mt.collect("x"), "n": mt.count("x")}
    subject = mt.WindowOperator(mt.tumbling(100).agg(**aggregates, where=where), time="ts")
    subject.process(pa.table({"ts": TIMES, "x": column}))
    rows = subject.finish()
    rows.validate(full=True)
    there = [value for value in column.to_pylist() if value is not None]
    assert rows["first"].to_pylist() == [there[0] if there else None]
    assert rows["all"].to_pylist() == [there or None]
    assert rows["n"].to_pylist() == [len(there)]
    kind = arrow.plain_type(column.type)
    assert rows.schema.field("first").type == kind


@pytest.mark.parametrize("name", COLUMNS)
def test_states_of_any_layout(name):
    column = COLUMNS[name]
    rows = mt.aggregate(
        pa.table({"ts": TIMES, "x": column}), mt.state_window("x").agg(n=mt.count()), time="ts"
    )
    values, runs = [repr(value) for value in column.to_pylist()], []
    for k, value in enumerate(values):
        if k and value == values[k - 1]:
            runs[-1] += 1
        else:
            runs.append(1)
    assert rows["n"].to_pylist() == runs


@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize("aggregate", [mt.first("x"), mt.collect("x"), mt.argmax("ts", "x")], ids=repr)
def test_answers_that_no_column_holds_are_refused_at_once(name, aggregate):
    subject = mt.WindowOperator(mt.tumbling(10).agg(a=aggregate), time="ts")
    with pytest.raises(TypeError, match="gives values of column 'x', but Arrow makes no column of") as caught:
        subject.process(pa.table({"ts": TIMES, "x": COLUMNS[name]}))
    sentence(caught)
    assert subject.metrics.records_in == 0


CATEGORIES = {"categorical": pl.Categorical, "enum": pl.Enum(["x", "y", "z"]), "text": pl.String}


@pytest.mark.parametrize("kind", CATEGORIES)
def test_categories_of_polars(kind):
    words = ["x", "y", None, "x"]
    frame = pl.DataFrame({"ts": TIMES, "c": words, "v": [1, 2, 4, 8]})
    frame = frame.with_columns(pl.col("c").cast(CATEGORIES[kind]))
    queries = [
        mt.tumbling(100).agg(total=mt.sum("v"), least=mt.min("c"), names=mt.collect("c"), name="values"),
        mt.tumbling(100).agg(n=mt.count(), where="c = 'x'", name="chosen"),
        mt.tumbling(100).agg(last=mt.max(mt.expr("UPPER(c)")), name="computed"),
        mt.state_window("c").agg(n=mt.count(), name="states"),
    ]
    subject, twin = (mt.WindowOperator(queries, time="ts", key="c") for _ in range(2))
    for shift in (0, 10, 20):
        subject.process(frame.with_columns(pl.col("ts") + shift))
        twin.process({"ts": [t + shift for t in TIMES], "c": words, "v": [1, 2, 4, 8]})
    assert told(subject.finish()) == told(twin.finish())


def test_later_layouts_are_taken_for_what_they_hold():
    subject = mt.WindowOperator(mt.tumbling(100).agg(n=mt.count()), time="ts", key="k")
    for k, column in enumerate(
        [CATEGORICAL, CATEGORICAL.indices.cast(pa.string()), arrow.plain(CATEGORICAL)]
    ):
        subject.process(pa.table({"ts": [10 * k + t for t in TIMES], "k": column}))
    rows = subject.finish()
    assert rows.schema.field("k").type == pa.string()
    assert {row["k"]: row["n"] for row in rows.to_pylist()} == {"x": 4, "y": 2, None: 3, "0": 2, "1": 1}
