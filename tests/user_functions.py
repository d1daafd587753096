"""Discretizers as a user of `user_window` writes them: (state, t, row) -> (state, begins, ends).

Each is plain enough to be compiled. `begins` windows begin with this record, `ends` of the oldest open ones
end before it. `row` has the columns named beside the function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Discretizer(NamedTuple):
    """A function, its first state and the columns that it reads."""

    function: Callable[[Any, int, Any], tuple[Any, int, int]]
    state: Any
    columns: tuple[str, ...]


def tumbling_ten(state: int, t: int, row: Any) -> tuple[int, int, int]:
    """Windows of ten time units; the state is the window that is open, or a number below all of them."""
    here = t // 10
    if here == state:
        return state, 0, 0
    return here, 1, 0 if state < -(2**61) else 1


def five_by_two(state: int, t: int, row: Any) -> tuple[int, int, int]:
    """Five records, every two: the state counts the records so far."""
    begins = 1 if state % 2 == 0 else 0
    ends = 1 if state >= 5 and (state - 5) % 2 == 0 else 0
    return state + 1, begins, ends


def twos_and_threes(state: tuple[int, int], t: int, row: Any) -> tuple[tuple[int, int], int, int]:
    """Every third record begins two windows; each fifth ends up to three of those that are open."""
    count, opened = state
    ends = min(opened, 3) if count % 5 == 4 else 0
    begins = 2 if count % 3 == 0 else 0
    return (count + 1, opened - ends + begins), begins, ends


def falls(state: tuple[int, int], t: int, row: Any) -> tuple[tuple[int, int], int, int]:
    """A window begins where `w` falls; where it rises, the oldest open one ends. `w` must not be null."""
    last, opened = state
    ends = 1 if row.w > last and opened > 0 else 0
    begins = 1 if row.w < last else 0
    return (row.w, opened - ends + begins), begins, ends


DISCRETIZERS = {
    "tumbling_ten": Discretizer(tumbling_ten, -(2**62), ()),
    "five_by_two": Discretizer(five_by_two, 0, ()),
    "twos_and_threes": Discretizer(twos_and_threes, (0, 0), ()),
    "falls": Discretizer(falls, (0, 0), ("w",)),
}
