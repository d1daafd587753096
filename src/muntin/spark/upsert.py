"""Sinks for foreachBatch: windows with their updates and retractions become a table of the latest revisions.

    table = ParquetTable("out/windows")
    windows.writeStream.foreachBatch(table).option("checkpointLocation", "out/state").start()
    table.read()

A micro-batch goes in whole or not at all, and one that Spark sends again after a failure changes nothing: the
number of the last one is kept with the rows, for each streaming query (which keeps its identity in its
checkpoint). A query that starts afresh, with a new checkpoint, replaces the rows that it computes anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame

IDENTITY = "window_key"  # the column by which rows are told apart
_KEPT = 2  # versions: a reader who has just looked which one is current may still open it


class ParquetTable:
    """A table in Parquet files in a directory, a new file a micro-batch; readers always find a whole one.

    Each micro-batch rewrites the table on the driver: for tables of some million rows; beyond that, use a
    database. The directory is local or mounted, and has one writer at a time.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Take in a micro-batch."""
        self.take(batch.toArrow(), stream_of(batch), batch_id)

    def take(self, rows: pa.Table, stream: str, batch_id: int) -> None:
        """Take in the rows of a micro-batch of a stream."""
        state = self._state()
        if batch_id <= state["batches"].get(stream, -1) or not rows.num_rows:
            return
        rows = _latest(rows)
        table = _standing(rows)
        if state["version"]:
            kept = self._open(state["version"])
            others = kept.filter(pc.invert(pc.is_in(kept[IDENTITY], rows[IDENTITY].combine_chunks())))
            table = pa.concat_tables([others, table], promote_options="default")
        state["batches"][stream] = batch_id
        self._switch(table, state)

    def read(self) -> pa.Table:
        """Return the table as it stands; KeyError if nothing was written yet."""
        return self._open(self.current.name).drop_columns([IDENTITY])

    @property
    def current(self) -> Path:
        """Return the file that holds the table as it stands, as for `spark.read.parquet(str(...))`."""
        version: str | None = self._state()["version"]
        if not version:
            raise KeyError(f"there is no table in {self._directory} yet: no micro-batch was written.")
        return self._directory / version

    def _open(self, version: str) -> pa.Table:
        return parquet.read_table(self._directory / version)

    def _state(self) -> dict[str, Any]:
        """Return which version is current, and the last micro-batch of each stream."""
        try:
            state: dict[str, Any] = json.loads((self._directory / "current.json").read_text())
        except FileNotFoundError:
            return {"version": None, "batches": {}}
        return state

    def _switch(self, table: pa.Table, state: dict[str, Any]) -> None:
        """Write a version beside the current one, then say that it is current; the latter is atomic."""
        self._directory.mkdir(parents=True, exist_ok=True)
        number = int(state["version"].split("-")[1]) + 1 if state["version"] else 0
        # A writer that was killed may have left a file of this number: each has a name of its own.
        state["version"] = f"version-{number:010}-{uuid.uuid4().hex[:8]}.parquet"
        parquet.write_table(table, self._directory / state["version"])
        _sync(self._directory / state["version"])
        pending = self._directory / "current.json.pending"
        pending.write_text(json.dumps(state))
        _sync(pending)
        os.replace(pending, self._directory / "current.json")
        for old in self._directory.glob("version-*.parquet"):
            if int(old.name.split("-")[1]) <= number - _KEPT:
                old.unlink()


class SqlTable:
    """A table in a SQL database, through a function that opens a DB-API connection.

        SqlTable(lambda: sqlite3.connect("windows.db"), "windows")
        SqlTable(lambda: psycopg.connect("dbname=plant"), "windows", placeholder="%s")

    The table is made with the first micro-batch, and gets more columns as queries come. Rows, and the number
    of the micro-batch (in the table `muntin_batches`), are written in one transaction. Times are text in
    ISO 8601 where the database has no type for them; lists and structs are JSON.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        table: str,
        *,
        placeholder: Literal["?", "%s"] = "?",
    ) -> None:
        if not re.fullmatch(r"\w+(\.\w+)*", table):
            raise ValueError(f"the name of a table is made of letters, digits and _, not {table!r}.")
        self._connect, self._table, self._placeholder = connect, table, placeholder

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Take in a micro-batch."""
        self.take(batch.toArrow(), stream_of(batch), batch_id)

    def take(self, rows: pa.Table, stream: str, batch_id: int) -> None:
        """Take in the rows of a micro-batch of a stream."""
        if not rows.num_rows:
            return
        with contextlib.closing(self._connect()) as connection:
            cursor = connection.cursor()
            try:
                if batch_id > self._last_batch(cursor, stream):
                    self._write(cursor, _latest(rows))
                    self._execute(
                        cursor, "DELETE FROM muntin_batches WHERE stream = ? AND target = ?", stream
                    )
                    self._execute(cursor, "INSERT INTO muntin_batches VALUES (?, ?, ?)", stream, batch_id)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def _last_batch(self, cursor: Any, stream: str) -> int:
        self._execute(
            cursor,
            "CREATE TABLE IF NOT EXISTS muntin_batches "
            "(stream VARCHAR(64), target VARCHAR(200), batch BIGINT, PRIMARY KEY (stream, target))",
        )
        self._execute(cursor, "SELECT batch FROM muntin_batches WHERE stream = ? AND target = ?", stream)
        found = cursor.fetchone()
        return int(found[0]) if found else -1

    def _execute(self, cursor: Any, statement: str, stream: str | None = None, *more: Any) -> None:
        values = () if stream is None else (stream, self._table, *more)
        cursor.execute(statement.replace("?", self._placeholder), values)

    def _write(self, cursor: Any, rows: pa.Table) -> None:
        self._make_columns(cursor, rows.schema)
        gone = f"DELETE FROM {self._table} WHERE {IDENTITY} = {self._placeholder}"
        cursor.executemany(gone, [(identity,) for identity in rows[IDENTITY].to_pylist()])
        standing = _standing(rows)
        if standing.num_rows:
            names = ", ".join(_quoted(name) for name in standing.column_names)
            marks = ", ".join([self._placeholder] * standing.num_columns)
            columns = [[_plain(value) for value in column.to_pylist()] for column in standing.columns]
            statement = f"INSERT INTO {self._table} ({names}) VALUES ({marks})"
            cursor.executemany(statement, list(zip(*columns, strict=True)))

    def _make_columns(self, cursor: Any, schema: pa.Schema) -> None:
        """Make the table, or the columns that it lacks."""
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({IDENTITY} VARCHAR(500) PRIMARY KEY)")
        cursor.execute(f"SELECT * FROM {self._table} WHERE 1 = 0")
        there = {column[0] for column in cursor.description}
        for field in schema:
            if field.name not in there:
                cursor.execute(
                    f"ALTER TABLE {self._table} ADD COLUMN {_quoted(field.name)} {_sql_type(field.type)}"
                )


# ---- rows ----


def stream_of(batch: DataFrame) -> str:
    """Return the identity of the streaming query that a micro-batch comes from: it outlives restarts."""
    stream = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if stream is None:
        raise RuntimeError("this DataFrame is no micro-batch: give the table to writeStream.foreachBatch.")
    return stream


def _identities(rows: pa.Table) -> pa.Array:
    """Return what tells windows apart, as text: its number where it has one, else its bounds.

    >>> bounds = {"window_start": [0], "window_end": [5], "window_id": [None]}
    >>> _identities(pa.table({"car": ["a"], "query": ["q"], **bounds})).to_pylist()
    ['["a", "q", 0, 5]']
    """
    names = rows.column_names
    if "query" not in names or "window_id" not in names:
        raise ValueError(f"these are no rows of window_aggregate, but of {', '.join(names)}.")
    keys = names[: names.index("query")]
    measured = ("measure_start", "measure_end")
    bounds = measured if measured[0] in names else ("window_start", "window_end")
    columns = [[_plain(v) for v in rows[name].to_pylist()] for name in (*keys, "query", *bounds, "window_id")]
    return pa.array(
        [
            json.dumps([*whose, start, end] if number is None else [*whose, number])
            for *whose, start, end, number in zip(*columns, strict=True)
        ],
        pa.string(),
    )


def _latest(rows: pa.Table) -> pa.Table:
    """Return the highest revision of each window, with what tells it apart."""
    rows = rows.append_column(IDENTITY, _identities(rows))
    frame = pa.table({"identity": rows[IDENTITY], "revision": rows["revision"], "row": np.arange(len(rows))})
    # ascending, so that the last row of each identity is its highest revision
    highest = frame.sort_by("revision").group_by("identity", use_threads=False).aggregate([("row", "last")])
    return rows.take(highest["row_last"].combine_chunks())


def _standing(rows: pa.Table) -> pa.Table:
    """Return the rows that are not retracted, without saying how they came about."""
    standing = rows.filter(pc.not_equal(rows["change"].cast(pa.string()), "retract"))
    return standing.drop_columns(["change"])


def _plain(value: Any) -> Any:
    """Return a value as every database driver takes it."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, (list, dict)):
        return json.dumps(value, default=str)
    return value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql_type(kind: pa.DataType) -> str:
    named: Iterable[tuple[Callable[[pa.DataType], bool], str]] = (
        (pa.types.is_boolean, "BOOLEAN"),
        (pa.types.is_integer, "BIGINT"),
        (pa.types.is_floating, "DOUBLE PRECISION"),
        (pa.types.is_timestamp, "TIMESTAMP"),
        (pa.types.is_binary, "BLOB"),
    )
    return next((name for holds, name in named if holds(kind)), "TEXT")


def _sync(path: Path) -> None:
    """Wait until a file is on disk, so that no crash leaves a name without its content."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
