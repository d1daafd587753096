"""Input of every layout that Arrow has, and input that is none: right rows, or one clear sentence."""

from __future__ import annotations

import copy
import datetime
import decimal
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import muntin as mt
from muntin import columnar
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
        plain = columnar.plain(column)
        plain.validate(full=True)
        assert plain.type == columnar.plain_type(column.type) == columnar.plain_type(plain.type)
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
    assert rows.schema.field("k").type == columnar.plain_type(column.type)
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
    kind = columnar.plain_type(column.type)
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
    found = subject.lookup(0, 200, "x", name="values")
    assert found["total"].to_pylist() == [27]
    assert told(subject.finish(returns="pyarrow")) == told(twin.finish())


def test_later_layouts_are_taken_for_what_they_hold():
    subject = mt.WindowOperator(mt.tumbling(100).agg(n=mt.count()), time="ts", key="k")
    for k, column in enumerate(
        [CATEGORICAL, CATEGORICAL.indices.cast(pa.string()), columnar.plain(CATEGORICAL)]
    ):
        subject.process(pa.table({"ts": [10 * k + t for t in TIMES], "k": column}))
    rows = subject.finish()
    assert rows.schema.field("k").type == pa.string()
    assert {row["k"]: row["n"] for row in rows.to_pylist()} == {"x": 4, "y": 2, None: 3, "0": 2, "1": 1}


# ---- what is no batch ----


@pytest.mark.parametrize(
    "batch",
    [
        pd.Series([1, 2]),
        pd.Series([1, 2], name="ts"),
        pd.Index([1, 2]),
        pl.Series("ts", [1, 2]),
        pa.array([1, 2]),
        pa.chunked_array([[1, 2]]),
    ],
    ids=lambda batch: type(batch).__module__.split(".")[0] + type(batch).__name__,
)
def test_a_column_is_no_batch(batch):
    subject = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
    with pytest.raises(TypeError, match="a batch is a pyarrow Table or RecordBatch, a pandas") as caught:
        subject.process(batch)
    assert sentence(caught).endswith(f"not {type(batch).__name__}.")


def test_a_frame_of_pandas_that_arrow_does_not_read():
    subject = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="ts")
    with pytest.raises(TypeError, match="the batch cannot be read as Arrow columns: Duplicate column names"):
        subject.process(pd.DataFrame([[1, 2]], columns=["ts", "ts"]))


# ---- texts that are none ----

BAD = pa.array([b"a", b"b", b"\xff"]).view(pa.string())
QUERIES = {
    "value": mt.tumbling(10).agg(a=mt.first("s")),
    "count": mt.tumbling(10).agg(a=mt.count("s")),
    "distinct": mt.tumbling(10).agg(a=mt.count_distinct("s")),
    "sketch": mt.tumbling(10).agg(a=mt.approx_count_distinct("s")),
    "state": mt.state_window("s").agg(a=mt.count()),
    "condition": mt.tumbling(10).agg(a=mt.first("s"), where="ts > 0"),
    "expression": mt.tumbling(10).agg(a=mt.first(mt.expr("COALESCE(s, 'x')"))),
}
SETTINGS = {"key": {"key": "s"}, "keys": {"key": ["s", "ts"]}, "tie": {"tie": "s"}}
TEXTS = {
    "plain": BAD,
    "large": BAD.cast(pa.binary()).cast(pa.large_binary()).view(pa.large_string()),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), BAD),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("use", [*QUERIES, *SETTINGS])
def test_a_text_that_is_not_utf_8(use, text):
    query = QUERIES.get(use, mt.tumbling(10).agg(n=mt.count()))
    subject = mt.WindowOperator(query, time="ts", **SETTINGS.get(use, {}))
    subject.process({"ts": [1], "s": ["a"]})
    for begin in (0, 2):  # several records, and one
        batch = pa.table({"ts": [2, 3, 4], "s": TEXTS[text]}).slice(begin)
        with pytest.raises(
            ValueError, match=f"column 's' holds a text that is not UTF-8 in row {2 - begin}"
        ) as caught:
            subject.process(batch)
        sentence(caught)
    assert subject.metrics.records_in == 1


def test_a_text_that_is_not_utf_8_in_an_expression():
    subject = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count(), where="UPPER(s) = 'A'"), time="ts")
    with pytest.raises(ValueError, match=r"the expression .* cannot be computed: Invalid UTF8") as caught:
        subject.process({"ts": [1, 2, 3], "s": BAD})
    sentence(caught)


def test_an_error_of_a_users_function_is_not_taken_for_one_of_a_text():
    class Decoded(mt.Aggregate):
        def lift(v):
            return [v.decode()]

        def combine(a, b):
            return a + b

    subject = mt.WindowOperator(mt.tumbling(10).agg(a=Decoded("b")), time="ts")
    with pytest.raises(
        ValueError, match=r"Decoded\.lift raised UnicodeDecodeError.* at record 0 of the batch"
    ):
        subject.process({"ts": [1], "b": [b"\xff"]})


