"""The window manager: which windows come into view or change, and their aggregates from slices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.algebra.builtin import BuiltIn
from muntin.slicing import folds, loops
from muntin.slicing.edges import NEVER, LookUp
from muntin.slicing.fields import Answers, CompiledField, ObjectField, States, finish
from muntin.slicing.plan import Plan, PlannedQuery
from muntin.slicing.slice_manager import SliceManager, session_ranges
from muntin.slicing.store import AggregateStore, Ordered
from muntin.windows.grid import Grid, end, last_ended

Places = NDArray[np.int64]
Store = Literal["auto", "lazy", "eager", "sliding"]
How = Literal["each", "prefix", "slide", "tree"]
_FEW = 16  # up to so many queries, stacks for each take fewer combines than trees for all
INSERT, UPDATE, RETRACT = 0, 1, 2
FOREVER = 2**63 - 1  # a watermark past all


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

    def __len__(self) -> int:
        return len(self.code)

    def take(self, at: Places) -> Rows:
        """Return some of the rows."""
        id_ = None if self.id is None else self.id[at]
        change = None if self.change is None else self.change[at]
        columns = (self.query[at], self.code[at], self.start[at], self.end[at])
        return Rows(*columns, id_, change, self.low[at], self.high[at])


@dataclass
class Emission:
    """Rows of all queries with their aggregates, not yet in order."""

    query: list[Places] = field(default_factory=list)
    code: list[Places] = field(default_factory=list)
    start: list[Places] = field(default_factory=list)
    end: list[Places] = field(default_factory=list)
    id: list[Places] = field(default_factory=list)
    change: list[NDArray[np.int8]] = field(default_factory=list)
    revision: list[Places] = field(default_factory=list)
    # By output column: which rows (from, how many) have which answers of which aggregate; None: empty.
    answers: dict[str, list[tuple[Places, Answers | None, Aggregate]]] = field(default_factory=dict)
    count: int = 0


class WindowManager:
    """Follows the watermark; turns slices into rows."""

    def __init__(self, plan: Plan, slices: SliceManager, lateness: int, store: Store) -> None:
        self.plan = plan
        self.slices = slices
        self.lateness = lateness
        self.store = store
        self.final_combines = 0
        self.windows_emitted = 0
        # Revisions above 0, by query, key and window, until the window is out of reach.
        self.revisions: dict[tuple[int, ...], int] = {}
        self.previous: dict[tuple[int, int], tuple[Any, ...]] = {}  # for emit="on_change"
        self.spans: dict[int, Spans] = {}  # for emit_empty, by query
        self._next_end = NEVER  # before this, no window on a grid ends
        self._next_sessions: dict[int, int] = {}  # up to this, no session of a query comes into view
        self.adapt()

    def adapt(self) -> None:
        """Follow a change of the queries."""
        self._next_end = NEVER if self.plan.of_family("grid") else FOREVER
        self._next_sessions = {planned.number: NEVER for planned in self.plan.of_family("session")}

    def quiet_until(self, watermark: int) -> bool:
        """Tell whether no window can come into view up to a watermark, nor one that is empty."""
        if self.spans or watermark >= self._next_end:
            return False
        return all(watermark <= end for end in self._next_sessions.values())

    def saved(self) -> dict[str, Any]:
        """Return a copy of what a call may change."""
        return {
            "revisions": dict(self.revisions),
            "previous": dict(self.previous),
            "spans": {number: spans.copy() for number, spans in self.spans.items()},
            "final_combines": self.final_combines,
            "windows_emitted": self.windows_emitted,
            "_next_end": NEVER,
            "_next_sessions": dict.fromkeys(self._next_sessions, NEVER),
        }

    def go_back(self, saved: dict[str, Any]) -> None:
        """Be as when this was saved."""
        vars(self).update(saved)

    # ---- windows on a grid ----

    def grid_rows(self, before: int, after: int, frozen: int, freezing: int | None, late: bool) -> list[Rows]:
        """Return windows that came into view, or (with `late`) are in view and changed.

        Only those that freeze after `frozen` and, unless it is None, no later than at `freezing`.
        """
        store = self.slices.grid
        if store is None or not store.count:
            return []
        seen = before if not late else frozen - self.lateness
        shown = after if freezing is None else min(after, freezing - self.lateness)
        if not late and shown < self._next_end:
            return []
        ordered = store.ordered()
        found = self._windows_between(ordered, seen, shown)
        if freezing is None:
            self._next_end = min(_next_end(p.window, after) for p in self.plan.of_family("grid"))
        if late:
            found = [self._changed(ordered, rows, before) for rows in found]
        found = [rows for rows in found if len(rows)]
        for number, spans in self.spans.items():
            for rows in found:
                spans.fill(rows, number)
        return found

    def _windows_between(self, ordered: Ordered, seen: int, shown: int) -> list[Rows]:
        """Return the windows with records that end after `seen`, and at `shown` or before."""
        queries = self.plan.of_family("grid")
        longest = max(planned.window.length for planned in queries)
        low, high = int(ordered.start.min()), int(ordered.start.max())
        seen, shown = max(seen, low), min(shown, high + longest)
        if shown <= seen:
            return []
        ranges = []
        for planned in queries:
            first = last_ended(planned.window, seen) + 1
            if planned.origin is not None:
                first = max(first, planned.window.high(planned.origin) + 1)
            ranges.append((planned, first, last_ended(planned.window, shown)))
        ranges = [(planned, first, last) for planned, first, last in ranges if first <= last]
        if not ranges:
            return []
        one_key = ordered.code[0] == ordered.code[-1]
        dense = [r for r in ranges if one_key and r[2] - r[1] < len(ordered) + 64]
        found = _listed_windows(ordered, dense) if dense else []
        ends = ordered.key_ends() if len(dense) < len(ranges) else None
        for planned, first, last in ranges:
            if ends is not None and (planned, first, last) not in dense:
                found.append(_found_windows(planned, ordered, ends, first, last))
        return found

    def _changed(self, ordered: Ordered, rows: Rows, before: int) -> Rows:
        """Return windows that are new in view or have fresh records, saying which."""
        fresh = np.append(0, np.cumsum(ordered.fresh))
        records = np.append(0, np.cumsum(ordered.rows))
        new = fresh[rows.high] - fresh[rows.low]
        viewed = rows.end <= before
        had = (records[rows.high] - records[rows.low] > new) & viewed
        for number, spans in self.spans.items():
            had |= (rows.query == number) & viewed & spans.held(rows.code, rows.start, rows.end)
        rows.change = np.where(had, UPDATE, INSERT).astype(np.int8)
        return rows.take(np.flatnonzero(~viewed | (new > 0)))

    def empty_rows(self, planned: PlannedQuery, before: int, after: int) -> Rows | None:
        """Return windows without records that came into view: between two records of their key."""
        grid: Grid = planned.window
        code, k = self.spans[planned.number].newly_held(grid, before, after)
        if planned.origin is not None:
            whole = grid.start(k) > planned.origin
            code, k = code[whole], k[whole]
        if not len(k):
            return None
        none = np.zeros(len(k), np.int64)
        query = np.full(len(k), planned.number)
        return Rows(query, code, grid.start(k), end(grid, k), None, None, none, none)

    # ---- sessions ----

    def sessions_in_view(self, watermark: int, codes: Places) -> dict[int, set[tuple[int, int, int]]]:
        """Return, by query, the sessions of these keys that are in view: (key, start, end)."""
        view: dict[int, set[tuple[int, int, int]]] = {}
        for planned in self.plan.of_family("session"):
            ordered = self.slices.sessions[planned.origin].ordered()
            _, code, start, end_, _, _ = self._sessions(planned, ordered)
            at = np.flatnonzero((end_ < watermark) & np.isin(code, codes))
            view[planned.number] = set(
                zip(code[at].tolist(), start[at].tolist(), end_[at].tolist(), strict=True)
            )
        return view

    @staticmethod
    def _sessions(planned: PlannedQuery, ordered: Ordered) -> tuple[Places, ...]:
        if not len(ordered):
            nothing = np.empty(0, np.int64)
            return (nothing,) * 6
        low, high = session_ranges(ordered.code, ordered.first, ordered.last, planned.window)
        end_ = ordered.last[high - 1] + planned.window
        fresh = np.add.reduceat(ordered.fresh, low)
        return fresh, ordered.code[low], ordered.first[low], end_, low, high

    def session_rows(
        self, before: int, after: float, old: dict[int, set[tuple[int, int, int]]] | None
    ) -> list[tuple[AggregateStore, Rows]]:
        """Return sessions that came into view, changed or went; `old` has those that may have."""
        found = []
        for planned in self.plan.of_family("session"):
            if old is None and after <= self._next_sessions[planned.number]:
                continue
            store = self.slices.sessions[planned.origin]
            fresh, code, start, end_, low, high = self._sessions(planned, store.ordered())
            shown = end_ < after
            left = end_[~shown]
            # A session may only get longer, and a new one ends past the watermark.
            self._next_sessions[planned.number] = (
                int(left.min()) if len(left) else _past(after, planned.window)
            )
            fresh_view = shown & (end_ >= before)
            change = np.zeros(len(code), np.int8)
            emitted = fresh_view
            gone: list[tuple[int, int, int]] = []
            if old is not None:
                emitted, gone = self._session_changes(
                    old[planned.number], (code, start, end_), shown, fresh_view, fresh, change
                )
            at = np.flatnonzero(emitted)
            query = np.full(len(at), planned.number)
            rows = Rows(query, code[at], start[at], end_[at], None, change[at], low[at], high[at])
            if gone:
                rows = _with_retractions(rows, planned.number, gone)
            if len(rows):
                found.append((store, rows))
        return found

    @staticmethod
    def _session_changes(
        old: set[tuple[int, int, int]],
        sessions: tuple[Places, Places, Places],
        shown: NDArray[np.bool_],
        fresh_view: NDArray[np.bool_],
        fresh: Places,
        change: NDArray[np.int8],
    ) -> tuple[NDArray[np.bool_], list[tuple[int, int, int]]]:
        """Compare with the sessions that were in view; `change` is filled in."""
        code, start, end_ = sessions
        emitted = fresh_view.copy()
        left = set(old)
        touched = shown & ~fresh_view
        touched &= np.isin(code, np.array([key for key, _, _ in old], np.int64)) | (fresh > 0)
        for i in np.flatnonzero(touched).tolist():
            identity = (int(code[i]), int(start[i]), int(end_[i]))
            if identity in left:
                left.remove(identity)
                emitted[i] = fresh[i] > 0
                change[i] = UPDATE
            else:
                emitted[i] = fresh[i] > 0  # one of a key that no record came for was there before
        return emitted, sorted(left)

    # ---- count windows ----

    def count_rows(self, after: float, *, final: bool) -> list[tuple[AggregateStore, Rows]]:
        """Return count windows that came into view or changed; with `final`, partial ones that are wanted."""
        found = []
        for origin, slices in self.slices.counts.items():
            viewed_before = slices.viewed.copy()
            store = slices.advance(after, self.lateness)
            ordered = store.ordered()
            if not len(ordered):
                continue
            if len(viewed_before) < len(slices.viewed):
                viewed_before = np.append(
                    viewed_before, np.zeros(len(slices.viewed) - len(viewed_before), np.int64)
                )
            for planned in self.plan.of_family("count"):
                if planned.origin == origin:
                    partial = final and planned.query.emit_partial
                    rows = _count_windows(
                        planned, ordered, viewed_before, slices.viewed, slices.changed, partial
                    )
                    if len(rows):
                        found.append((store, rows))
        return found

    # ---- from slices to aggregates ----

    def emit(self, groups: Iterable[tuple[AggregateStore, Rows]], into: Emission) -> None:
        """Add rows with their aggregates to an emission."""
        by_store: dict[int, tuple[AggregateStore, list[Rows]]] = {}
        for store, rows in groups:
            by_store.setdefault(id(store), (store, []))[1].append(rows)
        for store, some in by_store.values():
            self._emit(store, some, into)

    def _emit(self, store: AggregateStore, groups: list[Rows], into: Emission) -> None:
        rows = groups[0] if len(groups) == 1 else _joined(groups)
        at = into.count
        into.query.append(rows.query)
        into.code.append(rows.code)
        into.start.append(rows.start)
        into.end.append(rows.end)
        into.id.append(np.full(len(rows), NEVER) if rows.id is None else rows.id)
        into.change.append(np.zeros(len(rows), np.int8) if rows.change is None else rows.change)
        into.revision.append(self._revisions(rows))
        into.count += len(rows)
        folded = _Folds(store, self._how, rows)
        for column, aggregate, reads, numbers in self._outputs(rows):
            chunks = into.answers.setdefault(column, [])
            places = folded.places(numbers)
            if len(places):
                states_of = partial(folded.of, numbers)
                chunks.append((places + at, _answers(store, aggregate, reads, states_of), aggregate))
            empty = folded.empty(numbers)
            if len(empty):
                chunks.append((empty + at, None, aggregate))
        self.final_combines += folded.combines

    def _outputs(self, rows: Rows) -> list[tuple[str, Aggregate, tuple[Any, ...], tuple[int, ...]]]:
        """Return each output column with its aggregate, and the queries that have just that."""
        present = set(rows.query[np.append(True, rows.query[1:] != rows.query[:-1])].tolist())
        found: dict[tuple[Any, ...], list[int]] = {}
        for planned in self.plan.queries:
            if planned.number in present:
                for column, aggregate in planned.query.aggregates.items():
                    found.setdefault((column, aggregate, planned.reads[column]), []).append(planned.number)
        return [(*key, tuple(numbers)) for key, numbers in found.items()]  # type: ignore[misc]

    def _how(self, number: int, store: AggregateStore, low: Places, high: Places, queries: int) -> How:
        """Choose how to fold ranges: as the user chose, else by what takes the fewest combines."""
        if self.store == "lazy" or isinstance(store.fields[number], ObjectField):
            return "each"
        if self.store == "eager":
            return "tree"
        if self.store == "auto" and int((high - low).sum()) <= 3 * len(low):
            return "each"
        if store.fields[number].invertible:
            return "prefix"
        return "slide" if self.store == "sliding" or queries <= _FEW else "tree"

    def _revisions(self, rows: Rows) -> Places:
        """Number the rows of windows that were emitted before."""
        revision = np.zeros(len(rows), np.int64)
        if rows.change is None:
            return revision
        for i in np.flatnonzero(rows.change).tolist():
            identity = self.identity(rows, i)
            revision[i] = self.revisions[identity] = self.revisions.get(identity, 0) + 1
        return revision

    @staticmethod
    def identity(rows: Rows, i: int) -> tuple[int, ...]:
        """Return what tells a window apart: query, key, and its number or bounds."""
        if rows.id is not None:
            return int(rows.query[i]), int(rows.code[i]), int(rows.id[i])
        return int(rows.query[i]), int(rows.code[i]), int(rows.start[i]), int(rows.end[i])

    def let_go(self, watermark: int) -> None:
        """Forget revisions of windows that can change no more."""
        reach = watermark - self.lateness
        counts = {planned.number for planned in self.plan.of_family("count")}
        alive = {planned.number for planned in self.plan.queries}
        self.revisions = {
            identity: revision
            for identity, revision in self.revisions.items()
            if identity[0] in alive and (identity[0] in counts or identity[3] >= reach)
        }


class Spans:
    """For emit_empty: the first and the last record of each key, and windows with records beyond them."""

    def __init__(self) -> None:
        self.first: Places = np.full(1, 2**62)
        self.last: Places = np.full(1, -(2**62))
        self.old_first, self.old_last = self.first.copy(), self.last.copy()
        # Windows, by key and end, that were emitted with records, and did not lie between two of their key.
        self.filled: set[tuple[int, int]] = set()

    def see(self, codes: Places, times: Places) -> None:
        """Take in records."""
        need = int(codes.max()) + 1
        if need > len(self.first):
            self.first = np.append(self.first, np.full(need - len(self.first), 2**62))
            self.last = np.append(self.last, np.full(need - len(self.last), -(2**62)))
        np.minimum.at(self.first, codes, times)
        np.maximum.at(self.last, codes, times)

    def copy(self) -> Spans:
        """Return spans to be changed by themselves."""
        twin = Spans()
        twin.first, twin.last = self.first.copy(), self.last.copy()
        twin.old_first, twin.old_last, twin.filled = self.old_first, self.old_last, set(self.filled)
        return twin

    def fill(self, rows: Rows, number: int) -> None:
        """Take in windows with records that are emitted."""
        at = np.flatnonzero((rows.query == number) & (rows.high > rows.low))
        self.filled.update(zip(rows.code[at].tolist(), rows.end[at].tolist(), strict=True))

    def settle(self) -> None:
        """Remember how it is, as the state before the next call."""
        self.old_first, self.old_last = self.first.copy(), self.last.copy()

    def newly_held(self, grid: Grid, before: int, after: int) -> tuple[Places, Places]:
        """Return the empty windows, by key and number, that lie between records now and did not before."""
        code = np.flatnonzero(self.last > -(2**62))
        begin, stop = self._held_range(grid, self.first[code], self.last[code], after)
        known = code < len(self.old_last)
        known[known] = self.old_last[code[known]] > -(2**62)
        old = code[known]
        old_begin, old_stop = self._held_range(grid, self.old_first[old], self.old_last[old], before)
        none = old_stop < old_begin
        old_begin, old_stop = (
            np.where(none, stop[known] + 1, old_begin),
            np.where(none, stop[known], old_stop),
        )
        codes = np.concatenate([code[~known], old, old])
        first = np.concatenate([begin[~known], begin[known], np.maximum(old_stop + 1, begin[known])])
        last = np.concatenate([stop[~known], np.minimum(old_begin - 1, stop[known]), stop[known]])
        counts = np.maximum(last - first + 1, 0)
        held = np.repeat(codes, counts)
        k = np.arange(len(held)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
        pairs = zip(held.tolist(), end(grid, k).tolist(), strict=True)
        empty = np.array([pair not in self.filled for pair in pairs], bool)
        self._prune(grid, code, begin, stop)
        return held[empty], k[empty]

    @staticmethod
    def _held_range(grid: Grid, first: Places, last: Places, watermark: int) -> tuple[Places, Places]:
        """Return the first and last window in view that lie between two records."""
        return grid.high(first) + 1, last_ended(grid, np.minimum(last, watermark))

    def _prune(self, grid: Grid, code: Places, begin: Places, stop: Places) -> None:
        """Forget windows that will not be asked for again: they lie between two records by now."""
        low = dict(zip(code.tolist(), end(grid, begin).tolist(), strict=True))
        high = dict(zip(code.tolist(), end(grid, stop).tolist(), strict=True))
        self.filled = {(key, ends) for key, ends in self.filled if not low[key] <= ends <= high[key]}

    def held(self, code: Places, start: Places, end_: Places) -> NDArray[np.bool_]:
        """Tell which windows lay between records of their key before this call."""
        known = code < len(self.old_first)
        code = np.where(known, code, 0)
        held: NDArray[np.bool_] = known & (self.old_first[code] < start) & (self.old_last[code] >= end_)
        return held


def _past(watermark: float, gap: int) -> int:
    return NEVER if watermark == math.inf else int(watermark) + gap


def _next_end(grid: Grid, watermark: int) -> int:
    return int(end(grid, last_ended(grid, watermark) + 1))


def _listed_windows(ordered: Ordered, ranges: list[tuple[PlannedQuery, int, int]]) -> list[Rows]:
    """Return windows of a single key, looked up one by one, of all queries at once."""
    cells = LookUp(ordered.start, int(ordered.start[-1]))
    aligned = [r for r in ranges if r[0].window.length % r[0].window.pitch == 0 and r[0].window.steps == 1]
    others = [r for r in ranges if r not in aligned] if len(aligned) < len(ranges) else []
    found = []
    if aligned:
        # Where windows end, others of the query start: look up starts only, up to those of the last ends.
        overlaps = np.array([p.window.length // p.window.pitch for p, _, _ in aligned])
        query, starts, counts = _starts(aligned, overlaps)
        places = cells.at_or_past(starts)
        stop = np.cumsum(counts + overlaps)
        kept = np.ones(len(starts), bool)
        for overlap, last in zip(overlaps.tolist(), stop.tolist(), strict=True):
            kept[last - overlap : last] = False
        at = np.flatnonzero(kept)
        ends = at + (overlaps[0] if len(overlaps) == 1 else np.repeat(overlaps, counts))
        found.append((query[at], starts[at], starts[ends], places[at], places[ends]))
    if others:
        query, starts, counts = _starts(others, np.zeros(len(others), np.int64))
        first = np.concatenate([np.arange(first, last + 1) for _, first, last in others])
        pitches = np.repeat([p.window.pitch for p, _, _ in others], counts)
        ends = first * pitches + np.repeat([p.window.first_end for p, _, _ in others], counts)
        found.append((query, starts, ends, cells.at_or_past(starts), cells.at_or_past(ends)))
    groups = []
    for query, starts, ends, low, high in found:
        rows = Rows(query, np.full(len(query), ordered.code[0]), starts, ends, None, None, low, high)
        held = high > low
        groups.append(rows if held.all() else rows.take(np.flatnonzero(held)))
    return groups


def _starts(ranges: list[tuple[PlannedQuery, int, int]], more: Places) -> tuple[Places, Places, Places]:
    """Return query and start of the windows of ranges, with some more of each; and the counts without."""
    counts = np.array([last - first + 1 for _, first, last in ranges])
    lengths = counts + more
    begins = np.array([first for _, first, _ in ranges]) - (np.cumsum(lengths) - lengths)
    k = np.arange(int(lengths.sum())) + np.repeat(begins, lengths)
    grids = [planned.window for planned, _, _ in ranges]
    if any(grid.steps > 1 for grid in grids):
        k //= np.repeat([grid.steps for grid in grids], lengths)
    starts = k * np.repeat([grid.period for grid in grids], lengths)
    starts += np.repeat([grid.offset for grid in grids], lengths)
    return np.repeat([planned.number for planned, _, _ in ranges], lengths), starts, counts


def _found_windows(planned: PlannedQuery, ordered: Ordered, key_ends: Places, first: int, last: int) -> Rows:
    """Return the windows numbered from first to last that hold a record.

    Goes by cells, not by windows: each window is found at the first cell that it holds, so that silent
    spells cost nothing.
    """
    grid: Grid = planned.window
    highest, begin = grid.high(ordered.start), grid.low(ordered.start)
    same = ordered.code[1:] == ordered.code[:-1]
    begin[1:] = np.where(same, np.maximum(begin[1:], highest[:-1] + 1), begin[1:])
    begin = np.maximum(begin, first)
    counts = np.maximum(np.minimum(highest, last) - begin + 1, 0)
    low = np.repeat(np.arange(len(begin)), counts)
    k = np.arange(len(low)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[low]
    ends = end(grid, k)
    high = np.empty(len(low), np.int64)
    if len(low):
        loops.run("upper_cells", low, key_ends, ordered.start, ends, high)
    query = np.full(len(low), planned.number)
    return Rows(query, ordered.code[low], grid.start(k), ends, None, None, low, high)


def _with_retractions(rows: Rows, number: int, gone: list[tuple[int, int, int]]) -> Rows:
    code, start, end_ = (np.array(column, np.int64) for column in zip(*gone, strict=True))
    none = np.zeros(len(gone), np.int64)
    return Rows(
        np.append(rows.query, np.full(len(gone), number)),
        np.append(rows.code, code),
        np.append(rows.start, start),
        np.append(rows.end, end_),
        None,
        np.append(rows.change, np.full(len(gone), RETRACT, np.int8)),
        np.append(rows.low, none),
        np.append(rows.high, none),
    )


def _count_windows(
    planned: PlannedQuery, ordered: Ordered, before: Places, after: Places, changed: Places, partial: bool
) -> Rows:
    """Return windows of positions that are full and new, or hold a new position; all, if partial ones are wanted."""
    grid: Grid = planned.window
    codes = ordered.code[np.append(True, ordered.code[1:] != ordered.code[:-1])]
    least = np.minimum(before[codes], changed[codes])  # windows that end past this are new or changed
    first = np.maximum(last_ended(grid, least) + 1, 0)
    last = grid.high(after[codes] - 1) if partial else last_ended(grid, after[codes])
    counts = np.maximum(last - first + 1, 0)
    code = np.repeat(codes, counts)
    k = np.arange(len(code)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    low = _search(ordered, code, grid.start(k))
    high = _search(ordered, code, end(grid, k))
    held = high > low
    code, k, low, high = code[held], k[held], low[held], high[held]
    change = np.where(end(grid, k) <= before[code], UPDATE, INSERT).astype(np.int8)
    query = np.full(len(k), planned.number)
    return Rows(query, code, ordered.first[low], ordered.last[high - 1], k, change, low, high)


def _search(ordered: Ordered, code: Places, start: Places) -> Places:
    """Return the first cell of a key at or past a start."""
    begins = np.searchsorted(ordered.code, code)
    if len(ordered) and ordered.code[0] == ordered.code[-1]:
        return np.searchsorted(ordered.start, start)
    ends = np.searchsorted(ordered.code, code, side="right")
    out = np.empty(len(code), np.int64)
    for i, (begin, stop) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        out[i] = begin + np.searchsorted(ordered.start[begin:stop], start[i])
    return out


def _joined(groups: list[Rows]) -> Rows:
    """Return the rows of several groups, by query: within one, ranges of slices go forward."""
    change = [np.zeros(len(r), np.int8) if r.change is None else r.change for r in groups]
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
    if (rows.query[1:] >= rows.query[:-1]).all():
        return rows
    return rows.take(np.lexsort((rows.high, rows.low, rows.query)))


class _Folds:
    """The partials of windows, folded once per field and set of queries."""

    def __init__(
        self,
        store: AggregateStore,
        how: Callable[[int, AggregateStore, Places, Places, int], How],
        rows: Rows,
    ) -> None:
        self.combines = 0
        self._store = store
        self._how = how
        self._rows = rows
        self._empty = rows.high == rows.low
        self._any_empty = bool(self._empty.any())
        self._queries = set(rows.query[np.append(True, rows.query[1:] != rows.query[:-1])].tolist())
        self._places: dict[tuple[int, ...], Places] = {}
        self._states: dict[tuple[int, tuple[int, ...]], States] = {}

    def _of(self, numbers: tuple[int, ...]) -> NDArray[np.bool_] | None:
        """Tell which rows are of these queries; None: all."""
        if self._queries <= set(numbers):
            return None
        chosen = np.zeros(int(self._rows.query.max()) + 1, bool)
        chosen[[n for n in numbers if n < len(chosen)]] = True
        mine: NDArray[np.bool_] = chosen[self._rows.query]
        return mine

    def places(self, numbers: tuple[int, ...]) -> Places:
        """Return the rows of some queries that are not empty."""
        if numbers not in self._places:
            mine = self._of(numbers)
            if self._any_empty:
                mine = ~self._empty if mine is None else mine & ~self._empty
            found = np.arange(len(self._rows)) if mine is None else np.flatnonzero(mine)
            self._places[numbers] = found
        return self._places[numbers]

    def empty(self, numbers: tuple[int, ...]) -> Places:
        """Return the rows of some queries that are empty windows."""
        if not self._any_empty:
            return np.empty(0, np.int64)
        mine = self._of(numbers)
        empty = self._empty if self._rows.change is None else self._empty & (self._rows.change != RETRACT)
        return np.flatnonzero(empty if mine is None else empty & mine)

    def of(self, numbers: tuple[int, ...], field_: int) -> States:
        """Return a field's partials for the rows of some queries."""
        if (field_, numbers) not in self._states:
            at = self.places(numbers)
            self._states[field_, numbers] = self._fold(field_, at)
        return self._states[field_, numbers]

    def _fold(self, number: int, at: Places) -> States:
        rows, store = self._rows, self._store
        whole = len(at) == len(rows)
        low, high, query = (column if whole else column[at] for column in (rows.low, rows.high, rows.query))
        how = self._how(number, store, low, high, len(self._queries))
        if how == "each":
            states, combines = folds.each(store, number, low, high)
        elif how == "prefix":
            states, combines = store.folds.prefix(number, low, high)
        elif how == "tree":
            states, combines = store.folds.tree(number, low, high)
        else:
            states, combines = self._slide(number, query, low, high)
        self.combines = max(self.combines, combines)
        return states

    def _slide(self, number: int, query: Places, low: Places, high: Places) -> tuple[States, int]:
        """Fold with two stacks, query by query: ranges go forward within one."""
        ends = [0, *(np.flatnonzero(query[1:] != query[:-1]) + 1).tolist(), len(query)]
        parts, total = [], 0
        for begin, stop in itertools.pairwise(ends):
            ranges = (low[begin:stop], high[begin:stop])
            states, combines = self._store.folds.slide(number, int(query[begin]), *ranges)
            parts.append(states)
            total += combines
        return parts[0] if len(parts) == 1 else np.concatenate(parts), total


def _answers(
    store: AggregateStore,
    aggregate: Aggregate,
    reads: tuple[tuple[int, int], ...],
    states_of: Callable[[int], States],
) -> Answers:
    if not isinstance(aggregate, BuiltIn):
        number = reads[0][0]
        return store.fields[number].answers(states_of(number), aggregate)
    components: list[Any] = []
    missing: NDArray[np.bool_] | None = None
    for number, component in reads:
        partials, states = store.fields[number], states_of(number)
        assert isinstance(partials, (CompiledField, ObjectField))
        components.append(partials.components(states, floats=aggregate.floats)[component])
        present = partials.present(states)
        if present is not None and not present.all():
            missing = ~present if missing is None else missing | ~present
    if missing is not None and any(isinstance(c, list) for c in components):
        missing = None  # lists say it by themselves
    answers = finish(aggregate, components)
    if missing is None:
        return answers
    if aggregate.empty is not None:  # a count of nothing
        return Answers(np.where(missing, aggregate.empty, answers.data), answers.missing)
    return Answers(answers.data, missing if answers.missing is None else missing | answers.missing)
