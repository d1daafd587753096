"""A driver that meets with accidents: a stream of files into a file of rows for each micro-batch.

It tells how many tasks failed, if it gets to its end. See test_faults.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from muntin.spark import local_session, window_aggregate
from tests.spark.test_spark import GRID, SEVENS, VISIT, query_in_ms

SPECS = [GRID, VISIT, SEVENS]
IMPATIENT = {  # give up those who are dead sooner than in a quarter of a minute
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
    "spark.locality.wait": "0",
}


def main(directory: Path, master: str) -> None:
    """Process all files, one in each micro-batch."""
    schema = "at timestamp, site string, unit bigint, v double, w bigint, place bigint"
    with local_session("killed", cores=2, config={"spark.master": master, **IMPATIENT}) as spark:
        source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        out = window_aggregate(
            source.parquet(str(directory / "in")),
            [query_in_ms(spec) for spec in SPECS],
            time="at",
            key=["site", "unit"],
            tie="place",
            watermark="300ms",
            lateness="500ms",
            buckets=3,
        )

        def write(df: DataFrame, number: int) -> None:
            half = directory / "rows" / f"{number}.half"
            pq.write_table(df.toArrow(), half)
            os.replace(half, half.with_suffix(".parquet"))  # again, if the micro-batch is run again

        writer = out.writeStream.foreachBatch(write).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
        query.awaitTermination()
        (directory / "failed_tasks").write_text(str(_failed_tasks(spark, str(query.runId))))


def _failed_tasks(spark: SparkSession, run: str) -> int:
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(run)]
    stages = {stage for job in jobs if job is not None for stage in job.stageIds}
    found = [tracker.getStageInfo(stage) for stage in sorted(stages)]
    return sum(stage.numFailedTasks for stage in found if stage is not None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
