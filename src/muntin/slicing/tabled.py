"""Partials, cells and records as Arrow tables, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.slicing.envelope import SnapshotError, decode, encode
from muntin.slicing.fields import ABSENT, CompiledField, FieldPartials, ObjectField, States, Values
from muntin.slicing.pooled import PooledField
from muntin.slicing.records import RecordLog
from muntin.slicing.sketch_fields import SketchField
from muntin.slicing.store import AggregateStore

_CELLS = ("code", "start", "first", "last", "rows")


def dump_states(partials: FieldPartials, states: States, name: str) -> dict[str, pa.Array]:
    """Return partials as columns whose names begin with this one."""
    if isinstance(partials, PooledField):
        return _dump_pooled(partials, states, name)
    if isinstance(partials, CompiledField):
        present = partials.present(states)
        columns = {} if present is None else {f"{name}.present": pa.array(present)}
        return columns | {f"{name}.{k}": pa.array(c) for k, c in enumerate(partials.scalars(states))}
    if isinstance(partials, SketchField):
        return {name: partials.dump(states)}
    return {name: pa.array([json.dumps(_dumped(partials, state)) for state in states], pa.string())}


def _dumped(partials: FieldPartials, state: Any) -> Any:
    """Return a state as JSON can hold it, by way of the user's own function if there is one."""
    own = partials.own if isinstance(partials, ObjectField) else None
    dump = getattr(own, "dump", None)
    try:
        return encode(state if dump is None or state is ABSENT else dump(state))
    except SnapshotError as error:
        if own is None:
            raise
        what = "what its dump gives" if dump is not None else "its state"
        raise SnapshotError(
            f"{own!r} cannot be kept in a snapshot, since {what} holds a {error.found}: give its class "
            "dump(state), which returns numbers, texts, bytes, lists or dicts, and load(dumped), which makes "
            "a state of them."
        ) from error


def load_states(partials: FieldPartials, table: pa.Table, name: str) -> States:
    """Return the partials that were dumped under a name."""
    if isinstance(partials, PooledField) and table.num_rows:
        return _load_pooled(partials, table, name)
    states = partials.allocate(table.num_rows)
    if not table.num_rows:
        return states
    if isinstance(partials, SketchField):
        return partials.load(table[name])
    if isinstance(partials, ObjectField):
        load = getattr(partials.own, "load", None) if hasattr(partials.own, "dump") else None
        for i, text in enumerate(table[name].to_pylist()):
            state = decode(json.loads(text))
            states[i] = state if load is None or state is ABSENT else load(state)
        return states
    assert isinstance(partials, CompiledField)
    if partials.nullable:
        states["f0"] = numbers_of(table, f"{name}.present")
    columns = partials.scalar_views(states)
    for k, column in enumerate(columns):
        column[:] = numbers_of(table, f"{name}.{k}")
    return states


def _dump_pooled(partials: PooledField, states: States, name: str) -> dict[str, pa.Array]:
    """Return stretches of values as lists, and how many records have each."""
    values, counts, bounds = partials.dump(states)
    offsets = pa.array(bounds)
    columns = {f"{name}.values": pa.LargeListArray.from_arrays(offsets, plain_column(values))}
    if partials.counted:
        columns[f"{name}.counts"] = pa.LargeListArray.from_arrays(offsets, pa.array(counts))
    return columns


def _load_pooled(partials: PooledField, table: pa.Table, name: str) -> States:
    lists = table[f"{name}.values"].combine_chunks()
    bounds = lists.offsets.to_numpy()
    values = load_column(pa.table({"values": lists.flatten()}), "values") if bounds[-1] > bounds[0] else []
    counts = np.ones(0, np.int64)
    if partials.counted:
        counts = table[f"{name}.counts"].combine_chunks().flatten().to_numpy()
    return partials.load(np.asarray(values), counts, bounds - bounds[0])


def numbers_of(table: pa.Table, name: str) -> Any:
    """Return a column of numbers."""
    return table[name].combine_chunks().to_numpy(zero_copy_only=False) if table.num_rows else []


def dump_store(store: AggregateStore) -> pa.Table:
    """Return the cells of a store."""
    columns: dict[str, Any] = {name: pa.array(store.column(name)) for name in _CELLS}
    for number, partials in store.fields.items():
        columns |= dump_states(partials, store.states(number), str(number))
    return pa.table(columns)


def load_store(store: AggregateStore, table: pa.Table) -> None:
    """Fill a store, whose fields are set, with cells."""
    columns = {name: np.array(numbers_of(table, name), np.int64) for name in _CELLS}
    none = np.zeros(table.num_rows, np.int64)
    states = {n: load_states(p, table, str(n)) for n, p in store.fields.items()}
    store.load(columns | {"fresh": none, "older": none}, states)


def dump_log(log: RecordLog) -> pa.Table:
    """Return kept records."""
    columns: dict[str, Any] = {"time": log.times, "code": log.codes, "overdue": log.overdue}
    if log.tie is not None:
        columns["tie"] = plain_column(log.tie)
    for number, values in log.values.items():
        for k, column in enumerate(values.columns):
            columns[f"{number}.{k}"] = plain_column(column)
        if values.valid is not None:
            columns[f"{number}.valid"] = values.valid
    return pa.table(columns)


def plain_column(column: Any) -> Any:
    """Return a column as Arrow can hold it; objects as texts."""
    if column.dtype != object:
        return pa.array(column)
    return pa.array([json.dumps(encode(value)) for value in column], pa.string())


def load_log(
    log: RecordLog, table: pa.Table, fields: Mapping[int, FieldPartials], kinds: Mapping[int, Any]
) -> None:
    """Fill a log with records."""
    log.times = np.array(numbers_of(table, "time"), np.int64)
    log.codes = np.array(numbers_of(table, "code"), np.int64)
    log.overdue = np.array(numbers_of(table, "overdue"), bool)
    log.fresh = np.zeros(len(log.times), bool)
    log.tie = load_column(table, "tie") if "tie" in table.column_names else None
    if not len(log.times):
        return
    for number in log.fields:
        names = [name for name in table.column_names if name.startswith(f"{number}.") and "valid" not in name]
        columns = tuple(
            load_column(table, name) for name in sorted(names, key=lambda n: int(n.split(".")[1]))
        )
        valid = None
        if f"{number}.valid" in table.column_names:
            valid = np.array(numbers_of(table, f"{number}.valid"), bool)
        partials = fields.get(number)
        compiled = (
            partials is not None and partials.kinds is not None
        ) or number < 0  # below 0: read by windows
        if names or kinds[number] == ():
            log.values[number] = Values(columns, valid, len(log.times), kinds[number] if compiled else None)


def load_column(table: pa.Table, name: str) -> Any:
    """Return the column that was dumped under a name."""
    if not pa.types.is_string(table[name].type):
        column = np.array(numbers_of(table, name))
        column.flags.writeable = False  # as those of batches are: kernels are compiled for one kind only
        return column
    out = np.empty(table.num_rows, object)
    out[:] = [decode(json.loads(text)) for text in table[name].to_pylist()]
    return out
