"""Expressions: what they give, in which types, and what is said of those that give nothing."""

import copy
import datetime
import decimal
import itertools
import math
import pickle
import sqlite3

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import muntin as mt
from muntin.expressions import Expression, marked, unmarked
from tests.conditions import COMPUTED, WHERE
from tests.window_kinds import records
from tests.workloads import batch_of


def value(text, **columns):
    """The value of an expression over one record."""
    table = pa.table({name: pa.array([v]) for name, v in columns.items()} or {"none": pa.array([0])})
    (found,) = Expression(text).evaluate(table).to_pylist()
    return found


@settings(max_examples=40)
@given(st.lists(records([()], [0], range(5)).map(lambda drawn: drawn[1]), max_size=20))
def test_as_in_plain_python(drawn):
    table = batch_of(drawn, (), False, marked=True)
    for text, meant in {**WHERE, **COMPUTED}.items():
        got = Expression(text).evaluate(table)
        assert repr(got.to_pylist()) == repr([meant(record) for record in drawn]), text


LOGIC = [
    "a AND b",
    "a OR b",
    "NOT a",
    "NOT (a AND NOT b) OR c = 1",
    "a = b",
    "a <> b",
    "c IN (1, NULL)",
    "c NOT IN (1, NULL)",
    "c NOT IN (1, 2)",
    "c BETWEEN 1 AND d",
    "c NOT BETWEEN d AND 1",
    "a IS NULL",
    "a IS NOT NULL AND b",
    "c < d OR c >= 2",
    "CASE WHEN a THEN c WHEN b THEN d END",
    "CASE c WHEN d THEN 1 WHEN 2 THEN 3 ELSE 0 END",
    "COALESCE(c, d, 7)",
    "COALESCE(c, d) IS NULL",
    "ABS(c - d) + 1",
    "-c * d",
    "c % d",
    "ROUND(c / 2.0, 1)",
]


@pytest.mark.parametrize("text", LOGIC)
def test_as_in_sqlite(text):
    """Three-valued logic and null arithmetic, over all combinations."""
    truths, numbers = (1, 0, None), (-2, 0, 1, 2, None)
    rows = list(itertools.product(truths, truths, numbers, numbers))
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE r (a, b, c, d)")
        base.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", rows)
        want = [v for (v,) in base.execute(f"SELECT {text} FROM r")]
    a, b, c, d = zip(*rows, strict=True)
    flags = {name: pa.array(column, pa.int64()).cast(pa.bool_()) for name, column in (("a", a), ("b", b))}
    table = pa.table({**flags, "c": pa.array(c, pa.int64()), "d": pa.array(d, pa.int64())})
    assert Expression(text).evaluate(table).to_pylist() == want


VALUES = [
    ("1 / 2", 0.5),
    ("7 / 0", None),
    ("7.5 % 0", None),
    ("-7 % 3", -1),
    ("7 % -3", 1),
    ("-7.5 % 2", -1.5),
    ("(-9223372036854775807 - 1) % -1", 0),
    ("-9223372036854775808", -(2**63)),
    ("TIMESTAMP '1970-01-01' + 90 * INTERVAL '1' SECOND", datetime.datetime(1970, 1, 1, 0, 1, 30)),
    ("ROUND(2.5)", 3.0),
    ("ROUND(-2.5)", -3.0),
    ("ROUND(1234, -2)", 1200),
    ("FLOOR(-1.5)", -2.0),
    ("CEIL(-1.5)", -1.0),
    ("CEILING(2)", 2),
    ("SQRT(9)", 3.0),
    ("LN(1)", 0.0),
    ("LN(0)", None),
    ("LN(-1)", None),
    ("EXP(0)", 1.0),
    ("UPPER('a')", "A"),
    ("LOWER('ÄB')", "äb"),
    ("LENGTH('äb')", 2),
    ("'abc' LIKE 'a_c'", True),
    ("'abc' NOT LIKE 'b%'", True),
    ("NULL LIKE 'a'", None),
    ("CAST(2.9 AS BIGINT)", 2),
    ("CAST('12' AS INT)", 12),
    ("CAST(3 AS BOOLEAN)", True),
    ("CAST(TRUE AS STRING)", "true"),
    ("CAST(1 AS DOUBLE)", 1.0),
    ("CAST(NULL AS BIGINT) IS NULL", True),
    ("NULL = NULL", None),
    ("NULL + 1", None),
    ("1 = 1.0", True),
    ("9007199254740993 > 0.5", True),
    ("TRUE IS TRUE AND NULL IS NOT TRUE", True),
    ("CASE WHEN NULL THEN 1 END", None),
    ("CASE WHEN FALSE THEN 1 ELSE 2.5 END", 2.5),
    ("DATE '2024-01-02' > DATE '2024-01-01'", True),
    ("TIMESTAMP '2024-01-01 00:00:00' + INTERVAL '90' MINUTE", datetime.datetime(2024, 1, 1, 1, 30)),
    ("TIMESTAMP '2024-01-02' - TIMESTAMP '2024-01-01' = INTERVAL '1 day'", True),
    ("DATE '2024-01-02' = TIMESTAMP '2024-01-02 00:00:00'", True),
]


