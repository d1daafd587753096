"""What a snapshot holds of an operator: queries, keys, slices, and records where they are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from muntin import algebra, windows
from muntin.algebra.aggregate import Aggregate
from muntin.algebra.builtin import BuiltIn, _public_name
from muntin.algebra.fusion import Field
from muntin.algebra.sums import Count
from muntin.slicing.counts import CountSlices
from muntin.slicing.envelope import SnapshotError, decode, encode
from muntin.slicing.fields import CompiledField, FieldPartials, ObjectField, States, Values, make_field
from muntin.slicing.intake import kinds_of
from muntin.slicing.keys import KeyTable
from muntin.slicing.plan import FieldPlan, Plan, PlannedQuery
from muntin.slicing.records import RecordLog
from muntin.slicing.store import AggregateStore
from muntin.windows.base import Query

if TYPE_CHECKING:
    from muntin.slicing.engine import Engine

_CELLS = ("code", "start", "first", "last", "rows")
_FLAGS = ("emit_empty", "emit_partial", "emit")

# ---- queries ----


def describe_query(query: Query) -> dict[str, Any]:
    """Return a query as JSON can hold it; a user's own aggregates only by name."""
    return {
        "window": [query.window.kind, query.window.parameters()],
        "aggregates": [[column, _describe_aggregate(a)] for column, a in query.aggregates.items()],
        "name": query.name,
        **{flag: getattr(query, flag) for flag in _FLAGS},
    }


def _describe_aggregate(aggregate: Aggregate) -> dict[str, Any]:
    if not isinstance(aggregate, BuiltIn):
        own = [type(aggregate).__qualname__, list(aggregate.columns), repr(aggregate._parameters())]
        return {"own": own}
    name = "count" if isinstance(aggregate, Count) else _public_name(type(aggregate))
    parameters = {"ddof": aggregate.ddof} if hasattr(aggregate, "ddof") else {}
    return {"name": name, "columns": list(aggregate.columns), "parameters": parameters}


def make_query(description: Mapping[str, Any]) -> Query | None:
    """Return the query that was described; None if it has a user's own aggregates."""
    aggregates = {}
    for column, described in description["aggregates"]:
        if "own" in described:
            return None
        make = getattr(algebra, described["name"])
        aggregates[column] = make(*described["columns"], **described["parameters"])
    kind, parameters = description["window"]
    window = getattr(windows, kind)(**parameters)
    flags = {flag: description[flag] for flag in _FLAGS}
    return Query(window, aggregates, description["name"], **flags)


def match_queries(
    described: Sequence[tuple[str, Mapping[str, Any]]], given: Iterable[Query] | None
) -> dict[str, Query]:
    """Return the queries of a snapshot by name: those that the user gave, if they match, or made anew."""
    if given is None:
        made = {name: make_query(description) for name, description in described}
        own = [name for name, query in made.items() if query is None]
        if own:
            raise SnapshotError(
                f"query {own[0]!r} has aggregates of your own, which a snapshot cannot hold: give queries=."
            )
        return {name: query for name, query in made.items() if query is not None}
    listed = list(given)
    by_name = {query.name: query for query in listed if query.name is not None}
    unnamed = [query for query in listed if query.name is None]
    found: dict[str, Query] = {}
    for name, description in described:
        same = [q for q in [by_name.get(name), *unnamed] if q is not None and _same(q, description)]
        if not same:
            raise SnapshotError(
                f"the snapshot has a query {name!r} that is none of those given; give the queries of the "
                "operator that the snapshot was taken of, and add or remove others afterwards."
            )
        found[name] = same[0]
    if len(listed) != len(described):
        raise SnapshotError(f"the snapshot has {len(described)} queries, but {len(listed)} were given.")
    return found


def _same(query: Query, description: Mapping[str, Any]) -> bool:
    described = json.loads(json.dumps(describe_query(query)))
    return all(described[part] == description[part] for part in described if part != "name")


# ---- fields and plans ----


def describe_plan(plan: Plan, partials: Mapping[int, FieldPartials]) -> dict[str, Any]:
    """Return queries in ticks and fields, with the form that each field is kept in."""
    forms = {}
    for number, field in partials.items():
        compiled = isinstance(field, CompiledField)
        forms[str(number)] = "object" if not compiled else "nullable" if field.nullable else "plain"
    return {
        "next": [plan._next_query, plan._next_field],
        "forms": forms,
        "fields": [
            [n, f.field.part, list(f.field.columns), f.own is not None] for n, f in plan.fields.items()
        ],
        "queries": [[q.number, q.name, q.origin, list(q.reads.items())] for q in plan.queries],
    }


