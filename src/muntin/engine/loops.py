"""Compiled loops that several folders use."""

from __future__ import annotations

from typing import Any

from muntin.kernels.compiled import Compiled

# Plain functions over arrays: they are compiled on first use and kept on disk. Of an index that is unsigned,
# code does not ask whether it counts from the end, which takes longer than the rest of a short loop.


def group(codes: Any, ends: Any, order: Any) -> None:
    """Write the places of each code one after the other, in their order; `ends` counts codes at first."""
    total = 0
    for k in range(len(ends)):
        total += ends[k]
        ends[k] = total - ends[k]
    for i in range(len(codes)):
        k = codes[i]
        order[ends[k]] = i
        ends[k] += 1


def first_past(times: Any, begins: Any, bound: Any, out: Any) -> None:
    """Write the first record of a key past a time; records lie by key and time, and times never go back."""
    j = 0
    for i in range(len(times)):
        if begins[i] == i:
            j = i
        while times[j] <= bound[i]:
            j += 1
        out[i] = j


def first_within(times: Any, begins: Any, length: int, out: Any) -> None:
    """Write the first record of a key less than a length before each; records lie by key and time."""
    j = 0
    for i in range(len(times)):
        if begins[i] == i:
            j = i
        bound = times[i] - length
        while times[j] <= bound:
            j += 1
        out[i] = j


def sums_between(
    head: Any,
    rest: Any,
    low: Any,
    high: Any,
    begins: Any,
    lost: float,
    order: Any,
    mean: bool,
    out: Any,
    doubtful: Any,
) -> int:
    """Write differences of prefixes with their rounding errors; return how many may have lost digits."""
    count = 0
    for i in range(len(low)):
        a, b = low[i], high[i]
        if b <= a:
            continue
        h, r = head[b - 1], rest[b - 1]
        if a > begins[i]:
            less = -head[a - 1]
            whole = h + less
            taken = whole - h
            r = ((h - (whole - taken)) + (less - taken)) + (r - rest[a - 1])
            h = whole
            if abs(h) * 1e-13 < lost:
                doubtful[count] = i
                count += 1
        total = h + r
        out[order[i]] = total / (b - a) if mean else total
    return count


run = Compiled(
    "loops",
    group,
    first_past,
    first_within,
    sums_between,
)
