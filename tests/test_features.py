"""Features: a brute force over random tables, and the same values from a replayed stream and online."""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

import muntin as mt
from tests.mixed_workloads import mixed
from tests.oracle import agrees, answer, ewm, rate
from tests.test_operator import check
from tests.workloads import Workload

# ---- a brute force ----

CALLS: dict[str, Any] = {
    "count": lambda: mt.count(),
    "values": lambda: mt.count("v"),
    "sum": lambda: mt.sum("v"),
    "whole": lambda: mt.sum("w"),
    "mean": lambda: mt.mean("v"),
    "max": lambda: mt.max("w"),
    "last": lambda: mt.last("v"),
    "median": lambda: mt.median("v"),
    "variance": lambda: mt.variance("w"),
    "text": lambda: mt.first("s"),
    "ewm": lambda: mt.ewm("v", alpha=0.3),
    "rate": lambda: mt.rate("w"),
    "correlation": lambda: mt.correlation("v", "w"),
}


def value_of(call: str, rows: list[dict[str, Any]]) -> Any:
    """An aggregate of rows, by its definition."""
    columns = {name: [row[name] for row in rows] for name in ("t", "v", "w", "s")}
    match call:
        case "count":
            return len(rows)
        case "values":
            return sum(v is not None for v in columns["v"])
        case "whole":
            return answer("sum", columns["w"])
        case "text":
            return answer("first", columns["s"])
        case "max" | "variance":
            return answer(call, columns["w"])
        case "ewm":
            present = [v for v in columns["v"] if v is not None]
            return ewm(present, 0.3) if present else None
        case "rate":
            return rate([(w, t) for w, t in zip(columns["w"], columns["t"], strict=True) if w is not None])
        case "correlation":
            return answer(call, list(zip(columns["v"], columns["w"], strict=True)))
    return answer(call, columns["v"])


def seen_by(rows: list[dict[str, Any]], row: dict[str, Any], closed: str) -> list[dict[str, Any]]:
    """The records of a row's key that count for it, in canonical order."""
    of_key = sorted((r for r in rows if r["k"] == row["k"]), key=lambda r: (r["t"], r["row"]))
    if closed == "left":
        return [r for r in of_key if r["t"] < row["t"]]
    return [r for r in of_key if (r["t"], r["row"]) <= (row["t"], row["row"])]


