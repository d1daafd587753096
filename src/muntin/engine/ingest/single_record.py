"""Records that come one by one: each is read as numbers, without what whole columns need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.algebra.aggregate import TIME
from muntin.engine.ingest.batch import Values
from muntin.engine.ingest.keys import KeyTable
from muntin.windows.durations import LIMIT

if TYPE_CHECKING:
    from muntin.engine.engine import Engine

_WHOLE, _FLOAT = np.dtype("i8"), np.dtype("f8")


class SingleRecords:
    """Takes in batches of one record and of one schema, as long as nothing is out of the ordinary."""

    def __init__(
        self, engine: Engine, schema: pa.Schema, types: Mapping[str, pa.DataType], time: str, keys: KeyTable
    ) -> None:
        self.schema = schema
        self._engine = engine
        self._keys = keys
        read = sorted(engine.plan.columns())
        names = [time, *keys.names, *read]
        self._plain = (
            engine.adds_singly()
            and not any(plan.part and plan.part.refuses for plan in engine.plan.fields.values())
            and all(
                schema.names.count(name) == 1 and schema.field(name).type == types[name] for name in names
            )
            and _dtype(types[time]) == _WHOLE
            and all(_dtype(types[name]) is not None for name in read)
        )
        if not self._plain:
            return
        self._time = schema.get_field_index(time)
        self._key = [schema.get_field_index(name) for name in keys.names]
        self._columns = [(name, schema.get_field_index(name), _dtype(types[name])) for name in read]
        fields: Mapping[int, Any] = engine.slices.fields
        self._fields = [(n, plan.field.columns, fields[n].kinds) for n, plan in engine.plan.fields.items()]
        self._sums = engine.sums.fields()

    def process(self, batch: pa.RecordBatch | pa.Table) -> pa.Table | None:
        """Take in a record; None if that is not so simple: at most what sums may come to has been counted."""
        if not self._plain:
            return None
        times = _number(batch.column(self._time), _WHOLE)
        if times is None:
            return None
        data = {TIME: times}
        for name, place, dtype in self._columns:
            found = _number(batch.column(place), dtype)
            if found is None:
                return None
            data[name] = found
        t, engine = int(times[0]), self._engine
        code = self._keys.known([batch.column(place) for place in self._key]) if self._key else 0
        if code is None or not -LIMIT < t < LIMIT or t < engine.watermark:
            return None
        values = {}
        for number, columns, kinds in self._fields:
            values[number] = Values(tuple([data[name] for name in columns]), None, 1, kinds)
        for number in self._sums:
            if not engine.sums.expect_one(number, int(values[number].columns[0][0])):
                return None
        return engine.ingest_one(t, code, values, self._keys)


def _dtype(kind: pa.DataType) -> np.dtype[Any] | None:
    """Return what a column holds in memory; None: not just numbers of 64 bits."""
    if kind == pa.float64():
        return _FLOAT
    return _WHOLE if kind == pa.int64() or pa.types.is_timestamp(kind) or pa.types.is_duration(kind) else None


def _number(column: pa.Array | pa.ChunkedArray, dtype: Any) -> NDArray[Any] | None:
    """Return the number in a column of one; None if it is null, or the column in pieces."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            return None
        column = column.chunk(0)
    if column.null_count:
        return None
    found = np.frombuffer(column.buffers()[1], dtype, 1, 8 * column.offset)
    found.flags.writeable = False  # as whole columns are: kernels are compiled for one kind only
    return found
