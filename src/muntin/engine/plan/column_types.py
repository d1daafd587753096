"""Types of columns: which of them fields read as numbers."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from muntin.columnar import counts_ticks
from muntin.engine.plan.queries import FieldPlan


def kinds_of(plan: FieldPlan, types: Mapping[str, pa.DataType]) -> tuple[str, ...] | None:
    """Return the type codes of a field's columns; None if they are not all numbers."""
    codes: list[str] = []
    for name in plan.field.columns:
        kind = types[name]
        temporal = counts_ticks(kind) and plan.own is None
        if pa.types.is_floating(kind):
            codes.append("f8")
        elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or temporal:
            codes.append("i8")
        else:
            return None
    return tuple(codes)
