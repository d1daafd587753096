"""A file of records (csv, json, parquet) as a recording."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from muntin.generate.arrival import TIME_TYPE, cut_off

FORMATS = (".csv", ".json", ".jsonl", ".parquet")


class Stored:
    """The records of a file, by its time column: a timestamp, or text in ISO 8601.

    >>> import tempfile, pathlib, muntin.generate as gen
    >>> path = pathlib.Path(tempfile.mkdtemp(), "cars.csv")
    >>> _ = path.write_text("ts,speed\\n2026-01-01 00:00:03,2.5\\n2026-01-01 00:00:01,1.5\\n")
    >>> gen.Stored(path, time="ts").between(0, 1_000_000)[0]["speed"].to_pylist()
    [1.5]
    """

    disorder = 0.0

    def __init__(self, path: str | os.PathLike[str], *, time: str) -> None:
        self.time = time
        place = Path(path)
        if place.suffix.lower() not in FORMATS:
            raise ValueError(f"{place} is replayed from a file that ends in {', '.join(FORMATS)}.")
        if not place.is_file():
            raise FileNotFoundError(f"there is no file {place} to replay.")
        found = place.stat()
        # A worker reads a file once, not once a micro-batch; another size or time makes it another file.
        self._table, self._times = _read(str(place), time, found.st_size, found.st_mtime_ns)

    @property
    def length(self) -> int:
        """Return how long it lasts, in microseconds, its last record included."""
        return int(self._times[-1]) + 1 if len(self._times) else 0

    @property
    def schema(self) -> pa.Schema:
        """Return its columns."""
        return self._table.schema

    def between(self, begin: int, end: int) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.int64]]:
        """Return the records of a stretch, in order, with their times since the start and their numbers."""
        first, last = np.searchsorted(self._times, [begin, end])
        table = self._table.slice(first, last - first)
        return table, self._times[first:last], np.arange(first, last)


@lru_cache(maxsize=4)
def _read(path: str, time: str, size: int, modified: int) -> tuple[pa.Table, NDArray[np.int64]]:  # noqa: ARG001
    table = _parsed(path)
    if time not in table.column_names:
        raise ValueError(f"{path} has no column {time!r}; it has {', '.join(table.column_names)}.")
    column = table[time]
    if not (pa.types.is_timestamp(column.type) or pa.types.is_string(column.type)):
        raise TypeError(
            f"{path}: the time column {time!r} holds {column.type}, but the pace needs timestamps."
        )
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise ValueError(f"{path}: the time column {time!r} is null in row {row}.")
    # What says no zone is taken as UTC, as everywhere in muntin.
    stamps = column.cast(pa.timestamp("us")) if pa.types.is_string(column.type) else column
    try:
        stamps = cut_off(stamps, TIME_TYPE)
        table = _in_microseconds(table.set_column(table.column_names.index(time), time, stamps))
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} holds a time that microseconds do not reach: {error}.") from error
    times = stamps.cast(pa.int64()).to_numpy()
    order = np.argsort(times, kind="stable")
    times = times[order]
    return table.take(pa.array(order)), times - (times[0] if len(times) else 0)


def _in_microseconds(table: pa.Table) -> pa.Table:
    """Return a table with all its timestamps in microseconds: Spark has no others."""
    columns = {
        name: cut_off(column, pa.timestamp("us", column.type.tz))
        if pa.types.is_timestamp(column.type)
        else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pa.table(columns)


def _parsed(path: str) -> pa.Table:
    match Path(path).suffix.lower():
        case ".csv":
            from pyarrow import csv

            return csv.read_csv(path)
        case ".parquet":
            from pyarrow import parquet

            return parquet.read_table(path)
        case _:
            from pyarrow import json

            return json.read_json(path)
