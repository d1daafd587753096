"""Batches as users hand them over, checked and turned into columns of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from muntin.algebra.aggregate import TIME, Aggregate, RowAggregate
from muntin.algebra.builtin import BuiltIn
from muntin.algebra.extremes import M4, M4_FIELDS
from muntin.algebra.holistic import Concat, Holistic, Quantile
from muntin.algebra.sketches import ApproxTopK, Sketch
from muntin.expressions import Expression, sources
from muntin.slicing import arrow
from muntin.slicing.fields import Values, frozen
from muntin.slicing.plan import FieldPlan
from muntin.slicing.sketch_fields import check_column, sketch_answer
from muntin.slicing.times import NANOSECONDS
from muntin.slicing.transaction import Transactional
from muntin.windows.durations import LIMIT, Clock

_ORDERED = {"min", "max", "min_n", "max_n", "argmin", "argmax", "runs"}


@dataclass(frozen=True)
class Column:
    """A value column: numbers where it can be, and which records have a value."""

    data: NDArray[Any]
    valid: NDArray[np.bool_] | None
    kind: str | None  # "i8", "f8"; None: objects


def as_arrow(batch: Any) -> pa.Table | pa.RecordBatch:
    """Return a batch as Arrow columns, without copying where its owner speaks Arrow."""
    if isinstance(batch, (pa.Table, pa.RecordBatch)):
        return batch
    try:
        if isinstance(batch, Mapping):
            return pa.table({name: _as_array(name, column) for name, column in batch.items()})
        if hasattr(batch, "__arrow_c_stream__") or hasattr(batch, "__arrow_c_array__"):
            return pa.table(batch)
        if type(batch).__module__.split(".")[0] == "pandas" and hasattr(batch, "columns"):
            return pa.Table.from_pandas(batch, preserve_index=False)
    except (pa.ArrowException, ValueError) as error:
        if isinstance(batch, Mapping) or hasattr(batch, "columns"):
            raise TypeError(f"the batch cannot be read as Arrow columns: {error}") from error
    raise TypeError(
        "a batch is a pyarrow Table or RecordBatch, a pandas or polars DataFrame, or a dict of arrays, "
        f"not {type(batch).__name__}."
    )


def _as_array(name: str, column: Any) -> Any:
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    try:
        if hasattr(column, "__arrow_c_stream__"):
            return pa.chunked_array(column)
        if isinstance(column, np.ma.MaskedArray):
            return pa.array(column.data, mask=np.ma.getmaskarray(column))
        return arrow.column(column)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise TypeError(f"column {name!r} is no column of values of one type: {error}") from error


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
        array = arrow.named(table, name)
        wanted = self._wanted(name)
        if wanted is not None and array.type == wanted:
            return array
        try:
            array = arrow.plain(array)
        except pa.ArrowException as error:
            raise TypeError(f"column {name!r} holds {array.type}, which cannot be read: {error}.") from error
        if wanted is None or array.type == wanted:
            return array
        cast = arrow.lossless(array, wanted)
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
        cast = arrow.lossless(array, wanted)
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
        array = arrow.plain(arrow.named(table, name))
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
    return np.ascontiguousarray(arrow.data(array), np.int64)


def _far(name: str) -> str:
    return f"the time column {name!r} holds a time that is 2^62 or more from zero."


def check_range(low: int, high: int, name: str) -> None:
    """Refuse times so far from zero that a window's end would overflow."""
    if low <= -LIMIT or high >= LIMIT:
        raise ValueError(_far(name))


def clock_of(kind: pa.DataType) -> Clock:
    """Return what one tick of a time column is."""
    return Clock(NANOSECONDS[kind.unit] if pa.types.is_timestamp(kind) else None)


def read_column(array: pa.Array) -> Column:
    """Return a value column as numbers, or as objects if it holds anything else."""
    kind = array.type
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_null(kind):
        return Column(frozen(np.zeros(len(array))), np.zeros(len(array), bool), "f8")
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or _counts_ticks(kind):
        if _counts_ticks(kind):
            array = array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
        filled = array.fill_null(False if pa.types.is_boolean(kind) else 0) if valid is not None else array
        data = arrow.data(filled)
        if data.dtype != np.uint64 or not len(data) or data.max() < 2**63:
            return Column(_as_kind(data, np.int64), valid, "i8")
    elif pa.types.is_floating(kind):
        filled = array.fill_null(0.0) if valid is not None else array
        return Column(_as_kind(arrow.data(filled), np.float64), valid, "f8")
    out = np.empty(len(array), object)
    out[:] = array.to_pylist()
    return Column(out, valid, None)


def _as_kind(data: NDArray[Any], kind: Any) -> NDArray[Any]:
    """Return the data in a kind of numbers, read-only as Arrow's is."""
    if data.dtype != kind or not data.flags.c_contiguous:
        data = np.ascontiguousarray(data, kind)
    return frozen(data)


