"""FlatFAT over the partials of each key's slices: a complete binary tree per key, all in one array.

The tree of key k has room for room[k] leaves, a power of two. Its nodes lie from base[k] on: the root at 1,
the children of node v at 2v and 2v + 1, leaf i at room[k] + i. Of the leaves, the first filled[k] are there.
"""

from muntin.kernels.slots import combine, load, store

ENTRIES = ("refresh", "ranges")


def join(nodes, base, room, filled, v):
    """Combine the children of a node; the right one may be empty. Return the number of combines."""
    first = 2 * v + 1  # the leftmost leaf under the right child
    while first < room:
        first *= 2
    state = load(nodes, base + 2 * v)
    if first - room < filled:
        store(nodes, base + v, combine(state, load(nodes, base + 2 * v + 1)))
        return 1
    store(nodes, base + v, state)
    return 0


def refresh(states, key, rank, bases, rooms, fills, nodes):
    """Set leaves, which lie by key and rank, and combine what depends on them once; count the combines."""
    combines = 0
    i = 0
    n = len(key)
    while i < n:
        k = key[i]
        base = bases[k]
        room = rooms[k]
        stop = i
        while stop < n and key[stop] == k:
            store(nodes, base + room + rank[stop], load(states, stop))
            stop += 1
        height = 0
        while (1 << height) < room:
            height += 1
        if (stop - i) * height <= 2 * (rank[stop - 1] - rank[i]):  # far apart: one way up for each
            for j in range(i, stop):
                v = (room + rank[j]) >> 1
                while v >= 1:
                    combines += join(nodes, base, room, fills[k], v)
                    v >>= 1
        else:
            low = (room + rank[i]) >> 1
            high = (room + rank[stop - 1]) >> 1
            while low >= 1:
                for v in range(low, high + 1):
                    combines += join(nodes, base, room, fills[k], v)
                low >>= 1
                high >>= 1
        i = stop
    return combines


def stretch(nodes, base, room, low, high):
    """Fold the leaves from `low` to before `high`, the older first; return the state and the combines."""
    combines = 0
    v = room + low
    u = room + high
    left = load(nodes, base + v)  # at least one leaf: it is replaced or combined
    has_left = False
    right = left
    has_right = False
    while v < u:
        if v & 1:
            if has_left:
                left = combine(left, load(nodes, base + v))
                combines += 1
            else:
                left = load(nodes, base + v)
            has_left = True
            v += 1
        if u & 1:
            u -= 1
            if has_right:
                right = combine(load(nodes, base + u), right)
                combines += 1
            else:
                right = load(nodes, base + u)
            has_right = True
        v >>= 1
        u >>= 1
    if has_left and has_right:
        left = combine(left, right)
        combines += 1
    elif has_right:
        left = right
    return left, combines


def ranges(nodes, key, low, high, bases, rooms, out):
    """Fold ranges of leaves in at most 2 log2(leaves) combines each; count the combines."""
    combines = 0
    for w in range(len(low)):
        state, more = stretch(nodes, bases[key[w]], rooms[key[w]], low[w], high[w])
        combines += more
        store(out, w, state)
    return combines
