"""Rows: windows to be emitted, before and after their aggregates are known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.slicing import loops
from muntin.slicing.fields import Answers

Places = NDArray[np.int64]
INSERT, UPDATE, RETRACT = 0, 1, 2
FOREVER = 2**63 - 1  # a watermark past all
NO_BOUND = -(2**63)  # stands for a measure, or bounds before, of a window that has none


def filled(count: int, value: int) -> Places:
    """Return an array of one value; for a few, in a quarter of the time that numpy.full takes."""
    out = np.empty(count, np.int64)
    out.fill(value)
    return out


@dataclass
class Rows:
    """Windows to be emitted, those of one query together: where their slices lie, by key and time.

    An empty range: a window without records, or one that is gone.
    """

    query: Places  # by number
    code: Places
    start: Places
    end: Places
    id: Places | None
    change: NDArray[np.int8] | None  # None: all are new
    low: Places
    high: Places
    by_place: bool = False  # ranges are single cells, by their place in the store
    by_end: bool = False  # by end instead: those of one query are not together
    revision: Places | None = None  # None: the window manager numbers them
    measure: tuple[Places, Places] | None = None  # bounds by another measure than time
    was: tuple[Places, Places] | None = None  # bounds before this call, where they may have been others

    def __len__(self) -> int:
        return len(self.code)

    def take(self, at: Places) -> Rows:
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


def _bounds(parts: list[tuple[tuple[Places, Places] | None, int]]) -> tuple[Places, Places] | None:
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


def queries_of(query: Places) -> frozenset[int]:
    """Return the queries of rows."""
    if len(query) <= 32:
        return frozenset(query.tolist())
    return frozenset(np.bincount(query).nonzero()[0].tolist())


@dataclass
class Emission:
    """Rows of all queries with their aggregates, not yet in order."""

    query: list[Places] = field(default_factory=list)
    code: list[Places] = field(default_factory=list)
    start: list[Places] = field(default_factory=list)
    end: list[Places] = field(default_factory=list)
    id: list[Places | None] = field(default_factory=list)  # None: no numbers
    change: list[NDArray[np.int8] | None] = field(default_factory=list)  # None: all are new
    revision: list[Places | None] = field(default_factory=list)  # None: all are 0
    measure: list[tuple[Places, Places] | None] = field(default_factory=list)  # None: none has one
    was: list[tuple[Places, Places] | None] = field(default_factory=list)  # None: not known of any
    # By output column: which rows (from, how many) have which answers of which aggregate; None: empty.
    answers: dict[str, list[tuple[Places, Answers | None, Aggregate]]] = field(default_factory=dict)
    count: int = 0
