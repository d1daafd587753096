"""What a call costs: one record or a small batch, building an operator, the first result of a process."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba.core import event
from rich.console import Console

import muntin as mt
from benchmarks.report import show, verdict
from benchmarks.timing import best_of
from muntin.kernels.modules import cache_directory
from muntin.operator import WindowOperator

ROUNDS = 9
CALLS = 20_000  # of one record; a tenth of them before anything is timed
QUERIES = 100
NOTE = """\
Calls: the median over many in a row, best of several turns, with Arrow record batches; `mean` is of the
same calls, and not held to anything. Building: 100 queries of six kinds of windows and eight aggregates, the
operator and its first 1,000 records; Numba's compilations, and the files that are kept for them, are counted
in a process that began without kept code and has run each query alone. First result: a whole Python
process from start to end, with the code that an earlier one has kept, or without any, and without SciPy and
PyYAML, which muntin does not need but Numba loads where they are installed."""


# ---- one call after the other ----


@dataclass(frozen=True)
class Calls:
    """Batches that an operator takes one by one, and the rows that each must give."""

    name: str
    queries: list[mt.Query]
    size: int  # records in a batch
    step: int  # from one record's time to the next
    rows: int | None  # of each batch; None: as they come
    limit: float  # in microseconds
    key: str | None = None

    def batches(self, count: int) -> list[pa.RecordBatch]:
        """Return so many batches in time order."""
        times = np.arange(count * self.size) * self.step
        columns = {"ts": times, "key": times % 7, "v": np.random.default_rng(7).random(len(times))}
        whole = pa.record_batch(columns)
        return [whole.slice(k * self.size, self.size) for k in range(count)]

    def operator(self) -> WindowOperator:
        """Return a new operator."""
        return WindowOperator(self.queries, time="ts", key=self.key)


def _sums(*lengths: int) -> list[mt.Query]:
    return [mt.tumbling(length).agg(total=mt.sum("v")) for length in lengths]


HOUR = 3_600_000
TEN = [int(length) for length in np.linspace(1_000, 20_000, 10).round()]
CALLS_IN_A_ROW = [
    Calls("one record, no window ends", _sums(HOUR), 1, 1, 0, 40),
    Calls("one record, no window ends, a key", _sums(HOUR), 1, 1, 0, 40, key="key"),
    Calls("one record, no window ends, 10 queries", _sums(*(HOUR + n for n in TEN)), 1, 1, 0, 40),
    Calls("one record, one row", _sums(1), 1, 1, 1, 120),
    Calls("one record, one row, a key", _sums(1), 1, 1, 1, 120, key="key"),
    Calls("1,000 records, 10 queries", _sums(*TEN), 1_000, 1, None, 1_000),
    Calls("1,000 records, 10 queries, a key", _sums(*TEN), 1_000, 1, None, 1_000, key="key"),
]


def check_calls(calls: Calls, count: int) -> None:
    """See that the batches give the rows they must, and one by one the same as all at once."""
    batches, operator = calls.batches(count), calls.operator()
    parts = [operator.process(batch) for batch in batches]
    if calls.rows is not None and any(part.num_rows != calls.rows for part in parts[1:]):
        raise AssertionError(f"{calls.name}: other numbers of rows than {calls.rows} a batch")
    rows = pa.concat_tables([*parts, operator.finish()])
    whole = calls.operator()
    wanted = pa.concat_tables([whole.process(pa.Table.from_batches(batches)), whole.finish()])
    if not agree(rows, wanted):
        raise AssertionError(f"{calls.name}: other rows than from all batches at once")


def agree(a: pa.Table, b: pa.Table) -> bool:
    """Tell whether two tables have the same rows, in whatever order, up to the rounding of floats."""
    return _listed(a) == _listed(b)


def _listed(table: pa.Table) -> list[tuple[Any, ...]]:
    rows = (tuple(row.values()) for row in table.drop_columns("window_id").to_pylist())
    rounded = (tuple(float(f"{x:.9g}") if isinstance(x, float) else x for x in row) for row in rows)
    return sorted(rounded, key=repr)


def seconds_a_call(calls: Calls, count: int, rounds: int) -> tuple[float, float]:
    """Return the least median and mean seconds of a call over the rounds; a round's first are not timed."""
    batches = calls.batches(count)
    untimed = max(1, count // 10)
    clock = time.perf_counter
    medians, means = [], []
    for _ in range(rounds):
        process = calls.operator().process
        for batch in batches[:untimed]:
            process(batch)
        ticks = [clock()]
        for batch in batches[untimed:]:
            process(batch)
            ticks.append(clock())
        medians.append(statistics.median(np.diff(ticks).tolist()))
        means.append((ticks[-1] - ticks[0]) / (count - untimed))
    return min(medians), min(means)


# ---- building an operator ----

WINDOWS: list[Callable[[int], Any]] = [
    lambda n: mt.tumbling(100 + n),
    lambda n: mt.sliding(300 + n, every=50 + n),
    lambda n: mt.cumulate(5 * (20 + n), step=20 + n),
    lambda n: mt.session(3 + n),
    lambda n: mt.count_tumbling(20 + n),
    lambda n: mt.count_sliding(50 + n, every=10 + n),
]
AGGREGATES: list[Callable[[], dict[str, mt.Aggregate]]] = [
    lambda: {"total": mt.sum("v")},
    lambda: {"n": mt.count()},
    lambda: {"average": mt.mean("v")},
    lambda: {"least": mt.min("v")},
    lambda: {"most": mt.max("v")},
    lambda: {"spread": mt.variance("v")},
    lambda: {"earliest": mt.first("v")},
    lambda: {"latest": mt.last("v")},
]


def mixed_queries(count: int) -> list[mt.Query]:
    """Return queries of all windows and aggregates in turn, no two alike."""
    shapes = len(WINDOWS)
    return [
        WINDOWS[k % shapes](k).agg(**AGGREGATES[k // shapes % len(AGGREGATES)](), name=f"query {k}")
        for k in range(count)
    ]


def first_batch() -> pa.RecordBatch:
    """Return a thousand records of a few keys, a little out of order."""
    rng = np.random.default_rng(8)
    times = np.arange(1_000) * 2 - rng.integers(0, 20, 1_000)
    return pa.record_batch({"ts": times, "key": rng.integers(0, 4, 1_000), "v": rng.random(1_000)})


def build(queries: list[mt.Query], batch: pa.RecordBatch) -> tuple[WindowOperator, pa.Table]:
    """Return a new operator after a batch, and its rows."""
    operator = WindowOperator(queries, time="ts", key="key", watermark=20)
    return operator, operator.process(batch)


def check_building(count: int) -> tuple[int, int]:
    """See that queries together give the rows of each alone; return its compilations and new files."""
    batch, queries = first_batch(), mixed_queries(count)
    alone = [_all_rows([query], batch) for query in queries]
    before = kept_files()
    with event.install_recorder("numba:compile") as recorder:
        together = _all_rows(queries, batch)
    new = len(kept_files() - before)
    names = together["query"].cast(pa.string())
    for query, rows in zip(queries, alone, strict=True):
        own = together.filter(pc.equal(names, query.name)).select(rows.column_names)
        if not agree(own, rows):
            raise AssertionError(f"{query.name} gives other rows beside others than alone")
    return sum(happened.is_start for _, happened in recorder.buffer), new


def kept_files() -> set[Path]:
    """Return the files that hold generated modules and their machine code."""
    directory = cache_directory()
    return {path for path in directory.rglob("*") if path.is_file()} if directory is not None else set()


def _all_rows(queries: list[mt.Query], batch: pa.RecordBatch) -> pa.Table:
    operator, rows = build(queries, batch)
    return pa.concat_tables([rows, operator.finish()])


def compilations(count: int) -> tuple[int, int]:
    """Return what a new process compiles and newly keeps for queries that it has run one by one."""
    code = f"from benchmarks import calls\nprint(*calls.check_building({count}))"
    with tempfile.TemporaryDirectory() as directory:
        compiled, kept = in_new_process(code, directory).split()
    return int(compiled), int(kept)


def in_new_process(code: str, directory: str) -> str:
    """Return what a program writes in a new process, whose code is kept in a directory."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "MUNTIN_CACHE_DIR": directory},
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def seconds_to_build(count: int, rounds: int) -> float:
    """Return the least seconds for queries, operator and first batch."""
    batch = first_batch()
    return best_of({"build": lambda: build(mixed_queries(count), batch)}, rounds)["build"]


# ---- the first result of a process ----

FIRST = """
import muntin as mt
query = mt.sliding(10, every=5).agg(total=mt.sum("v"), most=mt.max("v"), n=mt.count())
operator = mt.WindowOperator(query, time="ts", key="key")
rows = operator.process({"ts": [1, 4, 7, 30], "key": ["a", "b", "a", "b"], "v": [1.5, 2.5, 0.5, 1.0]})
print(sorted(zip(*(rows[name].to_pylist() for name in ("key", "window_start", "total", "most", "n")))))
"""
FIRST_ROWS = [
    ("a", -5, 1.5, 1.5, 1),
    ("a", 0, 2.0, 1.5, 2),
    ("a", 5, 0.5, 0.5, 1),
    ("b", -5, 2.5, 2.5, 1),
    ("b", 0, 2.5, 2.5, 1),
]


# Numba loads these where they are installed. What comes with muntin does not bring them: other extras do.
HIDDEN = "import sys; sys.modules.update(dict.fromkeys(['scipy', 'yaml']))"


def seconds_to_start(directory: str, before: str = HIDDEN) -> float:
    """Return the seconds of a new process up to its first rows, with the code that a directory keeps."""
    start = time.perf_counter()
    written = in_new_process(before + FIRST, directory)
    seconds = time.perf_counter() - start
    if written != str(FIRST_ROWS):
        raise AssertionError(f"the first rows of a new process are {written}")
    return seconds


def seconds_cold_and_warm(cold: int, warm: int) -> tuple[float, float, float]:
    """Return the least seconds over so many new processes: without kept code, with it, and beside SciPy."""
    colds, warms, beside = [], [], []
    for k in range(cold):
        with tempfile.TemporaryDirectory() as directory:
            colds.append(seconds_to_start(directory))
            if k == cold - 1:
                warms = [seconds_to_start(directory) for _ in range(warm)]
                beside = [seconds_to_start(directory, "") for _ in range(warm)]
    return min(colds), min(warms), min(beside)


# ---- all of it ----


def run() -> tuple[str, bool]:
    """Return the table as Markdown, and whether all limits hold."""
    rows, held = [], True

    def add(name: str, got: float, limit: float, unit: str, mean: str = "") -> None:
        nonlocal held
        held &= got <= limit
        rows.append([name, f"{got:,.3g}", unit, f"{limit:,g}", verdict(got <= limit), mean])

    with Console().status("calls, building, first results"):
        for calls in CALLS_IN_A_ROW:
            check_calls(calls, 100)
            median, mean = seconds_a_call(calls, max(100, CALLS // calls.size), ROUNDS)
            add(calls.name, median * 1e6, calls.limit, "us", f"{mean * 1e6:,.3g}")
        check_building(QUERIES)
        add(f"{QUERIES} queries and a first batch", seconds_to_build(QUERIES, ROUNDS) * 1e3, 100, "ms")
        compiled, kept = compilations(QUERIES)
        add("compilations for them", compiled, 0, "")
        add("files newly kept for them", kept, 0, "")
        cold, warm, beside = seconds_cold_and_warm(2, 5)
        add("first result, code kept", warm, 1.5, "s")
        add("first result, nothing kept", cold, 8, "s")
        rows.append(["first result, code kept, SciPy there", f"{beside:,.3g}", "s", "", "", ""])
    return show("What a call costs", ["call", "takes", "", "at most", "", "mean"], rows, NOTE), held
