"""Upserts: consumers see the latest revision of each window, whatever is sent again."""

import json
import sqlite3
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

import muntin as mt
from muntin.spark import ParquetTable, SqlTable, fold, replay, window_aggregate
from tests.spark.targets import Parquet, Postgres, Sqlite, rows, with_key

SHOWN = ["car", "query", "window_start", "n", "revision"]


def seen(target):
    return sorted(tuple(row[name] for name in SHOWN) for row in target.table().to_pylist())


def test_updates_retractions_and_batches_sent_again(target):
    first = rows(("a", "s", 1, 8, None, 0, "insert", 2), ("a", "s", 10, 15, None, 0, "insert", 1))
    target.sink.take(first, "x", 0)
    assert seen(target) == [("a", "s", 1, 2, 0), ("a", "s", 10, 1, 0)]
    bridged = rows(
        ("a", "s", 1, 8, None, 1, "retract", None),
        ("a", "s", 10, 15, None, 1, "retract", None),
        ("a", "s", 1, 15, None, 0, "insert", 4),
    )
    for _ in range(2):
        target.sink.take(bridged, "x", 1)
        assert seen(target) == [("a", "s", 1, 4, 0)]
    target.sink.take(first, "x", 0)
    assert seen(target) == [("a", "s", 1, 4, 0)]


def test_the_highest_revision_of_a_batch_holds_in_any_order(target):
    target.sink.take(
        rows(("a", "t", 0, 5, None, 2, "update", 9), ("a", "t", 0, 5, None, 0, "insert", 1)), "x", 0
    )
    assert seen(target) == [("a", "t", 0, 9, 2)]


def test_a_window_with_a_number_is_the_same_wherever_it_lies(target):
    target.sink.take(rows(("a", "c", 0, 5, 7, 0, "insert", 1), (None, "c", 0, 5, 7, 0, "insert", 3)), "x", 0)
    target.sink.take(rows(("a", "c", 2, 4, 7, 1, "update", 2)), "x", 1)
    assert seen_but_null(target) == {("a", 2, 2), (None, 0, 3)}


def seen_but_null(target):
    return {(row["car"], row["window_start"], row["n"]) for row in target.table().to_pylist()}


def test_streams_number_their_batches_by_themselves(target):
    target.sink.take(rows(("a", "t", 0, 5, None, 0, "insert", 1)), "x", 5)
    target.sink.take(rows(("b", "t", 0, 5, None, 0, "insert", 2)), "y", 0)
    assert [row[0] for row in seen(target)] == ["a", "b"]


def test_queries_may_bring_columns(target):
    target.sink.take(rows(("a", "t", 0, 5, None, 0, "insert", 1)), "x", 0)
    target.sink.take(rows(("a", "u", 0, 5, None, 0, "insert", 1), top=[2.5]), "x", 1)
    assert {row["query"]: row["top"] for row in target.table().to_pylist()} == {"t": None, "u": 2.5}


def test_an_empty_batch_writes_nothing(target, tmp_path):
    target.sink.take(rows(), "x", 0)
    assert list(tmp_path.iterdir()) == []


def test_other_rows_are_refused(target):
    with pytest.raises(ValueError, match="no rows of window_aggregate, but of v"):
        target.sink.take(pa.table({"v": [1]}), "x", 0)


def test_columns_in_another_order_are_refused(target):
    made = rows(("a", "t", 0, 5, None, 0, "insert", 1))
    with pytest.raises(ValueError, match=r"after the keys they have query, window_start, .*, in this order"):
        target.sink.take(made.select(["query", "car", *made.column_names[2:]]), "x", 0)
    with pytest.raises(ValueError, match="'window_key' is one that the table adds"):
        target.sink.take(made.rename_columns(["window_key", *made.column_names[1:]]), "x", 0)


LONG = "窓" * 900
AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("key", "other"),
    [
        (Decimal("1.50"), Decimal("1.51")),
        (b"\xff\x00", b"\xff\x01"),
        (LONG, LONG + "窓"),
        (date(2026, 1, 1), date(2026, 1, 2)),
        (AT, AT.replace(microsecond=1)),
        ({"at": AT, "of": b"\xff"}, {"at": AT, "of": b"\xfe"}),
    ],
)
def test_keys_of_all_kinds(target, key, other):
    target.sink.take(pa.concat_tables([with_key(key, 1), with_key(other, 7)]), "x", 0)
    target.sink.take(with_key(key, 2, revision=1), "x", 1)
    assert sorted(row["n"] for row in target.table().to_pylist()) == [2, 7]


