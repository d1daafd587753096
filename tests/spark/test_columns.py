"""Names of columns on Spark: resolved as Spark resolves them, in windows, conditions and folds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import muntin as mt
from muntin.spark import fold, split_late, window_aggregate

# No name is typed as the DataFrame has it.
QUERIES = [
    mt.tumbling("10s").agg(
        total=mt.sum("speed"),
        double=mt.sum(mt.expr("SPEED * 2")),
        newest=mt.max("ts"),
        where="Car <> 'z'",
        having="TOTAL > 2 AND Window_Start IS NOT NULL AND cAr = 'a'",
        name="sums",
    ),
    mt.threshold_frame("SPEED", ">", 0).agg(last=mt.last("sPeed"), name="frames"),
]
TYPED = {"time": "TS", "key": ["cAr"], "tie": "PLACE"}
RECORDS = [
    {"Ts": "2024-01-01 00:00:01", "Car": "a", "Speed": 1.0, "place": 0},
    {"Ts": "2024-01-01 00:00:02", "Car": "a", "Speed": 2.0, "place": 2},
    {"Ts": "2024-01-01 00:00:02", "Car": "a", "Speed": 4.0, "place": 1},
    {"Ts": "2024-01-01 00:00:03", "Car": "b", "Speed": 9.0, "place": 3},
    {"Ts": "2024-01-01 00:01:00", "Car": "z", "Speed": 9.0, "place": 4},
]
SCHEMA = "Ts timestamp, Car string, Speed double, place long"


def written(folder: Path) -> Path:
    """The records as a file, in a folder of its own."""
    (folder / "in").mkdir()
    (folder / "in" / "records.json").write_text("".join(json.dumps(r) + "\n" for r in RECORDS))
    return folder / "in"


@pytest.fixture
def records(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return spark.read.schema(SCHEMA).json(str(written(tmp_path)))


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Any:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


def test_names_in_another_case_than_the_dataframe(records: DataFrame) -> None:
    out = window_aggregate(records, QUERIES, **TYPED)
    rows = {(r["cAr"], r["query"]): r for r in out.collect()}
    assert out.columns[0] == records.select("cAr").columns[0] == "cAr"
    assert rows.keys() == {("a", "sums"), ("a", "frames"), ("b", "frames"), ("z", "frames")}
    assert (rows["a", "sums"].total, rows["a", "sums"].double) == (7.0, 14.0)
    assert rows["a", "sums"].newest.second == 2
    assert rows["a", "frames"].last == 2.0  # of equal times, the one with the larger place


def test_a_stream_with_names_in_another_case(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.schema(SCHEMA).json(str(written(tmp_path)))
    out = window_aggregate(stream, QUERIES, **TYPED, watermark="1s", buckets=2, keep_late=True)
    rows: list[Any] = []

    def take(batch: DataFrame, number: int) -> None:
        rows.extend(batch.collect())

    def late(batch: DataFrame, number: int) -> None:
        assert batch.columns == ["Ts", "Car", "Speed", "place"]

    query = out.writeStream.foreachBatch(split_late(take, late)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert [(r["cAr"], r.total) for r in rows if r.query == "sums"] == [("a", 7.0)]


def test_a_watermark_of_ones_own_in_another_case(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.schema(SCHEMA).json(str(written(tmp_path))).withWatermark("tS", "1 second")
    window_aggregate(stream, QUERIES, **TYPED)
    with pytest.raises(ValueError, match="has a watermark on 'TS' already"):
        window_aggregate(stream, QUERIES, **TYPED, watermark="1s")


def test_where_case_matters(records: DataFrame, case_sensitive: None) -> None:
    with pytest.raises(KeyError, match="no column 'TS'; it has 'Ts', 'Car'"):
        window_aggregate(records, QUERIES[1], **TYPED)
    query = mt.tumbling("10s").agg(n=mt.count(), N=mt.sum("Speed"), having="N > 7")
    rows = window_aggregate(records, query, time="Ts", key="Car").collect()
    assert {(r["Car"], r["n"], r["N"]) for r in rows} == {("b", 1, 9.0), ("z", 1, 9.0)}
    with pytest.raises(ValueError, match="having reads 'TOTAL', but its rows have"):
        window_aggregate(
            records, mt.tumbling("10s").agg(total=mt.count(), having="TOTAL > 1"), time="Ts", key="Car"
        )


def test_ambiguous_names(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, 2, 3)], "t long, v long, V long")
    for name in ("v", "V"):
        with pytest.raises(
            ValueError, match=f"the name '{name}' is ambiguous: the DataFrame has 'v' and 'V'"
        ):
            window_aggregate(df, mt.tumbling(10).agg(s=mt.sum(name)), time="t")
    twice = df.select("t", df["t"])
    with pytest.raises(ValueError, match="the name 't' is ambiguous: the DataFrame has 't' and 't'"):
        window_aggregate(twice, mt.tumbling(10).agg(n=mt.count()), time="t")


def test_names_of_the_output_that_spark_would_confuse(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, 2)], "t long, car long")

    def refused(both: str, *queries: mt.Query, key: Any = "car") -> None:
        with pytest.raises(ValueError, match=f"columns {both}, which Spark does not tell apart: rename one"):
            window_aggregate(df, list(queries), time="t", key=key)

    tumbling = mt.tumbling(10)
    refused("'car' and 'Car'", tumbling.agg(Car=mt.count()))
    refused("'n' and 'N'", tumbling.agg(n=mt.count()), tumbling.agg(N=mt.count()))
    refused("'query' and 'Query'", tumbling.agg(Query=mt.count()))
    refused("'car' and 'CAR'", tumbling.agg(n=mt.count()), key=["car", "CAR"])


def test_names_with_dots_spaces_and_backticks(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, 5, 7)]).toDF("event.time", "a `value`", "the key")
    query = mt.tumbling(10).agg(top=mt.max("A `VALUE`"))
    out = window_aggregate(df, query, time="Event.Time", key="the key")
    assert [(row["the key"], row.top) for row in out.collect()] == [(7, 5)]
    stream = spark.readStream.format("rate").load().toDF("event.time", "a `value`")
    query = mt.tumbling("1s").agg(top=mt.max("A `VALUE`"))
    assert window_aggregate(stream, query, time="Event.Time", watermark="1s").columns[-1] == "top"


def test_fold_with_names_in_another_case(spark: SparkSession) -> None:
    schema = "CAR string, QUERY string, WINDOW_START long, WINDOW_END long, WINDOW_ID long, REVISION long, "
    schema += "CHANGE string, N long"
    told = [("a", "q", 0, 5, None, 0, "insert", 2), ("a", "q", 0, 5, None, 1, "update", 3)]
    told += [("b", "q", 7, 9, None, 0, "insert", 1), ("b", "q", 7, 9, None, 1, "retract", None)]
    df = spark.createDataFrame(told, schema)
    for folded in (fold(df), fold(df, key="car"), fold(df.select(*df.columns[1:], "CAR"), key="Car")):
        assert [(row["CAR"], row["N"]) for row in folded.collect()] == [("a", 3)]
        assert set(folded.columns) == set(df.columns)
    with pytest.raises(ValueError, match="the name 'N' is ambiguous: the DataFrame has 'N' and 'n'"):
        fold(df.withColumn("m", df["N"]).toDF(*df.columns, "n"))


def test_fold_knows_what_tells_windows_apart_in_any_case(records: DataFrame) -> None:
    """Rolling windows go by their end and number: by the number alone, most would be lost."""
    query = mt.rolling(rows=2).agg(n=mt.count())
    out = window_aggregate(records, query, time="ts", key="car", tie="place")
    shouted = out.toDF(*(name.upper() for name in out.columns))
    assert fold(shouted).count() == fold(out).count() == len(RECORDS)
