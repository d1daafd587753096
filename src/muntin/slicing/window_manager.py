"""The window manager: which windows come into view or change, and their aggregates from slices."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.slicing.answers import Choice, FoldedRows, How, answers_of
from muntin.slicing.edges import NEVER
from muntin.slicing.empty_windows import EmptyWindows
from muntin.slicing.ended import (
    bounds_in,
    changing_windows,
    count_windows,
    found_windows,
    listed_windows,
    next_end,
    own_windows,
    single_slices,
)
from muntin.slicing.fields import CompiledField
from muntin.slicing.last_shown import LastShown
from muntin.slicing.plan import Plan, PlannedQuery
from muntin.slicing.pooled import PooledField
from muntin.slicing.rows import (
    FOREVER,
    INSERT,
    UPDATE,
    Emission,
    Rows,
    grouped,
    joined,
    queries_of,
    with_retractions,
)
from muntin.slicing.sketch_fields import SketchField
from muntin.slicing.slice_manager import SliceManager, session_ranges
from muntin.slicing.store import AggregateStore, Ordered
from muntin.slicing.transaction import Transactional
from muntin.windows.grid import end, last_ended

Places = NDArray[np.int64]
Store = Literal["auto", "lazy", "eager", "sliding"]
_FEW = 16  # up to so many queries, stacks for each take fewer combines than pairs of pairs for all


class WindowManager(Transactional):
    """Follows the watermark; turns slices into rows."""

    often = ("final_combines", "windows_emitted", "revisions", "previous", "_next_end", "_next_sessions")

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
        self.last_shown = LastShown()  # for having
        self.empty = EmptyWindows(lateness)
        self._next_end = NEVER  # before this, no window on a grid ends
        self._next_sessions: dict[int, int] = {}  # up to this, no session of a query comes into view
        self.adapt()

    def adapt(self) -> None:
        """Follow a change of the queries."""
        self.save()
        self._output_plans: dict[frozenset[int], list[Any]] = {}
        self._next_end = NEVER if self.plan.of_family("grid") else FOREVER
        self._next_sessions = {planned.number: NEVER for planned in self.plan.of_family("session")}
        grids = self.plan.of_family("grid")
        alone = len(grids) == 1 and grids[0].origin is None and not grids[0].query.emit_empty
        alone = alone and not grids[0].window.irregular and grids[0].window.steps == 1
        # With a single query end to end, each of its windows is a slice.
        self.slice_by_slice = grids[0] if alone and grids[0].window.pitch == grids[0].window.length else None

    def forget(self, number: int) -> None:
        """Forget what only a removed query needed."""
        self.save()
        self.empty.forget(number)
        self.previous = {who: values for who, values in self.previous.items() if who[0] != number}
        self.revisions = {identity: r for identity, r in self.revisions.items() if identity[0] != number}
        self.last_shown.keep(lambda identity: identity[0] != number)

    def quiet_until(self, watermark: int) -> bool:
        """Tell whether no window can come into view up to a watermark, nor one that is empty."""
        if self.empty.spans or watermark >= self._next_end:
            return False
        return all(watermark <= end for end in self._next_sessions.values())

    def only_grids(self, watermark: int) -> bool:
        """Tell whether only windows on grids come into view up to a watermark, folded each by itself."""
        quiet = all(watermark <= end for end in self._next_sessions.values())
        return quiet and not self.empty.spans and self.store in ("auto", "lazy")

    def ended(self, watermark: int, rows: int, combines: int) -> None:
        """Note that windows on grids were emitted up to a watermark."""
        self._next_end = min(next_end(p.window, watermark) for p in self.plan.of_family("grid"))
        self.windows_emitted += rows
        self.final_combines += combines

    def parts(self) -> Iterable[Transactional]:
        """Return what is known of windows without records, and of bounds last shown."""
        return self.empty, self.last_shown

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
        if not late and self.slice_by_slice is not None:
            found = [single_slices(self.slice_by_slice, store, seen, shown)]
        else:
            found = self._windows_between(store.ordered(), seen, shown)
        if freezing is None:
            self._next_end = min(next_end(p.window, after) for p in self.plan.of_family("grid"))
        if late:
            found = [self._changed(store.ordered(), rows, before) for rows in found]
        found = [rows for rows in found if len(rows)]
        for rows in found:
            self.empty.fill(rows)
        return found

    def _windows_between(self, ordered: Ordered, seen: int, shown: int) -> list[Rows]:
        """Return the windows with records that end after `seen`, and at `shown` or before."""
        queries = self.plan.of_family("grid")
        longest = max(planned.window.length for planned in queries)
        one_key = ordered.code[0] == ordered.code[-1]
        if one_key:
            low, high = int(ordered.start[0]), int(ordered.start[-1])
        else:
            low, high = int(ordered.start.min()), int(ordered.start.max())
        seen, shown = max(seen, low), min(shown, high + longest)
        if shown <= seen:
            return []
        ranges = []
        found = [own_windows(p, ordered, seen, shown) for p in queries if p.window.listed]
        for planned in queries:
            if planned.window.listed:
                continue
            first = last_ended(planned.window, seen) + 1
            if planned.origin is not None:
                first = max(first, planned.window.high(planned.origin) + 1)
            ranges.append((planned, first, last_ended(planned.window, shown)))
        ranges = [(planned, first, last) for planned, first, last in ranges if first <= last]
        if not ranges:
            return found
        dense: list[tuple[PlannedQuery, int, int]] = []
        sparse: list[tuple[PlannedQuery, int, int]] = []
        for planned, first, last in ranges:
            some = one_key and not planned.window.irregular and last - first < len(ordered) + 64
            (dense if some else sparse).append((planned, first, last))
        found += [listed_windows(ordered, dense)] if dense else []
        return found + [found_windows(planned, ordered, first, last) for planned, first, last in sparse]

    def _changed(self, ordered: Ordered, rows: Rows, before: int) -> Rows:
        """Return windows that are new in view or have fresh records, saying which."""
        fresh = np.append(0, np.cumsum(ordered.fresh))
        records = np.append(0, np.cumsum(ordered.rows))
        new = fresh[rows.high] - fresh[rows.low]
        viewed = rows.end <= before
        had = (records[rows.high] - records[rows.low] > new) & viewed
        had |= viewed & self.empty.held(rows)
        rows.change = np.where(had, UPDATE, INSERT).astype(np.int8)
        return rows.take(np.flatnonzero(~viewed | (new > 0)))

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

    def expect_sessions(self, low: int) -> None:
        """Look out for sessions that records from `low` on may have begun; others only get longer."""
        sessions = self.plan.of_family("session")
        if sessions:
            gaps = {planned.number: planned.window for planned in sessions}
            known = self._next_sessions.items()
            self._next_sessions = {number: min(soonest, low + gaps[number]) for number, soonest in known}

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
            soonest = int(left.min()) if len(left) else FOREVER
            self._next_sessions = {**self._next_sessions, planned.number: soonest}
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
                rows = with_retractions(rows, planned.number, gone)
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
            held = {
                p.number: changing_windows(p, slices)
                for p in self.plan.of_family("count")
                if p.origin == origin and p.query.having is not None
            }
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
                    rows = count_windows(
                        planned, ordered, viewed_before, slices.viewed, slices.changed, partial
                    )
                    if len(rows):
                        rows.was = bounds_in(held.get(planned.number), rows)
                        found.append((store, rows))
        return found

    # ---- windows that records mark off ----

    def position_rows(self, after: float, *, final: bool) -> list[tuple[AggregateStore, Rows]]:
        """Return windows over stretches of records that came into view, changed or went."""
        found = []
        for slices in self.slices.positions.values():
            store, rows = slices.advance(after, self.lateness, final=final)
            found += [(store, some) for some in rows]
        return found

    # ---- from slices to aggregates ----

    def look_up(self, store: AggregateStore, rows: Rows) -> Emission:
        """Return rows with their aggregates, folded by themselves: what windows need stays as it is."""
        emission, combines = Emission(), self.final_combines
        self._emit(store, [rows], emission, _each)
        self.final_combines = combines
        return emission

    def emit(self, groups: Iterable[tuple[AggregateStore, Rows]], into: Emission) -> None:
        """Add rows with their aggregates to an emission."""
        by_store: dict[int, tuple[AggregateStore, list[Rows]]] = {}
        for store, rows in groups:
            by_store.setdefault(id(store), (store, []))[1].append(rows)
        for store, some in by_store.values():
            self._emit(store, some, into, self._how)

    def _emit(self, store: AggregateStore, groups: list[Rows], into: Emission, how: Choice) -> None:
        rows = groups[0] if len(groups) == 1 else joined(groups)
        if rows.by_end and not self._in_any_order(store, queries_of(rows.query)):
            rows = grouped(rows)
        at = into.count
        into.query.append(rows.query)
        into.code.append(rows.code)
        into.start.append(rows.start)
        into.end.append(rows.end)
        into.id.append(rows.id)
        into.change.append(rows.change)
        revision = rows.revision
        if revision is None and rows.change is not None:
            revision = self._revisions(rows, rows.change)
        into.revision.append(revision)
        into.measure.append(rows.measure)
        into.was.append(rows.was)
        into.count += len(rows)
        folded = FoldedRows(store, how, rows, self.plan)
        with np.errstate(all="ignore"):
            for column, aggregate, reads, numbers in self._outputs(folded.queries):
                chunks = into.answers.setdefault(column, [])
                places = folded.places(numbers)
                if len(places):
                    answers = answers_of(store, aggregate, reads, partial(folded.of, numbers))
                    chunks.append((places + at if at else places, answers, aggregate))
                empty = folded.empty(numbers)
                if len(empty):
                    chunks.append((empty + at, None, aggregate))
        self.final_combines += folded.combines

    def _outputs(self, queries: frozenset[int]) -> list[tuple[str, Aggregate, Any, tuple[int, ...]]]:
        """Return each output column with its aggregate, and which of the queries have just that."""
        if queries not in self._output_plans:
            found: dict[tuple[Any, ...], list[int]] = {}
            for planned in self.plan.queries:
                if planned.number in queries:
                    for column, aggregate in planned.query.aggregates.items():
                        what = (column, aggregate, planned.reads[column])
                        found.setdefault(what, []).append(planned.number)
            if len(self._output_plans) > 256:
                self._output_plans.clear()
            self._output_plans[queries] = [(*what, tuple(numbers)) for what, numbers in found.items()]
        return self._output_plans[queries]

    def _how(self, number: int, store: AggregateStore, low: Places, high: Places, queries: int) -> How:
        """Choose how to fold ranges: as the user chose, else by what takes the fewest combines."""
        partials = store.fields[number]
        if isinstance(partials, PooledField):
            return "ranges"
        if isinstance(partials, SketchField) and self.store != "lazy":  # merging is what takes time
            pairs = 2 * len(low) * int((high - low).max()).bit_length()
            return "levels" if int((high - low).sum()) > store.count + pairs else "each"
        if self.store == "lazy" or not isinstance(partials, CompiledField):
            return "each"
        if self.store == "eager":
            return "tree"
        total = int((high - low).sum())
        if self.store == "auto" and (len(low) == 1 or total <= 3 * len(low)):
            return "each"
        if partials.invertible:
            return "prefix"
        own = partials.part is None  # pairs would reach across keys, where they may raise
        slides = self.store == "sliding" or queries <= _FEW or own
        if self.store == "auto":  # where windows hardly overlap, there is little to share
            pairs = len(low) * (total // len(low)).bit_length()
            shared = 4 * queries * store.count if slides else 2 * (store.count + pairs)
            if total <= shared:
                return "each"
        return "slide" if slides else "levels"

    def _in_any_order(self, store: AggregateStore, queries: frozenset[int]) -> bool:
        """Tell whether no fold of the windows of queries goes query by query, as stacks and pools do."""
        if len(queries) == 1:
            return True
        twins = self.plan.twins()
        alike = len({twins[number] for number in queries}) < len(queries)  # folded once for several queries
        stacks = self.store == "sliding" or len(queries) <= _FEW
        return not alike and all(
            isinstance(partials, CompiledField)
            and (partials.invertible or not (stacks or partials.part is None))
            for partials in store.fields.values()
        )

    def _revisions(self, rows: Rows, change: NDArray[np.int8]) -> Places:
        """Number the rows of windows that were emitted before."""
        revision = np.zeros(len(rows), np.int64)
        for i in np.flatnonzero(change).tolist():
            identity = self.identity(rows, i)
            self.overwrite_item(self.revisions, identity)
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
        counts = {planned.number: planned for planned in self.plan.of_family("count")}
        alive = {planned.number for planned in self.plan.queries}

        def may_change(identity: tuple[int, ...]) -> bool:
            if identity[0] not in counts:
                return identity[3] >= reach
            planned = counts[identity[0]]
            settled: int = self.slices.counts[planned.origin].seen[identity[1]]
            return bool(end(planned.window, identity[2]) > settled)

        self.revisions = {i: r for i, r in self.revisions.items() if i[0] in alive and may_change(i)}
        self.last_shown.keep(self._has_revisions)

    def _has_revisions(self, identity: tuple[int, ...]) -> bool:
        """Tell whether a window had rows before, and may get more."""
        number, *who = identity
        views = [slices.views for slices in self.slices.positions.values() if number in slices.views]
        return identity in self.revisions or any(tuple(who) in view[number].revisions for view in views)

    def remembered(self) -> list[Places]:
        """Return the keys that something must be remembered of beside their slices."""
        previous = np.array([code for _, code in self.previous], np.int64)
        return [previous, *(spans.remembered() for spans in self.empty.spans.values())]

    def keep_keys(self, codes: Places) -> None:
        """Give keys other numbers: codes[old] is the new one, below 0 for those that are forgotten."""
        for spans in self.empty.spans.values():
            spans.keep_keys(codes)
        self.previous = {(number, int(codes[code])): v for (number, code), v in self.previous.items()}
        self.last_shown.renumber(codes)
        self.revisions = {
            (number, int(codes[code]), *rest): revision
            for (number, code, *rest), revision in self.revisions.items()
            if codes[code] >= 0
        }


def _each(number: int, store: AggregateStore, *_: Any) -> How:
    """Fold ranges each by itself."""
    return "ranges" if isinstance(store.fields[number], PooledField) else "each"
