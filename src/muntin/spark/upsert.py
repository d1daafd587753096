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
import hashlib
import json
import os
import re
import uuid
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame

from muntin.files import write_new, write_whole
from muntin.slicing.output import FIXED
from muntin.spark.identity import BOUNDS, Identities, noted
from muntin.spark.late import refuse_late

IDENTITY = "window_key"  # the column by which rows are told apart
_LONGEST = 400  # characters of an identity; a longer one is replaced by its digest
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
        self.take(batch.toArrow(), stream_of(batch), batch_id, noted(batch.schema))

    def take(
        self, rows: pa.Table, stream: str, batch_id: int, identities: Identities = MappingProxyType({})
    ) -> None:
        """Take in the rows of a micro-batch of a stream; `identities` say what tells windows apart."""
        state = self._state()
        if batch_id <= state["batches"].get(stream, -1) or not rows.num_rows:
            return
        rows = _latest(rows, identities)
        table = _standing(rows)
        if state["version"]:
            kept = self._open(state["version"])
            others = kept.filter(pc.invert(pc.is_in(kept[IDENTITY], rows[IDENTITY].combine_chunks())))
            table = self._joined(others, table)
        state["batches"][stream] = batch_id
        self._switch(table, state)

    def _joined(self, kept: pa.Table, fresh: pa.Table) -> pa.Table:
        """Return both, with a type for each column that holds the values of both."""
        for name in set(kept.column_names) & set(fresh.column_names):
            try:
                pa.concat_tables([kept.select([name]), fresh.select([name])], promote_options="permissive")
            except pa.ArrowException as error:
                was, comes = kept.schema.field(name).type, fresh.schema.field(name).type
                raise TypeError(
                    f"the column {name!r} of the table in {self._directory} is {was} and now comes as "
                    f"{comes}, which do not go together: rename it, or write into another directory."
                ) from error
        return pa.concat_tables([kept, fresh], promote_options="permissive")

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
        path = self._directory / "current.json"
        try:
            state = json.loads(path.read_text())
            version, batches = state["version"], state["batches"]
            if re.fullmatch(r"version-\d{10}-\w+\.parquet", version) is None or not isinstance(batches, dict):
                raise ValueError
        except FileNotFoundError:
            return {"version": None, "batches": {}}
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{path} is damaged: restore the directory from a copy, or write into another one."
            ) from error
        return {"version": version, "batches": batches}

    def _switch(self, table: pa.Table, state: dict[str, Any]) -> None:
        """Write a version beside the current one, then say that it is current; the latter is atomic."""
        self._directory.mkdir(parents=True, exist_ok=True)
        number = int(state["version"].split("-")[1]) + 1 if state["version"] else 0
        # A writer that was killed may have left a file of this number: each has a name of its own.
        state["version"] = f"version-{number:010}-{uuid.uuid4().hex[:8]}.parquet"
        write_new(self._directory / state["version"], lambda file: parquet.write_table(table, file))
        content = json.dumps(state).encode()
        write_whole(self._directory / "current.json", lambda file: file.write(content))
        for old in self._directory.glob("version-*.parquet"):
            if int(old.name.split("-")[1]) <= number - _KEPT:
                old.unlink()


