"""Subtract-on-Evict: one running state; what leaves is taken out by the inverse.

Rounding that inverses leave behind is added up; a state that cannot bear it is computed anew.
"""

from muntin.kernels.slots import combine, error_limit, error_step, invert_oldest, lift, lower, one, present


def slide(columns, valid, starts, window, out, missing, partials, marks):
    total = one
    values = 0  # in the window, nulls aside
    error = 0.0
    F = 0
    for i in range(len(out)):
        first = max(0, i - window + 1) if starts is None else starts[i]
        if F < first:
            for j in range(F, first):
                if present(valid, j):
                    values -= 1
                    if values > 0:
                        total = invert_oldest(total, lift(columns, valid, j))
                        error += error_step(total)
            F = first
            if values == 0:
                total = one
                error = 0.0
            elif not error <= error_limit(total):
                total = lift(columns, valid, F)
                for j in range(F + 1, i):
                    total = combine(total, lift(columns, valid, j))
                error = 0.0 * error_step(total)  # NaN again while what is not finite is in the window
        if present(valid, i):
            values += 1
            total = combine(total, lift(columns, valid, i))
            error += error_step(total)
        lower(total, out, missing, i)
