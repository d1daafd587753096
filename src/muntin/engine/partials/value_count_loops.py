"""Compiled loops over sorted runs of distinct values, with how many records are before each.

A run lies from `begin` to `end` in a pool: `values` ascending, `total[i]` the records before entry i in the
pool, so that total[i + 1] - total[i] have its value.
"""

from __future__ import annotations

from typing import Any

from muntin.kernels.compiled import Compiled

# ---- windows that slide ----


def go_forward(low: Any, high: Any) -> bool:
    """Tell whether windows begin and end one after the other."""
    forward = True
    for w in range(1, len(low)):
        forward &= low[w] >= low[w - 1] and high[w] >= high[w - 1]
    return forward


def end_to_end(states: Any, low: Any, high: Any) -> tuple[bool, bool]:
    """Tell whether the slices of windows that go forward lie end to end; and whether each has one entry."""
    close = True
    single = states[low[0], 1] - states[low[0], 0] == 1
    for s in range(low[0] + 1, high[-1]):
        close &= states[s, 0] == states[s - 1, 1]
        single &= states[s, 1] - states[s, 0] == 1
    return close, single


# ---- making runs ----


def sort_segments(values: Any, bounds: Any, most: int) -> None:
    """Sort each stretch of values, but for long ones."""
    for s in range(len(bounds) - 1):
        begin = bounds[s]
        end = bounds[s + 1]
        if end - begin > most:
            continue
        for i in range(begin + 1, end):
            v = values[i]
            j = i - 1
            while j >= begin and values[j] > v:
                values[j + 1] = values[j]
                j -= 1
            values[j + 1] = v


def number_singles(total: Any, used: int, states: Any) -> None:
    """Count a record for each of some values at the end of a pool, and give it a stretch by itself."""
    before = total[used]
    for s in range(len(states)):
        total[used + s + 1] = before + s + 1
        states[s, 0] = used + s
        states[s, 1] = used + s + 1


def encode(sorted_values: Any, bounds: Any, values: Any, total: Any, used: int, states: Any) -> int:
    """Append a run for each sorted stretch to a pool; return how much of it is then used."""
    for s in range(len(bounds) - 1):
        states[s, 0] = used
        for i in range(bounds[s], bounds[s + 1]):
            v = sorted_values[i]
            if i > bounds[s] and v == values[used - 1]:
                total[used] += 1
            else:
                values[used] = v
                total[used + 1] = total[used] + 1
                used += 1
        states[s, 1] = used
    return used


def join_runs(values: Any, total: Any, used: int, a: Any, b: Any, out: Any) -> int:
    """Append the merge of each run in `a` with that in `b`; return how much of the pool is then used."""
    for s in range(len(a)):
        i = a[s, 0]
        j = b[s, 0]
        out[s, 0] = used
        while i < a[s, 1] or j < b[s, 1]:
            count = 0
            v = values[i] if j == b[s, 1] or (i < a[s, 1] and values[i] <= values[j]) else values[j]
            if i < a[s, 1] and values[i] == v:
                count += total[i + 1] - total[i]
                i += 1
            if j < b[s, 1] and values[j] == v:
                count += total[j + 1] - total[j]
                j += 1
            values[used] = v
            total[used + 1] = total[used] + count
            used += 1
        out[s, 1] = used
    return used


def copy_runs(values: Any, total: Any, states: Any, into: Any, into_total: Any, used: int, out: Any) -> int:
    """Append runs to another pool; return how much of it is then used."""
    for s in range(len(states)):
        out[s, 0] = used
        for i in range(states[s, 0], states[s, 1]):
            into[used] = values[i]
            into_total[used + 1] = into_total[used] + total[i + 1] - total[i]
            used += 1
        out[s, 1] = used
    return used


def copy_lists(values: Any, states: Any, into: Any, used: int, out: Any) -> int:
    """Append lists to another pool, or to the same one; return how much of it is then used."""
    for s in range(len(states)):
        out[s, 0] = used
        for i in range(states[s, 0], states[s, 1]):
            into[used] = values[i]
            used += 1
        out[s, 1] = used
    return used


# ---- order statistics ----


def pick(values: Any, total: Any, begin: Any, end: Any, rank: Any, out: Any) -> None:
    """Write the value of a rank within one run each."""
    for w in range(len(rank)):
        lo = begin[w]
        hi = end[w] - 1
        wanted = total[lo] + rank[w]
        if total[end[w]] - total[lo] == end[w] - lo:
            lo += rank[w]
            hi = lo
        while lo < hi:
            middle = (lo + hi + 1) // 2
            if total[middle] <= wanted:
                lo = middle
            else:
                hi = middle - 1
        out[w] = values[lo]


