"""The least set of partial fields that serves all aggregates of all queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muntin.algebra.aggregate import Aggregate
from muntin.algebra.builtin import PROVIDES


class Field(NamedTuple):
    """A part over columns: what a slice stores one value of."""

    part: str
    columns: tuple[str, ...]


Component = tuple[str, tuple[str, ...]]  # a component's name and the columns it is taken over


@dataclass(frozen=True)
class Fusion:
    """Fields that together serve a list of aggregates.

    `reads[i]` lists, for the i-th aggregate, where each of its components lies: (field, number within
    it). An aggregate that a user wrote is a field of its own; `own` has it by the number of the field.
    """

    fields: tuple[Field, ...]
    reads: tuple[tuple[tuple[int, int], ...], ...]
    own: Mapping[int, Aggregate] = field(default_factory=dict)


def fuse(aggregates: Iterable[Aggregate]) -> Fusion:
    """Return the least set of fields that serves these aggregates.

    >>> from muntin.algebra import mean, sum, variance
    >>> for field in fuse([sum("v"), mean("v"), variance("v")]).fields:
    ...     print(*field)
    sum ('v',)
    spread ('v',)
    """
    listed = list(aggregates)
    distinct: list[Any] = list(dict.fromkeys(listed))  # many queries ask for the same
    demands: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    own: dict[str, tuple[tuple[str, int], ...]] = {}
    names: dict[tuple[Any, ...], str] = {}
    for aggregate in distinct:
        columns = aggregate.inputs or ("",) * aggregate.arity
        if aggregate.fuses:
            demands.append((aggregate.needs, columns))
        else:
            identity = (type(aggregate), *aggregate.identity_values())
            name = names.setdefault(identity, f"{type(aggregate).__qualname__}#{len(names)}")
            own[name] = ((name, len(columns)),)
            demands.append(((name,), columns))
    fields, reads = cover(demands, {**PROVIDES, **own})
    by_aggregate = dict(zip(distinct, reads, strict=True))
    all_reads = tuple(by_aggregate[aggregate] for aggregate in listed)
    alone = {r[0][0]: a for a, r in zip(listed, all_reads, strict=True) if not a.fuses}
    return Fusion(fields, all_reads, alone)


def cover(
    demands: Sequence[tuple[tuple[str, ...], tuple[str, ...]]],
    provides: dict[str, tuple[tuple[str, int], ...]] = PROVIDES,
) -> tuple[tuple[Field, ...], tuple[tuple[tuple[int, int], ...], ...]]:
    """Choose fields that provide all demanded components, and say where each one lies.

    Components that only one part provides decide first: that part must be there. Whatever they do not
    provide along the way has a part of a single scalar, so taking that one is never worse.
    """
    wanted = [[_component(need, columns, provides) for need in needs] for needs, columns in demands]
    fields: dict[Field, None] = {}
    found: dict[Component, tuple[Field, int]] = {}

    def take(field: Field) -> None:
        fields[field] = None
        for number, (name, width) in enumerate(provides[field.part]):
            found.setdefault((name, field.columns[:width]), (field, number))

    choices = [
        (component, _providers(component[0], provides), columns)
        for components, (_, columns) in zip(wanted, demands, strict=True)
        for component in components
    ]
    for lone_only in (True, False):
        for component, providers, columns in choices:
            if component not in found and (len(providers) == 1 or not lone_only):
                smallest = min(providers, key=lambda part: len(provides[part]))
                width = max(width for _, width in provides[smallest])
                take(Field(smallest, columns[:width]))
    order = {field: at for at, field in enumerate(fields)}
    reads = tuple(tuple((order[found[c][0]], found[c][1]) for c in components) for components in wanted)
    return tuple(fields), reads


def _component(
    need: str, columns: tuple[str, ...], provides: dict[str, tuple[tuple[str, int], ...]]
) -> Component:
    width = next(width for parts in provides.values() for name, width in parts if name == need)
    return need, columns[:width]


def _providers(component: str, provides: dict[str, tuple[tuple[str, int], ...]]) -> list[str]:
    return [part for part, names in provides.items() if any(name == component for name, _ in names)]
