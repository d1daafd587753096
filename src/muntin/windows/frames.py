"""Frames: runs of records that values mark off."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from muntin.algebra.aggregate import Aggregate
from muntin.windows.base import Inputs, PositionWindow, Window, column_name
from muntin.windows.count import record_count
from muntin.windows.durations import Clock

OPERATORS = (">", ">=", "<", "<=", "==", "!=")


class _Frame(PositionWindow):
    """What frames share: they are the same by any clock."""

    def resolved(self, clock: Clock) -> Any:
        """Return the frame: it is a rule by itself."""
        del clock
        return self


@dataclass(frozen=True, repr=False)
class ThresholdFrame(_Frame):
    """Maximal runs for which a comparison holds."""

    value: str
    op: str
    bound: Any
    min_records: int
    kind = "threshold_frame"

    def inputs(self) -> Inputs:
        """Return the column that is compared."""
        return ((self.value, "any"),)

    def parameters(self) -> dict[str, Any]:
        """Return all that was given."""
        return {"value": self.value, "op": self.op, "bound": self.bound, "min_records": self.min_records}

    def __repr__(self) -> str:
        least = f", min_records={self.min_records}" if self.min_records > 1 else ""
        return f"threshold_frame({self.value!r}, {self.op!r}, {self.bound!r}{least})"


@dataclass(frozen=True, repr=False)
class DeltaFrame(_Frame):
    """Runs whose values stay close to the first."""

    value: str
    by: float
    kind = "delta_frame"

    def inputs(self) -> Inputs:
        """Return the column that is compared."""
        return ((self.value, "number"),)

    def parameters(self) -> dict[str, Any]:
        """Return value and by."""
        return {"value": self.value, "by": self.by}


@dataclass(frozen=True, repr=False)
class AggregateFrame(_Frame):
    """Runs up to the record that makes their aggregate reach a bound."""

    aggregate: Aggregate
    reaches: Any
    kind = "aggregate_frame"

    def inputs(self) -> Inputs:
        """Return the columns of the aggregate."""
        return tuple((name, "any") for name in self.aggregate.columns)

    def parameters(self) -> dict[str, Any]:
        """Return aggregate and reaches."""
        return {"aggregate": self.aggregate, "reaches": self.reaches}


@dataclass(frozen=True, repr=False)
class StateWindow(_Frame):
    """Maximal runs with the same value."""

    value: str
    kind = "state_window"

    def inputs(self) -> Inputs:
        """Return the column whose values are compared."""
        return ((self.value, "any"),)

    def parameters(self) -> dict[str, Any]:
        """Return the column."""
        return {"value": self.value}


def plain_number(value: Any) -> Any:
    """Return a number of NumPy as Python's own, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def threshold_frame(value: str, op: str, bound: Any, min_records: int = 1) -> Window:
    """Runs of records, of at least `min_records`, whose value compares with the bound as `op` says.

    >>> threshold_frame("temp", ">", 80, min_records=3)
    threshold_frame('temp', '>', 80, min_records=3)
    """
    if op not in OPERATORS:
        raise ValueError(f"op is one of {', '.join(map(repr, OPERATORS))}, not {op!r}.")
    if bound is None or bound != bound:
        raise ValueError(f"the bound is a value to compare with, not {bound!r}.")
    bound = plain_number(bound)
    return ThresholdFrame(column_name(value, "value"), op, bound, record_count(min_records, "min_records"))


def delta_frame(value: str, by: float) -> Window:
    """Runs of records; the next one starts when a value differs from the run's first by more than `by`.

    >>> delta_frame("pos", by=5.0)
    delta_frame('pos', by=5.0)
    """
    by = plain_number(by)
    if isinstance(by, bool) or not isinstance(by, (int, float)) or math.isnan(by) or by < 0:
        raise ValueError(f"by is a number, zero or above, not {by!r}.")
    return DeltaFrame(column_name(value, "value"), by)


def aggregate_frame(aggregate: Aggregate, reaches: Any) -> Window:
    """Runs of records, each up to the one that makes the aggregate over the run reach a bound.

    >>> import muntin as mt
    >>> aggregate_frame(mt.sum("volume"), reaches=1e6)
    aggregate_frame(sum('volume'), reaches=1000000.0)
    """
    if not isinstance(aggregate, Aggregate):
        raise TypeError(f"aggregate_frame() takes an aggregate such as mt.sum('v'), not {aggregate!r}.")
    if not aggregate.columns and aggregate.skips_nulls:
        raise ValueError(f"{aggregate!r} does not say which column it is over.")
    if aggregate.gives_many:
        raise TypeError(
            f"aggregate_frame() compares answers with a number, but those of {aggregate!r} are no numbers."
        )
    if aggregate.timed:
        raise TypeError(f"aggregate_frame() takes an aggregate without times, but {aggregate!r} reads times.")
    reaches = plain_number(reaches)
    if isinstance(reaches, bool) or not isinstance(reaches, (int, float)) or math.isnan(reaches):
        raise ValueError(f"reaches is a number, not {reaches!r}.")
    return AggregateFrame(aggregate, reaches)


def state_window(value: str) -> Window:
    """Runs of records with the same value in a column; null is a value, too.

    >>> state_window("status")
    state_window('status')
    """
    return StateWindow(column_name(value, "value"))
