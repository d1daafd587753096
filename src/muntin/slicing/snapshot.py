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
from muntin.algebra.sketches import Sketch
from muntin.algebra.sums import Count
from muntin.expressions import marked, unmarked
from muntin.slicing import arrow
from muntin.slicing.counts import CountSlices
from muntin.slicing.edges import NEVER
from muntin.slicing.envelope import SnapshotError, decode, encode
from muntin.slicing.fields import FieldPartials, make_field
from muntin.slicing.intake import kinds_of
from muntin.slicing.keys import KeyTable
from muntin.slicing.plan import FieldPlan, Plan, PlannedQuery
from muntin.slicing.position_snapshot import describe_views, dump_positions, load_positions
from muntin.slicing.tabled import dump_log, dump_store, load_log, load_store, numbers_of
from muntin.windows.base import Query, Window

if TYPE_CHECKING:
    from muntin.slicing.engine import Engine

_FLAGS = ("emit_empty", "emit_partial", "emit")

# ---- queries ----


def describe_query(query: Query) -> dict[str, Any]:
    """Return a query as JSON can hold it; a user's own aggregates and functions only by name."""
    return {
        "window": _describe_window(query.window),
        "aggregates": [[column, _describe_aggregate(a)] for column, a in query.aggregates.items()],
        "name": query.name,
        **{flag: getattr(query, flag) for flag in _FLAGS},
        **query.conditions(),
    }


def _describe_window(window: Window) -> list[Any]:
    return [window.kind, {name: _describe_value(v) for name, v in window.parameters().items()}]


def _describe_value(value: Any) -> Any:
    """Return what a window was given, such as another window or an aggregate."""
    if isinstance(value, Window):
        return {"window": _describe_window(value)}
    if isinstance(value, Aggregate):
        return {"aggregate": _describe_aggregate(value)}
    if callable(value):
        return {"own": value.__qualname__}
    return {"value": encode(value)}


def _make_value(described: Mapping[str, Any]) -> Any:
    """Return what was described; None if it is the user's own."""
    ((sort, content),) = described.items()
    if sort == "value":
        return decode(content)
    if sort == "own" or (sort == "aggregate" and "own" in content):
        raise _OwnError
    return _make_window(content) if sort == "window" else _make_aggregate(content)


def _make_window(described: Sequence[Any]) -> Window:
    kind, parameters = described
    made: Window = getattr(windows, kind)(**{name: _make_value(v) for name, v in parameters.items()})
    return made


class _OwnError(Exception):
    """A snapshot cannot hold what users wrote themselves."""


def _make_aggregate(described: Mapping[str, Any]) -> Aggregate:
    if "own" in described:
        raise _OwnError
    make = getattr(algebra, described["name"])
    made: Aggregate = make(*map(unmarked, described["columns"]), **described["parameters"])
    return made


def _describe_aggregate(aggregate: Aggregate) -> dict[str, Any]:
    columns = [marked(name) for name in aggregate.columns]
    if isinstance(aggregate, Sketch):
        name, parameters = _public_name(type(aggregate)), aggregate.parameters()
        return {"name": name, "columns": columns, "parameters": parameters}
    if not isinstance(aggregate, BuiltIn):
        own = [type(aggregate).__qualname__, columns, repr(aggregate._parameters())]
        return {"own": own}
    name = "count" if isinstance(aggregate, Count) else _public_name(type(aggregate))
    return {"name": name, "columns": columns, "parameters": aggregate.keywords()}


def make_query(description: Mapping[str, Any]) -> Query | None:
    """Return the query that was described; None if it has a user's own aggregates or functions."""
    try:
        aggregates = {column: _make_aggregate(described) for column, described in description["aggregates"]}
        window = _make_window(description["window"])
    except _OwnError:
        return None
    flags = {flag: description[flag] for flag in _FLAGS}
    where, having = description.get("where"), description.get("having")
    return Query(window, aggregates, description["name"], **flags, where=where, having=having)


