"""DABA Lite by reference: a ring of rows, and three more for two running states and the answer."""

from muntin.kernels.slots import combine_into, lift_into, lower


def fixup(partials, capacity, F, L, R, A, B, E):
    mask = capacity - 1
    right, back = partials[capacity], partials[capacity + 1]
    if F == B:  # singleton
        right[:] = 0
        back[:] = 0
        return E, E, E, E
    if L == B:  # flip
        L, A, B = F, E, E
        right[:] = back
        back[:] = 0
    if L == R:  # shift
        return L + 1, R + 1, A + 1, B
    combine_into(partials[L & mask], partials[L & mask], right)  # shrink
    if A != B:
        combine_into(partials[(A - 1) & mask], partials[(A - 1) & mask], partials[A & mask])
    return L + 1, R, A - 1, B


def slide(columns, valid, starts, window, out, missing, partials, marks):
    capacity = len(partials) - 3
    mask = capacity - 1
    back, answer = partials[capacity + 1], partials[capacity + 2]
    F = L = R = A = B = E = 0
    partials[capacity:] = 0
    for i in range(len(out)):
        first = max(0, i - window + 1) if starts is None else starts[i]
        while F < first:
            F += 1
            L, R, A, B = fixup(partials, capacity, F, L, R, A, B, E)
        lift_into(partials[E & mask], columns, valid, i)
        combine_into(back, back, partials[E & mask])
        E += 1
        L, R, A, B = fixup(partials, capacity, F, L, R, A, B, E)
        if F == B:
            lower(back, out, missing, i)
        else:
            combine_into(answer, partials[F & mask], back)
            lower(answer, out, missing, i)
