"""Frames that end with the record that makes their aggregate reach a bound."""

from muntin.kernels.slots import combine, lift, load, lower, store

ENTRIES = ("reach_runs",)


def reach_runs(
    columns, valid, opens, bound, codes, bounds, base, begins, states, answer, missing, marks, windows
):
    """Write frames: from a record that may open one, strictly left to right, to one that reaches the bound.

    Runs, positions and marks are as in the other loops over a key's records; states[k] is that of the frame
    which a key has open from begins[k] on.
    """
    count = 0
    for r in range(len(codes)):
        k = codes[r]
        begin = begins[k]
        state = load(states, k)
        for i in range(bounds[r], bounds[r + 1]):
            if begin >= 0:
                state = combine(state, lift(columns, valid, i))
            elif opens[i]:
                begin = i + base[r]
                state = lift(columns, valid, i)
                marks[i] = 1
            else:
                continue
            lower(state, answer, missing, 0)
            if missing[0]:
                missing[0] = False
            elif answer[0] >= bound:
                windows[0, count] = k
                windows[1, count] = begin
                windows[2, count] = i + 1 + base[r]
                count += 1
                begin = -1
                if i + 1 < bounds[r + 1]:
                    marks[i + 1] = 1
        begins[k] = begin
        store(states, k, state)
    return count
