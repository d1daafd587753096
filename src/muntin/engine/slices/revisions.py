"""What of a query was in view and may still change: the difference between two views, and revisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices, Times
from muntin.engine.rows import INSERT, NEVER, NO_BOUND, RETRACT, UPDATE, Rows
from muntin.engine.transaction import Transactional


@dataclass(frozen=True)
class Viewed:
    """Windows of one query in view, with their bounds and the positions that they span."""

    code: Codes
    begin: Indices
    end: Times
    id: Indices
    start: Times
    stop: Times
    measure: tuple[Indices, Indices] | None

    def __len__(self) -> int:
        return len(self.code)

    def take(self, at: Indices | NDArray[np.bool_]) -> Viewed:
        """Return some of the windows."""
        measure = None if self.measure is None else (self.measure[0][at], self.measure[1][at])
        where = (self.code[at], self.begin[at], self.end[at])
        return Viewed(*where, self.id[at], self.start[at], self.stop[at], measure)

    def identity(self, names: tuple[str, ...]) -> list[Indices]:
        """Return the columns that tell windows apart, the key first."""
        columns = {"window_id": self.id, "window_start": self.start, "window_end": self.stop}
        if self.measure is not None:
            columns["measure_start"], columns["measure_end"] = self.measure
        return [self.code, *(columns[name] for name in names)]


class Shifts:
    """Where records were before fresh ones came between them: positions then and now."""

    def __init__(self, codes: Codes, fresh: NDArray[np.bool_], seen: Indices) -> None:
        self._fresh = np.append(0, np.cumsum(fresh))
        self._codes, self._old = codes, ~fresh
        keys = np.arange(len(seen))
        self._begin = np.searchsorted(codes, keys)
        self._size = np.searchsorted(codes, keys, side="right") - self._begin
        self._seen = seen
        self.any = bool(self._fresh[-1])

    def before(self, code: Codes, position: Indices) -> Indices:
        """Return how many fresh records of its key lie before each position."""
        begin = self._begin[code]
        into = np.clip(position - self._seen[code], 0, self._size[code])
        fresh: Indices = self._fresh[begin + into] - self._fresh[begin]
        return fresh

    def codes(self) -> set[int]:
        """Return the keys that fresh records came for."""
        return set(np.unique(self._codes[~self._old]).tolist())

    def now(self, code: int, positions: Indices) -> Indices:
        """Return where the records of a key are that were at positions before the fresh ones came."""
        begin, seen = int(self._begin[code]), int(self._seen[code])
        old = np.flatnonzero(self._old[begin : begin + int(self._size[code])])
        moved, waiting = positions.copy(), positions >= seen
        moved[waiting] = seen + old[positions[waiting] - seen]
        return moved


class Difference(NamedTuple):
    """What leads from one view to another."""

    emitted: NDArray[np.bool_]  # which windows of the new one
    change: NDArray[np.int8]
    was: tuple[Indices, Indices] | None  # their bounds in the old one; None: none was there
    gone: Viewed | None  # windows that are there no more


class View(Transactional):
    """The windows of one query that are in view and may still change, and their revisions."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names  # of the columns that tell windows apart
        self.held: Viewed | None = None
        self.revisions: dict[tuple[int, ...], int] = {}  # those above 0, by key and identity

    def difference(self, now: Viewed, settled: int, shifts: Shifts) -> Difference:
        """Compare with the view before.

        The first `settled` windows can change no more; the others are the view to compare with next.
        """
        old, self.held = self.held, now.take(np.arange(settled, len(now)))
        change = np.full(len(now), INSERT, np.int8)
        emitted = np.ones(len(now), bool)
        if old is None or not len(old):
            return Difference(emitted, change, None, None)
        match = matches(old.identity(self.names), now.identity(self.names))
        at = np.flatnonzero(match >= 0)
        change[at] = UPDATE
        before = shifts.before(now.code[at], now.begin[at])
        within = shifts.before(now.code[at], now.end[at]) - before
        same = (within == 0) & (now.begin[at] - before == old.begin[match[at]])
        same &= now.end[at] - now.begin[at] == old.end[match[at]] - old.begin[match[at]]
        emitted[at[same]] = False
        gone = np.ones(len(old), bool)
        gone[match[at]] = False
        was = (no_bounds(len(now)), no_bounds(len(now)))
        was[0][at], was[1][at] = old.start[match[at]], old.stop[match[at]]
        return Difference(emitted, change, was, old.take(gone) if gone.any() else None)

    def number(self, rows: Viewed, change: NDArray[np.int8]) -> Indices:
        """Return the revision of each row."""
        revision = np.zeros(len(rows), np.int64)
        at = np.arange(len(rows)) if self.revisions else np.flatnonzero(change)
        columns = [column[at].tolist() for column in rows.identity(self.names)]
        for i, *identity in zip(at.tolist(), *columns, strict=True):
            who = tuple(identity)
            revision[i] = self.revisions.get(who, 0 if change[i] else -1) + 1
            if revision[i]:
                self.overwrite_item(self.revisions, who)
                self.revisions[who] = int(revision[i])
        return revision

    def forget(self, settled: Viewed) -> None:
        """Forget revisions of windows that can change no more."""
        if self.revisions:
            columns = [column.tolist() for column in settled.identity(self.names)]
            for who in zip(*columns, strict=True):
                if who in self.revisions:
                    self.overwrite_item(self.revisions, who)
                    del self.revisions[who]

    def held_windows(self) -> set[tuple[int, ...]]:
        """Return the windows in view that may still change, by key and identity."""
        if self.held is None:
            return set()
        return set(zip(*(column.tolist() for column in self.held.identity(self.names)), strict=True))

    def codes(self) -> Indices:
        """Return the keys of windows that are held, or have revisions."""
        held = np.empty(0, np.int64) if self.held is None else self.held.code
        return np.append(held, np.array([who[0] for who in self.revisions], np.int64))

    def renumber(self, codes: Codes) -> None:
        """Give keys other numbers: codes[old] is the new one."""
        if self.held is not None:
            self.held = replace(self.held, code=codes[self.held.code])
        self.revisions = {(int(codes[code]), *rest): r for (code, *rest), r in self.revisions.items()}

    def let_go(self, reach: float) -> None:
        """Forget revisions of windows that are out of reach, where their end tells."""
        if self.names == ("window_end",):
            self.revisions = {who: r for who, r in self.revisions.items() if who[1] >= reach}