@pytest.mark.parametrize(("text", "want"), VALUES)
def test_values(text, want):
    got = value(text)
    assert (got, type(got)) == (want, type(want))


def test_types_have_room():
    small = pa.table(
        {"i": pa.array([127], pa.int8()), "u": pa.array([255], pa.uint8()), "f": pa.array([1.5], "f4")}
    )
    assert Expression("i + u").evaluate(small) == pa.array([382])
    assert Expression("i * f").evaluate(small) == pa.array([190.5])
    assert Expression("i = u OR f > 1").evaluate(small) == pa.array([True])


def test_unsigned_integers_of_64_bits_are_compared_with_others():
    table = pa.table({"u": pa.array([2**64 - 1, 1, None], pa.uint64()), "i": pa.array([-1, 1, 1])})
    for text, want in {
        "u > 1": [True, False, None],
        "u = i": [False, True, None],
        "i < u": [True, False, None],
        "u IN (1, -1)": [False, True, None],
        "u BETWEEN -5 AND 5": [False, True, None],
        "CAST(u AS BOOLEAN)": [True, True, None],
    }.items():
        assert Expression(text).evaluate(table).to_pylist() == want, text


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("CASE WHEN s <> 'x' THEN CAST(s AS BIGINT) END", [1, None, 7, None]),
        ("CASE s WHEN 'x' THEN 0.5 ELSE CAST(s AS BIGINT) END", [1.0, 0.5, 7.0, None]),
        ("CASE WHEN s = 'x' THEN 0 WHEN CAST(s AS INT) > 1 THEN v * v ELSE -1 END", [-1, 0, 9, -1]),
        ("CASE WHEN v < 10 THEN v * v ELSE 0 END", [0, 4, 9, 0]),
        ("CASE WHEN TRUE THEN 5 ELSE v * v END", [5, 5, 5, 5]),
        ("COALESCE(w, v * v)", [1, 4, 9, None]),
        ("COALESCE(NULL, w, v * v, 6)", [1, 4, 9, 6]),
    ],
)
def test_a_branch_is_computed_where_it_is_reached(text, want):
    columns = {"s": ["1", "x", "7", None], "v": [2**40, 2, 3, None], "w": [1, None, None, None]}
    table = pa.table(columns)
    got = Expression(text).evaluate(table)
    assert got.to_pylist() == want
    assert Expression(text).evaluate(table.slice(0, 0)).type == got.type


def test_zones_decimals_and_encoded_texts():
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "at": pa.array([moment], pa.timestamp("ns", "Europe/Berlin")),
            "d": pa.array([decimal.Decimal("1.50")]),
            "s": pa.array(["a"]).dictionary_encode(),
        }
    )
    assert Expression("at = TIMESTAMP '2024-01-01 00:00:00'").evaluate(table).to_pylist() == [True]
    assert Expression("d + 1 = 2.5 AND d > 1").evaluate(table).to_pylist() == [True]
    assert Expression("s = 'a' AND UPPER(s) = 'A'").evaluate(table).to_pylist() == [True]


def test_nan_is_equal_to_nothing():
    assert value("v = v", v=math.nan) is False
    assert value("NOT v > 1", v=math.nan) is True


def test_a_constant_has_as_many_values_as_there_are_records():
    assert Expression("1 + 1").evaluate(pa.table({"v": [1, 2, 3]})).to_pylist() == [2, 2, 2]
    assert Expression("NULL").evaluate(pa.table({"v": pa.array([], pa.int64())})).to_pylist() == []


def test_a_text_of_its_own():
    made = mt.expr("a+ b  >3 /* why */")
    assert made == mt.expr("(a + b > 3)")
    assert str(made) == "a + b > 3"
    assert made.columns == ("a", "b")
    assert mt.expr(made) == made
    assert repr(made) == "expr('a + b > 3')"
    assert made != "a + b > 3"  # which may be the name of a column
    assert len({made, "a + b > 3", mt.expr("a + b > 3")}) == 2
    for twin in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), unmarked(marked(made))):
        assert isinstance(twin, Expression)
        assert twin == made
    assert [type(mt.expr(text)) for text in ("v", '"my v"', "(v)")] == [str, str, str]
    assert mt.expr('"my v"') == "my v"
    assert mt.expr('"my v" + 1').evaluate({"my v": [1]}).to_pylist() == [2]


