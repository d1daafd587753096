"""The windows that were open when a stream stopped: from its checkpoint, as if it had ended there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from muntin.engine import FOREVER
from muntin.engine.state import HEAD, Head, load_parts
from muntin.spark.aggregate import as_function, job_over, rows_schema
from muntin.spark.combining import Bucket, fitted
from muntin.spark.job import Job
from muntin.windows.base import Query


def open_windows(
    df: DataFrame,
    queries: Query | Sequence[Query],
    checkpoint: str | os.PathLike[str],
    *,
    buckets: int,
    time: str | None = None,
    key: str | Sequence[str] | None = None,
    lateness: Any = 0,
    tie: str | None = None,
) -> DataFrame:
    """Return the rows that a stream would give if it ended where its query has stopped.

    `df` is the streaming DataFrame that went into `window_aggregate`, and the other arguments are those that
    it was given; `checkpoint` is the one of the query. The checkpoint is only read: started again, the query
    goes on, and these rows then count for nothing.
    """
    job = job_over(df, queries, time=time, key=key, tie=tie, lateness=lateness, buckets=buckets)
    schema = job.output_schema()
    reader = df.sparkSession.read.format("statestore").option("stateVarName", "parts")
    state = reader.load(os.fspath(checkpoint))
    parts = state.selectExpr("key.bucket", "user_map_key.name", "user_map_value.part")
    return parts.groupBy("bucket").applyInArrow(as_function(Finish(job, schema)), rows_schema(df, job))


@dataclass(frozen=True)
class Finish:
    """All windows of a bucket's state that are still open."""

    job: Job
    schema: pa.Schema

    def __call__(self, state: pa.Table) -> pa.Table:
        """Return the rows of a bucket."""
        parts = dict(zip(state["name"].to_pylist(), state["part"].to_pylist(), strict=True))
        job = self.job.lanes[state["bucket"][0].as_py() // self.job.buckets]
        bucket = Bucket(job, job.engine(empty=True), job.key_table())
        tie = job.types[job.tie] if job.tie else None
        load_parts(Head(parts[HEAD]), parts.get, bucket.engine, bucket.keys, job.queries, tie)
        bucket.engine.types |= job.types
        return fitted(bucket.engine.advance(FOREVER, bucket.keys), self.schema)
