"""Every aggregate over time and count windows, as in Figure 13 of the paper on general stream slicing.

Section 6.3.2: 20 windows at the same time, a fifth of the records out of order, delayed by up to 2 s. Answers
are compared with NumPy's, those of sketches by their error bounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

import muntin as mt
from benchmarks.comparisons import OwnSum
from benchmarks.report import show
from benchmarks.techniques import FIGURES
from muntin.operator import WindowOperator
from muntin.windows.base import Window

RECORDS, FEWER = 400_000, 100_000  # fewer where answers are lists, or records are told to Python one by one
BATCH = 10_000
PER_MILLISECOND = 2
DELAY = 2_000  # milliseconds, as all times
LENGTHS = [1_000 * k for k in range(1, 21)]
ROUNDS = 2
SAMPLE = 29  # each so many windows are compared with NumPy's
SHARE = 0.9  # of the quantiles
ASKED = [1.0, 17.0, 4_711.0, 84_000.0]  # values whose counts are asked for
FIGURE = "every-aggregate.png"
Array = NDArray[Any]
Records = Mapping[str, Array]  # columns of a window's records, in canonical order
NOTE = f"""\
As Figure 13 of the paper on general stream slicing: 20 tumbling windows at the same time with lengths from 1
to 20 s, or of as many records as come in 1 to 20 s, at 2,000 records a second; a fifth of the records is
delayed by up to 2 s. Batches of {BATCH:,} records, {RECORDS:,} in all ({FEWER:,} where marked *), the best
of {ROUNDS} runs. Values are of 84,232 kinds, as in the paper's football data. Out of order, a record moves
all later ones by a position, so that count windows have to take records out of slices: with an inverse they
are subtracted, a sum without inverse is computed anew."""


# ---- what is timed, and what it must answer ----


@dataclass(frozen=True)
class Timed:
    """An aggregate, and whether an answer of it fits the records of a window."""

    aggregate: mt.Aggregate
    fits: Callable[[Any, Records], bool]
    records: int = RECORDS


def equal(answer: Callable[[Records], Any]) -> Callable[[Any, Records], bool]:
    """Return a check for the very same answer."""
    return lambda got, records: bool(got == answer(records))


def close(answer: Callable[[Records], Any], error: float = 1e-9) -> Callable[[Any, Records], bool]:
    """Return a check for an answer that is off by a share of it at most."""
    return lambda got, records: got is not None and bool(np.isclose(got, answer(records), rtol=error, atol=0))


def decayed(count: int) -> Any:
    """Return the weights of an exponentially weighted mean, the newest last."""
    return 0.9 ** np.arange(count)[::-1]


def m4_of(records: Records) -> dict[str, Any]:
    """Return M4 by NumPy."""
    values, times = records["v"], records["ts"]
    places = {"min": int(values.argmin()), "max": int(values.argmax()), "first": 0, "last": -1}
    points = {name: values[place] for name, place in places.items()}
    return points | {f"{name}_time": times[place] for name, place in places.items()}


def rate_of(records: Records) -> float:
    """Return the rate of a counter that is reset at each fall, by NumPy."""
    values, times = records["v"], records["ts"]
    steps = np.diff(values)
    return float(np.where(steps < 0, values[1:], steps).sum() / (times[-1] - times[0]))


def most_frequent(values: Array) -> Any:
    """Return the most frequent value, of several the smallest."""
    found, counts = np.unique(values, return_counts=True)
    return found[counts.argmax()]


def near_rank(got: float, records: Records) -> bool:
    """Tell whether about the right share of the values lies at or below an answer."""
    return bool(abs((records["v"] <= got).mean() - SHARE) < 0.03)


def frequent(got: list[dict[str, Any]], records: Records) -> bool:
    """Tell whether no count is too small, and none too large by more than the error bound."""
    over = [pair["count"] - int((records["v"] == pair["value"]).sum()) for pair in got]
    most = 0.0035 * len(records["v"])
    return len(got) == 10 and all(0 <= much <= most for much in over)


def counted(got: bytes, records: Records) -> bool:
    """Tell whether the counts of some values are not too small, and hardly too large."""
    over = [mt.count_min_estimate(got, value) - int((records["v"] == value).sum()) for value in ASKED]
    return all(0 <= much <= 0.02 * len(records["v"]) for much in over)


def member(got: bytes, records: Records) -> bool:
    """Tell whether no value is missed."""
    return all(mt.bloom_contains(got, value) for value in records["v"][::97].tolist())


AGGREGATES: dict[str, Timed] = {
    "count": Timed(mt.count(), equal(lambda r: len(r["v"]))),
    "sum": Timed(mt.sum("v"), close(lambda r: r["v"].sum())),
    "sum without inverse": Timed(OwnSum("v"), close(lambda r: r["v"].sum())),
    "product": Timed(mt.product("factor"), close(lambda r: r["factor"].prod())),
    "mean": Timed(mt.mean("v"), close(lambda r: r["v"].mean())),
    "geomean": Timed(mt.geomean("v"), close(lambda r: np.exp(np.log(r["v"]).mean()))),
    "min": Timed(mt.min("v"), equal(lambda r: r["v"].min())),
    "max": Timed(mt.max("v"), equal(lambda r: r["v"].max())),
    "min_count": Timed(mt.min_count("v"), equal(lambda r: (r["v"] == r["v"].min()).sum())),
    "max_count": Timed(mt.max_count("v"), equal(lambda r: (r["v"] == r["v"].max()).sum())),
    "variance": Timed(mt.variance("v"), close(lambda r: r["v"].var(ddof=1))),
    "stddev": Timed(mt.stddev("v"), close(lambda r: r["v"].std(ddof=1))),
    "relative_variation": Timed(
        mt.relative_variation("v"), close(lambda r: (r["v"].max() - r["v"].min()) / r["v"].max())
    ),
    "weighted_mean": Timed(
        mt.weighted_mean("v", "factor"), close(lambda r: np.average(r["v"], weights=r["factor"]))
    ),
    "ewm": Timed(mt.ewm("v", alpha=0.1), close(lambda r: np.average(r["v"], weights=decayed(len(r["v"]))))),
    "covariance": Timed(mt.covariance("v", "factor"), close(lambda r: np.cov(r["v"], r["factor"])[0, 1])),
    "correlation": Timed(
        mt.correlation("v", "factor"), close(lambda r: np.corrcoef(r["v"], r["factor"])[0, 1])
    ),
    "regression": Timed(
        mt.regression("v", "factor", only="slope"), close(lambda r: np.polyfit(r["factor"], r["v"], 1)[0])
    ),
    "argmin": Timed(mt.argmin("v", "id"), equal(lambda r: r["id"][r["v"].argmin()])),
    "argmax": Timed(mt.argmax("v", "id"), equal(lambda r: r["id"][r["v"].argmax()])),
    "first": Timed(mt.first("v"), equal(lambda r: r["v"][0])),
    "last": Timed(mt.last("v"), equal(lambda r: r["v"][-1])),
    "m4": Timed(mt.m4("v"), equal(m4_of)),
    "rate": Timed(mt.rate("v"), close(rate_of)),
    "median": Timed(mt.median("v"), close(lambda r: np.median(r["v"]))),
    "quantile 0.9": Timed(mt.quantile("v", SHARE), close(lambda r: np.quantile(r["v"], SHARE))),
    "mode": Timed(mt.mode("v"), equal(lambda r: most_frequent(r["v"]))),
    "count_distinct": Timed(mt.count_distinct("v"), equal(lambda r: len(np.unique(r["v"])))),
    "collect_distinct": Timed(
        mt.collect_distinct("v"), equal(lambda r: np.unique(r["v"]).tolist()), records=FEWER
    ),
    "collect": Timed(mt.collect("v"), equal(lambda r: r["v"].tolist()), records=FEWER),
    "concat": Timed(mt.concat("text"), equal(lambda r: "".join(r["text"])), records=FEWER),
    "approx_count_distinct": Timed(
        mt.approx_count_distinct("v"), close(lambda r: len(np.unique(r["v"])), error=0.08)
    ),
    "approx_quantile 0.9": Timed(mt.approx_quantile("v", SHARE), near_rank),
    "approx_top_k 10": Timed(mt.approx_top_k("v", 10), frequent, records=FEWER),
    "count_min_sketch": Timed(mt.count_min_sketch("v"), counted),
    "bloom_filter": Timed(mt.bloom_filter("v"), member),
}
WINDOWS: dict[str, Callable[[int], Window]] = {  # by length
    "time windows": mt.tumbling,
    "count windows": lambda length: mt.count_tumbling(PER_MILLISECOND * length),
}


# ---- the stream ----


def stream(records: int) -> pa.Table:
    """Return records of which a fifth comes late."""
    rng = np.random.default_rng(13)
    times = np.arange(records) // PER_MILLISECOND
    delays = rng.integers(0, DELAY, records, endpoint=True) * (rng.random(records) < 0.2)
    ids = rng.integers(0, 1_000, records)
    return pa.table(
        {
            "ts": times[np.argsort(times + delays, kind="stable")],
            "v": rng.integers(1, 84_232, records, endpoint=True).astype(np.float64),
            "factor": rng.uniform(0.99, 1.01, records),  # products stay finite
            "id": ids,
            "text": [str(k) for k in ids.tolist()],
        }
    )


def run_one(name: str, kind: str, table: pa.Table) -> pa.Table:
    """Return the rows of a new operator over the stream in batches."""
    aggregate, window = AGGREGATES[name].aggregate, WINDOWS[kind]
    listed = [window(length).agg(a=aggregate, name=str(length)) for length in LENGTHS]
    operator = WindowOperator(listed, time="ts", watermark=DELAY)
    parts = [operator.process(table.slice(k, BATCH)) for k in range(0, len(table), BATCH)]
    # An own aggregate has no type before its first answer.
    return pa.concat_tables([*parts, operator.finish()], promote_options="default")


# ---- answers ----


def bounds(rows: pa.Table, times: Array, kind: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of the first record of each window and of the first after it."""
    names = ("query", "window_id", "window_start", "window_end")
    for query, number, start, end in zip(*(rows[name].to_pylist() for name in names), strict=True):
        if kind == "count windows":
            size = PER_MILLISECOND * int(query)
            yield number * size, (number + 1) * size
        else:
            yield int(np.searchsorted(times, start)), int(np.searchsorted(times, end))


