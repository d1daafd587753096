"""Cells by key, then time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices, Times


class Ordered:
    """Cells by key, then time; `places` says where they lie in the store, None: just so.

    Columns are gathered when they are first asked for, which must be before the store changes.
    """

    def __init__(self, column: Callable[[str], Indices], places: Indices | None, count: int) -> None:
        self.places = places
        self._column = column
        self._count = count

    @cached_property
    def base(self) -> int | None:
        """Where the first cell starts, if all are of one key, and starts are one apart; else None."""
        if not self._count or self.code[0] != self.code[-1]:
            return None
        first, last = int(self.start[0]), int(self.start[-1])
        return first if last - first == self._count - 1 else None

    def __len__(self) -> int:
        return self._count

    def _gathered(self, name: str) -> Indices:
        column = self._column(name)
        return column if self.places is None else column[self.places]

    @cached_property
    def code(self) -> Indices:
        """The keys."""
        return self._gathered("code")

    @cached_property
    def start(self) -> Indices:
        """Where slices start."""
        return self._gathered("start")

    @cached_property
    def first(self) -> Indices:
        """The times of the first records."""
        return self._gathered("first")

    @cached_property
    def last(self) -> Indices:
        """The times of the last records."""
        return self._gathered("last")

    @cached_property
    def rows(self) -> Indices:
        """How many records there are."""
        return self._gathered("rows")

    @cached_property
    def fresh(self) -> Indices:
        """How many of them are fresh."""
        return self._gathered("fresh")

    def runs_of(self, chosen: NDArray[np.bool_], code: int | None) -> tuple[Indices, Indices] | None:
        """Return the ranges of neighbouring cells that are chosen, of all keys or of one; None: none is."""
        if code is not None:
            chosen = chosen & (self.code == code)
        at = np.flatnonzero(chosen)
        if not len(at):
            return None
        apart = np.diff(at) + np.diff(self.code[at]) != 1
        return at[np.append(True, apart)], at[np.append(apart, True)] + 1

    def key_starts(self) -> Indices:
        """Return for each cell where the cells of its key begin."""
        count = len(self.code)
        if count == 0 or self.code[0] == self.code[-1]:
            return np.zeros(count, np.int64)
        begins = np.append(0, np.flatnonzero(self.code[1:] != self.code[:-1]) + 1)
        return np.repeat(begins, np.diff(np.append(begins, count)))


def search(ordered: Ordered, code: Codes, start: Times) -> Indices:
    """Return the first cell of a key at or past a start."""
    if len(ordered) and ordered.code[0] == ordered.code[-1] and (code == ordered.code[0]).all():
        return np.searchsorted(ordered.start, start)
    begins, ends = (np.searchsorted(ordered.code, code, side=side) for side in ("left", "right"))
    out = np.empty(len(code), np.int64)
    for i, (begin, stop) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        out[i] = begin + np.searchsorted(ordered.start[begin:stop], start[i])
    return out


class RecordColumns(dict[str, Indices]):
    """The columns of cells of one record each, of the only key: made when they are first asked for."""

    def __init__(self, start: int, times: Times) -> None:
        times.flags.writeable = False  # they are shared: whoever changes columns makes them anew, with room
        super().__init__(first=times)
        self.start = start  # of the first one

    def __missing__(self, name: str) -> Indices:
        count, times = len(self["first"]), self["first"]
        made: dict[str, Callable[[], Indices]] = {
            "code": lambda: np.zeros(count, np.int64),
            "start": lambda: np.arange(self.start, self.start + count),
            "last": lambda: times,
            "rows": lambda: np.ones(count, np.int64),
            "fresh": lambda: np.zeros(count, np.int64),
            "older": lambda: np.arange(-1, count - 1),
        }
        column = self[name] = made[name]()
        return column

    def since(self, place: int) -> RecordColumns:
        """Return the columns from a cell on."""
        return RecordColumns(self.start + place, self["first"][place:].copy())