def test_a_printed_expression_is_read_as_the_same():
    for text in [*WHERE, *COMPUTED, *LOGIC, *(text for text, _ in VALUES)]:
        assert str(Expression(str(Expression(text)))) == str(Expression(text))


MISTAKES = [
    ("a +", r"line 1, column 3 of the expression 'a \+' near '\+' is no valid SQL\."),
    ("", "an expression is a text such as 'price . volume', not ''."),
    ("'a", 'the expression "\'a" has a quote that is not closed.'),
    ("foo(a)", "there is no function FOO; there are COALESCE, ABS, .*line 1, column 1"),
    ("a\n + foo(a)", r"there is no function FOO; .*line 2, column 4"),
    ("SUM(a)", "SUM is an aggregate, not a function of one record"),
    ("t.a + 1", "a column is named without a table, as in 'a'"),
    ("SELECT 1", "'SELECT 1' is no expression over a record's columns"),
    ("a b", "'a AS b' is no expression over a record's columns"),
    ("a || b", "is no expression over a record's columns|there is no function"),
    ("a LIKE b", "LIKE is followed by a text such as 'a%'"),
    ("a IN (SELECT 1)", "IN takes no QUERY here|IN is followed by values"),
    ("a BETWEEN SYMMETRIC 1 AND 2", "BETWEEN takes no SYMMETRIC here"),
    ("ROUND(a, b)", "ROUND takes a whole number of digits"),
    ("CAST(a AS DECIMAL(3, 1))", "there is no CAST to DECIMAL.*; there are BOOLEAN, TINYINT"),
    ("TIMESTAMP 'noon'", "'noon' is no TIMESTAMP"),
    ("INTERVAL '1' MONTH", "is no interval such as INTERVAL '5' MINUTE"),
    ("9223372036854775808", "does not fit 64 bits"),
    ("-9223372036854775809", "does not fit 64 bits"),
    ("CAST(5 AS TIMESTAMP)", "int64 is not cast to timestamp.us., since it has no unit: write TIMESTAMP"),
    ("a IS b", "IS is followed by NULL, TRUE or FALSE"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_mistakes(text, said):
    with pytest.raises(ValueError, match=said):
        mt.expr(text)


def test_what_is_no_text():
    with pytest.raises(TypeError, match="an expression is a text such as 'price \\* volume', not 3"):
        mt.expr(3)


def test_values_that_cannot_be_computed():
    table = pa.table({"s": ["x"], "i": [2**62], "f": [True], "t": pa.array([1], pa.timestamp("s"))})
    with pytest.raises(TypeError, match=r"the expression 's \+ 1' cannot be computed: string is no number\."):
        Expression("s + 1").evaluate(table)
    with pytest.raises(TypeError, match="string and int64 do not go together"):
        Expression("s = 1").evaluate(table)
    with pytest.raises(TypeError, match="int64 is neither true nor false"):
        Expression("i AND f").evaluate(table)
    with pytest.raises(TypeError, match="int64 is no text"):
        Expression("UPPER(i)").evaluate(table)
    with pytest.raises(ValueError, match="the expression 'CAST\\(s AS BIGINT\\)' cannot be computed"):
        Expression("CAST(s AS BIGINT)").evaluate(table)
    with pytest.raises(TypeError, match=r"cannot be computed: timestamp\[s\] and int64 cannot be added"):
        Expression("t + 5").evaluate(table)
    with pytest.raises(TypeError, match=r"ROUND\(t - t\)' cannot be computed of t \(timestamp\[s\]\)\."):
        Expression("ROUND(t - t)").evaluate(table)
    with pytest.raises(TypeError, match=r"timestamp\[s\] is not cast to int64, since its unit would be lost"):
        Expression("CAST(t AS BIGINT)").evaluate(table)
    with pytest.raises(TypeError, match=r"int64 is not cast to timestamp\[us\], since it has no unit"):
        Expression("CAST(i AS TIMESTAMP)").evaluate(table)
    for text in ("i * 2", "i + i", "-i - i - 1"):
        with pytest.raises(OverflowError, match="left the 64-bit range; cast its columns to DOUBLE"):
            Expression(text).evaluate(table)
    with pytest.raises(KeyError, match="the batch has no column 'z'; it has 's', 'i', 'f', 't'"):
        Expression("z + 1").evaluate(table)
