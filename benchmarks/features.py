"""Features at each record, against rolling windows of pandas and polars, and the newest values of a key."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from rich.console import Console

import muntin as mt
from benchmarks.report import show, verdict
from benchmarks.timing import best_of

ROWS, KEYS = 1_000_000, 1_000
LENGTHS = [5, 10, 20, 40, 60, 80, 120, 160, 200, 300]  # of windows, in records of a key on average
ROUNDS = 3
LIMITS = {"pandas": 5.0, "polars": 2.0}  # times as fast
ONLINE_KEYS, ONLINE_ROUNDS, LOOKED_UP = 100_000, 8, 2_000
MICROSECONDS = 60.0  # of a lookup
NOTE = f"""\
Ten rolling means by time at each of {ROWS:,} rows of {KEYS:,} keys: `mt.features`, pandas'
`groupby().rolling()` and polars' `rolling(group_by=)` on {pl.thread_pool_size()} threads, a call for each
window. All get the rows in time order; answers of the others stay in the order of keys, ours come in that of
the rows. `by column` is polars' `rolling_mean_by().over()` for all windows at once, which there is for a few
aggregates; no limit is held to it. All answers are compared. `op.latest` looks up ten such features of one of
{ONLINE_KEYS:,} keys with {ONLINE_ROUNDS} records each, the best of {ROUNDS} times {LOOKED_UP:,} at random."""


def table_of(rows: int, keys: int) -> pa.Table:
    """Return records in time order, no two of one time, with keys and values at random."""
    rng = np.random.default_rng(21)
    times = np.cumsum(rng.integers(1, 2_000, rows)).astype("datetime64[us]")
    return pa.table({"ts": times, "key": rng.integers(0, keys, rows), "v": rng.normal(size=rows)})


def spans(keys: int) -> dict[str, str]:
    """Return the length of each window by the name of its feature."""
    return {f"mean_{length}": f"{length * keys}ms" for length in LENGTHS}


def run_muntin(table: pa.Table, keys: int) -> pa.Table:
    """Return the features at each row."""
    wanted = {name: mt.rolling(span).agg(mt.mean("v")) for name, span in spans(keys).items()}
    found: pa.Table = mt.features(table, wanted, time="ts", key="key")
    return found


def run_pandas(frame: Any, keys: int) -> dict[str, Any]:
    """Return the same means, by key and time."""
    groups = frame.set_index("ts").groupby("key")["v"]
    return {name: groups.rolling(span).mean() for name, span in spans(keys).items()}


def run_polars(frame: pl.DataFrame, keys: int) -> dict[str, pl.DataFrame]:
    """Return the same means, by key and time."""
    return {
        name: frame.rolling("ts", period=span, group_by="key").agg(pl.col("v").mean())
        for name, span in spans(keys).items()
    }


def run_by_column(frame: pl.DataFrame, keys: int) -> pl.DataFrame:
    """Return the same means at each row."""
    means = [
        pl.col("v").rolling_mean_by("ts", window_size=span).over("key").alias(name)
        for name, span in spans(keys).items()
    ]
    return frame.with_columns(means)


def frame_of(table: pa.Table) -> pl.DataFrame:
    """Return the table as a frame that knows that it is sorted."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.set_sorted("ts")


# ---- answers ----


def check(table: pa.Table, keys: int) -> int:
    """Compare all means with those of the others; return how many there are."""
    ours = frame_of(run_muntin(table, keys))
    by_row = run_by_column(frame_of(table), keys)
    by_key = ours.sort("key", "ts")
    pandas, polars = run_pandas(table.to_pandas(), keys), run_polars(frame_of(table), keys)
    for name in spans(keys):
        others = {
            "pandas": (by_key, pandas[name].to_numpy()),
            "polars": (by_key, polars[name].sort("key", "ts")["v"].to_numpy()),
            "polars by column": (ours, by_row[name].to_numpy()),
        }
        for peer, (mine, theirs) in others.items():
            if not np.allclose(mine[name].to_numpy(), theirs, rtol=1e-7, atol=1e-9):
                raise AssertionError(f"{name}: other means than those of {peer}")
    return len(LENGTHS) * len(ours)


# ---- online ----


def online(keys: int) -> tuple[mt.WindowOperator, pa.Table]:
    """Return an operator that has seen some records of each key, and the features of all of them."""
    rng = np.random.default_rng(22)
    wanted = {f"mean_{k}": mt.rolling(f"{k + 1}s").agg(mt.mean("v")) for k in range(10)}
    operator = mt.WindowOperator(mt.features.queries(wanted), time="ts", key="key")
    tables = []
    for step in range(ONLINE_ROUNDS):
        times = np.sort(rng.integers(0, 1_000_000, keys)) + step * 1_000_000
        columns = {"ts": times.astype("datetime64[us]"), "key": rng.permutation(keys), "v": rng.random(keys)}
        tables.append(pa.table(columns))
        operator.process(tables[-1])
    return operator, mt.features(pa.concat_tables(tables), wanted, time="ts", key="key")


def check_online(operator: mt.WindowOperator, features: pa.Table, keys: Any) -> None:
    """Compare the newest values of keys with those of their last rows."""
    names = features.column_names[3:]
    last = pd.DataFrame({name: features[name].to_numpy() for name in ("key", *names)}).groupby("key").last()
    for key in keys:
        got = operator.latest(key)
        if list(got) != names or not np.allclose(list(got.values()), last.loc[key].to_numpy(), rtol=1e-9):
            raise AssertionError(f"key {key}: {got} are not the features of its last row")


def lookup_seconds(operator: mt.WindowOperator, keys: list[int]) -> float:
    """Return the time that a lookup takes."""
    start = time.perf_counter()
    for key in keys:
        operator.latest(key)
    return (time.perf_counter() - start) / len(keys)


def run() -> tuple[str, bool]:
    """Return the tables as Markdown, and whether all limits hold."""
    with Console().status("features: checking answers, timing"):
        table = table_of(ROWS, KEYS)
        rows = check(table, KEYS)
        pandas, polars = table.to_pandas(), frame_of(table)
        runs = {
            "mt.features": partial(run_muntin, table, KEYS),
            "pandas": partial(run_pandas, pandas, KEYS),
            "polars": partial(run_polars, polars, KEYS),
            "polars by column": partial(run_by_column, polars, KEYS),
        }
        best = best_of(runs, ROUNDS)
        operator, features = online(ONLINE_KEYS)
        keys = np.random.default_rng(23).integers(0, ONLINE_KEYS, LOOKED_UP).tolist()
        check_online(operator, features, keys[:200])
        took = min(lookup_seconds(operator, keys) for _ in range(ROUNDS)) * 1e6
    lines, held = [], took <= MICROSECONDS
    for name, seconds in best.items():
        times, limit = seconds / best["mt.features"], LIMITS.get(name)
        cells = [f"{seconds:.3f}", f"{times:.1f}"]
        held &= limit is None or times >= limit
        lines.append(
            [name, *cells, *(("", "") if limit is None else (f"{limit:g}", verdict(times >= limit)))]
        )
    lines.append(
        [
            "op.latest(key)",
            f"{took:.0f} us",
            "",
            f"at most {MICROSECONDS:g} us",
            verdict(took <= MICROSECONDS),
        ]
    )
    title = f"{rows:,} features, seconds, best of {ROUNDS} turns"
    return show(title, ["run", "seconds", "times", "at least", ""], lines, NOTE), held