def expected(rows: list[dict[str, Any]], row: dict[str, Any], spec: tuple[Any, ...], closed: str) -> Any:
    """The feature of a row."""
    seen, (kind, amount, call) = seen_by(rows, row, closed), spec
    if kind == "rows":
        return value_of(call, seen[-amount:])
    if kind == "length":
        return value_of(call, [r for r in seen if r["t"] > row["t"] - amount])
    if kind == "tumbling":
        return value_of(call, [r for r in seen if r["t"] // amount == row["t"] // amount])
    back = amount if closed == "left" else amount + 1
    return seen[-back][call] if len(seen) >= back else None


def query_of(spec: tuple[Any, ...]) -> mt.Query:
    kind, amount, call = spec
    if kind == "lag":
        return mt.features.lag(call, amount)
    window = {"rows": lambda n: mt.rolling(rows=n), "length": mt.rolling, "tumbling": mt.tumbling}[kind](
        amount
    )
    return window.agg(CALLS[call]())


def random_table(rng: np.random.Generator, *, in_order: bool = False) -> list[dict[str, Any]]:
    """Records with ties, nulls, NaN, infinities and several keys, in any order of time."""
    count = int(rng.integers(0, 14))
    times = rng.integers(-5, 8, count) if rng.random() < 0.8 else rng.integers(-(10**9), 10**9, count)
    odd = [
        1.5,
        -2.0,
        0.5,
        4.0,
        *([None] if rng.random() < 0.5 else []),
        *([math.nan] if rng.random() < 0.2 else []),
    ]
    odd += [math.inf] if rng.random() < 0.1 else []
    whole = [1, 2, 5, -3, *([None] if rng.random() < 0.4 else [])]
    keys = ["a", "b", None][: int(rng.integers(1, 4))]
    listed = sorted(times.tolist()) if in_order else times.tolist()
    return [
        {
            "t": t,
            "k": keys[int(rng.integers(len(keys)))],
            "v": odd[int(rng.integers(len(odd)))],
            "w": whole[int(rng.integers(len(whole)))],
            "s": str(rng.integers(3)),
            "row": row,
        }
        for row, t in enumerate(listed)
    ]


TYPES = {
    "t": pa.int64(),
    "k": pa.string(),
    "v": pa.float64(),
    "w": pa.int64(),
    "s": pa.string(),
    "row": pa.int64(),
}


def as_table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({name: pa.array([r[name] for r in rows], kind) for name, kind in TYPES.items()})


def random_specs(rng: np.random.Generator) -> dict[str, tuple[Any, ...]]:
    specs: dict[str, tuple[Any, ...]] = {}
    for number in range(int(rng.integers(1, 5))):
        kind = ["rows", "length", "tumbling", "lag"][int(rng.integers(4))]
        call = (
            ["v", "w", "s"][int(rng.integers(3))]
            if kind == "lag"
            else list(CALLS)[int(rng.integers(len(CALLS)))]
        )
        specs[f"f{number}"] = (kind, int(rng.integers(1, 6)), call)
    return specs


def same(got: Any, want: Any) -> bool:
    return agrees(got, want, 1e3)


@pytest.mark.parametrize("shard", range(8))
def test_features_are_what_a_brute_force_finds(shard: int) -> None:
    """250 random tables a shard, with both sides closed."""
    for seed in range(250):
        rng = np.random.default_rng(1000 * shard + seed)
        rows, specs = random_table(rng), random_specs(rng)
        closed = "left" if rng.random() < 0.5 else "right"
        wanted = {name: query_of(spec) for name, spec in specs.items()}
        out = mt.features(as_table(rows), wanted, time="t", key="k", closed=closed)
        assert out.num_rows == len(rows)
        assert out.select(list(TYPES)).equals(as_table(rows)) or seed_has_nan(rows)
        for row, got in zip(rows, out.to_pylist(), strict=True):
            for name, spec in specs.items():
                want = expected(rows, row, spec, closed)
                assert same(got[name], want), (shard, seed, closed, row, spec, got[name], want)


def seed_has_nan(rows: list[dict[str, Any]]) -> bool:
    return any(r["v"] is not None and math.isnan(r["v"]) for r in rows)  # a NaN is not equal to itself


# ---- offline, replayed and online ----


def replayed(
    rows: list[dict[str, Any]], queries: list[mt.Query], rng: np.random.Generator, watermark: Any
) -> Any:
    """The rows of an operator by feature, key, time and number among equals, and the operator."""
    op, emitted, at = mt.WindowOperator(queries, time="t", key="k", watermark=watermark), {}, 0
    while at < len(rows):
        size = int(rng.integers(1, 4))
        emitted |= by_identity(op.process(as_table(rows[at : at + size])))
        at += size
        if rng.random() < 0.2:
            op = mt.WindowOperator.restore(op.snapshot())
    return emitted, op


def by_identity(table: pa.Table) -> dict[tuple[Any, ...], Any]:
    names = ("query", "k", "window_end", "window_id")
    return {tuple(row[n] for n in names): row[row["query"]] for row in table.to_pylist()}


@pytest.mark.parametrize("watermark", ["in_order", 3])
@pytest.mark.parametrize("shard", range(4))
def test_offline_equals_the_replayed_stream_and_online(shard: int, watermark: Any) -> None:
    for seed in range(40):
        rng = np.random.default_rng(77_000 + 1000 * shard + seed)
        rows, specs = random_table(rng, in_order=True), random_specs(rng)
        closed = "left" if rng.random() < 0.5 else "right"
        wanted = {name: query_of(spec) for name, spec in specs.items()}
        offline = mt.features(as_table(rows), wanted, time="t", key="k", closed=closed).to_pylist()
        queries = mt.features.queries(wanted, closed=closed)
        emitted, op = replayed(rows, queries, rng, watermark)
        newest = {key: op.latest(key) for key in {row["k"] for row in rows}}
        emitted |= by_identity(op.finish())
        equal: dict[tuple[Any, ...], int] = defaultdict(int)
        last: dict[Any, Any] = {}
        for row in offline:
            number = equal[row["k"], row["t"]]
            equal[row["k"], row["t"]] += 1
            for name in specs:
                assert same(emitted.pop((name, row["k"], row["t"], number)), row[name]), (
                    shard,
                    seed,
                    name,
                    row,
                )
            last[row["k"]] = {name: row[name] for name in specs}
        assert not emitted
        assert newest.keys() == last.keys()
        for key, values in last.items():
            assert values.keys() == newest[key].keys()
            assert all(same(newest[key][name], value) for name, value in values.items()), (
                shard,
                seed,
                key,
                newest,
                last,
            )


def test_the_newest_values_are_kept_however_old_they_are() -> None:
    wanted = {
        "length": mt.rolling(10).agg(mt.sum("v")),
        "rows": mt.rolling(rows=2).agg(mt.sum("v")),
        "day": mt.tumbling(10).agg(mt.count()),
        "lag": mt.features.lag("v"),
    }
    op = mt.WindowOperator(mt.features.queries(wanted), time="t", key="k")
    op.process({"t": [1, 2, 3], "k": ["old"] * 3, "v": [1.0, 2.0, 4.0]})
    for k in range(200):
        op.process({"t": [1000 + 10 * k] * 50, "k": [f"new {j}" for j in range(50)], "v": [1.0] * 50})
    assert op.latest("old") == {"length": 7.0, "rows": 6.0, "day": 3, "lag": 2.0}
    assert mt.WindowOperator.restore(op.snapshot()).latest("old") == op.latest("old")
    assert op.metrics.slices < 50 * 12  # what no window needs is evicted all the same
    op.process({"t": [9_000], "k": ["old"], "v": [8.0]})
    assert op.latest("old") == {"length": 8.0, "rows": 12.0, "day": 1, "lag": 4.0}


def test_late_records_correct_features_and_their_newest_values() -> None:
    wanted = {"total": mt.rolling(10).agg(mt.sum("v")), "before": mt.features.lag("v")}
    for closed in ("right", "left"):
        queries = mt.features.queries(wanted, closed=closed)
        op = mt.WindowOperator(queries, time="t", key="k", watermark=0, lateness=100)
        rows = [
            {"t": t, "k": "a", "v": float(v), "w": 0, "s": "", "row": i}
            for i, (t, v) in enumerate([(5, 1), (9, 2), (7, 4), (9, 8), (8, 16)])
        ]
        view: dict[tuple[Any, ...], Any] = {}
        for row in rows:
            for change in op.process({name: [row[name]] for name in ("t", "k", "v")}).to_pylist():
                known = (change["query"], change["window_end"], change["window_id"])
                assert change["change"] == ("update" if known in view else "insert")
                view[known] = change[change["query"]]
        offline = mt.features(as_table(rows), wanted, time="t", key="k", closed=closed).to_pylist()
        numbers: dict[int, int] = defaultdict(int)
        for row in offline:
            for name in wanted:
                assert view[name, row["t"], numbers[row["t"]]] == row[name], (closed, name, row)
            numbers[row["t"]] += 1
        assert op.latest("a") == {name: offline[3][name] for name in wanted}


def test_calendars_up_to_the_record() -> None:
    zone = ZoneInfo("Europe/Berlin")
    days = [
        datetime.datetime(2026, 3, 28, 22, tzinfo=zone) + datetime.timedelta(hours=h) for h in range(0, 60, 7)
    ]
    table = pa.table({"ts": pa.array(days, pa.timestamp("ms", "UTC")), "v": [2**k for k in range(len(days))]})
    wanted = {
        unit: mt.calendar(unit, tz="Europe/Berlin").agg(mt.sum("v")) for unit in ("day", "month", "year")
    }
    out = mt.features(table, wanted, time="ts").to_pylist()
    local = [day.astimezone(zone) for day in table["ts"].to_pylist()]
    for i, row in enumerate(out):
        assert row["day"] == sum(2**k for k in range(i + 1) if local[k].date() == local[i].date())
        assert row["month"] == sum(2**k for k in range(i + 1) if local[k].month == local[i].month)
        assert row["year"] == 2 ** (i + 1) - 1
    op = mt.WindowOperator(mt.features.queries(wanted), time="ts")
    op.process(table)
    assert op.latest() == {name: out[-1][name] for name in wanted}


@pytest.mark.parametrize("shard", range(2))
@settings(max_examples=settings().max_examples * 2)
@given(workload=mixed(("feature", "feature", "feature", "rolling")))
def test_windows_of_features_in_any_stream(shard: int, workload: Workload) -> None:
    """Beside others, with late records, ties, snapshots and queries that come and go."""
    check(workload)


# ---- tables in and out ----

WANTED = {"n": mt.rolling(rows=2).agg(mt.count("v")), "lag": mt.features.lag("w")}


def test_pandas_comes_back_as_pandas_with_its_index_and_integers() -> None:
    df = pd.DataFrame({"t": [3, 1, 2], "v": [1.0, None, 2.0], "w": [7, 8, 9]}, index=["x", "y", "z"])
    out = mt.features(df, WANTED, time="t")
    assert list(out.index) == ["x", "y", "z"]
    assert list(out.columns) == ["t", "v", "w", "n", "lag"]
    assert out["n"].tolist() == [2, 0, 1]
    assert str(out["n"].dtype) == "int64"
    assert str(out["lag"].dtype) == "Int64"
    assert out["lag"].tolist() == [9, pd.NA, 8]
    assert list(df.columns) == ["t", "v", "w"]


def test_polars_comes_back_as_polars() -> None:
    df = pl.DataFrame({"t": [3, 1, 2], "v": [1.0, None, 2.0], "w": [7, 8, 9]})
    out = mt.features(df, WANTED, time="t")
    assert isinstance(out, pl.DataFrame)
    assert out.columns == ["t", "v", "w", "n", "lag"]
    assert out["lag"].to_list() == [9, None, 8]


@pytest.mark.parametrize("kind", [dict, pa.Table, pa.RecordBatch])
def test_arrow_comes_back_as_arrow(kind: Any) -> None:
    table = pa.table({"t": [3, 1, 2], "v": [1.0, None, 2.0], "w": [7, 8, 9]})
    given: Any = {dict: table.to_pydict(), pa.Table: table, pa.RecordBatch: table.to_batches()[0]}[kind]
    out = mt.features(given, WANTED, time="t")
    assert isinstance(out, pa.Table if kind is dict else kind)
    assert out.column("lag").to_pylist() == [9, None, 8]


def test_a_tie_orders_rows_of_one_time() -> None:
    table = {"t": [1, 1, 1], "seq": [3, 1, 2], "v": [1.0, 2.0, 4.0]}
    out = mt.features(table, {"total": mt.rolling(5).agg(mt.sum("v"))}, time="t", tie="seq")
    assert out["total"].to_pylist() == [7.0, 2.0, 6.0]


def test_columns_of_any_type() -> None:
    days = [datetime.date(2026, 1, day) for day in (1, 2, 3)]
    table = {"t": [1, 2, 3], "day": days, "flag": [True, None, False]}
    wanted = {"a": mt.features.lag("day"), "b": mt.rolling(rows=2).agg(mt.collect("flag"))}
    out = mt.features(table, wanted, time="t")
    assert out["a"].to_pylist() == [None, *days[:2]]
    assert out["b"].to_pylist() == [[True], [True], [False]]
    op = mt.WindowOperator(mt.features.queries(wanted), time="t")
    op.process(table)
    assert op.latest() == {"a": days[1], "b": [False]}


def test_an_empty_table_has_the_columns() -> None:
    table = pa.table(
        {"t": pa.array([], pa.int64()), "v": pa.array([], pa.float64()), "w": pa.array([], pa.int64())}
    )
    out = mt.features(table, WANTED, time="t")
    assert (out.num_rows, out.schema.names) == (0, ["t", "v", "w", "n", "lag"])
    assert out.schema.field("n").type == pa.int64()


def test_large_and_small_values_together_lose_no_digits() -> None:
    """Where differences of prefixes would: the window is summed by itself."""
    values = [1e17, 1.0, 2.0, -1e17, 3.0, 1e-3]
    out = mt.features({"t": range(6), "v": values}, {"s": mt.rolling(rows=2).agg(mt.sum("v"))}, time="t")
    assert out["s"].to_pylist() == [1e17, 1e17, 3.0, -1e17, -1e17, 3.001]
    odd = [1.0, math.inf, 2.0, 3.0, 4.0]
    out = mt.features({"t": range(5), "v": odd}, {"m": mt.rolling(rows=2).agg(mt.mean("v"))}, time="t")
    assert out["m"].to_pylist() == [1.0, math.inf, math.inf, 2.5, 3.5]


# ---- what is refused ----


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({}, "features are a dict"),
        ([mt.rolling(3).agg(mt.count())], "features are a dict"),
        ({"f": mt.count()}, "feature 'f' is a window with one aggregate"),
        ({"f": mt.rolling(3).agg(a=mt.count(), b=mt.sum("v"))}, "feature 'f' is a window with one aggregate"),
        ({"f": mt.rolling(3).agg(mt.count(), where="v > 0")}, "feature 'f' can have no where"),
        ({"f": mt.session(3).agg(mt.count())}, "features look back by rolling, tumbling or calendar"),
        (
            {"f": mt.sliding(3, every=1).agg(mt.count())},
            "features look back by rolling, tumbling or calendar",
        ),
        ({"v": mt.rolling(3).agg(mt.count())}, "the table has a column 'v' already"),
    ],
)
def test_what_is_no_feature_is_refused(wanted: Any, told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        mt.features({"t": [1], "v": [1.0]}, wanted, time="t")


def test_closed_is_right_or_left() -> None:
    with pytest.raises(ValueError, match="closed is 'right' or 'left', not 'both'"):
        mt.features({"t": [1], "v": [1.0]}, {"f": mt.rolling(3).agg(mt.count())}, time="t", closed="both")  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [0, -1, True, 1.5])
