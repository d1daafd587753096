"""A FlatFAT whose leaves are a ring of records: appended one by one at one end, freed at the other.

The root is at 1, the children of node v at 2v and 2v + 1. `ends` holds the positions of the oldest leaf, of
the next, and of what was the oldest when the newest was added; the leaf of position p is at
room + (p & (room - 1)).
"""

from muntin.kernels.slots import combine, lift, load, store
from muntin.kernels.templates.trees import stretch

ENTRIES = ("fold", "append", "append_all", "moved", "suffixes", "sliced")


def fold(columns, valid, low, high, out):
    """Fold the records from low to high, without any tree: what a slice is."""
    state = lift(columns, valid, low)
    for i in range(low + 1, high):
        state = combine(state, lift(columns, valid, i))
    store(out, 0, state)


def within(room, first, last, v):
    """Tell whether the ring, from slot `first` to slot `last`, has a leaf below a node."""
    begin = v
    below = 1
    while begin < room:
        begin *= 2
        below *= 2
    begin -= room
    if last < first:
        return begin <= last or begin + below > first
    return begin <= last and begin + below > first


def join(nodes, room, first, last, v):
    """Combine those children of a node that have leaves; return the number of combines."""
    left = within(room, first, last, 2 * v)
    right = within(room, first, last, 2 * v + 1)
    if left and right:
        store(nodes, v, combine(load(nodes, 2 * v), load(nodes, 2 * v + 1)))
        return 1
    if left:
        store(nodes, v, load(nodes, 2 * v))
    elif right:
        store(nodes, v, load(nodes, 2 * v + 1))
    return 0


def add(nodes, room, ends, state):
    """Append a leaf, and combine all nodes above it; count the combines."""
    combines = 0
    mask = room - 1
    ends[2] = ends[0]
    first = ends[0] & mask
    last = ends[1] & mask
    store(nodes, room + last, state)
    ends[1] += 1
    v = (room + last) >> 1
    while v >= 1:
        combines += join(nodes, room, first, last, v)
        v >>= 1
    return combines


def append(columns, valid, low, high, nodes, room, ends):
    """Append records one by one, each with all that depends on it; count the combines."""
    combines = 0
    for i in range(low, high):
        combines += add(nodes, room, ends, lift(columns, valid, i))
    return combines


def joined(nodes, room, ends, a, b, d):
    """Combine what depends on the leaves from slot a to b, and from 0 to d, level by level; count that."""
    combines = 0
    first = ends[0] & (room - 1)
    last = (ends[1] - 1) & (room - 1)
    c = room >> 1
    a = (room + a) >> 1
    b = (room + b) >> 1
    d = (room + d) >> 1
    while a >= 1:
        for v in range(c, d + 1):
            combines += join(nodes, room, first, last, v)
        for v in range(max(a, d + 1), b + 1):  # none twice
            combines += join(nodes, room, first, last, v)
        a >>= 1
        b >>= 1
        c >>= 1
        d >>= 1
    return combines


def append_all(columns, valid, low, high, nodes, room, ends):
    """Append records at once: what depends on several of them is combined once; count the combines."""
    mask = room - 1
    ends[2] = ends[0]
    begin = ends[1]
    for i in range(low, high):
        store(nodes, room + (ends[1] & mask), lift(columns, valid, i))
        ends[1] += 1
    if ends[1] == begin or room == 1:
        return 0
    a = begin & mask
    b = (ends[1] - 1) & mask
    if a <= b:
        return joined(nodes, room, ends, a, b, -1 - room)
    return joined(nodes, room, ends, a, room - 1, b)


def moved(nodes, room, others, other_room, ends):
    """Lay the leaves out in nodes of another size, and combine them anew; count the combines."""
    for p in range(ends[0], ends[1]):
        store(others, other_room + (p & (other_room - 1)), load(nodes, room + (p & (room - 1))))
    combines = 0
    ends[2] = ends[0]
    if ends[0] < ends[1]:
        first = ends[0] & (other_room - 1)
        last = (ends[1] - 1) & (other_room - 1)
        for v in range(other_room - 1, 0, -1):
            combines += join(others, other_room, first, last, v)
    return combines


def newest(nodes, room, ends, low):
    """Fold the leaves from slot `low` to the newest; return the state and the number of combines.

    The nodes above the newest leaf were combined with it. One that had no leaf of the lap before holds just
    those from its first leaf to the newest.
    """
    high = (ends[1] - 1) & (room - 1)
    oldest = ends[2] & (room - 1)
    limit = oldest if oldest > high else room
    v = room + high
    begin = high
    size = 1
    while v > 1:
        start = begin & (-2 * size)
        if start < low or start + 2 * size > limit:
            break
        v >>= 1
        begin = start
        size *= 2
    if begin == low:
        return load(nodes, v), 0
    state, combines = stretch(nodes, 0, room, low, begin)
    return combine(state, load(nodes, v)), combines + 1


def suffix(nodes, room, ends, low):
    """Fold the leaves from a position to the newest; return the state and the number of combines."""
    first = low & (room - 1)
    if first <= ((ends[1] - 1) & (room - 1)):
        return newest(nodes, room, ends, first)
    older, more = stretch(nodes, 0, room, first, room)
    newer, yet = newest(nodes, room, ends, 0)
    return combine(older, newer), more + yet + 1


def suffixes(nodes, room, ends, low, out):
    """Fold the leaves from each of these positions to the newest; count the combines."""
    combines = 0
    for w in range(len(low)):
        state, more = suffix(nodes, room, ends, low[w])
        combines += more
        store(out, w, state)
    return combines


def row_of(nodes, room, ends, low):
    """Fold the leaves from a position to the newest, one after the other."""
    state = load(nodes, room + (low & (room - 1)))
    for p in range(low + 1, ends[1]):
        state = combine(state, load(nodes, room + (p & (room - 1))))
    return state, ends[1] - low - 1


def sliced(columns, valid, edges, is_cut, upto, needed, begins, eager, nodes, room, ends, active, at, out):
    """Go from edge to edge of an in-order stream: fold records, store slices, merge windows, free.

    `at` holds where it is and what it has counted: the next edge, the records folded, whether the slice that
    is being filled has any, the next window, combines of updates and of merges, and the most partials held.
    It stops at the end, before a full ring, and after an edge that leaves a ring almost empty.
    """
    while at[0] < len(edges):
        e = at[0]
        if is_cut[e] and ends[1] - ends[0] == room:
            return
        for i in range(at[1], edges[e]):
            state = lift(columns, valid, i)
            if at[2]:
                state = combine(load(active, 0), state)
            store(active, 0, state)
            at[2] = 1
        at[1] = edges[e]
        if is_cut[e]:
            if eager:
                at[4] += add(nodes, room, ends, load(active, 0))
            else:
                store(nodes, room + (ends[1] & (room - 1)), load(active, 0))
                ends[1] += 1
            at[2] = 0
        at[6] = max(at[6], ends[1] - ends[0] + at[2])
        for w in range(at[3], upto[e]):
            if begins[w] == ends[1]:
                state = load(active, 0)
            else:
                if eager:
                    state, more = suffix(nodes, room, ends, begins[w])
                else:
                    state, more = row_of(nodes, room, ends, begins[w])
                at[5] += more
                if at[2]:
                    state = combine(state, load(active, 0))
                    at[5] += 1
            store(out, w, state)
        at[3] = upto[e]
        ends[0] = max(ends[0], min(needed[e], ends[1]))
        at[0] += 1
        if 0 < 4 * (ends[1] - ends[0]) < room:
            return
