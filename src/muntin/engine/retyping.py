"""Columns that have been null so far: what is held for them takes the first real type that comes.

A field over such a column holds no value, and a frame over it has not begun. So both can be made anew, in the
form that a type asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin.engine.ingest.batch import Values
from muntin.engine.ingest.columns import Columns, as_objects, read_column
from muntin.engine.listers.base import Lister
from muntin.engine.listers.factory import make_lister, typed_columns
from muntin.engine.partials.base import FieldPartials
from muntin.engine.partials.factory import make_field
from muntin.engine.plan import column_types
from muntin.engine.slices.record_log import RecordLog

if TYPE_CHECKING:
    from muntin.engine.engine import Engine


def retype(engine: Engine, names: Collection[str]) -> None:
    """Hold what is over some columns, null so far, in the form that the engine's types now ask for."""
    forms = _Forms(engine, _fields(engine, names), _listers(engine, names))
    slices = engine.slices
    for number, field in forms.fields.items():
        slices.convert(number, field)
    for log in _logs(engine):
        log.read_again(forms.read)
    for family in slices.families.values():
        family.retype(forms.listers, forms.read)
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
            kinds = column_types.kinds_of(plan, engine.types)
            found[number] = make_field(plan.field, plan.own, kinds, nullable=True)
    return found


def _listers(engine: Engine, names: Collection[str]) -> dict[int, Lister]:
    """Return, by query, the listers that types decide on; none of them has begun a window."""
    queries = [p for p in engine.plan.queries if p.query.window.by_records]
    return {p.number: make_lister(p, engine.types) for p in queries if typed_columns(p.window) & set(names)}


def _logs(engine: Engine) -> Iterator[RecordLog]:
    """Return all records that are kept for fields or listers that may need them."""
    if engine.slices.log is not None:
        yield engine.slices.log
    for family in engine.slices.families.values():
        yield from family.logs()


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
        columns = [read_column(self._nulls(name, count)) for name in plan.field.columns]
        data = tuple(as_objects(column) if field.reads_objects else column.data for column in columns)
        return Values(data, np.zeros(count, bool), count, field.kinds)

    def _of_lister(self, lister: Lister, count: int) -> Values:
        columns = {name: self._nulls(name, count) for name in typed_columns(lister.rule)}
        return lister.read(Columns(columns), count)

    def _nulls(self, name: str, count: int) -> pa.Array:
        return pa.nulls(count, self.engine.types[name])
