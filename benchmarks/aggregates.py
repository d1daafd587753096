"""Aggregates beyond sums: M4 against min and max, medians against reading both columns, River and Polars."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rich.console import Console
from river import stats

import muntin as mt
from benchmarks import windows
from benchmarks.report import show, verdict
from benchmarks.timing import best_of
from muntin.operator import WindowOperator

ROUNDS = 7  # fewer would time how memory is got for the first time
SAMPLE = 97  # each so many windows are compared with NumPy's
LONG, SHORT = 500_000, 10_000  # records in a sliding window
SLIDING = 1_000_000  # records that it slides over
UPDATES = 200  # of River
Array = NDArray[Any]
MEDIANS = """\
`times` is of reading both columns once. The stream is that of sums over windows of many lengths: 2,000
records a second, a fifth delayed by up to 2 s, 5 silent spells a minute, and sessions beside the tumbling
windows; each query takes the median. Of all windows, each 97th is compared with NumPy's."""
SLIDES = f"""\
A median over the last records, at each record: a count window of the operator, with its bounds and numbers,
once it is full; and `mt.swag.slide`, which takes a column and gives one, as Polars does. River takes one
record at a time: its window of {LONG:,} is filled, then {UPDATES} more records are timed. All compute the
same medians."""
M4_LENGTHS, M4_LIMIT = 1_000, 2.5  # windows at the same time, and how many times min and max it may take
EXTREMES: dict[str, dict[str, Any]] = {
    "min and max": {"low": mt.min("v"), "high": mt.max("v")},
    "M4": {"m4": mt.m4("v")},
}
M4_NOTE = """\
M4 is the least, the largest, the first and the last value of a window, each with its time: what a line chart
needs. The streams are those of sums over windows of many lengths; out of order, a fifth of the records is
delayed by up to 2 s. Timed are the whole table and the end of the stream, rows included, on an operator made
beforehand. Of all windows, each 97th is compared with NumPy's."""


@dataclass(frozen=True)
class Case:
    """How many lengths over how many different values, and how many times the floor it may take."""

    lengths: int
    distinct: int
    limit: float

    @property
    def name(self) -> str:
        return f"{self.lengths:,} length{'s' if self.lengths > 1 else ''}, {self.distinct:,} values"


CASES = [Case(1, 84_232, 150), Case(100, 84_232, 1500), Case(100, 37, 150)]


# ---- medians over windows of many lengths ----


def stream(records: int, distinct: int) -> pa.Table:
    """Return the disordered stream with so many different values."""
    values = np.random.default_rng(6).integers(0, distinct, records).astype(np.float64)
    return windows.stream(records, disordered=True).set_column(1, "v", pa.array(values))


def queries(case: Case, aggregate: mt.Aggregate) -> list[mt.Query]:
    """Return a query for each length, and the sessions."""
    listed = [mt.tumbling(int(length)) for length in windows.spread(case.lengths)]
    return [window.agg(a=aggregate) for window in (*listed, mt.session(windows.GAP))]


def run_case(case: Case, table: pa.Table) -> pa.Table:
    """Return the rows of a new operator over the whole stream."""
    operator = WindowOperator(queries(case, mt.median("v")), time="ts", watermark=windows.DELAY)
    rows = pa.concat_tables([operator.process(table), operator.finish()])
    if operator.metrics.late_dropped:
        raise AssertionError(f"{case.name}: {operator.metrics.late_dropped} records were dropped")
    return rows


def check(case: Case, table: pa.Table) -> int:
    """Compare some windows with NumPy's; return how many there are in all."""
    rows = run_case(case, table)
    times, values = in_canonical_order(table)
    sessions = pc.equal(rows["query"].cast(pa.string()), f"q{case.lengths}").to_numpy()
    starts, ends, medians = (rows[name].to_numpy() for name in ("window_start", "window_end", "a"))
    for w in range(0, len(starts), SAMPLE):
        end = ends[w] - windows.GAP + 1 if sessions[w] else ends[w]
        inside = values[np.searchsorted(times, starts[w]) : np.searchsorted(times, end)]
        if np.median(inside) != medians[w]:
            raise AssertionError(f"{case.name}: {medians[w]} where NumPy gives {np.median(inside)}")
    return len(starts)


