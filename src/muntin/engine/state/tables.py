"""Tables of a snapshot, read column by column: each is asked for with its type, length and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin.columnar import Indices, frozen
from muntin.engine.state.description import SnapshotError, inconsistent
from muntin.engine.state.envelope import decode_text

_KINDS = {
    "i8": pa.int64(),
    "f8": pa.float64(),
    "b1": pa.bool_(),
    "u1": pa.uint8(),
}


def table_of(tables: Mapping[str, pa.Table], name: str) -> SnapshotTable:
    """Return a table that must be there."""
    if name not in tables:
        raise inconsistent(f"table {name!r} is missing")
    return SnapshotTable(tables[name], name)


class SnapshotTable:
    """A table of a snapshot, under its name."""

    def __init__(self, table: pa.Table, name: str) -> None:
        self._table, self._name = table, name

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __contains__(self, column: str) -> bool:
        return column in self._table.column_names

    def whole(self) -> pa.Table:
        """Return the table as it is."""
        return self._table

    def wrong(self, what: str) -> SnapshotError:
        """Return what is said of a table that does not fit."""
        return inconsistent(f"table {self._name!r} {what}")

    def require(self, holds: Any, what: str) -> None:
        """Refuse the table unless something holds, of all its rows if it is an array."""
        if not (holds if isinstance(holds, bool) else bool(np.all(holds))):
            raise self.wrong(what)

    def _found(self, name: str) -> pa.ChunkedArray:
        if name not in self:
            raise self.wrong(f"lacks column {name!r}")
        if self._table.column_names.count(name) > 1:
            raise self.wrong(f"has two columns {name!r}")
        return self._table[name]

    def _column(self, name: str) -> pa.Array:
        column = self._found(name)
        if column.null_count:
            raise self.wrong(f"has nulls in column {name!r}")
        return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)

    def kind(self, name: str) -> str | None:
        """Return what a column holds: numbers, truths, or (None) objects; refuse other types."""
        found = self._found(name).type
        if found == pa.string():
            return None
        for code, kind in _KINDS.items():
            if found == kind:
                return code
        raise self.wrong(f"has {found} in column {name!r}")

    def numbers(
        self, name: str, kind: str = "i8", low: int | None = None, high: int | None = None
    ) -> NDArray[Any]:
        """Return a column of numbers or truths, to be written to; all lie within bounds, if there are any."""
        column = self._column(name)
        if column.type != _KINDS[kind]:
            raise self.wrong(f"has {column.type} in column {name!r}, not {_KINDS[kind]}")
        found: NDArray[Any] = np.array(column.to_numpy(zero_copy_only=False), kind)
        if len(found) and low is not None and found.min() < low:
            raise self.wrong(f"has {found.min()} in column {name!r}, which is less than {low}")
        if len(found) and high is not None and found.max() > high:
            raise self.wrong(f"has {found.max()} in column {name!r}, which is more than {high}")
        return found

    def objects(self, name: str) -> NDArray[Any]:
        """Return a column of values of any kind, which are kept as texts."""
        column = self._column(name)
        if column.type != pa.string():
            raise self.wrong(f"has {column.type} in column {name!r}, not values as texts")
        out = np.empty(len(column), object)
        out[:] = [decode_text(text) for text in column.to_pylist()]
        return out

    def values(self, name: str, kind: str | None) -> NDArray[Any]:
        """Return a column of numbers, or (None) of objects; read-only, as those of batches are."""
        if kind is not None:
            return frozen(self.numbers(name, kind))
        return self.objects(name)

    def lists(self, name: str) -> tuple[pa.Array, Indices]:
        """Return the values of a column of lists end to end, and the bounds between lists."""
        column = self._column(name)
        if not pa.types.is_large_list(column.type):
            raise self.wrong(f"has {column.type} in column {name!r}, not lists")
        bounds = np.array(column.offsets.to_numpy(), np.int64)
        values = column.values.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
        if values.null_count:
            raise self.wrong(f"has nulls in the lists of column {name!r}")
        return values, bounds - bounds[0]

    def blobs(self, name: str) -> list[bytes | None]:
        """Return a column of bytes, None where there are none."""
        column = self._found(name)
        if column.type != pa.large_binary():
            raise self.wrong(f"has {column.type} in column {name!r}, not bytes")
        blobs: list[bytes | None] = column.to_pylist()
        return blobs

    def only(self, name: str) -> pa.Scalar:
        """Return the value of a column in the only row."""
        (value,) = self._column(name) if len(self) == 1 else (None,)
        if value is None:
            raise self.wrong("is not of one row")
        return value

    def every_type(self) -> dict[str, pa.DataType]:
        """Return the types of all columns, by name."""
        return {field.name: field.type for field in self._table.schema}

    def columns(self, kinds: Sequence[pa.DataType]) -> list[pa.Array]:
        """Return the columns, which are of these types, as they are; they may hold nulls."""
        if self._table.schema.types != list(kinds):
            raise self.wrong(f"has not just columns of {', '.join(map(str, kinds))}")
        return [column.combine_chunks() for column in self._table.columns]
