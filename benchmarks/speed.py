"""Compiled windows against numpy.cumsum over the same array, in one run."""

from __future__ import annotations

from functools import partial

import numpy as np
from rich.console import Console

from benchmarks.comparisons import COMPARISONS, check, cumsum
from benchmarks.report import show
from benchmarks.timing import best_of

RECORDS = 4_000_000
WINDOW = 2**14
ROUNDS = 9


def run() -> tuple[str, bool]:
    """Return the table as Markdown, and whether all limits hold."""
    values = np.random.default_rng(1).normal(size=RECORDS)
    with Console().status("compiling, checking answers, timing"):
        for comparison in COMPARISONS:
            check(comparison, values, WINDOW, [0, 1, WINDOW - 1, WINDOW, RECORDS // 2, RECORDS - 1])
        runs = {c.name: partial(c.run, values, WINDOW) for c in COMPARISONS}
        best = best_of({"cumsum": partial(cumsum, values, WINDOW), **runs}, ROUNDS)
    rows = [["cumsum", f"{best['cumsum'] / RECORDS * 1e9:.2f}", "", "", "", ""]]
    held = True
    for c in COMPARISONS:
        ratio = best[c.name] / best[c.against]
        holds = c.limit is None or ratio <= c.limit
        held &= holds
        nanoseconds = f"{best[c.name] / RECORDS * 1e9:.2f}"
        limit = ["", ""] if c.limit is None else [f"{c.limit}", "ok" if holds else "LOST"]
        rows.append([c.name, nanoseconds, f"{ratio:.2f}", c.against, *limit])
    title = f"{RECORDS:,} float64 records, a window of {WINDOW:,}, best of {ROUNDS} turns"
    return show(title, ["run", "ns a record", "times", "of", "at most", ""], rows), held
