"""The worst round of a window with an expensive combine.

A round is evict, insert and query, one record at a time. DABA Lite makes a constant number of combine
calls in each; Two-Stacks flips its whole window in one of n. Calls do not depend on the machine.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

import muntin as mt
from benchmarks.bloom import Bloom
from benchmarks.report import show

ROUNDS = 1_000_000
WINDOW = 2**16


@dataclass(frozen=True)
class Latencies:
    """Nanoseconds and combine calls of each round, and the answer after the last."""

    nanoseconds: NDArray[np.int64]
    combines: NDArray[np.int64]
    answer: Any


def measure(window: mt.swag.SlidingWindow, values: list[Any], size: int, label: str) -> Latencies:
    """Fill a window of this size, then time and count each round over the rest of the values."""
    for value in values[:size]:
        window.insert(value)
    rounds = len(values) - size
    nanoseconds, combines = np.empty(rounds, np.int64), np.empty(rounds, np.int64)
    clock = time.perf_counter_ns
    step = max(1, rounds // 100)
    gc.disable()  # a collection would be counted as somebody's latency
    answer = None
    for begin in track(range(0, rounds, step), label, transient=True):
        for i in range(begin, min(begin + step, rounds)):
            value, calls = values[size + i], window.combines
            start = clock()
            window.evict()
            window.insert(value)
            answer = window.query()
            nanoseconds[i] = clock() - start
            combines[i] = window.combines - calls
    gc.enable()
    return Latencies(nanoseconds, combines, answer)


class Bits(Bloom):
    """The filter itself as the answer, so that rounds time combines rather than counting bits."""

    @staticmethod
    def lower(row: Any) -> Any:
        return row


def run() -> tuple[str, bool]:
    """Return the table as Markdown, and whether the numbers of combine calls are as proved."""
    values = np.random.default_rng(2).integers(0, 2**20, ROUNDS + WINDOW).tolist()
    wanted = np.bitwise_or.reduce([Bits().lift(v) for v in values[-WINDOW:]])
    rows, most = [], {}
    for cls in (mt.swag.DabaLite, mt.swag.TwoStacks, mt.swag.TwoStacksLite):
        got = measure(cls(Bits()), values, WINDOW, cls.__name__)
        if not np.array_equal(got.answer, wanted):
            raise AssertionError(f"{cls.__name__} ends with another answer than the records give")
        most[cls] = got.combines.max()
        quantiles = np.quantile(got.nanoseconds, [0.5, 0.99, 0.999, 0.9999, 1]) / 1000
        calls = [f"{most[cls]:,}", f"{got.combines.mean():.2f}"]
        rows.append([cls.__name__, *calls, *(f"{q:,.1f}" for q in quantiles)])
    title = f"{ROUNDS:,} rounds, Bloom filter of 4096 bits, a window of {WINDOW:,}; latencies in us"
    headings = ["aggregator", "most combines", "mean", "p50", "p99", "p99.9", "p99.99", "worst"]
    held = most[mt.swag.DabaLite] <= 1 + 3 + 2 and most[mt.swag.TwoStacks] == WINDOW + 2
    return show(title, headings, rows), bool(held)
