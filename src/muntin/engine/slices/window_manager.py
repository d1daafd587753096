"""The window manager: which windows come into view or change, and their aggregates from slices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.algebra.aggregate import Aggregate
from muntin.columnar import Codes, Indices
from muntin.engine.plan.queries import Plan
from muntin.engine.rows import Emission, Rows, grouped, joined, queries_of
from muntin.engine.slices.family import Moment, SliceFamily
from muntin.engine.slices.last_shown import LastShown
from muntin.engine.slices.slice_manager import SliceManager
from muntin.engine.store import strategies
from muntin.engine.store.answers import FoldedRows, answers_of
from muntin.engine.store.cells import AggregateStore
from muntin.engine.transaction import Transactional
from muntin.settings import Store


class WindowManager(Transactional):
    """Follows the watermark; turns slices into rows."""

    often = ("final_combines", "windows_emitted", "revisions", "previous", "_combines_of")

    def __init__(self, plan: Plan, slices: SliceManager, store: Store) -> None:
        self.plan = plan
        self.slices = slices
        self.store = store
        self.final_combines = 0
        self._combines_of = np.zeros(1)  # by query, since it was planned or restored
        self.windows_emitted = 0
        # Revisions above 0, by query, key and window, until the window is out of reach.
        self.revisions: dict[tuple[int, ...], int] = {}
        self.previous: dict[tuple[int, int], tuple[Any, ...]] = {}  # for emit="on_change"
        self.last_shown = LastShown()  # for having
        self.shown_early: Callable[[tuple[int, ...]], bool] | None = None  # tells which windows were
        self.adapt()

    def adapt(self) -> None:
        """Follow a change of the queries."""
        self.save()
        self._output_plans: dict[frozenset[int], list[Any]] = {}

    def forget(self, number: int) -> None:
        """Forget what only a removed query needed."""
        self.save()
        self.previous = {who: values for who, values in self.previous.items() if who[0] != number}
        self.revisions = {identity: r for identity, r in self.revisions.items() if identity[0] != number}
        self.last_shown.keep(lambda identity: identity[0] != number)

    def parts(self) -> Iterable[Transactional]:
        """Return what is known of bounds last shown."""
        return (self.last_shown,)

    # ---- which windows ----

    def quiet_until(self, watermark: int) -> bool:
        """Tell whether no window can come into view up to a watermark."""
        return all(watermark < family.next_deadline() for family in self.slices.families.values())

    def on_grids_only(self, watermark: int) -> SliceFamily | None:
        """Return the family on grids, if only its windows come into view, and one by one; else None."""
        if self.store not in ("auto", "lazy"):
            return None
        due = [f for f in self.slices.families.values() if watermark >= f.next_deadline()]
        return due[0] if len(due) == 1 and due[0].on_grid else None

    def advance(self, moment: Moment, into: Emission) -> None:
        """Add windows that came into view, changed or went to an emission."""
        families = self.slices.families.values()
        self.emit([group for family in families for group in family.advance(moment)], into)

    def freeze(self, moment: Moment, level: int, into: Emission) -> None:
        """Add windows that no record counts for any more, before overdue records change their slices."""
        families = self.slices.families.values()
        self.emit([group for family in families for group in family.freeze(moment, level)], into)

    # ---- from slices to aggregates ----

    def look_up(self, store: AggregateStore, rows: Rows) -> Emission:
        """Return rows with their aggregates, folded by themselves: what windows need stays as it is."""
        emission, combines, by_query = Emission(), self.final_combines, self._combines_of
        self._combines_of = by_query.copy()
        self._emit(store, [rows], emission, "lazy")
        self.final_combines, self._combines_of = combines, by_query
        return emission

    def emit(self, groups: Iterable[tuple[AggregateStore, Rows]], into: Emission) -> None:
        """Add rows with their aggregates to an emission."""
        by_store: dict[int, tuple[AggregateStore, list[Rows]]] = {}
        for store, rows in groups:
            by_store.setdefault(id(store), (store, []))[1].append(rows)
        for store, some in by_store.values():
            self._emit(store, some, into, self.store)

    def _emit(self, store: AggregateStore, groups: list[Rows], into: Emission, setting: Store) -> None:
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
        folded = FoldedRows(store, setting, rows, self.plan)
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
        if folded.combines:
            alone = len(folded.queries) == 1
            cells = {int(rows.query[0]): 1} if alone else _cells_of(rows)
            self.share_combines(folded.combines, cells)

    def share_combines(self, combines: int, cells: Mapping[int, float]) -> None:
        """Count the combines of windows for their queries, by how many cells the windows of each have."""
        highest, total = max(cells), sum(cells.values())
        if highest >= len(self._combines_of):
            self._combines_of = np.append(self._combines_of, np.zeros(highest + 1))
        for number, count in cells.items():
            self.overwrite(self._combines_of, number)
            self._combines_of[number] += combines * count / total

    def combines_of(self, number: int) -> int:
        """Return the combines that it took to fold the windows of a query."""
        return round(float(self._combines_of[number])) if number < len(self._combines_of) else 0

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

    def _in_any_order(self, store: AggregateStore, queries: frozenset[int]) -> bool:
        """Tell whether rows need not come query by query, as some folds ask for."""
        if len(queries) == 1:
            return True
        twins = self.plan.twins()
        alike = len({twins[number] for number in queries}) < len(queries)  # folded once for several queries
        return not alike and strategies.in_any_order(self.store, store.fields.values(), len(queries))

    def _revisions(self, rows: Rows, change: NDArray[np.int8]) -> Indices:
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

    def evict(self, reach: int) -> None:
        """Forget revisions of windows that can change no more."""
        by_query = self.slices.by_query
        self.revisions = {
            identity: revision
            for identity, revision in self.revisions.items()
            if identity[0] in by_query and by_query[identity[0]].may_change(identity, reach)
        }
        self.last_shown.keep(self._has_revisions)

    def _has_revisions(self, identity: tuple[int, ...]) -> bool:
        """Tell whether a window had rows before, and may get more."""
        family = self.slices.by_query.get(identity[0])
        if self.shown_early is not None and self.shown_early(identity):
            return True
        return identity in self.revisions or (family is not None and family.has_revisions(identity))

    def remembered(self) -> Codes:
        """Return the keys whose last row must be remembered."""
        return np.array([code for _, code in self.previous], np.int64)

    def keep_keys(self, codes: Codes) -> None:
        """Give keys other numbers: codes[old] is the new one, below 0 for those that are forgotten."""
        self.previous = {(number, int(codes[code])): v for (number, code), v in self.previous.items()}
        self.last_shown.renumber(codes)
        self.revisions = {
            (number, int(codes[code]), *rest): revision
            for (number, code, *rest), revision in self.revisions.items()
            if codes[code] >= 0
        }


def _cells_of(rows: Rows) -> dict[int, float]:
    """Return how many cells the windows of each query have, all together."""
    counts = np.bincount(rows.query, rows.high - rows.low)
    at = counts.nonzero()[0]
    return dict(zip(at.tolist(), counts[at].tolist(), strict=True))
