"""Compiled loops that read a key's records in canonical order and mark where windows begin and end.

All of them go over runs: records r of key codes[r] lie from bounds[r] to bounds[r + 1], and record i has the
position i + base[r]. Where a window begins or ends, `marks` is set. They return how many windows they wrote.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.kernels.compiled import Compiled


def state_runs(
    values: Any,
    present: Any,
    at: Any,
    codes: Any,
    bounds: Any,
    base: Any,
    begins: Any,
    last: Any,
    held: Any,
    marks: Any,
    out: Any,
) -> int:
    """Write runs of one value, which can change only at some places; begins[k] is -1 where there is none."""
    count = 0
    j = 0
    for r in range(len(codes)):
        k = codes[r]
        begin = begins[k]
        value = last[k]
        has = held[k]
        while j < len(at) and at[j] < bounds[r + 1]:
            i = at[j]
            j += 1
            if values[i] == value and present[i] == has and begin >= 0:
                continue
            if begin >= 0:
                out[0, count] = k
                out[1, count] = begin
                out[2, count] = i + base[r]
                count += 1
            begin = i + base[r]
            value = values[i]
            has = present[i]
            marks[i] = 1
        begins[k] = begin
        last[k] = value
        held[k] = has
    return count


def flag_runs(
    flags: Any, at: Any, codes: Any, bounds: Any, base: Any, least: int, begins: Any, marks: Any, out: Any
) -> int:
    """Write maximal runs of at least so many records whose flag is set; it changes only at some places."""
    count = 0
    j = 0
    for r in range(len(codes)):
        k = codes[r]
        begin = begins[k]
        while j < len(at) and at[j] < bounds[r + 1]:
            i = at[j]
            j += 1
            if flags[i]:
                if begin < 0:
                    begin = i + base[r]
                    marks[i] = 1
            elif begin >= 0:
                if i + base[r] - begin >= least:
                    out[0, count] = k
                    out[1, count] = begin
                    out[2, count] = i + base[r]
                    count += 1
                    marks[i] = 1
                begin = -1
        begins[k] = begin
    return count


def parted_runs(at: Any, codes: Any, bounds: Any, base: Any, begins: Any, marks: Any, out: Any) -> int:
    """Write the stretches from each of some places to the next."""
    count = 0
    j = 0
    for r in range(len(codes)):
        k = codes[r]
        begin = begins[k]
        while j < len(at) and at[j] < bounds[r + 1]:
            i = at[j]
            j += 1
            if begin >= 0:
                out[0, count] = k
                out[1, count] = begin
                out[2, count] = i + base[r]
                count += 1
            begin = i + base[r]
            marks[i] = 1
        begins[k] = begin
    return count


def delta_runs(
    values: Any,
    by: float,
    codes: Any,
    bounds: Any,
    base: Any,
    begins: Any,
    firsts: Any,
    marks: Any,
    out: Any,
) -> int:
    """Write runs of floats that differ from the first of their run by no more than `by`; NaN: no value."""
    count = 0
    for r in range(len(codes)):
        k = codes[r]
        begin = begins[k]
        first = firsts[k]
        i = bounds[r] - 1
        stop = bounds[r + 1]
        while i + 1 < stop:
            i += 1
            v = values[i]
            if begin >= 0 and not abs(v - first) > by:
                if (i & 15) == 0:  # look at many at once, as long as none is far
                    while i + 33 <= stop:
                        far = 0
                        for j in range(i + 1, i + 33):
                            far += abs(values[j] - first) > by
                        if far:
                            break
                        i += 32
                continue
            if v != v:
                continue
            if begin >= 0:
                out[0, count] = k
                out[1, count] = begin
                out[2, count] = i + base[r]
                count += 1
            begin = i + base[r]
            first = v
            marks[i] = 1
        begins[k] = begin
        firsts[k] = first
    return count


def delta_runs_exact(
    values: Any,
    present: Any,
    by: Any,
    codes: Any,
    bounds: Any,
    base: Any,
    begins: Any,
    firsts: Any,
    marks: Any,
    out: Any,
) -> int:
    """Write the same for integers, whose differences may need 64 bits; `by` is unsigned."""
    count = 0
    for r in range(len(codes)):
        k = codes[r]
        begin = begins[k]
        first = firsts[k]
        for i in range(bounds[r], bounds[r + 1]):
            if not present[i]:
                continue
            v = values[i]
            if begin >= 0:
                if np.uint64(max(v, first) - min(v, first)) <= by:  # may have wrapped: right as unsigned
                    continue
                out[0, count] = k
                out[1, count] = begin
                out[2, count] = i + base[r]
                count += 1
            begin = i + base[r]
            first = v
            marks[i] = 1
        begins[k] = begin
        firsts[k] = first
    return count


def stretches(
    flags: Any,
    times: Any,
    every: int,
    length: int,
    codes: Any,
    bounds: Any,
    base: Any,
    begins: Any,
    landmarks: Any,
    steps: Any,
    marks: Any,
    out: Any,
) -> int:
    """Write windows since the last landmark, at each end of a step with records.

    Flag 1 is a landmark, flag 2 ends what there is. steps[k] is the end of the step of a key's last record,
    which is not written yet; windows end no later than `length` after their landmark, below 0: whenever.
    """
    count = 0
    for r in range(len(codes)):
        k = codes[r]
        begin = begins[k]
        step = steps[k]
        for i in range(bounds[r], bounds[r + 1]):
            t = times[i]
            if t >= step:
                in_time = length < 0 or step <= landmarks[k] + length
                if begin >= 0 and step > -4611686018427387904 and in_time:
                    out[0, count] = k
                    out[1, count] = begin
                    out[2, count] = i + base[r]
                    out[3, count] = step
                    count += 1
                    marks[i] = 1
                step = (t // every + 1) * every
            if flags[i] & 1:
                begin = i + base[r]
                landmarks[k] = t
                marks[i] = 1
            elif flags[i] & 2:
                begin = -1
        begins[k] = begin
        steps[k] = step
    return count


def step_ends(times: Any, every: int, codes: Any, bounds: Any, base: Any, steps: Any, out: Any) -> int:
    """Write the position at which each step with records ends, and that end."""
    count = 0
    for r in range(len(codes)):
        k = codes[r]
        step = steps[k]
        for i in range(bounds[r], bounds[r + 1]):
            t = times[i]
            if t >= step:
                if step > -4611686018427387904:
                    out[0, count] = k
                    out[2, count] = i + base[r]
                    out[3, count] = step
                    count += 1
                step = (t // every + 1) * every
        steps[k] = step
    return count


def first_not_before(times: Any, low: Any, high: Any, bound: Any, out: Any) -> None:
    """Write the first place from low[w] to high[w] with a time at or past bound[w]; high[w] if none is."""
    for w in range(len(low)):
        begin = low[w]
        end = high[w]
        while begin < end:
            middle = (begin + end) >> 1
            if times[middle] < bound[w]:
                begin = middle + 1
            else:
                end = middle
        out[w] = begin


def equal_times(times: Any, codes: Any, bounds: Any, last: Any, ordinals: Any, out: Any) -> None:
    """Write the number of each record among those of its key and time, going on where a key's last was."""
    for r in range(len(codes)):
        k = codes[r]
        for i in range(bounds[r], bounds[r + 1]):
            if times[i] == last[k]:
                ordinals[k] += 1
            else:
                ordinals[k] = 0
                last[k] = times[i]
            out[i] = ordinals[k]


