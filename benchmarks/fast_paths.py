"""What each fast path and each threshold of the engine is worth: `python -m benchmarks.fast_paths --write`.

A fast path is switched off for the time of a turn, a threshold is set to a quarter and to four times its
value. Turns with and without alternate, and all must give the same rows. They go into docs/internals.md.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import muntin as mt
from benchmarks.report import show
from muntin.engine import tuning
from muntin.engine.engine import Engine
from muntin.engine.output.tables import RowTables
from muntin.engine.partials import factory
from muntin.engine.slices.edges import LookUp
from muntin.engine.slices.grid import windows as grid_windows
from muntin.engine.slices.grid.slices import GridSlices
from muntin.engine.slices.position.counts import CountSlices
from muntin.engine.slices.slicer import StreamSlicer
from muntin.engine.store import strategies
from muntin.engine.store.cells import AggregateStore
from muntin.running_stream import RunningStream

PAGE = Path(__file__).parent.parent / "docs" / "internals.md"
MARKS = ("<!-- fast paths: made by benchmarks/fast_paths.py -->", "<!-- end of fast paths -->")
TURNS = 5
Rows = list[pa.Table]


# ---- workloads ----


@dataclass(frozen=True)
class Workload:
    """Queries over records that come in batches."""

    words: str
    queries: Callable[[], list[mt.Query]]
    count: int  # of records
    size: int  # of batches
    keys: int = 1
    late: float = 0.0  # the share of records that come late
    watermark: Any = "in_order"
    lateness: int = 0

    def records(self, share: float) -> list[pa.Table]:
        """Return a share of the records in batches, which are smaller by as much."""
        rng = np.random.default_rng(7)
        count, size = max(10, int(self.count * share)), max(1, int(self.size * share))
        back = np.where(rng.random(count) < self.late, rng.integers(0, 200, count), 0)
        times = np.maximum(np.arange(count) - back, 0)
        keys = rng.integers(0, self.keys, count)
        table = pa.table({"ts": times, "key": keys, "v": rng.normal(size=count)})
        return [table.slice(at, size) for at in range(0, count, size)]

    def run(self, records: Sequence[pa.Table]) -> tuple[float, Rows]:
        """Return the seconds that it takes, and the rows."""
        op = mt.WindowOperator(
            self.queries(),
            time="ts",
            key="key" if self.keys > 1 else None,
            watermark=self.watermark,
            lateness=self.lateness,
        )
        rows = [op.process(records[0])]  # which plans, and finds kernels
        began = time.perf_counter()
        rows += [op.process(batch) for batch in records[1:]]
        return time.perf_counter() - began, [*rows, op.finish()]


def _sums(length: int) -> list[mt.Query]:
    return [mt.tumbling(length).agg(total=mt.sum("v"), n=mt.count())]


def _slides(aggregate: Any, count: int, slide: int = 10, most: int = 100) -> list[mt.Query]:
    lengths = [slide * (2 + k * most // count) for k in range(count)]
    return [
        mt.sliding(length, every=slide).agg(x=aggregate("v"), name=f"{k}") for k, length in enumerate(lengths)
    ]


SINGLE = Workload("one record a call, sums over 100", lambda: _sums(100), 3000, 1, 1)
SINGLE_ENDS = Workload("one record a call, each ends a window", lambda: _sums(1), 3000, 1, 1)
ALONE = Workload("one key, sums over 1,000", lambda: _sums(1000), 4_000_000, 1_000_000, 1)
CROWDED = Workload("one key, slices of two records", lambda: _sums(2), 2_000_000, 500_000, 1)
KEYED = Workload(
    "100,000 keys, sums over 500,000",
    lambda: _sums(500_000),
    6_000_000,
    3_000_000,
    100_000,
)
SOME_KEYS = Workload("100 keys, sums over 10,000", lambda: _sums(10_000), 4_000_000, 1_000_000, 100)
LENGTHS = Workload(
    "50 lengths of sums, one key",
    lambda: _slides(mt.sum, 50),
    400_000,
    100_000,
    1,
)
KEYED_LENGTHS = Workload("10 lengths of sums, 20 keys", lambda: _slides(mt.sum, 10), 200_000, 50_000, 20)
MANY_MAXIMA = Workload("40 lengths of maxima, one key", lambda: _slides(mt.max, 40), 200_000, 50_000, 1)
SHORT = Workload(
    "sums over three slices, one key",
    lambda: [mt.sliding(30, every=10).agg(x=mt.sum("v"))],
    2_000_000,
    500_000,
    1,
)
SMALL_BATCHES = Workload(
    "batches of 30 records that end some windows", lambda: _slides(mt.sum, 5), 60_000, 30, 1
)
COUNTS = Workload(
    "the last 100 records, at each",
    lambda: [mt.count_sliding(100, every=1).agg(x=mt.max("v"))],
    1_000_000,
    250_000,
    1,
)
LATE = Workload(
    "20 % late, batches of 100, 1,000 keys",
    lambda: _slides(mt.max, 3),
    60_000,
    100,
    1000,
    late=0.2,
    watermark=100,
    lateness=200,
)
LATE_IN_ORDER = Workload(
    "lists, 20 % late, batches of 100, 1,000 keys",
    lambda: [mt.tumbling(100).agg(x=mt.collect("v"))],
    60_000,
    100,
    1000,
    late=0.2,
    watermark=100,
    lateness=200,
)
MANY_KEYS = Workload("100,000 keys, batches of 100", lambda: _sums(500), 60_000, 100, 100_000)
MEDIANS = Workload(
    "medians over 1,000", lambda: [mt.tumbling(1000).agg(x=mt.median("v"))], 600_000, 200_000, 1
)
KEYED_MEDIANS = Workload(
    "medians of 30 values, 100 keys",
    lambda: [mt.tumbling(3000).agg(x=mt.median("v"))],
    600_000,
    200_000,
    100,
)
SPLIT = Workload(
    "the last 50 records every 500, 20 % late",
    lambda: [mt.last_n(50, every=500).agg(n=mt.count(), x=mt.max("v"))],
    60_000,
    2000,
    20,
    late=0.2,
    watermark=300,
    lateness=300,
)


# ---- what is switched off ----


@dataclass(frozen=True)
class FastPath:
    """A way that is taken where it fits, and what stands for taking the general one instead."""

    words: str
    place: str
    off: Callable[[], contextlib.AbstractContextManager[Any]]
    workload: Workload


def _adapted_without(adapt: Any) -> Any:
    def adapted(self: GridSlices, told: Any) -> None:
        adapt(self, told)
        self._slice_by_slice = None

    return adapted


def _cut_as_others(self: StreamSlicer, stretch: Any, edges: Any, fields: Any) -> Any:
    panes = self._cut_dense(stretch, LookUp(edges, stretch.high), fields)
    return replace(panes, start=self._grid_starts(edges)[panes.start])


@contextlib.contextmanager
def _constant(name: str, value: int) -> Iterator[None]:
    strategies._candidates.cache_clear()
    try:
        with patch.object(tuning, name, value):
            yield
    finally:
        strategies._candidates.cache_clear()


FAST_PATHS = (
    FastPath(
        "a record by itself is read as numbers, without whole columns",
        "ingest/single_record.py",
        lambda: patch.object(RunningStream, "_process_single", lambda *_: None),
        SINGLE,
    ),
    FastPath(
        "a record by itself joins the latest slice, without a pane",
        "engine.py: ingest_one",
        lambda: patch.object(Engine, "ingest_one", lambda *_: None),
        SINGLE,
    ),
    FastPath(
        "a few rows are written into a page, without whole columns",
        "output/few_rows.py",
        lambda: patch.object(RowTables, "few", lambda *_: None),
        SINGLE_ENDS,
    ),
    FastPath(
        "records of one key in order are cut by searching the edges",
        "slices/slicer.py: _cut_sorted",
        lambda: patch.object(StreamSlicer, "_cut_sorted", _cut_as_others),
        ALONE,
    ),
    FastPath(
        "NumPy folds neighbouring records",
        "partials/reductions.py",
        lambda: patch.object(factory, "REDUCTIONS", {}),
        ALONE,
    ),
    FastPath(
        "panes that follow all slices become the slices",
        "store/cells.py: _append",
        lambda: patch.object(AggregateStore, "_follow", lambda *_: None),
        CROWDED,
    ),
    FastPath(
        "windows that are one slice each are not looked for",
        "slices/grid/windows.py: single_slices",
        lambda: patch.object(GridSlices, "adapt", _adapted_without(GridSlices.adapt)),
        SOME_KEYS,
    ),
    FastPath(
        "a large batch over scattered keys is taken in in parts",
        "engine.py: _ingest_parts",
        lambda: patch.object(Engine, "_part_size", lambda *_: 0),
        KEYED,
    ),
    FastPath(
        "windows of one key are listed by end, for all queries at once",
        "slices/grid/windows.py: _by_end",
        lambda: patch.object(grid_windows, "_by_end", lambda *_: None),
        LENGTHS,
    ),
    FastPath(
        "a handful of windows are listed by Python",
        "slices/grid/windows.py: _few_windows",
        lambda: _constant("HANDFUL", -1),
        SMALL_BATCHES,
    ),
    FastPath(
        "records that are slices of their own are the store's columns",
        "store/ordered.py: RecordColumns",
        lambda: patch.object(CountSlices, "_passes_through", lambda *_: False),
        COUNTS,
    ),
    FastPath(
        "streaks of rows in order are merged",
        "output/order.py",
        lambda: _constant("MANY_ROWS", 1 << 62),
        KEYED_LENGTHS,
    ),
)

THRESHOLDS: dict[str, Workload] = {
    "PART": KEYED,
    "SMALL_PART": COUNTS,
    "BLOCK": SOME_KEYS,
    "SCATTERED_KEYS": KEYED_LENGTHS,
    "FEW_GRIDS": SINGLE,
    "EVEN": KEYED_LENGTHS,
    "HANDFUL": SMALL_BATCHES,
    "WINDOWS_AT_HAND": LENGTHS,
    "MANY_ROWS": KEYED_LENGTHS,
    "STREAKS": KEYED_LENGTHS,
    "PAGE": SINGLE_ENDS,
    "STACK_QUERIES": MANY_MAXIMA,
    "SHORT_WINDOW": SHORT,
    "LONG_SEGMENT": KEYED_MEDIANS,
    "WORTH_COMPACTING": MEDIANS,
    "FIRST_SIZE": SPLIT,
    "LOOK_AFTER": SINGLE,
    "FRESH_GROUPS": LATE,
    "LIKE_CHUNKS": LATE_IN_ORDER,
    "SORTED_KEYS": MANY_KEYS,
}


# ---- turns ----


def measured(
    workload: Workload, ways: Sequence[Callable[[], Any]], turns: int, share: float = 1.0
) -> list[float]:
    """Return the least seconds of each way, after seeing that all give the same rows."""
    records = workload.records(share)
    least = [float("inf")] * len(ways)
    want: Rows | None = None
    for turn in range(turns + 1):  # the first finds out what has to be compiled
        for k, way in enumerate(ways):
            with way():
                seconds, rows = workload.run(records)
            if turn:
                least[k] = min(least[k], seconds)
                continue
            want = want or rows
            check(workload, want, rows)
    return least


def check(workload: Workload, want: Rows, got: Rows) -> None:
    """Refuse rows that are others; floats may differ by their rounding."""
    one, other = (_sorted(pa.concat_tables(rows, promote_options="permissive")) for rows in (want, got))
    assert one.schema == other.schema, workload.words
    for name in one.column_names:
        a, b = one[name].combine_chunks(), other[name].combine_chunks()
        if pa.types.is_floating(a.type):
            assert np.allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-9), (workload.words, name)
        else:
            assert a.to_pylist() == b.to_pylist(), (workload.words, name)


def _sorted(rows: pa.Table) -> pa.Table:
    """Return rows in one order: that of keys whose windows end together is left open."""
    plain = pa.table(
        {name: rows[name].cast(pa.string()) if name == "query" else rows[name] for name in rows.column_names}
    )
    names = [
        name
        for name in ("key", "query", "window_end", "window_start", "window_id", "revision")
        if name in plain.column_names
    ]
    return plain.sort_by([(name, "ascending") for name in names])


def paths_table(turns: int, share: float = 1.0) -> str:
    """Measure all fast paths; return a table."""
    rows = []
    for path in FAST_PATHS:
        workload = path.workload
        with_it, without = measured(workload, [contextlib.nullcontext, path.off], turns, share)
        rows.append([path.words, f"`{path.place}`", workload.words, f"{without / with_it:.2f}"])
    return show(
        "Fast paths",
        ["what", "where", "measured with", "times slower without"],
        rows,
        f"Written by `python -m benchmarks.fast_paths --write`: the least of {turns} turns, with and without "
        "by turns; all give the same rows.",
    )


def thresholds_table(turns: int, share: float = 1.0) -> str:
    """Measure all thresholds; return a table."""
    rows = []
    for name, workload in THRESHOLDS.items():
        value = getattr(tuning, name)
        ways = [lambda v=v, name=name: _constant(name, v) for v in (value, max(1, value // 4), 4 * value)]
        chosen, smaller, larger = measured(workload, ways, turns, share)
        ratios = [f"{other / chosen:.2f}" for other in (smaller, larger)]
        rows.append([f"`{name}`", f"{value:,}", workload.words, *ratios])
    return show(
        "Thresholds",
        ["threshold", "value", "measured with", "time at a quarter", "time at four times"],
        rows,
        "As a multiple of the time at the value. Where both are about 1, the value hardly matters there.",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fast_paths", description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS, help=f"of each way, by turns ({TURNS})")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/internals.md")
    given = parser.parse_args(arguments)
    tables = [paths_table(given.turns), thresholds_table(given.turns)]
    if given.write:
        before, _, rest = PAGE.read_text().partition(MARKS[0])
        _, _, after = rest.partition(MARKS[1])
        PAGE.write_text("\n".join([before + MARKS[0], "", *tables, MARKS[1]]) + after)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
