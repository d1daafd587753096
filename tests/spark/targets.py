"""Tables that fold, as tests write and read them."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.rows import dict_row

from muntin.spark import ParquetTable, SqlTable


def rows(*some: tuple, **more: list) -> pa.Table:
    """Windows: (car, query, start, end, id, revision, change, n)."""
    names = ["car", "query", "window_start", "window_end", "window_id", "revision", "change", "n"]
    types = [pa.string(), pa.string(), *[pa.int64()] * 4, pa.string(), pa.int64()]
    columns = zip(*some, strict=True) if some else [[] for _ in names]
    made = {n: pa.array(list(c), t) for n, c, t in zip(names, columns, types, strict=True)}
    return pa.table(made | {name: pa.array(values) for name, values in more.items()})


def with_key(key: Any, n: Any, revision: int = 0) -> pa.Table:
    """A window of a key of any type, with an aggregate of any type: values, or arrays of one."""
    made = rows(("a", "t", 0, 5, None, revision, "update" if revision else "insert", 1))
    key, n = (value if isinstance(value, pa.Array) else pa.array([value]) for value in (key, n))
    return made.set_column(0, "car", key).set_column(7, "n", n)


class Parquet:
    """Files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.sink = ParquetTable(folder / "table")

    def table(self) -> pa.Table:
        return self.sink.read()


class Sql:
    """A table in a database; what came without a column of its own is not there."""

    sink: SqlTable

    def select(self, statement: str) -> list[dict[str, Any]]:
        raise NotImplementedError

    def table(self) -> pa.Table:
        found = self.select("SELECT * FROM windows")
        return pa.Table.from_pylist([{k: v for k, v in row.items() if k != "window_key"} for row in found])


class Sqlite(Sql):
    """A file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "table.db"
        self.sink = SqlTable(self.connect, "windows")

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path)

    def select(self, statement: str) -> list[dict[str, Any]]:
        with self.connect() as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(statement)]


class Postgres(Sql):
    """A schema of its own on a server."""

    def __init__(self, dsn: str) -> None:
        schema = f"s{uuid.uuid4().hex}"
        with psycopg.connect(dsn) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        self.dsn = f"{dsn} options='-c search_path={schema}'"
        self.sink = SqlTable(self.connect, "windows", placeholder="%s")

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.dsn)

    def select(self, statement: str) -> list[dict[str, Any]]:
        with psycopg.connect(self.dsn, row_factory=dict_row) as connection:
            return connection.execute(statement).fetchall()
