"""Every aggregate on Spark: the folded rows are those of the embedded engine, and partials travel."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import muntin as mt
from muntin import algebra
from muntin.engine.plan.decisions import merges_ahead
from muntin.spark import window_aggregate
from muntin.spark.job import make_job
from muntin.spark.packing import BUCKET, Pack, from_blob, has_panes
from tests.oracle import agrees

RANKS = [0.25, 0.9]
# Aggregates that merge: records need not travel.
MERGING: dict[str, Any] = {
    "n": mt.count(),
    "values": mt.count("v"),
    "total": mt.sum("v"),
    "whole": mt.sum("w"),
    "product": mt.product("x"),
    "mean": mt.mean("v"),
    "geomean": mt.geomean("x"),
    "low": mt.min("v"),
    "high": mt.max("w"),
    "lows": mt.min_count("w"),
    "highs": mt.max_count("w"),
    "variance": mt.variance("v"),
    "stddev": mt.stddev("w", ddof=0),
    "variation": mt.relative_variation("x"),
    "covariance": mt.covariance("v", "w"),
    "correlation": mt.correlation("x", "w"),
    "line": mt.regression("v", "w"),
    "weighted": mt.weighted_mean("v", "x"),
    "median": mt.median("v"),
    "ranks": mt.quantile("w", [0.1, 0.5, 0.9]),
    "mode": mt.mode("w"),
    "kinds": mt.count_distinct("s"),
    "listed": mt.collect_distinct("w"),
    "about": mt.approx_count_distinct("s"),
    "about_ranks": mt.approx_quantile("v", RANKS),
    "top": mt.approx_top_k("s", 3),
    "counts": mt.count_min_sketch("w"),
    "members": mt.bloom_filter("s"),
}
# Aggregates by the order of records, which travel.
ORDERED: dict[str, Any] = {
    "first": mt.first("v"),
    "last": mt.last("s"),
    "where_low": mt.argmin("v", "w"),
    "where_high": mt.argmax("v", "s"),
    "m4": mt.m4("v"),
    "decayed": mt.ewm("v", alpha=0.2),
    "rate": mt.rate("w"),
    "all": mt.collect("v"),
    "text": mt.concat("s", sep="-"),
}
GRIDS = {"seconds": mt.tumbling("1s"), "sliding": mt.sliding("2s", every="500ms"), "long": mt.tumbling("5s")}
WINDOWS = {**GRIDS, "visits": mt.session("40ms"), "fifties": mt.count_sliding(50, every=20)}
QUERIES = [window.agg(**MERGING, **ORDERED, name=name) for name, window in WINDOWS.items()]
MERGED = [window.agg(**MERGING, name=name) for name, window in GRIDS.items()]
SCHEMA = "at timestamp, site string, v double, w bigint, x double, s string, place bigint"
DELAY, LATENESS = timedelta(milliseconds=300), timedelta(milliseconds=500)


def records(count: int) -> pa.Table:
    """Records out of order, some of them too late, with nulls; `place` settles the order of equal times."""
    rng = np.random.default_rng(11)
    lags = rng.choice([0, 100, 1_000, 9_000], count, p=[0.7, 0.2, 0.08, 0.02])
    times = 1_700_000_000_000 + np.arange(count) * 10 - lags
    values = rng.normal(size=count).round(2)
    return pa.table(
        {
            "at": pa.array(times * 1000).view(pa.timestamp("us", "UTC")),
            "site": pa.array(rng.choice(["a", None], count).tolist(), pa.string()),
            "v": pa.array(values, mask=rng.random(count) < 0.1),
            "w": pa.array(rng.integers(-20, 20, count)),
            "x": pa.array(rng.uniform(0.9, 1.1, count)),
            "s": pa.array([f"text {k}" for k in rng.integers(0, 60, count)]),
            "place": pa.array(np.arange(count)),
        }
    )


def test_all_of_them_are_asked_for() -> None:
    made = {repr(function).split("(")[0] for function in (*MERGING.values(), *ORDERED.values())}
    others = {"Aggregate", "LawViolation", "bloom_contains", "check_aggregate", "count_min_estimate"}
    assert made == set(algebra.__all__) & set(mt.__all__) - others


# ---- on Spark ----


def folded(table: pa.Table) -> dict[tuple, dict[str, Any]]:
    """The last word on each window."""
    found = {}
    for row in sorted(table.to_pylist(), key=lambda row: row["revision"]):
        bounds = (row["window_start"], row["window_end"])
        apart = bounds if row["window_id"] is None else (row["window_id"],)
        found[row["site"], row["query"], *apart] = row
    return {identity: row for identity, row in found.items() if row["change"] != "retract"}


def check_folded(got: pa.Table, want: pa.Table, names: Iterable[str]) -> None:
    """The same windows, with the same answers but for rounding, and for what a sketch may forget."""
    found, wanted = folded(got), folded(want)
    assert found.keys() == wanted.keys()
    assert max(row["values"] for row in wanted.values()) > 200
    for identity, row in wanted.items():
        for name in ("window_start", "window_end", *names):
            answer = found[identity][name]
            if name == "about_ranks" and row["values"] > 200:  # exact up to so many
                shares = [np.mean(np.array(row["all"]) <= value) for value in answer]
                assert np.allclose(shares, RANKS, atol=0.04), (identity, shares)
            else:
                assert agrees(answer, row[name], 100.0), (identity, name)


@pytest.mark.parametrize("merged", [False, True])
def test_a_table(spark: SparkSession, merged: bool) -> None:
    table, queries = records(1500), MERGED if merged else QUERIES
    given: dict[str, Any] = {"time": "at", "key": "site", "tie": "place"}
    out = window_aggregate(spark.createDataFrame(table).repartition(3), queries, **given).toArrow()
    asked = [query for query in QUERIES if not merged or query.name in GRIDS]
    want = mt.aggregate(table, asked, **given, columns="all")
    check_folded(out, want, MERGING if merged else (*MERGING, *ORDERED))


@pytest.mark.parametrize("merged", [False, True])
def test_a_stream(spark: SparkSession, tmp_path: Path, merged: bool) -> None:
    """Two micro-batches, and one without data under the last watermark."""
    table, queries = records(1500), MERGED if merged else QUERIES
    batches = [table.slice(0, 1000), table.slice(1000)]
    for number, batch in enumerate(batches):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(batch, path)
        os.utime(path, (10**9 + number, 10**9 + number))
    given: dict[str, Any] = {"time": "at", "key": "site", "tie": "place", "lateness": LATENESS}
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path))
    out, tables = window_aggregate(source, queries, watermark=DELAY, buckets=1, **given), []

    def take(df: DataFrame, number: int) -> None:
        tables.append(df.toArrow())

    writer = out.writeStream.foreachBatch(take).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    seen = [progress.observedMetrics.get("muntin") for progress in query.recentProgress]
    late = sum(row.late_dropped or 0 for row in seen if row is not None)
    wanted = [query for query in QUERIES if not merged or query.name in GRIDS]
    operator = mt.WindowOperator(wanted, watermark="manual", **given)
    want = []
    for batch in batches:  # under the watermark of those before it
        want.append(operator.process(batch))
        want.append(operator.advance(pc.max(batch["at"]).as_py() - DELAY))
    assert late == operator.metrics.late_dropped > 0
    check_folded(
        pa.concat_tables(tables), pa.concat_tables(want), MERGING if merged else (*MERGING, *ORDERED)
    )


# ---- what travels ----


def sent(function: Any, table: pa.Table) -> bytes:
    """What a partition sends of records for windows of a minute."""
    query = mt.tumbling("1m").agg(a=function)
    types = {field.name: field.type for field in table.schema}
    job = make_job(query, types.__getitem__, time="at", key="site", tie=None, lateness=0, buckets=1)
    job = dataclasses.replace(job, ahead=merges_ahead(query, late=True))
    read = table.select(list(job.types)).append_column(BUCKET, pa.array(np.zeros(len(table), np.int32)))
    (packed,) = Pack(job, ticks=False)(iter(read.to_batches(max_chunksize=1000)))
    (blob,) = packed["blob"].to_pylist()
    return bytes(blob)


@pytest.mark.parametrize("name", MERGING)
def test_partials_travel_in_place_of_records(name: str) -> None:
    """One for each key and slice; as large for twice the records."""
    table = records(20_000)
    minutes = (table["at"].cast(pa.int64()).to_numpy() // 60_000_000).tolist()
    blob = sent(MERGING[name], table)
    panes = from_blob(blob)
    assert has_panes(panes)
    assert panes.num_rows == len(set(zip(table["site"].to_pylist(), minutes, strict=True))) <= 10
    assert sum(panes["rows"].to_pylist()) == 20_000
    assert len(blob) < table.select(["at", "site", "v"]).nbytes / 2
    assert len(sent(MERGING[name], pa.concat_tables([table, table]))) < 1.3 * len(
        blob
    )  # quantiles grow a little


@pytest.mark.parametrize("name", ORDERED)
def test_records_travel_where_their_order_counts(name: str) -> None:
    table = from_blob(sent(ORDERED[name], records(2_000)))
    assert not has_panes(table)
    assert table.num_rows == 2_000
