"""DABA Lite: one ring of partials, six pointers, and a step of the reversal at each insert and evict."""

from muntin.kernels.slots import combine, lift, load, lower_pair, one, store


def fixup(partials, mask, F, L, R, A, B, E, agg_ra, agg_b):
    if F == B:  # singleton
        return E, E, E, E, one, one
    if L == B:  # flip
        L, A, B, agg_ra, agg_b = F, E, E, agg_b, one
    if L == R:  # shift
        return L + 1, R + 1, A + 1, B, agg_ra, agg_b
    left = combine(load(partials, L & mask), agg_ra)  # shrink
    store(partials, L & mask, left)
    accumulated = one if A == B else load(partials, A & mask)
    store(partials, (A - 1) & mask, combine(load(partials, (A - 1) & mask), accumulated))
    return L + 1, R, A - 1, B, agg_ra, agg_b


def slide(columns, valid, starts, window, out, missing, partials, marks):
    mask = len(partials) - 1
    F = L = R = A = B = E = 0
    agg_ra = agg_b = one
    for i in range(len(out)):
        first = max(0, i - window + 1) if starts is None else starts[i]
        while F < first:
            F += 1
            L, R, A, B, agg_ra, agg_b = fixup(partials, mask, F, L, R, A, B, E, agg_ra, agg_b)
        value = lift(columns, valid, i)
        store(partials, E & mask, value)
        E += 1
        agg_b = combine(agg_b, value)
        L, R, A, B, agg_ra, agg_b = fixup(partials, mask, F, L, R, A, B, E, agg_ra, agg_b)
        front = one if F == B else load(partials, F & mask)
        lower_pair(front, agg_b, out, missing, i)
