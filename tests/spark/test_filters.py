"""Conditions and expressions on Spark: the same windows as the embedded engine, in batch and in streams."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import muntin as mt
from muntin.spark import fold, window_aggregate
from tests.spark.test_spark import Expected, Files, drawn_batches, records_table, same_rows
from tests.spark.test_workers import check_rows
from tests.windows_oracle import Spec

QUERIES = [
    mt.sliding("600ms", every="100ms").agg(
        n=mt.count(), total=mt.sum(mt.expr("v * w")), where="w > 0", having="n > 2", name="slide"
    ),
    mt.tumbling("1s").agg(low=mt.min(mt.expr("ABS(v) - unit")), where="site = 'a'", name="site"),
    mt.threshold_frame(mt.expr("v / w"), ">", 0.1).agg(best=mt.argmax(mt.expr("-v"), "place"), name="frame"),
]


def test_batch(spark: SparkSession) -> None:
    table = records_table(800, pa.timestamp("us", "UTC"))
    given = {"time": "at", "key": ["site", "unit"], "tie": "place"}
    out = window_aggregate(spark.createDataFrame(table).repartition(2), QUERIES, **given)
    same_rows(out, mt.aggregate(table, QUERIES, **given, columns="all"))
    with pytest.raises(KeyError, match="the DataFrame has no column 'z'"):
        window_aggregate(out, mt.tumbling("1s").agg(n=mt.count(), where="z > 0"), time="window_end")
    with pytest.raises(TypeError, match="where is to be true or false, but 'n \\+ 1' gives int64"):
        window_aggregate(out, mt.tumbling("1s").agg(n=mt.count(), where="n + 1"), time="window_end")


def test_stream(spark: SparkSession, tmp_path: Path) -> None:
    """A condition on some records and on rows: late records correct windows, in and out of what is told."""
    specs = [
        Spec("some", "tumbling", (300, 0), {"n": ("count",)}, where="w > 0", having=("n", 'NOT "n" + 1 > 2')),
        Spec("all", "tumbling", (1000, 0), {"m": ("sum", "ABS(w)")}),
    ]
    files = Files(spark, tmp_path, watermark="300ms", lateness="4s", buckets=2)
    expected = Expected(specs, 4000, 300)
    for batch in drawn_batches(3, 40):
        files.write(batch)
        expected.micro_batch(batch)
    expected.micro_batch([])
    files.run(specs)
    for number, want in enumerate(expected.rows):
        check_rows(files.rows.get(number, []), want, specs, f"micro-batch {number}")
    told = [row for some in files.rows.values() for row in some]
    assert {row.change for row in told if row.query == "some"} == {"insert", "retract"}
    _check_fold(spark, files, expected)


def _check_fold(spark: SparkSession, files: Files, expected: Expected) -> None:
    """Folded rows are the windows in view at the end that fulfil the condition."""
    kinds = "site string, unit bigint, query string, window_start bigint, window_end bigint, window_id bigint"
    rows = [row for some in files.rows.values() for row in some if row.query == "some"]
    listed = [(*r.key, r.query, r.start, r.end, r.id, r.revision, r.change, r.values["n"]) for r in rows]
    df = spark.createDataFrame(listed, f"{kinds}, revision bigint, change string, n bigint")
    view = expected.oracle._views["some"]
    want = {(*key, window.start): len(window.records) for (_, key, _), window in view.items()}
    got = {(row.site, row.unit, row.window_start): row.n for row in fold(df).collect()}
    assert got == {window: n for window, n in want.items() if n <= 1}