def pick_of_several(
    values: Any, total: Any, runs: Any, low: Any, high: Any, rank: Any, left: Any, out: Any
) -> None:
    """Write the value of a rank within several runs each; `left` is room for what is left of each run.

    That is halved about the middle of the longest one, until this is the value.
    """
    for w in range(len(rank)):
        count = high[w] - low[w]
        for r in range(count):
            left[0, r] = runs[low[w] + r, 0]
            left[1, r] = runs[low[w] + r, 1]
        before = rank[w]
        found = False
        while not found:
            longest = 0
            for r in range(1, count):
                if left[1, r] - left[0, r] > left[1, longest] - left[0, longest]:
                    longest = r
            pivot = values[(left[0, longest] + left[1, longest]) // 2]
            less = 0
            equal = 0
            for r in range(count):
                i = left[0, r]
                j = left[1, r]
                while i < j:
                    middle = (i + j) // 2
                    if values[middle] < pivot:
                        i = middle + 1
                    else:
                        j = middle
                left[2, r] = i
                less += total[i] - total[left[0, r]]
                if i < left[1, r] and values[i] == pivot:
                    equal += total[i + 1] - total[i]
            found = less <= before < less + equal
            for r in range(count):
                i = left[2, r]
                if before < less:
                    left[1, r] = i
                else:
                    left[0, r] = i + 1 if i < left[1, r] and values[i] == pivot else i
            if before >= less:
                before -= less + equal
        out[w] = pivot


def halve(codes: Any, weights: Any, bit: int, rank: Any, before: Any, ahead: Any, ahead_weights: Any) -> int:
    """Put codes without a bit before those with it, in order; return how many there are without it.

    Writes how many of the first i lack it, and what they weigh: a level of a wavelet matrix.
    """
    zeros = 0
    for i in range(len(codes)):
        zeros += (codes[i] >> bit) & 1 == 0
    at = 0
    ones = zeros
    weight = 0
    for i in range(len(codes)):
        rank[i] = at
        before[i] = weight
        if (codes[i] >> bit) & 1:
            ahead[ones] = codes[i]
            ahead_weights[ones] = weights[i]
            ones += 1
        else:
            ahead[at] = codes[i]
            ahead_weights[at] = weights[i]
            at += 1
            weight += weights[i]
    rank[len(codes)] = at
    before[len(codes)] = weight
    return zeros


def descend(
    rank: Any, before: Any, zeros: int, bit: int, begin: Any, end: Any, left: Any, found: Any
) -> None:
    """Follow ranges one level down, to where the value of a rank lies; add up the bits of its code."""
    for w in range(len(begin)):
        low = rank[begin[w]]
        high = rank[end[w]]
        weight = before[end[w]] - before[begin[w]]
        if left[w] < weight:
            begin[w] = low
            end[w] = high
        else:
            left[w] -= weight
            begin[w] += zeros - low
            end[w] += zeros - high
            found[w] |= 1 << bit


# ---- distinct values, and the most frequent one ----


def count_distinct(codes: Any, begin: Any, end: Any, by_end: Any, last: Any, tree: Any, out: Any) -> None:
    """Write how many different codes lie in each range, taken by their ends.

    A Fenwick tree marks the last place of each code so far: those within a range are its distinct ones.
    """
    at = 0
    marked = 0
    for i in range(len(codes) + 1):
        while at < len(by_end) and end[by_end[at]] == i:
            w = by_end[at]
            before = 0
            j = begin[w]
            while j > 0:
                before += tree[j]
                j -= j & -j
            out[w] = marked - before
            at += 1
        if i == len(codes):
            break
        old = last[codes[i]]
        if old >= 0:
            j = old + 1
            while j < len(tree):
                tree[j] -= 1
                j += j & -j
        else:
            marked += 1
        last[codes[i]] = i
        j = i + 1
        while j < len(tree):
            tree[j] += 1
            j += j & -j


def modes(codes: Any, weights: Any, begin: Any, end: Any, counts: Any, out: Any) -> None:
    """Write the most frequent code of each range, the least of several; each range counted by itself."""
    for w in range(len(begin)):
        best = -1
        for i in range(begin[w], end[w]):
            code = codes[i]
            counts[code] += weights[i]
            if best < 0 or counts[code] > counts[best] or (counts[code] == counts[best] and code < best):
                best = code
        for i in range(begin[w], end[w]):
            counts[codes[i]] = 0
        out[w] = best


def slide_modes(codes: Any, weights: Any, begin: Any, end: Any, tree: Any, out: Any) -> None:
    """Write the most frequent code of each range, going along with ranges that overlap.

    `tree` has the counts of codes in its second half, a power of two; a node has the larger of two.
    """
    room = len(tree) // 2
    lo = begin[0]
    hi = lo
    for w in range(len(begin)):
        if begin[w] >= hi or end[w] <= lo:  # nothing in common
            for i in range(lo, hi):
                node = room + codes[i]
                while node and tree[node]:
                    tree[node] = 0
                    node //= 2
            lo = begin[w]
            hi = lo
        for step in range(4):
            if step == 0:
                first, stop, sign = begin[w], lo, 1
            elif step == 1:
                first, stop, sign = hi, end[w], 1
            elif step == 2:
                first, stop, sign = lo, begin[w], -1
            else:
                first, stop, sign = end[w], hi, -1
            for i in range(first, stop):
                node = room + codes[i]
                tree[node] += sign * weights[i]
                node //= 2
                while node:
                    larger = max(tree[2 * node], tree[2 * node + 1])
                    if tree[node] == larger:
                        break
                    tree[node] = larger
                    node //= 2
        lo = begin[w]
        hi = end[w]
        node = 1
        while node < room:
            node = 2 * node if tree[2 * node] == tree[node] else 2 * node + 1
        out[w] = node - room


run = Compiled(
    "run_loops",
    go_forward,
    end_to_end,
    number_singles,
    sort_segments,
    encode,
    join_runs,
    copy_runs,
    copy_lists,
    pick,
    pick_of_several,
    halve,
    descend,
    count_distinct,
    modes,
    slide_modes,
)
