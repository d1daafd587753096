"""The time column and the key of a statement: taken where none is given, not contradicted in silence."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

import muntin as mt
from muntin.spark.job import make_job
from muntin.techniques import Naive, Stream, UnsupportedWorkload

BY_CAR = "SELECT car, SUM(v) AS s FROM TUMBLE(cars, ts, 10) GROUP BY car, window_start"
BY_BOTH = "SELECT car, lane, SUM(v) AS s FROM TUMBLE(cars, ts, 10) GROUP BY car, lane, window_start"
BY_NONE = "SELECT SUM(v) AS s FROM TUMBLE(cars, ts, 10)"
UNTIMED = "SELECT car, SUM(v) AS s FROM cars [RANGE 10] GROUP BY car"
RECORDS = {"ts": [1, 2], "at": [1, 12], "car": ["a", "b"], "lane": [1, 2], "v": [1, 2]}
FUNCTION = mt.tumbling(10).agg(s=mt.sum("v"))


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows without their query's name."""
    return sorted(table.drop_columns("query").to_pylist(), key=str)


def test_queries_know_what_they_are_written_for_and_equal_those_of_functions() -> None:
    (query,) = mt.sql(BY_BOTH)
    assert query == FUNCTION
    assert (query.time, query.key) == ("ts", ("car", "lane"))
    assert (FUNCTION.time, FUNCTION.key) == (None, None)
    assert [q.key for q in mt.sql(BY_NONE)] == [()]
    assert [q.time for q in mt.sql(UNTIMED)] == [None]
    again = pickle.loads(pickle.dumps(query))
    assert (again.time, again.key) == ("ts", ("car", "lane"))


def test_a_key_may_be_one_column_as_everywhere() -> None:
    query = mt.Query(FUNCTION.window, FUNCTION.aggregates, key="car")
    assert query.key == ("car",)
    assert mt.aggregate(RECORDS, query, time="ts").column_names[0] == "car"


def test_time_and_key_are_those_of_the_statement() -> None:
    want = rows(mt.aggregate(RECORDS, FUNCTION, time="ts", key="car"))
    assert [row["car"] for row in want] == ["a", "b"]
    assert rows(mt.aggregate(RECORDS, mt.sql(BY_CAR))) == want
    assert rows(mt.aggregate(RECORDS, mt.sql(BY_CAR), time="ts")) == want
    assert rows(mt.aggregate(RECORDS, mt.sql(BY_CAR), key="car")) == want
    assert rows(mt.aggregate(RECORDS, mt.sql(BY_CAR), time="ts", key=["car"])) == want
    assert rows(mt.aggregate(RECORDS, mt.sql(UNTIMED), time="ts")) == want
    op = mt.WindowOperator(mt.sql(BY_CAR))
    parts = [op.process(RECORDS, columns="needed"), op.finish(columns="needed")]
    assert rows(pa.concat_tables(parts)) == want


def test_a_statement_without_group_by_has_no_key() -> None:
    assert "car" not in mt.aggregate(RECORDS, mt.sql(BY_NONE)).column_names
    assert mt.aggregate(RECORDS, mt.sql(BY_NONE), key=[]).column("s").to_pylist() == [3]


def test_the_order_of_key_columns_is_the_given_one() -> None:
    assert mt.aggregate(RECORDS, mt.sql(BY_BOTH)).column_names[:2] == ["car", "lane"]
    given = mt.aggregate(RECORDS, mt.sql(BY_BOTH), key=["lane", "car"])
    assert given.column_names[:2] == ["lane", "car"]


def test_queries_of_functions_go_by_the_statement_beside_them() -> None:
    peak = mt.session(5).agg(peak=mt.max("v"), name="peaks")
    table = mt.aggregate(RECORDS, [peak, *mt.sql(BY_CAR)])
    assert {row["car"] for row in table.to_pylist() if row["query"] == "peaks"} == {"a", "b"}


NAMED = f"INSERT INTO sums {BY_CAR}"
CONTRADICTIONS: list[tuple[str, dict[str, Any], str]] = [
    (NAMED, {"key": "lane"}, "query 'sums' groups by 'car', but the key of the stream is 'lane'"),
    (NAMED, {"key": []}, "query 'sums' groups by 'car', but the key of the stream is no column"),
    (
        NAMED,
        {"key": ["car", "lane"]},
        "query 'sums' groups by 'car', but the key of the stream is 'car', 'lane'",
    ),
    (
        BY_NONE,
        {"key": "car"},
        r"the query tumbling\(10\).agg\(.*\) groups by no column, but the key of the stream is 'car'",
    ),
    (NAMED, {"time": "at"}, "query 'sums' takes its time from 'ts', but the time of the stream is 'at'"),
    (
        NAMED,
        {"time": mt.PROCESSING_TIME},
        "query 'sums' takes its time from 'ts', but the time of the stream is PROCESSING_TIME",
    ),
]


