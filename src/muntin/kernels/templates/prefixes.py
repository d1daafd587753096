"""Ranges of partials by prefixes: one combine per partial, one inverse per range."""

from muntin.kernels.slots import combine, invert_oldest, load, store

ENTRIES = ("scan", "between")


def scan(states, out):
    """Write the fold of all states up to each one."""
    state = load(states, 0)
    store(out, 0, state)
    for j in range(1, len(states)):
        state = combine(state, load(states, j))
        store(out, j, state)


def between(prefixes, low, high, out):
    """Take ranges out of prefixes by the inverse."""
    for w in range(len(low)):
        state = load(prefixes, high[w] - 1)
        if low[w] > 0:
            state = invert_oldest(state, load(prefixes, low[w] - 1))
        store(out, w, state)
