"""Recalculate: each window from scratch, the yardstick of all others."""

from muntin.kernels.slots import combine, lift, lower


def slide(columns, valid, starts, window, out, missing, partials, marks):
    for i in range(len(out)):
        first = max(0, i - window + 1) if starts is None else starts[i]
        total = lift(columns, valid, first)
        for j in range(first + 1, i + 1):
            total = combine(total, lift(columns, valid, j))
        lower(total, out, missing, i)
