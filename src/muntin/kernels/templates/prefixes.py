"""Ranges of partials by prefixes: one combine per partial, one inverse per range."""

from muntin.kernels.slots import combine, invert_oldest, load, store

ENTRIES = ("scan", "between")


def scan(states, older, at, out):
    """Write the fold of each chain of states up to those at some places, in turn; older[j] comes before j."""
    combines = 0
    for i in range(len(at)):
        j = at[i]
        state = load(states, j)
        if older[j] >= 0:
            state = combine(load(out, older[j]), state)
            combines += 1
        store(out, j, state)
    return combines


def between(prefixes, newest, before, out):
    """Take the states after `before` (if there is any) up to `newest` out of a prefix, by the inverse."""
    for w in range(len(newest)):
        state = load(prefixes, newest[w])
        if before[w] >= 0:
            state = invert_oldest(state, load(prefixes, before[w]))
        store(out, w, state)
