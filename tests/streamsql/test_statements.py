"""What a statement says beside its query: its stream, its key, its columns, its name."""

from __future__ import annotations

import pytest

import muntin as mt
from muntin.streamsql import Statement, statements
from tests.test_import import run


def one(text: str) -> Statement:
    (statement,) = statements(text)
    return statement


def test_a_statement_says_what_it_reads_and_what_it_gives() -> None:
    statement = one(
        "EXPLAIN SELECT window_end, site, AVG(v) AS avg, window_start, unit "
        "FROM HOP(TABLE db.events, DESCRIPTOR(ts), '1 minute', '10 minutes') AS e "
        "WHERE e.v > 0 AND db.events.v < 9 GROUP BY unit, window_start, e.site, window_end"
    )
    assert statement == Statement(
        mt.sliding("10m", every="1m").agg(avg=mt.mean("v"), where="v > 0 AND v < 9"),
        source="db.events",
        columns=("window_end", "site", "avg", "window_start", "unit"),
        explain=True,
    )
    assert (statement.time, statement.keys) == ("ts", ("unit", "site"))


def test_without_keys_and_without_a_time_column() -> None:
    statement = one("SELECT MAX(speed) FROM CarEvents [RANGE 30 Seconds]")
    assert (statement.keys, statement.time, statement.explain) == ((), None, False)
    assert one("SELECT MAX(v) FROM s [WATTR ts RANGE 30]").time == "ts"


def test_the_columns_of_spark_are_those_of_rows() -> None:
    grouped = "FROM e GROUP BY k, window(ts, '5 seconds')"
    assert one(f"SELECT window, k, COUNT(*) AS n {grouped}").columns == (
        "window_start",
        "window_end",
        "k",
        "n",
    )
    assert one(f"SELECT window.end, COUNT(*) AS n {grouped}").columns == ("window_end", "n")
    assert one(f"SELECT window.start AS window_start, COUNT(*) AS n {grouped}").columns == (
        "window_start",
        "n",
    )


def test_the_window_of_spark_has_an_offset_without_a_slide() -> None:
    found = one("SELECT COUNT(*) FROM e GROUP BY window(ts, '10 minutes', offset => '5 minutes')")
    assert found.query.window == mt.tumbling("10m", offset="5m")


@pytest.mark.parametrize(
    ("name", "having"),
    [
        ("top", "top > 5"),
        ("first", "first > 5"),
        ("the Top", '"the Top" > 5'),
        ("null", '"null" > 5'),
        ("true", '"true" > 5'),
        ("case", '"case" > 5'),
        ("select", '"select" > 5'),
        ("interval", '"interval" > 5'),
    ],
)
def test_a_word_of_sql_that_names_an_aggregate_is_quoted_in_having(name: str, having: str) -> None:
    found = one(f'SELECT MAX(v) AS "{name}" FROM e [RANGE 10] HAVING MAX(v) > 5')
    assert str(found.query.having) == having


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("AVG(speed)", "avg(speed)"),
        ("Count( * )", "count(*)"),
        ("COUNT(DISTINCT v)", "count(DISTINCT v)"),
        ("SUM(v*w /* both */)", "sum(v * w)"),
        ("PERCENTILE_CONT(.5) WITHIN GROUP (ORDER BY v)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY v)"),
        ("SUM(v) FILTER (WHERE w > 1)", "sum(v) FILTER(WHERE w > 1)"),
        ("MAX(v) top", "top"),
        ('MAX(v) AS "the Top"', "the Top"),
        ("MAX(v) AS name", "name"),
        ("MAX(v) OVER (ORDER BY ts ROWS 2 PRECEDING)", "max(v)"),
    ],
)
def test_the_name_of_an_aggregate_is_its_alias_or_the_call_itself(written: str, name: str) -> None:
    window = "" if "OVER" in written else "[ROWS 2]"
    statement = one(f"SELECT {written} FROM s {window}")
    assert list(statement.query.aggregates) == [name] == list(statement.columns)


def test_names_keep_their_case_and_words_of_sql_do_not_matter() -> None:
    statement = one('select Car, "Top Speed", avG(`Speed`) As a from e [rOWS 2] group by Car, "Top Speed"')
    assert statement.keys == ("Car", "Top Speed")
    assert statement.query == mt.count_tumbling(2).agg(a=mt.mean("Speed"))


def test_a_table_may_be_called_like_a_word_of_the_grammar() -> None:
    assert one("SELECT SUM(v) AS s FROM TUMBLE(data, time, 5)").source == "data"
    assert one("SELECT SUM(rows) AS s FROM range [ROWS 5]").query == mt.count_tumbling(5).agg(
        s=mt.sum("rows")
    )


def test_names_of_queries() -> None:
    text = """
    -- two queries over one stream; the second is for a chart
    INSERT INTO speed SELECT AVG(v) AS a FROM e [RANGE 10 SECONDS];
    CREATE OR REPLACE TEMPORARY VIEW chart AS SELECT M4(v) AS line FROM e [RANGE 1 MINUTE]; -- done
    SELECT COUNT(*) AS n FROM e [RANGE 1 HOUR];
    """
    assert [query.name for query in mt.sql(text)] == ["speed", "chart", None]


def test_durations_are_equal_however_they_are_written() -> None:
    hour = mt.tumbling("1h").agg(n=mt.count())
    for written in ("INTERVAL '60' MINUTES", "'60 min'", "INTERVAL 3600 SECOND", "INTERVAL '1 hour'", "'1h'"):
        assert mt.sql(f"SELECT COUNT(*) AS n FROM TUMBLE(e, ts, {written})") == [hour]
    half = "INTERVAL '1' HOUR '30' MINUTE"
    assert mt.sql(f"SELECT COUNT(*) AS n FROM TUMBLE(e, ts, {half})") == [
        mt.tumbling("90m").agg(n=mt.count())
    ]
    assert mt.tumbling("1h") != mt.tumbling(3_600_000_000_000)


def test_the_parser_comes_with_the_first_statement() -> None:
    code = """
import sys, muntin as mt
print('sqlglot' in sys.modules)
mt.sql("SELECT COUNT(*) FROM e [ROWS 2]")
print('sqlglot' in sys.modules)
"""
    assert run(code).split() == ["False", "True"]