def test_a_sum_of_decimals(target):
    target.sink.take(with_key("a", Decimal("1.50")), "x", 0)
    target.sink.take(with_key("a", Decimal("12.75"), revision=1), "x", 1)
    assert [str(row["n"]) for row in target.table().to_pylist()] == ["12.75"]


def test_long_identities_become_digests(tmp_path):
    target = Sqlite(tmp_path)
    target.sink.take(with_key(LONG, 1), "x", 0)
    target.sink.take(with_key(LONG + "窓", 2), "x", 1)
    with sqlite3.connect(target.path) as connection:
        identities = [row[0] for row in connection.execute("SELECT window_key FROM windows")]
    assert [len(identity) for identity in identities] == [64, 64]


def test_the_zone_of_a_session_does_not_matter(target):
    def sent(zone, revision):
        made = rows(("a", "t", 0, 5_000_000, None, revision, "update" if revision else "insert", revision))
        kind = pa.timestamp("us", zone)
        for place, name in ((2, "window_start"), (3, "window_end")):
            made = made.set_column(place, name, made[name].cast(pa.timestamp("us", "UTC")).cast(kind))
        seen_at = pa.array([[datetime(2026, 1, 1, tzinfo=UTC)]], pa.list_(kind))
        return made.append_column("at", seen_at)

    target.sink.take(sent("UTC", 0), "x", 0)
    target.sink.take(sent("Europe/Berlin", 1), "x", 1)
    (row,) = target.table().to_pylist()
    assert row["n"] == 1
    assert str(moment(row["window_end"])) == "1970-01-01 00:00:05+00:00"
    assert "2026-01-01T00:00:00+00:00" in row["at"] or row["at"] == [AT]


# ---- Parquet ----


def test_a_column_that_changes_its_type(tmp_path):
    table = ParquetTable(tmp_path)
    table.take(with_key("a", 1), "x", 0)
    table.take(with_key("b", 2.5), "x", 1)
    assert sorted(table.read()["n"].to_pylist()) == [1.0, 2.5]
    with pytest.raises(
        TypeError, match=r"column 'n' of the table in .* holds double, and now comes as string: rename"
    ):
        table.take(with_key("c", "text"), "x", 2)
    assert table.read().num_rows == 2


def test_a_killed_writer_leaves_the_table_as_it_was(tmp_path, monkeypatch):
    table = ParquetTable(tmp_path)
    table.take(rows(("a", "t", 0, 5, None, 0, "insert", 1)), "x", 0)
    before = table.read()

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            table.take(rows(("a", "t", 0, 5, None, 1, "update", 2)), "x", 1)
    assert table.read().equals(before)
    table.take(rows(("a", "t", 0, 5, None, 1, "update", 2)), "x", 1)
    assert table.read()["n"].to_pylist() == [2]


@pytest.mark.parametrize(
    "content", ["", "{", "{}", "[]", '{"version": 7, "batches": {}}', '{"version": "../x", "batches": {}}']
)
def test_a_damaged_table_says_so(tmp_path, content):
    table = ParquetTable(tmp_path)
    table.take(rows(("a", "s", 1, 8, None, 0, "insert", 2)), "x", 0)
    (tmp_path / "current.json").write_text(content)
    for ask in (table.read, lambda: table.take(rows(("a", "s", 1, 8, None, 1, "update", 3)), "x", 1)):
        with pytest.raises(ValueError, match=r"current\.json is damaged: restore the directory from a copy"):
            ask()
    assert (tmp_path / "current.json").read_text() == content


def test_old_versions_go_but_the_last_one(tmp_path):
    table = ParquetTable(tmp_path)
    for batch in range(5):
        table.take(rows(("a", "t", batch, batch + 5, None, 0, "insert", 1)), "x", batch)
    versions = sorted(tmp_path.glob("*.parquet"))
    assert len(versions) == 2
    assert table.current == versions[-1]
    assert parquet.read_table(versions[0]).num_rows == 4


