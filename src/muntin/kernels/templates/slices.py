"""What is done with the partials of slices: fold records into them, merge them, fold ranges of them."""

from muntin.kernels.slots import combine, lift, load, lower, store

ENTRIES = ("segments", "scatter", "merge", "each_range", "slide_ranges", "finish")


def segments(columns, valid, bounds, states):
    """Fold the records from bounds[j] to bounds[j + 1] into state j."""
    for j in range(len(bounds) - 1):
        state = lift(columns, valid, bounds[j])
        for i in range(bounds[j] + 1, bounds[j + 1]):
            state = combine(state, lift(columns, valid, i))
        store(states, j, state)


def scatter(columns, valid, at, blank, states):
    """Fold record i into state at[i]; `blank` says which states hold nothing yet."""
    for i in range(len(at)):
        p = at[i]
        state = lift(columns, valid, i)
        if blank[p]:
            blank[p] = False
        else:
            state = combine(load(states, p), state)
        store(states, p, state)


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


def slide_ranges(states, low, high, out, front):
    """Fold ranges that never go back with two stacks: the front a suffix scan, the back a running state."""
    combines = 0
    B = 0  # the front covers states up to here, the back goes on from here to `upto`
    upto = 0
    back = load(states, 0)
    for w in range(len(low)):
        if low[w] >= B:
            B = high[w]
            upto = B
            state = load(states, B - 1)
            store(front, B - 1, state)
            for j in range(B - 2, low[w] - 1, -1):
                state = combine(load(states, j), state)
                store(front, j, state)
            combines += B - 1 - low[w]
            store(out, w, state)
            continue
        for j in range(upto, high[w]):
            if j == B:
                back = load(states, j)
            else:
                back = combine(back, load(states, j))
                combines += 1
        upto = high[w]
        state = load(front, low[w])
        if upto > B:
            state = combine(state, back)
            combines += 1
        store(out, w, state)
    return combines


def finish(states, out, missing):
    """Write the answer of each state."""
    for i in range(len(out)):
        lower(load(states, i), out, missing, i)