def load_plan(plan: Plan, description: Mapping[str, Any], queries: Mapping[str, Query]) -> None:
    """Fill a plan as it was described."""
    plan._next_query, plan._next_field = description["next"]
    for number, name, origin, listed in description["queries"]:
        query = queries[name]
        reads = {column: tuple((f, c) for f, c in some) for column, some in listed}
        window = query.window.resolved(plan.clock)
        plan.queries.append(PlannedQuery(number, name, query, window, origin, reads))
    plan._families.clear()
    plan._twins = None
    own = {
        planned.reads[column][0][0]: aggregate
        for planned in plan.queries
        for column, aggregate in planned.query.aggregates.items()
        if not isinstance(aggregate, BuiltIn)
    }
    for number, part, columns, is_own in description["fields"]:
        plan.fields[number] = FieldPlan(Field(part, tuple(columns)), own[number] if is_own else None)


# ---- partials, cells, records ----


def dump_states(partials: FieldPartials, states: States, name: str) -> dict[str, pa.Array]:
    """Return partials as columns whose names begin with this one."""
    if isinstance(partials, CompiledField):
        present = partials.present(states)
        columns = {} if present is None else {f"{name}.present": pa.array(present)}
        return columns | {f"{name}.{k}": pa.array(c) for k, c in enumerate(partials.scalars(states))}
    return {name: pa.array([json.dumps(encode(state)) for state in states], pa.string())}


def load_states(partials: FieldPartials, table: pa.Table, name: str) -> States:
    """Return the partials that were dumped under a name."""
    states = partials.allocate(table.num_rows)
    if not table.num_rows:
        return states
    if isinstance(partials, ObjectField):
        for i, text in enumerate(table[name].to_pylist()):
            states[i] = decode(json.loads(text))
        return states
    assert isinstance(partials, CompiledField)
    if partials.nullable:
        states["f0"] = _numbers(table, f"{name}.present")
    columns = partials.scalar_views(states)
    for k, column in enumerate(columns):
        column[:] = _numbers(table, f"{name}.{k}")
    return states


def _numbers(table: pa.Table, name: str) -> Any:
    return table[name].combine_chunks().to_numpy(zero_copy_only=False) if table.num_rows else []


def dump_store(store: AggregateStore) -> pa.Table:
    """Return the cells of a store."""
    columns: dict[str, Any] = {name: pa.array(store.column(name)) for name in _CELLS}
    for number, partials in store.fields.items():
        columns |= dump_states(partials, store.states(number), str(number))
    return pa.table(columns)


def load_store(store: AggregateStore, table: pa.Table) -> None:
    """Fill a store, whose fields are set, with cells."""
    columns = {name: np.array(_numbers(table, name), np.int64) for name in _CELLS}
    none = np.zeros(table.num_rows, np.int64)
    states = {n: load_states(p, table, str(n)) for n, p in store.fields.items()}
    store.load(columns | {"fresh": none, "older": none}, states)


def dump_log(log: RecordLog) -> pa.Table:
    """Return kept records."""
    columns: dict[str, Any] = {"time": log.times, "code": log.codes, "overdue": log.overdue}
    if log.tie is not None:
        columns["tie"] = _dump_column(log.tie)
    for number, values in log.values.items():
        for k, column in enumerate(values.columns):
            columns[f"{number}.{k}"] = _dump_column(column)
        if values.valid is not None:
            columns[f"{number}.valid"] = values.valid
    return pa.table(columns)


def _dump_column(column: Any) -> Any:
    if column.dtype != object:
        return pa.array(column)
    return pa.array([json.dumps(encode(value)) for value in column], pa.string())


def load_log(
    log: RecordLog, table: pa.Table, fields: Mapping[int, FieldPartials], kinds: Mapping[int, Any]
) -> None:
    """Fill a log with records."""
    log.times = np.array(_numbers(table, "time"), np.int64)
    log.codes = np.array(_numbers(table, "code"), np.int64)
    log.overdue = np.array(_numbers(table, "overdue"), bool)
    log.fresh = np.zeros(len(log.times), bool)
    log.tie = _load_column(table, "tie") if "tie" in table.column_names else None
    if not len(log.times):
        return
    for number in log.fields:
        names = [name for name in table.column_names if name.startswith(f"{number}.") and "valid" not in name]
        columns = tuple(
            _load_column(table, name) for name in sorted(names, key=lambda n: int(n.split(".")[1]))
        )
        valid = None
        if f"{number}.valid" in table.column_names:
            valid = np.array(_numbers(table, f"{number}.valid"), bool)
        compiled = isinstance(fields[number], CompiledField)
        if names or kinds[number] == ():
            log.values[number] = Values(columns, valid, len(log.times), kinds[number] if compiled else None)


def _load_column(table: pa.Table, name: str) -> Any:
    if not pa.types.is_string(table[name].type):
        column = np.array(_numbers(table, name))
        column.flags.writeable = False  # as those of batches are: kernels are compiled for one kind only
        return column
    out = np.empty(table.num_rows, object)
    out[:] = [decode(json.loads(text)) for text in table[name].to_pylist()]
    return out


def dump_counts(slices: CountSlices) -> dict[str, pa.Table]:
    """Return the slices of count windows, records that wait, and positions."""
    positions = pa.table({"seen": slices.seen, "viewed": slices.viewed})
    return {"store": dump_store(slices.store), "pending": dump_log(slices.pending), "positions": positions}


