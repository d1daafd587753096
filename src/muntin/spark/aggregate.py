"""window_aggregate: from a DataFrame of records to one of windows; features: what is known at each record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from muntin import feature_rows
from muntin.engine.plan import merges_ahead
from muntin.feature_rows import Closed
from muntin.settings import time_and_key
from muntin.spark.columns import Columns, quoted
from muntin.spark.combining import Combine, Unpack
from muntin.spark.identity import identities_of, note
from muntin.spark.job import Job, NullTime, make_job
from muntin.spark.late import LATE, late_field
from muntin.spark.packing import PACKED_DDL, Pack
from muntin.spark.processor import COUNTERS, STEP_DDL, WindowProcessor
from muntin.windows.base import Query
from muntin.windows.durations import Duration

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
    null_time: NullTime | None = None,
    metrics: str = "muntin",
) -> DataFrame:
    """Compute windows of a batch or streaming DataFrame: one row per window, and one per correction.

    Rows have the key columns, `query`, `window_start`, `window_end`, `window_id`, `revision`, `change`, and a
    column per aggregate. In batch nothing is late, and each window comes out once. Names of columns, also in
    expressions, `where` and `having`, are resolved as Spark does: upper and lower case are the same, unless
    `spark.sql.caseSensitive` is set. Key columns come out as they are typed here.

    A stream needs a `watermark`, the delay of `DataFrame.withWatermark`, unless `df` has one on its time
    column already. Records that are late by no more than `lateness` still correct windows that came out, by
    rows with a higher `revision`: write the stream in append mode, and `fold` what was written. Update mode
    gives the very same rows, none of them folded, and complete mode is refused by Spark. How many records
    were too late is in the progress of the streaming query, under `observedMetrics["muntin"]`, or another
    name given as `metrics`: a streaming query with two sets of windows needs two. To have the records, too,
    set `keep_late` and write with `foreachBatch(split_late(...))`; they then go over the network whole, and
    are not merged before.

    A record whose time is null has no place in any window. With `null_time="drop"`, as streams have it unless
    told otherwise, such records are left out, and counted as `null_times` beside those that were too late;
    with `null_time="fail"`, as batches have it, they end the job with an error that names the column.

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
    if null_time not in (None, *get_args(NullTime)):
        raise ValueError(f"null_time is 'fail' or 'drop', not {null_time!r}.")
    job = job_over(df, queries, time=time, key=key, tie=tie, lateness=lateness, buckets=buckets)
    ahead = all(merges_ahead(query, late=df.isStreaming) for query in job.queries.values())
    whole = Columns(df).types() if keep_late and df.isStreaming else {}
    ahead = ahead and not whole and not job.own_objects()
    null_time = null_time or ("drop" if df.isStreaming else "fail")
    job = replace(job, ahead=ahead, whole=whole, null_time=null_time)
    return _stream(df, job, watermark, metrics) if df.isStreaming else _batch(df, job)


def job_over(
    df: DataFrame,
    queries: Query | Sequence[Query],
    *,
    time: str | None,
    key: str | Sequence[str] | None,
    **more: Any,
) -> Job:
    """Return the job for columns of a DataFrame; refuse what it lacks, and names that Spark would confuse."""
    columns = Columns(df)
    listed = [queries] if isinstance(queries, Query) else list(queries)
    time, keys = time_and_key([query for query in listed if isinstance(query, Query)], time, key)
    job = make_job(columns.with_having(listed, keys), columns.type_of, time=time, key=keys, **more)
    columns.check_output(job)
    return job if job.keys else replace(job, buckets=1)


def _default_buckets(df: DataFrame) -> int:
    """Return several buckets per core, or per partition of state: an uneven spread then matters little.

    Cores come and go. A stream must find its state again, so it goes by what is set for the session.
    """
    if df.isStreaming:
        return min(_BUCKETS_EACH * int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1), 64)
    return _BUCKETS_EACH * df.sparkSession.sparkContext.defaultParallelism


def _batch(df: DataFrame, job: Job) -> DataFrame:
    packed = _selected(df, job).mapInArrow(as_function(Pack(job, ticks=False)), PACKED_DDL)
    combine = as_function(Combine(job, job.output_schema()))
    return packed.groupBy("bucket").applyInArrow(combine, rows_schema(df, job))


def _stream(df: DataFrame, job: Job, watermark: Any, metrics: str) -> DataFrame:
    df, delay = _with_watermark(df, job, watermark)
    job, schema = replace(job, delay=delay), job.output_schema()
    if job.whole:
        schema = schema.append(late_field(job.whole))
    packed = _selected(df, job).mapInArrow(as_function(Pack(job, ticks=True)), PACKED_DDL)
    steps = packed.groupBy("bucket").transformWithStateInPandas(
        WindowProcessor(job, schema), STEP_DDL, outputMode="append", timeMode="eventTime"
    )
    counted = steps.observe(metrics, *(sf.sum(name).alias(name) for name in COUNTERS))
    return counted.select("rows").mapInArrow(as_function(Unpack(schema)), rows_schema(df, job))


