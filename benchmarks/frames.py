"""Windows that records mark off, against reading two columns once, in one run.

A sensor is read 2,000 times a second: a slow wave, a walk at random, a state that changes now and then, and
marks at random. Twenty punctuations and frames at once, and a tumbling window that a user has written.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

import muntin as mt
from benchmarks.report import show, verdict
from benchmarks.timing import best_of
from benchmarks.windows import floor, run_case, run_next
from muntin.operator import WindowOperator

RECORDS, CHECKED = 8_000_000, 300_000
ROUNDS = 7
LENGTH = 1_000  # of the windows that a user has written, in milliseconds
Array = NDArray[Any]
Spans = Iterator[tuple[int, int]]  # of places, from and to
NOTE = """\
`times` is of reading both columns once (`walk.sum()` and `ts.max()`). Each query has the sum and the largest
of `walk`. Twenty queries: punctuations at marks about 1,000 records apart, some with marks that end them;
frames of the wave above a threshold, of the walk within a distance, and up to a sum; and runs of a state.
Timed are the whole table and the end of the stream, rows included, on an operator made beforehand. On the
first 300,000 records, all rows are compared with those of plain loops."""


def stream(records: int) -> pa.Table:
    """Return the readings of the sensor."""
    rng = np.random.default_rng(11)
    marks = {name: rng.random(records) < 1 / 1000 for name in ("start", "stop")}
    times = np.arange(records)
    wave = 75 + 20 * np.sin(times / 700)
    walk = np.cumsum(rng.standard_normal(records))
    return pa.table({"ts": times // 2, "walk": walk, "wave": wave, "state": times // 1500 % 5, **marks})


def frames() -> dict[str, mt.Query]:
    """Return the twenty queries by name."""
    windows: dict[str, Any] = {}
    for name in ("start", "stop"):
        windows[f"from {name}"] = mt.punctuation(name)
        windows[f"since {name}"] = mt.landmark(name)
    windows["start to stop"] = mt.punctuation("start", end="stop")
    windows["stop to start"] = mt.landmark("stop", until="start")
    windows |= {f"above {bound}": mt.threshold_frame("wave", ">", bound) for bound in (60, 70, 80, 90)}
    windows |= {f"within {by}": mt.delta_frame("walk", by=by) for by in (30.0, 50.0, 70.0, 90.0)}
    windows |= {
        f"up to {bound:g}": mt.aggregate_frame(mt.sum("wave"), reaches=bound) for bound in (5e4, 1e5, 2e5)
    }
    windows["states"] = mt.state_window("state")
    windows["slow"] = mt.threshold_frame("wave", "<", 60, min_records=10)
    windows["marked states"] = mt.state_window("start")
    return {name: _query(window, name) for name, window in windows.items()}


def _query(window: Any, name: str) -> mt.Query:
    query: mt.Query = window.agg(total=mt.sum("walk"), top=mt.max("walk"), name=name)
    return query


def tumble(state: int, t: int, row: Any) -> tuple[int, int, int]:  # noqa: ARG001
    """Say where tumbling windows begin and end, as a user would write them."""
    here = t // 1000
    if here == state:
        return state, 0, 0
    return here, 1, 0 if state < 0 else 1


CASES: dict[str, tuple[Callable[[], list[mt.Query]], float]] = {
    "20 frames and punctuations": (lambda: list(frames().values()), 80.0),
    "a tumbling window, written by a user": (
        lambda: [_query(mt.user_window(tumble, state=-1), "tumble")],
        15.0,
    ),
}


# ---- answers ----


def _between(opens: Array, closes: Array, count: int) -> Spans:
    for first in opens.tolist():
        after = closes[np.searchsorted(closes, first + 1) :]
        yield first, int(after[0]) if len(after) else count


def _runs(holds: Array, least: int) -> Spans:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], holds.astype(np.int8), [0]])))
    yield from (
        (a, b) for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True) if b - a >= least
    )


def _parts(values: Array) -> Spans:
    edges = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1, [len(values)]]).tolist()
    yield from itertools.pairwise(edges)


def _deltas(values: list[float], by: float) -> Spans:
    first = 0
    for i, value in enumerate(values):
        if abs(value - values[first]) > by:
            yield first, i
            first = i
    yield first, len(values)


def _sums(values: list[float], bound: float) -> Spans:
    first, total = 0, 0.0
    for i, value in enumerate(values):
        total += value
        if total >= bound:
            yield first, i + 1
            first, total = i + 1, 0.0
    if first < len(values):
        yield first, len(values)


def expected(name: str, table: pa.Table) -> Spans:
    """Return the windows of a query, by plain loops."""
    columns = {column: table[column].to_numpy() for column in table.column_names}
    count, words = table.num_rows, name.split()
    marks = {mark: np.flatnonzero(columns[mark]) for mark in ("start", "stop")}
    match words:
        case ["from" | "since", mark]:
            return _between(marks[mark], marks[mark], count)
        case [one, "to", other]:
            if one in marks:
                return _between(marks[one], marks[other], count)
            return _sums(columns["wave"].tolist(), float(other))
        case ["up", "to", bound]:
            return _sums(columns["wave"].tolist(), float(bound))
        case ["above", bound]:
            return _runs(columns["wave"] > float(bound), 1)
        case ["within", by]:
            return _deltas(columns["walk"].tolist(), float(by))
        case ["slow"]:
            return _runs(columns["wave"] < 60, 10)
        case ["tumble"]:
            return _parts(columns["ts"] // LENGTH)
    return _parts(columns["start" if words[0] == "marked" else "state"])


def check(queries: list[mt.Query], table: pa.Table) -> int:
    """Compare every window with that of a plain loop; return how many there are."""
    rows = run_case(WindowOperator(queries, time="ts"), table)
    walk, times = table["walk"].to_numpy(), table["ts"].to_numpy()
    for query in queries:
        mine = rows.filter(pa.compute.equal(rows["query"].cast(pa.string()), query.name)).sort_by("window_id")
        spans = list(expected(str(query.name), table))
        first, stop = (np.array(side, np.int64) for side in zip(*spans, strict=True))
        told = {name: mine[name].to_numpy() for name in ("window_start", "window_end", "total", "top")}
        same = len(told["total"]) == len(spans) and (told["window_start"] == times[first]).all()
        if not same or not (told["window_end"] == times[stop - 1]).all():
            raise AssertionError(f"{query.name}: other windows than a plain loop finds")
        if not np.allclose(told["total"], [walk[a:b].sum() for a, b in spans], rtol=1e-9):
            raise AssertionError(f"{query.name}: other totals than a plain loop finds")
        if not (told["top"] == [walk[a:b].max() for a, b in spans]).all():
            raise AssertionError(f"{query.name}: other maxima than a plain loop finds")
    return int(rows.num_rows)


def run() -> tuple[str, bool]:
    """Return the table as Markdown, and whether all limits hold."""
    rows, held = [], True
    with Console().status("compiling, checking answers, timing"):
        table = stream(RECORDS)
        few = table.slice(0, CHECKED)
        found = {}
        runs = {}
        for name, (queries, _) in CASES.items():
            check(queries(), few)
            found[name] = run_case(WindowOperator(queries(), time="ts"), table).num_rows
            fresh = [WindowOperator(queries(), time="ts") for _ in range(ROUNDS + 1)]
            runs[name] = partial(run_next, fresh, table)
        read = partial(floor, table["ts"].to_numpy(), table["walk"].to_numpy())
        best = best_of({"floor": read, **runs}, ROUNDS)
    rows.append(["read both columns once", "", f"{best['floor'] / RECORDS * 1e9:.2f}", "", "", ""])
    for name, (_, limit) in CASES.items():
        times = best[name] / best["floor"]
        held &= times <= limit
        numbers = [f"{found[name]:,}", f"{best[name] / RECORDS * 1e9:.2f}", f"{times:.1f}"]
        rows.append([name, *numbers, f"{limit:g}", verdict(times <= limit)])
    title = f"{RECORDS:,} records in one batch, windows that records mark off, best of {ROUNDS} turns"
    return show(title, ["run", "windows", "ns a record", "times", "at most", ""], rows, NOTE), held
