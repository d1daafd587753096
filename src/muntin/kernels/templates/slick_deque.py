"""SlickDeque for aggregates that select: a record that a later one beats can never be the answer again."""

from muntin.kernels.slots import combine, lift, load, lower, same, store


def slide(columns, valid, starts, window, out, missing, partials, marks):
    mask = len(partials) - 1  # marks: which record each candidate is
    F = E = 0
    for i in range(len(out)):
        first = max(0, i - window + 1) if starts is None else starts[i]
        while F < E and marks[F & mask] < first:
            F += 1
        value = lift(columns, valid, i)
        while F < E:
            newest = load(partials, (E - 1) & mask)
            chosen = combine(newest, value)
            if same(chosen, newest) or not same(chosen, value):
                break
            E -= 1
        store(partials, E & mask, value)
        marks[E & mask] = i
        E += 1
        lower(load(partials, F & mask), out, missing, i)