def policy_runs(
    codes: Any,
    positions: Any,
    times: Any,
    values: Any,
    new: Any,
    triggers: Any,
    evictions: Any,
    trigger_every: int,
    evict: int,
    least: int,
    amount: float,
    kept: Any,
    out: Any,
) -> int:
    """Write what eviction has left at each new record that triggers; mark the records that stay.

    Records lie by key and position, those that are held before new ones. trigger_every: 0 for flags. evict: 0
    all but `least`, 1 by time, 2 by value, 3 at flags.
    """
    count = 0
    h = 0
    for i in range(len(codes)):
        if i == 0 or codes[i] != codes[i - 1]:
            for j in range(h, i):
                kept[j] = True
            h = i
        if not new[i]:
            continue
        if evict == 0:
            h = max(h, i + 1 - least)
        elif evict == 1:
            while times[h] <= times[i] - least:
                h += 1
        elif evict == 2:
            x = values[i]
            while h < i and x == x and values[h] == values[h] and not abs(values[h] - x) <= amount:
                h += 1
        elif evictions[i]:
            h = i
        if (positions[i] + 1) % trigger_every == 0 if trigger_every else triggers[i]:
            out[0, count] = codes[i]
            out[1, count] = positions[h]
            out[2, count] = positions[i] + 1
            count += 1
    for j in range(h, len(codes)):
        kept[j] = True
    return count


def place(
    runs: Any, stops: Any, positions: Any, bounds: Any, base: Any, numbers: Any, out: Any, within: Any
) -> None:
    """Write the slice that begins at each position, and whether it lies among some records, run by run.

    numbers[i] counts the slices up to record i; those of a run are the last ones before the run's stop. A
    single run stands for all positions.
    """
    for w in range(len(positions)):
        r = runs[w] if len(runs) > 1 else runs[0]
        stop = stops[w] if len(stops) > 1 else stops[0]
        out[w] = stop
        within[w] = False
        if r >= 0:
            i = positions[w] - base[r]
            if bounds[r] <= i < bounds[r + 1]:
                out[w] = stop - 1 - (numbers[bounds[r + 1] - 1] - numbers[i])
                within[w] = True


def locate(cell_codes: Any, cell_starts: Any, codes: Any, starts: Any, out: Any) -> None:
    """Write the first cell of a key at or past a start; cells lie by key and start."""
    n = len(cell_codes)
    j = 0
    for w in range(len(codes)):
        k = codes[w]
        s = starts[w]
        low = 0
        high = n
        if j < n and (cell_codes[j] < k or (cell_codes[j] == k and cell_starts[j] < s)):
            low = j + 1  # ahead: look at the next ones first
            width = 1
            while low + width < n and (
                cell_codes[low + width] < k or (cell_codes[low + width] == k and cell_starts[low + width] < s)
            ):
                low = low + width + 1
                width *= 2
            high = min(n, low + width + 1)
        elif j < n:
            high = j
            width = 1
            while high - width >= 0 and not (
                cell_codes[high - width] < k
                or (cell_codes[high - width] == k and cell_starts[high - width] < s)
            ):
                high -= width
                width *= 2
            low = max(0, high - width)
        while low < high:
            middle = (low + high) >> 1
            if cell_codes[middle] < k or (cell_codes[middle] == k and cell_starts[middle] < s):
                low = middle + 1
            else:
                high = middle
        out[w] = low
        j = low


run = Compiled(
    "machines",
    state_runs,
    flag_runs,
    parted_runs,
    delta_runs,
    delta_runs_exact,
    stretches,
    step_ends,
    first_not_before,
    equal_times,
    policy_runs,
    place,
    locate,
)