@pytest.mark.parametrize(("text", "given", "said"), CONTRADICTIONS)
def test_what_contradicts_a_statement_is_refused(text: str, given: dict[str, Any], said: str) -> None:
    said = rf"^{said}: they must be the same\.$"
    with pytest.raises(ValueError, match=said):
        mt.WindowOperator(mt.sql(text), **given)
    with pytest.raises(ValueError, match=said):
        mt.aggregate(RECORDS, mt.sql(text), **given)


def test_statements_of_different_streams_are_not_for_one_operator() -> None:
    both = mt.sql(NAMED) + mt.sql(BY_BOTH.replace("SELECT", "CREATE VIEW lanes AS SELECT", 1))
    said = "query 'lanes' groups by 'car', 'lane', but the key of query 'sums' is 'car'"
    with pytest.raises(ValueError, match=said):
        mt.WindowOperator(both)
    with pytest.raises(ValueError, match="the key of the stream is 'car'"):
        mt.WindowOperator(both, key="car")
    times = mt.sql(NAMED) + mt.sql(f"INSERT INTO later {BY_CAR.replace('ts', 'at')}")
    said = "query 'later' takes its time from 'at', but the time of query 'sums' is 'ts'"
    with pytest.raises(ValueError, match=said):
        mt.WindowOperator(times)


def test_without_any_time_column_it_is_asked_for() -> None:
    for queries in (FUNCTION, mt.sql(UNTIMED)):
        for make in (mt.WindowOperator, lambda queries: mt.aggregate(RECORDS, queries)):
            with pytest.raises(
                TypeError, match=r"^the time column is missing: give time=, as in time='ts'\.$"
            ):
                make(queries)


def test_a_query_that_is_added_fits_the_operator() -> None:
    op = mt.WindowOperator(FUNCTION, time="ts", key="car")
    assert op.add(*mt.sql(NAMED)) == "sums"
    before = op.snapshot()
    for text in (BY_BOTH, BY_NONE, BY_CAR.replace("ts", "at")):
        with pytest.raises(ValueError, match=r"of the stream is '(car|ts)': they must be the same"):
            op.add(*mt.sql(text))
    assert op.snapshot() == before
    with pytest.raises(ValueError, match="groups by 'car', but the key of the stream is no column"):
        mt.WindowOperator(FUNCTION, time="ts").add(*mt.sql(NAMED))


def test_a_snapshot_goes_on_with_its_time_and_key() -> None:
    op = mt.WindowOperator(mt.sql(BY_CAR))
    op.process(RECORDS)
    want = rows(mt.aggregate(RECORDS, FUNCTION, time="ts", key="car", columns="all"))
    for queries in (None, mt.sql(BY_CAR), [FUNCTION]):
        restored = mt.WindowOperator.restore(op.snapshot(), queries)
        assert rows(restored.finish()) == want
    restored = mt.WindowOperator.restore(op.snapshot())
    with pytest.raises(ValueError, match="groups by no column, but the key of the stream is 'car'"):
        restored.add(*mt.sql(BY_NONE))
    with pytest.raises(ValueError, match="groups by no column, but the key of the stream is 'car'"):
        mt.WindowOperator.restore(op.snapshot(), mt.sql(BY_NONE))


def test_jobs_of_spark_go_by_the_statement() -> None:
    types = {"ts": pa.int64(), "at": pa.int64(), "car": pa.string(), "lane": pa.int64(), "v": pa.int64()}
    arguments: dict[str, Any] = {"tie": None, "lateness": 0, "buckets": 1}
    job = make_job(mt.sql(BY_CAR), types.__getitem__, time=None, key=None, **arguments)
    assert (job.time, job.keys) == ("ts", ("car",))
    for given in ({"time": "at", "key": None}, {"time": None, "key": "lane"}):
        with pytest.raises(ValueError, match="they must be the same"):
            make_job(mt.sql(BY_CAR), types.__getitem__, **given, **arguments)
    with pytest.raises(TypeError, match="the time column is missing"):
        make_job(FUNCTION, types.__getitem__, time=None, key="car", **arguments)


def test_techniques_which_know_no_keys_refuse_them() -> None:
    with pytest.raises(UnsupportedWorkload, match=r"^techniques know no keys, but the query is by 'car'\.$"):
        Naive().run(mt.sql(BY_CAR), Stream(RECORDS))
    assert [row.values["s"] for row in Naive().run(mt.sql(BY_NONE), Stream(RECORDS))] == [3]
    with pytest.raises(ValueError, match="takes its time from 'ts', but the time of the stream is 'at'"):
        Naive().run(mt.sql(BY_NONE), Stream(RECORDS, time="at"))
