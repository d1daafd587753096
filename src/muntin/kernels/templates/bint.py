"""B-Int: aggregates of aligned stretches of 1, 2, 4, ... records; a window is put together from a few."""

from muntin.kernels.slots import combine, lift, load, lower, store


def slide(columns, valid, starts, window, out, missing, partials, marks):
    capacity = (
        len(partials) // 2
    )  # level k has capacity >> k stretches, from 2 * (capacity - (capacity >> k)) on
    for i in range(len(out)):
        first = max(0, i - window + 1) if starts is None else starts[i]
        level = 0
        number = i
        total = lift(columns, valid, i)
        store(partials, i & (capacity - 1), total)
        while number & 1 and (number - 1) << level >= first and (capacity >> level) > 1:
            base = 2 * (capacity - (capacity >> level))
            total = combine(load(partials, base + ((number - 1) & ((capacity >> level) - 1))), total)
            level += 1
            number >>= 1
            base = 2 * (capacity - (capacity >> level))
            store(partials, base + (number & ((capacity >> level) - 1)), total)
        p = first
        begun = False
        while p <= i:
            level = 0
            while (p >> level) & 1 == 0 and p + (2 << level) <= i + 1 and (capacity >> level) > 1:
                level += 1
            base = 2 * (capacity - (capacity >> level))
            stretch = load(partials, base + ((p >> level) & ((capacity >> level) - 1)))
            total = combine(total, stretch) if begun else stretch
            begun = True
            p += 1 << level
        lower(total, out, missing, i)
