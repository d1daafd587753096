"""A stream of 10 million values through a sliding window: `make demo`.

Three aggregators, one answer. Each runs over all values twice: compiled, for throughput, and one record
at a time, to count combine calls and to time each round.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import muntin as mt
from benchmarks.latency import Latencies, measure
from benchmarks.report import show
from benchmarks.timing import best_of

RECORDS = 10_000_000
WINDOW = 2**14
AGGREGATORS: list[type[mt.swag.SlidingWindow]] = [mt.swag.TwoStacksLite, mt.swag.FlatFit, mt.swag.DabaLite]


def main() -> int:
    console = Console()
    console.print(f"The largest of the last {WINDOW:,} values, over a stream of {RECORDS:,}.")
    values = np.random.default_rng(3).normal(size=RECORDS).cumsum()
    answers: dict[str, NDArray[Any]] = {}
    with console.status(f"compiled, {RECORDS:,} values each (the first time, this compiles)"):
        for cls in AGGREGATORS:
            answers[cls.__name__] = cls.slide(mt.max(), values, window=WINDOW)
        runs = {c.__name__: partial(c.slide, mt.max(), values, window=WINDOW) for c in AGGREGATORS}
        seconds = best_of(runs, rounds=3)
    first, *others = answers.values()
    if not all(np.array_equal(first, other) for other in others):
        raise AssertionError("the aggregators disagree")

    stream = values.tolist()
    measured = {c.__name__: measure(c(mt.max()), stream, WINDOW, c.__name__) for c in AGGREGATORS}
    rows = []
    for name, got in measured.items():
        if got.answer != first[-1]:
            raise AssertionError(f"{name}: one at a time gives another answer than compiled")
        us = got.nanoseconds / 1000
        combines = (f"{got.combines.mean():.2f}", f"{got.combines.max():,}")
        rate = f"{RECORDS / seconds[name] / 1e6:.0f}"
        rows.append([name, rate, *combines, f"{np.median(us):.1f}", f"{us.max():,.0f}"])
    headings = [
        "aggregator",
        "compiled, M records/s",
        "combines a round",
        "most in one",
        "median us",
        "worst us",
    ]
    show(f"max over {WINDOW:,} records; one at a time: {RECORDS - WINDOW:,} rounds", headings, rows)
    picture = draw(measured)
    console.print(f"All three give the same {RECORDS:,} answers. Latencies drawn in {picture}")
    return 0


def draw(measured: dict[str, Latencies]) -> Path:
    """Draw how latencies are distributed, a violin each, as in Fig. 9 of the DABA paper."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    logs = [np.log10(got.nanoseconds / 1000) for got in measured.values()]
    for at, sample in enumerate(logs, 1):
        counts, edges = np.histogram(sample, bins=120)
        width = np.sqrt(counts / counts.max()) * 0.4  # roots, so that the rare rounds can be seen
        middles = (edges[:-1] + edges[1:]) / 2
        axes.fill_betweenx(10**middles, at - width, at + width, step="mid", alpha=0.7)
        worst = 10 ** sample.max()
        axes.plot(at, worst, "k_", markersize=24)
        axes.annotate(f"worst {worst:,.0f} us", (at, worst), (0, 6), textcoords="offset points", ha="center")
    names = [f"{name}\nat most {got.combines.max():,} combines a round" for name, got in measured.items()]
    axes.set(yscale="log", ylabel="microseconds a round (evict, insert, query)")
    axes.set_xticks(range(1, len(names) + 1), names)
    axes.tick_params(axis="x", length=0)
    axes.set_ylim(top=10 ** max(sample.max() for sample in logs) * 3)
    axes.set_title(f"Latency of one record at a time, max over the last {WINDOW:,}")
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    folder = Path(os.environ.get("MUNTIN_OUT", "out"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "latency.png"
    figure.savefig(path, dpi=130)
    return path


if __name__ == "__main__":
    sys.exit(main())
