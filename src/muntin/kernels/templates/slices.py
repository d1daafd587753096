"""What is done with the partials of slices: fold records into them, merge them, fold ranges of them."""

from muntin.kernels.slots import combine, lift, load, lower, store
from muntin.kernels.templates.two_stacks_lite import flip

ENTRIES = ("segments", "scatter", "scatter_apart", "add_one", "merge", "each_range", "slide_ranges", "finish")


def segments(columns, valid, bounds, states):
    """Fold the records from bounds[j] to bounds[j + 1] into state j."""
    for j in range(len(bounds) - 1):
        state = lift(columns, valid, bounds[j])
        for i in range(bounds[j] + 1, bounds[j + 1]):
            state = combine(state, lift(columns, valid, i))
        store(states, j, state)


def scatter(columns, valid, at, blank, states):
    """Fold record i, of which there must be some, into state at[i]; `blank`: it holds nothing yet."""
    p = at[0]
    state = lift(columns, valid, 0)
    if not blank[p]:
        state = combine(load(states, p), state)
    blank[p] = False
    for i in range(1, len(at)):
        q = at[i]
        value = lift(columns, valid, i)
        if q == p:  # the state stays at hand: it is not stored for the next record to wait for
            state = combine(state, value)
            continue
        store(states, p, state)
        p = q
        if blank[p]:
            blank[p] = False
            state = value
        else:
            state = combine(load(states, p), value)
    store(states, p, state)


def scatter_apart(columns, valid, at, blank, states):
    """The same where hardly ever two neighbours have one state: asking for it would take longer."""
    for i in range(len(at)):
        p = at[i]
        state = lift(columns, valid, i)
        if blank[p]:
            blank[p] = False
        else:
            state = combine(load(states, p), state)
        store(states, p, state)


def add_one(columns, valid, states, at, new):
    """Put the first record behind a state, if there is one."""
    state = lift(columns, valid, 0)
    if not new:
        state = combine(load(states, at), state)
    store(states, at, state)


def merge(states, at, blank, others):
    """Put state i of `others` behind the one at at[i], in turn; where blank[i], there is none yet."""
    for i in range(len(at)):
        state = load(others, i)
        if not blank[i]:
            state = combine(load(states, at[i]), state)
        store(states, at[i], state)


def each_range(states, low, high, out):
    """Fold each range by itself."""
    for w in range(len(low)):
        state = load(states, low[w])
        for j in range(low[w] + 1, high[w]):
            state = combine(state, load(states, j))
        store(out, w, state)


def value(states, valid, i):
    """Return what is folded by functions of templates over records: the partial of a slice."""
    return load(states, i)


def slide_ranges(states, starts, keys, low, high, out, front, begin, split, upto, back):
    """Fold ranges with two stacks per key, which go on from call to call; if one goes back, they begin anew.

    For each key, the front holds suffixes of the states that start between begin[key] and split[key]; the
    back is the fold of those from there to upto[key]. Counts the combines.
    """
    combines = 0
    for w in range(len(low)):
        first = low[w]
        h = high[w]
        k = keys[first]
        back_again = starts[first] < begin[k] or starts[h - 1] + 1 < upto[k]
        if starts[first] >= split[k] or back_again:  # no front for it: what there is becomes the front
            state = flip(states, None, first, h, front, first)
            combines += h - 1 - first
            begin[k] = starts[first]
            split[k] = starts[h - 1] + 1
            upto[k] = split[k]
            store(out, w, state)
            continue
        j = h
        while j > first and starts[j - 1] >= upto[k]:
            j -= 1
        for i in range(j, h):
            if upto[k] == split[k]:
                store(back, k, load(states, i))
            else:
                store(back, k, combine(load(back, k), load(states, i)))
                combines += 1
            upto[k] = starts[i] + 1
        state = load(front, first)
        if upto[k] > split[k]:
            state = combine(state, load(back, k))
            combines += 1
        store(out, w, state)
    return combines


def finish(states, out, missing):
    """Write the answer of each state."""
    for i in range(len(out)):
        lower(load(states, i), out, missing, i)