def load_counts(
    slices: CountSlices,
    tables: Mapping[str, pa.Table],
    fields: Mapping[int, FieldPartials],
    kinds: Mapping[int, Any],
) -> None:
    """Fill slices of count windows."""
    load_store(slices.store, tables["store"])
    load_log(slices.pending, tables["pending"], fields, kinds)
    slices.seen = np.array(_numbers(tables["positions"], "seen"), np.int64)
    slices.viewed = np.array(_numbers(tables["positions"], "viewed"), np.int64)
    slices.changed = slices.viewed.copy()


# ---- the engine ----


def describe_engine(engine: Engine) -> dict[str, Any]:
    """Return all of an engine that is not a table."""
    windows = engine.windows
    return {
        "watermark": engine.watermark,
        "largest": engine.largest,
        "plan": describe_plan(engine.plan, engine.slices.fields),
        "waiting": [[name, origin] for name, _, origin in engine.waiting],
        "answers": list(engine.tables.answer_types),
        "sessions": list(engine.slices.sessions),
        "counts": list(engine.slices.counts),
        "revisions": [[list(identity), r] for identity, r in windows.revisions.items()],
        "previous": [[list(who), encode(values)] for who, values in windows.previous.items()],
        "spans": [[n, s.first.tolist(), s.last.tolist(), sorted(s.filled)] for n, s in windows.spans.items()],
        "sum_bounds": engine.sum_bounds,
        "dropped_before": engine.slices.dropped_before,
        "combines": [engine.slices.update_combines, windows.final_combines, windows.windows_emitted],
    }


def engine_tables(engine: Engine, keys: KeyTable) -> dict[str, pa.Table]:
    """Return keys, slices and records."""
    slices = engine.slices
    kinds = [(name, kind) for name, kind in engine.tables.answer_types.items() if kind is not None]
    tables = {
        "keys": pa.table(keys.columns(), names=keys.names) if keys.names else pa.table({}),
        "time": pa.schema([("time", engine.tables.time_type)]).empty_table(),
        "answers": pa.schema(kinds).empty_table(),
    }
    if slices.grid is not None:
        tables["grid"] = dump_store(slices.grid)
    for k, store in enumerate(slices.sessions.values()):
        tables[f"session {k}"] = dump_store(store)
    for k, counts in enumerate(slices.counts.values()):
        for name, table in dump_counts(counts).items():
            tables[f"count {k} {name}"] = table
    if slices.log is not None:
        tables["log"] = dump_log(slices.log)
    return tables


def load_engine(
    engine: Engine, described: dict[str, Any], tables: dict[str, pa.Table], queries: dict[str, Query]
) -> None:
    """Fill an engine without queries with the state of another."""
    engine.watermark, engine.largest = described["watermark"], described["largest"]
    load_plan(engine.plan, described["plan"], queries)
    engine.waiting = [(name, queries[name], origin) for name, origin in described["waiting"]]
    known = {field.name: field.type for field in tables["answers"].schema}
    engine.tables.answer_types = {name: known.get(name) for name in described["answers"]}
    forms = {int(number): form for number, form in described["plan"]["forms"].items()}
    kinds = {}
    for number, plan in engine.plan.fields.items():
        kinds[number] = None if forms[number] == "object" else kinds_of(plan, engine.types)
        nullable = forms[number] == "nullable"
        engine.slices.fields[number] = make_field(plan.field, plan.own, kinds[number], nullable=nullable)
    engine.slices.adapt()
    engine.windows.adapt()
    engine.watch_empty(engine.plan.queries)
    _load_slices(engine, described, tables, kinds)
    windows = engine.windows
    engine.sum_bounds = {int(number): bound for number, bound in described["sum_bounds"].items()}
    engine.slices.dropped_before = described["dropped_before"]
    windows.revisions = {tuple(identity): r for identity, r in described["revisions"]}
    windows.previous = {(who[0], who[1]): decode(v) for who, v in described["previous"]}
    for number, first, last, filled in described["spans"]:
        windows.spans[number].filled = {(code, ends) for code, ends in filled}
        windows.spans[number].first = np.array(first, np.int64)
        windows.spans[number].last = np.array(last, np.int64)
        windows.spans[number].settle()
    engine.slices.update_combines, windows.final_combines, windows.windows_emitted = described["combines"]


def _load_slices(
    engine: Engine, described: dict[str, Any], tables: dict[str, pa.Table], kinds: dict[int, Any]
) -> None:
    slices = engine.slices
    if slices.grid is not None:
        load_store(slices.grid, tables["grid"])
    for k, origin in enumerate(described["sessions"]):
        load_store(slices.sessions[origin], tables[f"session {k}"])
    for k, origin in enumerate(described["counts"]):
        parts = {name: tables[f"count {k} {name}"] for name in ("store", "pending", "positions")}
        load_counts(slices.counts[origin], parts, slices.fields, kinds)
    if slices.log is not None:
        load_log(slices.log, tables["log"], slices.fields, kinds)