def check(name: str, kind: str, table: pa.Table) -> int:
    """Count the windows of an aggregate, and look at the answers of some; return how many there are."""
    rows = run_one(name, kind, table)
    order = np.argsort(table["ts"].to_numpy(), kind="stable")
    columns = {column: table[column].to_numpy()[order] for column in table.column_names}
    times = columns["ts"]
    if kind == "time windows":
        want = sum(int(times[-1]) // length + 1 for length in LENGTHS)
    else:
        want = sum(len(table) // (PER_MILLISECOND * length) for length in LENGTHS)
    if len(rows) != want or any(rows["revision"].to_pylist()):
        raise AssertionError(f"{name}, {kind}: {len(rows)} rows for {want} windows")
    some = rows.take(np.arange(0, len(rows), SAMPLE))
    for (begin, end), got in zip(bounds(some, times, kind), some["a"].to_pylist(), strict=True):
        if not AGGREGATES[name].fits(got, {column: values[begin:end] for column, values in columns.items()}):
            raise AssertionError(f"{name}, {kind}: {got!r} does not fit records {begin} to {end}")
    return len(rows)


def records_a_second(name: str, kind: str, table: pa.Table) -> float:
    """Return the speed of the best run; the one that is checked before it compiles what is needed."""
    check(name, kind, table)
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run_one(name, kind, table)
        best = min(best, time.perf_counter() - start)
    return len(table) / best


# ---- the figure ----


def draw(path: Path, speeds: Mapping[str, Mapping[str, float]]) -> None:
    """Draw a pair of bars for each aggregate, on a logarithmic scale."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 0.8 + 0.23 * len(speeds)), dpi=80)
    places = np.arange(len(speeds))
    for k, kind in enumerate(WINDOWS):
        numbers = [by_kind[kind] for by_kind in speeds.values()]
        axes.barh(places + (k - 0.5) * 0.38, numbers, height=0.38, label=kind)
    axes.set(xlabel="records a second", title="Aggregates over 20 windows, 20 % out of order", xscale="log")
    axes.set_xlim(left=10_000)
    axes.set_yticks(places, list(speeds), fontsize=8)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.legend(fontsize=8, loc="lower left", bbox_to_anchor=(1.01, 0), frameon=False)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
    pyplot.close(figure)


def run() -> tuple[str, bool]:
    """Return the table as Markdown; draw the figure. There is no limit to lose."""
    table = stream(RECORDS)
    speeds: dict[str, dict[str, float]] = {}
    for name, timed in AGGREGATES.items():
        label = name + " *" * (timed.records < RECORDS)
        with Console().status(f"every aggregate: {name}"):
            some = table.slice(0, timed.records)
            speeds[label] = {kind: records_a_second(name, kind, some) for kind in WINDOWS}
    draw(FIGURES / FIGURE, speeds)
    rows = [[name, *(f"{by_kind[k] / 1e6:.2f}" for k in WINDOWS)] for name, by_kind in speeds.items()]
    title = "Every aggregate: million records a second, 20 windows, 20 % out of order"
    section = show(title, ["aggregate", *WINDOWS], rows, NOTE)
    return f"{section}\n![Speed of every aggregate](figures/{FIGURE})\n", True


if __name__ == "__main__":
    run()