def test_a_lag_is_a_whole_number_from_1(n: Any) -> None:
    with pytest.raises(ValueError, match="n is a whole number from 1"):
        mt.features.lag("v", n)


def test_the_newest_values_are_those_of_features() -> None:
    op = mt.WindowOperator(mt.tumbling(10).agg(n=mt.count()), time="t", key="k")
    assert op.latest("a") == {}
    op.process({"t": [1], "k": ["a"]})
    with pytest.raises(TypeError, match=r"make query 'q0' with mt\.features\.queries"):
        op.latest("a")


def test_a_key_of_the_wrong_size_is_refused() -> None:
    queries = mt.features.queries({"n": mt.rolling(5).agg(mt.count())})
    op = mt.WindowOperator(queries, time="t", key=["k", "j"])
    op.process({"t": [1, 2], "k": ["a", "a"], "j": [1, 2]})
    assert op.latest(("a", 2)) == {"n": 1}
    with pytest.raises(ValueError, match="2 value"):
        op.latest("a")


def test_queries_that_come_later_have_values_of_their_own_stream() -> None:
    queries = mt.features.queries({"n": mt.rolling(rows=9).agg(mt.count())})
    op = mt.WindowOperator(queries, time="t", key="k")
    op.process({"t": [1, 2], "k": ["a", "a"], "v": [1.0, 2.0]})
    op.add(mt.features.queries({"s": mt.rolling(rows=9).agg(mt.sum("v"))})[0])
    op.process({"t": [3], "k": ["a"], "v": [4.0]})
    assert op.latest("a") == {"n": 3, "s": 4.0}
    op.remove("n")
    assert op.latest("a") == {"s": 4.0}


def test_a_lazy_frame_is_evaluated_once():
    lazy = pl.LazyFrame({"t": np.arange(5000), "v": np.arange(5000)}).group_by("t").agg(pl.col("v").first())
    out = mt.features(lazy, {"same": mt.rolling(rows=1).agg(mt.last("v"))}, time="t")
    assert (out["same"] == out["v"]).all()
