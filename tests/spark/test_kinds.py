"""Windows that look at records, on Spark: a stream with late records and a table, folded and upserted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import muntin as mt
from muntin.spark import ParquetTable, fold, window_aggregate
from tests.spark.test_spark import Expected, Files, drawn_batches, table_of
from tests.spark.test_workers import check_rows
from tests.test_operator import told
from tests.user_functions import falls
from tests.windows_oracle import Record, Row, Spec, one_shot
from tests.workloads import OwnGrid, Reaching

COUNTED = {"n": ("count",), "s": ("sum", "v")}
SPECS = [
    Spec("rolling", "rolling", (400,), COUNTED),
    Spec("latest", "last_n", (5, 300), COUNTED),
    Spec("span", "last_span", (900, 3), COUNTED),
    Spec("hot", "threshold_frame", ("v", ">", 0, 2), COUNTED),
    Spec("steady", "delta_frame", ("v", 3), COUNTED),
    Spec("filled", "aggregate_frame", (("sum", "w"), 20), COUNTED),
    Spec("status", "state_window", ("w",), COUNTED),
    Spec("own", "user_window", ("falls",), COUNTED),
    Spec("grid", "sliding", (600, 200, 0), COUNTED),
    Spec("marked", "punctuation", ("p", "q"), COUNTED),
    Spec("since", "landmark", ("q",), COUNTED),
    Spec("growing", "landmark_every", ("q", 500), COUNTED),
    Spec("way", "on", ("m", "sliding", (700, 300, 0)), COUNTED),
    Spec("policy", "policy_window", (("every", 3), ("keep", 5)), COUNTED),
    Spec("free", "own", (1000, ((0, 300), (200, 1000))), COUNTED),
    Spec("aware", "aware", (3, 400), COUNTED),
    Spec("day", "calendar", ("day", "Europe/Berlin", "ms"), COUNTED),
]
AGGREGATES: dict[str, Any] = {"n": mt.count(), "s": mt.sum("v")}
QUERIES = [
    mt.rolling("400ms").agg(n=mt.count(), s=mt.sum("v"), name="rolling"),
    mt.last_n(5, every="300ms").agg(n=mt.count(), s=mt.sum("v"), name="latest"),
    mt.last_span("900ms", every=3).agg(n=mt.count(), s=mt.sum("v"), name="span"),
    mt.threshold_frame("v", ">", 0, min_records=2).agg(n=mt.count(), s=mt.sum("v"), name="hot"),
    mt.delta_frame("v", by=3).agg(n=mt.count(), s=mt.sum("v"), name="steady"),
    mt.aggregate_frame(mt.sum("w"), reaches=20).agg(n=mt.count(), s=mt.sum("v"), name="filled"),
    mt.state_window("w").agg(n=mt.count(), s=mt.sum("v"), name="status"),
    mt.user_window(falls, state=(0, 0), columns=("w",)).agg(n=mt.count(), s=mt.sum("v"), name="own"),
    mt.sliding("600ms", every="200ms").agg(n=mt.count(), s=mt.sum("v"), name="grid"),
    mt.punctuation("p", end="q").agg(**AGGREGATES, name="marked"),
    mt.landmark("q").agg(**AGGREGATES, name="since"),
    mt.landmark("q", every="500ms").agg(**AGGREGATES, name="growing"),
    mt.on("m", mt.sliding(700, every=300)).agg(**AGGREGATES, name="way"),
    mt.policy_window(mt.policies.every(3), mt.policies.keep(5)).agg(**AGGREGATES, name="policy"),
    OwnGrid(10**6, ((0, 300_000), (200_000, 10**6))).agg(**AGGREGATES, name="free"),  # in microseconds
    Reaching(3, 400_000).agg(**AGGREGATES, name="aware"),
    mt.calendar("day", "Europe/Berlin").agg(**AGGREGATES, name="day"),
]
SCHEMA = "at timestamp, site string, unit bigint, v double, w bigint, place bigint"
GIVEN: dict[str, Any] = {"time": "at", "key": ["site", "unit"], "tie": "place"}


def marked(records: list[Record]) -> list[Record]:
    """Records that say what `with_marks` adds."""
    return [r._replace(p=r.w % 3 == 0, q=r.w == 4, m=r.t) for r in records]


def with_marks(df: DataFrame) -> DataFrame:
    """Add predicates, and a measure: the time in milliseconds."""
    return df.selectExpr("*", "w % 3 = 0 AS p", "w = 4 AS q", "unix_millis(at) AS m")


def in_milliseconds(table: pa.Table) -> list[Row]:
    for name in ("window_start", "window_end"):
        ticks = table[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy() // 1000
        table = table.set_column(table.column_names.index(name), name, pa.array(ticks))
    return told(table, ("site", "unit"))


def test_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of each micro-batch, and what stands in the end: folded from Parquet, and in a table."""
    files = Files(spark, tmp_path)
    expected = Expected(SPECS, 2500, 300)
    for batch in drawn_batches(4, 60):
        files.write(batch)
        expected.micro_batch(marked(batch))
    expected.micro_batch([])
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(files.inputs))
    out = window_aggregate(
        with_marks(source), QUERIES, watermark="300ms", lateness="2500ms", buckets=3, **GIVEN
    )
    table, rows = ParquetTable(tmp_path / "table"), {}

    def take(df: DataFrame, number: int) -> None:
        df = df.persist()
        rows[number] = in_milliseconds(df.toArrow())
        table(df, number)
        df.write.mode("append").parquet(str(tmp_path / "rows"))
        df.unpersist()

    query = out.writeStream.foreachBatch(take).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    for number, want in enumerate(expected.rows):
        check_rows(rows.get(number, []), want, SPECS, f"micro-batch {number}")
    assert {row.change for some in rows.values() for row in some} >= {"insert", "update"}
    oracle = expected.oracle
    view = {name: oracle._view(asked) for name, asked in oracle.queries.items()}
    stand = [(name, w[1], len(found.records)) for name, some in view.items() for w, found in some.items()]
    folded = fold(spark.read.parquet(str(tmp_path / "rows"))).toArrow()
    got = [(row.query, row.key, row.values["n"]) for row in in_milliseconds(folded)]
    assert sorted_rows(got) == sorted_rows(stand)
    upserted = table.read()
    assert upserted.num_rows == folded.num_rows
    bounds = ["site", "unit", "query", "window_start", "window_end", "window_id", "n", "revision"]
    assert listed(upserted.select(bounds)) == listed(folded.select(bounds))


def sorted_rows(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


def listed(table: pa.Table) -> list[Any]:
    names = ("window_start", "window_end")
    table = table.cast(
        pa.schema([f.with_type(pa.timestamp("us", "UTC")) if f.name in names else f for f in table.schema])
    )
    return sorted_rows([tuple(row.values()) for row in table.to_pylist()])


def test_a_table(spark: SparkSession) -> None:
    records: list[Record] = [record for batch in drawn_batches(3, 60) for record in batch]
    df = spark.createDataFrame(table_of(records)).repartition(3)
    got = in_milliseconds(window_aggregate(with_marks(df), QUERIES, **GIVEN).toArrow())
    check_rows(got, one_shot(SPECS, marked(records)), SPECS)
