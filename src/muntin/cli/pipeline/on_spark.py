"""A pipeline on Spark: a batch job without a watermark, else a stream with Spark's own checkpoint."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from muntin.cli.pipeline.config import Pipeline
from muntin.cli.pipeline.outlets import Outlet
from muntin.cli.pipeline.sources import Source
from muntin.cli.pipeline.states import State
from muntin.cli.reports import Counts, Report
from muntin.console.mistakes import MistakeError, full_disk, one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_CONDITION = re.compile(r"\[(?!STREAM_FAILED)[A-Z_.]+\] [^\n]*")  # an error of Spark's, by name
_LONGEST = 300  # characters
BUCKETS = 4  # over which keys are spread; a checkpoint holds to it
_POLL = 0.2  # seconds
_USERS = re.compile(
    r"^(?:ValueError|TypeError|KeyError|OverflowError|muntin\.\S*?(?:Mistake|Snapshot)Error): (.+)$", re.M
)


class SparkRun:
    """A pipeline in a session."""

    operator = None  # workers have them

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        source: Source | None,
        state: State,
        outlet: Outlet,
        report: Report,
    ) -> None:
        self._spark, self._pipeline, self._source = spark, pipeline, source
        self._state, self._outlet, self._report = state, outlet, report
        self.counts = Counts(of=None if source is None else len(source.batches))
        self._told = -1  # the last micro-batch that was counted
        done = 0 if pipeline.watermark is None else state.committed()  # else, all is computed at once
        outlet.begin(after=done)
        if state.resumes and pipeline.watermark is not None:
            self.counts.batches = done
            report.resumed(self.counts)

    def run(self, interrupted: threading.Event) -> bool:
        """Process what is left; tell whether it came to its end."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            run = self._batch if self._pipeline.watermark is None else self._stream
            return run(interrupted)
        except (PySparkException, Py4JJavaError) as error:
            raise self._users(error) from error

    def _users(self, error: Exception) -> Exception:
        """Return what a user can put right, if that is what Spark's long report is about."""
        said = str(error)
        if full_disk(error):
            return MistakeError("No space left on device")
        if "Failed to find" in said and "kafka" in said:
            return MistakeError(
                "Kafka needs Spark's connector: set PYSPARK_SUBMIT_ARGS='--packages "
                "org.apache.spark:spark-sql-kafka-0-10_2.13:<version of pyspark> pyspark-shell'."
            )
        found = _USERS.findall(said)
        if found:
            return MistakeError(f"{self._pipeline.path}: {found[-1].strip()}")
        if self._state.resumes and not self._outlet.steps:  # what it read so far is the checkpoint
            return self._state.cannot_be_read(_reason(said))
        return error

    def _arguments(self) -> dict[str, Any]:
        p = self._pipeline
        return {"time": p.time, "key": list(p.key), "lateness": p.lateness, "tie": p.tie, "buckets": BUCKETS}

    def _windows(self, df: DataFrame, **more: Any) -> DataFrame:
        from muntin.spark import window_aggregate

        try:
            return window_aggregate(df, self._pipeline.queries, **self._arguments(), **more)
        except (ValueError, TypeError, KeyError) as error:
            raise MistakeError(f"{self._pipeline.path}: {one_line(error)}") from error

    def _batch(self, interrupted: threading.Event) -> bool:
        from muntin.cli.pipeline.spark_source import as_frame

        assert self._source is not None
        df = as_frame(self._spark, self._source, streaming=False)
        out = self._windows(df)
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(out.toArrow)
            while not asked.done() and not interrupted.wait(_POLL):
                pass
            if not asked.done():
                self._spark.sparkContext.cancelAllJobs()
                return False
            rows = asked.result()
        self._outlet.write(0, rows)
        self.counts.windows, self.counts.batches = rows.num_rows, len(self._source.batches)
        self.counts.records = df.count()
        return True

    def _stream(self, interrupted: threading.Event) -> bool:
        df = self._records()
        # A record without a time is a mistake in a file, as for the embedded engine; Kafka may bring some.
        null_time = "drop" if self._source is None else "fail"
        out = self._windows(df, watermark=self._pipeline.watermark, null_time=null_time)
        writer = out.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._state.spark))
        if self._source is not None:
            writer = writer.trigger(availableNow=True)
        query = writer.start()
        try:
            while query.isActive and not interrupted.wait(_POLL):
                self._tell(query)
        finally:
            query.stop()
        self._tell(query)
        failure = query.exception()
        if failure is not None and not interrupted.is_set():
            raise failure
        if self._source is None or interrupted.is_set():
            return False
        self._finish(df)
        return True

    def _records(self) -> DataFrame:
        from muntin.cli.pipeline.spark_source import as_frame

        if self._source is not None:
            return as_frame(self._spark, self._source, streaming=True)
        from pyspark.sql import functions as sf

        spec = self._pipeline.source
        raw = self._spark.readStream.format("kafka").options(**spec["options"]).load()
        schema = ", ".join(f"`{name}` {_DDL.get(kind, kind)}" for name, kind in spec["types"].items())
        return raw.select(sf.from_json(raw.value.cast("string"), schema).alias("r")).select("r.*")

    def _take(self, batch: DataFrame, number: int) -> None:
        self._outlet.write(number, batch.toArrow())

    def _finish(self, df: DataFrame) -> None:
        """Add the windows that are open at the end: a number above all gives them a place of their own."""
        from muntin.spark.finishing import open_windows

        rows = open_windows(df, self._pipeline.queries, self._state.spark, **self._arguments()).toArrow()
        self._outlet.write(self._state.committed(), rows)
        self.counts.windows += rows.num_rows

    def _tell(self, query: StreamingQuery) -> None:
        """Count what micro-batches have done since the last time."""
        from muntin.spark.progress import read_progress

        fresh = [p for p in query.recentProgress if p["batchId"] > self._told]
        for progress in fresh:
            metrics = read_progress(json.loads(progress.json))
            self._told = metrics.batch
            self.counts.records += metrics.rows
            self.counts.windows += int(metrics.observed.get("muntin.windows_emitted") or 0)
            self.counts.late += int(metrics.observed.get("muntin.late_dropped") or 0)
            self.counts.null_times += int(metrics.observed.get("muntin.null_times") or 0)
            self.counts.watermark = None if metrics.watermark is None else metrics.watermark.isoformat(" ")
            offset = progress["sources"][0]["endOffset"]
            if self._source is not None and offset:
                self.counts.batches = int(json.loads(offset)["batch"])
            self._report.step(self.counts)


def _reason(said: str) -> str:
    """Return the shortest account of a failure that Spark gives: that of its innermost error, by name."""
    named = _CONDITION.findall(said)
    return one_line(ValueError(named[-1] if named else said.partition("=== Streaming Query")[0]))[:_LONGEST]


_DDL = {
    "bool": "boolean",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "date32": "date",
}
