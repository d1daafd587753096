"""A FlatFAT whose leaves are a ring of records: appended one by one at one end, freed at the other.

The root is at 1, the children of node v at 2v and 2v + 1. `ends` holds the positions of the oldest leaf and
of the next; the leaf of position p is at room + (p & (room - 1)).
"""

from muntin.kernels.slots import combine, lift, load, store

ENTRIES = ("fold", "append", "append_all", "moved", "ranges")


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


def append(columns, valid, low, high, nodes, room, ends):
    """Append records one by one, each with all that depends on it; count the combines."""
    combines = 0
    mask = room - 1
    for i in range(low, high):
        first = ends[0] & mask
        last = ends[1] & mask
        store(nodes, room + last, lift(columns, valid, i))
        ends[1] += 1
        v = (room + last) >> 1
        while v >= 1:
            combines += join(nodes, room, first, last, v)
            v >>= 1
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
    if ends[0] < ends[1]:
        first = ends[0] & (other_room - 1)
        last = (ends[1] - 1) & (other_room - 1)
        for v in range(other_room - 1, 0, -1):
            combines += join(others, other_room, first, last, v)
    return combines


def stretch(nodes, room, low, high):
    """Fold the leaves from slot `low` to before slot `high`; return the state and the number of combines."""
    combines = 0
    v = room + low
    u = room + high
    left = load(nodes, v)
    has_left = False
    right = left
    has_right = False
    while v < u:
        if v & 1:
            if has_left:
                left = combine(left, load(nodes, v))
                combines += 1
            else:
                left = load(nodes, v)
            has_left = True
            v += 1
        if u & 1:
            u -= 1
            if has_right:
                right = combine(load(nodes, u), right)
                combines += 1
            else:
                right = load(nodes, u)
            has_right = True
        v >>= 1
        u >>= 1
    if has_left and has_right:
        return combine(left, right), combines + 1
    return (left, combines) if has_left else (right, combines)


def ranges(nodes, room, low, high, out):
    """Fold ranges of positions, none empty; count the combines."""
    combines = 0
    mask = room - 1
    for w in range(len(low)):
        a = low[w] & mask
        b = (high[w] - 1) & mask
        if a <= b:
            state, more = stretch(nodes, room, a, b + 1)
            combines += more
        else:
            older, more = stretch(nodes, room, a, room)
            newer, yet = stretch(nodes, room, 0, b + 1)
            state = combine(older, newer)
            combines += more + yet + 1
        store(out, w, state)
    return combines
