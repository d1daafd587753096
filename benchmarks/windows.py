"""Many windows over one stream, against reading its two columns once, in one run.

The stream has 2,000 records a second of event time. Each query sums over tumbling windows of a length of its
own. The harder half has records out of order and silent spells, and one more query with session windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.console import Console

import muntin as mt
from benchmarks.report import show, verdict
from benchmarks.timing import best_of
from muntin.operator import WindowOperator

RECORDS = 8_000_000
ROUNDS = 9
PER_MILLISECOND = 2
SHORTEST, LONGEST = 1_000, 20_000  # lengths of the windows; all times are in milliseconds
DELAY = 2_000  # at most so much later than in order
GAP = 1_000  # of the sessions
SPELL, SILENCE = 10_500, 1_500  # 12 s: five a minute
Array = NDArray[Any]
NOTE = """\
`times` is of reading both columns once (`v.sum()` and `ts.max()`). Each query sums over tumbling windows of
a length of its own; lengths are spread evenly from 1 to 20 s, in milliseconds, at 2,000 records a second.
With sessions (gap 1 s), a fifth of the records is delayed by up to 2 s, and there are 5 silent spells a
minute. Timed are the whole table and the end of the stream, rows included, on an operator made beforehand;
what making it takes stands under `ms to make`. All rows are compared with NumPy's. `reference`: about what
the reference implementation of general stream slicing in Java takes, measured elsewhere; out of order, some
of its windows are wrong."""


@dataclass(frozen=True)
class Case:
    """How many lengths on which stream, and how many times the floor it may take."""

    lengths: int
    disordered: bool
    limit: float
    reference: float  # times the floor that the reference implementation in Java takes

    @property
    def name(self) -> str:
        return f"{self.lengths:,} length{'s' if self.lengths > 1 else ''}" + ", sessions" * self.disordered


CASES = [
    Case(1, False, 4, 34),
    Case(10, False, 4, 40),
    Case(100, False, 8, 65),
    Case(1000, False, 25, 2200),
    Case(10, True, 15, 80),
    Case(1000, True, 60, 3400),
]


# ---- the stream and the queries ----


def stream(records: int, *, disordered: bool) -> pa.Table:
    """Return times and values; disordered: a fifth comes late, and there are silent spells."""
    rng = np.random.default_rng(5)
    times, values = np.arange(records) // PER_MILLISECOND, rng.random(records)
    if disordered:
        times += times // SPELL * SILENCE
        delays = rng.integers(0, DELAY, records, endpoint=True) * (rng.random(records) < 0.2)
        times = times[np.argsort(times + delays, kind="stable")]
    return pa.table({"ts": times, "v": values})


def spread(count: int) -> Array:
    """Return lengths spread evenly from the shortest to the longest."""
    return np.linspace(SHORTEST, LONGEST, count).round().astype(np.int64)


def queries(case: Case) -> list[mt.Query]:
    """Return a query for each length, and the sessions."""
    listed = [mt.tumbling(int(length)).agg(total=mt.sum("v")) for length in spread(case.lengths)]
    return [*listed, mt.session(GAP).agg(total=mt.sum("v"))] if case.disordered else listed


def floor(times: Array, values: Array) -> None:
    """Read both columns once."""
    values.sum()
    times.max()


def operator_of(case: Case, listed: list[mt.Query]) -> WindowOperator:
    """Return a new operator."""
    return WindowOperator(listed, time="ts", watermark=DELAY if case.disordered else "in_order")


def run_case(operator: WindowOperator, table: pa.Table) -> pa.Table:
    """Return the rows of a new operator over the whole stream."""
    return pa.concat_tables([operator.process(table), operator.finish()])


def run_next(operators: list[WindowOperator], table: pa.Table) -> None:
    """Run the next of some new operators, and let go of it."""
    run_case(operators.pop(), table)


# ---- answers ----


def expected(case: Case, table: pa.Table) -> list[tuple[Array, Array, Array]]:
    """Return starts, ends and totals of each query's windows, by NumPy."""
    times, values = table["ts"].to_numpy(), table["v"].to_numpy()
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    found = []
    for length in spread(case.lengths):
        edges = np.arange(times[0] // length, times[-1] // length + 2) * length
        first = np.searchsorted(times, edges)
        filled = first[:-1] < first[1:]
        starts = edges[:-1][filled]
        found.append((starts, starts + length, np.add.reduceat(values, first[:-1][filled])))
    if case.disordered:
        cuts = np.flatnonzero(np.diff(times) > GAP) + 1
        first, last = np.append(0, cuts), np.append(cuts, len(times)) - 1
        found.append((times[first], times[last] + GAP, np.add.reduceat(values, first)))
    return found


def check(case: Case, table: pa.Table) -> int:
    """Compare every window with NumPy's; return how many there are."""
    listed = queries(case)
    operator = operator_of(case, listed)
    rows = run_case(operator, table)
    if operator.metrics.late_dropped:
        raise AssertionError(f"{case.name}: {operator.metrics.late_dropped} records were dropped")
    want = expected(case, table)
    names = pa.array([f"q{k}" for k in range(len(listed))])
    query = pc.index_in(rows["query"].cast(pa.string()), names).to_numpy()
    starts, ends, totals = (rows[name].to_numpy() for name in ("window_start", "window_end", "total"))
    order = np.lexsort((starts, query))
    counts = [len(part[0]) for part in want]
    got = np.bincount(query, minlength=len(want)).tolist()
    if got != counts:
        raise AssertionError(f"{case.name}: other numbers of windows than NumPy finds")
    columns = [np.concatenate(column) for column in zip(*want, strict=True)]
    if not (np.array_equal(starts[order], columns[0]) and np.array_equal(ends[order], columns[1])):
        raise AssertionError(f"{case.name}: other windows than NumPy finds")
    if not np.allclose(totals[order], columns[2], rtol=1e-12, atol=0):
        raise AssertionError(f"{case.name}: other totals than NumPy's")
    if rows["revision"].to_numpy().any():
        raise AssertionError(f"{case.name}: a window came out more than once")
    return int(rows.num_rows)


def run() -> tuple[str, bool]:
    """Return the table as Markdown, and whether all limits hold."""
    rows, held = [], True
    for disordered in (False, True):
        cases = [case for case in CASES if case.disordered == disordered]
        with Console().status("compiling, checking answers, timing"):
            table = stream(RECORDS, disordered=disordered)
            windows = {case.name: check(case, table) for case in cases}
            makes = {case.name: partial(operator_of, case, queries(case)) for case in cases}
            made = best_of(makes, ROUNDS)
            fresh = {name: [make() for _ in range(ROUNDS + 1)] for name, make in makes.items()}
            runs = {name: partial(run_next, operators, table) for name, operators in fresh.items()}
            read = partial(floor, table["ts"].to_numpy(), table["v"].to_numpy())
            best = best_of({"floor": read, **runs}, ROUNDS)
        kind = "out of order" if disordered else "in order"
        nanoseconds = f"{best['floor'] / RECORDS * 1e9:.2f}"
        rows.append([f"read both columns once, {kind}", "", nanoseconds, *[""] * 5])
        for case in cases:
            times = best[case.name] / best["floor"]
            held &= times <= case.limit
            numbers = [f"{windows[case.name]:,}", f"{best[case.name] / RECORDS * 1e9:.2f}", f"{times:.1f}"]
            limit = [f"{case.limit:g}", verdict(times <= case.limit)]
            make = f"{made[case.name] * 1e3:.2f}"
            rows.append([case.name, *numbers, *limit, make, f"{case.reference:,.0f}"])
    title = f"{RECORDS:,} records in one batch, sums over windows of many lengths, best of {ROUNDS} turns"
    headings = ["run", "windows", "ns a record", "times", "at most", "", "ms to make", "reference"]
    return show(title, headings, rows, NOTE), held
