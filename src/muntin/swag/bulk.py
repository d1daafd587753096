"""A whole column through a sliding window at once: the answer after each record, as an array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate, RowAggregate
from muntin.swag.columns import Columns, as_answers, as_columns, as_records, as_times, masked


@dataclass(frozen=True)
class Bulk:
    """Which template runs an algorithm over a column, and how much room it needs per record of the window."""

    template: str
    partials: int = 1
    marks: int = 0
    inverting: bool = False
    rows: str | None = None  # the by-reference template, and how many rows beside the ring it takes
    extra_rows: int = 0


Answers = Callable[[list[Any], "Bounds"], list[Any]]


@dataclass(frozen=True)
class Bounds:
    """Which records are in each window: the last `window`, or those from `starts` on."""

    window: int
    starts: NDArray[np.int64] | None
    largest: int

    def first(self, i: int) -> int:
        """Return the oldest record in the window of record i."""
        return max(0, i - self.window + 1) if self.starts is None else int(self.starts[i])


def bounds(count: int, window: Any, times: Any, length: Any) -> Bounds:
    """Read the two ways of giving a window: a number of records, or a stretch of time."""
    if (window is None) == (times is None) or (times is None) != (length is None):
        raise TypeError(
            "give either window= (a number of records) or times= and length= (a stretch of time)."
        )
    if times is None:
        if not isinstance(window, (int, np.integer)) or isinstance(window, bool):
            raise TypeError(f"window is a whole number of records, not {window!r}.")
        if window < 1:
            raise ValueError(f"window must be at least 1 record, not {window}.")
        fitting = max(1, min(int(window), count))
        return Bounds(fitting, None, fitting)
    column, ticks = as_times(times, length)
    if len(column) != count:
        raise ValueError(f"there are {count} values but {len(column)} times.")
    if count == 0:
        return Bounds(0, np.empty(0, np.int64), 0)
    from muntin.swag.bounds import time_bounds

    starts, largest = time_bounds(column, ticks)
    return Bounds(0, starts, largest)


def run(
    bulk: Bulk, aggregate: Aggregate, values: Any, window: Any, times: Any, length: Any, objects: Answers
) -> NDArray[Any]:
    """Slide over the values: compiled where values and state are numbers, else with `objects`."""
    from muntin.kernels import NotCompilableError

    columns = as_columns(values, aggregate.arity)
    if columns is not None:
        limits = bounds(len(columns.arrays[0]), window, times, length)
        if not len(columns.arrays[0]):
            return np.empty(0)
        try:
            return _compiled(bulk, aggregate, columns, limits)
        except NotCompilableError:
            pass  # a state of any other kind: same answers, one record at a time
        except OverflowError:
            if aggregate.fuses:
                raise
            # A user's integers outgrew 64 bits: Python's do not.
    records = as_records(values, aggregate.arity)
    limits = bounds(len(records), window, times, length)
    return as_answers(objects(records, limits))


def _compiled(bulk: Bulk, aggregate: Aggregate, columns: Columns, limits: Bounds) -> NDArray[Any]:
    from muntin.kernels import NotCompilableError, instantiate, instantiate_rows

    count = len(columns.arrays[0])
    capacity = 1 << (limits.largest - 1).bit_length()  # a power of two, so that positions can be masked
    nullable = columns.valid is not None and aggregate.skips_nulls
    if aggregate.in_place:
        if bulk.rows is None or nullable:
            raise NotCompilableError("no kernel by reference")
        by_rows = cast(RowAggregate, aggregate)
        kernel = instantiate_rows(bulk.rows, by_rows, columns.kinds)
        partials = np.zeros((capacity + bulk.extra_rows, by_rows.width), by_rows.dtype)
    else:
        algebra = aggregate.algebra(columns.kinds, inverting=bulk.inverting)
        kernel = instantiate(bulk.template, algebra, columns.kinds, nullable=nullable, empty=aggregate.empty)
        partials = kernel.layout.allocate(bulk.partials * capacity)
    out = np.empty(count, kernel.result)
    missing = np.zeros(count if kernel.misses else 0, bool)
    valid = columns.valid if columns.valid is not None else np.empty(0, bool)
    marks = np.empty(bulk.marks * capacity, np.int64)
    kernel(columns.arrays, valid, limits.starts, limits.window, out, missing, partials, marks)
    return masked(out, missing) if kernel.misses else out
