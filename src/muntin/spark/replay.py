"""replay: a file or a generator as a Spark source, at a chosen pace and with bounded disorder."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import time as clock
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from muntin.generate import GENERATORS, Arrivals, Recording, Stored
from muntin.generate.arrival import MICROSECONDS
from muntin.windows.durations import Duration

FORMAT = "muntin_replay"
# What the source itself understands; `generator` holds arguments of a generator, as JSON. All other options
# are handed to it, too: in lower case, as Spark gives them, and as numbers where they look like some.
_OWN = ("source", "time", "speed", "disorder", "delay", "seed", "per_batch", "parts", "generator")


def replay(
    spark: SparkSession,
    source: str | os.PathLike[str],
    *,
    time: str | None = None,
    speed: float | None = 1.0,
    disorder: float | None = None,
    delay: str = "2s",
    seed: int = 0,
    per_batch: str | None = None,
    parts: int | None = None,
    streaming: bool = True,
    **generator: Any,
) -> DataFrame:
    """Return a file (csv, json, parquet; with its `time` column) or a generator as a DataFrame.

    A generator is "football", "factory", or one's own as "module:class" (see `muntin.generate.Recording`); it
    is made with the remaining arguments, which are what JSON can hold, and the seed.

    - `speed`: seconds of the recording in a second of real time; None: as fast as it is read.
    - `disorder`: the share of records that come up to `delay` late. Generators have 0.2, files none.
    - `per_batch`: how much of the recording a micro-batch takes at most; needed without a speed, unless all
      of it may come in the first micro-batch.
    - `parts`: how many tasks read a micro-batch; as many as there are cores, if not said.
    - `streaming=False` gives all at once, in the order in which records arrive within each part.

    A query that is restarted from its checkpoint gets the same records, and the pace goes on from there.

        cars = replay(spark, "cars.csv", time="ts", speed=60, disorder=0.1, delay="5s")
        match = replay(spark, "football", seconds=600, hertz=20, speed=10)
    """
    register(spark)
    own = {
        "time": time,
        "speed": "max" if speed is None else speed,
        "disorder": disorder,
        "delay": delay,
        "seed": seed,
        "per_batch": per_batch,
        "parts": spark.sparkContext.defaultParallelism if parts is None else parts,
    }
    # Spark makes the source in a process of its own, where what is wrong ends in a long report: look first.
    options = {name: str(value) for name, value in own.items() if value is not None}
    options |= {"source": os.fspath(source), "generator": _encoded(generator)}
    _Settings(options)
    reader = spark.readStream if streaming else spark.read
    return reader.format(FORMAT).options(**options).load()


def register(spark: SparkSession) -> None:
    """Make the format `muntin_replay` known to a session, for `spark.readStream.format("muntin_replay")`."""
    spark.dataSource.register(ReplaySource)


class _Settings:
    """The options of a source, read and checked."""

    def __init__(self, options: Mapping[str, str]) -> None:
        options = {name.lower(): value for name, value in options.items()}
        if "source" not in options:
            raise ValueError(f"{FORMAT} needs the option source: a file, or one of {', '.join(GENERATORS)}.")
        seed = int(options.get("seed", "0"))
        share = options.get("disorder")
        self.arrivals = Arrivals(
            _recording(options, seed),
            disorder=None if share is None else float(share),
            delay=options.get("delay", "2s"),
            seed=seed,
        )
        pace = options.get("speed", "1")
        self.speed = None if pace == "max" else float(pace)
        if self.speed is not None and not self.speed > 0:
            raise ValueError(f"speed is above zero, or 'max' (in Python: None), not {pace}.")
        most = options.get("per_batch")
        self.per_batch = Duration.of(most, "per_batch").ticks(MICROSECONDS, "per_batch") if most else None
        self.parts = int(options.get("parts", "1"))
        if self.parts < 1:
            raise ValueError(f"parts is at least 1, not {self.parts}.")
        self.end = self.arrivals.length + 1  # a record may arrive at the very last moment


def _recording(options: Mapping[str, str], seed: int) -> Recording:
    """Return what is replayed: a generator by its name or its class, or a file."""
    source = options["source"]
    module, _, name = source.partition(":")
    others = {k: _number(v) for k, v in options.items() if k not in _OWN}
    others |= json.loads(options.get("generator", "{}"))
    if source in GENERATORS:
        made: Any = GENERATORS[source]
    elif name and module.replace(".", "").isidentifier():
        made = getattr(importlib.import_module(module), name)
    else:
        if "time" not in options:
            raise ValueError(
                f"replay of {source!r} needs its time column, as in time='ts'; without a file it is one of "
                f"{', '.join(map(repr, GENERATORS))}, or one's own as 'module:class'."
            )
        if others:
            raise TypeError(f"replay of a file does not know {', '.join(others)}.")
        return Stored(source, time=options["time"])
    recording: Recording = made(**others, seed=seed)
    return recording


def _encoded(arguments: Mapping[str, Any]) -> str:
    """Return arguments as one option, which keeps their types and the case of their names."""
    for name, value in arguments.items():
        try:
            json.dumps(value)
        except TypeError as error:
            raise TypeError(
                f"the argument {name} of a generator is {value!r}, but goes to workers as JSON: "
                "give numbers, text, or lists and dictionaries of them."
            ) from error
    return json.dumps(arguments)


def _number(text: str) -> int | float | str:
    """Return an argument of a generator that came as an option of its own, which is text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class ReplaySource(DataSource):
    """The format `muntin_replay`."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` calls it."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the recording."""
        return from_arrow_schema(_Settings(self.options).arrivals.recording.schema)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Return who reads all of it at once."""
        return _BatchReader(dict(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return who reads it stretch by stretch."""
        return _StreamReader(dict(self.options))


class _BatchReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        settings = _Settings(self._options)
        return _split(0, settings.end, settings.parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _stretch(self._options, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are moments of arrival, in microseconds since the start of the recording."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._settings = _Settings(options)
        self._began: tuple[float, int] | None = None  # a moment of real time, and how far it had come then
        self._ignores_pace = False

    def __getstate__(self) -> dict[str, Any]:
        """Workers are sent the options, not a table of records."""
        return {"_options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._options = state["_options"]

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"arrived": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._ignores_pace = True  # all of a recording is there now

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, ARG002
        """Return how far the recording has come: by real time, by what a micro-batch may take, to its end."""
        settings, here = self._settings, start["arrived"]
        reached = settings.end
        if settings.speed is not None and not self._ignores_pace:
            now = clock.monotonic()
            if self._began is None:
                self._began = now, here
            moment, had_come = self._began
            reached = min(reached, had_come + int((now - moment) * 1e6 * settings.speed))
        if settings.per_batch is not None:
            reached = min(reached, here + settings.per_batch)
        return {"arrived": max(reached, here)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return _split(start["arrived"], end["arrived"], self._settings.parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _stretch(self._options, partition)


def _split(begin: int, end: int, parts: int) -> list[InputPartition]:
    edges = [begin + (end - begin) * k // parts for k in range(parts + 1)]
    return [InputPartition((a, b)) for a, b in itertools.pairwise(edges) if a < b]


def _stretch(options: dict[str, str], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    begin, end = partition.value
    table = _Settings(options).arrivals.between(begin, end)
    return iter(table.combine_chunks().to_batches())
