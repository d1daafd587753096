"""Ranks of numbers, and the quantiles of windows that slide over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.kernels.compiled import Compiled

_BLOCK = 1 << 14  # entries
_MANY = 1 << 13  # keys: fewer are sorted faster by comparing
_SINGLES = 1 << 16  # entries of one record each, which take a bit
_INFINITY, _NAN = 0x7FF0000000000000, 0x7FF8000000000000  # as bits
_SIGN = 2**63 - 1


def order_bits(bits: Any) -> None:
    """Turn the bits of floats into integers in the same order; all that are not a number are the largest."""
    for i in range(len(bits)):
        b = bits[i]
        b = b ^ (b >> 63 & _SIGN)
        bits[i] = _NAN if b > _INFINITY or b < ~_INFINITY else b


def restore_bits(bits: Any) -> None:
    """Turn such integers into the bits of floats."""
    for i in range(len(bits)):
        bits[i] ^= bits[i] >> 63 & _SIGN


def longest(begin: Any, end: Any) -> int:
    """Return the number of entries in the longest range."""
    most = 0
    for w in range(len(begin)):
        most = max(most, end[w] - begin[w])
    return most


def sort_keys(values: Any, low: int, shift: int, bits: int, keys: Any) -> None:
    """Write the leading bits of values above the least one, with their places in the low bits."""
    for i in range(len(values)):
        keys[i] = (np.uint64(values[i] - low) >> np.uint64(shift)) << np.uint64(bits) | np.uint64(i)


def radix_sort(keys: Any, spare: Any, low: int, counts: Any) -> bool:
    """Sort keys by their bits from `low` on, a digit of 12 bits for each row of counts, which are zero.

    Keys that are equal there stay as they are. The order is in `spare` if this returns True, else in `keys`.
    """
    n = len(keys)
    digits = len(counts)
    for i in range(n):
        key = keys[i] >> low
        for d in range(digits):
            counts[d, key & 4095] += 1
            key >>= 12
    swapped = False
    for d in range(digits):
        shift = low + 12 * d
        total = 0
        for k in range(4096):
            count = counts[d, k]
            counts[d, k] = total
            total += count
        if swapped:
            for i in range(n):
                key = spare[i]
                k = key >> shift & 4095
                keys[counts[d, k]] = key
                counts[d, k] += 1
        else:
            for i in range(n):
                key = keys[i]
                k = key >> shift & 4095
                spare[counts[d, k]] = key
                counts[d, k] += 1
        swapped = not swapped
    return swapped


def number(sorted_keys: Any, mask: int, values: Any, codes: Any, distinct: Any) -> int:
    """Number values by their rank; return how many different ones there are, -1 if it would take too long.

    The low bits of each key, which a mask has, are the place of its value. Keys are in order, and the values
    nearly so: keys have only their leading bits.
    """
    n = len(values)
    steps = 0
    for j in range(1, n):
        key = sorted_keys[j]
        v = values[key & mask]
        i = j - 1
        while i >= 0 and values[sorted_keys[i] & mask] > v:
            sorted_keys[i + 1] = sorted_keys[i]
            i -= 1
            steps += 1
        sorted_keys[i + 1] = key
        if steps > 8 * n:
            return -1
    code = -1
    last = values[0]
    for j in range(n):
        at = sorted_keys[j] & mask
        if code < 0 or values[at] != last:
            code += 1
            last = values[at]
            distinct[code] = last
        codes[at] = code
    return code + 1


def slide_quantiles(
    codes: Any, total: Any, begin: Any, end: Any, base: int, share: float, numbers: Any, held: Any, out: Any
) -> None:
    """Write the value at a share of the records in each range, interpolated, going along with them.

    `held` has how many records of each code are in the range: `count` in all, `below` of them less than the
    code `at`, where the value lies; `above` is the next code that is held. Ranges begin and end one after
    the other, counted from a base, and none is empty.
    """
    lo = 0
    hi = 0
    at = 0
    below = 0
    count = 0
    above = len(held)
    for w in range(len(begin)):
        first = begin[w] - base
        last = end[w] - base
        if first >= hi:  # nothing in common
            for i in range(lo, hi):
                held[codes[i]] = 0
            lo = first
            hi = first
            at = codes[first]
            below = 0
            count = 0
            above = len(held)
        for i in range(hi, last):
            code = codes[i]
            more = total[i + 1] - total[i]
            held[code] += more
            count += more
            below += more if code < at else 0
            above = code if at < code < above else above
        for i in range(lo, first):
            code = codes[i]
            less = total[i + 1] - total[i]
            held[code] -= less
            count -= less
            below -= less if code < at else 0
        lo = first
        hi = last
        place = (count - 1) * share
        rank = int(place)
        while rank < below:
            if held[at] > 0:
                above = at
            at -= 1
            below -= held[at]
        while rank >= below + held[at]:
            below += held[at]
            at += 1
        value = numbers[at]
        part = place - rank
        if part > 0 and rank + 1 == below + held[at]:
            if above <= at:
                above = at + 1
            while held[above] == 0:
                above += 1
            upper = numbers[above]
            value = min(max(value * (1 - part) + upper * part, value), upper)
        out[w] = value


run = Compiled("ranks", order_bits, restore_bits, longest, sort_keys, radix_sort, number, slide_quantiles)


def as_keys(floats: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return floats as integers in the same order; NaN is the largest, and -0.0 is 0.0."""
    keys = np.empty(len(floats), np.int64)
    write_keys(floats, keys)
    return keys


