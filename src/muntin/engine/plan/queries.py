"""Queries in ticks, and the fields that their aggregates read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from muntin.algebra.aggregate import TIME, Aggregate
from muntin.algebra.builtin import PARTS
from muntin.algebra.fusion import Field, fuse
from muntin.algebra.parts import Part
from muntin.engine.transaction import Transactional
from muntin.windows.base import Query
from muntin.windows.durations import Clock

Read = tuple[int, int]  # the number of a field, and that of a component within it


@dataclass(frozen=True)
class FieldPlan:
    """A fused field: a part over columns, or a user's aggregate over its own."""

    field: Field
    own: Aggregate | None

    @property
    def identity(self) -> tuple[Any, ...]:
        """What two queries must agree on to share the field."""
        if self.own is None:
            return self.field
        return (type(self.own), self.own.identity_values(), self.field.columns)

    @property
    def commutative(self) -> bool:
        """Whether partials may be combined in any order."""
        return self.part.commutative if self.part is not None else bool(self.own and self.own.commutative)

    @cached_property
    def part(self) -> Part | None:
        """The fused part, of which all but its numbers is the same for all types of columns."""
        return None if self.own is not None else PARTS[self.field.part](None, False)

    @cached_property
    def required(self) -> int:
        """Of how many columns, from the first, a null makes a record count for nothing."""
        if self.part is not None:
            return self.part.required
        return 0 if self.own is None else self.own.required

    def __str__(self) -> str:
        name = self.field.part if self.own is None else repr(self.own).partition("(")[0]
        return f"{name}({', '.join(column for column in self.field.columns if column != TIME)})"


@dataclass(frozen=True)
class PlannedQuery:
    """A query of a running operator."""

    number: int  # counts up over the operator's life; rows of one window end are ordered by it
    name: str
    query: Query
    window: Any  # the window in ticks: a Grid, or the gap of a session
    origin: int | None  # its stream is the records after this time; None: all
    reads: dict[str, tuple[Read, ...]]  # by output column

    @property
    def family(self) -> str:
        """Which slices serve it."""
        return self.query.window.family

    def fields(self) -> set[int]:
        """Return the fields it reads."""
        return {number for reads in self.reads.values() for number, _ in reads}


def on_clock(query: Query, clock: Clock) -> Query:
    """Return a query whose aggregates know what a tick of the time column is."""
    per_second = None if clock.nanoseconds is None else 1e9 / clock.nanoseconds
    timed = {column: aggregate.in_ticks(per_second) for column, aggregate in query.aggregates.items()}
    same = all(timed[column] is aggregate for column, aggregate in query.aggregates.items())
    return query if same else replace(query, aggregates=timed)


class Plan(Transactional):
    """All queries of an operator and the fields that serve them."""

    often = ()

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.queries: list[PlannedQuery] = []
        self.fields: dict[int, FieldPlan] = {}
        self._twins: dict[int, int] | None = None
        self._readers: dict[int, tuple[int, ...]] = {}
        self.next_query = 0  # numbers are never used again
        self.next_field = 0

    def add(self, queries: Iterable[tuple[str, Query]], origin: int | None) -> list[PlannedQuery]:
        """Plan queries together; fields that are there already are shared."""
        self.save()
        named = [(name, on_clock(query, self.clock)) for name, query in queries]
        windows = [self.resolved(query) for _, query in named]  # may raise: nothing changed yet
        aggregates = [a for _, query in named for a in query.aggregates.values()]
        all_reads = iter(self._reads(aggregates))
        planned = []
        for (name, query), window in zip(named, windows, strict=True):
            reads = {column: next(all_reads) for column in query.aggregates}
            planned.append(PlannedQuery(self.next_query, name, query, window, origin, reads))
            self.next_query += 1
        self.queries = [*self.queries, *planned]
        self._forget()
        return planned

    def resolved(self, query: Query) -> Any:
        """Return the window of a query in ticks; refuse durations that the clock does not have."""
        query.early_ticks(self.clock)
        return query.window.resolved(self.clock)

    def remove(self, name: str) -> PlannedQuery:
        """Forget a query, and the fields that only it read."""
        self.save()
        (gone,) = [planned for planned in self.queries if planned.name == name]
        self.queries = [planned for planned in self.queries if planned is not gone]
        self._forget()
        used = {number for planned in self.queries for number in planned.fields()}
        self.fields = {number: plan for number, plan in self.fields.items() if number in used}
        return gone

    def restore(
        self, queries: list[PlannedQuery], fields: dict[int, FieldPlan], next_query: int, next_field: int
    ) -> None:
        """Plan what was planned before, under the same numbers."""
        self.queries, self.fields = queries, fields
        self.next_query, self.next_field = next_query, next_field
        self._forget()

    def _forget(self) -> None:
        """Drop what was derived from the queries."""
        self._twins, self._readers = None, {}

    def _reads(self, aggregates: Sequence[Aggregate]) -> list[tuple[Read, ...]]:
        fusion = fuse(aggregates)
        known = {plan.identity: number for number, plan in self.fields.items()}
        self.fields, numbers = dict(self.fields), []
        for k, field in enumerate(fusion.fields):
            plan = FieldPlan(field, fusion.own.get(k))
            if plan.identity not in known:
                known[plan.identity] = self.next_field
                self.fields[self.next_field] = plan
                self.next_field += 1
            numbers.append(known[plan.identity])
        return [tuple((numbers[k], component) for k, component in reads) for reads in fusion.reads]

    def columns(self) -> set[str]:
        """Return the columns that fields read, beside the time."""
        return {name for plan in self.fields.values() for name in plan.field.columns} - {TIME}

    def twins(self) -> dict[int, int]:
        """Return for each query the first one with the same windows over the same stream."""
        if self._twins is None:
            first: dict[Any, int] = {}
            self._twins = {
                q.number: first.setdefault((q.family, q.window, q.origin, q.query.emit_partial), q.number)
                for q in self.queries
            }
        return self._twins

    def readers(self, field_: int) -> tuple[int, ...]:
        """Return the queries that read a field."""
        if field_ not in self._readers:
            self._readers[field_] = tuple(q.number for q in self.queries if field_ in q.fields())
        return self._readers[field_]

    @staticmethod
    def fields_of(queries: Iterable[PlannedQuery]) -> list[int]:
        """Return the fields that these queries read."""
        return sorted({number for planned in queries for number in planned.fields()})
