"""How SQL is read, by itself and in statements: which operators bind closer, and what is too much to read."""

import itertools
import sys
import threading
import time

import pyarrow as pa
import pytest

import muntin as mt
from muntin.cli.pipeline.config import load
from muntin.console.mistakes import MistakeError
from muntin.expressions import Expression, evaluation, grammar
from muntin.streamsql import SqlError

# Each text, and the same with brackets where DuckDB has them by itself.
READINGS = {
    "b = c IS NULL": "(b = c) IS NULL",
    "b <> c IS NULL": "(b <> c) IS NULL",
    "b < c IS NULL": "(b < c) IS NULL",
    "b >= c IS NOT NULL": "(b >= c) IS NOT NULL",
    "b = c IS TRUE": "(b = c) IS TRUE",
    "b <= c IS NOT TRUE": "(b <= c) IS NOT TRUE",
    "b = c IS FALSE": "(b = c) IS FALSE",
    "b > c IS NOT FALSE": "(b > c) IS NOT FALSE",
    "b = c ISNULL": "(b = c) IS NULL",
    "b = c NOTNULL": "(b = c) IS NOT NULL",
    "b = c + a IS NULL": "(b = (c + a)) IS NULL",
    "b = c IS NULL = e": "((b = c) IS NULL) = e",
    "e = f IS NULL IS TRUE": "((e = f) IS NULL) IS TRUE",
    "a IS NULL = e": "(a IS NULL) = e",
    "a IS NOT NULL = e": "(a IS NOT NULL) = e",
    "a + b IS NULL": "(a + b) IS NULL",
    "e AND b = c IS NULL": "e AND ((b = c) IS NULL)",
    "e OR f IS NULL": "e OR (f IS NULL)",
    "NOT e = f IS NULL": "NOT ((e = f) IS NULL)",
    "NOT e = f": "NOT (e = f)",
    "NOT a IS NULL": "NOT (a IS NULL)",
    "NOT e AND f": "(NOT e) AND f",
    "NOT e OR f": "(NOT e) OR f",
    "NOT NOT e": "NOT (NOT e)",
    "NOT a IN (1, c)": "NOT (a IN (1, c))",
    "NOT a BETWEEN b AND c": "NOT (a BETWEEN b AND c)",
    "NOT s LIKE 'x%'": "NOT (s LIKE 'x%')",
    "e = NOT f": "e = (NOT f)",
    "e AND NOT f": "e AND (NOT f)",
    "e OR f AND a = 1": "e OR (f AND (a = 1))",
    "e AND f OR a = 1": "(e AND f) OR (a = 1)",
    "a < b AND b < c OR e": "((a < b) AND (b < c)) OR e",
    "e = b IN (1, 2)": "e = (b IN (1, 2))",
    "b IN (1, 2) = e": "(b IN (1, 2)) = e",
    "b NOT IN (1, 2) = e": "(b NOT IN (1, 2)) = e",
    "b IN (1, 2) IS NULL": "(b IN (1, 2)) IS NULL",
    "b IN (1) IN (TRUE)": "(b IN (1)) IN (TRUE)",
    "a + b IN (2, 3)": "(a + b) IN (2, 3)",
    "e = b BETWEEN 1 AND 2": "e = (b BETWEEN 1 AND 2)",
    "b BETWEEN 1 AND 2 = e": "(b BETWEEN 1 AND 2) = e",
    "b NOT BETWEEN 1 AND 2 IS NULL": "(b NOT BETWEEN 1 AND 2) IS NULL",
    "a BETWEEN 1 AND b IS NULL": "(a BETWEEN 1 AND b) IS NULL",
    "a BETWEEN b + 1 AND c * 2": "a BETWEEN (b + 1) AND (c * 2)",
    "a BETWEEN 1 AND 2 AND e": "(a BETWEEN 1 AND 2) AND e",
    "a BETWEEN 1 AND b OR e": "(a BETWEEN 1 AND b) OR e",
    "e = s LIKE 'x%'": "e = (s LIKE 'x%')",
    "s LIKE 'x%' = e": "(s LIKE 'x%') = e",
    "s NOT LIKE 'x%' IS NULL": "(s NOT LIKE 'x%') IS NULL",
    "-a * b": "(-a) * b",
    "-a % b": "(-a) % b",
    "-a + b": "(-a) + b",
    "- -a": "-(-a)",
    "a - -b": "a - (-b)",
    "-a IS NULL": "(-a) IS NULL",
    "-a = b": "(-a) = b",
    "-a IN (-1)": "(-a) IN (-1)",
    "-a BETWEEN -2 AND -1": "(-a) BETWEEN (-2) AND (-1)",
    "a + b * c": "a + (b * c)",
    "a - b - c": "(a - b) - c",
    "a - b + c": "(a - b) + c",
    "a / b / c": "(a / b) / c",
    "a * b / c": "(a * b) / c",
    "a % b * c": "(a % b) * c",
    "a * b % c": "(a * b) % c",
    "a + b < c * 2": "(a + b) < (c * 2)",
    "CASE WHEN e THEN a END IS NULL": "(CASE WHEN e THEN a END) IS NULL",
    "CASE a WHEN b THEN c ELSE 0 END + 1": "(CASE a WHEN b THEN c ELSE 0 END) + 1",
    "CASE WHEN b = c IS NULL THEN 1 ELSE 2 END": "CASE WHEN ((b = c) IS NULL) THEN 1 ELSE 2 END",
    "CASE WHEN e THEN f ELSE b = c IS NULL END": "CASE WHEN e THEN f ELSE ((b = c) IS NULL) END",
    "CASE e WHEN b = c IS NULL THEN 1 ELSE 2 END": "CASE e WHEN ((b = c) IS NULL) THEN 1 ELSE 2 END",
    "COALESCE(b = c IS NULL, e)": "COALESCE(((b = c) IS NULL), e)",
}


