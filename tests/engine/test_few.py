"""Records that come one by one give the rows of all at once, on pages that are never written again."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import muntin as mt
from muntin.engine import tuning
from muntin.engine.output import few_rows

Table = list[dict[str, Any]]


def stream(count: int, *, lag: int = 0) -> Table:
    rng = random.Random(5)
    return [
        {
            "at": 3 * k - rng.randint(0, lag),
            "key": rng.choice(["a", "b", None]),
            "v": rng.choice([None, 0.5, -2.0, float("nan"), 7.25]),
            "n": rng.randint(-5, 2**40),
        }
        for k in range(count)
    ]


SCHEMA = pa.schema([("at", pa.timestamp("ms")), ("key", pa.string()), ("v", pa.float64()), ("n", pa.int64())])
QUERIES = [
    mt.sliding("40ms", every="10ms").agg(low=mt.min("v"), mean=mt.mean("v"), n=mt.sum("n")),
    mt.tumbling("15ms").agg(rows=mt.count(), latest=mt.max("at")),
    mt.tumbling("15ms").agg(some=mt.count("v")),
]


def listed(tables: list[pa.Table]) -> list[Any]:
    assert len({table.schema for table in tables}) == 1
    rows = [tuple(map(repr, row.values())) for table in tables for row in table.to_pylist()]
    return sorted(rows)


@pytest.mark.parametrize("key", [None, "key"])
@pytest.mark.parametrize(("watermark", "lag"), [("in_order", 0), ("20ms", 18)])
def test_one_by_one(key: str | None, watermark: str, lag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    write = few_rows.Page.write
    monkeypatch.setattr(few_rows.Page, "write", lambda page, *row: (made.append(row), write(page, *row)))
    records = stream(600, lag=lag)
    one = mt.WindowOperator(QUERIES, time="at", key=key, watermark=watermark)
    parts = [one.process(pa.RecordBatch.from_pylist([record], SCHEMA)) for record in records]
    parts.append(one.finish())
    whole = mt.WindowOperator(QUERIES, time="at", key=key, watermark=watermark)
    wanted = [whole.process(pa.Table.from_pylist(records, SCHEMA)), whole.finish()]
    assert listed(parts) == listed(wanted)
    assert len(made) > 3 * tuning.PAGE  # several pages, and nothing on them has changed since
    assert one.metrics.windows_emitted == whole.metrics.windows_emitted


def test_rows_of_a_call_are_in_order() -> None:
    queries = [mt.sliding(length, every=1).agg(n=mt.count(), name=f"q{length}") for length in (1, 3, 2)]
    operator = mt.WindowOperator(queries, time="at")
    for at in (0, 1, 2):
        operator.process({"at": [at]})
    rows = operator.process({"at": [4]})
    bounds = [(row["window_end"], row["window_start"], row["query"]) for row in rows.to_pylist()]
    assert bounds == sorted(bounds)
    assert len(bounds) == 5


def test_a_long_silence_is_left_to_arrays() -> None:
    operator = mt.WindowOperator(mt.sliding(1000, every=1).agg(n=mt.count()), time="at")
    operator.process({"at": [0]})
    operator.process({"at": [1]})
    assert operator.process({"at": [5000]}).num_rows == 1000
