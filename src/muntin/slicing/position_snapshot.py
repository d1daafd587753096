"""Slices of windows over stretches of records, as tables and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.slicing.fields import FieldPartials, frozen
from muntin.slicing.keys import KeyTable
from muntin.slicing.listers import Batch, Lister, runs
from muntin.slicing.own_listers import UserLister
from muntin.slicing.positions import PositionSlices
from muntin.slicing.records import RecordLog
from muntin.slicing.tabled import (
    dump_log,
    dump_store,
    load_column,
    load_log,
    load_store,
    numbers_of,
    plain_column,
)
from muntin.slicing.views import View, Viewed

_VIEWED = ("code", "begin", "end", "id", "start", "stop")


def describe_views(slices: PositionSlices) -> list[Any]:
    """Return each query with the revisions of its windows: all that is not a table."""
    return [
        [number, [[list(who), revision] for who, revision in view.revisions.items()]]
        for number, view in slices.views.items()
    ]


def dump_positions(slices: PositionSlices) -> dict[str, pa.Table]:
    """Return slices, records that wait, and what listers know."""
    settled = slices.settled
    keys = {"seen": settled.seen, "cut": settled.cut, "edge": settled.edge}
    tables = {"store": dump_store(settled.store), "pending": dump_log(slices.pending), "keys": pa.table(keys)}
    kept = settled.kept.whole()
    if kept is not None:
        tables["kept"] = dump_log(_as_log(kept))
    for number, lister in settled.listers.items():
        keyed: dict[str, Any] = {}
        for name in lister.keyed:
            columns = _flat(lister.kept(name))
            keyed |= {f"{name}.{k}": plain_column(column) for k, column in enumerate(columns)}
        tables[f"lister {number}"] = pa.table(keyed)
        tables[f"open {number}"] = pa.table(lister.opened)
        tables |= {f"{name} {number}": values for name, values in _words(lister).items()}
    for number, view in slices.views.items():
        if view.held is not None:
            tables[f"view {number}"] = _dump_view(view.held)
    return tables


def load_positions(
    slices: PositionSlices,
    tables: Mapping[str, pa.Table],
    revisions: Mapping[int, list[Any]],
    fields: Mapping[int, FieldPartials],
    kinds: Mapping[int, Any],
) -> None:
    """Fill slices of such windows."""
    settled = slices.settled
    load_store(settled.store, tables["store"])
    signals: dict[int, Any] = {lister.signal: () for lister in settled.listers.values()}
    load_log(slices.pending, tables["pending"], fields, {**kinds, **signals})
    settled.seen, settled.cut = (np.array(numbers_of(tables["keys"], name)) for name in ("seen", "cut"))
    if "kept" in tables:
        log = RecordLog(settled.store.fields)
        load_log(log, tables["kept"], fields, kinds)
        settled.kept.add(_as_batch(log, settled.seen))
    settled.edge = np.array(numbers_of(tables["keys"], "edge"), np.uint8)
    if settled.splitting and "kept" not in tables:
        settled.edge[:] = 1  # a slice whose records are not kept may not go on: it could be split
    settled.reserve(len(settled.seen))
    for number, lister in settled.listers.items():
        table = tables[f"lister {number}"]
        if isinstance(lister, UserLister) and pa.types.is_string(table.schema.field("state.0").type):
            lister.leave_kernel()  # as the one that was written had
        for name, held in lister.keyed.items():
            for k, column in enumerate(_flat(held)):
                column[: table.num_rows] = lister.restored(name, load_column(table, f"{name}.{k}"))
        opened = tables[f"open {number}"]
        lister.opened = {name: np.array(numbers_of(opened, name), np.int64) for name in lister.opened}
        if f"values {number}" in tables:
            values = tables[f"values {number}"]
            _table_of(lister).load([column.combine_chunks() for column in values.columns])
    for number, view in slices.views.items():
        view.revisions = {tuple(who): revision for who, revision in revisions[number]}
        if f"view {number}" in tables:
            view.held = _load_view(view, tables[f"view {number}"])


def _as_log(records: Batch) -> RecordLog:
    log = RecordLog(records.values)
    log.times, log.codes, log.values = records.times, records.each_code(), dict(records.values)
    log.overdue = np.zeros(len(records), bool)
    return log


def _as_batch(log: RecordLog, seen: NDArray[np.int64]) -> Batch:
    """Return the records, which are the last ones of each key that have been seen."""
    codes, bounds = runs(log.codes)
    return Batch(frozen(log.times), codes, bounds, seen[codes] - bounds[1:], log.values)


def _flat(held: NDArray[Any]) -> list[NDArray[Any]]:
    """Return each scalar of what is held for a key as a column of its own, sharing memory."""
    if held.dtype.names is not None:
        return [held[name] for name in held.dtype.names]
    return [held] if held.ndim == 1 else list(held.T)


def _table_of(lister: Lister) -> KeyTable:
    values: KeyTable = lister.values  # type: ignore[attr-defined]
    return values


def _words(lister: Lister) -> dict[str, pa.Table]:
    """Return the values that a lister has numbered."""
    if not hasattr(lister, "values") or _table_of(lister).types is None:
        return {}
    return {"values": pa.table(_table_of(lister).columns(), names=_table_of(lister).names)}


def _dump_view(held: Viewed) -> pa.Table:
    columns = {name: getattr(held, name) for name in _VIEWED}
    if held.measure is not None:
        columns["measure_start"], columns["measure_end"] = held.measure
    return pa.table(columns)


def _load_view(view: View, table: pa.Table) -> Viewed:
    columns = {name: np.array(numbers_of(table, name), np.int64) for name in table.column_names}
    measure = None
    if "measure_start" in view.names:
        measure = (columns["measure_start"], columns["measure_end"])
    return Viewed(**{name: columns[name] for name in _VIEWED}, measure=measure)
