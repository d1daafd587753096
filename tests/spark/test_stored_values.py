"""Values in tables that fold: stored as they are, or the micro-batch is refused whole."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyarrow import parquet

from muntin.spark import ParquetTable, SqlTable
from tests.spark.targets import Parquet, Postgres, Sqlite, rows, with_key

Target = Parquet | Sqlite | Postgres
Database = Sqlite | Postgres
BIG = 2**53 + 1  # the first integer that no float is equal to
STAMP = pa.timestamp("us", "UTC")


def array(value: Any, kind: pa.DataType) -> pa.Array:
    return pa.array([value], kind)


def stored(target: Target) -> list[Any]:
    """The aggregates of all windows, in the order of their keys."""
    return [row["n"] for row in sorted(target.table().to_pylist(), key=lambda row: str(row["car"]))]


def contents(target: Target) -> Any:
    """All that a table is made of."""
    if isinstance(target, Parquet):
        return target.sink.current, target.table().to_pylist()
    tables = ("windows", "muntin_batches", "muntin_columns")
    columns = [list(row) for row in target.select("SELECT * FROM windows")[:1]]
    return columns, [sorted(map(str, target.select(f"SELECT * FROM {table}"))) for table in tables]


def refused(target: Target, batch: pa.Table, was: str, comes: str, column: str = "n") -> None:
    """A micro-batch that also brings a column and a window that could go in."""
    before = contents(target)
    place = "the table in .*" if isinstance(target, Parquet) else "the table windows"
    told = f"the column '{column}' of {place} holds {re.escape(was)}, and now comes as {re.escape(comes)}"
    with pytest.raises((TypeError, ValueError), match=told):
        target.sink.take(batch.append_column("more", pa.array([1.0] * len(batch))), "x", 99)
    assert contents(target) == before


# ---- in all tables ----


def test_floats_where_integers_were(database: Database) -> None:
    database.sink.take(with_key("a", 1), "x", 0)
    refused(database, with_key("b", 1.5), "integer", "double")
    refused(database, with_key("b", 2.0), "integer", "double")  # by its type, not by chance
    assert stored(database) == [1]


def test_integers_where_floats_were(target: Target) -> None:
    target.sink.take(with_key("a", 0.5), "x", 0)
    target.sink.take(with_key("b", 2**53), "x", 1)
    target.sink.take(with_key("c", array(None, pa.int64())), "x", 2)
    assert stored(target) == [0.5, 2.0**53, None]
    comes = (
        "int64" if isinstance(target, Parquet) else f"integer with the value {BIG}, which would be changed"
    )
    batch = with_key("d", BIG)
    before = contents(target)
    with pytest.raises((TypeError, ValueError), match=f"holds double, and now comes as {comes}: rename it"):
        target.sink.take(batch, "x", 3)
    assert contents(target) == before


def test_floats_where_integers_were_in_files(tmp_path: Path) -> None:
    target = Parquet(tmp_path)
    target.sink.take(with_key("a", 2**53), "x", 0)
    target.sink.take(with_key("b", 0.5), "x", 1)
    assert stored(target) == [2.0**53, 0.5]
    other = Parquet(tmp_path / "other")
    other.sink.take(with_key("a", BIG), "x", 0)
    refused(other, with_key("b", 0.5), "int64", "double")


def test_integers_beyond_64_bits(target: Target) -> None:
    target.sink.take(with_key("a", array(5, pa.uint64())), "x", 0)
    target.sink.take(with_key("b", array(-(2**63), pa.int64())), "x", 1)
    assert stored(target) == [5, -(2**63)]
    before = contents(target)
    with pytest.raises((TypeError, ValueError), match=r"column 'n' of the table.* and now comes as"):
        target.sink.take(with_key("c", array(2**64 - 1, pa.uint64())), "x", 2)
    assert contents(target) == before


@pytest.mark.parametrize(
    ("was", "comes"),
    [
        (array("12", pa.string()), array(12, pa.int64())),
        (array(12, pa.int64()), array("12", pa.string())),
        (array(0.5, pa.float64()), array("0.5", pa.string())),
        (array(True, pa.bool_()), array(1, pa.int64())),
        (array(1, pa.int64()), array(True, pa.bool_())),
        (array(Decimal("1.1"), pa.decimal128(38, 1)), array(1.1, pa.float64())),
        (array(1.1, pa.float64()), array(Decimal("1.1"), pa.decimal128(38, 1))),
        (array("a", pa.string()), array(b"a", pa.binary())),
        (array(0, STAMP), array(0, pa.timestamp("us"))),
        (array(0, pa.timestamp("us")), array(0, STAMP)),
        (array(0, pa.date32()), array(0, STAMP)),
        (array([1], pa.list_(pa.int64())), array({"a": 1}, pa.struct({"a": pa.int64()}))),
    ],
    ids=lambda array: str(array.type),
)
def test_values_of_another_kind(target: Target, was: pa.Array, comes: pa.Array) -> None:
    target.sink.take(with_key("a", was), "x", 0)
    before = contents(target)
    with pytest.raises(TypeError, match=r"column 'n' of the table .* holds .*, and now comes as .*: rename"):
        target.sink.take(with_key("b", comes), "x", 1)
    assert contents(target) == before
    target.sink.take(with_key("b", pa.nulls(1)), "x", 1)
    assert stored(target)[1] is None


def test_decimals_of_more_digits(target: Target) -> None:
    whole = Decimal("123456789012345678901234567890123456.5")
    target.sink.take(with_key("a", array(whole, pa.decimal128(38, 1))), "x", 0)
    target.sink.take(with_key("b", array(Decimal("0.25"), pa.decimal128(38, 2))), "x", 1)
    assert [Decimal(n) for n in stored(target)] == [whole, Decimal("0.25")]
    finer = with_key("c", array(Decimal("0.001"), pa.decimal128(38, 3)))
    if isinstance(target, Parquet):  # 36 digits before the point and 3 after it
        assert target.table().schema.field("n").type == pa.decimal128(38, 2)
        refused(target, finer, "decimal128(38, 2)", "decimal128(38, 3)")
    else:
        target.sink.take(finer, "x", 2)
        assert stored(target)[2] == "0.001"


def test_times_in_finer_units(target: Target) -> None:
    target.sink.take(with_key("a", array(1_500_000, STAMP)), "x", 0)
    target.sink.take(with_key("b", array(1_500_000_001, pa.timestamp("ns", "UTC"))), "x", 1)
    found = [n if isinstance(n, str) else n.isoformat() for n in stored(target)]
    assert found[0].startswith("1970-01-01T00:00:01.500000")
    assert found[1] == "1970-01-01T00:00:01.500000001+00:00"


def test_windows_are_the_same_in_every_unit_of_time(target: Target) -> None:
    def sent(unit: str, ticks: int, revision: int) -> pa.Table:
        made = rows(("a", "t", 0, ticks, None, revision, "update" if revision else "insert", revision))
        for place, name in ((2, "window_start"), (3, "window_end")):
            made = made.set_column(place, name, made[name].cast(pa.timestamp(unit, "UTC")))
        return made

    target.sink.take(sent("us", 5_000_000, 0), "x", 0)
    target.sink.take(sent("ms", 5_000, 1), "x", 1)
    target.sink.take(sent("ns", 5_000_000_000, 2), "x", 2)
    assert stored(target) == [2]


@pytest.mark.parametrize(
    ("was", "comes"),
    [
        (array(1, pa.int64()), array(1.0, pa.float64())),
        (array(Decimal("1.5"), pa.decimal128(5, 1)), array(Decimal("1.50"), pa.decimal128(5, 2))),
        (array("1", pa.string()), array(1, pa.int64())),
    ],
    ids=["integer", "decimal", "text"],
)
def test_keys_of_another_kind(target: Target, was: pa.Array, comes: pa.Array) -> None:
    """The same window would be there twice."""
    target.sink.take(with_key(was, 1), "x", 0)
    before = contents(target)
    with pytest.raises(TypeError, match=r"column 'car' of .*: windows are told apart by it, so cast it, or"):
        target.sink.take(with_key(comes, 2, revision=1), "x", 1)
    assert contents(target) == before


def test_columns_that_are_null_at_first(target: Target) -> None:
    nothing = with_key("a", pa.nulls(1)).append_column("later", pa.nulls(1))
    target.sink.take(nothing, "x", 0)
    target.sink.take(with_key("b", 1.5).append_column("later", pa.array(["x"])), "x", 1)
    target.sink.take(with_key("c", 2.5).append_column("later", pa.nulls(1)), "x", 2)
    found = {row["car"]: (row["n"], row["later"]) for row in target.table().to_pylist()}
    assert found == {"a": (None, None), "b": (1.5, "x"), "c": (2.5, None)}


def test_names_that_differ_only_in_case(target: Target) -> None:
    target.sink.take(with_key("a", 1), "x", 0)
    before = contents(target)
    shouted = with_key("b", 2).rename_columns([*with_key("b", 2).column_names[:-1], "N"])
    with pytest.raises(ValueError, match="would have the columns 'n' and 'N', whose names differ only in"):
        target.sink.take(shouted, "x", 1)
    assert contents(target) == before
    with pytest.raises(ValueError, match="would have the columns 'n' and 'N', whose names differ only in"):
        target.sink.take(with_key("b", 2).append_column("N", pa.array([1])), "x", 1)
    assert contents(target) == before


def test_how_a_row_came_about_is_no_column(target: Target) -> None:
    target.sink.take(rows(("a", "t", 0, 5, None, 0, "insert", 1)), "x", 0)
    names = ["car", "query", "window_start", "window_end", "window_id", "revision", "n"]
    assert sorted(target.table().column_names) == sorted(names)


# ---- in databases ----


def test_numbers_that_are_none(database: Database) -> None:
    both = pa.concat_tables([with_key("a", math.inf), with_key("b", -math.inf)])
    database.sink.take(both, "x", 0)
    assert stored(database) == [math.inf, -math.inf]
    if isinstance(database, Postgres):
        database.sink.take(with_key("c", math.nan), "x", 1)
        assert math.isnan(stored(database)[2])
    else:
        refused(database, with_key("c", math.nan), "double", "double with the value nan, which would be ch")


def test_json_is_valid_whatever_numbers_it_has(database: Database) -> None:
    values = [math.nan, math.inf, -math.inf, 0.5]
    database.sink.take(with_key("a", {"n": values, "m": BIG}), "x", 0)

    def invalid(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    (found,) = stored(database)
    assert json.loads(found, parse_constant=invalid) == {"n": ["NaN", "Infinity", "-Infinity", 0.5], "m": BIG}
    if isinstance(database, Postgres):
        assert database.select("SELECT n::json->>'m' AS m FROM windows") == [{"m": str(BIG)}]


def test_the_types_of_columns_in_postgresql(postgres: str) -> None:
    database = Postgres(postgres)
    more = {"ok": [True], "part": [0.5], "raw": [b"x"], "at": [datetime(2026, 1, 1, tzinfo=UTC)]}
    more |= {"took": [timedelta(seconds=1)], "sum": [Decimal("1.50")], "all": [[1, 2]]}
    database.sink.take(rows(("a", "t", 0, 5, None, 0, "insert", 1), **more), "x", 0)
    types = database.select(
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_name = 'windows' AND table_schema = current_schema"
    )
    found = {row["column_name"]: row["data_type"] for row in types}
    numbers = dict.fromkeys(("window_start", "window_end", "window_id", "revision", "n"), "bigint")
    texts = dict.fromkeys(("car", "query", "at", "took", "sum", "all"), "text")
    others = {"ok": "boolean", "part": "double precision", "raw": "bytea", "window_key": "character varying"}
    assert found == numbers | texts | others
    (row,) = database.select("SELECT * FROM windows")
    assert (row["ok"], row["part"], bytes(row["raw"])) == (True, 0.5, b"x")
    assert (row["at"], row["took"]) == ("2026-01-01T00:00:00+00:00", "0:00:01")
    assert (row["sum"], row["all"]) == ("1.50", "[1, 2]")


def test_signs_in_names(database: Database) -> None:
    made = with_key("a", 1)
    for _ in range(2):
        name = '100 % of "it"?'
        database.sink.take(made.append_column(name, pa.array([1.5])), "x", 0)
        assert database.select("SELECT * FROM windows")[0][name] == 1.5


def test_a_name_that_the_database_cuts(postgres: str) -> None:
    database = Postgres(postgres)
    database.sink.take(with_key("a", 1), "x", 0)
    before = contents(database)
    with pytest.raises(ValueError, match=r"does not keep the name 'nnn+' of a column: shorten it"):
        database.sink.take(with_key("b", 1).append_column("n" * 64, pa.array([1])), "x", 1)
    assert contents(database) == before


def test_a_column_that_somebody_else_has_made(database: Database) -> None:
    database.sink.take(with_key("a", 1), "x", 0)
    with database.connect() as connection:
        connection.execute("ALTER TABLE windows ADD COLUMN note INTEGER")
    database.sink.take(with_key("b", 2), "x", 1)
    assert stored(database) == [1, 2]
    before = contents(database)
    batch = with_key("c", 3).append_column("note", pa.array([1.5]))
    with pytest.raises(
        TypeError, match=r"column 'note' of .* of an unknown kind, .*SqlTable did not make it"
    ):
        database.sink.take(batch, "x", 2)
    assert contents(database) == before


def test_a_table_that_was_dropped_is_made_anew(database: Database) -> None:
    database.sink.take(with_key("a", 1), "x", 0)
    with database.connect() as connection:
        connection.execute("DROP TABLE windows")
    database.sink.take(with_key("a", 1.5), "x", 1)
    assert stored(database) == [1.5]
    refused(database, with_key("b", "text"), "double", "text")


def test_connections_that_commit_by_themselves(postgres: str, tmp_path: Path) -> None:
    one, other = Sqlite(tmp_path), Postgres(postgres)
    for target, sink in (
        (one, SqlTable(lambda: sqlite3.connect(one.path, isolation_level=None), "windows")),
        (other, SqlTable(lambda: psycopg.connect(other.dsn, autocommit=True), "windows", placeholder="%s")),
    ):
        target.sink.take(with_key("a", 1), "x", 0)
        before = contents(target)
        with pytest.raises(
            ValueError, match=r"commits each statement by itself.* connect without autocommit"
        ):
            sink.take(with_key("a", 2, revision=1), "x", 1)
        assert contents(target) == before


class Breaking:
    """A connection on which rows cannot be inserted."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def cursor(self) -> Any:
        cursor = self.connection.cursor()

        class Cursor:
            def executemany(self, statement: str, values: Any) -> None:
                if statement.startswith("INSERT"):
                    raise OSError("the disk is full")
                cursor.executemany(statement, values)

            def __getattr__(self, name: str) -> Any:
                return getattr(cursor, name)

        return Cursor()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