class SqlTable:
    """A table in a SQL database, through a function that opens a DB-API connection.

        SqlTable(lambda: sqlite3.connect("windows.db"), "windows")
        SqlTable(lambda: psycopg.connect("dbname=plant"), "windows", placeholder="%s")

    Tested with SQLite. Other databases should work whose connections follow the DB-API, quote names by the
    standard ("name") and have transactions that cover ALTER TABLE, such as PostgreSQL through psycopg: this
    is untested.

    The table is made with the first micro-batch, and gets more columns as queries come. Rows, and the number
    of the micro-batch (in the table `muntin_batches`), are written in one transaction. Times are stored as
    text, in ISO 8601 and UTC; decimals as text; lists and structs as JSON.
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
        self.take(batch.toArrow(), stream_of(batch), batch_id, noted(batch.schema))

    def take(
        self, rows: pa.Table, stream: str, batch_id: int, identities: Identities = MappingProxyType({})
    ) -> None:
        """Take in the rows of a micro-batch of a stream; `identities` say what tells windows apart."""
        if not rows.num_rows:
            return
        with contextlib.closing(self._connect()) as connection:
            cursor = connection.cursor()
            try:
                if batch_id > self._last_batch(cursor, stream):
                    self._write(cursor, _latest(rows, identities))
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


def _identities(rows: pa.Table, identities: Identities) -> pa.Array:
    """Return what tells windows apart, as text: as their query says, else by a number or by their bounds.

    Times are in ticks, the same in every time zone; a long text is shortened to its digest.

    >>> bounds = {"window_start": [0], "window_end": [5], "window_id": [None]}
    >>> told = {"revision": [0], "change": ["insert"]}
    >>> _identities(pa.table({"car": ["a"], "query": ["q"], **bounds, **told}), {}).to_pylist()
    ['["a", "q", 0, 5]']
    """
    names = rows.column_names
    whose = [_ticks(rows[name]).to_pylist() for name in (*_key_columns(names), "query")]
    bounds = {name: _ticks(rows[name]).to_pylist() for name in BOUNDS if name in names}
    told = []
    for row, owner in enumerate(zip(*whose, strict=True)):
        usual = ("window_start", "window_end") if bounds["window_id"][row] is None else ("window_id",)
        columns = identities.get(owner[-1], usual)
        told.append(_short(_json([*owner, *(bounds[name][row] for name in columns)])))
    return pa.array(told, pa.string())


def _key_columns(names: list[str]) -> list[str]:
    """Return the columns before those that all windows have; ValueError unless the latter are in order."""
    refuse_late(names)
    first = names.index("query") if "query" in names else 0
    fixed = [name for name in names[first:] if name not in ("measure_start", "measure_end")]
    if tuple(fixed[: len(FIXED)]) != FIXED:
        raise ValueError(
            f"these are no rows of window_aggregate, but of {', '.join(names)}: after the keys they have "
            f"{', '.join(FIXED)}, in this order."
        )
    if IDENTITY in names:
        raise ValueError(f"the column {IDENTITY!r} is one that the table adds: give yours another name.")
    return names[:first]


def _ticks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as whole numbers, and other values as they are."""
    timed = pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type)
    return column.cast(pa.int64()) if timed else column


def _short(identity: str) -> str:
    return identity if len(identity) <= _LONGEST else hashlib.sha256(identity.encode()).hexdigest()


def _latest(rows: pa.Table, identities: Identities) -> pa.Table:
    """Return the highest revision of each window, with what tells it apart, and all times in UTC."""
    rows = rows.cast(pa.schema([field.with_type(_in_utc(field.type)) for field in rows.schema]))
    rows = rows.append_column(IDENTITY, _identities(rows, identities))
    frame = pa.table({"identity": rows[IDENTITY], "revision": rows["revision"], "row": np.arange(len(rows))})
    # ascending, so that the last row of each identity is its highest revision
    highest = frame.sort_by("revision").group_by("identity", use_threads=False).aggregate([("row", "last")])
    return rows.take(highest["row_last"].combine_chunks())


def _standing(rows: pa.Table) -> pa.Table:
    """Return the rows that are not retracted, without saying how they came about."""
    standing = rows.filter(pc.not_equal(rows["change"].cast(pa.string()), "retract"))
    return standing.drop_columns(["change"])


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """Return a type with its times in UTC: the zone of a session is no part of what is stored.

    >>> _in_utc(pa.list_(pa.timestamp("us", "Europe/Berlin")))
    ListType(list<item: timestamp[us, tz=UTC]>)
    """
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in kind])
    return kind


def _plain(value: Any) -> Any:
    """Return a value as every database driver takes it."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, (list, dict)):
        return _json(value)
    return str(value) if isinstance(value, (Decimal, timedelta)) else value


def _json(value: Any) -> str:
    """Return a value as JSON, with text for what JSON has no form for.

    >>> _json(["車", Decimal("1.50"), b"x"])
    '["車", "1.50", "78"]'
    """
    return json.dumps(value, ensure_ascii=False, default=_text)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql_type(kind: pa.DataType) -> str:
    named: Iterable[tuple[Callable[[pa.DataType], bool], str]] = (
        (pa.types.is_boolean, "BOOLEAN"),
        (pa.types.is_integer, "BIGINT"),
        (pa.types.is_floating, "DOUBLE PRECISION"),
        (_is_binary, "BYTEA"),  # PostgreSQL's word; SQLite takes any
    )
    return next((name for holds, name in named if holds(kind)), "TEXT")


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )
