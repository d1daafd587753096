"""Features on Spark are those of the embedded engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import muntin as mt
from muntin.spark import features
from tests.oracle import agrees

WANTED = {
    "mean": mt.rolling("2s").agg(mt.mean("v")),
    "n": mt.rolling(rows=5).agg(mt.count("v")),
    "today": mt.calendar("day").agg(mt.max("w")),
    "line": mt.rolling(rows=8).agg(mt.regression("v", "w")),
    "before": mt.features.lag("s"),
}


def records(count: int) -> pa.Table:
    rng = np.random.default_rng(5)
    times = 1_700_000_000_000_000 + rng.integers(0, 40, count) * 250_000
    return pa.table(
        {
            "at": pa.array(times).view(pa.timestamp("us", "UTC")),
            "site": pa.array(rng.choice(["a", "b", None], count).tolist(), pa.string()),
            "v": pa.array(rng.normal(size=count), mask=rng.random(count) < 0.1),
            "w": rng.integers(0, 9, count),
            "s": [f"text {k}" for k in range(count)],
            "place": np.arange(count),
        }
    )


@pytest.mark.parametrize(("key", "closed"), [("site", "right"), ("site", "left"), (None, "right")])
def test_they_are_those_of_the_embedded_engine(spark: SparkSession, key: Any, closed: Any) -> None:
    table = records(300)
    given: dict[str, Any] = {"key": key, "closed": closed}
    out = features(
        spark.createDataFrame(table).repartition(3), WANTED, time="AT", tie="place", **given
    ).toArrow()
    want = mt.features(table, WANTED, time="at", tie="place", **given)
    assert out.column_names == want.column_names
    for one, other in zip(out.sort_by("place").to_pylist(), want.to_pylist(), strict=True):
        assert all(agrees(one[name], other[name], 100.0) for name in WANTED), (one, other)


def test_a_stream_is_told_where_to_go(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match=r"give mt\.features\.queries\(\.\.\.\) to window_aggregate"):
        features(stream, {"n": mt.rolling("2s").agg(mt.count())}, time="timestamp")
