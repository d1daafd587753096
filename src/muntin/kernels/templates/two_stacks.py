"""Two-Stacks: a ring of values and a ring of aggregates, flipped when the front is empty."""

from muntin.kernels.slots import combine, lift, load, lower_pair, one, store


def slide(columns, valid, starts, window, out, missing, partials, marks):
    capacity = len(partials) // 2  # values lie in the first half, aggregates in the second
    mask = capacity - 1
    F = B = E = 0
    for i in range(len(out)):
        first = max(0, i - window + 1) if starts is None else starts[i]
        while F < first:
            if F == B:  # flip
                front = one
                for p in range(E - 1, F - 1, -1):
                    front = combine(load(partials, p & mask), front)
                    store(partials, capacity + (p & mask), front)
                B = E
            F += 1
        value = lift(columns, valid, i)
        back = one if B == E else load(partials, capacity + ((E - 1) & mask))
        back = combine(back, value)
        store(partials, E & mask, value)
        store(partials, capacity + (E & mask), back)
        E += 1
        front = one if F == B else load(partials, capacity + (F & mask))
        lower_pair(front, back, out, missing, i)
