"""The window manager: which windows come into view or change, and their aggregates from slices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.algebra.builtin import BuiltIn
from muntin.slicing import loops
from muntin.slicing.fields import Answers, CompiledField, How, ObjectField, States, finish
from muntin.slicing.plan import Plan, PlannedQuery
from muntin.slicing.slice_manager import SliceManager, session_ranges
from muntin.slicing.store import AggregateStore, Ordered
from muntin.windows.grid import Grid, end, last_ended

Places = NDArray[np.int64]
Store = Literal["auto", "lazy", "eager", "sliding"]
INSERT, UPDATE, RETRACT = 0, 1, 2
NEVER = -(2**62)  # a watermark before the first: all times are above it
FOREVER = 2**63 - 1  # a watermark past all


@dataclass
class Rows:
    """Windows of one query, to be emitted: where their slices lie, by key and time; an empty range: none."""

    planned: PlannedQuery
    code: Places
    start: Places
    end: Places
    id: Places | None
    change: NDArray[np.int8]
    low: Places
    high: Places

    def __len__(self) -> int:
        return len(self.code)


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

    # ---- windows on a grid ----

    def grid_rows(self, before: int, after: int, frozen: int, freezing: int | None, late: bool) -> list[Rows]:
        """Return windows that came into view, or are in view and changed.

        Only those that freeze after `frozen` and, unless it is None, no later than at `freezing`.
        """
        store = self.slices.grid
        if store is None or not store.count:
            return []
        ordered = store.ordered()
        ends: Places | None = None
        found = []
        for planned in self._ending(before, after, late):
            grid: Grid = planned.window
            first = _first_window(grid, frozen, self.lateness, planned.origin)
            last = last_ended(grid, after)
            if freezing is not None:
                last = min(last, last_ended(grid, freezing - self.lateness))
            if not late and before != NEVER:
                first = max(first, last_ended(grid, before) + 1)
            if last < first:
                continue
            if ends is None:
                ends = ordered.key_ends()
            code, k, low, high = grid_windows(grid, ordered, ends, first, last)
            change = np.zeros(len(k), np.int8)
            if late and before != NEVER:
                keep, change = self._changes(planned, ordered, grid, k, low, high, before)
                code, k, low, high, change = code[keep], k[keep], low[keep], high[keep], change[keep]
            if len(k):
                rows = Rows(planned, code, grid.start(k), end(grid, k), None, change, low, high)
                found.append(rows)
        return found

    def _ending(self, before: int, after: int, late: bool) -> Iterator[PlannedQuery]:
        """Give the grid queries of which a window can have come into view."""
        for planned in self.plan.of_family("grid"):
            if late or before == NEVER or last_ended(planned.window, after) > last_ended(planned.window, before):
                yield planned

    def _changes(
        self,
        planned: PlannedQuery,
        ordered: Ordered,
        grid: Grid,
        k: Places,
        low: Places,
        high: Places,
        before: int,
    ) -> tuple[Places, NDArray[np.int8]]:
        """Return which windows are new in view or have fresh records, and what to call that."""
        fresh = np.append(0, np.cumsum(ordered.fresh))
        rows = np.append(0, np.cumsum(ordered.rows))
        new = fresh[high] - fresh[low]
        viewed = end(grid, k) <= before
        had = (rows[high] - rows[low] > new) & viewed
        if planned.query.emit_empty:
            code = ordered.code[low]
            had |= self.spans[planned.number].held(code, k, grid, before) & viewed
        change = np.where(had, UPDATE, INSERT).astype(np.int8)
        return np.flatnonzero(~viewed | (new > 0)), change

    def empty_rows(self, planned: PlannedQuery, before: int, after: int) -> Rows | None:
        """Return windows without records that came into view: between two records of their key."""
        grid: Grid = planned.window
        spans = self.spans[planned.number]
        code, first, last = spans.new_ranges(grid, before, after)
        counts = np.maximum(last - first + 1, 0)
        if not counts.any():
            return None
        code, begins = np.repeat(code, counts), np.repeat(first, counts)
        k = np.arange(len(code)) - np.repeat(np.cumsum(counts) - counts, counts) + begins
        store = self.slices.grid
        if store is not None and store.count:
            ordered = store.ordered()
            held = grid_windows(grid, ordered, ordered.key_ends(), int(k.min()), int(k.max()))
            filled = set(zip(held[0].tolist(), held[1].tolist(), strict=True))
            pairs = zip(code.tolist(), k.tolist(), strict=True)
            kept = np.array([pair not in filled for pair in pairs], bool)
            code, k = code[kept], k[kept]
        if planned.origin is not None:
            whole = grid.start(k) > planned.origin
            code, k = code[whole], k[whole]
        none = np.zeros(len(k), np.int64)
        return Rows(planned, code, grid.start(k), end(grid, k), None, none.astype(np.int8), none, none)

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
            store = self.slices.sessions[planned.origin]
            fresh, code, start, end_, low, high = self._sessions(planned, store.ordered())
            shown = end_ < after
            fresh_view = shown & (end_ >= before)
            change = np.zeros(len(code), np.int8)
            emitted = fresh_view
            gone: list[tuple[int, int, int]] = []
            if old is not None:
                emitted, gone = self._session_changes(
                    old[planned.number], (code, start, end_), shown, fresh_view, fresh, change
                )
            at = np.flatnonzero(emitted)
            rows = Rows(planned, code[at], start[at], end_[at], None, change[at], low[at], high[at])
            if gone:
                rows = _with_retractions(rows, gone)
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
        at = into.count
        folds = _Folds(store, self._how, groups)
        for rows in groups:
            into.query.append(np.full(len(rows), rows.planned.number))
            into.code.append(rows.code)
            into.start.append(rows.start)
            into.end.append(rows.end)
            into.id.append(np.full(len(rows), NEVER) if rows.id is None else rows.id)
            into.change.append(rows.change)
            into.revision.append(self._revisions(rows))
            into.count += len(rows)
        for column, aggregate, reads, members in _outputs(groups):
            places, states_of = folds.of(members)
            answers = _answers(store, aggregate, reads, states_of) if len(places) else None
            chunks = into.answers.setdefault(column, [])
            if answers is not None:
                chunks.append((places + at, answers, aggregate))
            empty = folds.empty(members)
            if len(empty):
                chunks.append((empty + at, None, aggregate))
        self.final_combines += folds.combines

    def _how(self, number: int, store: AggregateStore, low: Places, high: Places) -> How:
        """Choose how to fold ranges: by what the user chose, else by what takes the fewest combines."""
        if self.store == "lazy":
            return "each"
        each = int((high - low).sum()) - len(low)
        if self.store == "auto" and each <= 2 * len(low):
            return "each"
        if store.fields[number].invertible:
            return "prefix" if self.store != "auto" or each > store.count + len(low) else "each"
        return "slide"

    def _revisions(self, rows: Rows) -> Places:
        """Number the rows of windows that were emitted before."""
        revision = np.zeros(len(rows), np.int64)
        for i in np.flatnonzero(rows.change).tolist():
            identity = self.identity(rows, i)
            revision[i] = self.revisions[identity] = self.revisions.get(identity, 0) + 1
        return revision

    @staticmethod
    def identity(rows: Rows, i: int) -> tuple[int, ...]:
        """Return what tells a window apart: query, key, and its number or bounds."""
        if rows.id is not None:
            return rows.planned.number, int(rows.code[i]), int(rows.id[i])
        return rows.planned.number, int(rows.code[i]), int(rows.start[i]), int(rows.end[i])

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
    """For emit_empty: the first and the last record of each key, as far as a query has seen them."""

    def __init__(self) -> None:
        self.first: Places = np.full(1, 2**62)
        self.last: Places = np.full(1, -(2**62))
        self.old_first, self.old_last = self.first.copy(), self.last.copy()

    def see(self, codes: Places, times: Places) -> None:
        """Take in records."""
        need = int(codes.max()) + 1
        if need > len(self.first):
            self.first = np.append(self.first, np.full(need - len(self.first), 2**62))
            self.last = np.append(self.last, np.full(need - len(self.last), -(2**62)))
        np.minimum.at(self.first, codes, times)
        np.maximum.at(self.last, codes, times)

    def settle(self) -> None:
        """Remember how it is, as the state before the next call."""
        self.old_first, self.old_last = self.first.copy(), self.last.copy()

    def new_ranges(self, grid: Grid, before: int, after: int) -> tuple[Places, Places, Places]:
        """Return stretches of windows that now lie between records of their key, and did not before."""
        code = np.flatnonzero(self.last > -(2**62))
        first, last = self.first[code], self.last[code]
        begin = grid.high(first) + 1
        stop = last_ended(grid, np.minimum(last, after))
        known = code < len(self.old_last)
        known[known] = self.old_last[code[known]] > -(2**62)
        old = code[known]
        old_first, old_last = self.old_first[old], self.old_last[old]
        # Those that hold the first or last record are not empty, though their slices may be gone.
        left = np.minimum(grid.low(old_first) - 1, stop[known])
        passed = grid.high(old_last) + 1
        right = np.where(before < old_last, last_ended(grid, before) + 1, passed)
        right = np.maximum(right, grid.high(old_first) + 1)
        return (
            np.concatenate([code[~known], old, old]),
            np.concatenate([begin[~known], begin[known], right]),
            np.concatenate([stop[~known], left, stop[known]]),
        )

    def held(self, code: Places, k: Places, grid: Grid, before: int) -> NDArray[np.bool_]:
        """Tell which windows lay between records of their key before this call, and were in view."""
        known = code < len(self.old_first)
        code = np.where(known, code, 0)
        first, last = self.old_first[code], self.old_last[code]
        held: NDArray[np.bool_] = known & (first < grid.start(k)) & (last >= end(grid, k)) & (end(grid, k) <= before)
        return held


def _first_window(grid: Grid, frozen: int, lateness: int, origin: int | None) -> int:
    """Return the first window that is not frozen, and whole to a query that came later."""
    first = NEVER if frozen == NEVER else last_ended(grid, frozen - lateness) + 1
    return first if origin is None else max(first, grid.high(origin) + 1)


def grid_windows(
    grid: Grid, ordered: Ordered, key_ends: Places, first: int, last: int
) -> tuple[Places, Places, Places, Places]:
    """Return the windows numbered from first to last that hold a record: key, number, range of cells.

    Goes by cells, not by windows: each window is found at the first cell that it holds, so that silent
    spells cost nothing. With a single key and few windows, they are looked up one by one.
    """
    starts = ordered.start
    if ordered.code[0] == ordered.code[-1]:
        first = max(first, grid.low(int(starts[0])))
        last = min(last, grid.high(int(starts[-1])))
        if last - first < len(starts):
            k = np.arange(first, last + 1)
            low = np.searchsorted(starts, grid.start(k))
            high = np.searchsorted(starts, end(grid, k))
            held = high > low
            if not held.all():
                k, low, high = k[held], low[held], high[held]
            return np.full(len(k), ordered.code[0]), k, low, high
    highest = grid.high(starts)
    begin = grid.low(starts)
    first, last = max(first, int(begin.min())), min(last, int(highest.max()))
    same = ordered.code[1:] == ordered.code[:-1]
    begin[1:] = np.where(same, np.maximum(begin[1:], highest[:-1] + 1), begin[1:])
    begin = np.maximum(begin, first)
    counts = np.maximum(np.minimum(highest, last) - begin + 1, 0)
    low = np.repeat(np.arange(len(starts)), counts)
    k = np.arange(len(low)) - np.repeat(np.cumsum(counts) - counts, counts) + begin[low]
    high = np.empty(len(low), np.int64)
    if len(low):
        loops.run("upper_cells", low, key_ends, starts, end(grid, k), high)
    return ordered.code[low], k, low, high


def _with_retractions(rows: Rows, gone: list[tuple[int, int, int]]) -> Rows:
    code, start, end_ = (np.array(column, np.int64) for column in zip(*gone, strict=True))
    none = np.zeros(len(gone), np.int64)
    return Rows(
        rows.planned,
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
    return Rows(planned, code, ordered.first[low], ordered.last[high - 1], k, change, low, high)


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


def _outputs(groups: list[Rows]) -> Iterator[tuple[str, Aggregate, tuple[Any, ...], list[int]]]:
    """Give each output column with its aggregate and the groups of rows that have just that."""
    outputs: dict[tuple[Any, ...], tuple[Aggregate, list[int]]] = {}
    for g, rows in enumerate(groups):
        for column, aggregate in rows.planned.query.aggregates.items():
            key = (column, aggregate, rows.planned.reads[column])
            outputs.setdefault(key, (aggregate, []))[1].append(g)
    for (column, _, reads), (aggregate, members) in outputs.items():
        yield column, aggregate, reads, members


class _Folds:
    """The partials of windows, folded once per field and set of queries."""

    def __init__(
        self,
        store: AggregateStore,
        how: Callable[[int, AggregateStore, Places, Places], How],
        groups: list[Rows],
    ) -> None:
        self.combines = 0
        self._store = store
        self._how = how
        self._groups = groups
        self._starts = np.cumsum([0] + [len(rows) for rows in groups])
        self._filled = [np.flatnonzero(rows.high > rows.low) for rows in groups]
        self._states: dict[tuple[int, tuple[int, ...]], States] = {}

    def of(self, members: list[int]) -> tuple[Places, Callable[[int], States]]:
        """Return the places of the rows of some groups that are not empty, and their partials by field."""
        places = np.concatenate([self._filled[g] + self._starts[g] for g in members])
        return places, lambda number: self._folded(number, tuple(members))

    def empty(self, members: list[int]) -> Places:
        """Return the places of the rows of some groups that are empty windows."""
        found = []
        for g in members:
            rows = self._groups[g]
            found.append(np.flatnonzero((rows.high == rows.low) & (rows.change != RETRACT)) + self._starts[g])
        return np.concatenate(found)

    def _folded(self, number: int, members: tuple[int, ...]) -> States:
        if (number, members) not in self._states:
            low = [self._groups[g].low[self._filled[g]] for g in members]
            high = [self._groups[g].high[self._filled[g]] for g in members]
            self._states[number, members] = self._fold(number, low, high)
        return self._states[number, members]

    def _fold(self, number: int, low: list[Places], high: list[Places]) -> States:
        lows, highs = np.concatenate(low), np.concatenate(high)
        how = self._how(number, self._store, lows, highs)
        if how != "slide" or len(low) == 1:
            states, combines = self._store.fold(number, lows, highs, how)
            self.combines = max(self.combines, combines)
            return states
        parts = []
        total = 0
        for some_low, some_high in zip(low, high, strict=True):  # ranges go forward within one query
            if len(some_low):
                states, combines = self._store.fold(number, some_low, some_high, how)
                parts.append(states)
                total += combines
        self.combines = max(self.combines, total)
        return np.concatenate(parts)


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