def test_a_directory_relative_to_where_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = ParquetTable("out/windows")
    table.take(rows(("a", "t", 0, 5, None, 0, "insert", 1)), "x", 0)
    assert table.read()["n"].to_pylist() == [1]
    assert table.current.parent.as_posix() == "out/windows"


def test_no_table_yet(tmp_path):
    with pytest.raises(KeyError, match="no micro-batch was written"):
        ParquetTable(tmp_path).read()


# ---- SQL ----


def test_a_failure_rolls_back(tmp_path):
    target = Sqlite(tmp_path)
    target.sink.take(rows(("a", "t", 0, 5, None, 0, "insert", 1)), "x", 0)
    update = rows(("a", "t", 0, 5, None, 1, "update", 2))
    broken = SqlTable(lambda: Failing(sqlite3.connect(target.path)), "windows")
    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        broken.take(update, "x", 1)
    assert seen(target) == [("a", "t", 0, 1, 0)]


class Failing:
    """A connection on which rows cannot be inserted."""

    def __init__(self, connection):
        self.connection = connection

    def cursor(self):
        return FailingCursor(self.connection.cursor())

    def __getattr__(self, name):
        return getattr(self.connection, name)


class FailingCursor:
    def __init__(self, cursor):
        self.cursor = cursor

    def executemany(self, statement, values):
        if statement.startswith("INSERT"):
            raise sqlite3.OperationalError("disk is full")
        self.cursor.executemany(statement, values)

    def __getattr__(self, name):
        return getattr(self.cursor, name)


def test_values_of_all_kinds(tmp_path):
    target = Sqlite(tmp_path)
    more = {
        "at": [datetime(2026, 1, 1, tzinfo=UTC)],
        "all": [[1, 2]],
        "ok": [True],
        "raw": [b"x"],
        'a "name"': [1.5],
    }
    target.sink.take(rows(("a", "t", 0, 5, None, 0, "insert", 1), **more), "x", 0)
    row = target.table().to_pylist()[0]
    assert row["at"] == "2026-01-01T00:00:00+00:00"
    assert json.loads(row["all"]) == [1, 2]
    assert (row["ok"], row["raw"], row['a "name"']) == (1, b"x", 1.5)


def test_names_of_tables():
    with pytest.raises(ValueError, match="made of letters, digits and _"):
        SqlTable(lambda: None, "windows; DROP TABLE x")


# ---- on Spark ----

QUERIES = [
    mt.sliding("2s", every="1s").agg(top=mt.max("mf01"), name="power"),
    mt.count_tumbling(150).agg(n=mt.count(), name="counted"),
]


def test_a_stream_into_all_tables_equals_the_batch(spark, postgres, tmp_path):
    how = {"seconds": 9, "machines": 2, "seed": 2, "delay": "6s"}
    records = replay(spark, "factory", speed=None, per_batch="4s", **how)
    # A watermark below the delay of records, so that windows are updated.
    windows = window_aggregate(
        records, QUERIES, time="ts", key="machine", watermark="500ms", lateness="10s", buckets=2
    )
    sinks = [Parquet(tmp_path), Sqlite(tmp_path), Postgres(postgres)]
    changes = []

    def write(batch, number):
        batch.persist()
        changes.extend(row.change for row in batch.select("change").collect())
        for target in sinks:
            for _ in range(2):
                target.sink(batch, number)
        batch.unpersist()

    query = (
        windows.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(400)
    passed = datetime.fromisoformat(query.lastProgress["eventTime"]["watermark"])
    assert "update" in changes
    batch = replay(spark, "factory", streaming=False, **how)
    whole = fold(window_aggregate(batch, QUERIES, time="ts", key="machine", buckets=2)).toArrow()
    expected = {
        (r["machine"], r["query"], r["window_end"], r["top"], r["n"])
        for r in whole.to_pylist()
        if r["window_end"] <= passed
    }
    assert 20 < len(expected) < whole.num_rows
    for target in sinks:
        got = {
            (r["machine"], r["query"], moment(r["window_end"]), r["top"], r["n"])
            for r in target.table().to_pylist()
        }
        assert got == expected


def moment(value):
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def test_a_batch_of_no_stream_is_refused(spark, tmp_path):
    with pytest.raises(RuntimeError, match="no micro-batch: give the table to writeStream"):
        ParquetTable(tmp_path)(spark.range(1), 0)
