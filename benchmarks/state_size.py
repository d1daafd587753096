"""What a call costs with little and with much state: no call may pay for what it does not touch."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

import muntin as mt
from benchmarks.report import show, verdict
from muntin.operator import WindowOperator

FEW, MANY = 2_000, 200_000  # live cells
LIMIT = 1.5
TURNS, CALLS = 7, 300
HOUR = 3_600_000
NOTE = f"""\
Microseconds of a call with one record that joins a cell, one cell a key, no window ends: the least of
{TURNS} turns, which alternate, of the median of {CALLS} calls each; with the watermark `in_order`, or
`manual`, where records may come out of order and those of aggregates that do not commute are kept. A
user's aggregate whose states are numbers or Python lists, a sketch, the largest text. `times` is of the
call with fewer cells. After the last call, the window of a key that was fed is compared with Python's own
fold."""


class Longest(mt.Aggregate):
    """The longest text, as a Python list of one: a state that does not compile."""

    @staticmethod
    def lift(text: str) -> list[str]:
        return [text]

    @staticmethod
    def combine(a: list[str], b: list[str]) -> list[str]:
        return a if len(a[0]) >= len(b[0]) else b

    @staticmethod
    def lower(a: list[str]) -> str:
        return a[0]


class SumOfSquares(mt.Aggregate):
    """The sum of squares: a state that compiles."""

    @staticmethod
    def lift(v: float) -> float:
        return v * v

    @staticmethod
    def combine(a: float, b: float) -> float:
        return a + b

    @staticmethod
    def lower(a: float) -> float:
        return a


AGGREGATES: dict[str, Callable[[], mt.Aggregate]] = {
    "sum": lambda: mt.sum("v"),
    "a user's aggregate, compiled": lambda: SumOfSquares("v"),
    "a user's aggregate, objects": lambda: Longest("text"),
    "approx_count_distinct": lambda: mt.approx_count_distinct("v"),
    "max of texts": lambda: mt.max("text"),
}


def records(keys: np.ndarray[Any, np.dtype[np.int64]], t: int) -> pa.Table:
    """Return a record of each key, at a time and later."""
    return pa.table(
        {
            "ts": t + np.arange(len(keys)),
            "key": keys,
            "v": (keys % 97).astype(float) + 1.0,
            "text": pa.array([f"text {key % 97}" for key in keys.tolist()]),
        }
    )


def filled(name: str, cells: int, watermark: str) -> WindowOperator:
    """Return an operator with a live cell for each of so many keys."""
    query = mt.tumbling(1000 * HOUR).agg(a=AGGREGATES[name]())
    operator = WindowOperator(query, time="ts", key="key", watermark=watermark)
    operator.process(records(np.arange(cells), 0))
    return operator


def seconds(operator: WindowOperator, calls: list[pa.Table]) -> float:
    """Return the median of some calls."""
    taken = []
    for batch in calls:
        begin = time.perf_counter()
        operator.process(batch)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def check(name: str, operator: WindowOperator, key: int, count: int) -> None:
    """Compare the window of a key that had so many equal records with what Python makes of them."""
    row = next(row for row in operator.lookup(0, 1000 * HOUR, key=key).to_pylist())
    value = key % 97 + 1.0
    wanted = {
        "sum": value * count,
        "a user's aggregate, compiled": value * value * count,
        "a user's aggregate, objects": f"text {key % 97}",
        "approx_count_distinct": 1,
        "max of texts": f"text {key % 97}",
    }
    if row["a"] != wanted[name]:
        raise AssertionError(f"{name}: {row['a']} of {count} records, where Python gives {wanted[name]}")


def run() -> tuple[str, bool]:
    """Return the table as Markdown, and whether the limit holds."""
    rows, held = [], True
    key = np.array([17])
    for name, watermark in itertools.product(AGGREGATES, ("in_order", "manual")):
        with Console().status("filling, timing"):
            operators = {cells: filled(name, cells, watermark) for cells in (FEW, MANY)}
            calls = [
                [records(key, MANY + turn * CALLS + k) for k in range(CALLS)] for turn in range(TURNS + 1)
            ]
            best = dict.fromkeys(operators, float("inf"))
            for operator in operators.values():
                seconds(operator, calls[0])  # compiled, and at hand
            for turn in range(1, TURNS + 1):
                for cells, operator in operators.items():
                    best[cells] = min(best[cells], seconds(operator, calls[turn]))
            for operator in operators.values():
                check(name, operator, 17, 1 + (TURNS + 1) * CALLS)
        times = best[MANY] / best[FEW]
        holds = times <= LIMIT
        held &= holds
        numbers = [f"{best[cells] * 1e6:.0f}" for cells in (FEW, MANY)]
        rows.append([f"{name}, {watermark}", *numbers, f"{times:.2f}", f"{LIMIT}", verdict(holds)])
    title = "One record into much state"
    headings = ["aggregate", f"{FEW:,} cells", f"{MANY:,} cells", "times", "at most", ""]
    return show(title, headings, rows, NOTE), held
