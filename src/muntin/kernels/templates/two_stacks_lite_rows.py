"""Two-Stacks Lite by reference: a ring of rows, and two more for the back and for the answer."""

from muntin.kernels.slots import combine_into, lift_into, lower


def slide(columns, valid, starts, window, out, missing, partials, marks):
    capacity = len(partials) - 2
    mask = capacity - 1
    back = partials[capacity]
    answer = partials[capacity + 1]
    F = B = E = 0
    back[:] = 0
    for i in range(len(out)):
        first = max(0, i - window + 1) if starts is None else starts[i]
        while F < first:
            if F == B:  # flip
                for p in range(E - 2, F - 1, -1):
                    combine_into(partials[p & mask], partials[p & mask], partials[(p + 1) & mask])
                B = E
                back[:] = 0
            F += 1
        lift_into(partials[E & mask], columns, valid, i)
        combine_into(back, back, partials[E & mask])
        E += 1
        if F == B:
            lower(back, out, missing, i)
        else:
            combine_into(answer, partials[F & mask], back)
            lower(answer, out, missing, i)
