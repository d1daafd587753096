"""A fixed window over a whole column, block by block (van Herk): prefixes of one meet suffixes of the last.

While the prefixes of a block are combined, so are its suffixes for the next: two chains that the
processor runs side by side, which makes this faster than Two-Stacks Lite (one after the other).
"""

from muntin.kernels.slots import combine, lift, load, lower, lower_pair, store
from muntin.kernels.templates.two_stacks_lite import flip


def slide(columns, valid, starts, window, out, missing, partials, marks):
    n = len(out)
    prefix = lift(columns, valid, 0)
    lower(prefix, out, missing, 0)
    for j in range(1, min(window, n)):
        prefix = combine(prefix, lift(columns, valid, j))
        lower(prefix, out, missing, j)
    if n <= window:
        return
    now, then = partials[:window], partials[window:]  # suffixes of the last block, and of this one
    flip(columns, valid, 0, window, now, 0)
    begin = window
    while begin + window <= n:
        prefix = lift(columns, valid, begin)
        suffix = lift(columns, valid, begin + window - 1)
        store(then, window - 1, suffix)
        for j in range(1, window):
            lower_pair(load(now, j), prefix, out, missing, begin + j - 1)
            prefix = combine(prefix, lift(columns, valid, begin + j))
            suffix = combine(lift(columns, valid, begin + window - 1 - j), suffix)
            store(then, window - 1 - j, suffix)
        lower(prefix, out, missing, begin + window - 1)
        now, then = then, now
        begin += window
    if begin < n:
        prefix = lift(columns, valid, begin)
        for j in range(1, n - begin):
            lower_pair(load(now, j), prefix, out, missing, begin + j - 1)
            prefix = combine(prefix, lift(columns, valid, begin + j))
        lower_pair(load(now, n - begin), prefix, out, missing, n - 1)