def matches(old: list[Indices], new: list[Indices]) -> Indices:
    """Return for each of the new the place of the same one among the old; -1: there is none."""
    columns = [np.concatenate(pair) for pair in zip(old, new, strict=True)]
    order = np.lexsort(columns[::-1])
    same = np.ones(len(order) - 1, bool)
    for column in columns:
        same &= column[order[1:]] == column[order[:-1]]
    first, second = order[:-1][same], order[1:][same]  # stable: the old one comes first
    match = np.full(len(new[0]), -1, np.int64)
    match[second - len(old[0])] = first
    return match


def viewed_rows(
    number: int, viewed: Viewed, low: Indices, high: Indices, change: NDArray[np.int8] | None
) -> Rows:
    """Return windows as rows of a query."""
    query = np.full(len(viewed), number)
    rows = Rows(query, viewed.code, viewed.start, viewed.stop, viewed.id, change, low, high)
    return rows if viewed.measure is None else replace(rows, measure=viewed.measure)


def gone_rows(number: int, gone: Viewed) -> Rows:
    """Return windows that are gone as rows of a query."""
    none = np.zeros(len(gone), np.int64)
    return viewed_rows(number, gone, none, none, np.full(len(gone), RETRACT, np.int8))


def no_numbers(count: int) -> Indices:
    """Return what stands for the number of windows that have none."""
    return np.full(count, NEVER)


def no_bounds(count: int) -> Indices:
    """Return what stands for the bounds of windows that were not there before."""
    return np.full(count, NO_BOUND)
