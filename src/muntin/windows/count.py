"""Count windows: so many records of a key, by their position in canonical order."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from muntin.windows.base import Window
from muntin.windows.durations import LIMIT, Clock
from muntin.windows.grid import Grid, SlidingGrid


class _CountWindow(Window):
    """What the windows by count share: they are a grid over positions."""

    family = "count"
    by_count = True
    context = "forward context free"

    def identity(self) -> tuple[str, ...]:
        """Return what tells a window apart."""
        return ("window_id",)


@dataclass(frozen=True, repr=False)
class CountTumbling(_CountWindow):
    """Positions [k * n, (k + 1) * n)."""

    n: int
    kind = "count_tumbling"

    def resolved(self, clock: Clock) -> Grid:
        """Return the grid of positions."""
        del clock
        return SlidingGrid(self.n, self.n, 0)

    def parameters(self) -> dict[str, Any]:
        """Return n."""
        return {"n": self.n}


@dataclass(frozen=True, repr=False)
class CountSliding(_CountWindow):
    """Positions [k * every, k * every + n)."""

    n: int
    every: int
    kind = "count_sliding"

    def resolved(self, clock: Clock) -> Grid:
        """Return the grid of positions."""
        del clock
        return SlidingGrid(self.n, self.every, 0)

    def parameters(self) -> dict[str, Any]:
        """Return n and every."""
        return {"n": self.n, "every": self.every}


def count_tumbling(n: int) -> Window:
    """Each `n` records of a key; only full windows come out.

    >>> count_tumbling(100)
    count_tumbling(100)
    """
    return CountTumbling(record_count(n, "n"))


def count_sliding(n: int, every: int) -> Window:
    """The last `n` records of a key, at each `every` records; only full windows come out.

    >>> count_sliding(1000, every=10)
    count_sliding(1000, every=10)
    """
    return CountSliding(record_count(n, "n"), record_count(every, "every"))


def record_count(value: Any, what: str) -> int:
    """Return a number of records; refuse anything else."""
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise TypeError(f"{what} is a whole number of records, not {value!r}.")
    number = operator.index(value)
    if number <= 0:
        raise ValueError(f"{what} must be above zero, not {value!r}.")
    if number >= LIMIT:
        raise ValueError(f"{what} must be less than 2^62 records.")
    return number
