"""Records that the decision trees ask to keep, in canonical order, until they are out of reach."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from muntin.slicing.fields import Values
from muntin.slicing.slicer import Stretch
from muntin.slicing.transaction import Transactional

Places = NDArray[np.int64]


def canonical(stretch: Stretch, tie: NDArray[np.generic] | None) -> Places:
    """Return the places of records by key, time, tie and arrival."""
    ties = () if tie is None else (tie,)
    keys = (stretch.codes,) if stretch.keys > 1 else ()
    return np.lexsort((*ties, stretch.times, *keys))


def joined(values: Iterable[Values]) -> Values:
    """Return records one after the other."""
    parts = list(values)
    valid = None
    if any(part.valid is not None for part in parts):
        valid = np.concatenate(
            [np.ones(part.count, bool) if part.valid is None else part.valid for part in parts]
        )
    kinds = parts[0].kinds if all(part.kinds == parts[0].kinds for part in parts) else None
    columns = tuple(np.concatenate(columns) for columns in zip(*(p.columns for p in parts), strict=True))
    return Values(columns, valid, sum(part.count for part in parts), kinds)


def _blank(like: Values, count: int) -> Values:
    """Return values for records from before a field was there: they are never read for it."""
    columns = tuple(np.zeros(count, column.dtype) for column in like.columns)
    return Values(columns, np.zeros(count, bool), count, like.kinds)


class RecordLog(Transactional):
    """Records by key, then in canonical order."""

    def __init__(self, fields: Iterable[int]) -> None:
        self.fields = tuple(fields)
        self.times: Places = np.empty(0, np.int64)
        self.codes: Places = np.empty(0, np.int64)
        self.tie: NDArray[np.generic] | None = None
        self.overdue: NDArray[np.bool_] = np.empty(0, bool)
        self.fresh: NDArray[np.bool_] = np.empty(0, bool)
        self.values: dict[int, Values] = {}

    def __len__(self) -> int:
        return len(self.times)

    def add(self, stretch: Stretch, tie: NDArray[np.generic] | None, *, overdue: bool = False) -> None:
        """Put records in their places, marked as fresh."""
        count, codes = len(stretch), stretch.codes if stretch.keys > 1 else np.zeros(len(stretch), np.int64)
        had = len(self) > 0
        self.times = np.concatenate([self.times, stretch.times])
        self.codes = np.concatenate([self.codes, codes])
        if tie is not None:
            self.tie = tie if self.tie is None or not had else np.concatenate([self.tie, tie])
        self.overdue = np.concatenate([self.overdue, np.full(count, overdue)])
        self.fresh = np.concatenate([self.fresh, np.ones(count, bool)])
        values = {}  # a new dict: who has saved the old one may go back to it
        for number in self.fields:
            new = stretch.values[number]
            old = self.values.get(number) or _blank(new, len(self) - count)
            values[number] = joined([old, new]) if had else new
        self.values = values
        ties = () if self.tie is None else (self.tie,)
        self._take(np.lexsort((*ties, self.times, self.codes)))

    def set_fields(self, fields: Iterable[int]) -> None:
        """Keep the values of these fields from now on."""
        self.fields = tuple(fields)
        self.values = {number: self.values[number] for number in self.fields if number in self.values}

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Let go of all other records."""
        if not kept.all():
            self._take(np.flatnonzero(kept))

    def settle(self) -> None:
        """Forget which records are fresh."""
        self.fresh = np.zeros(len(self), bool)

    def _take(self, at: Places) -> None:
        self.times, self.codes = self.times[at], self.codes[at]
        self.overdue, self.fresh = self.overdue[at], self.fresh[at]
        self.tie = None if self.tie is None else self.tie[at]
        self.values = {number: values.take(at) for number, values in self.values.items()}

    def within(self, code: int, first: int, last: int) -> slice:
        """Return where the records of a key from one time to another lie."""
        begin = int(np.searchsorted(self.codes, code))
        end = int(np.searchsorted(self.codes, code, side="right"))
        times = self.times[begin:end]
        return slice(
            begin + int(np.searchsorted(times, first)),
            begin + int(np.searchsorted(times, last, side="right")),
        )

    def renumber(self, codes: Places) -> None:
        """Give keys other numbers, in the same order: codes[old] is the new one; others must not be there."""
        self.codes = codes[self.codes]

    def replace(self, number: int, values: Values | None) -> None:
        """Hold other values of a field, if it has some."""
        if values is not None:
            self.values = {**self.values, number: values}

    @property
    def nbytes(self) -> int:
        """The bytes of all columns."""
        columns = [c for v in self.values.values() for c in (*v.columns, v.valid)]
        every = [self.times, self.codes, self.tie, self.overdue, self.fresh, *columns]
        return sum(column.nbytes for column in every if column is not None)
