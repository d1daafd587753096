"""Queries and their plan in a snapshot: described, and made again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from muntin import algebra, windows
from muntin.algebra.aggregate import Aggregate
from muntin.algebra.builtin import PROVIDES, BuiltIn, public_name
from muntin.algebra.fusion import Field
from muntin.algebra.sketches import Sketch
from muntin.algebra.sums import Count
from muntin.engine.partials.base import FieldPartials
from muntin.engine.plan.queries import FieldPlan, Plan, PlannedQuery, Read, on_clock
from muntin.engine.rows import FOREVER, NEVER
from muntin.engine.state.description import Described, SnapshotError
from muntin.engine.state.envelope import decode, encode
from muntin.expressions.expression import marked, unmarked
from muntin.windows.base import Query, Window

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
        **({} if query.early is None else {"early": query.early.plain}),
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


class _OwnError(Exception):
    """A snapshot cannot hold what users wrote themselves."""


def _make_value(described: Described) -> Any:
    """Return what was described."""
    sorts = described.items()
    if len(sorts) != 1:
        described.wrong("a value of a window")
    ((sort, content),) = sorts
    if sort == "value":
        return decode(content.value)
    if sort == "window":
        return _make_window(content)
    if sort == "aggregate":
        return _make_aggregate(content)
    if sort == "own":
        raise _OwnError
    return described.wrong("a value of a window")


def _make_window(described: Described) -> Window:
    kind, parameters = described.each(2)
    given = {name: _make_value(value) for name, value in parameters.items()}
    make = getattr(windows, kind.one_of(name for name in windows.__all__ if name.islower()))
    try:
        made: Window = make(**given)
    except (TypeError, ValueError, ArithmeticError):
        parameters.wrong(f"what a {kind.value} can be made with")
    return made


def _make_aggregate(described: Described) -> Aggregate:
    if "own" in described.table():
        raise _OwnError
    names = [name for name in algebra.__all__ if name.islower()]
    make, columns = getattr(algebra, described["name"].one_of(names)), described["columns"].texts()
    given = described["parameters"].table()
    try:
        made = make(*map(unmarked, columns), **given)
    except (TypeError, ValueError, ArithmeticError):
        described.wrong("an aggregate")
    if not isinstance(made, Aggregate):
        described.wrong("an aggregate")
    return made


def _describe_aggregate(aggregate: Aggregate) -> dict[str, Any]:
    columns = [marked(name) for name in aggregate.columns]
    if isinstance(aggregate, Sketch):
        name, parameters = public_name(type(aggregate)), aggregate.parameters()
        return {"name": name, "columns": columns, "parameters": parameters}
    if not isinstance(aggregate, BuiltIn):
        own = [type(aggregate).__qualname__, columns, repr(aggregate.identity_values())]
        return {"own": own}
    name = "count" if isinstance(aggregate, Count) else public_name(type(aggregate))
    return {"name": name, "columns": columns, "parameters": aggregate.keywords()}


def make_query(described: Described) -> Query | None:
    """Return the query that was described; None if it has a user's own aggregates or functions."""
    try:
        pairs = [pair.each(2) for pair in described["aggregates"].each()]
        aggregates = {column.text(): _make_aggregate(told) for column, told in pairs}
        window = _make_window(described["window"])
    except _OwnError:
        return None
    where, having = (described.get(name, None).text_or_none() for name in ("where", "having"))
    try:
        query = Query(
            window,
            aggregates,
            described["name"].text_or_none(),
            described["emit_empty"].flag(),
            described["emit_partial"].flag(),
            described["emit"].one_of(("all", "on_change")),
            where,
            having,
            described.get("early", None).value,
        )
    except SnapshotError:
        raise
    except (TypeError, ValueError):
        described.wrong("a query")
    return query


def match_queries(queries_told: Described, given: Iterable[Query] | None) -> dict[str, Query]:
    """Return the queries of a snapshot by name: those that the user gave, if they match, or made anew."""
    pairs = [(name.text(), described) for name, described in (pair.each(2) for pair in queries_told.each())]
    if len(dict(pairs)) < len(pairs) or not pairs:
        queries_told.wrong("queries with names of their own")
    if given is None:
        made = {name: make_query(described) for name, described in pairs}
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
    for name, described in pairs:
        same = [q for q in [by_name.get(name), *unnamed] if q is not None and _same(q, described.table())]
        if not same:
            raise SnapshotError(
                f"the snapshot has a query {name!r} that is none of those given; give the queries of the "
                "operator that the snapshot was taken of, and add or remove others afterwards."
            )
        found[name] = same[0]
    if len(listed) != len(pairs):
        raise SnapshotError(f"the snapshot has {len(pairs)} queries, but {len(listed)} were given.")
    return found


