"""Partials, cells and records as Arrow tables, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.columnar import frozen
from muntin.engine.ingest.batch import Values
from muntin.engine.listers.base import Signal
from muntin.engine.partials.base import ABSENT, FieldPartials, States
from muntin.engine.partials.compiled import CompiledField
from muntin.engine.partials.objects import ObjectField
from muntin.engine.partials.pool import PooledField
from muntin.engine.partials.sketches import SketchField
from muntin.engine.plan.column_values import as_arrow, fit, fits
from muntin.engine.plan.queries import FieldPlan
from muntin.engine.slices.record_log import Chunk, RecordLog
from muntin.engine.state.description import SnapshotError
from muntin.engine.state.envelope import encode
from muntin.engine.state.partials import load_states
from muntin.engine.state.tables import SnapshotTable
from muntin.engine.store.cells import AggregateStore
from muntin.windows.durations import LIMIT

_CELLS = ("code", "start", "first", "last", "rows")


@dataclass(frozen=True)
class Scope:
    """What tables of a snapshot must fit: keys by number, columns and fields."""

    keys: int
    types: Mapping[str, pa.DataType]
    plans: Mapping[int, FieldPlan]
    fields: Mapping[int, FieldPartials]
    tie: pa.DataType | None  # of what settles the order of equal times


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


def _dump_pooled(partials: PooledField, states: States, name: str) -> dict[str, pa.Array]:
    """Return stretches of values as lists, and how many records have each."""
    values, counts, bounds = partials.dump(states)
    offsets = pa.array(bounds)
    columns = {f"{name}.values": pa.LargeListArray.from_arrays(offsets, plain_column(values))}
    if partials.counted:
        columns[f"{name}.counts"] = pa.LargeListArray.from_arrays(offsets, pa.array(counts))
    return columns


def plain_column(column: Any) -> Any:
    """Return a column as Arrow can hold it; objects as texts."""
    if column.dtype != object:
        return pa.array(column)
    return pa.array([json.dumps(encode(value)) for value in column], pa.string())


def dump_store(store: AggregateStore) -> pa.Table:
    """Return the cells of a store."""
    columns: dict[str, Any] = {name: pa.array(store.column(name)) for name in _CELLS}
    for number, partials in store.fields.items():
        columns |= dump_states(partials, store.states(number), str(number))
    return pa.table(columns)


def load_store(store: AggregateStore, stored: SnapshotTable, scope: Scope) -> None:
    """Fill a store, whose fields are set, with cells."""
    columns = {
        "code": stored.numbers("code", low=0, high=scope.keys - 1),
        "start": stored.numbers("start"),
        "first": stored.numbers("first", low=1 - LIMIT, high=LIMIT - 1),
        "last": stored.numbers("last", low=1 - LIMIT, high=LIMIT - 1),
        "rows": stored.numbers("rows", low=1),
    }
    code, start, first, last = (columns[name] for name in _CELLS[:4])
    stored.require(first <= last, "has slices whose last record comes before the first")
    stored.require(int(columns["rows"].sum(dtype=float)) < LIMIT, "has more records than there can be")
    order = np.lexsort((start, code))
    older, newer = order[:-1], order[1:]
    same = code[older] == code[newer]
    stored.require((start[older] < start[newer])[same], "has two slices of a key that start together")
    stored.require((last[older] <= first[newer])[same], "has slices of a key that are not in order")
    none = np.zeros(len(stored), np.int64)
    states = {
        n: load_states(p, scope.plans[n], stored, str(n), columns, scope.types)
        for n, p in store.fields.items()
    }
    store.load(columns | {"fresh": none, "older": none}, states)


def dump_records(records: Chunk) -> pa.Table:
    """Return kept records, which lie by key."""
    columns: dict[str, Any] = {"time": records.times, "code": records.codes, "overdue": records.overdue}
    if records.tie is not None:
        columns["tie"] = plain_column(records.tie)
    for number, values in records.values.items():
        for k, column in enumerate(values.columns):
            columns[f"{number}.{k}"] = plain_column(column)
        if values.valid is not None:
            columns[f"{number}.valid"] = values.valid
    return pa.table(columns)


def load_log(
    log: RecordLog,
    stored: SnapshotTable,
    scope: Scope,
    signals: Mapping[int, tuple[Signal, ...]],
    *,
    older: bool = False,
) -> None:
    """Fill a log with records; `signals` are the columns that listers have read of them.

    With `older`, there may be records from before there was a field: they have no values for it.
    """
    time = stored.numbers("time", low=1 - LIMIT, high=LIMIT - 1)
    code = stored.numbers("code", low=0, high=scope.keys - 1)
    overdue = stored.numbers("overdue", "b1")
    behind = (code[1:] < code[:-1]) | ((code[1:] == code[:-1]) & (time[1:] < time[:-1]))
    stored.require(~behind, "has records that are not in order")
    tie = _ties(stored, scope)
    if not len(stored):
        return
    found = {}
    for number in log.fields:
        if number in signals:
            told = enumerate(signals[number])
            columns = tuple(_signal(stored, f"{number}.{k}", signal, scope) for k, signal in told)
            found[number] = Values(columns, None, len(stored), ())
        elif not older or not scope.plans[number].field.columns or f"{number}.0" in stored:
            found[number] = _field_values(stored, number, scope)
    log.load(Chunk(time, code, tie, overdue, None, found))


def _signal(stored: SnapshotTable, name: str, signal: Signal, scope: Scope) -> NDArray[Any]:
    """Return a column that a lister has read of records."""
    kind = signal.kind or stored.kind(name)
    if kind is not None:
        return frozen(stored.numbers(name, kind, None if signal.high is None else -signal.high, signal.high))
    values = stored.objects(name)
    if signal.column is not None:
        there, column = [value for value in values if value is not None], scope.types[signal.column]
        fitting = fit(there, column) if signal.read else as_arrow(there, column)
        stored.require(fitting, f"has values in column {name!r} that are no {column}")
    return values


def _ties(stored: SnapshotTable, scope: Scope) -> NDArray[Any] | None:
    """Return what settles the order of equal times, where something does."""
    if scope.tie is None or ("tie" not in stored and not len(stored)):
        return None
    ties = stored.values("tie", stored.kind("tie"))
    fitting = fits(ties, scope.tie) if ties.dtype != object else fit(ties.tolist(), scope.tie)
    stored.require(fitting, f"has ties that are no {scope.tie}")
    return ties


def _field_values(stored: SnapshotTable, number: int, scope: Scope) -> Values:
    """Return what a field has read of records."""
    partials, plan = scope.fields[number], scope.plans[number]
    valid = None
    if f"{number}.valid" in stored:
        valid = stored.numbers(f"{number}.valid", "b1")
    columns = []
    for k, name in enumerate(plan.field.columns):
        kind = partials.kinds[k] if partials.kinds is not None else stored.kind(f"{number}.{k}")
        column = stored.values(f"{number}.{k}", kind)
        there = column if valid is None else column[valid]
        # Only the first column decides whether there is a value: what comes with it may be null.
        listed = [] if kind else [value for value in there if value is not None or not k]
        fitting = fits(there, scope.types[name]) if kind else fit(listed, scope.types[name])
        stored.require(fitting, f"has values for field {number} that are no {scope.types[name]}")
        columns.append(column)
    return Values(tuple(columns), valid, len(stored), partials.kinds)
