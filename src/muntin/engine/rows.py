"""Rows: windows to be emitted, before and after their aggregates are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.columnar import Codes, Indices, Times
from muntin.engine import loops


@dataclass(frozen=True)
class Answers:
    """A column of answers: numbers, records of numbers (structs), or objects where `data` is a list.

    A number of a record that may be null has a flag beside it, under its name behind `NO`.
    """

    data: Any
    missing: NDArray[np.bool_] | None


NO = "no "


def struct_of(record: Any) -> dict[str, Any]:
    """Return a record of numbers as a struct, None where one is null."""
    values = dict(zip(record.dtype.names, record.item(), strict=True))
    return {name: None if values.get(NO + name) else v for name, v in values.items() if NO not in name}


NEVER = -(2**62)  # before all times
INSERT, UPDATE, RETRACT = 0, 1, 2
FOREVER = 2**63 - 1  # a watermark past all
NO_BOUND = -(2**63)  # stands for a measure, or bounds before, of a window that has none


def filled(count: int, value: int) -> Indices:
    """Return an array of one value; for a few, in a quarter of the time that numpy.full takes."""
    out = np.empty(count, np.int64)
    out.fill(value)
    return out


@dataclass
class Rows:
    """Windows to be emitted, those of one query together: where their slices lie, by key and time.

    An empty range: a window without records, or one that is gone.
    """

    query: Indices  # by number
    code: Codes
    start: Times
    end: Times
    id: Indices | None
    change: NDArray[np.int8] | None  # None: all are new
    low: Indices
    high: Indices
    by_place: bool = False  # ranges are single cells, by their place in the store
    by_end: bool = False  # by end instead: those of one query are not together
    revision: Indices | None = None  # None: the window manager numbers them
    measure: tuple[Indices, Indices] | None = None  # bounds by another measure than time
    was: tuple[Indices, Indices] | None = None  # bounds before this call, where they may have been others

    def __len__(self) -> int:
        return len(self.code)

    def take(self, at: Indices) -> Rows:
        """Return some of the rows."""
        id_ = None if self.id is None else self.id[at]
        change = None if self.change is None else self.change[at]
        columns = (self.query[at], self.code[at], self.start[at], self.end[at])
        rows = Rows(*columns, id_, change, self.low[at], self.high[at], self.by_place, self.by_end)
        rows.revision = None if self.revision is None else self.revision[at]
        rows.measure = None if self.measure is None else (self.measure[0][at], self.measure[1][at])
        rows.was = None if self.was is None else (self.was[0][at], self.was[1][at])
        return rows


def _changes(rows: Rows) -> NDArray[np.int8]:
    return np.zeros(len(rows), np.int8) if rows.change is None else rows.change


def joined(groups: list[Rows]) -> Rows:
    """Return the rows of several groups, by query: within one, ranges of slices go forward."""
    change = [_changes(r) for r in groups]
    rows = Rows(
        np.concatenate([r.query for r in groups]),
        np.concatenate([r.code for r in groups]),
        np.concatenate([r.start for r in groups]),
        np.concatenate([r.end for r in groups]),
        None if groups[0].id is None else np.concatenate([r.id for r in groups if r.id is not None]),
        np.concatenate(change),
        np.concatenate([r.low for r in groups]),
        np.concatenate([r.high for r in groups]),
    )
    if any(r.revision is not None for r in groups):
        each = (np.zeros(len(r), np.int64) if r.revision is None else r.revision for r in groups)
        rows.revision = np.concatenate(list(each))
    rows.measure = _bounds([(r.measure, len(r)) for r in groups])
    rows.was = _bounds([(r.was, len(r)) for r in groups])
    if (rows.query[1:] >= rows.query[:-1]).all():
        return rows
    return rows.take(np.lexsort((rows.high, rows.low, rows.query)))


def _bounds(parts: list[tuple[tuple[Indices, Indices] | None, int]]) -> tuple[Indices, Indices] | None:
    """Return the bounds of groups of rows, with how many each has, end to end; None: none has some."""
    if all(bounds is None for bounds, _ in parts):
        return None
    low, high = (
        np.concatenate(
            [filled(count, NO_BOUND) if bounds is None else bounds[side] for bounds, count in parts]
        )
        for side in (0, 1)
    )
    return low, high


def grouped(rows: Rows) -> Rows:
    """Return rows by query, those of one query in the order they have."""
    order = np.empty(len(rows), np.int64)
    loops.run("group", rows.query, np.bincount(rows.query), order)
    rows = rows.take(order)
    rows.by_end = False
    return rows


def with_retractions(rows: Rows, number: int, gone: list[tuple[int, int, int]]) -> Rows:
    """Return rows followed by windows of a query that are gone: key, start and end of each."""
    code, start, end_ = (np.array(column, np.int64) for column in zip(*gone, strict=True))
    none = np.zeros(len(gone), np.int64)
    return Rows(
        np.append(rows.query, np.full(len(gone), number)),
        np.append(rows.code, code),
        np.append(rows.start, start),
        np.append(rows.end, end_),
        None,
        np.append(_changes(rows), np.full(len(gone), RETRACT, np.int8)),
        np.append(rows.low, none),
        np.append(rows.high, none),
    )


def queries_of(query: Indices) -> frozenset[int]:
    """Return the queries of rows."""
    if len(query) <= 32:
        return frozenset(query.tolist())
    return frozenset(np.bincount(query).nonzero()[0].tolist())


@dataclass
class Emission:
    """Rows of all queries with their aggregates, not yet in order."""

    query: list[Indices] = field(default_factory=list)
    code: list[Indices] = field(default_factory=list)
    start: list[Indices] = field(default_factory=list)
    end: list[Indices] = field(default_factory=list)
    id: list[Indices | None] = field(default_factory=list)  # None: no numbers
    change: list[NDArray[np.int8] | None] = field(default_factory=list)  # None: all are new
    revision: list[Indices | None] = field(default_factory=list)  # None: all are 0
    measure: list[tuple[Indices, Indices] | None] = field(default_factory=list)  # None: none has one
    was: list[tuple[Indices, Indices] | None] = field(default_factory=list)  # None: not known of any
    # By output column: which rows (from, how many) have which answers of which aggregate; None: empty.
    answers: dict[str, list[tuple[Indices, Answers | None, Aggregate]]] = field(default_factory=dict)
    final: NDArray[np.bool_] | None = None  # of all rows; None: all are
    final_before: NDArray[np.bool_] | None = None  # of the row of the same window before each of them
    count: int = 0


def concatenated(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return arrays end to end."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def filled_in(parts: Sequence[NDArray[Any] | None], sizes: Sequence[NDArray[Any]], fill: int) -> Any:
    """Return arrays end to end, with a constant where there is none; None if there is none at all."""
    if (len(parts) == 1 and parts[0] is None) or all(part is None for part in parts):
        return None
    pairs = zip(parts, sizes, strict=True)
    return concatenated([np.full(len(size), fill) if part is None else part for part, size in pairs])
