"""A driver that is killed: a stream of files into a file of rows for each micro-batch. See test_faults."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from muntin.spark import local_session, window_aggregate
from tests.spark.test_spark import GRID, SEVENS, VISIT, query_in_ms

SPECS = [GRID, VISIT, SEVENS]


def main(directory: Path) -> None:
    """Process all files, one in each micro-batch."""
    schema = "at timestamp, site string, unit bigint, v double, w bigint, place bigint"
    with local_session("killed", cores=2) as spark:
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
        writer.option("checkpointLocation", str(directory / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
