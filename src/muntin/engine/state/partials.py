"""Partials of slices from the tables of a snapshot, as far as they can be what records came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.algebra.aggregate import TIME
from muntin.engine.partials.base import ABSENT, FieldPartials, States
from muntin.engine.partials.compiled import CompiledField
from muntin.engine.partials.objects import ObjectField
from muntin.engine.partials.pool import PooledField
from muntin.engine.partials.sketches import SketchField
from muntin.engine.plan.column_values import fit, fits
from muntin.engine.plan.queries import FieldPlan
from muntin.engine.state.tables import SnapshotTable

Types = Mapping[str, pa.DataType]
Cells = Mapping[str, NDArray[np.int64]]
_COUNTS = {
    "rows": 0,
    "n": 0,
    "max_count": 1,
    "min_count": 1,
    "spread": 0,
    "joint": 0,
}  # which scalar counts records


def load_states(
    partials: FieldPartials, plan: FieldPlan, stored: SnapshotTable, name: str, cells: Cells, types: Types
) -> States:
    """Return the partials of cells that were dumped under a name."""
    if not len(stored):
        return partials.allocate(0)
    if isinstance(partials, PooledField):
        return _pooled(partials, plan, stored, name, cells, types)
    if isinstance(partials, SketchField):
        return _sketches(partials, stored, name, types[plan.field.columns[0]])
    if isinstance(partials, ObjectField):
        return _objects(partials, plan, stored, name, cells, types)
    assert isinstance(partials, CompiledField)
    states = partials.allocate(len(stored))
    present = np.ones(len(stored), bool)
    if partials.nullable:
        states["f0"] = present = stored.numbers(f"{name}.present", "b1")
    scalars = partials.scalar_views(states)
    for k, column in enumerate(scalars):
        column[:] = stored.numbers(f"{name}.{k}", column.dtype.str[1:])
    if partials.part is not None:
        some = {n: column[present] for n, column in cells.items()}
        for k, (code, column) in enumerate(zip(partials.part.fields, scalars, strict=True)):
            told = _wrong_scalar(plan, k, code, column[present], some, types)
            stored.require(told is None, f"has partials of field {name} {told}")
    return states


def _wrong_scalar(
    plan: FieldPlan, k: int, code: str, column: NDArray[Any], cells: Cells, types: Types
) -> str | None:
    """Return what is wrong with a scalar of all partials; None if nothing is.

    It is 0 in slices of records from before there was a query that reads the field.
    """
    part, columns = plan.field.part, plan.field.columns
    if _COUNTS.get(part) == k and not ((column >= 0) & (column <= cells["rows"])).all():
        return "that count other records than there are"
    if code in ("v", "a"):
        read = columns[0 if code == "v" else 1]
        if not fits(column, types[read]):
            return f"that are no {types[read]}"
        within = (column >= cells["first"]) & (column <= cells["last"])
        if read == TIME and not (within | (column == 0)).all():
            return "with times that are none of their records"
    return None


def _objects(
    partials: ObjectField, plan: FieldPlan, stored: SnapshotTable, name: str, cells: Cells, types: Types
) -> States:
    states, decoded = partials.allocate(len(stored)), stored.objects(name)
    own = partials.own
    load = getattr(own, "load", None) if hasattr(own, "dump") else None
    for i, state in enumerate(decoded):
        states[i] = state if load is None or state is ABSENT else load(state)
    if partials.part is None:
        return states
    codes = partials.part.fields
    there = [(i, state) for i, state in enumerate(decoded) if state is not ABSENT]
    rows = [(state,) if len(codes) == 1 else state for _, state in there]
    stored.require(
        all(type(row) is tuple and len(row) == len(codes) for row in rows),
        f"has partials of field {name} that are none",
    )
    some = {n: column[[i for i, _ in there]] for n, column in cells.items()}
    for k, code in enumerate(codes):
        told = _wrong_objects(plan, k, code, [row[k] for row in rows], some, types)
        stored.require(told is None, f"has partials of field {name} {told}")
    return states


def _wrong_objects(
    plan: FieldPlan, k: int, code: str, values: Sequence[Any], cells: Cells, types: Types
) -> str | None:
    """Return what is wrong with a scalar of all partials, as objects; None if nothing is."""
    if code in ("v", "a"):
        kind = types[plan.field.columns[0 if code == "v" else 1]]
        there = values if code == "v" else [value for value in values if value is not None]
        if not fit(there, kind, summed=plan.field.part == "sum"):
            return f"that are no {kind}"
        return None
    kind = float if code == "f8" else int
    if not all(type(value) is kind for value in values):
        return f"that are no {'floats' if code == 'f8' else 'whole numbers'}"
    counts = zip(values, cells["rows"].tolist(), strict=True) if _COUNTS.get(plan.field.part) == k else ()
    if not all(1 <= count <= rows for count, rows in counts):
        return "that count other records than there are"
    return None


def _sketches(partials: SketchField, stored: SnapshotTable, name: str, kind: pa.DataType) -> States:
    states = partials.allocate(len(stored))
    for i, blob in enumerate(stored.blobs(name)):
        if blob is not None:
            try:
                states[i] = partials.of_bytes(blob, kind)
            except (ValueError, RuntimeError, LookupError, TypeError, MemoryError) as error:
                raise stored.wrong(f"has a sketch of field {name} that does not read as one") from error
    return states


def _pooled(
    partials: PooledField, plan: FieldPlan, stored: SnapshotTable, name: str, cells: Cells, types: Types
) -> States:
    values, bounds = stored.lists(f"{name}.values")
    read = SnapshotTable(pa.table({"values": values}), f"{name}.values")
    kind = read.kind("values") if partials.kinds is None else partials.kinds[0]
    listed, column = read.values("values", kind), types[plan.field.columns[0]]
    fitting = fits(listed, column) if kind else fit(listed.tolist(), column)
    stored.require(fitting, f"has values of field {name} that are no {column}")
    counts = np.ones(len(listed), np.int64)
    if partials.counted:
        numbers, others = stored.lists(f"{name}.counts")
        stored.require(np.array_equal(bounds, others), f"has other counts than values of field {name}")
        counts = SnapshotTable(pa.table({"counts": numbers}), f"{name}.counts").numbers("counts", low=1)
        stored.require(partials.ascending(listed, bounds), f"has values of field {name} that do not ascend")
    total = np.append(0.0, np.cumsum(counts, dtype=float))
    few = total[bounds[1:]] - total[bounds[:-1]] <= cells["rows"]
    stored.require(few, f"has more values of field {name} than records")
    return partials.load(listed, counts, bounds)
