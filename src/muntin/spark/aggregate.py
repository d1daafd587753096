"""window_aggregate: from a DataFrame of records to one of windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from muntin.slicing.workload import merges_ahead
from muntin.spark.combining import Combine
from muntin.spark.job import Job, make_job
from muntin.spark.packing import BUCKET, PACKED_DDL, Pack
from muntin.windows.base import Query

_BUCKETS_PER_CORE = 4  # so that an uneven spread over cores stays small


def window_aggregate(
    df: DataFrame,
    queries: Query | Sequence[Query],
    *,
    time: str,
    key: str | Sequence[str] | None = None,
    watermark: Any = None,
    lateness: Any = 0,
    tie: str | None = None,
    buckets: int | None = None,
) -> DataFrame:
    """Compute windows."""
    types = {field.name: field.type for field in to_arrow_schema(df.schema, timezone="UTC")}
    if buckets is None:
        buckets = _BUCKETS_PER_CORE * df.sparkSession.sparkContext.defaultParallelism
    job = make_job(queries, types, time=time, key=key, tie=tie, lateness=lateness, buckets=buckets)
    if not job.keys:
        job = replace(job, buckets=1)
    return _batch(df, replace(job, ahead=all(merges_ahead(q, late=False) for q in job.queries.values())))


def _batch(df: DataFrame, job: Job) -> DataFrame:
    packed = _selected(df, job).mapInArrow(Pack(job, ticks=False), PACKED_DDL)  # type: ignore[arg-type]
    schema = job.output_schema()
    combined = packed.groupBy("bucket").applyInArrow(_function(Combine(job, schema)), _spark_schema(df, job))
    return combined


def _function(combine: Combine) -> Any:
    """Return a plain function: Spark looks at its signature."""

    def rows(packed: Any) -> Any:
        return combine(packed)

    return rows


def _selected(df: DataFrame, job: Job) -> DataFrame:
    """Return the columns that are read, and the bucket of each record."""
    columns = [_column(name).alias(name) for name in job.types]
    bucket = F.lit(0)
    if job.buckets > 1:
        bucket = F.pmod(F.hash(*(_column(name) for name in job.keys)), F.lit(job.buckets))
    return df.select(*columns, bucket.alias(BUCKET))


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _spark_schema(df: DataFrame, job: Job) -> StructType:
    """Return the output columns: those that come from the DataFrame in its own types."""
    own = {name: df.schema[name].dataType for name in job.keys}
    own |= dict.fromkeys(("window_start", "window_end"), df.schema[job.time].dataType)
    fields = from_arrow_schema(job.output_schema())
    return StructType([StructField(f.name, own.get(f.name, f.dataType)) for f in fields])
