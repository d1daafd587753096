"""What the loop costs: single records against lists of them, and the first row after warming up."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

import muntin as mt
from benchmarks.calls import agree, in_new_process
from benchmarks.report import show, verdict
from benchmarks.timing import best_of

RECORDS = 1_000_000
LIST = 10_000  # records in a list
ROUNDS = 3
LEAST = 0.5  # of the speed of lists
MOST = 50  # milliseconds to the first row
QUERIES = [
    mt.tumbling(1_000).agg(total=mt.sum("v"), most=mt.max("v"), name="tumbling"),
    mt.sliding(10_000, every=1_000).agg(average=mt.mean("v"), name="sliding"),
]
NOTE = """\
Single records: dicts of a time, one of 100 keys and a value, in time order, through
`op.stream(records, batch="10ms")`, against the same dicts in lists of 10,000 through `op.process`; two
queries.
First row: a new process without kept code warms up for a schema; then the time from the first record that is
handed to the stream to the first row that comes out of it."""
FIRST = """
import time
import pyarrow as pa
import muntin as mt
queries = [
    mt.sliding("10s", every="5s").agg(total=mt.sum("v"), most=mt.max("v"), n=mt.count()),
    mt.session("3s").agg(visits=mt.count(), name="visits"),
]
operator = mt.WindowOperator(queries, time="ts", key="key")
operator.warm_up(pa.schema({"ts": pa.timestamp("us"), "key": pa.string(), "v": pa.float64()}))
from datetime import datetime, timedelta
records = [
    {"ts": datetime(2026, 1, 1) + timedelta(seconds=4 * k), "key": "ab"[k % 2], "v": k / 2} for k in range(9)
]
begun = time.perf_counter()
rows = next(iter(operator.stream(records, batch=3)))
print(time.perf_counter() - begun, rows.num_rows)
"""


def records(count: int) -> list[dict[str, Any]]:
    """Return single records in time order."""
    values = np.random.default_rng(9).random(count).tolist()
    return [{"ts": k, "key": k % 100, "v": value} for k, value in enumerate(values)]


def _operator() -> mt.WindowOperator:
    return mt.WindowOperator(QUERIES, time="ts", key="key")


def by_lists(given: list[dict[str, Any]], size: int = LIST) -> Iterator[pa.Table]:
    """Return the rows of records that come in lists."""
    operator = _operator()
    for start in range(0, len(given), size):
        yield operator.process(given[start : start + size])
    yield operator.finish()


def one_by_one(given: list[dict[str, Any]], batch: str = "10ms") -> Iterator[pa.Table]:
    """Return the rows of records that come by themselves."""
    yield from _operator().stream(iter(given), batch=batch)


def check(count: int) -> int:
    """See that both ways give the same rows; return how many."""
    given = records(count)
    lists, singles = (pa.concat_tables(way(given)) for way in (by_lists, one_by_one))
    if not agree(lists, singles):
        raise AssertionError("the loop gives other rows than lists do")
    return int(singles.num_rows)


def seconds(count: int, rounds: int) -> dict[str, float]:
    """Return the least seconds of both ways."""
    given = records(count)
    ways = {"lists": lambda: list(by_lists(given)), "loop": lambda: list(one_by_one(given))}
    return best_of(ways, rounds)


def milliseconds_to_first_row() -> float:
    """Return how long the first row takes in a new process without kept code, once it has warmed up."""
    with tempfile.TemporaryDirectory() as directory:
        took, rows = in_new_process(FIRST, directory).split()
    if int(rows) == 0:
        raise AssertionError("no row came")
    return 1000 * float(took)


def run() -> tuple[str, bool]:
    """Return the table as Markdown, and whether all limits hold."""
    with Console().status("streams of single records"):
        check(20_000)
        took = seconds(RECORDS, ROUNDS)
        first = min(milliseconds_to_first_row() for _ in range(ROUNDS))
    speed = took["lists"] / took["loop"]
    rows = [
        ["lists of 10,000", f"{RECORDS / took['lists'] / 1e6:.3g} M records/s", "", ""],
        ["single records", f"{RECORDS / took['loop'] / 1e6:.3g} M records/s", "", ""],
        [
            "single records, of the speed of lists",
            f"{speed:.2f}x",
            f"at least {LEAST}x",
            verdict(speed >= LEAST),
        ],
        ["first row after warming up", f"{first:.3g} ms", f"at most {MOST} ms", verdict(first <= MOST)],
    ]
    headings = ["stream", "measured", "limit", ""]
    return show("The loop", headings, rows, NOTE), speed >= LEAST and first <= MOST
