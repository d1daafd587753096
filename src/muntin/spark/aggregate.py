"""window_aggregate: from a DataFrame of records to one of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import StructField, StructType

from muntin.slicing.workload import merges_ahead
from muntin.spark.combining import Combine, Unpack
from muntin.spark.identity import identities_of, note
from muntin.spark.job import Job, make_job
from muntin.spark.late import LATE, late_field
from muntin.spark.packing import BUCKET, PACKED_DDL, Pack
from muntin.spark.processor import COUNTERS, STEP_DDL, WindowProcessor
from muntin.windows.base import Query
from muntin.windows.durations import Clock, Duration

_BUCKETS_EACH = 4


def window_aggregate(
    df: DataFrame,
    queries: Query | Sequence[Query],
    *,
    time: str | None = None,
    key: str | Sequence[str] | None = None,
    watermark: Any = None,
    lateness: Any = 0,
    tie: str | None = None,
    buckets: int | None = None,
    keep_late: bool = False,
    metrics: str = "muntin",
) -> DataFrame:
    """Compute windows of a batch or streaming DataFrame: one row per window, and one per correction.

    Rows have the key columns, `query`, `window_start`, `window_end`, `window_id`, `revision`, `change`, and a
    column per aggregate. In batch nothing is late, and each window comes out once.

    A stream needs a `watermark`, the delay of `DataFrame.withWatermark`, unless `df` has one on its time
    column already. Records that are late by no more than `lateness` still correct windows that came out;
    write the stream in append mode, and `fold` what was written. How many records were too late is in the
    progress of the streaming query, under `observedMetrics["muntin"]`, or another name given as `metrics`: a
    streaming query with two sets of windows needs two. To have the records, too, set `keep_late` and write
    with `foreachBatch(split_late(...))`; they then go over the network whole, and are not merged before.

    Keys are spread over so many `buckets`, each with one engine for all its keys: by default four per core,
    in a stream four per shuffle partition and at most 64. A checkpoint holds to their number. `tie` names a
    column that settles the order of equal times. `time` and `key` may be left out where queries of `mt.sql`
    name them.

    >>> import muntin as mt
    >>> records = [("a", 1, 1.0), ("a", 4, 2.0), ("b", 3, 4.0)]
    >>> df = spark.createDataFrame(records, "car string, at long, v double")
    >>> out = window_aggregate(df, mt.tumbling(10).agg(total=mt.sum("v")), time="at", key="car")
    >>> out.orderBy("car").select("car", "window_start", "window_end", "total").show()
    +---+------------+----------+-----+
    |car|window_start|window_end|total|
    +---+------------+----------+-----+
    |  a|           0|        10|  3.0|
    |  b|           0|        10|  4.0|
    +---+------------+----------+-----+
    <BLANKLINE>
    """
    if buckets is None:
        buckets = _default_buckets(df)
    if not isinstance(buckets, int) or buckets < 1:
        raise ValueError(f"buckets is a number of at least 1, not {buckets!r}.")
    job = make_job(
        queries, partial(_type_of, df), time=time, key=key, tie=tie, lateness=lateness, buckets=buckets
    )
    ahead = all(merges_ahead(query, late=df.isStreaming) for query in job.queries.values())
    whole = {name: _type_of(df, name) for name in df.columns} if keep_late and df.isStreaming else {}
    ahead = ahead and not whole and not job.own_objects()
    job = replace(job, buckets=buckets if job.keys else 1, ahead=ahead, whole=whole)
    return _stream(df, job, watermark, metrics) if df.isStreaming else _batch(df, job)


def _default_buckets(df: DataFrame) -> int:
    """Return several buckets per core, or per partition of state: an uneven spread then matters little.

    Cores come and go. A stream must find its state again, so it goes by what is set for the session.
    """
    if df.isStreaming:
        return min(_BUCKETS_EACH * int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1), 64)
    return _BUCKETS_EACH * df.sparkSession.sparkContext.defaultParallelism


def _type_of(df: DataFrame, name: str) -> pa.DataType:
    if name not in df.columns:
        have = ", ".join(repr(n) for n in df.columns)
        raise KeyError(f"the DataFrame has no column {name!r}; it has {have}.")
    return to_arrow_type(df.schema[name].dataType, timezone="UTC")


def _batch(df: DataFrame, job: Job) -> DataFrame:
    packed = _selected(df, job).mapInArrow(_plain(Pack(job, ticks=False)), PACKED_DDL)
    combine = _plain(Combine(job, job.output_schema()))
    return packed.groupBy("bucket").applyInArrow(combine, _spark_schema(df, job))


def _stream(df: DataFrame, job: Job, watermark: Any, metrics: str) -> DataFrame:
    df, delay = _with_watermark(df, job, watermark)
    job, schema = replace(job, delay=delay), job.output_schema()
    if job.whole:
        schema = schema.append(late_field(job.whole))
    packed = _selected(df, job).mapInArrow(_plain(Pack(job, ticks=True)), PACKED_DDL)
    steps = packed.groupBy("bucket").transformWithStateInPandas(
        WindowProcessor(job, schema), STEP_DDL, outputMode="append", timeMode="eventTime"
    )
    counted = steps.observe(metrics, *(sf.sum(name).alias(name) for name in COUNTERS))
    return counted.select("rows").mapInArrow(_plain(Unpack(schema)), _spark_schema(df, job))


def _with_watermark(df: DataFrame, job: Job, watermark: Any) -> tuple[DataFrame, int]:
    """Return the stream with a watermark on its time column, and the delay in ticks."""
    # The watermark is the least of all in a streaming query, and the windows to come have no time yet.
    if "TransformWithStateInPySpark" in df._jdf.queryExecution().analyzed().toString():
        raise ValueError(
            "windows of windows in one streaming query would wait for each other for ever: write the first "
            "ones to files, and make the second ones in a streaming query that reads these."
        )
    known = df.schema[job.time].metadata.get("spark.watermarkDelayMs")
    if known is not None:
        if watermark is not None:
            raise ValueError(f"the DataFrame has a watermark on {job.time!r} already: leave out watermark=.")
        return df, int(known) * job.clock_ticks
    if watermark is None:
        raise ValueError("a stream needs a watermark, the longest delay of a record: watermark='10 seconds'.")
    if not pa.types.is_timestamp(job.types[job.time]):
        raise TypeError(f"Spark's watermarks need timestamps, but {job.time!r} is {job.types[job.time]}.")
    delay = Duration.of(watermark, "watermark", least=0).ticks(Clock(1), "watermark")
    if delay % 10**6:
        raise ValueError(f"Spark's watermarks are in milliseconds: {watermark!r} is no whole number of them.")
    milliseconds = delay // 10**6
    return df.withWatermark(job.time, f"{milliseconds} milliseconds"), milliseconds * job.clock_ticks


def _plain(work: Callable[[Any], Any]) -> Any:
    """Return a plain function: Spark looks at the signature of what it is given."""

    def run(given: Any) -> Any:
        return work(given)

    return run


def _selected(df: DataFrame, job: Job) -> DataFrame:
    """Return the columns that are read, and the bucket of each record."""
    columns = [_column(name).alias(name) for name in job.columns]
    bucket = sf.lit(0)
    if job.buckets > 1:
        bucket = sf.pmod(sf.hash(*(_column(name) for name in job.keys)), sf.lit(job.buckets))
    return df.select(*columns, bucket.alias(BUCKET))


def _column(name: str) -> Column:
    return sf.col("`" + name.replace("`", "``") + "`")


def _spark_schema(df: DataFrame, job: Job) -> StructType:
    """Return the output columns: those that come from the DataFrame in its own types."""
    own = {name: df.schema[name].dataType for name in job.keys}
    if pa.types.is_timestamp(job.types[job.time]):
        own |= dict.fromkeys(("window_start", "window_end"), df.schema[job.time].dataType)
    notes = {"query": note(identities_of(job.queries))}
    fields = from_arrow_schema(job.output_schema())
    late = [StructField(LATE, df.schema)] if job.whole else []
    columns = [
        StructField(f.name, own.get(f.name, f.dataType), metadata=notes.get(f.name, {})) for f in fields
    ]
    return StructType([*columns, *late])