def _with_watermark(df: DataFrame, job: Job, watermark: Any) -> tuple[DataFrame, int]:
    """Return the stream with a watermark on its time column, and the delay in ticks."""
    # The watermark is the least of all in a streaming query, and the windows to come have no time yet.
    if "TransformWithStateInPySpark" in df._jdf.queryExecution().analyzed().toString():
        raise ValueError(
            "windows of windows in one streaming query would wait for each other for ever: write the first "
            "ones to files, and make the second ones in a streaming query that reads these."
        )
    field = Columns(df).field(job.time)
    known = field.metadata.get("spark.watermarkDelayMs")
    if known is not None:
        if watermark is not None:
            raise ValueError(f"the DataFrame has a watermark on {job.time!r} already: leave out watermark=.")
        return df, int(known) * job.clock_ticks
    if watermark is None:
        raise ValueError("a stream needs a watermark, the longest delay of a record: watermark='10 seconds'.")
    if not pa.types.is_timestamp(job.types[job.time]):
        raise TypeError(f"Spark's watermarks need timestamps, but {job.time!r} is {job.types[job.time]}.")
    delay = Duration.of(watermark, "watermark", least=0).ticks(job.clock, "watermark")
    if delay % job.clock_ticks:
        raise ValueError(f"Spark's watermarks are in milliseconds: {watermark!r} is no whole number of them.")
    return df.withWatermark(quoted(field.name), f"{delay // job.clock_ticks} milliseconds"), delay


def as_function(work: Callable[[Any], Any]) -> Any:
    """Return a plain function: Spark looks at the signature of what it is given."""

    def run(given: Any) -> Any:
        return work(given)

    return run


def _selected(df: DataFrame, job: Job) -> DataFrame:
    """Return the columns that are read, in the job's order, and the bucket of each record.

    They have names of no meaning: mapInArrow looks columns up by their names, as if these had no dots or
    backticks, and fails where one column is named twice in different cases.
    """
    columns = [sf.col(quoted(name)).alias(f"column{k}") for k, name in enumerate(job.columns)]
    bucket = sf.lit(0)
    if job.buckets > 1:
        bucket = sf.pmod(sf.hash(*(sf.col(quoted(name)) for name in job.keys)), sf.lit(job.buckets))
    return df.select(*columns, bucket.alias("bucket"))


def rows_schema(df: DataFrame, job: Job) -> StructType:
    """Return the output columns: those that come from the DataFrame in its own types."""
    there = Columns(df)
    own = {name: there.field(name).dataType for name in job.keys}
    if pa.types.is_timestamp(job.types[job.time]):
        own |= dict.fromkeys(("window_start", "window_end"), there.field(job.time).dataType)
    notes = {"query": note(identities_of(job.queries))}
    fields = from_arrow_schema(job.output_schema())
    late = [StructField(LATE, df.schema)] if job.whole else []
    columns = [
        StructField(f.name, own.get(f.name, f.dataType), metadata=notes.get(f.name, {})) for f in fields
    ]
    return StructType([*columns, *late])


def features(
    df: DataFrame,
    features: Mapping[str, Query],
    *,
    time: str,
    key: str | Sequence[str] | None = None,
    closed: Closed = "right",
    tie: str | None = None,
) -> DataFrame:
    """Return a batch DataFrame with a further column for each feature, as `mt.features` does with tables.

    Rows come in any order, and so do those of a key with equal times, unless `tie` names a column that
    settles it. The records of several keys are handled together, those of one never apart. The features of a
    stream are rows of `window_aggregate(df, mt.features.queries(...))`.

    >>> import muntin as mt
    >>> calls = [(1, "a", 3.0), (4, "a", 8.0), (2, "b", 5.0)]
    >>> told = spark.createDataFrame(calls, "ts long, who string, v double")
    >>> wanted = {"total": mt.rolling(10).agg(mt.sum("v"))}
    >>> sorted((row.ts, row.total) for row in features(told, wanted, time="ts", key="who").collect())
    [(1, 3.0), (2, 5.0), (4, 11.0)]
    """
    if df.isStreaming:
        raise ValueError(
            "features() takes a batch DataFrame: for a stream, give mt.features.queries(...) to "
            "window_aggregate."
        )
    columns = Columns(df)
    keys = [columns.field(name).name for name in ([key] if isinstance(key, str) else key or ())]
    compute = FeatureRows(
        dict(features),
        columns.field(time).name,
        tuple(keys),
        closed,
        None if tie is None else columns.field(tie).name,
    )
    empty = pa.schema(list(columns.types().items())).empty_table()
    made = from_arrow_schema(compute(empty).schema)
    schema = StructType([*df.schema.fields, *made.fields[len(df.schema.fields) :]])
    buckets = sf.lit(_BUCKETS_EACH * df.sparkSession.sparkContext.defaultParallelism if keys else 1)
    bucket = sf.pmod(sf.hash(*(sf.col(quoted(name)) for name in keys)), buckets) if keys else sf.lit(0)
    return df.groupBy(bucket.alias("bucket")).applyInArrow(as_function(compute), schema)


@dataclass(frozen=True)
class FeatureRows:
    """Computes the features of the records of some keys, in a worker."""

    features: Mapping[str, Query]
    time: str
    key: tuple[str, ...]
    closed: Closed
    tie: str | None

    def __call__(self, records: pa.Table) -> pa.Table:
        """Return the records with their features."""
        given: dict[str, Any] = {"time": self.time, "key": self.key, "closed": self.closed, "tie": self.tie}
        rows: pa.Table = feature_rows.features(records, self.features, **given)
        return rows
