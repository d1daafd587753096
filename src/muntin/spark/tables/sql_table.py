"""A table of windows in a SQL database, each value as it is: what a column would not hold is refused."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame

from muntin.spark.identity import Identities, noted
from muntin.spark.tables.kinds import check_names, kind_of, mismatch, sort_of
from muntin.spark.tables.upsert import IDENTITY, Changes, as_json, changes_of, stream_of

# The kinds of columns are kept beside the table: drivers have no common way to ask for the type of a column.
_BATCHES = (
    "CREATE TABLE IF NOT EXISTS muntin_batches "
    "(stream VARCHAR(64), target VARCHAR(200), batch BIGINT, PRIMARY KEY (stream, target))"
)
_COLUMNS = (
    "CREATE TABLE IF NOT EXISTS muntin_columns "
    "(target VARCHAR(200), name VARCHAR(200), kind VARCHAR(100), PRIMARY KEY (target, name))"
)
_SQL_TYPES = {
    "boolean": "BOOLEAN",
    "integer": "BIGINT",
    "double": "DOUBLE PRECISION",
    "binary": "BYTEA",  # PostgreSQL's word; SQLite takes any
}
_ADVICE = "rename it, or write into another table"
_LARGEST = 2**63 - 1
Kinds = Mapping[str, str]  # of columns, by name


class SqlTable:
    """A table in a SQL database, through a function that opens a DB-API connection.

        SqlTable(lambda: sqlite3.connect("windows.db"), "windows")
        SqlTable(lambda: psycopg.connect("dbname=plant"), "windows", placeholder="%s")

    Tested with SQLite, and with PostgreSQL through psycopg. Other databases should work whose connections
    follow the DB-API, quote names by the standard ("name") and have transactions that cover ALTER TABLE.

    The table is made with the first micro-batch, and gets more columns as queries come. Rows, and the number
    of the micro-batch (in the table `muntin_batches`), are written in one transaction. Integers are stored as
    BIGINT, floats as DOUBLE PRECISION, flags as BOOLEAN; times as text, in ISO 8601 and UTC; decimals as
    text; lists and structs as JSON.

    Each value is stored as it is. A column keeps the kind of values with which it was first written (the
    table `muntin_columns` says which): a micro-batch that brings another kind, such as floats where there
    are integers, or a value that the database would change, is refused whole, with an error that names the
    column. Integers go into a column of floats as long as they are the same there.
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
        changes = changes_of(rows, identities)
        with contextlib.closing(self._connect()) as connection:
            cursor = connection.cursor()
            try:
                if batch_id > self._last_batch(cursor, stream):
                    _begin(connection, cursor)
                    self._write(cursor, changes)
                    self._note_batch(cursor, stream, batch_id)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    @property
    def _place(self) -> str:
        return f"the table {self._table}"

    def _run(self, cursor: Any, statement: str, *values: Any) -> None:
        cursor.execute(statement.replace("?", self._placeholder), values)

    def _last_batch(self, cursor: Any, stream: str) -> int:
        cursor.execute(_BATCHES)
        cursor.execute(_COLUMNS)
        statement = "SELECT batch FROM muntin_batches WHERE stream = ? AND target = ?"
        self._run(cursor, statement, stream, self._table)
        found = cursor.fetchone()
        return int(found[0]) if found else -1

    def _note_batch(self, cursor: Any, stream: str, batch_id: int) -> None:
        self._run(cursor, "DELETE FROM muntin_batches WHERE stream = ? AND target = ?", stream, self._table)
        self._run(cursor, "INSERT INTO muntin_batches VALUES (?, ?, ?)", stream, self._table, batch_id)

    def _write(self, cursor: Any, changes: Changes) -> None:
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {self._table} ({IDENTITY} VARCHAR(500) PRIMARY KEY)")
        there = self._kinds(cursor)
        standing = changes.standing
        coming = {field.name: kind_of(field.type) for field in standing.schema}
        self._check_kinds(there, coming, changes.fixed)
        kinds = coming | there
        columns = {
            name: self._values(cursor, standing[name], name, kind)
            for name, kind in kinds.items()
            if name in coming and kind != "null"  # no kind yet, so no column
        }
        self._add_columns(cursor, {name: kinds[name] for name in columns if name not in there})
        gone = f"DELETE FROM {self._table} WHERE {IDENTITY} = {self._placeholder}"
        cursor.executemany(gone, [(identity,) for identity in changes.windows.to_pylist()])
        if standing.num_rows:
            names = ", ".join(self._in_statement(_quoted(name)) for name in columns)
            marks = ", ".join([self._placeholder] * len(columns))
            statement = f"INSERT INTO {self._table} ({names}) VALUES ({marks})"
            cursor.executemany(statement, list(zip(*columns.values(), strict=True)))

    def _in_statement(self, text: str) -> str:
        """Return text as it stands in a statement with placeholders."""
        return text.replace("%", "%%") if self._placeholder == "%s" else text

    # ---- columns and their kinds ----

    def _names(self, cursor: Any) -> list[str]:
        cursor.execute(f"SELECT * FROM {self._table} WHERE 1 = 0")
        return [column[0] for column in cursor.description]

    def _kinds(self, cursor: Any) -> dict[str, str]:
        """Return the kinds of the columns that are there; `unknown` of those that somebody else has made."""
        self._run(cursor, "SELECT name, kind FROM muntin_columns WHERE target = ?", self._table)
        known = {IDENTITY: "text", **dict(cursor.fetchall())}
        return {name: known.get(name, "unknown") for name in self._names(cursor)}

    def _check_kinds(self, there: Kinds, coming: Kinds, fixed: Iterable[str]) -> None:
        """Refuse values that columns do not hold, as far as kinds tell."""
        check_names(dict.fromkeys([*there, *coming]), self._place)
        for name, comes in coming.items():
            was = there.get(name, "null")
            if was == comes or "null" in (was, comes):
                continue
            if was == "unknown":
                advice = f"SqlTable did not make it, and so cannot tell what it holds; {_ADVICE}"
                raise TypeError(mismatch(name, self._place, "values of an unknown kind", comes, advice))
            if name in fixed:
                advice = "windows are told apart by it, so cast it, or write into another table"
                raise TypeError(mismatch(name, self._place, was, comes, advice))
            if sort_of(was) != sort_of(comes) and (was, comes) != ("double", "integer"):
                raise TypeError(mismatch(name, self._place, was, comes, _ADVICE))

    def _values(self, cursor: Any, column: pa.ChunkedArray, name: str, kind: str) -> list[Any]:
        """Return values as drivers take them; ValueError if the column would change one of them."""
        values = [_plain(value) for value in column.to_pylist()]
        numbers = [value for value in values if value is not None]
        changed, advice = [], _ADVICE
        if kind == "integer":
            changed = [v for v in numbers if v > _LARGEST]
        elif kind == "double" and pa.types.is_integer(column.type):
            changed = [v for v in numbers if int(float(v)) != v]
            values = [None if v is None else float(v) for v in values]
        elif kind == "double":
            changed = [v for v in numbers if math.isnan(v)]
            if changed and self._holds_nan(cursor):
                changed = []
            advice = "leave such windows out with having=, or use a database that keeps NaN"
        if changed:
            comes = f"{kind_of(column.type)} with the value {changed[0]}, which would be changed"
            raise ValueError(mismatch(name, self._place, kind, comes, advice))
        return values

    def _holds_nan(self, cursor: Any) -> bool:
        """Tell whether the database keeps NaN: SQLite makes it NULL."""
        self._run(cursor, "SELECT CAST(? AS DOUBLE PRECISION)", math.nan)
        return cursor.fetchone()[0] is not None

    def _add_columns(self, cursor: Any, kinds: Kinds) -> None:
        for name, kind in kinds.items():
            column = f"{_quoted(name)} {_SQL_TYPES.get(kind, 'TEXT')}"
            cursor.execute(f"ALTER TABLE {self._table} ADD COLUMN {column}")
            self._run(cursor, "DELETE FROM muntin_columns WHERE target = ? AND name = ?", self._table, name)
            self._run(cursor, "INSERT INTO muntin_columns VALUES (?, ?, ?)", self._table, name, kind)
        lost = kinds.keys() - self._names(cursor)
        if lost:
            raise ValueError(f"the database does not keep the name {min(lost)!r} of a column: shorten it.")


def _begin(connection: Any, cursor: Any) -> None:
    """Begin a transaction, and refuse a connection that has none.

    A statement about rows does so, even if there are none: sqlite3 does not take CREATE and ALTER for one.
    """
    cursor.execute("DELETE FROM muntin_batches WHERE 1 = 0")
    by_itself = getattr(connection, "autocommit", False) is True
    if by_itself or getattr(connection, "in_transaction", True) is False:
        raise ValueError(
            "the connection commits each statement by itself, so that half of a micro-batch could go in: "
            "connect without autocommit."
        )


def _plain(value: Any) -> Any:
    """Return a value as every database driver takes it."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, (list, dict)):
        return as_json(value)
    return str(value) if isinstance(value, (Decimal, timedelta)) else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
