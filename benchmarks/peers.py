"""Keyed sliding and tumbling windows against polars on the same table, in one run.

Both get the rows in time order and take sum, maximum and count. By itself, `group_by_dynamic` leaves out the
windows that hold a key's first record but start before the step that it lies in. An offset of
`every - length` brings them in: then both give the same windows, and every one of them is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
from rich.console import Console

import muntin as mt
from benchmarks.report import show, verdict
from benchmarks.timing import best_of
from muntin.operator import WindowOperator

ROWS = 5_000_000
ROUNDS = 5
NOTE = f"""\
`polars` is `group_by_dynamic` of polars {pl.__version__} on {pl.thread_pool_size()} threads, told that
the rows are in time order; `times` is how many times as long it takes. `plain group_by` is polars' grouping
by key and truncated time, which does for tumbling windows only. All give the same windows:
`group_by_dynamic` would leave out those that hold a key's first record but start before the step that it
lies in, so `offset` tells it to begin with them. Maxima and counts are equal, sums to 1e-9, since polars'
running sums keep the rounding of values that have left."""
AGGREGATES = [pl.col("v").sum().alias("total"), pl.col("v").max().alias("most"), pl.len().alias("n")]


@dataclass(frozen=True)
class Peer:
    """Windows over so many keys and seconds of event time, and how many times faster they must be."""

    keys: int
    span: int  # in seconds, as are all
    length: int
    every: int
    limit: float

    @property
    def name(self) -> str:
        window = f"{self.length:,} s" + f" every {self.every:,} s" * (self.every != self.length)
        return f"{self.keys:,} keys, {window}"


PEERS = [
    Peer(100, 2_500, 10, 1, 15),
    Peer(100, 2_500, 60, 1, 15),
    Peer(100, 2_500, 600, 1, 15),
    Peer(100_000, 7_200, 3_600, 600, 6),  # spans for which polars takes about as long as for the others
    Peer(100_000, 3_600, 60, 60, 6),
]


# ---- the table and who runs over it ----


def table_of(rows: int, peer: Peer) -> pa.Table:
    """Return records in time order: millisecond timestamps, keys and values at random."""
    rng = np.random.default_rng(6)
    times = np.sort(rng.integers(0, peer.span * 1_000, rows)).astype("datetime64[ms]")
    return pa.table({"ts": times, "key": rng.integers(0, peer.keys, rows), "v": rng.random(rows)})


def run_muntin(peer: Peer, table: pa.Table) -> pa.Table:
    """Return the rows of a new operator."""
    window = mt.sliding(f"{peer.length}s", every=f"{peer.every}s")
    query = window.agg(total=mt.sum("v"), most=mt.max("v"), n=mt.count())
    operator = WindowOperator(query, time="ts", key="key")
    return pa.concat_tables([operator.process(table), operator.finish()])


def run_polars(peer: Peer, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the same windows by polars' grouping that is made for them."""
    groups = frame.group_by_dynamic(
        "ts",
        every=f"{peer.every}s",
        period=f"{peer.length}s",
        offset=f"{peer.every - peer.length}s",
        closed="left",
        start_by="window",
        group_by="key",
    )
    return groups.agg(AGGREGATES)


def run_plain(peer: Peer, frame: pl.DataFrame) -> pl.DataFrame:
    """Return tumbling windows by polars' plain grouping of truncated times."""
    return frame.group_by("key", pl.col("ts").dt.truncate(f"{peer.every}s")).agg(AGGREGATES)


def frame_of(table: pa.Table) -> pl.DataFrame:
    """Return the table as a frame that knows that it is sorted."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.set_sorted("ts")


# ---- answers ----


def check(peer: Peer, table: pa.Table) -> int:
    """Compare all windows with those of polars; return how many there are."""
    rows = frame_of(run_muntin(peer, table).rename_columns({"window_start": "ts"}))
    ours = rows.select("key", "ts", "total", "most", "n").sort("key", "ts")
    frame = frame_of(table)
    runs = {"group_by_dynamic": run_polars} | ({"group_by": run_plain} if peer.length == peer.every else {})
    for name, run_peer in runs.items():
        theirs = run_peer(peer, frame).sort("key", "ts")
        if not ours.select("key", "ts").equals(theirs.select("key", "ts")):
            raise AssertionError(f"{peer.name}: other windows than {name} finds")
        if not all((ours[column] == theirs[column]).all() for column in ("most", "n")):
            raise AssertionError(f"{peer.name}: other maxima or counts than those of {name}")
        if not np.allclose(ours["total"].to_numpy(), theirs["total"].to_numpy(), rtol=1e-9, atol=1e-9):
            raise AssertionError(f"{peer.name}: other totals than those of {name}")
    return ours.height


def run() -> tuple[str, bool]:
    """Return the table as Markdown, and whether all limits hold."""
    rows, held = [], True
    for peer in PEERS:
        with Console().status(f"against polars: {peer.name}"):
            table = table_of(ROWS, peer)
            windows = check(peer, table)
            frame = frame_of(table)
            runs = {"muntin": partial(run_muntin, peer, table), "polars": partial(run_polars, peer, frame)}
            if peer.length == peer.every:
                runs["plain"] = partial(run_plain, peer, frame)
            best = best_of(runs, ROUNDS)
        times = best["polars"] / best["muntin"]
        held &= times >= peer.limit
        plain = f"{best['plain']:.2f}" if "plain" in best else ""
        seconds = [f"{best['muntin']:.3f}", f"{best['polars']:.2f}"]
        limit = [f"{times:.1f}", f"{peer.limit:g}", verdict(times >= peer.limit)]
        rows.append([peer.name, f"{windows:,}", *seconds, *limit, plain])
    title = f"{ROWS:,} rows, sum, maximum and count by key, seconds against polars, best of {ROUNDS} turns"
    headings = ["windows of", "rows out", "muntin", "polars", "times", "at least", "", "plain group_by"]
    return show(title, headings, rows, NOTE), held
