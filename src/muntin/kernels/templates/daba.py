"""DABA: a ring of values and a ring of aggregates, six pointers, a step of the reversal each time."""

from muntin.kernels.slots import combine, lift, load, lower_pair, one, store


def fixup(partials, capacity, F, L, R, A, B, E):
    mask = capacity - 1
    if F == B:  # singleton
        return E, E, E, E
    if L == B:  # flip
        L, A, B = F, E, E
    if L == R:  # shift
        return L + 1, R + 1, A + 1, B
    accumulated = one if A == B else load(partials, capacity + (A & mask))  # shrink
    inner = combine(load(partials, capacity + (L & mask)), load(partials, capacity + ((A - 1) & mask)))
    store(partials, capacity + (L & mask), combine(inner, accumulated))
    value = load(partials, (A - 1) & mask)
    store(partials, capacity + ((A - 1) & mask), combine(value, accumulated))
    return L + 1, R, A - 1, B


def slide(columns, valid, starts, window, out, missing, partials, marks):
    capacity = len(partials) // 2  # values lie in the first half, aggregates in the second
    mask = capacity - 1
    F = L = R = A = B = E = 0
    for i in range(len(out)):
        first = max(0, i - window + 1) if starts is None else starts[i]
        while F < first:
            F += 1
            L, R, A, B = fixup(partials, capacity, F, L, R, A, B, E)
        value = lift(columns, valid, i)
        back = one if B == E else load(partials, capacity + ((E - 1) & mask))
        store(partials, E & mask, value)
        store(partials, capacity + (E & mask), combine(back, value))
        E += 1
        L, R, A, B = fixup(partials, capacity, F, L, R, A, B, E)
        front = one if F == B else load(partials, capacity + (F & mask))
        back = one if B == E else load(partials, capacity + ((E - 1) & mask))
        lower_pair(front, back, out, missing, i)
