"""Slices of windows over stretches of records, as tables and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.columnar import frozen
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.listers.base import FAR, Batch, Lister, runs
from muntin.engine.listers.user import UserLister
from muntin.engine.slices.position.marked import MarkedSlices
from muntin.engine.slices.position.settled import Settled
from muntin.engine.slices.record_log import Chunk, RecordLog
from muntin.engine.slices.revisions import View, Viewed
from muntin.engine.state.cells import Scope, dump_records, dump_store, load_log, load_store, plain_column
from muntin.engine.state.description import Described, inconsistent
from muntin.engine.state.tables import SnapshotTable, table_of
from muntin.engine.store.cells import AggregateStore
from muntin.windows.durations import LIMIT

_VIEWED = ("code", "begin", "end", "id", "start", "stop")
# Within which bounds lies what listers hold for a key, and for an open window.
_HELD = {
    "begin": (-1, LIMIT),
    "number": (0, LIMIT),
    "opened": (0, LIMIT),
    "ordinal": (0, LIMIT),
    "held": (0, 1),
}
_OPENED = {
    "begin": (0, LIMIT),
    "position": (0, LIMIT),
    "time": (-LIMIT, LIMIT),
}


def describe_views(slices: MarkedSlices) -> list[Any]:
    """Return each query with the revisions of its windows: all that is not a table."""
    return [
        [number, [[list(who), revision] for who, revision in view.revisions.items()]]
        for number, view in slices.views.items()
    ]


def dump_positions(slices: MarkedSlices) -> dict[str, pa.Table]:
    """Return slices, records that wait, and what listers know."""
    settled = slices.settled
    keys = {"seen": settled.seen, "cut": settled.cut, "edge": settled.edge}
    pending = dump_records(slices.pending.whole())
    tables = {"store": dump_store(settled.store), "pending": pending, "keys": pa.table(keys)}
    kept = settled.kept.whole()
    if kept is not None:
        tables["kept"] = dump_records(_as_chunk(kept))
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
    slices: MarkedSlices,
    tables: Mapping[str, pa.Table],
    start: str,
    revisions: Mapping[int, Described],
    scope: Scope,
    reach: float,
) -> None:
    """Fill slices of such windows, whose tables have names that begin so.

    No record comes before `reach` any more.
    """
    settled = slices.settled
    stored, keys = table_of(tables, f"{start}store"), table_of(tables, f"{start}keys")
    load_store(settled.store, stored, scope)
    rows = max(scope.keys, 1)
    settled.seen = of_keys(keys.numbers("seen", low=0, high=LIMIT), rows)
    settled.cut = of_keys(keys.numbers("cut", low=0, high=LIMIT), rows)
    settled.edge = of_keys(keys.numbers("edge", "u1", low=0, high=1), rows)
    keys.require(settled.cut <= settled.seen, "has slices that begin after all records")
    signals = {}
    for number, lister in settled.listers.items():
        _load_lister(lister, table_of(tables, f"{start}lister {number}"), len(keys), rows)
        signals[lister.signal] = lister.signals
    check_positions(settled.store, stored, settled.seen)
    load_log(slices.pending, table_of(tables, f"{start}pending"), scope, signals)
    if f"{start}kept" in tables:
        _load_kept(slices, table_of(tables, f"{start}kept"), scope)
    elif settled.splitting:
        settled.edge[:] = 1  # a slice whose records are not kept may not go on: it could be split
    _check_splits(slices, stored)
    for number, lister in settled.listers.items():
        _load_open(lister, table_of(tables, f"{start}open {number}"), scope, settled)
        if f"{start}values {number}" in tables:
            _load_words(lister, table_of(tables, f"{start}values {number}"), scope)
    _check_needed(slices, stored, reach)
    for number, view in slices.views.items():
        _load_view(view, number, tables.get(f"{start}view {number}"), revisions, scope.keys)


def of_keys(held: NDArray[Any], keys: int) -> NDArray[Any]:
    """Return what is held for so many keys, at least: nothing for the last ones, nor in the room for more."""
    out = np.zeros(max(keys, len(held)), held.dtype)
    out[: min(keys, len(held))] = held[:keys]
    return out


def _load_kept(slices: MarkedSlices, stored: SnapshotTable, scope: Scope) -> None:
    """Take up the records of slices that may be split: the last ones of each key that were seen."""
    settled = slices.settled
    log = RecordLog(settled.store.fields)
    load_log(log, stored, replace(scope, tie=None), {})
    stored.require(bool(len(stored)), "has no records")
    records = log.whole()
    seen = settled.seen[: int(records.codes.max()) + 1]
    stored.require(np.bincount(records.codes) <= seen, "has unseen records")
    settled.kept.add(_as_batch(records, settled.seen))


def _check_splits(slices: MarkedSlices, stored: SnapshotTable) -> None:
    """Refuse slices that may be split but whose records are not kept."""
    settled = slices.settled
    if not settled.splitting:
        return
    ordered = settled.store.ordered()
    oldest = settled.seen.copy()
    for part in settled.kept.batches:
        oldest[part.codes] = part.base + part.bounds[:-1]
    many = ordered.rows > 1
    stored.require((ordered.start >= oldest[ordered.code])[many], "has slices whose records are not kept")
    whole = ordered.start + ordered.rows == np.append(ordered.start[1:], 0)
    last = np.append(ordered.code[1:] != ordered.code[:-1], True)[: len(ordered)]
    whole[last] = (ordered.start + ordered.rows)[last] == settled.seen[ordered.code[last]]
    stored.require(whole, "has slices without some of their records")


def _check_needed(slices: MarkedSlices, stored: SnapshotTable, reach: float) -> None:
    """Refuse slices of which those are missing that windows to come may hold."""
    settled = slices.settled
    ordered = settled.store.ordered()
    oldest = np.full(len(settled.seen), FAR)
    oldest[ordered.code[::-1]] = ordered.start[::-1]
    needed = np.maximum(settled.needed(reach), 0)
    stored.require((needed >= settled.seen) | (oldest <= needed), "lacks slices of windows to come")


def check_positions(store: AggregateStore, stored: SnapshotTable, seen: NDArray[np.int64]) -> None:
    """Refuse slices of positions that lie over each other, or reach past the records that were seen."""
    ordered = store.ordered()
    if len(ordered):
        last = np.append(ordered.code[1:] != ordered.code[:-1], True)
        limit = np.append(ordered.start[1:], 0)
        limit[last] = seen[ordered.code[last]]
        within = (ordered.start >= 0) & (ordered.start + ordered.rows <= limit)
        stored.require(within, "has slices that overlap")


def _load_lister(lister: Lister, stored: SnapshotTable, keys: int, rows: int) -> None:
    """Take up what a lister holds for each key, of which there are so many at most."""
    if isinstance(lister, UserLister) and stored.kind("state.0") is None:
        lister.leave_kernel()  # as the one that was written had
    stored.require(len(stored) == keys, f"is not of {keys} keys")
    lister.reserve(max(keys, rows))
    for name, held in lister.keyed.items():
        low, high = _HELD.get(name, (None, None))
        for k, column in enumerate(_flat(held)):
            if column.dtype == object:
                loaded = lister.restored(name, stored.objects(f"{name}.{k}")[:rows])
            else:
                loaded = stored.numbers(f"{name}.{k}", column.dtype.str[1:], low, high)[:rows]
            column[: len(loaded)] = loaded


def _load_open(lister: Lister, stored: SnapshotTable, scope: Scope, settled: Settled) -> None:
    """Take up the windows that are open, or the records that are held for them, and see whether all fits."""
    bounds = {"code": (0, scope.keys - 1), **_OPENED}
    lister.opened = {
        name: stored.numbers(name, "i8", *bounds.get(name, (None, None))) for name in lister.open_columns
    }
    if "code" in lister.opened:
        code = lister.opened["code"]
        at = lister.opened["begin" if "begin" in lister.opened else "position"]
        same = code[1:] == code[:-1]
        stored.require(code[1:] >= code[:-1], "is not by key")
        stored.require((at[1:] >= at[:-1])[same], "is not in order")
        if lister.open_by is not None:
            by = lister.opened[lister.open_by]
            stored.require((by[1:] > by[:-1])[same], "has the same twice")
        stored.require(at < settled.seen[code], "has positions of records that were not seen")
    lister.count_open()
    told = lister.wrong(settled.seen, scope.types)
    stored.require(told is None, f"holds {told}")


def _load_words(lister: Lister, stored: SnapshotTable, scope: Scope) -> None:
    """Take up the values that a lister has numbered."""
    table = _table_of(lister)
    table.load(stored.columns([scope.types[name] for name in table.names]))
    stored.require(len(table) == len(stored), "has a value twice")


def _as_chunk(records: Batch) -> Chunk:
    return Chunk(
        records.times, records.each_code(), None, np.zeros(len(records), bool), None, dict(records.values)
    )


def _as_batch(records: Chunk, seen: NDArray[np.int64]) -> Batch:
    """Return the records, which are the last ones of each key that have been seen."""
    codes, bounds = runs(records.codes)
    return Batch(frozen(records.times), codes, bounds, seen[codes] - bounds[1:], records.values)


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


def _load_view(
    view: View, number: int, table: pa.Table | None, revisions: Mapping[int, Described], keys: int
) -> None:
    """Take up what of a query was in view and may still change."""
    if number not in revisions:
        raise inconsistent(f"the views lack query {number}")
    for identity, revision in (told.each(2) for told in revisions[number].each()):
        who = tuple(identity.wholes())
        if len(who) != 1 + len(view.names) or not 0 <= who[0] < keys:
            identity.wrong("a key, and what tells its windows apart")
        view.revisions[who] = revision.whole(0, LIMIT)
    if table is None:
        return
    stored = SnapshotTable(table, f"view {number}")
    columns = {"code": stored.numbers("code", low=0, high=keys - 1)}
    columns |= {name: stored.numbers(name, low=0, high=LIMIT) for name in ("begin", "end")}
    columns |= {name: stored.numbers(name) for name in ("id", "start", "stop")}
    measure = None
    if "measure_start" in view.names:
        measure = (stored.numbers("measure_start"), stored.numbers("measure_end"))
    view.held = Viewed(**columns, measure=measure)
    identities = np.stack(view.held.identity(view.names), axis=1)
    stored.require(len(np.unique(identities, axis=0)) == len(stored), "has a window twice")
