"""Results in the caller's shape: library, order, columns, wide rows."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muntin as mt

RECORDS = {
    "ts": pd.to_datetime(["2026-01-01 08:00:05", "2026-01-01 08:00:50", "2026-01-01 08:01:05"]),
    "car": ["b", "a", "b"],
    "v": [1.0, 2.0, 4.0],
}
BY_MINUTE = mt.tumbling("1m").agg(total=mt.sum("v"), n=mt.count())
VISITS = mt.session("20s").agg(visits=mt.count(), name="visits")


def test_pandas_in_pandas_out():
    rows = mt.aggregate(pd.DataFrame(RECORDS), BY_MINUTE, time="ts", key="car")
    assert isinstance(rows, pd.DataFrame)
    assert list(rows.columns) == ["car", "query", "window_start", "window_end", "total", "n"]
    assert rows["car"].tolist() == ["a", "b", "b"]
    assert rows["total"].tolist() == [2.0, 1.0, 4.0]
    assert rows["window_start"].dtype == RECORDS["ts"].dtype
    assert rows["window_end"].iloc[0] == pd.Timestamp("2026-01-01 08:01")


def test_whole_numbers_stay_whole_in_pandas():
    rows = mt.aggregate(pd.DataFrame(RECORDS), [BY_MINUTE, VISITS], time="ts", key="car")
    assert rows["n"].dtype == "Int64"
    assert rows["visits"].dtype == "Int64"
    assert rows["n"].dropna().tolist() == [1, 1, 1]
    assert list(rows.columns)[-3:] == ["total", "n", "visits"]
    alone = mt.aggregate(pd.DataFrame(RECORDS), BY_MINUTE, time="ts", key="car")
    assert alone["n"].dtype == "int64"


def test_truth_stays_truth_in_pandas():
    frame = pd.DataFrame({"t": [1, 2], "b": [True, False]})
    both = [mt.tumbling(1).agg(b=mt.max("b")), mt.tumbling(1).agg(n=mt.count())]
    assert mt.aggregate(frame, both, time="t")["b"].dtype == "boolean"


def test_polars_in_polars_out():
    for frame in (pl.DataFrame(RECORDS), pl.LazyFrame(RECORDS)):
        rows = mt.aggregate(frame, BY_MINUTE, time="ts", key="car")
        assert isinstance(rows, pl.DataFrame)
        assert rows.columns == ["car", "query", "window_start", "window_end", "total", "n"]
        assert rows["total"].to_list() == [2.0, 1.0, 4.0]
        assert rows.filter(pl.col("query") == "q0").height == 3


@pytest.mark.parametrize("given", [RECORDS, pa.table(RECORDS), pa.table(RECORDS).to_batches()[0]])
def test_all_else_gives_arrow(given):
    assert isinstance(mt.aggregate(given, BY_MINUTE, time="ts", key="car"), pa.Table)


@pytest.mark.parametrize(
    ("returns", "kind"), [("pyarrow", pa.Table), ("pandas", pd.DataFrame), ("polars", pl.DataFrame)]
)
@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame, dict])
def test_the_library_that_was_asked_for(make, returns, kind):
    given = make(RECORDS)
    assert isinstance(mt.aggregate(given, BY_MINUTE, time="ts", key="car", returns=returns), kind)
    op = mt.WindowOperator(BY_MINUTE, time="ts", key="car")
    assert isinstance(op.process(given, returns=returns), kind)
    assert isinstance(op.advance(pd.Timestamp("2026-01-02"), returns=returns), kind)
    assert isinstance(op.finish(returns=returns), kind)


def test_calls_without_a_batch_answer_as_the_last_batch_came():
    op = mt.WindowOperator(BY_MINUTE, time="ts", key="car")
    assert isinstance(op.process(pd.DataFrame(RECORDS)), pd.DataFrame)
    assert isinstance(op.advance(pd.Timestamp("2026-01-01 08:02")), pd.DataFrame)
    later = {"ts": [pd.Timestamp("2026-01-01 08:03")], "car": ["a"], "v": [1.0]}
    assert isinstance(op.process(pl.DataFrame(later)), pl.DataFrame)
    assert isinstance(op.finish(), pl.DataFrame)


def test_a_watcher_sees_arrow_whatever_the_caller_gets():
    seen = []
    op = mt.WindowOperator(BY_MINUTE, time="ts", key="car")
    op.watch(lambda batch, rows, nanoseconds: seen.append(type(rows)))
    op.process(pd.DataFrame(RECORDS))
    op.finish()
    assert seen == [pa.Table, pa.Table]


# ---- columns ----

LEFT_OUT = {
    "grid": (mt.tumbling(10), {"window_id", "revision", "change"}),
    "session": (mt.session(3), {"window_id", "revision", "change"}),
    "last_n": (mt.last_n(2, every=5), {"window_id", "revision", "change"}),
    "measure": (mt.on("way", mt.tumbling(2)), {"window_id", "revision", "change"}),
    "count": (mt.count_tumbling(2), {"revision", "change"}),
    "rolling": (mt.rolling(5), {"revision", "change"}),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_columns_that_carry_nothing_are_left_out(name):
    window, left_out = LEFT_OUT[name]
    records = {"t": [1, 2, 5], "way": [1, 2, 3]}
    query = window.agg(n=mt.count())
    whole = mt.aggregate(records, query, time="t", columns="all")
    needed = mt.aggregate(records, query, time="t")
    assert set(whole.column_names) - set(needed.column_names) == left_out
    assert needed.to_pylist() == whole.drop_columns(list(left_out)).to_pylist()
    op = mt.WindowOperator(query, time="t")
    assert op.process(records).column_names == whole.column_names
    assert op.finish(columns="needed").column_names == needed.column_names


def test_corrections_are_needed_where_there_may_be_some():
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="t", watermark=0, lateness=10)
    op.process({"t": [1, 12]})
    (row,) = op.process({"t": [3]}, columns="needed").to_pylist()
    assert row == {
        "query": "q0",
        "window_start": 0,
        "window_end": 10,
        "revision": 1,
        "change": "update",
        "n": 2,
    }


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"returns": "numpy"}, "returns is 'input' or 'pyarrow' or 'pandas' or 'polars', not 'numpy'"),
        ({"columns": ["n"]}, "columns is 'needed' or 'all', not \\['n'\\]"),
    ],
)
def test_shapes_that_there_are_none_of(given, says):
    query = mt.tumbling(10).agg(n=mt.count())
    with pytest.raises(ValueError, match=says):
        mt.aggregate({"t": [1]}, query, time="t", **given)
    op = mt.WindowOperator(query, time="t")
    for call in (lambda: op.process({"t": [1]}, **given), lambda: op.finish(**given)):
        with pytest.raises(ValueError, match=says):
            call()
    assert op.metrics.records_in == 0


# ---- order ----


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["b", "a", "c", None])), min_size=1))
def test_rows_come_by_end_start_query_and_key(records):
    table = {"t": [t for t, _ in records], "k": pa.array([k for _, k in records], pa.string())}
    queries = [
        mt.sliding(10, every=5).agg(n=mt.count(), name="z"),
        mt.session(3).agg(n=mt.count(), name="s"),
        mt.rolling(4).agg(n=mt.count(), name="a"),
    ]
    rows = mt.aggregate(table, queries, time="t", key="k").to_pylist()
    places = {"z": 0, "s": 1, "a": 2}
    order = [
        (
            r["window_end"],
            r["window_start"],
            places[r["query"]],
            r["window_id"] or 0,
            r["k"] is None,
            r["k"] or "",
        )
        for r in rows
    ]
    assert order == sorted(order)


@pytest.mark.parametrize(
    "keys",
    [
        [3, 1, 2],
        [2.5, float("nan"), -1.0],
        [True, False, True],
        [b"b", b"a", None],
        pa.array([{"x": 2}, {"x": 1}, {"x": 2}]),
        pa.array([[2], [1], [2]]),
        pa.array(["b", "a", "b"]).dictionary_encode(),
    ],
    ids=["integers", "floats", "truth", "bytes", "structs", "lists", "categories"],
)
def test_keys_of_every_kind_are_put_in_order(keys):
    rows = mt.aggregate({"t": [1, 2, 3], "k": keys}, mt.tumbling(10).agg(n=mt.count()), time="t", key="k")
    assert sum(rows["n"].to_pylist()) == 3
    found = rows["k"].to_pylist()
    ordered = [k for k in found if k is not None and k == k and not isinstance(k, (dict, list))]
    assert ordered == sorted(ordered)


# ---- wide ----

WINDOWS = {
    "by_5": mt.tumbling(5).agg(n=mt.count(), top=mt.max("v"), name="by_5"),
    "last_10": mt.sliding(10, every=5).agg(n=mt.count(), name="last_10"),
    "visits": mt.session(3).agg(seen=mt.collect("v"), name="visits"),
}


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abc"), st.integers(0, 9)), min_size=1),
    st.sampled_from([None, "k"]),
)
def test_wide_rows_equal_a_pivot_by_hand(records, key):
    table = {name: list(column) for name, column in zip("tkv", zip(*records, strict=True), strict=True)}
    long = mt.aggregate(table, WINDOWS.values(), time="t", key=key).to_pylist()
    wide = mt.aggregate(table, WINDOWS.values(), time="t", key=key, wide=True)
    expected = {}
    for row in long:
        new = (
            {"window_end": row["window_end"]}
            if key is None
            else {"k": row["k"], "window_end": row["window_end"]}
        )
        new |= {f"{name}_{a}": None for name, query in WINDOWS.items() for a in query.aggregates}
        cell = expected.setdefault((row["window_end"], row.get("k", "")), new)
        for aggregate in WINDOWS[row["query"]].aggregates:
            cell[f"{row['query']}_{aggregate}"] = row[aggregate]
    assert wide.to_pylist() == [row for _, row in sorted(expected.items())]


def test_wide_rows_in_pandas():
    wide = mt.aggregate(pd.DataFrame(RECORDS), [BY_MINUTE, VISITS], time="ts", key="car", wide=True)
    assert list(wide.columns) == ["car", "window_end", "q0_total", "q0_n", "visits_visits"]
    assert wide["q0_n"].dtype == "Int64"


def test_a_query_with_two_rows_for_a_key_and_an_end_is_not_made_wide():
    twice = mt.rolling(rows=2).agg(n=mt.count(), name="pairs")
    says = "query 'pairs' has two rows for k 'x', window_end 4: wide=True has room for one"
    with pytest.raises(ValueError, match=says):
        mt.aggregate({"t": [1, 4, 4], "k": ["x"] * 3}, twice, time="t", key="k", wide=True)


def test_wide_columns_of_one_name_are_refused():
    queries = [mt.tumbling(5).agg(b_n=mt.count(), name="a"), mt.tumbling(5).agg(n=mt.count(), name="a_b")]
    with pytest.raises(ValueError, match="two columns of wide rows would be named 'a_b_n'"):
        mt.aggregate({"t": [1]}, queries, time="t", wide=True)


def test_wide_rows_of_a_stream():
    op = mt.WindowOperator(WINDOWS.values(), time="t")
    assert op.process({"t": [1, 2, 7], "v": [1, 2, 3]}, wide=True).to_pylist() == [
        {"window_end": 5, "by_5_n": 2, "by_5_top": 2, "last_10_n": 2, "visits_seen": [1, 2]}
    ]
    late = mt.WindowOperator(WINDOWS.values(), time="t", watermark=0, lateness=5)
    with pytest.raises(ValueError, match="wide=True cannot show corrections"):
        late.process({"t": [1], "v": [1]}, wide=True)
    assert late.metrics.records_in == 0


def test_no_rows_have_the_shape_as_well():
    op = mt.WindowOperator(WINDOWS.values(), time="t")
    assert op.process({"t": [1], "v": [1]}, wide=True).column_names[-1] == "visits_seen"
    assert isinstance(op.process(pd.DataFrame({"t": [2], "v": [1]})), pd.DataFrame)
    assert "revision" not in op.process({"t": [3], "v": [1]}, columns="needed").column_names


# ---- the last word ----

CORRECTED = [
    mt.tumbling(5).agg(n=mt.count(), name="grid"),
    mt.session(3).agg(n=mt.count(), name="visits"),
    mt.rolling(4).agg(n=mt.count(), name="rolling"),
    mt.last_n(2, every=5).agg(n=mt.sum("v"), name="last"),
    mt.count_tumbling(2).agg(n=mt.sum("v"), name="pairs"),
    mt.threshold_frame("v", ">", 4).agg(n=mt.count(), name="frames"),
]
BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from("ab"), st.integers(0, 9)), min_size=1), max_size=5
)


def corrected(batches):
    """The rows of each call over batches that come out of order, nothing of which is dropped."""
    op = mt.WindowOperator(CORRECTED, time="t", key="k", watermark=0, lateness=100)
    tables = [
        op.process({name: list(c) for name, c in zip("tkv", zip(*batch, strict=True), strict=True)})
        for batch in batches
    ]
    return [*tables, op.finish()]


def listed(rows):
    """Rows as they count, without how often they were corrected."""
    return Counter(repr({**row, "revision": 0, "change": ""}) for row in rows.to_pylist())


@given(BATCHES, st.randoms(use_true_random=False))
def test_folded_rows_are_the_view(batches, shuffle):
    tables = corrected(batches)
    shuffle.shuffle(tables)
    folded = mt.fold(tables)
    records = [record for batch in batches for record in batch]
    if not records:
        assert folded.num_rows == 0
        return
    whole = {name: list(column) for name, column in zip("tkv", zip(*records, strict=True), strict=True)}
    view = mt.aggregate(whole, CORRECTED, time="t", key="k", columns="all")
    assert listed(folded) == listed(view)
    bounds = ["window_end", "window_start"]
    assert folded.select(bounds).to_pylist() == sorted(
        folded.select(bounds).to_pylist(), key=lambda row: (row["window_end"], row["window_start"])
    )
    assert mt.fold(folded).to_pylist() == folded.to_pylist()


def test_frames_are_folded_to_frames():
    tables = corrected([[(1, "a", 1), (20, "a", 2)], [(2, "a", 5)]])
    folded = mt.fold(tables)
    in_pandas = mt.fold(list(map(as_pandas, tables)))
    assert isinstance(in_pandas, pd.DataFrame)
    assert len(in_pandas) == folded.num_rows
    with pytest.raises(
        ValueError, match="do not say any more what tells its windows apart: give the queries"
    ):
        mt.fold([pl.from_arrow(table) for table in tables])
    in_polars = mt.fold([pl.from_arrow(table) for table in tables], queries=CORRECTED)
    assert isinstance(in_polars, pl.DataFrame)
    assert in_polars["n"].to_list() == folded["n"].to_pylist()


def as_pandas(table):
    from muntin.results import in_library

    return in_library(table, "pandas")


def test_rows_that_were_never_corrected_fold_to_themselves():
    rows = mt.aggregate(RECORDS, BY_MINUTE, time="ts", key="car", columns="all")
    frame = pl.from_arrow(rows.replace_schema_metadata(None))
    assert mt.fold(frame).rows() == frame.rows()
    assert mt.fold([]).num_rows == 0


def test_rows_that_lack_a_column_are_not_folded():
    with pytest.raises(KeyError, match=r"with all columns.*there is no 'window_id'"):
        mt.fold(mt.aggregate(RECORDS, BY_MINUTE, time="ts"))


# ---- what is loaded ----


def test_neither_pandas_nor_polars_is_loaded_for_others():
    code = """
