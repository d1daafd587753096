"""Columns that have been null so far: what is held for them takes the first real type that comes.

A field over such a column holds no value, and a frame over it has not begun. So both can be made anew, in the
form that a type asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin.algebra.sketches import Sketch
from muntin.slicing import intake
from muntin.slicing.fields import FieldPartials, Values, make_field
from muntin.slicing.kinds import make_lister, typed_columns
from muntin.slicing.listers import Columns, Lister
from muntin.slicing.records import RecordLog

if TYPE_CHECKING:
    from muntin.slicing.engine import Engine


def retype(engine: Engine, names: Collection[str]) -> None:
    """Hold what is over some columns, null so far, in the form that the engine's types now ask for."""
    forms = _Forms(engine, _fields(engine, names), _listers(engine, names))
    slices = engine.slices
    for number, field in forms.fields.items():
        slices.convert(number, field)
    for log in _logs(engine):
        log.values = forms.read(log.values, len(log))
    for positions in slices.positions.values():
        settled = positions.settled
        kept = settled.kept
        kept.batches = [replace(b, values=forms.read(b.values, len(b))) for b in kept.batches]
        new = {number: lister for number, lister in forms.listers.items() if number in settled.listers}
        settled.listers = {**settled.listers, **new}
    slices.adapt(slices.fields)
    engine.windows.adapt()
    engine.single = None


def _fields(engine: Engine, names: Collection[str]) -> dict[int, FieldPartials]:
    """Return the fields that hold no value, in the form that types ask for.

    A record without a value in the first column of a field counts for nothing. In the others, null is one.
    """
    found = {}
    for number, plan in engine.plan.fields.items():
        if plan.field.columns and plan.field.columns[0] in names:
            kinds = intake.kinds_of(plan, engine.types)
            found[number] = make_field(plan.field, plan.own, kinds, nullable=True)
    return found


def _listers(engine: Engine, names: Collection[str]) -> dict[int, Lister]:
    """Return, by query, the listers that types decide on; none of them has begun a window."""
    queries = engine.plan.of_family("position")
    return {p.number: make_lister(p, engine.types) for p in queries if typed_columns(p.window) & set(names)}


def _logs(engine: Engine) -> Iterator[RecordLog]:
    """Return all records that are kept for fields or listers that may need them."""
    if engine.slices.log is not None:
        yield engine.slices.log
    yield from (slices.pending for slices in engine.slices.counts.values())
    yield from (slices.pending for slices in engine.slices.positions.values())


@dataclass
class _Forms:
    """New forms of fields and listers, and what they read of records without a value."""

    engine: Engine
    fields: dict[int, FieldPartials]
    listers: dict[int, Lister]  # by query

    def read(self, values: Mapping[int, Values], count: int) -> dict[int, Values]:
        """Return what records are kept with, in its new form."""
        signals = {lister.signal: lister for lister in self.listers.values()}
        found = dict(values)
        for number in values:
            if number in self.fields:
                found[number] = self._of_field(number, count)
            elif number in signals:
                found[number] = self._of_lister(signals[number], count)
        return found

    def _of_field(self, number: int, count: int) -> Values:
        plan, field = self.engine.plan.fields[number], self.fields[number]
        columns = [intake.read_column(self._nulls(name, count)) for name in plan.field.columns]
        objects = field.kinds is None and not isinstance(plan.own, Sketch)
        data = tuple(intake.as_objects(column) if objects else column.data for column in columns)
        return Values(data, np.zeros(count, bool), count, field.kinds)

    def _of_lister(self, lister: Lister, count: int) -> Values:
        columns = {name: self._nulls(name, count) for name in typed_columns(lister.rule)}
        return lister.read(Columns(columns), count)

    def _nulls(self, name: str, count: int) -> pa.Array:
        return pa.nulls(count, self.engine.types[name])