def table():
    """All combinations of a few values."""
    truths, numbers = (True, False, None), (1, 2, None)
    rows = itertools.product(numbers, numbers, numbers, truths, truths, ("xy", "z", None))
    return pa.table(dict(zip("abcefs", zip(*rows, strict=True), strict=True)))


def in_a_statement(text):
    """The same expression, as an aggregate of a statement has it."""
    (query,) = mt.sql(f"SELECT LAST_VALUE({text}) AS v FROM TUMBLE(t, ts, 10)")
    return query.aggregates["v"].columns[0]


@pytest.mark.parametrize("text", READINGS)
def test_operators_bind_as_in_duckdb(text):
    want = Expression(READINGS[text]).evaluate(table()).to_pylist()
    for read in (Expression(text), in_a_statement(text), Expression(str(Expression(text)))):
        assert read.evaluate(table()).to_pylist() == want


def test_operators_bind_alike_in_where_and_having():
    (query,) = mt.sql(
        "SELECT MAX(v) AS b, MIN(v) AS c FROM TUMBLE(t, ts, 10) WHERE b = c IS NULL HAVING MAX(v) = c IS NULL"
    )
    want = Expression("(b = c) IS NULL").evaluate(table()).to_pylist()
    assert query.where.evaluate(table()).to_pylist() == want
    assert query.having.evaluate(table()).to_pylist() == want
    assert query == mt.tumbling(10).agg(
        b=mt.max("v"), c=mt.min("v"), where="b = c IS NULL", having="b = c IS NULL"
    )


@pytest.mark.parametrize("text", ["a < b < c", "a = b = c", "e = a < b", "a < b = e", "a <> b <> c"])
def test_comparisons_do_not_chain(text):
    said = "comparisons do not chain: join them by AND, or put brackets around one"
    with pytest.raises(ValueError, match=said):
        mt.expr(text)
    with pytest.raises(SqlError, match=rf"^line 1, column 46: {said}\.$"):
        mt.sql(f"SELECT COUNT(*) FROM TUMBLE(t, ts, 10) WHERE {text}")


# ---- what is too much ----

DEEP = "brackets, CASE, NOT and signs stand within each other at most 20 deep"
TOO_MUCH = {
    "ORs": (" OR ".join(["v = 1"] * 100_000), "it has 899,996 characters; at most 100,000 are read"),
    "words": (" OR ".join(["v = 1"] * 2501), "words and signs; at most 10,000 are read"),
    "values": (f"v IN ({', '.join(['1'] * 5000)})", "words and signs; at most 10,000 are read"),
    "brackets": ("(" * 21 + "v" + ")" * 21, DEEP),
    "many brackets": ("(" * 4000 + "v" + ")" * 4000, DEEP),
    "open brackets": ("(" * 4000, DEEP),
    "calls": ("ABS(" * 21 + "v" + ")" * 21, DEEP),
    "CASE": ("CASE WHEN v > 0 THEN 1 ELSE " * 21 + "0" + " END" * 21, DEEP),
    "NOT": ("NOT " * 21 + "v", DEEP),
    "signs": ("- " * 21 + "v", DEEP),
    "operators": ("v" + " + v - v" * 101, "different operators stand within each other at most 200 deep"),
}