def write_keys(floats: NDArray[np.float64], keys: NDArray[np.int64]) -> None:
    """Write such integers."""
    np.add(floats, 0.0, out=keys.view(np.float64))
    run("order_bits", keys)


def as_floats(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the floats that integers stand for."""
    bits = keys.copy()
    run("restore_bits", bits)
    return bits.view(np.float64)


def stretches(begin: NDArray[np.int64], span: int) -> Iterator[tuple[int, int]]:
    """Return where windows in the order of their begin are parted, so that those of a part lie together."""
    at, span = 0, max(_BLOCK, span)
    while at < len(begin):
        stop = int(np.searchsorted(begin, begin[at] + span))
        yield at, stop
        at = stop


def numbered(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return the different values in order, and the number of each value among them."""
    if values.dtype != object:
        keys, bits = _sorted_keys(values)
        distinct, codes = np.empty_like(values), np.empty(len(values), np.int32)
        count = run("number", keys, (1 << bits) - 1, values, codes, distinct)
        if count >= 0:
            return distinct[:count], codes
    ordered = np.sort(values)
    distinct = ordered[np.append(True, (ordered[1:] != ordered[:-1]).astype(bool))]
    return distinct, np.searchsorted(distinct, values).astype(np.int32)


def _sorted_keys(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return the leading bits of values in order, each above its place; and how many bits that has.

    Many are sorted digit by digit: of 75,000 floats, 8 ns a key where NumPy's vector code took 36.
    """
    low, bits = int(values.min()), len(values).bit_length()
    wide = (int(values.max()) - low).bit_length()
    shift = max(0, wide + bits - 63)
    keys = np.empty(len(values), np.int64)
    run("sort_keys", values, low, shift, bits, keys)
    if len(keys) < _MANY:
        keys.sort()
        return keys, bits
    spare, counts = np.empty_like(keys), np.zeros((-(-(wide - shift) // 12), 4096), np.int64)
    return spare if run("radix_sort", keys, spare, bits, counts) else keys, bits


def _ranked(values: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the rank of each value, equal ones by place; and the place of each rank."""
    from muntin.kernels import rank_loops

    keys, bits = _sorted_keys(values)
    ranks = np.empty(len(values), np.int32)
    if rank_loops.run("rank", keys, bits, values, ranks):
        return ranks, keys
    places = np.argsort(values, kind="stable")
    ranks[places] = np.arange(len(values), dtype=np.int32)
    return ranks, places


def slide(
    values: NDArray[np.int64],
    total: NDArray[np.int64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    shares: tuple[float, ...],
    *,
    floats: bool,
    base: int = 0,
) -> NDArray[np.float64]:
    """Return quantiles of ranges of entries that begin and end one after the other, none of them empty.

    Entry i has a value, which may stand for a float, and total[i + 1] - total[i] records: fewer than 2^31
    in all. Ranges are counted from the entry `base`.
    """
    out = np.empty((len(shares), len(begin)))
    first, last = int(begin[0]) + base, int(end[-1]) + base
    alone = total[last] - total[first] == last - first  # each entry is a single record
    span = 2 * run("longest", begin, end)
    for at, stop in stretches(begin, max(span, _SINGLES) if alone else span):
        low, high = int(begin[at]), int(end[stop - 1])
        some, ranges = values[low + base : high + base], (begin[at:stop], end[at:stop], low)
        if alone:
            _slide_ranks(some, ranges, shares, floats, out[:, at:stop])
            continue
        distinct, codes = numbered(some)
        numbers = as_floats(distinct) if floats else distinct.astype(np.float64)
        for share, found in zip(shares, out[:, at:stop], strict=True):
            held = np.zeros(len(distinct), np.int32)
            told = (codes, total[low + base : high + base + 1], *ranges, share, numbers, held)
            run("slide_quantiles", *told, found)
    return out


def _slide_ranks(
    values: NDArray[np.int64],
    ranges: tuple[NDArray[np.int64], NDArray[np.int64], int],
    shares: tuple[float, ...],
    floats: bool,
    out: NDArray[np.float64],
) -> None:
    from muntin.kernels import rank_loops

    ranks, places = _ranked(values)
    for share, found in zip(shares, out, strict=True):
        words = np.zeros((len(values) >> 6) + 1, np.uint64)
        rank_loops.run("slide_ranks", ranks, places, *ranges, share, values, floats, words, found)