def test_a_failure_leaves_no_column_behind(database: Database) -> None:
    database.sink.take(with_key("a", 1), "x", 0)
    before = contents(database)
    place = "%s" if isinstance(database, Postgres) else "?"
    broken = SqlTable(lambda: Breaking(database.connect()), "windows", placeholder=place)
    with pytest.raises(OSError, match="the disk is full"):
        broken.take(with_key("a", 2, revision=1).append_column("more", pa.array([1.0])), "x", 1)
    assert contents(database) == before


def test_a_first_micro_batch_that_is_refused_leaves_no_table(tmp_path: Path) -> None:
    database = Sqlite(tmp_path)
    with pytest.raises(ValueError, match="with the value nan"):
        database.sink.take(with_key("a", math.nan), "x", 0)
    assert [
        row["name"] for row in database.select("SELECT name FROM sqlite_master WHERE name = 'windows'")
    ] == []


# ---- in files ----


def test_structs_that_gain_a_field(tmp_path: Path) -> None:
    target = Parquet(tmp_path)
    target.sink.take(with_key("a", {"low": 1}), "x", 0)
    target.sink.take(with_key("b", {"low": 0.5, "high": 2}), "x", 1)
    assert stored(target) == [{"low": 1.0, "high": None}, {"low": 0.5, "high": 2}]
    refused(target, with_key("c", {"low": "1"}), "struct<low: double, high: int64>", "struct<low: string>")
    lists = Parquet(tmp_path / "lists")
    lists.sink.take(with_key("a", [BIG]), "x", 0)
    refused(lists, with_key("b", [0.5]), "list<element: int64>", "list<item: double>")


def test_rows_of_the_embedded_engine(tmp_path: Path) -> None:
    """They have dictionaries where those of Spark have texts."""
    made = rows(("a", "t", 0, 5, None, 0, "insert", 1))
    coded = made.set_column(1, "query", made["query"].dictionary_encode())
    coded = coded.set_column(6, "change", made["change"].dictionary_encode())
    table = ParquetTable(tmp_path)
    table.take(coded, "x", 0)
    table.take(rows(("b", "t", 0, 5, None, 0, "insert", 2)), "x", 1)
    assert sorted(table.read()["n"].to_pylist()) == [1, 2]
    assert parquet.read_schema(table.current).field("query").type == pa.string()
