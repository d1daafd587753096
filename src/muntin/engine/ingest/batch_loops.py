"""Compiled loops over the times and keys of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.compiled import Compiled

# Plain functions over arrays: they are compiled on first use and kept on disk. Of an index that is unsigned,
# code does not ask whether it counts from the end, which takes longer than the rest of a short loop.


def disordered(times: Any) -> bool:
    """Tell whether a record has a time less than that of the one before; stops where one has."""
    for begin in range(0, len(times) - 1, 4096):
        block = times[begin : begin + 4097]
        count = 0
        for i in range(len(block) - 1):
            count += block[i + 1] < block[i]
        if count:
            return True
    return False


def survey(times: Any, watermark: int, delay: int) -> Any:
    """Return the least and the largest time, and how many records are below the watermark.

    It trails the largest time by `delay`; a negative delay: records do not move it. Goes block by block:
    where the least time of a block is not late, none of it is.
    """
    low = times[0]
    high = times[0]
    late = 0
    for begin in range(0, len(times), 64):
        block = times[begin : begin + 64]
        least = block[0]
        most = block[0]
        for i in range(1, len(block)):
            least = min(least, block[i])
            most = max(most, block[i])
        if delay < 0:
            if least < watermark:
                for i in range(len(block)):
                    late += block[i] < watermark
        elif least < watermark or least + delay < max(high, most):
            bound = max(watermark + delay, high)
            for i in range(len(block)):
                bound = max(bound, block[i])
                late += block[i] + delay < bound
        low = min(low, least)
        high = max(high, most)
    return low, high, late


def watermarks(times: Any, watermark: int, delay: int, out: Any) -> None:
    """Write the watermark just before each record."""
    current = watermark
    for i in range(len(times)):
        out[i] = current
        if delay >= 0:
            current = max(current, times[i] - delay)


def number_keys(keys: Any, low: int, numbers: Any, codes: Any, distinct: Any) -> int:
    """Number integer keys as they come, through a table from `low` on; return how many there are."""
    count = 0
    for i in range(len(keys)):
        k = np.uint64(keys[i] - low)
        if numbers[k] < 0:
            numbers[k] = count
            distinct[count] = keys[i]
            count += 1
        codes[i] = numbers[k]
    return count


run = Compiled(
    "batch_loops",
    disordered,
    survey,
    watermarks,
    number_keys,
)