def match_queries(
    described: Sequence[tuple[str, Mapping[str, Any]]], given: Iterable[Query] | None
) -> dict[str, Query]:
    """Return the queries of a snapshot by name: those that the user gave, if they match, or made anew."""
    if given is None:
        made = {name: make_query(description) for name, description in described}
        own = [name for name, query in made.items() if query is None]
        if own:
            raise SnapshotError(
                f"query {own[0]!r} has aggregates or functions of your own, which a snapshot cannot hold: "
                "give queries=."
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
    return bool({**described, "name": None} == {**description, "name": None})


# ---- fields and plans ----


def describe_plan(plan: Plan, partials: Mapping[int, FieldPartials]) -> dict[str, Any]:
    """Return queries in ticks and fields, with the form that each field is kept in."""
    return {
        "next": [plan._next_query, plan._next_field],
        "forms": {str(number): field.form for number, field in partials.items()},
        "fields": [
            [n, f.field.part, [marked(name) for name in f.field.columns], f.own is not None]
            for n, f in plan.fields.items()
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
        plan.fields[number] = FieldPlan(
            Field(part, tuple(map(unmarked, columns))), own[number] if is_own else None
        )


# ---- count windows ----


def dump_counts(slices: CountSlices) -> dict[str, pa.Table]:
    """Return the slices of count windows, records that wait, and positions."""
    positions = pa.table({"seen": slices.seen, "viewed": slices.viewed})
    return {"store": dump_store(slices.store), "pending": dump_log(slices.pending), "positions": positions}


def load_counts(
    slices: CountSlices,
    tables: Mapping[str, pa.Table],
    fields: Mapping[int, FieldPartials],
    kinds: Mapping[int, Any],
    watermark: int,
) -> None:
    """Fill slices of count windows, with what is in view at a watermark."""
    load_store(slices.store, tables["store"])
    load_log(slices.pending, tables["pending"], fields, kinds)
    slices.seen = np.array(numbers_of(tables["positions"], "seen"), np.int64)
    slices.viewed = np.array(numbers_of(tables["positions"], "viewed"), np.int64)
    slices.changed = slices.viewed.copy()
    slices.upto = watermark


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
        "positions": list(engine.slices.positions),
        "views": [told for slices in engine.slices.positions.values() for told in describe_views(slices)],
        "revisions": [[list(identity), r] for identity, r in windows.revisions.items()],
        "previous": [[list(who), encode(values)] for who, values in windows.previous.items()],
        "last_shown": [[list(who), list(bounds)] for who, bounds in windows.last_shown.bounds.items()],
        "spans": windows.empty.describe(),
        "sum_bounds": engine.sums.bounds,
        "dropped_before": engine.slices.dropped_before,
        "combines": [engine.slices.update_combines, windows.final_combines, windows.windows_emitted],
    }


def engine_tables(engine: Engine, keys: KeyTable) -> dict[str, pa.Table]:
    """Return keys, slices and records."""
    slices = engine.slices
    kinds = [(name, kind) for name, kind in engine.tables.answer_types.items() if kind is not None]
    tables = {
        "keys": pa.table(keys.columns(), names=keys.names) if keys.names else pa.table({}),
        "time": arrow.no_rows([("time", engine.tables.time_type)]),
        "answers": arrow.no_rows(kinds),
    }
    if slices.grid is not None:
        tables["grid"] = dump_store(slices.grid)
    for k, store in enumerate(slices.sessions.values()):
        tables[f"session {k}"] = dump_store(store)
    for k, counts in enumerate(slices.counts.values()):
        for name, table in dump_counts(counts).items():
            tables[f"count {k} {name}"] = table
    for k, positions in enumerate(slices.positions.values()):
        for name, table in dump_positions(positions).items():
            tables[f"position {k} {name}"] = table
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
    kinds, fields = {}, {}
    for number, plan in engine.plan.fields.items():
        kinds[number] = None if forms[number] == "object" else kinds_of(plan, engine.types)
        nullable = forms[number] != "plain"  # objects do not say whether there was a null
        fields[number] = make_field(plan.field, plan.own, kinds[number], nullable=nullable)
    engine.slices.adapt(fields)
    engine.windows.adapt()
    engine.tables.note_measures([(p.name, p.query) for p in engine.plan.queries], engine.types)
    engine.windows.empty.watch(engine.plan.queries)
    _load_slices(engine, described, tables, kinds)
    windows = engine.windows
    engine.sums.bounds = {int(number): bound for number, bound in described["sum_bounds"].items()}
    engine.slices.dropped_before = described["dropped_before"]
    windows.revisions = {tuple(identity): r for identity, r in described["revisions"]}
    windows.previous = {(who[0], who[1]): decode(v) for who, v in described["previous"]}
    for who, (start, stop) in described.get("last_shown", []):  # older snapshots have none
        windows.last_shown.bounds[tuple(who)] = (start, stop)
    windows.empty.load(described["spans"], engine.watermark)
    engine.slices.update_combines, windows.final_combines, windows.windows_emitted = described["combines"]


def _load_slices(
    engine: Engine, described: dict[str, Any], tables: dict[str, pa.Table], kinds: dict[int, Any]
) -> None:
    slices = engine.slices
    if slices.grid is not None:
        load_store(slices.grid, tables["grid"])
        starts = slices.grid.column("start")
        for planned in engine.plan.of_family("grid"):
            if planned.window.listed:  # asks for windows as long as those that live slices are in
                planned.window.floors(starts[starts > NEVER])
    for k, origin in enumerate(described["sessions"]):
        load_store(slices.sessions[origin], tables[f"session {k}"])
    for k, origin in enumerate(described["counts"]):
        parts = {name: tables[f"count {k} {name}"] for name in ("store", "pending", "positions")}
        load_counts(slices.counts[origin], parts, slices.fields, kinds, engine.watermark)
    revisions = dict(described["views"])
    for k, origin in enumerate(described["positions"]):
        start = f"position {k} "
        parts = {name.removeprefix(start): t for name, t in tables.items() if name.startswith(start)}
        load_positions(slices.positions[origin], parts, revisions, slices.fields, kinds)
    if slices.log is not None:
        load_log(slices.log, tables["log"], slices.fields, kinds)
