"""Aggregates that grow with the records: medians against reading two columns once, River and Polars."""

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

ROUNDS = 3
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
A median over the last records, at each record. River takes one record at a time: its window of {LONG:,} is
filled, then {UPDATES} more records are timed. All compute the same medians, compared at the last records."""


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
    times, values = table["ts"].to_numpy(), table["v"].to_numpy()
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    sessions = pc.equal(rows["query"].cast(pa.string()), f"q{case.lengths}").to_numpy()
    starts, ends, medians = (rows[name].to_numpy() for name in ("window_start", "window_end", "a"))
    for w in range(0, len(starts), SAMPLE):
        end = ends[w] - windows.GAP + 1 if sessions[w] else ends[w]
        inside = values[np.searchsorted(times, starts[w]) : np.searchsorted(times, end)]
        if np.median(inside) != medians[w]:
            raise AssertionError(f"{case.name}: {medians[w]} where NumPy gives {np.median(inside)}")
    return len(starts)


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


# ---- sliding medians ----


def ours(values: Array, window: int) -> Array:
    """Return the median of the last records at each one, once there are so many."""
    query = mt.count_sliding(window, every=1).agg(a=mt.median("v"))
    operator = WindowOperator(query, time="ts")
    rows = operator.process({"ts": np.arange(len(values)), "v": values})
    found: Array = rows["a"].to_numpy()
    return found


def polars(values: Array, window: int) -> Array:
    """Return the same by Polars."""
    found: Array = pl.Series(values).rolling_median(window).to_numpy()[window - 1 :]
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
    values = np.random.default_rng(8).random(SLIDING)
    with Console().status("compiling, checking answers, timing"):
        some = easily_filled(LONG, UPDATES)
        one_by_one, theirs = river(some, LONG, UPDATES)
        agree(ours(some, LONG)[-UPDATES:], theirs, "River")
        agree(ours(values, SHORT), polars(values, SHORT), "Polars")
        runs: dict[str, Callable[[], Any]] = {
            "long": lambda: ours(values, LONG),
            "short": lambda: ours(values, SHORT),
            "polars": lambda: polars(values, SHORT),
        }
        best = best_of(runs, ROUNDS)
    long, short, peer = (best[name] / SLIDING for name in ("long", "short", "polars"))
    rows = [
        (f"{LONG:,} records, River", long, one_by_one, 300),
        (f"{SHORT:,} records, Polars", short, peer, 1),
    ]
    lines = [
        [name, f"{a * 1e9:,.0f}", f"{b * 1e9:,.0f}", f"{b / a:,.2f}", f"{least}", verdict(b >= least * a)]
        for name, a, b, least in rows
    ]
    headings = ["window", "ns a record", "theirs", "times", "at least", ""]
    return show(f"Sliding medians over {SLIDING:,} records, best of {ROUNDS}", headings, lines, SLIDES), all(
        b >= least * a for _, a, b, least in rows
    )


def agree(got: Array, want: Array, whose: str) -> None:
    """Refuse other medians."""
    if len(got) != len(want) or not np.allclose(got, want, rtol=1e-12, atol=0):
        raise AssertionError(f"sliding medians differ from those of {whose}")


def run() -> tuple[str, bool]:
    """Return both tables as Markdown, and whether all limits hold."""
    tables = [medians(), slides()]
    return "\n".join(text for text, _ in tables), all(held for _, held in tables)