# ---- keys that are looked up ----


def held(column: Any) -> mt.WindowOperator:
    subject = mt.WindowOperator(mt.tumbling(100).agg(n=mt.count()), time="ts", key="k")
    subject.process({"ts": [1, 2], "k": column})
    return subject


@pytest.mark.parametrize(
    ("column", "key"),
    [
        ([5, 6], "x"),
        ([5, 6], 5.5),
        ([5, 6], True),
        ([5, 6], b"5"),
        ([5, 6], 2**70),
        ([5, 6], datetime.datetime(1970, 1, 1)),
        (pa.array([5, 6], pa.int8()), 300),
        (["5", "6"], 5),
        ([0.5, 1.0], "0.5"),
        ([True, False], 1),
        (pa.array([5, 6], pa.timestamp("s")), datetime.datetime(1970, 1, 1, microsecond=5)),
        (pa.array([5, 6], pa.timestamp("s")), 5),
        ([decimal.Decimal("1.5")] * 2, decimal.Decimal("1.55")),
        ([5, 6], ...),
    ],
    ids=str,
)
def test_a_key_of_another_type(column, key):
    with pytest.raises(TypeError, match=r"the key column 'k' holds .*, and .* is no such value") as caught:
        held(column).lookup(0, 10, key)
    sentence(caught)


@pytest.mark.parametrize(
    ("column", "key"),
    [
        ([5, 6], 5),
        ([5, 6], 5.0),
        ([5, 6], np.uint8(5)),
        ([5, 6], pa.scalar(5)),
        ([0.5, 1.0], 1),
        ([None, 1.0], (None,)),
        (pa.nulls(2).slice(1), (None,)),
        (pa.array([5, 6], pa.timestamp("s")), datetime.datetime(1970, 1, 1, 0, 0, 5)),
        ([decimal.Decimal("1.50"), None], decimal.Decimal("1.5")),
        (CATEGORICAL.slice(0, 2), "x"),
        ([b"abc", b"d"], b"abc"),
        (pa.array([b"abc", b"def"], pa.binary(3)), b"abc"),
        ([{"x": 1}, {"x": 2}], {"x": 1}),
    ],
    ids=str,
)
def test_a_key_that_its_column_holds(column, key):
    subject = mt.WindowOperator(mt.tumbling(100).agg(n=mt.count()), time="ts", key="k")
    subject.process({"ts": [1, 2][: len(column)], "k": column})
    assert subject.lookup(0, 100, key)["n"].to_pylist() == [1]


def test_a_key_that_was_never_there():
    assert held([5, 6]).lookup(0, 100, 7).num_rows == 0
    assert held(pa.nulls(2)).lookup(0, 100, "x").num_rows == 0


# ---- copies ----

COPIES = {
    "pickle": lambda operator: pickle.loads(pickle.dumps(operator)),
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
}


class Squares(mt.Aggregate):
    """An aggregate of a user's."""

    commutative = True

    def lift(v):
        return v * v

    def combine(a, b):
        return a + b


def queries() -> list[mt.Query]:
    return [
        mt.sliding(10, every=5).agg(total=mt.sum("v"), own=Squares("v")),
        mt.session(3).agg(top=mt.max(mt.expr("v + 1")), where="v > 1", having="top > 0", name="runs"),
        mt.state_window("s").agg(n=mt.count(), name="states"),
    ]


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_copy_of_an_operator_goes_on_by_itself(way, batches):
    stream = [
        {"ts": [1, 4, 12, 2], "k": ["a", "b", "a", "a"], "v": [1.0, 2.0, 4.0, 3.0], "s": [*"xxyy"]},
        {"ts": [13, 25, 26], "k": ["b", "c", "a"], "v": [8.0, 16.0, 32.0], "s": [*"xyx"]},
        {"ts": [40, 41], "k": ["b", "c"], "v": [5.0, 6.0], "s": [*"xx"]},
    ]
    subject = mt.WindowOperator(queries(), time="ts", key="k", watermark=3)
    for batch in stream[:batches]:
        subject.process(batch)
    twin = COPIES[way](subject)
    assert twin.metrics == subject.metrics
    assert twin.watermark == subject.watermark
    for batch in stream[batches:]:
        twin.process(batch)  # leaves the other one alone
    twin = COPIES[way](subject)
    for batch in stream[batches:]:
        assert told(twin.process(batch)) == told(subject.process(batch))
    assert told(twin.finish()) == told(subject.finish())
    assert twin.take_late().to_pylist() == subject.take_late().to_pylist()
    assert COPIES[way](subject).finish().num_rows == 0
