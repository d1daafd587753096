"""The batches of a pipeline's source as a Spark source: each is a micro-batch, its number the offset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from muntin.cli.pipeline.sources import Source, Stretch

FORMAT = "muntin_batches"


def as_frame(spark: SparkSession, source: Source, *, streaming: bool) -> DataFrame:
    """Return the records of a source as a DataFrame."""
    spark.dataSource.register(BatchSource)
    reader = spark.readStream if streaming else spark.read
    return reader.format(FORMAT).option("source", json.dumps(source.described())).load()


class BatchSource(DataSource):
    """The format `muntin_batches`."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` calls it."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns that are read."""
        return from_arrow_schema(_source(self.options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Return who reads all of it at once."""
        return _Reader(dict(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return who reads it batch by batch."""
        return _StreamReader(dict(self.options))


def _source(options: Any) -> Source:
    return Source.from_description(json.loads(options["source"]))


class _Partitions:
    """What both readers share: a task for each part of a batch."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._batches = len(_source(options).batches)

    def between(self, first: int, last: int) -> list[InputPartition]:
        batches = _source(self._options).batches[first:last]
        return [InputPartition(tuple(stretch)) for batch in batches for stretch in batch]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        table = _source(self._options).read_stretch(Stretch(*partition.value))
        return iter(table.combine_chunks().to_batches())


class _Reader(_Partitions, DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return self.between(0, self._batches)


class _StreamReader(_Partitions, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """All of a finite source is there."""

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, ARG002
        """Return the next batch, one at a time."""
        return {"batch": min(start["batch"] + 1, self._batches)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return self.between(start["batch"], end["batch"])
