"""What a workload asks of the slices, and why: the decision trees of general stream slicing.

Traub et al., Efficient Window Aggregation with General Stream Slicing (EDBT 2019): Figure 4 (must
records be kept?), Figure 5 (are slices split?), Figure 6 (how are records removed from a slice?), and
Section 5.3, step 1 (where are slices cut?).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal

from muntin.algebra.aggregate import Aggregate
from muntin.windows.base import Context, Query, Window

Measure = Literal["time", "count"]
# From the cheapest to the dearest: `together` takes the last that any query asks for.
Splits = Literal["never", "in gaps", "by recomputing"]
Removal = Literal["never", "invert", "if extreme", "recompute"]
CutAt = Literal["gaps", "starts", "starts and ends", "each record"]
_FIELDS = ("keep_records", "splits", "removal", "cut_at")
_SPLITS: tuple[Splits, ...] = ("never", "in gaps", "by recomputing")
_REMOVAL: tuple[Removal, ...] = ("never", "invert", "if extreme", "recompute")
_CUT_AT: tuple[CutAt, ...] = ("gaps", "starts", "starts and ends", "each record")


@dataclass(frozen=True)
class Abilities:
    """What can be done with the partials of a field.

    `invertible`: the newest record of a slice can be taken out of its partial, exactly. `selective`: the
    partial is always that of one record, as for max.
    """

    commutative: bool
    invertible: bool
    selective: bool

    @classmethod
    def of(cls, aggregate: Aggregate) -> Abilities:
        """Return what an aggregate declares; the form that its partials are kept in may allow less."""
        # Not aggregate.invertible, which is about the oldest record: here it is the newest that leaves.
        inverse = aggregate.algebra(inverting=True).invert is not None
        return cls(aggregate.commutative, inverse, aggregate.selective)


@dataclass(frozen=True)
class Stream:
    """What the trees ask about the stream, and about the windows beside which one is decided."""

    in_order: bool
    corrects: bool = True  # windows in view may change: there is a lateness, or equal times have an order
    each_record: bool = False  # slices hold one record each, for the sake of some window


@dataclass(frozen=True)
class Characteristics:
    """What the trees ask about one field over one window.

    `context` is seen along the window's own measure. The last two are not in the paper, where each record
    joins a slice as it arrives: `settles` says that it waits until nothing can come before it, `each_record`
    that it then has a slice of its own.
    """

    in_order: bool
    context: Context
    session: bool
    measure: Measure
    commutative: bool
    invertible: bool
    selective: bool
    settles: bool = False
    each_record: bool = False


@dataclass(frozen=True)
class Decisions:
    """What to keep, how slices change, where they are cut; `reasons` has a sentence for each field.

    splits: "in gaps", where there is no record, changes only the bounds of slices.
    removal: "if extreme" computes a slice anew only if the record that leaves is the one selected.
    """

    keep_records: bool
    splits: Splits
    removal: Removal
    cut_at: CutAt
    reasons: tuple[tuple[str, str], ...] = ()


@cache
def decide(c: Characteristics) -> Decisions:
    """Follow the trees for one aggregate over one window.

    >>> late_max = Characteristics(in_order=False, context="context free", session=False, measure="time",
    ...                            commutative=True, invertible=False, selective=True)
    >>> d = decide(late_max)
    >>> d.keep_records, d.splits, d.removal, d.cut_at
    (False, 'never', 'never', 'starts and ends')
    >>> dict(d.reasons)["splits"]
    'The edges of the windows are known in advance.'
    """
    keep_records, why_kept = _keep_records(c)
    splits, why_split = _splits(c)
    removal, why_removed = _removal(c)
    cut_at, why_cut = _cut_at(c)
    reasons = tuple(zip(_FIELDS, (why_kept, why_split, why_removed, why_cut), strict=True))
    return Decisions(keep_records, splits, removal, cut_at, reasons)


def characteristics(window: Window, abilities: Abilities, stream: Stream) -> Characteristics:
    """Return what the trees need to know of a window and a field.

    Windows by count are a grid of positions, known in advance: in their own measure they are context
    free, though not in time. Records that arrive out of order move from slice to slice; no edge moves.
    Windows that look at records read them once they are settled; so do count windows that no record corrects.

    >>> import muntin as mt
    >>> from muntin.windows import count_sliding
    >>> late = Stream(in_order=False)
    >>> c = characteristics(count_sliding(100, every=10), Abilities.of(mt.max("v")), late)
    >>> c.context, c.measure, c.selective, c.settles
    ('context free', 'count', True, False)
    """
    by_count, by_position = window.by_count, window.by_records
    return Characteristics(
        in_order=stream.in_order,
        context="context free" if by_count else window.context,
        session=window.by_gap,
        measure="count" if by_count else "time",
        commutative=abilities.commutative,
        invertible=abilities.invertible,
        selective=abilities.selective,
        settles=by_position or (by_count and not stream.corrects),
        each_record=by_position and stream.each_record,
    )


def together(decisions: Iterable[Decisions]) -> Decisions:
    """Return what all queries ask of the slices they share; the reasons are those of the most demanding.

    >>> import muntin as mt
    >>> from muntin.windows import session, tumbling
    >>> windows, total = (tumbling("1m"), session("30s")), Abilities.of(mt.sum("v"))
    >>> d = together(decide(characteristics(w, total, Stream(in_order=False))) for w in windows)
    >>> d.keep_records, d.splits, d.removal, d.cut_at
    (False, 'in gaps', 'never', 'starts and ends')
    """
    each = tuple(decisions) or (_NOTHING,)
    if len(each) == 1:
        return each[0]
    kept = max(each, key=lambda d: d.keep_records)
    split = max(each, key=lambda d: _SPLITS.index(d.splits))
    removed = max(each, key=lambda d: _REMOVAL.index(d.removal))
    cut = max(each, key=lambda d: _CUT_AT.index(d.cut_at))
    deciding = zip(_FIELDS, (kept, split, removed, cut), strict=True)
    reasons = tuple((field, why) for field, d in deciding for name, why in d.reasons if name == field)
    return Decisions(kept.keep_records, split.splits, removed.removal, cut.cut_at, reasons)


def merges_ahead(query: Query, *, late: bool) -> bool:
    """Tell whether records may be merged into partials elsewhere, before they reach the operator's slices.

    So it is where Figure 4 keeps no record of a stream out of order. `late`: records may be too late to
    count. Whether one counts for a window on a grid depends on the window's end alone, the same for all
    records of a slice; for a session, and for how far a key's records reach (`emit_empty`), each has to be
    asked by itself.

    >>> import muntin as mt
    >>> from muntin.windows import session, tumbling
    >>> merges_ahead(tumbling("1m").agg(top=mt.max("v")), late=True)
    True
    >>> visits = session("30s").agg(top=mt.max("v"))
    >>> merges_ahead(visits, late=True), merges_ahead(visits, late=False)
    (False, True)
    >>> merges_ahead(tumbling("1m").agg(v=mt.last("v")), late=False)
    False
    """
    stream = Stream(in_order=False)
    each = [characteristics(query.window, Abilities.of(a), stream) for a in query.aggregates.values()]
    if any(decide(c).keep_records for c in each):
        return False
    return not late or (all(c.context == "context free" for c in each) and not query.emit_empty)


def _keep_records(c: Characteristics) -> tuple[bool, str]:
    """Figure 4."""
    if c.in_order and c.each_record:
        return False, "Records arrive in order, and each has a slice of its own."
    if c.in_order:
        if c.context == "forward context aware":
            return True, "Later records set edges in slices that are already filled."
        return False, "Records arrive in order, and every edge is known before the records after it."
    if not c.commutative:
        return True, "Records may arrive out of order, and the aggregate depends on their order."
    if c.context != "context free" and not c.session:
        return True, "Records may arrive out of order and set edges in slices that are already filled."
    if c.measure == "count":
        return True, "A record out of order moves all later ones to other positions."
    if c.session:
        return False, "Sessions only merge or begin in gaps; the aggregate takes records in any order."
    return False, "Edges are known in advance, and the aggregate takes records in any order."


def _splits(c: Characteristics) -> tuple[Splits, str]:
    """Figure 5."""
    if c.context == "context free":
        return "never", "The edges of the windows are known in advance."
    if c.each_record:
        return "never", "Each record has a slice of its own."
    if c.context == "forward context aware":
        return "by recomputing", "Later records set edges in slices that are already filled."
    if c.in_order:
        return "never", "Records arrive in order, and every edge is known before the records after it."
    if c.session:
        return "in gaps", "A record out of order can begin a session, but only where there are no records."
    if c.settles:
        return "never", "Records join slices once nothing can come before them."
    return "by recomputing", "A record out of order can set an edge in a slice that is already filled."


def _removal(c: Characteristics) -> tuple[Removal, str]:
    """Figure 6, and Section 6.3.2 on aggregates that select."""
    if c.measure == "time":
        return "never", "Windows by time never move a record to another slice."
    if c.in_order:
        return "never", "Records arrive in order, so each keeps its position."
    if c.settles:
        return "never", "Records join slices once nothing can come before them, and keep their position."
    if c.invertible:
        return "invert", "Records out of order push others to the next slice; the aggregate has an inverse."
    if c.selective:
        return "if extreme", "Records out of order push others to the next slice; one record alone counts."
    return "recompute", "Records out of order push others to the next slice; the aggregate has no inverse."


def _cut_at(c: Characteristics) -> tuple[CutAt, str]:
    """Section 5.3, step 1."""
    if c.session:
        return "gaps", "A slice is a run of records no gap apart."
    if c.each_record:
        return "each record", "Windows look back from records, so that each has a slice of its own."
    if c.measure == "count" or c.context != "context free":
        return "starts and ends", "Windows begin and end at positions within a batch."
    if c.in_order:
        return "starts", "Once the end of a window has passed, nothing joins the slices before it."
    return "starts and ends", "Records out of order may still join the last slice of an ended window."


_NOTHING = Decisions(
    False, "never", "never", "gaps", tuple((field, "There are no queries.") for field in _FIELDS)
)
