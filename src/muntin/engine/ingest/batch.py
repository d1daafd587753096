"""Records on their way into slices: what fields read, and a stretch of records with times and keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Kinds
from muntin.columnar import Codes, Indices, Times


@dataclass(frozen=True)
class Values:
    """The columns that a field reads, for some records: numbers, or lists of objects."""

    columns: tuple[Any, ...]
    valid: NDArray[np.bool_] | None
    count: int
    kinds: Kinds | None  # None: objects

    def part(self, which: slice) -> Values:
        """Return neighbouring records, without a copy."""
        valid = None if self.valid is None else self.valid[which]
        columns = tuple(column[which] for column in self.columns)
        start, stop, _ = which.indices(self.count)
        return Values(columns, valid, stop - start, self.kinds)

    def take(self, at: Indices | NDArray[np.bool_]) -> Values:
        """Return some of the records."""
        valid = None if self.valid is None else self.valid[at]
        columns = tuple(column[at] for column in self.columns)
        count = int(np.count_nonzero(at)) if at.dtype == bool else len(at)
        return Values(columns, valid, count, self.kinds)


@dataclass(frozen=True)
class Stretch:
    """Records of a batch that are handled together: times, keys, and the values that each field reads."""

    times: Times
    codes: Codes
    keys: int  # codes are below this
    values: Mapping[int, Values]
    disordered: bool  # whether a time is less than one before it
    low: int
    high: int

    def __len__(self) -> int:
        return len(self.times)

    def take(self, at: Indices) -> Stretch:
        """Return some of the records, in this order."""
        times = self.times[at]
        running = np.maximum.accumulate(times)
        return Stretch(
            times,
            self.codes[at] if self.keys > 1 else self.codes,
            self.keys,
            {number: values.take(at) for number, values in self.values.items()},
            bool((times < running).any()),
            int(times.min()),
            int(times.max()),
        )
