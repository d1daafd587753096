"""The pipeline on Spark against Spark's own window(): `python -m benchmarks.spark [part...]`.

Spark expands each row into all windows that hold it. Answers are compared before anything is reported.
Needs the `spark` extra and Java.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import muntin as mt
from benchmarks.report import show, verdict
from muntin.spark import local_session, window_aggregate

Row = tuple[str, float, float, bool]  # what, how much, the limit, whether it holds
_BASE = 1_699_999_200  # seconds: a full hour
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks-spark.md"


def records(spark: SparkSession, rows: int, seconds: int, keys: int) -> DataFrame:
    """Rows in time order over so many seconds, in memory."""
    at = sf.timestamp_micros(sf.lit(_BASE * 10**6) + (sf.col("id") * seconds * 10**6 / rows).cast("long"))
    key, value = (sf.col("id") % keys).alias("k"), (sf.hash("id") % 1000).cast("double").alias("v")
    df = spark.range(0, rows, 1, 2).select(at.alias("ts"), key, value).cache()
    df.count()
    return df


def seconds_of(work: Callable[[], Any], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def sink(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def ours(df: DataFrame, ratio: int, **more: Any) -> DataFrame:
    window = mt.sliding(f"{ratio}s", every="1s")
    query = window.agg(n=mt.count(), s=mt.sum("v"), lo=mt.min("v"), hi=mt.max("v"))
    return window_aggregate(df, query, time="ts", key="k", **more)


def sink_ours(df: DataFrame, ratio: int) -> None:
    sink(ours(df, ratio))


def sink_built_in(df: DataFrame, ratio: int) -> None:
    sink(built_in(df, ratio))


def built_in(df: DataFrame, ratio: int) -> DataFrame:
    window = sf.window("ts", f"{ratio} seconds", "1 second")
    counted = [
        sf.count("*").alias("n"),
        sf.sum("v").alias("s"),
        sf.min("v").alias("lo"),
        sf.max("v").alias("hi"),
    ]
    return df.groupBy("k", window).agg(*counted)


def check_same(one: DataFrame, other: DataFrame) -> None:
    """Compare windows and their aggregates."""
    tables = []
    for df, start in ((one, "window_start"), (other, "window.start")):
        chosen = df.select("k", sf.unix_micros(start).alias("start"), "n", "s", "lo", "hi")
        tables.append(chosen.toArrow().sort_by([("k", "ascending"), ("start", "ascending")]))
    for name in tables[0].column_names:
        np.testing.assert_allclose(tables[0][name].to_numpy(), tables[1][name].to_numpy(), rtol=1e-9)


def batch(spark: SparkSession, scale: float) -> list[Row]:
    found: list[Row] = []
    for ratio, rows, limit in ((60, 2_000_000, 8.0), (600, 250_000, 25.0)):
        df = records(spark, int(rows * scale), 3600, 100)
        mine = seconds_of(partial(sink_ours, df, ratio), 3)
        theirs = seconds_of(partial(sink_built_in, df, ratio), 1)
        few = df.where("k < 3")
        check_same(ours(few, ratio), built_in(few, ratio))
        name = f"batch, {df.count():,} rows, ratio {ratio}: {mine:.2f} s, window() {theirs:.2f} s, times"
        found.append((name, theirs / mine, limit, theirs / mine >= limit))
        df.unpersist()
    df = records(spark, int(5_000_000 * scale), 3600, 100)
    at = {ratio: seconds_of(partial(sink_ours, df, ratio), 3) for ratio in (60, 3600)}
    name = f"batch, {df.count():,} rows: ratio 3600 {at[3600]:.2f} s, ratio 60 {at[60]:.2f} s, times"
    found.append((name, at[3600] / at[60], 1.5, at[3600] <= 1.5 * at[60]))
    df.unpersist()
    return found


# ---- streams: a file for each micro-batch ----


def write_files(directory: Path, batches: int, rows: int, seconds: int, keys: int) -> None:
    rng = np.random.default_rng(0)
    for number in range(batches):
        begin = (_BASE + number * seconds) * 10**6
        ts = begin + np.arange(rows) * seconds * 10**6 // rows
        columns = {
            "ts": pa.array(ts).view(pa.timestamp("us", "UTC")),
            "k": pa.array(rng.permutation(rows) % keys),
        }
        columns["v"] = pa.array(rng.integers(0, 1000, rows).astype(float))
        path = directory / f"{number:03}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=max(1, rows // 4))
        os.utime(path, (10**9 + number, 10**9 + number))


def stream_progress(
    spark: SparkSession, directory: Path, make: Callable[[DataFrame], DataFrame]
) -> tuple[list[Any], int]:
    """Return the progress of each micro-batch with data, and the number of rows that came out."""
    count = 0

    def take(df: DataFrame, number: int) -> None:
        nonlocal count
        del number
        count += df.count()

    source = spark.readStream.schema("ts timestamp, k bigint, v double").option("maxFilesPerTrigger", 1)
    out = make(source.parquet(str(directory)))
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = out.writeStream.option("checkpointLocation", checkpoint)
        query = writer.foreachBatch(take).trigger(availableNow=True).start()
        query.awaitTermination()
        progress = query.recentProgress
    return [p for p in progress if p.numInputRows], count


def stream_seconds(
    spark: SparkSession, directory: Path, make: Callable[[DataFrame], DataFrame]
) -> tuple[list[float], int]:
    """Return the seconds of each micro-batch with data, and the number of rows that came out."""
    progress, count = stream_progress(spark, directory, make)
    return [p.durationMs["addBatch"] / 1e3 for p in progress], count


def stream(spark: SparkSession, scale: float) -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_files(directory, 3, int(200_000 * scale), 300, 100)
        mine, windows = stream_seconds(spark, directory, lambda df: ours(df, 600, watermark="1 second"))
        theirs, others = stream_seconds(
            spark, directory, lambda df: built_in(df.withWatermark("ts", "1 second"), 600)
        )
    assert windows == others, (windows, others)
    times = min(theirs[1:]) / min(mine[1:])
    what = f"stream, {int(200_000 * scale):,} rows a batch, ratio 600: {min(mine[1:]):.2f} s a batch"
    return [(f"{what}, window() {min(theirs[1:]):.2f} s, times", times, 15.0, times >= 15)]


def many_keys(spark: SparkSession, scale: float) -> list[Row]:
    query = mt.sliding("1h", every="10m").agg(s=mt.sum("v"), hi=mt.max("v"), n=mt.count())
    keys, batches = int(100_000 * scale), 9
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_files(directory, batches, int(1_000_000 * scale), 600, keys)
        make = lambda df: window_aggregate(df, query, time="ts", key="k", watermark="1 second")  # noqa: E731
        taken, windows = stream_seconds(spark, directory, make)
    assert windows == (batches - 1) * keys, (windows, (batches - 1) * keys)
    sustained = sorted(taken[2:])[-1]
    what = f"stream, {keys:,} keys, {int(1_000_000 * scale):,} rows a batch, 1 h every 10 m: slowest batch, s"
    return [(what, sustained, 10.0, sustained <= 10)]


def ten_queries(spark: SparkSession, scale: float) -> list[Row]:
    lengths = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20]
    queries = [
        mt.sliding(f"{n}m", every="1m").agg(s=mt.sum("v"), hi=mt.max("v"), n=mt.count(), name=f"m{n}")
        for n in lengths
    ]

    def run(count: int) -> Callable[[DataFrame], DataFrame]:
        return lambda df: window_aggregate(df, queries[:count], time="ts", key="k", watermark="1 second")

    def separate(n: int) -> Callable[[DataFrame], DataFrame]:
        def make(df: DataFrame) -> DataFrame:
            window = sf.window("ts", f"{n} minutes", "1 minute")
            return (
                df.withWatermark("ts", "1 second")
                .groupBy("k", window)
                .agg(sf.sum("v"), sf.max("v"), sf.count("*"))
            )

        return make

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_files(directory, 5, int(400_000 * scale), 600, 1000)
        nine = min(sum(stream_seconds(spark, directory, run(9))[0][1:]) for _ in range(2))
        both = [stream_seconds(spark, directory, run(10)) for _ in range(2)]
        ten, windows = min(sum(taken[1:]) for taken, _ in both), both[0][1]
        alone = [stream_seconds(spark, directory, separate(n)) for n in lengths]
    assert windows == sum(count for _, count in alone), (windows, [count for _, count in alone])
    apart = sum(sum(taken[1:]) for taken, _ in alone)
    more, times = ten / nine, apart / ten
    return [
        (f"stream, nine queries {nine:.2f} s, ten {ten:.2f} s, times", more, 1.15, more <= 1.15),
        (
            f"stream, the ten as aggregations of Spark, one by one {apart:.2f} s, times",
            times,
            3.0,
            times >= 3,
        ),
    ]


def state(spark: SparkSession, scale: float) -> list[Row]:
    """The state after many micro-batches against that after a few, and with ten times the rows."""
    query = mt.sliding("30s", every="10s").agg(s=mt.sum("v"), hi=mt.max("v"), n=mt.count())
    make = lambda df: window_aggregate(df, query, time="ts", key="k", watermark="1 second")  # noqa: E731
    batches, few = max(int(50 * scale), 8), 5  # by then, as many windows have closed as opened
    sizes = []
    for rows in (2_000, 20_000):
        with tempfile.TemporaryDirectory() as name:
            write_files(Path(name), batches, rows, 10, 100)
            progress, _ = stream_progress(spark, Path(name), make)
        sizes.append([_state_sizes(p) for p in progress])
    found = []
    for what in sizes[0][0]:
        least, most = ([size[what] for size in each] for each in sizes)
        longer, more = max(least[few:]) / max(least[:few]), max(most) / max(least)
        name = f"state after {batches} micro-batches, {what}: {max(least):,.0f}, after {few}"
        found.append((f"{name} {max(least[:few]):,.0f}, times", longer, 1.2, longer <= 1.2))
        name = f"state with ten times the rows, {what}: {max(most):,.0f}, times"
        found.append((name, more, 1.2, more <= 1.2))
    return found


def _state_sizes(progress: Any) -> dict[str, float]:
    (store,) = progress.stateOperators
    return {
        "bytes of engines": progress.observedMetrics["muntin"].state_bytes,
        "entries in Spark's store": store.numRowsTotal,
        "bytes of Spark's store in memory": store.memoryUsedBytes,
    }


PARTS = {"batch": batch, "stream": stream, "many_keys": many_keys, "ten_queries": ten_queries, "state": state}


def run(parts: Sequence[str]) -> bool:
    """Write the page; return whether all limits hold."""
    with local_session("benchmarks", memory="4g", config={"spark.sql.shuffle.partitions": "4"}) as spark:
        version = spark.version
        found = [row for part in parts for row in PARTS[part](spark, 1.0)]
    rows = [[what, f"{got:.3g}", f"{limit:g}", verdict(held)] for what, got, limit, held in found]
    head = [
        "# Benchmarks on Spark",
        "",
        "Written by `make bench-spark`; compare numbers within this page only. Answers are compared: all",
        "values of three keys in batch, the number of windows in streams. In batch, ours is the best of",
        "three runs, and Spark's window() runs once, after them. In streams, the first micro-batch does not",
        "count; of the others the fastest does at ratio 600, and their sum with several queries.",
        f"{os.cpu_count()} cores, Spark {version}.",
        "",
    ]
    PAGE.write_text("\n".join([*head, show("On Spark", ["", "measured", "limit", ""], rows)]))
    return all(held for *_, held in found)


if __name__ == "__main__":
    sys.exit(0 if run(sys.argv[1:] or tuple(PARTS)) else 1)