def in_canonical_order(table: pa.Table) -> tuple[Array, Array]:
    """Return times and values by time; those of equal times stay as they came."""
    times, values = table["ts"].to_numpy(), table["v"].to_numpy()
    order = np.argsort(times, kind="stable")
    return times[order], values[order]


def medians() -> tuple[str, bool]:
    """Return the table as Markdown, and whether all limits hold."""
    rows, held = [], True
    for case in CASES:
        with Console().status("compiling, checking answers, timing"):
            table = stream(windows.RECORDS, case.distinct)
            count = check(case, table)
            read = partial(windows.floor, table["ts"].to_numpy(), table["v"].to_numpy())
            best = best_of({"floor": read, "run": partial(run_case, case, table)}, ROUNDS)
        times = best["run"] / best["floor"]
        held &= times <= case.limit
        numbers = [f"{count:,}", f"{best['run'] / windows.RECORDS * 1e9:.0f}", f"{times:.0f}"]
        rows.append([case.name, *numbers, f"{case.limit:,.0f}", verdict(times <= case.limit)])
    title = (
        f"{windows.RECORDS:,} records in one batch, medians over windows of many lengths, best of {ROUNDS}"
    )
    return show(title, ["run", "windows", "ns a record", "times", "at most", ""], rows, MEDIANS), held


# ---- M4 ----


def extremes_operator(name: str, *, disordered: bool) -> WindowOperator:
    """Return a new operator with a query for each length."""
    listed = [mt.tumbling(int(length)).agg(**EXTREMES[name]) for length in windows.spread(M4_LENGTHS)]
    return WindowOperator(listed, time="ts", watermark=windows.DELAY if disordered else "in_order")


def check_extremes(name: str, table: pa.Table, *, disordered: bool) -> int:
    """Compare some windows with NumPy's; return how many there are in all."""
    operator = extremes_operator(name, disordered=disordered)
    rows = windows.run_case(operator, table)
    if operator.metrics.late_dropped:
        raise AssertionError(f"{name}: {operator.metrics.late_dropped} records were dropped")
    times, values = in_canonical_order(table)
    for row in rows.take(np.arange(0, len(rows), SAMPLE)).to_pylist():
        within = slice(*np.searchsorted(times, (row["window_start"], row["window_end"])))
        at, inside = times[within], values[within]
        low, high, last = int(inside.argmin()), int(inside.argmax()), len(inside) - 1
        want: dict[str, Any] = {"low": inside[low], "high": inside[high]}
        if name == "M4":
            parts = {"min": low, "max": high, "first": 0, "last": last}
            points = {part: inside[k] for part, k in parts.items()}
            want = {"m4": points | {f"{part}_time": at[k] for part, k in parts.items()}}
        if {column: row[column] for column in want} != want:
            raise AssertionError(f"{name}: {row} where NumPy gives {want}")
    return len(rows)


def m4() -> tuple[str, bool]:
    """Return the table as Markdown, and whether the limit holds."""
    rows, held = [], True
    for disordered in (False, True):
        with Console().status("compiling, checking answers, timing"):
            table = windows.stream(windows.RECORDS, disordered=disordered)
            counts = {name: check_extremes(name, table, disordered=disordered) for name in EXTREMES}
            fresh = {
                name: [extremes_operator(name, disordered=disordered) for _ in range(ROUNDS + 1)]
                for name in EXTREMES
            }
            runs = {name: partial(windows.run_next, some, table) for name, some in fresh.items()}
            best = best_of(runs, ROUNDS)
        times = best["M4"] / best["min and max"]
        held &= times <= M4_LIMIT
        numbers = [f"{best[name] / windows.RECORDS * 1e9:.0f}" for name in EXTREMES]
        limit = [f"{times:.2f}", f"{M4_LIMIT:g}", verdict(times <= M4_LIMIT)]
        rows.append(["out of order" if disordered else "in order", f"{counts['M4']:,}", *numbers, *limit])
    title = (
        f"{windows.RECORDS:,} records in one batch, M4 over {M4_LENGTHS:,} lengths of windows, "
        f"nanoseconds a record, best of {ROUNDS}"
    )
    headings = ["stream", "windows", *EXTREMES, "times", "at most", ""]
    return show(title, headings, rows, M4_NOTE), held