def quickly(call, text, said, error=ValueError):
    start = time.process_time()
    with pytest.raises(error, match=said) as caught:
        call(text)
    assert time.process_time() - start < 2  # the largest that is read takes about a second
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_too_much_is_refused_quickly(name, tmp_path):
    text, said = TOO_MUCH[name]
    quickly(mt.expr, text, said)
    quickly(lambda where: mt.tumbling(10).agg(n=mt.count(), where=where), text, said)
    for statement in ("SELECT SUM({}) FROM t [ROWS 2]", "SELECT COUNT(*) FROM t [ROWS 2] WHERE {}"):
        quickly(mt.sql, statement.format(text), said.replace("899,996", r"900,0\d\d"), SqlError)
    file = tmp_path / "pipeline.toml"

    def pipeline(query):
        source = '[source]\nformat = "csv"\npath = "x.csv"\n[stream]\ntime = "t"\n'
        file.write_text(f"{source}[[query]]\n{query}\n")
        load(file)

    calls = 'window = "tumbling(10)"\naggregates = {{n = "count()"}}\nwhere = "{}"'
    quickly(pipeline, calls.format(text), f"line 9: where: .*{said}", MistakeError)
    statement = f'sql = "SELECT COUNT(*) FROM t [ROWS 2] WHERE {text}"'
    quickly(pipeline, statement, f"line 7: .*{said.replace('899,996', '900,034')}", MistakeError)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"sum({' + '.join(['v'] * 100_000)})", "400,002 characters; at most 10,000 are read"),
        (f"sum({'+'.join(['v'] * 4000)})", "nests too many operators or brackets"),
        (f"sum({'-' * 5000}v)", "nests too many operators or brackets"),
        (f"sum({'(' * 30}v{')' * 30} + {'(' * 30}v{')' * 30})", DEEP),
    ],
)
def test_calls_in_pipelines_that_are_too_large(text, said, tmp_path):
    file = tmp_path / "pipeline.toml"
    for query in (f'window = "{text}"', f'window = "tumbling(1)"\n[query.aggregates]\nn = "{text}"'):
        if said == DEEP and "aggregates" not in query:
            continue  # windows are not looked into
        file.write_text(f'[source]\nformat = "csv"\npath = "x.csv"\n[[query]]\n{query}\n')
        quickly(load, file, said, MistakeError)


def test_what_is_not_too_much_is_read_and_computed():
    values = pa.table({"v": [0, 2400, 9000]})
    row = Expression(" OR ".join(f"v = {k}" for k in range(2499)))
    assert row.evaluate(values).to_pylist() == [True, True, False]
    listed = Expression(f"v IN ({', '.join(map(str, range(4900)))})")
    assert listed.evaluate(values).to_pylist() == [True, True, False]
    assert Expression(" + ".join(["v"] * 1000)).evaluate(values).to_pylist() == [0, 2_400_000, 9_000_000]
    assert Expression("v" + " + v - v" * 99).evaluate(values).to_pylist() == [0, 2400, 9000]
    deep = Expression("1 + (" * 20 + "v" + ")" * 20)
    assert deep.evaluate(values).to_pylist() == [20, 2420, 9020]
    (query,) = mt.sql(f"SELECT SUM({'1 + (' * 19}v{')' * 19}) AS s FROM t [ROWS 2]")
    assert query.aggregates["s"].columns[0].evaluate(values).to_pylist() == [19, 2419, 9019]


def test_a_statement_of_a_thousand_columns_is_read_in_a_second():
    items = ", ".join(f"SUM(v{k})" for k in range(1000))
    start = time.process_time()
    (query,) = mt.sql(f"SELECT {items} FROM TUMBLE(t, ts, 10)")
    assert len(query.aggregates) == 1000
    assert time.process_time() - start < 5  # it took ten, and four times that for twice as many


def test_a_stack_that_is_nearly_full_is_told():
    def read(levels):
        if levels:
            return read(levels - 1)
        evaluation.parsed.cache_clear()
        with pytest.raises(ValueError, match=grammar.NO_STACK):
            mt.expr("1 + (" * 20 + "v" + ")" * 20)
        with pytest.raises(SqlError, match=grammar.NO_STACK):
            mt.sql("SELECT SUM(" + "1 + (" * 19 + "v" + ")" * 19 + ") FROM t [ROWS 2]")
        return True

    done = []
    thread = threading.Thread(target=lambda: done.append(read(sys.getrecursionlimit() - 300)))
    thread.start()
    thread.join()
    assert done == [True]


# ---- numbers ----


@pytest.mark.parametrize("digits", ["39", "999999999999", "9" * 5000, "-39", "-999999999999"])
def test_digits_of_round_are_bounded(digits):
    quickly(mt.expr, f"ROUND(v, {digits})", "ROUND takes at most 38 digits, before or behind the point")


def test_digits_of_round_that_are_allowed():
    values = {"v": [1234.5678, None]}
    assert Expression("ROUND(v, 38)").evaluate(values).to_pylist() == [1234.5678, None]
    assert Expression("ROUND(v, 0000000000000000000002)").evaluate(values).to_pylist() == [1234.57, None]
    assert Expression("ROUND(v, -2)").evaluate(values).to_pylist() == [1200.0, None]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v + " + "1" * 5000, "does not fit 64 bits"),
        ("v + INTERVAL '99999999999999999999' DAY", r"is longer than 2\^63 microseconds"),
        ("v + INTERVAL 'nan' DAY", "is no interval such as"),
        ("a; b", "an expression is a text such as 'price \\* volume', not 'a; b'"),
    ],
)
def test_numbers_and_intervals_that_are_none(text, said):
    quickly(mt.expr, text, said)
