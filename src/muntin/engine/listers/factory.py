"""Which lister finds the windows of a rule, and what columns it can read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from muntin.engine.listers.base import Lister, PartedLister
from muntin.engine.listers.context_aware import AwareLister
from muntin.engine.listers.frames import (
    AggregateLister,
    DeltaLister,
    StateLister,
    ThresholdLister,
    WholeDeltaLister,
)
from muntin.engine.listers.lookback import LatestLister, LookBackLister, PolicyLister
from muntin.engine.listers.markers import GrowingLister, LengthLister, MeasureLister, PunctuationLister
from muntin.engine.listers.user import OwnPolicyLister, UserLister
from muntin.engine.plan.queries import PlannedQuery
from muntin.windows.aware import Aware
from muntin.windows.base import Window
from muntin.windows.frames import AggregateFrame, DeltaFrame, StateWindow, ThresholdFrame
from muntin.windows.measures import Measured
from muntin.windows.own import UserWindow
from muntin.windows.policies import OwnPolicies, Policies
from muntin.windows.punctuation import Landmarks, Punctuated
from muntin.windows.rolling import LatestRecords, LookBack

Types = Mapping[str, pa.DataType]


def make_lister(planned: PlannedQuery, types: Types) -> Lister:
    """Return the lister of a query."""
    rule, late = planned.window, planned.origin is not None
    if isinstance(rule, AggregateFrame):
        # count() looks at nothing, so that anything will do; of several columns, some may turn out null.
        columns = rule.aggregate.columns
        kinds = ("i8",) if not columns else numeric_kinds(columns, types) if len(columns) == 1 else None
        return AggregateLister(rule, planned.number, kinds, late=late)
    if isinstance(rule, UserWindow):
        return UserLister(rule, planned.number, numeric_kinds(rule.columns, types), late=late)
    return _lister_of(rule, types)(rule, planned.number, late=late)


def _lister_of(rule: Any, types: Types) -> type[Lister]:
    if isinstance(rule, Punctuated):
        return PartedLister if rule.end is None else PunctuationLister
    if isinstance(rule, Landmarks):
        if rule.every is not None:
            return GrowingLister
        ended = PunctuationLister if rule.until is not None else PartedLister
        return LengthLister if rule.length is not None else ended
    if isinstance(rule, DeltaFrame):
        kind = types[rule.value]  # null: any lister finds nothing yet, and another may take over
        return DeltaLister if pa.types.is_floating(kind) or pa.types.is_null(kind) else WholeDeltaLister
    return _LISTERS[type(rule)]


def typed_columns(rule: Any) -> set[str]:
    """Return the columns by whose types the lister of a rule is chosen, or compiled.

    Where they are null, it has begun no window: of null, none begins.
    """
    if isinstance(rule, DeltaFrame):
        return {rule.value}
    alone = isinstance(rule, AggregateFrame) and len(rule.aggregate.columns) == 1
    return set(rule.aggregate.columns) if alone else set()


_LISTERS: dict[type, type[Lister]] = {
    ThresholdFrame: ThresholdLister,
    StateWindow: StateLister,
    LookBack: LookBackLister,
    LatestRecords: LatestLister,
    Measured: MeasureLister,
    Policies: PolicyLister,
    OwnPolicies: OwnPolicyLister,
    Aware: AwareLister,
}


def numeric_kinds(columns: Iterable[str], types: Types) -> tuple[str, ...] | None:
    """Return the type codes of columns; None: they are not all numbers that compiled code can hold."""
    kinds = []
    for name in columns:
        kind = types[name]
        whole = pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
        if not whole and not pa.types.is_floating(kind):
            return None
        kinds.append("i8" if whole else "f8")
    return tuple(kinds)


_USES: dict[str, tuple[str, Any]] = {
    "flag": ("booleans", pa.types.is_boolean),
    "number": (
        "numbers other than uint64",
        lambda kind: (
            (pa.types.is_integer(kind) and not pa.types.is_uint64(kind)) or pa.types.is_floating(kind)
        ),
    ),
    "measure": (
        "whole or finite numbers",
        lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind),
    ),
}


def check_inputs(window: Window, types: Types) -> None:
    """Refuse a window over a column of a type that it cannot read; null may turn out to be any."""
    for name, use in window.inputs():
        kind = types[name]
        if use != "any" and not pa.types.is_null(kind) and not _USES[use][1](kind):
            raise TypeError(f"{window!r} needs {_USES[use][0]} in column {name!r}, which holds {kind}.")
