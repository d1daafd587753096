"""Panes on their way from where they were cut to the slices of an operator: as Arrow tables, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.engine.ingest import reader
from muntin.engine.ingest.batch import Values
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.ingest.reading import read_batch
from muntin.engine.partials.factory import make_field
from muntin.engine.plan import column_types
from muntin.engine.state.cells import dump_states
from muntin.engine.state.partials import load_states
from muntin.engine.state.tables import SnapshotTable
from muntin.engine.store.panes import Panes

if TYPE_CHECKING:
    from muntin.engine.engine import Engine

_CELLS = ("start", "first", "last", "rows")
_FORMS = b"muntin.forms"
_WIDTH = {"plain": 0, "nullable": 1, "object": 2}  # each form holds what those before it do


def cut(engine: Engine, keys: KeyTable, columns: Mapping[str, pa.Array], time: str) -> Panes:
    """Cut records into panes at the edges of an engine's windows."""
    times = reader.read_times(columns[time], time)
    records = read_batch(engine, keys, columns, times, time, None).records
    assert engine.slices.slicer is not None
    return engine.slices.slicer.cut(records, engine.slices.fields)


def dump_panes(engine: Engine, keys: KeyTable, panes: Panes) -> pa.Table:
    """Return panes as a table: keys, times, and the partials of each field."""
    columns = {f"key {k}": column for k, column in enumerate(keys.values(panes.code))} if keys.names else {}
    columns |= {name: pa.array(getattr(panes, name)) for name in _CELLS}
    forms = {}
    for number, states in panes.states.items():
        partials = engine.slices.fields[number]
        columns |= dump_states(partials, states, str(number))
        forms[number] = partials.form
    return pa.table(columns).replace_schema_metadata({_FORMS: json.dumps(forms).encode()})


def load_panes(
    engine: Engine, keys: KeyTable, tables: Sequence[pa.Table], numbers: Mapping[int, int]
) -> Panes:
    """Return the panes of tables by time; `numbers` has for each field there its number in the engine."""
    found = []
    for table in tables:
        codes = keys.encode([table[f"key {k}"].combine_chunks() for k in range(len(keys.names))])
        code = codes if keys.names else np.zeros(table.num_rows, np.int64)
        start, first, last, rows = (np.ascontiguousarray(table[name].to_numpy()) for name in _CELLS)
        found.append(Panes(code, start, first, last, rows))
    forms = [json.loads(table.schema.metadata[_FORMS]) for table in tables]
    for there, here in numbers.items():
        widest = max((form[str(there)] for form in forms), key=_WIDTH.__getitem__)
        _widen(engine, here, widest)
        for panes, table, form in zip(found, tables, forms, strict=True):
            panes.states[here] = _states(engine, here, panes, table, str(there), form[str(there)])
    return joined(found)


def joined(parts: Sequence[Panes]) -> Panes:
    """Return panes by time, those of one key and slice next to each other as they came."""
    if len(parts) == 1:
        panes = parts[0]
    else:
        code, start, first, last, rows = (
            np.concatenate([getattr(p, name) for p in parts]) for name in ("code", *_CELLS)
        )
        states = {n: np.concatenate([p.states[n] for p in parts]) for n in parts[0].states}
        panes = Panes(code, start, first, last, rows, states)
    return panes.take(np.argsort(panes.first, kind="stable"))


def _widen(engine: Engine, number: int, form: str) -> None:
    """Let an engine hold a field in at least this form."""
    partials = engine.slices.fields[number]
    if _WIDTH[form] > _WIDTH[partials.form]:
        nulls = np.empty(0, bool)
        engine.accept(number, Values((), nulls, 0, None if form == "object" else partials.kinds))


def _states(
    engine: Engine, number: int, panes: Panes, table: pa.Table, name: str, form: str
) -> NDArray[np.generic]:
    """Return partials of a table in the form in which the engine holds them."""
    wanted, plan = engine.slices.fields[number], engine.plan.fields[number]
    cells = {column: getattr(panes, column) for column in _CELLS}
    read = (plan, SnapshotTable(table, "panes"), name, cells, engine.types)
    if form == wanted.form or wanted.loads_any_form:
        return load_states(wanted, *read)
    kinds = column_types.kinds_of(plan, engine.types)
    there = make_field(plan.field, plan.own, kinds, nullable=form == "nullable")
    return there.converted(load_states(there, *read), wanted)
