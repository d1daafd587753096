"""FlatFIT: each slot knows the aggregate from itself up to some later slot; queries lengthen the leaps."""

from muntin.kernels.slots import combine, lift, load, lower, store


def slide(columns, valid, starts, window, out, missing, partials, marks):
    capacity = len(partials)
    mask = capacity - 1  # marks: where each slot's aggregate ends, and behind them the stack of slots
    for i in range(len(out)):
        store(partials, i & mask, lift(columns, valid, i))
        marks[i & mask] = i + 1
        first = max(0, i - window + 1) if starts is None else starts[i]
        depth = 0
        p = first
        while marks[p & mask] != i + 1:
            marks[capacity + depth] = p
            depth += 1
            p = marks[p & mask]
        total = load(partials, p & mask)
        while depth > 0:
            depth -= 1
            p = marks[capacity + depth]
            total = combine(load(partials, p & mask), total)
            store(partials, p & mask, total)
            marks[p & mask] = i + 1
        lower(total, out, missing, i)