# ---- sliding medians ----


def ours(values: Array, window: int) -> tuple[float, Array]:
    """Return the seconds that one record takes once the window is full, and the median at each of them."""
    query = mt.count_sliding(window, every=1).agg(a=mt.median("v"))
    operator = WindowOperator(query, time="ts")
    times = np.arange(len(values))
    operator.process({"ts": times[:window], "v": values[:window]})
    start = time.perf_counter()
    rows = operator.process({"ts": times[window:], "v": values[window:]})
    seconds = time.perf_counter() - start
    return seconds / (len(values) - window), rows["a"].to_numpy()


def as_column(values: Array, window: int) -> Array:
    """Return the same from a column, as a column: `mt.swag.slide`."""
    return mt.swag.slide(mt.median(), values, window)[window:]


def polars(values: Array, window: int) -> Array:
    """Return the same by Polars."""
    found: Array = pl.Series(values).rolling_median(window).to_numpy()[window:]
    return found


def river(values: Array, window: int, updates: int) -> tuple[float, Array]:
    """Return the seconds that one record takes River once its window is full, and its last medians.

    Most of it comes in ascending order, which fills it fast; records that leave while it is timed do not.
    """
    rolling = stats.RollingQuantile(0.5, window)
    for value in values[: len(values) - updates].tolist():
        rolling.update(value)
    found = []
    start = time.perf_counter()
    for value in values[len(values) - updates :].tolist():
        rolling.update(value)
        found.append(rolling.get())
    return (time.perf_counter() - start) / updates, np.array(found)


def easily_filled(window: int, updates: int) -> Array:
    """Return values of which those that fill a window of River after the first ones are in order."""
    values = np.random.default_rng(7).random(window + updates)
    values[updates:window].sort()
    return values


def slides() -> tuple[str, bool]:
    """Return the table as Markdown, and whether all limits hold."""
    values = np.random.default_rng(8).random(LONG + SLIDING)
    with Console().status("compiling, checking answers, timing"):
        some = easily_filled(LONG, UPDATES)
        one_by_one, theirs = river(some, LONG, UPDATES)
        agree(ours(some, LONG)[1], theirs, "River")
        agree(as_column(some, LONG), theirs, "River")
        agree(ours(values, SHORT)[1], polars(values, SHORT), "Polars")
        agree(as_column(values, SHORT), polars(values, SHORT), "Polars")
        runs: dict[str, Callable[[], Any]] = {
            "long": lambda: as_column(values, LONG),
            "short": lambda: as_column(values, SHORT),
            "polars": lambda: polars(values, SHORT),
        }
        best = {name: seconds / len(values) for name, seconds in best_of(runs, ROUNDS).items()}
        operator = {w: min(ours(values, w)[0] for _ in range(ROUNDS)) for w in (LONG, SHORT)}
    rows = [
        (f"{LONG:,} records, River", operator[LONG], one_by_one, 300),
        (f"{SHORT:,} records, Polars", operator[SHORT], best["polars"], 1),
        (f"{LONG:,} records as a column, River", best["long"], one_by_one, 300),
        (f"{SHORT:,} records as a column, Polars", best["short"], best["polars"], 1),
    ]
    lines, held = [], True
    for name, a, b, least in rows:
        numbers = [f"{a * 1e9:,.0f}", f"{b * 1e9:,.0f}", f"{b / a:,.2f}", f"{least}"]
        held &= b >= least * a
        lines.append([name, *numbers, verdict(b >= least * a)])
    headings = ["window", "ns a record", "theirs", "times", "at least", ""]
    return show(
        f"Sliding medians over {len(values):,} records, best of {ROUNDS}", headings, lines, SLIDES
    ), held


def agree(got: Array, want: Array, whose: str) -> None:
    """Refuse other medians."""
    if len(got) != len(want) or not np.allclose(got, want, rtol=1e-12, atol=0):
        raise AssertionError(f"sliding medians differ from those of {whose}")


def run() -> tuple[str, bool]:
    """Return the tables as Markdown, and whether all limits hold."""
    tables = [m4(), medians(), slides()]
    return "\n".join(text for text, _ in tables), all(held for _, held in tables)
