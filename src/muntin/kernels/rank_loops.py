"""Loops over ranks, a bit for each: the quantiles of windows that slide. Importing this loads Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.compiled import Compiled
from muntin.kernels.intrinsics import as_float, leading_zeros, trailing_zeros

_SIGN = 2**63 - 1


def rank(keys: Any, bits: int, values: Any, ranks: Any) -> bool:
    """Turn sorted keys into places, write the rank of each place; False if it would take too long.

    The low bits of each key are the place of its value, the others the value's leading bits: only where
    those are equal, values are looked at. Equal values are ranked by place.
    """
    mask = (1 << bits) - 1
    n = len(values)
    steps = 0
    for j in range(1, n):
        key = keys[j]
        if key >> bits == keys[j - 1] >> bits:
            v = values[key & mask]
            i = j - 1
            while i >= 0 and values[keys[i] & mask] > v:
                keys[i + 1] = keys[i]
                i -= 1
                steps += 1
            keys[i + 1] = key
            if steps > 8 * n:
                return False
    for j in range(n):
        place = keys[j] & mask
        keys[j] = place
        ranks[place] = j
    return True


def from_rank(words: Any, at: int) -> Any:
    """Return the word of a rank, without the bits below it."""
    return words[at >> 6] & ~((np.uint64(1) << np.uint64(at & 63)) - np.uint64(1))


def number(value: int, floats: bool) -> float:
    """Return the number that a value stands for."""
    return as_float(value ^ (value >> 63 & _SIGN)) if floats else float(value)


def slide_ranks(
    ranks: Any,
    places: Any,
    begin: Any,
    end: Any,
    base: int,
    share: float,
    values: Any,
    floats: bool,
    words: Any,
    out: Any,
) -> None:
    """Write the value at a share of the records in each range, interpolated, going along with them.

    `words` has a bit for each rank that is held; `below` of them are less than the rank `at`, where the
    value lies. Ranges begin and end one after the other, counted from a base, and none is empty.
    """
    one = np.uint64(1)
    lo = 0
    hi = 0
    at: Any = 0
    below = 0
    for w in range(len(begin)):
        first = begin[w] - base
        last = end[w] - base
        if first >= hi:  # nothing in common
            for i in range(lo, hi):
                words[ranks[i] >> 6] = 0
            lo = first
            hi = first
            at = np.int64(ranks[first])
            below = 0
        for i in range(hi, last):
            words[ranks[i] >> 6] |= one << np.uint64(ranks[i] & 63)
            below += 1 if ranks[i] < at else 0
        for i in range(lo, first):
            words[ranks[i] >> 6] &= ~(one << np.uint64(ranks[i] & 63))
            below -= 1 if ranks[i] < at else 0
        lo = first
        hi = last
        place = (last - first - 1) * share
        wanted = int(place)
        at_word = at >> 6
        left = from_rank(words, at)
        if wanted < below:
            left = words[at_word] & ~left
            while True:
                while left == 0:
                    at_word -= 1
                    left = words[at_word]
                at = 63 - np.int64(leading_zeros(left))
                below -= 1
                if below == wanted:
                    break
                left &= ~(one << np.uint64(at))
        else:
            while True:
                while left == 0:
                    at_word += 1
                    left = words[at_word]
                if below == wanted:
                    break
                left &= left - one
                below += 1
            at = np.int64(trailing_zeros(left))
        at += at_word << 6
        value = number(values[places[at]], floats)
        part = place - wanted
        if part > 0:
            left = from_rank(words, at)
            left &= left - one
            while left == 0:
                at_word += 1
                left = words[at_word]
            after = (at_word << 6) + np.int64(trailing_zeros(left))
            upper = number(values[places[after]], floats)
            value = min(max(value * (1 - part) + upper * part, value), upper)
        out[w] = value


run = Compiled("rank_loops", rank, slide_ranks)
