"""Where the window of each record begins, when windows are stretches of time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from muntin.kernels import modules


def first_within(times: Any, length: int, starts: Any) -> int:
    """Write for each record the first one in (t - length, t], and return the largest window's size.

    Returns -1 - i if times go back at record i.
    """
    first = 0
    largest = 0
    for i in range(len(times)):
        if i > 0 and times[i] < times[i - 1]:
            return -1 - i
        while times[i] - times[first] >= length:
            first += 1
        starts[i] = first
        largest = max(largest, i - first + 1)
    return largest


@lru_cache(maxsize=1)
def _code() -> modules.Code:
    return modules.functions("bounds", {"first_within": first_within})


def time_bounds(times: Any, length: int) -> tuple[Any, int]:
    """Return where each record's window (t - length, t] begins, and the size of the largest.

    >>> starts, largest = time_bounds(np.array([1, 2, 5, 6]), 4)
    >>> starts.tolist(), largest
    ([0, 0, 1, 2], 2)
    """
    import numba

    starts = np.empty(len(times), np.int64)
    type_of: Any = numba.typeof
    run = _code().function("first_within", (type_of(times), numba.int64, type_of(starts)))
    largest = int(run(times, length, starts))
    if largest < 0:
        at = -1 - largest
        back = f"record {at} is at {times[at]} after {times[at - 1]}"
        raise ValueError(f"times must not go back, but {back}; sort them first.")
    return starts, largest