def _same(query: Query, description: Mapping[str, Any]) -> bool:
    described = json.loads(json.dumps(describe_query(query)))
    return bool({**described, "name": None} == {**description, "name": None})


_MOST = 1 << 24  # queries, and fields, that there have been: tables are as long as the largest number


# ---- fields and plans ----


def describe_plan(plan: Plan, partials: Mapping[int, FieldPartials]) -> dict[str, Any]:
    """Return queries in ticks and fields, with the form that each field is kept in."""
    return {
        "next": [plan.next_query, plan.next_field],
        "forms": {str(number): field.form for number, field in partials.items()},
        "fields": [
            [n, f.field.part, [marked(name) for name in f.field.columns], f.own is not None]
            for n, f in plan.fields.items()
        ],
        "queries": [[q.number, q.name, q.origin, list(q.reads.items())] for q in plan.queries],
    }


def load_plan(
    plan: Plan, described: Described, queries: Mapping[str, Query], types: Mapping[str, pa.DataType]
) -> None:
    """Fill a plan as it was described."""
    next_query, next_field = (told.whole(0, _MOST) for told in described["next"].each(2))
    for number, part, columns, own in (told.each(4) for told in described["fields"].each()):
        names = tuple(map(unmarked, columns.texts()))
        field = Field(part.text() if own.flag() else part.one_of(PROVIDES), names)
        wide = len(names) if own.flag() else max(width for _, width in PROVIDES[field.part])
        if not set(names) <= types.keys() or len(names) != wide:
            columns.wrong("the columns that the field reads")
        plan.fields[number.whole(0, next_field - 1)] = FieldPlan(field, None)
    for number, name, origin, listed in (told.each(4) for told in described["queries"].each()):
        query = on_clock(queries[name.one_of(queries)], plan.clock)
        after = origin.whole_or_none(NEVER, FOREVER)
        reads = {column.text(): _reads(told) for column, told in (pair.each(2) for pair in listed.each())}
        if list(reads) != list(query.aggregates):
            listed.wrong("what the aggregates of the query read")
        for column, aggregate in query.aggregates.items():
            _check_reads(plan, listed, aggregate, reads[column])
        window = query.window.resolved(plan.clock)
        planned = PlannedQuery(number.whole(0, next_query - 1), name.text(), query, window, after, reads)
        plan.queries.append(planned)
    _check_numbers(plan, described)
    plan.restore(plan.queries, plan.fields, next_query, next_field)


def _reads(described: Described) -> tuple[Read, ...]:
    pairs = [pair.wholes(0) for pair in described.each()]
    if any(len(pair) != 2 for pair in pairs):
        described.wrong("fields and their components")
    return tuple((number, component) for number, component in pairs)


def _check_reads(plan: Plan, described: Described, aggregate: Any, reads: tuple[Read, ...]) -> None:
    """Refuse fields that do not provide what an aggregate needs; one of a user's own is a field itself."""
    fields = [plan.fields[number].field for number, _ in reads if number in plan.fields]
    if not isinstance(aggregate, BuiltIn):
        if len(fields) != 1 or reads[0][1] or fields[0].columns != aggregate.inputs:
            described.wrong("the field of an aggregate of one's own")
        plan.fields[reads[0][0]] = FieldPlan(fields[0], aggregate)
        return
    if len(fields) != len(aggregate.needs) or len(reads) != len(fields):
        described.wrong("as many fields as the aggregate needs")
    for need, field, (_, component) in zip(aggregate.needs, fields, reads, strict=True):
        provided = dict(enumerate(PROVIDES.get(field.part, ()))).get(component, ("", 0))
        if provided[0] != need or field.columns[: provided[1]] != aggregate.inputs[: provided[1]]:
            described.wrong("fields that provide what the aggregate needs")


def _check_numbers(plan: Plan, described: Described) -> None:
    """Refuse queries that are not numbered as they came, and fields that nobody reads."""
    numbers = [planned.number for planned in plan.queries]
    if numbers != sorted(set(numbers)) or len({planned.name for planned in plan.queries}) < len(numbers):
        described["queries"].wrong("queries by number")
    own = {told.each(4)[0].value: told.each(4)[3].value for told in described["fields"].each()}
    if own != {number: field.own is not None for number, field in plan.fields.items()}:
        described["fields"].wrong("fields of which it is said whose they are")
    if set(Plan.fields_of(plan.queries)) != plan.fields.keys():
        described["fields"].wrong("the fields that queries read")
