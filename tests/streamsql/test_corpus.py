"""Every statement of the corpus is the query that functions make, and gives the rows of brute force."""

from __future__ import annotations

import random
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import muntin as mt
from muntin.streamsql.aggregates import AGGREGATES
from muntin.streamsql.windows import FUNCTIONS, SPARK
from tests.streamsql.corpus import CASES, Case
from tests.test_operator import Seconds, check_rows, told
from tests.window_kinds import with_measures
from tests.window_types import Record, Row, Spec
from tests.windows_oracle import one_shot
from tests.workloads import batch_of


def _records() -> list[Record]:
    """Some records of three keys about time 0, out of order, with nulls, silences and times that recur."""
    chance = random.Random(7)
    made = []
    clock = -25
    for place in range(60):
        clock += chance.choice([0, 0, 1, 1, 2, 7 if place % 20 == 0 else 1])
        made.append(
            Record(
                clock - chance.choice([0, 0, 1, 4]),
                v=chance.choice([None, 0.5, 1.5, 1.5, -2.0, 3.0]),
                w=chance.randint(1, 5),
                key=(chance.choice(["a", "b", None]),),
                p=chance.choice([True, False, False, None]),
                q=chance.choice([True, False, False, None]),
                s=chance.choice([0.0, 1.0, None]),
                m=chance.choice([0, 1, 2, 5]),
            )
        )
    return with_measures(made)


RECORDS = _records()


def rows_of(case: Case) -> list[Row]:
    """What the library gives."""
    records = RECORDS if case.keys else _without_keys(RECORDS)
    table = batch_of(records, case.keys, tie=False, marked=True)
    seconds = Seconds(None)  # type: ignore[arg-type]
    if case.seconds:
        table = seconds._cast(table, Seconds.TIME, "t")
    rows = mt.aggregate(table, mt.sql(case.text), time="t", key=list(case.keys) or None, columns="all")
    return told(seconds._whole(rows) if case.seconds else rows, case.keys)


def _without_keys(records: list[Record]) -> list[Record]:
    return [record._replace(key=()) for record in records]


def rows_by_force(case: Case, name: str) -> tuple[list[Row], Spec]:
    """What the oracle gives, over the records that WHERE leaves; of that, the rows that HAVING leaves."""
    flags: dict[str, Any] = {
        flag: getattr(case.query, flag) for flag in ("emit_empty", "emit_partial", "emit")
    }
    spec = Spec(name, case.kind, case.params, case.calls, **flags)
    records = [r for r in RECORDS if case.where is None or case.where(r)]
    records = [r if case.seen is None else case.seen(r) for r in records]
    rows = one_shot([spec], records if case.keys else _without_keys(records))
    return [row for row in rows if case.having is None or case.having(row.values)], spec


@pytest.mark.parametrize("case", CASES, ids=[case.text for case in CASES])
def test_a_statement_is_the_query_that_functions_make_and_gives_its_rows(case: Case) -> None:
    assert mt.sql(case.text) == [case.query]
    got = rows_of(case)
    want, spec = rows_by_force(case, got[0].query)
    assert len(want) > 1  # else the case would show little
    check_rows(got, want, [spec], case.text)


def test_the_corpus_has_every_function() -> None:
    written = " ".join(case.text.upper() for case in CASES)
    assert [name for name in (*FUNCTIONS, *SPARK, *AGGREGATES) if f"{name}(" not in written] == []


def test_the_page_has_every_function() -> None:
    page = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
    known = (*FUNCTIONS, *(name.lower() for name in SPARK), *AGGREGATES)
    assert [name for name in known if not re.search(rf"`{name}\b|\({name}\(", page)] == []


def test_queries_of_other_windows_or_aggregates_are_not_equal() -> None:
    for one, other in combinations(CASES, 2):
        if (one.kind, one.params, one.calls) != (other.kind, other.params, other.calls):
            assert one.query != other.query


def test_statements_with_semicolons_between_them_run_together() -> None:
    cases = [case for case in CASES if case.keys == ("k",) and not case.seconds and case.where is None]
    cases = [case for case in cases if set(case.calls) == {"n", "s"} and "[" not in case.text]
    text = ";\n".join(f"INSERT INTO q{place} {case.text}" for place, case in enumerate(cases)) + ";"
    queries = mt.sql(text)
    table = batch_of(sorted(RECORDS, key=lambda r: r.t), ("k",), tie=False, marked=True)
    operator = mt.WindowOperator(queries, time="t", key="k")
    parts = [operator.process(table.slice(start, 20)) for start in range(0, 60, 20)]
    rows = told(pa.concat_tables([*parts, operator.finish()]), ("k",))
    for place, case in enumerate(cases):
        want, _ = rows_by_force(case, f"q{place}")
        got = [row for row in rows if row.query == f"q{place}"]
        assert {(r.key, r.start, r.end, r.id, *r.values.values()) for r in got} == {
            (r.key, r.start, r.end, r.id, *r.values.values()) for r in want
        }