def _counts_ticks(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_interval(kind)


def read_values(plan: FieldPlan, columns: Mapping[str, Column], count: int, kinds: Any) -> Values:
    """Return what a field reads, in the form that its columns (and `kinds`, which they may widen) allow."""
    parts = [columns[name] for name in plan.field.columns]
    valid = parts[0].valid if parts else None
    if isinstance(plan.own, Sketch):  # takes numbers and objects alike
        return Values(tuple(part.data for part in parts), valid, count, None)
    wide = any(part.kind is None or (k and part.valid is not None) for k, part in enumerate(parts))
    if kinds is None or wide or isinstance(plan.own, RowAggregate):
        return Values(tuple(as_objects(part) for part in parts), valid, count, None)
    return Values(tuple(part.data for part in parts), valid, count, kinds)


def as_objects(column: Column) -> NDArray[Any]:
    """Return a column as objects, None where there is no value."""
    if column.data.dtype == object:
        return column.data
    out = np.empty(len(column.data), object)
    out[:] = column.data.tolist()
    if column.valid is not None:
        out[~column.valid] = None
    return out


def kinds_of(plan: FieldPlan, types: Mapping[str, pa.DataType]) -> tuple[str, ...] | None:
    """Return the type codes of a field's columns; None if they are not all numbers."""
    codes: list[str] = []
    for name in plan.field.columns:
        kind = types[name]
        temporal = _counts_ticks(kind) and plan.own is None
        if pa.types.is_floating(kind):
            codes.append("f8")
        elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or temporal:
            codes.append("i8")
        else:
            return None
    return tuple(codes)


def check_types(aggregate: Aggregate, types: Mapping[str, pa.DataType]) -> None:
    """Refuse an aggregate over a column of a type that it cannot be computed of."""
    told = type_column(aggregate)
    if told is not None and not arrow.holds_values(types[told]):
        raise TypeError(
            f"{aggregate!r} gives values of column {told!r}, but Arrow makes no column of {types[told]} out "
            "of single values."
        )
    if isinstance(aggregate, BuiltIn) and _ORDERED.intersection(aggregate.needs):
        kind = types[aggregate.columns[0]]
        if pa.types.is_nested(kind):
            raise TypeError(
                f"{aggregate!r} needs values with an order, but column {aggregate.columns[0]!r} holds {kind}."
            )
    if isinstance(aggregate, Concat):
        kind = types[aggregate.columns[0]]
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
            raise TypeError(f"{aggregate!r} needs texts, but column {aggregate.columns[0]!r} holds {kind}.")
    if isinstance(aggregate, Sketch):
        check_column(aggregate, types)
    if not aggregate.numeric:
        return
    for name in aggregate.columns:
        kind = types[name]
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        if not (number or pa.types.is_decimal(kind) or pa.types.is_null(kind)):
            raise TypeError(f"{aggregate!r} needs numbers, but column {name!r} holds {kind}.")


def type_column(aggregate: Aggregate) -> str | None:
    """Return the column whose type the answers of an aggregate take after; None: they have their own."""
    if isinstance(aggregate, ApproxTopK | M4):
        return aggregate.columns[0]
    if isinstance(aggregate, Holistic):
        return aggregate.columns[0] if aggregate.gives in ("values", "value", "text") else None
    if isinstance(aggregate, BuiltIn) and aggregate.selective and aggregate.columns:
        return aggregate.columns[-1 if aggregate.result == "a" else 0]
    return aggregate.columns[0] if isinstance(aggregate, BuiltIn) and aggregate.result == "v" else None


def answer_type(aggregate: Aggregate, types: Mapping[str, pa.DataType]) -> pa.DataType | None:
    """Return the type of an aggregate's output column; None where only its answers tell."""
    if isinstance(aggregate, Sketch):
        return sketch_answer(aggregate, types)
    if not isinstance(aggregate, BuiltIn):
        return None
    if isinstance(aggregate, Holistic):
        return _holistic_type(aggregate, types[aggregate.columns[0]])
    if isinstance(aggregate, M4):
        value, time = types[aggregate.columns[0]], types[TIME]
        return pa.struct([(name, time if name.endswith("_time") else value) for name in M4_FIELDS])
    told = type_column(aggregate)
    if told is not None and aggregate.selective:
        return types[told]
    if told is not None:
        kind = types[told]
        if pa.types.is_floating(kind):
            return pa.float64()
        return pa.decimal128(38, kind.scale) if pa.types.is_decimal(kind) else pa.int64()
    return pa.int64() if aggregate.result == "i8" else pa.float64()


def _holistic_type(aggregate: Holistic, kind: pa.DataType) -> pa.DataType:
    if aggregate.gives == "values":
        return pa.list_(kind)
    if aggregate.gives in ("value", "text"):
        return kind
    if isinstance(aggregate, Quantile) and isinstance(aggregate.q, tuple):
        return pa.list_(pa.float64())
    return pa.int64() if aggregate.result == "i8" else pa.float64()


def tie_values(array: pa.Array, name: str | None) -> NDArray[np.generic]:
    """Return what settles the order of equal times, as something that sorts."""
    if array.null_count:
        raise ValueError(f"the tie column {name!r} has nulls, which settle no order.")
    column = read_column(array)
    if column.kind is None:
        return np.array(column.data.tolist(), object)
    return column.data
