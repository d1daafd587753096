"""Subtract-on-Evict: one running state; what leaves is taken out by the inverse.

Rounding that inverses leave behind is added up; a state that cannot bear it is computed anew.
"""

from muntin.kernels.slots import (
    combine,
    error_borne,
    error_grown,
    invert_oldest,
    lift,
    lower,
    no_error,
    one,
    present,
)


def slide(columns, valid, starts, window, out, missing, partials, marks):
    total = one
    values = 0  # in the window, nulls aside
    error = no_error
    F = 0
    for i in range(len(out)):
        first = max(0, i - window + 1) if starts is None else starts[i]
        if F < first:
            for j in range(F, first):
                if present(valid, j):
                    values -= 1
                    if values > 0:
                        total = invert_oldest(total, lift(columns, valid, j))
                        error = error_grown(error, total)
            F = first
            if values == 0:
                total = one
                error = no_error
            elif not error_borne(error, total):
                total = lift(columns, valid, F)
                for j in range(F + 1, i):
                    total = combine(total, lift(columns, valid, j))
                error = error_grown(no_error, total)
        if present(valid, i):
            values += 1
            total = combine(total, lift(columns, valid, i))
            error = error_grown(error, total)
        lower(total, out, missing, i)