import sys, numpy as np, muntin as mt
op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="t")
op.process({"t": np.arange(20)})
op.finish()
records = {"t": np.arange(20), "k": np.arange(20) % 2}
mt.aggregate(records, mt.tumbling(10).agg(n=mt.count()), time="t", key="k")
print({"pandas", "polars"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_large_results_keep_their_values():
    times = np.arange(50_000) % 977
    frame = pd.DataFrame({"t": times, "k": times % 7, "v": np.arange(50_000)})
    rows = mt.aggregate(frame, mt.tumbling(10).agg(total=mt.sum("v")), time="t", key="k")
    theirs = frame.assign(window_end=frame["t"] // 10 * 10 + 10).groupby(["window_end", "k"])["v"].sum()
    pd.testing.assert_series_equal(rows.set_index(["window_end", "k"])["total"], theirs, check_names=False)


def test_rows_that_cannot_be_wide_are_not_lost():
    op = mt.WindowOperator(mt.rolling(5).agg(n=mt.count()), time="t")
    with pytest.raises(ValueError, match="two rows"):
        op.process({"t": [1, 1, 2, 5]}, wide=True)
    assert op.metrics.records_in == 0
    assert op.process({"t": [1, 1, 2, 5]}).num_rows + op.finish().num_rows == 4


def test_rows_of_a_library_that_is_not_there_are_not_lost(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="t")
    with pytest.raises(ImportError):
        op.process({"t": [1, 15]}, returns="polars")
    assert op.process({"t": [1, 15]})["n"].to_pylist() == [1]


def test_ties_correct_rows_so_that_they_cannot_be_wide():
    op = mt.WindowOperator(mt.count_tumbling(2).agg(s=mt.sum("v")), time="t", tie="s", watermark=0)
    with pytest.raises(ValueError, match="wide=True cannot show corrections"):
        op.process({"t": [1, 1], "s": [5, 6], "v": [1, 2]}, wide=True)


def test_the_index_of_a_frame_is_no_column():
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="t")
    frames = [op.process(pd.DataFrame({"t": [1, 15]})), op.finish()]
    assert "__index_level_0__" not in mt.fold(pd.concat(frames)).columns
