"""Two-Stacks Lite over a whole column, in segments: between two flips there is nothing to decide.

The back is a running state, the front a suffix scan over the column itself; only the front is stored.
"""

from muntin.kernels.slots import combine, lift, load, lower, lower_pair, store, value


def first_at_or_past(starts, window, bound, i, n):
    """Return the first record from i on whose window begins at `bound` or later."""
    if starts is None:
        return min(n, max(i, bound + window - 1))
    while i < n and starts[i] < bound:
        i += 1
    return i


def oldest(starts, window, i):
    if starts is None:
        return i - window + 1
    return starts[i]


def flip(columns, valid, low, high, front, at):
    """Make the front of the values from `low` to before `high`: the folds of each up to the last.

    They are written from front[at] on; returns the fold of all.
    """
    state = value(columns, valid, high - 1)
    store(front, at + high - 1 - low, state)
    for j in range(high - 2, low - 1, -1):
        state = combine(value(columns, valid, j), state)
        store(front, at + j - low, state)
    return state


def slide(columns, valid, starts, window, out, missing, partials, marks):
    n = len(out)
    B = 0  # where the back begins: the front, before it, is empty at first
    back = lift(columns, valid, 0)
    lower(back, out, missing, 0)
    i = 1
    while i < n:
        stop = first_at_or_past(starts, window, B + 1, i, n)
        for j in range(i, stop):  # the front is empty, and nothing leaves the back
            back = combine(back, lift(columns, valid, j))
            lower(back, out, missing, j)
        i = stop
        if i == n:
            break
        F = oldest(starts, window, i)  # flip
        B = i
        back = lift(columns, valid, i)
        if F == i:
            lower(back, out, missing, i)
            i += 1
            continue
        front = flip(columns, valid, F, i, partials, 0)
        lower_pair(front, back, out, missing, i)
        stop = first_at_or_past(starts, window, B, i + 1, n)
        for j in range(i + 1, stop):
            back = combine(back, lift(columns, valid, j))
            lower_pair(load(partials, oldest(starts, window, j) - F), back, out, missing, j)
        i = stop
