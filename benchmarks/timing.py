"""Timing on a noisy machine: runs take turns, and the best of each counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


def best_of(runs: Mapping[str, Callable[[], Any]], rounds: int = 9) -> dict[str, float]:
    """Return the least seconds of each run; one round of each comes before anything is timed."""
    for run in runs.values():
        run()
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best
