"""A user's own aggregate with sets as states, against the same loop written by hand.

By hand: each record's set into that of its slice, and for each window the union of its slices' sets.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

import muntin as mt
from benchmarks.report import show, verdict
from benchmarks.timing import best_of

COUNT = 1_000_000
STEP = 1_000  # of all windows: each slice has so many records
LENGTHS = [STEP * k for k in range(2, 27)]  # as tumbling windows, and as windows that slide by a step
IDS = (50, 100, 1_000)
LIMIT = 3.0  # times as long as by hand
ROUNDS = 3
NOTE = """\
Seconds for the number of distinct ids in 50 tumbling and sliding windows over 1 M records, with an aggregate
of one's own: lift(v) gives {v}, combine(a, b) gives a | b. By hand, the same loop: each record's {v} goes
into the set of its slice, and a window is the union of its slices' sets, made in place. With set(): by hand,
but the records of a slice become a set in one call, which an aggregate of one's own has no way to say."""
Integers = NDArray[np.int64]


class Distinct(mt.Aggregate):
    """How many different values there are."""

    commutative = True

    @staticmethod
    def lift(v: int) -> set[int]:
        return {v}

    @staticmethod
    def combine(a: set[int], b: set[int]) -> set[int]:
        return a | b

    @staticmethod
    def lower(a: set[int]) -> int:
        return len(a)


def stream(ids: int) -> Integers:
    """Return the values of a record per tick."""
    return np.random.default_rng(5).integers(0, ids, COUNT)


def by_muntin(values: Integers) -> pa.Table:
    """Return the windows of all queries."""
    windows = [*map(mt.tumbling, LENGTHS), *(mt.sliding(length, every=STEP) for length in LENGTHS)]
    queries = [window.agg(n=Distinct("v"), name=str(k)) for k, window in enumerate(windows)]
    operator = mt.WindowOperator(queries, time="t")
    return pa.concat_tables(
        [operator.process({"t": np.arange(len(values)), "v": values}), operator.finish()],
        promote_options="none",
    )


def one_by_one(records: list[int]) -> set[int]:
    """Return the union of the records' sets."""
    union: set[int] = set()
    for value in records:
        union |= {value}
    return union


def by_hand(values: Integers, set_of: Callable[[list[int]], set[int]]) -> dict[tuple[str, int], int]:
    """Return the answer of each window, by query and start."""
    listed = values.tolist()
    starts = list(range(0, len(listed), STEP))  # all edges are multiples
    sets = [set_of(listed[start : start + STEP]) for start in starts]
    found = {}
    for k, (length, every) in enumerate([*zip(LENGTHS, LENGTHS, strict=True), *((n, STEP) for n in LENGTHS)]):
        for start in range(-((length - 1) // every) * every, len(listed), every):
            union: set[int] = set()
            for part in sets[bisect_left(starts, start) : bisect_left(starts, start + length)]:
                union |= part
            found[str(k), start] = len(union)
    return found


def check(values: Integers) -> int:
    """Compare all answers; return the number of windows."""
    rows = by_muntin(values)
    keys = zip(rows["query"].to_pylist(), rows["window_start"].to_pylist(), strict=True)
    got = dict(zip(keys, rows["n"].to_pylist(), strict=True))
    assert got == by_hand(values, one_by_one), "the windows differ from those written by hand"
    return len(got)


def run() -> tuple[str, bool]:
    """Return the table as Markdown, and whether the limit holds."""
    rows, held = [], True
    for ids in IDS:
        values = stream(ids)
        with Console().status(f"sets as states: {ids:,} ids"):
            windows = check(values)
            runs: dict[str, Callable[[], Any]] = {
                "muntin": partial(by_muntin, values),
                "by hand": partial(by_hand, values, one_by_one),
                "with set()": partial(by_hand, values, set),
            }
            best = best_of(runs, ROUNDS)
        ratio = best["muntin"] / best["by hand"]
        held &= ratio <= LIMIT
        seconds = [f"{best[who]:.2f}" for who in runs]
        limit = [f"{ratio:.2f}", f"{LIMIT:g}", verdict(ratio <= LIMIT)]
        rows.append([f"{ids:,} ids", f"{windows:,}", *seconds, *limit])
    headings = ["values", "windows", *runs, "times", "at most", ""]
    return show(f"Sets as states, best of {ROUNDS}", headings, rows, NOTE), held


if __name__ == "__main__":
    run()
