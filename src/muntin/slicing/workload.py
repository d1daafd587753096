"""What a workload asks of the slices, and why: the decision trees of general stream slicing.

Traub et al., Efficient Window Aggregation with General Stream Slicing (EDBT 2019): Figure 4 (must
records be kept?), Figure 5 (are slices split?), Figure 6 (how are records removed from a slice?), and
Section 5.3, step 1 (where are slices cut?).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from muntin.algebra.aggregate import Aggregate
from muntin.windows.base import Context, Query, Window

Measure = Literal["time", "count"]
# From the cheapest to the dearest: `together` takes the last that any query asks for.
Splits = Literal["never", "in gaps", "by recomputing"]
Removal = Literal["never", "invert", "if extreme", "recompute"]
CutAt = Literal["starts", "starts and ends"]

_FIELDS = ("keep_records", "splits", "removal", "cut_at")
_SPLITS: tuple[Splits, ...] = ("never", "in gaps", "by recomputing")
_REMOVAL: tuple[Removal, ...] = ("never", "invert", "if extreme", "recompute")
_CUT_AT: tuple[CutAt, ...] = ("starts", "starts and ends")


@dataclass(frozen=True)
class Characteristics:
    """What the trees ask about one aggregate over one window.

    `context` is seen along the window's own measure. `invertible`: the newest record of a slice can be
    taken out of its state. `selective`: the state is always that of one record, as for max.
    """

    in_order: bool
    context: Context
    session: bool
    measure: Measure
    commutative: bool
    invertible: bool
    selective: bool


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


def characteristics(window: Window, aggregate: Aggregate, *, in_order: bool) -> Characteristics:
    """Return what the trees need to know of a window and an aggregate.

    Windows by count are a grid of positions, known in advance: in their own measure they are context
    free, though not in time. Records that arrive out of order move from slice to slice; no edge moves.

    >>> import muntin as mt
    >>> from muntin.windows import count_sliding
    >>> c = characteristics(count_sliding(100, every=10), mt.max("v"), in_order=False)
    >>> c.context, c.measure, c.selective
    ('context free', 'count', True)
    """
    by_count = window.family == "count"
    return Characteristics(
        in_order=in_order,
        context="context free" if by_count else window.context,
        session=window.family == "session",
        measure="count" if by_count else "time",
        commutative=aggregate.commutative,
        # Not aggregate.invertible, which is about the oldest record: here it is the newest that leaves.
        invertible=aggregate.algebra(inverting=True).invert is not None,
        selective=aggregate.selective,
    )


def together(decisions: Iterable[Decisions]) -> Decisions:
    """Return what all queries ask of the slices they share; the reasons are those of the most demanding.

    >>> import muntin as mt
    >>> from muntin.windows import session, tumbling
    >>> windows = tumbling("1m"), session("30s")
    >>> d = together(decide(characteristics(w, mt.sum("v"), in_order=False)) for w in windows)
    >>> d.keep_records, d.splits, d.removal, d.cut_at
    (False, 'in gaps', 'never', 'starts and ends')
    """
    each = tuple(decisions) or (_NOTHING,)
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
    each = [characteristics(query.window, a, in_order=False) for a in query.aggregates.values()]
    if any(decide(c).keep_records for c in each):
        return False
    return not late or (all(c.context == "context free" for c in each) and not query.emit_empty)


def _keep_records(c: Characteristics) -> tuple[bool, str]:
    """Figure 4."""
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
    if c.context == "forward context aware":
        return "by recomputing", "Later records set edges in slices that are already filled."
    if c.in_order:
        return "never", "Records arrive in order, and every edge is known before the records after it."
    if c.session:
        return "in gaps", "A record out of order can begin a session, but only where there are no records."
    return "by recomputing", "A record out of order can set an edge in a slice that is already filled."


def _removal(c: Characteristics) -> tuple[Removal, str]:
    """Figure 6, and Section 6.3.2 on aggregates that select."""
    if c.measure == "time":
        return "never", "Windows by time never move a record to another slice."
    if c.in_order:
        return "never", "Records arrive in order, so each keeps its position."
    if c.invertible:
        return "invert", "Records out of order push others to the next slice; the aggregate has an inverse."
    if c.selective:
        return "if extreme", "Records out of order push others to the next slice; one record alone counts."
    return "recompute", "Records out of order push others to the next slice; the aggregate has no inverse."


def _cut_at(c: Characteristics) -> tuple[CutAt, str]:
    """Section 5.3, step 1."""
    if c.in_order:
        return "starts", "A window that ends sees all slices so far, and nothing joins them later."
    return "starts and ends", "Records out of order may still join the last slice of an ended window."


_NOTHING = Decisions(
    False, "never", "never", "starts", tuple((field, "There are no queries.") for field in _FIELDS)
)
