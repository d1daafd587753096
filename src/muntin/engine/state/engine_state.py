"""What a snapshot holds of an engine: keys, slices, and records where they are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin import columnar
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.listers.factory import check_inputs
from muntin.engine.partials.base import FieldPartials
from muntin.engine.partials.factory import make_field
from muntin.engine.plan.column_types import kinds_of
from muntin.engine.rows import FOREVER, NEVER
from muntin.engine.slices.grid.slices import GridSlices
from muntin.engine.slices.position.counts import CountSlices
from muntin.engine.state.cells import Scope, dump_records, dump_store, load_log, load_store
from muntin.engine.state.description import Described, reading
from muntin.engine.state.early import describe_early, early_tables, load_early
from muntin.engine.state.envelope import decode, encode
from muntin.engine.state.positions import (
    check_positions,
    describe_views,
    dump_positions,
    load_positions,
    of_keys,
)
from muntin.engine.state.queries import describe_plan, load_plan
from muntin.engine.state.tables import SnapshotTable, table_of
from muntin.engine.store.cells import AggregateStore
from muntin.windows.base import Query
from muntin.windows.durations import LIMIT

if TYPE_CHECKING:
    from muntin.engine.engine import Engine


def load_sessions(store: AggregateStore, stored: SnapshotTable, scope: Scope) -> None:
    """Fill the slices of sessions, which are runs of records."""
    load_store(store, stored, scope)
    stored.require(store.column("start") == store.column("first"), "has runs that begin otherwise")


# ---- count windows ----


def dump_counts(slices: CountSlices) -> dict[str, pa.Table]:
    """Return the slices of count windows, records that wait, and positions."""
    positions = pa.table({"seen": slices.seen, "viewed": slices.viewed})
    pending = dump_records(slices.pending.whole())
    return {"store": dump_store(slices.store), "pending": pending, "positions": positions}


def load_counts(
    slices: CountSlices,
    tables: Mapping[str, pa.Table],
    start: str,
    scope: Scope,
    watermark: int,
    *,
    recut: bool,
) -> None:
    """Fill slices of count windows, whose tables have names that begin so, as in view at a watermark."""
    store, stored = slices.store, table_of(tables, f"{start}store")
    load_store(store, stored, scope)
    load_log(slices.pending, table_of(tables, f"{start}pending"), scope, {})
    positions = table_of(tables, f"{start}positions")
    rows = max(scope.keys, 1)  # there is room for more, which nothing is held in
    slices.seen = of_keys(positions.numbers("seen", low=0, high=LIMIT), rows)
    slices.viewed = of_keys(positions.numbers("viewed", low=0, high=LIMIT), rows)
    slices.upto = watermark
    slices.changed = slices.viewed.copy()
    waiting = np.bincount(slices.pending.codes(), minlength=len(slices.seen))
    shown = slices.viewed - slices.seen
    positions.require((shown >= 0) & (shown <= waiting), "has windows in view without their records")
    check_positions(store, stored, slices.seen)
    assert slices.grid is not None
    ordered = store.ordered()
    begins = slices.grid.floors(ordered.start) if recut else ordered.start
    floors = slices.grid.floors(ordered.start + ordered.rows - 1)
    stored.require(floors == begins, "has slices that begin or end elsewhere than windows")


def load_keys(keys: KeyTable, tables: Mapping[str, pa.Table], types: Mapping[str, pa.DataType]) -> None:
    """Fill a table of keys."""
    if keys.names:
        stored = table_of(tables, "keys")
        keys.load(stored.columns([types[name] for name in keys.names]))
        stored.require(len(keys) == len(stored), "has a key twice")


# ---- the engine ----


def describe_engine(engine: Engine) -> dict[str, Any]:
    """Return all of an engine that is not a table."""
    windows, grid = engine.windows, engine.slices.of_kind("grid").get(None)
    return {
        "watermark": engine.watermark,
        "largest": engine.largest,
        "plan": describe_plan(engine.plan, engine.slices.fields),
        "waiting": [[name, origin] for name, _, origin in engine.waiting],
        "answers": list(engine.tables.answer_types),
        "sessions": list(engine.slices.of_kind("session")),
        "counts": list(engine.slices.of_kind("count")),
        "positions": list(engine.slices.of_kind("position")),
        "views": [v for slices in engine.slices.of_kind("position").values() for v in describe_views(slices)],
        "revisions": [[list(identity), r] for identity, r in windows.revisions.items()],
        "previous": [[list(who), encode(values)] for who, values in windows.previous.items()],
        "last_shown": [[list(who), list(bounds)] for who, bounds in windows.last_shown.bounds.items()],
        "spans": [] if grid is None else grid.empty.describe(),
        "sum_bounds": engine.sums.bounds,
        "dropped_before": NEVER if grid is None else grid.dropped_before,
        "combines": [engine.slices.update_combines, windows.final_combines, windows.windows_emitted],
        **describe_early(engine.early),
    }


def engine_tables(engine: Engine, keys: KeyTable) -> dict[str, pa.Table]:
    """Return keys, slices and records."""
    slices = engine.slices
    kinds = [(name, kind) for name, kind in engine.tables.answer_types.items() if kind is not None]
    tables = {
        "keys": pa.table(keys.columns(), names=keys.names) if keys.names else pa.table({}),
        "time": columnar.no_rows([("time", engine.tables.time_type)]),
        "answers": columnar.no_rows(kinds),
    }
    for grid in slices.of_kind("grid").values():
        tables["grid"] = dump_store(grid.store)
    for k, sessions in enumerate(slices.of_kind("session").values()):
        tables[f"session {k}"] = dump_store(sessions.store)
    for k, counts in enumerate(slices.of_kind("count").values()):
        for name, table in dump_counts(counts).items():
            tables[f"count {k} {name}"] = table
    for k, positions in enumerate(slices.of_kind("position").values()):
        for name, table in dump_positions(positions).items():
            tables[f"position {k} {name}"] = table
    if slices.log is not None:
        tables["log"] = dump_records(slices.log.whole())
    return tables | early_tables(engine.early)


def load_engine(
    engine: Engine,
    described: Described,
    tables: Mapping[str, pa.Table],
    queries: Mapping[str, Query],
    keys: int,
    tie: pa.DataType | None,
    *,
    recut: bool = False,
) -> None:
    """Fill an engine without queries with the state of another, over so many keys.

    `tie` is the type of what settles the order of equal times. With `recut`, slices may begin where only
    queries began that are no more; they are then merged.
    """
    engine.watermark = described["watermark"].whole(NEVER, FOREVER)
    engine.largest = described["largest"].whole(NEVER, LIMIT - 1)
    with reading("the plan"):
        load_plan(engine.plan, described["plan"], queries, engine.types)
    planned = [(p.name, p.query) for p in engine.plan.queries]
    _load_waiting(engine, described["waiting"], queries)
    _load_answers(engine, described["answers"], tables)
    fields = _made_fields(engine, described["plan"]["forms"])
    for _, query in planned:
        check_inputs(query.window, engine.types)
    engine.slices.adapt(fields)
    engine.windows.adapt()
    engine.tables.note_measures(planned, engine.types)
    scope = Scope(keys, engine.types, engine.plan.fields, fields, tie)
    _load_slices(engine, described, tables, scope, recut=recut)
    engine.sums.bounds = {
        int(number): bound.whole(0)
        for number, bound in described["sum_bounds"].items()
        if number in map(str, engine.plan.fields)
    }
    _load_rows(engine, described, keys)
    load_early(engine, described, tables, keys)
    combines = [told.whole(0) for told in described["combines"].each(3)]
    engine.slices.update_combines, engine.windows.final_combines, engine.windows.windows_emitted = combines


def _load_waiting(engine: Engine, described: Described, queries: Mapping[str, Query]) -> None:
    """Let queries wait for the types of their columns; all others must be planned."""
    for name, origin in (told.each(2) for told in described.each()):
        query = queries[name.one_of(queries)]
        engine.waiting.append((name.text(), query, origin.whole_or_none(NEVER, FOREVER)))
    names = [p.name for p in engine.plan.queries] + [name for name, _, _ in engine.waiting]
    if sorted(names) != sorted(queries):
        described.wrong("all queries that are not planned")


def _load_answers(engine: Engine, described: Described, tables: Mapping[str, pa.Table]) -> None:
    """Take the order of output columns as it was, and the types of those that only answers tell."""
    known = table_of(tables, "answers").every_type()
    engine.tables.plan_answers([(p.name, p.query) for p in engine.plan.queries], engine.types)
    types, names = engine.tables.answer_types, described.texts()
    if sorted(names) != sorted(types):
        described.wrong("the columns of all aggregates")
    engine.tables.answer_types = {name: types[name] or known.get(name) for name in names}


def _made_fields(engine: Engine, forms: Described) -> dict[int, FieldPartials]:
    """Return the fields, each in the form that it had."""
    fields = {}
    for number, plan in engine.plan.fields.items():
        form = forms[str(number)].one_of(("plain", "nullable", "object"))
        kinds = None if form == "object" else kinds_of(plan, engine.types)
        nullable = form != "plain"  # objects do not say whether there was a null
        fields[number] = make_field(plan.field, plan.own, kinds, nullable=nullable)
        if fields[number].form != form:
            forms[str(number)].wrong(fields[number].form)
    return fields


def _load_slices(
    engine: Engine, described: Described, tables: Mapping[str, pa.Table], scope: Scope, *, recut: bool
) -> None:
    slices = engine.slices
    for grid in slices.of_kind("grid").values():
        with reading("the grid"):
            _load_grid(engine, grid, table_of(tables, "grid"), scope, recut=recut)
        grid.dropped_before = described["dropped_before"].whole(NEVER, FOREVER)
    described["dropped_before"].whole(NEVER, FOREVER)
    sessions, counts, marked = (slices.of_kind(kind) for kind in ("session", "count", "position"))
    for k, origin in enumerate(_origins(described["sessions"], sessions)):
        with reading(f"session {k}"):
            load_sessions(sessions[origin].store, table_of(tables, f"session {k}"), scope)
    for k, origin in enumerate(_origins(described["counts"], counts)):
        with reading(f"count {k}"):
            load_counts(counts[origin], tables, f"count {k} ", scope, engine.watermark, recut=recut)
    reach = engine.watermark - engine.lateness
    revisions = {number.whole(): told for number, told in (p.each(2) for p in described["views"].each())}
    for k, origin in enumerate(_origins(described["positions"], marked)):
        with reading(f"position {k}"):
            load_positions(marked[origin], tables, f"position {k} ", revisions, scope, reach)
    if slices.log is not None:
        load_log(slices.log, table_of(tables, "log"), scope, {}, older=True)


def _origins(described: Described, there: Mapping[Any, Any]) -> list[Any]:
    """Return after which time the streams of some slices begin: one for each that queries have."""
    origins = [told.whole_or_none() for told in described.each()]
    if len(origins) != len(there) or set(origins) != set(there):
        described.wrong("where the streams of queries begin")
    return origins


def _load_grid(engine: Engine, grid: GridSlices, stored: SnapshotTable, scope: Scope, *, recut: bool) -> None:
    if not stored.every_type():
        return  # the parts of a state are cut by time: there are none
    load_store(grid.store, stored, scope)
    starts, first, last = (grid.store.column(name) for name in ("start", "first", "last"))
    stored.require(starts <= first, "has slices that begin after their first record")
    fixed = not recut  # whether only queries that are there say where slices begin
    for planned in grid.queries:
        if planned.window.listed:
            planned.window.learn(starts[starts > NEVER])
            fixed = False  # outside of windows, slices begin anywhere
        elif planned.window.irregular:
            held = last > (NEVER if planned.origin is None else planned.origin)
            if held.any():
                planned.window.check(int(first[held].min()), int(last.max()))
    edges, lasting = engine.slices.slicer, grid.lasting_edges()
    if fixed and grid.store.count and edges is not None and edges.grid is not None and lasting is not None:
        stored.require(edges.grid.floors(starts) == starts, "has slices that begin elsewhere than windows")
        stored.require(lasting.floors(last) <= starts, "has slices that windows end in")


def _load_rows(engine: Engine, described: Described, keys: int) -> None:
    """Take up what is remembered of rows: revisions, last values, and which windows had records."""
    windows = engine.windows
    identities = {p.number: p.query.window.identity() for p in engine.plan.queries}
    numbered = {p.number: identities[p.number] for p in engine.plan.queries if not p.query.window.by_records}
    for who, revision in (told.each(2) for told in described["revisions"].each()):
        windows.revisions[_identity(who, numbered, keys)] = revision.whole(0, LIMIT)
    changing = {p.number: len(p.reads) for p in engine.plan.queries if p.query.emit == "on_change"}
    for told, values in (pair.each(2) for pair in described["previous"].each()):
        number, code = (each.whole(0) for each in told.each(2))
        decoded = decode(values.value)
        if number not in changing or code >= keys or type(decoded) is not tuple:
            told.wrong("a query that reports changes, and a key")
        if len(decoded) != changing[number]:
            values.wrong("the answers of a window")
        windows.previous[number, code] = decoded
    for who, bounds in (pair.each(2) for pair in described.get("last_shown", []).each()):
        start, stop = (bound.whole(-(2**63), 2**63 - 1) for bound in bounds.each(2))
        windows.last_shown.bounds[_identity(who, identities, keys)] = (start, stop)
    for told in described["spans"].each():
        _load_span(engine, told, keys)


def _identity(described: Described, identities: Mapping[int, Sequence[str]], keys: int) -> tuple[int, ...]:
    """Return a window: its query, its key, and as many numbers as the query tells windows apart by."""
    who = tuple(described.wholes(-(2**63), 2**63 - 1))
    if len(who) < 2 or len(who) - 2 != len(identities.get(who[0], who)) or not 0 <= who[1] < keys:
        described.wrong("a window of a query and a key")
    return who


def _load_span(engine: Engine, described: Described, keys: int) -> None:
    """Take up the first and last records of keys for a query that reports empty windows."""
    spans = {n: s for grid in engine.slices.of_kind("grid").values() for n, s in grid.empty.spans.items()}
    number, first, last, filled = described.each(4)
    firsts, lasts = (told.wholes(NEVER, -NEVER) for told in (first, last))
    if len(firsts) != len(lasts) or any(high > NEVER for high in lasts[keys:]):
        first.wrong("a time for each key")
    firsts, lasts = firsts[:keys], lasts[:keys]  # older snapshots have room for more
    for low, high in zip(firsts, lasts, strict=True):
        if (low, high) != (-NEVER, NEVER) and not low <= high <= engine.largest:
            last.wrong("the times of the last records")
    windows = [
        (code.whole(0, len(firsts) - 1), ends.whole(-(2**63), 2**63 - 1))
        for code, ends in (told.each(2) for told in filled.each())
    ]
    spans[number.one_of(spans)].load(firsts, lasts, windows, engine.watermark)
