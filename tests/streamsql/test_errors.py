"""What is wrong with a statement is said in one sentence: where, what, and what comes nearest."""

from __future__ import annotations

import pickle

import pytest

import muntin as mt
from muntin.streamsql import SqlError, statements
from tests.streamsql.wrong import WRONG


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[text for text, _ in WRONG])
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(SqlError) as caught:
        mt.sql(text)
    assert str(caught.value) == said


def test_an_error_knows_its_place_and_crosses_processes() -> None:
    with pytest.raises(ValueError, match="no window function") as caught:
        mt.sql("SELECT COUNT(*)\nFROM HOPP(t, ts, 1, 2)")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.line, error.column) == (2, 6)
    assert str(error) == "line 2, column 6: there is no window function HOPP: the nearest is HOP."


def test_only_texts_are_read() -> None:
    with pytest.raises(TypeError, match=r"^sql takes a text, not 5\.$"):
        mt.sql(5)  # type: ignore[arg-type]


def test_statements_may_differ_where_the_queries_of_one_operator_may_not() -> None:
    text = "SELECT COUNT(*) FROM t [ROWS 2]; SELECT k, COUNT(*) FROM u [ROWS 2] GROUP BY k"
    assert [statement.source for statement in statements(text)] == ["t", "u"]
