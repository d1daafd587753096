"""The protocol of slice families: one class for each way in which slices come about.

A family holds the slices of its queries over one stream. The slice manager makes families, hands records to
them and evicts; the window manager asks them for rows. Neither knows which families there are:

    records  -->  add(arrival)  -->  advance(moment)  -->  rows with the ranges of cells they are made of
                       |                   |
                  slices change       the watermark moves
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muntin.columnar import Codes, Indices, Times
from muntin.engine.ingest.batch import Stretch, Values
from muntin.engine.ingest.columns import Columns
from muntin.engine.listers.base import Lister
from muntin.engine.partials.base import FieldPartials
from muntin.engine.plan.decisions import Decisions, Removal
from muntin.engine.plan.queries import PlannedQuery
from muntin.engine.rows import FOREVER, NEVER, Rows
from muntin.engine.slices.edges import Progression
from muntin.engine.slices.record_log import RecordLog
from muntin.engine.slices.revisions import Shifts
from muntin.engine.slices.slicer import StreamSlicer
from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.panes import Panes
from muntin.engine.transaction import Transactional

if TYPE_CHECKING:
    from muntin.engine.slices.grid.empty_windows import Expected, Records

Ties = NDArray[np.generic] | None
Retype = Callable[[Mapping[int, Values], int], dict[int, Values]]
Origin = int | None  # a stream is all records after this time; None: all


@dataclass(frozen=True)
class Moment:
    """A move of the watermark, and what the call that moves it has brought."""

    before: int
    after: int
    final: bool = False  # whether the stream ends
    late: bool = False  # whether there were records below `before`
    frozen: int = NEVER  # windows that freeze at this time or before can change no more

    @property
    def view(self) -> float:
        """Up to this time, windows are in view."""
        return math.inf if self.final else self.after


class Arrival:
    """The records of a call that count, cut once for all families that cut by time."""

    def __init__(
        self,
        stretch: Stretch,
        tie: Ties,
        slicer: StreamSlicer | None,
        fields: Mapping[int, FieldPartials],
        *,
        before: int = NEVER,
        touching: bool = False,
    ) -> None:
        self.stretch = stretch
        self.tie = tie
        self.before = before  # the watermark
        self.touching = touching  # whether there are records below it
        self.combines = 0  # that it took to put the records into slices
        self._slicer = slicer
        self._fields = fields
        self._panes: Panes | None = None

    def panes(self) -> Panes:
        """Return the records in panes."""
        if self._panes is None:
            assert self._slicer is not None
            self._panes = self._slicer.cut(self.stretch, self._fields)
            self.combines += len(self.stretch) - len(self._panes)
        return self._panes

    def panes_after(self, origin: Origin, fields: Mapping[int, FieldPartials]) -> Panes | None:
        """Return the records after an origin in panes; None if there are none."""
        part, _ = self.after(origin)
        if part is self.stretch:
            return self.panes()
        assert self._slicer is not None
        return self._slicer.cut(part, fields) if len(part) else None

    def after(self, origin: Origin) -> tuple[Stretch, Ties]:
        """Return the records after an origin."""
        stretch, tie = self.stretch, self.tie
        if origin is None or stretch.low > origin:
            return stretch, tie
        at = np.flatnonzero(stretch.times > origin)
        if not len(at):
            return Stretch(stretch.times[:0], stretch.codes[:0], stretch.keys, {}, False, 0, 0), tie
        return stretch.take(at), None if tie is None else tie[at]


@dataclass(frozen=True)
class Setting:
    """What the families of an engine share."""

    in_order: bool  # equal times included: no record ever comes before another
    tied: bool
    lateness: int
    make_lister: Callable[[PlannedQuery], Lister]


class Cuts(NamedTuple):
    """Where a family wants batches to be cut."""

    progressions: list[Progression]
    irregular: Sequence[tuple[Any, int]]
    gap: int | None


@dataclass(frozen=True)
class Adapted:
    """What a family follows when queries come and go."""

    queries: Sequence[PlannedQuery]
    fields: Mapping[int, FieldPartials]  # those that the queries read
    decisions: Mapping[int, Decisions]  # by query
    removals: Mapping[int, Removal] = field(default_factory=dict)  # by field


class Spot(NamedTuple):
    """Where a single record goes: to a cell, or to a NEW one that starts there."""

    store: AggregateStore
    start: int
    at: int


class SliceFamily(Transactional, ABC):
    """Slices of one kind, over one stream. See the module for who calls what, and when."""

    kind: ClassVar[str]  # in the registry and in snapshots
    by_origin: ClassVar[bool] = True  # whether streams with different origins have slices of their own
    by_time: ClassVar[bool] = False  # whether slices are cut by time, so that FlatFATs may be kept over them
    takes_overdue: ClassVar[bool] = False  # whether records count beyond the lateness
    on_grid: ClassVar[bool] = False  # whether a few rows can be made one by one (output/few_rows.py)
    by_position: ClassVar[bool] = False  # whether slices start at positions, which records may move

    def __init__(self, setting: Setting, origin: Origin, fields: Mapping[int, FieldPartials]) -> None:
        self.setting = setting
        self.origin = origin
        self.queries: Sequence[PlannedQuery] = ()
        self.store = AggregateStore(fields)

    # ---- queries ----

    @abstractmethod
    def adapt(self, adapted: Adapted) -> None:
        """Follow a change of the queries, or of how their fields are kept; the store has the fields after it.

        Called with at least one query.
        """

    def set_removals(self, removals: Mapping[int, Removal]) -> None:
        """Follow a change of how records leave slices, by field."""
        del removals

    def retype(self, listers: Mapping[int, Lister], read: Retype) -> None:
        """Go on with other listers, by query, and hold kept records in the form that `read` gives."""
        del listers, read

    def cuts(self) -> Cuts | None:
        """Return where batches are to be cut; None: the family does not cut by time."""
        return None

    def cut_anew(self, slicer: StreamSlicer) -> None:
        """Merge slices at edges that there are no longer."""

    def signals(self, columns: Columns, count: int) -> dict[int, Values]:
        """Return what a family itself reads of a batch, beside the fields."""
        del columns, count
        return {}

    # ---- records ----

    @abstractmethod
    def add(self, arrival: Arrival) -> NDArray[np.int64] | None:
        """Put records into slices; return cells whose order of records was lost, None: the family sees to it.

        Records are those that count for its queries: nothing is judged here but the origin.
        """

    def put(self, panes: Panes) -> None:
        """Put panes that were cut elsewhere into slices, where `by_time`."""
        raise TypeError(f"{type(self).__name__} takes no panes, of which there are {len(panes)}.")

    def spot(self, code: int, t: int) -> Spot | None:
        """Return where a single record goes; None if that is not so simple."""
        del code, t
        return None

    def adds_single(self) -> bool:
        """Tell whether `spot` may find a place."""
        return False

    def note_single(self, t: int) -> None:
        """Take note of a single record that was put where `spot` said."""

    @property
    def checks_times(self) -> bool:
        """Whether `check_span` may refuse a time."""
        return False

    @property
    def reports_empty(self) -> bool:
        """Whether a query reports windows without records."""
        return False

    def part_size(self, keys: int, *, alone: bool) -> int | None:
        """Return how many records of a large batch to take in at once; 0: any number, None: only all.

        Parts must give the same rows in the same order. `alone` tells that there is no other family.
        """
        del keys, alone
        return None

    @abstractmethod
    def wants(self, times: Times, frozen: Times, overdue: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which late records count for a query; windows that end at `frozen` or before are done."""

    def check_span(self, low: int, high: int) -> None:
        """Refuse times that windows do not reach."""

    def expect_empty(self, records: Records, before: int, after: int) -> list[Expected]:
        """Return what records, and a watermark after them, would do for queries with empty windows."""
        del records, before, after
        return []

    # ---- rows ----

    def freeze(self, moment: Moment, level: int) -> list[tuple[AggregateStore, Rows]]:
        """Return windows that no record counts for any more once the watermark is at a level.

        They are emitted before overdue records change their slices, where `takes_overdue`.
        """
        del moment, level
        return []

    @abstractmethod
    def advance(self, moment: Moment) -> list[tuple[AggregateStore, Rows]]:
        """Return windows that came into view, changed or went, each group with the store of its cells."""

    def emitted_until(self, watermark: int) -> None:
        """Note that all windows up to a watermark were emitted elsewhere, where `on_grid`."""
        raise TypeError(f"{type(self).__name__} emits its windows up to {watermark} itself.")

    def next_deadline(self) -> float:
        """Return a watermark before which no window comes into view, if no record does."""
        return NEVER

    @abstractmethod
    def may_change(self, identity: tuple[int, ...], reach: int) -> bool:
        """Tell whether a window may still change: (query, key, number), or (query, key, start, end)."""

    def only(self, numbers: Collection[int]) -> None:
        """Serve no queries but these, for a trial that is undone."""
        self.save()
        self.queries = [planned for planned in self.queries if planned.number in numbers]

    def shifts(self) -> Shifts | None:
        """Return where fresh records lie among the others, before `advance`; None: behind all of them."""
        return None

    def record_counts(self, codes: Codes) -> Indices | None:
        """Return how many records these keys have had, where `by_position`."""
        del codes
        return None

    def is_there(self, planned: PlannedQuery, code: int, identity: tuple[int, ...]) -> bool | None:
        """Tell whether there is a window, in view or not; None: only `advance` can tell."""
        del planned, code, identity
        return None

    def still_shown(
        self, number: int, windows: Mapping[tuple[int, ...], bool], reach: int
    ) -> set[tuple[int, ...]]:
        """Return the windows, by key and identity, that may get further rows; of each, whether it is gone."""
        return {who for who in windows if self.may_change((number, *who), reach)}

    def has_revisions(self, identity: tuple[int, ...]) -> bool:
        """Tell whether the family itself numbers the revisions of a window, and has done so."""
        del identity
        return False

    def look_up(self, planned: PlannedQuery, start: int, end: int, code: int | None) -> Rows | None:
        """Return for each key the slices between two times as a row; None if there are none."""
        del start, end, code
        raise ValueError(f"look-ups are by time: query {planned.name!r} has no slices by time yet.")

    # ---- eviction ----

    @abstractmethod
    def live(self, reach: float) -> NDArray[np.bool_]:
        """Return which cells a window to come can hold; nothing comes before `reach` any more."""

    def evict(self, reach: float) -> None:
        """Evict what no window to come can hold."""
        self.store.keep(self.live(reach))

    def settle(self) -> None:
        """Forget which records are fresh: the call that brought them is over."""

    def drop_derived(self) -> None:
        """Drop what can be made again from slices and records."""

    @abstractmethod
    def remembered(self, reach: float) -> Iterable[Codes]:
        """Return the keys that something must be remembered of beside their cells."""

    def keep_keys(self, codes: Codes) -> None:
        """Give keys other numbers: codes[old] is the new one, below 0 for those that are forgotten."""
        self.store.renumber(codes)

    # ---- what it holds ----

    def parts(self) -> Iterable[Transactional]:
        """Return the state that it is made of."""
        return (self.store,)

    def logs(self) -> Iterable[RecordLog]:
        """Return the records that wait."""
        return ()

    @property
    def records(self) -> int:
        """The number of records kept."""
        return 0

    @property
    def splittable(self) -> int:
        """The number of records that are kept to split slices."""
        return 0

    @property
    def nbytes(self) -> int:
        """The bytes of kept records, and of what is held beside cells."""
        return 0

    def kept_values(self) -> Iterable[Mapping[int, Values]]:
        """Return the values of all records that are kept, which may be cut otherwise."""
        return ()

    def describe(self, words: Callable[[int], str]) -> dict[str, str]:
        """Return how slices are cut, by topic; `words` says a number of ticks."""
        del words
        return {}

    def describe_memory(self, words: Callable[[int], str], late: str) -> dict[str, str]:
        """Return what is held and for how long, by topic; `late` says what a lateness adds."""
        del words, late
        return {}


class TimeFamily(SliceFamily):
    """Slices that are cut by time: panes are merged into cells."""

    by_time = True

    def adapt(self, adapted: Adapted) -> None:
        """Follow a change of the queries."""
        self.queries = adapted.queries
        self.store.set_fields(adapted.fields)

    def merge(self, panes: Panes, gap: int | None, arrival: Arrival | None) -> NDArray[np.int64]:
        """Merge panes into cells; return those whose order of records was lost."""
        before = self.store.count
        cells = self.store.add(panes, gap, tied=self.setting.tied)
        if arrival is not None:
            arrival.combines += len(panes) - (self.store.count - before)
        return cells

    def settle(self) -> None:
        """Forget which records are fresh: the call that brought them is over."""
        self.store.settle()

    def may_change(self, identity: tuple[int, ...], reach: int) -> bool:
        """Tell whether a window ends at `reach` or later."""
        return identity[3] >= reach

    def remembered(self, reach: float) -> Iterable[Codes]:
        """Return nothing: keys without cells are forgotten."""
        del reach
        return ()


def soonest(deadlines: Iterable[float]) -> float:
    """Return the least of some watermarks."""
    return min(deadlines, default=FOREVER)
