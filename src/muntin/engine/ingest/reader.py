"""Batches as users hand them over, checked and turned into columns of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from muntin import columnar
from muntin.engine.ingest.columns import read_column
from muntin.engine.ingest.times import NANOSECONDS
from muntin.engine.transaction import Transactional
from muntin.expressions.expression import Expression, sources
from muntin.windows.durations import LIMIT, Clock


class Schema(Transactional):
    """The types of the columns that an operator reads: the first real one that a batch with records has.

    A column without any value may come as type null, which says nothing yet.
    """

    often = ()

    def __init__(self) -> None:
        self.types: dict[str, pa.DataType] = {}
        self._unknown: set[str] = set()  # columns of type null so far

    def columns(
        self, table: pa.Table | pa.RecordBatch, names: Sequence[str]
    ) -> tuple[dict[str, pa.Array], dict[str, pa.DataType]]:
        """Return the named columns in their types, and the types, which `fix` makes lasting.

        An expression is computed of columns that are held to their types as well.
        """
        found: dict[str, pa.Array] = {}
        types: dict[str, pa.DataType] = {}
        for name in names:
            if isinstance(name, Expression):
                read = {source: self._column(table, source) for source in name.columns}
                types |= {source: array.type for source, array in read.items()}
                found[name] = self._computed(name, name.evaluate(read or table), read)
            else:
                found[name] = self._column(table, name)
            types[name] = found[name].type
        return found, types

    def fix(self, types: Mapping[str, pa.DataType]) -> None:
        """Hold later batches to these types, once they are real."""
        if self._unknown or not types.keys() <= self.types.keys():
            self.save()
            known = {name: kind for name, kind in self.types.items() if name not in self._unknown}
            self.types = {**self.types, **types, **known}
            self._unknown = {name for name, kind in self.types.items() if pa.types.is_null(kind)}

    def _wanted(self, name: str) -> pa.DataType | None:
        """Return the type that a column is held to; None: any."""
        return None if name in self._unknown else self.types.get(name)

    def _column(self, table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
        array = columnar.named(table, name)
        wanted = self._wanted(name)
        if wanted is not None and array.type == wanted:
            return array
        try:
            array = columnar.plain(array)
        except pa.ArrowException as error:
            raise TypeError(f"column {name!r} holds {array.type}, which cannot be read: {error}.") from error
        if wanted is None or array.type == wanted:
            return array
        cast = columnar.lossless(array, wanted)
        if cast is None:
            raise TypeError(
                f"column {name!r} was {wanted} in the first batch and is {array.type} now, with values that "
                "cannot be cast without loss."
            )
        return cast

    def _computed(self, name: Expression, array: pa.Array, read: Mapping[str, pa.Array]) -> pa.Array:
        """Return the values of an expression in its type, which hangs on those of the columns it reads."""
        unknown = [source for source, column in read.items() if pa.types.is_null(column.type)]
        if unknown and array.null_count == len(array):
            return pa.nulls(len(array), self._wanted(name) or pa.null())
        wanted = self._wanted(name)
        if wanted is None or array.type == wanted:
            return array
        cast = columnar.lossless(array, wanted)
        if cast is None:
            raise TypeError(
                f"the expression {str(name)!r} gave {wanted} while a column that it reads had no values, and "
                f"is {array.type} now, with values that cannot be cast without loss: give the column a type "
                "in the first batch."
            )
        return cast


def invalid_text(table: pa.Table | pa.RecordBatch, names: Iterable[str]) -> str | None:
    """Return which of some columns holds a text that is none, and where; None: none does.

    >>> bad = pa.array([b"a", b"\\xff"]).view(pa.string())
    >>> invalid_text(pa.table({"s": bad}), ["s"])
    "column 's' holds a text that is not UTF-8 in row 1: clean it, or cast the column to binary."
    """
    for name in dict.fromkeys(source for read in names for source in sources(read)):
        array = columnar.plain(columnar.named(table, name))
        for row, value in enumerate(array if "string" in str(array.type) else ()):
            try:
                value.as_py()
            except UnicodeDecodeError:
                where = f"column {name!r} holds a text that is not UTF-8 in row {row}"
                return f"{where}: clean it, or cast the column to binary."
    return None


def read_times(array: pa.Array, name: str) -> NDArray[np.int64]:
    """Return times as 64-bit integers; refuse what is no time."""
    kind = array.type
    empty = pa.types.is_null(kind) and len(array)  # then it is told where
    if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or empty):
        hint = " Cast it to integers or timestamps." if pa.types.is_floating(kind) else ""
        raise TypeError(f"the time column {name!r} holds {kind}, not integers or timestamps.{hint}")
    if array.null_count:
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"the time column {name!r} is null in row {row}; every record needs a time.")
    if pa.types.is_uint64(kind) and len(array) and pc.max(array).as_py() >= LIMIT:
        raise ValueError(_far(name))
    if pa.types.is_timestamp(kind):
        array = array.view(pa.int64())
    return np.ascontiguousarray(columnar.data(array), np.int64)


def _far(name: str) -> str:
    return f"the time column {name!r} holds a time that is 2^62 or more from zero."


def check_range(low: int, high: int, name: str) -> None:
    """Refuse times so far from zero that a window's end would overflow."""
    if low <= -LIMIT or high >= LIMIT:
        raise ValueError(_far(name))


def clock_of(kind: pa.DataType) -> Clock:
    """Return what one tick of a time column is."""
    return Clock(NANOSECONDS[kind.unit] if pa.types.is_timestamp(kind) else None)


def tie_values(array: pa.Array, name: str | None) -> NDArray[np.generic]:
    """Return what settles the order of equal times, as something that sorts."""
    if array.null_count:
        raise ValueError(f"the tie column {name!r} has nulls, which settle no order.")
    column = read_column(array)
    if column.kind is None:
        return np.array(column.data.tolist(), object)
    return column.data
