"""Columns of a batch as numbers or objects, each read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from muntin import columnar
from muntin.columnar import Flags, counts_ticks, frozen
from muntin.engine.ingest import columns
from muntin.engine.ingest.batch import Values
from muntin.engine.plan.queries import FieldPlan


@dataclass(frozen=True)
class Column:
    """A value column: numbers where it can be, and which records have a value."""

    data: NDArray[Any]
    valid: NDArray[np.bool_] | None
    kind: str | None  # "i8", "f8"; None: objects


def read_column(array: pa.Array) -> Column:
    """Return a value column as numbers, or as objects if it holds anything else."""
    kind = array.type
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_null(kind):
        return Column(frozen(np.zeros(len(array))), np.zeros(len(array), bool), "f8")
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or counts_ticks(kind):
        if counts_ticks(kind):
            array = array.view(pa.int64() if kind.bit_width == 64 else pa.int32())
        filled = array.fill_null(False if pa.types.is_boolean(kind) else 0) if valid is not None else array
        data = columnar.data(filled)
        if data.dtype != np.uint64 or not len(data) or data.max() < 2**63:
            return Column(_as_kind(data, np.int64), valid, "i8")
    elif pa.types.is_floating(kind):
        filled = array.fill_null(0.0) if valid is not None else array
        return Column(_as_kind(columnar.data(filled), np.float64), valid, "f8")
    out = np.empty(len(array), object)
    out[:] = array.to_pylist()
    return Column(out, valid, None)


def _as_kind(data: NDArray[Any], kind: Any) -> NDArray[Any]:
    """Return the data in a kind of numbers, read-only as Arrow's is."""
    if data.dtype != kind or not data.flags.c_contiguous:
        data = np.ascontiguousarray(data, kind)
    return frozen(data)


def read_values(plan: FieldPlan, columns: Mapping[str, Column], count: int, kinds: Any) -> Values:
    """Return what a field reads, in the form that its columns (and `kinds`, which they may widen) allow."""
    parts = [columns[name] for name in plan.field.columns]
    valid = parts[0].valid if parts else None
    if plan.own is not None and plan.own.reads_columns:
        return Values(tuple(part.data for part in parts), valid, count, None)
    for part in parts[1 : plan.required] if len(parts) > 1 else ():
        if part.valid is not None:
            valid = part.valid if valid is None else valid & part.valid
    wide = any(
        part.kind is None or (k and k >= plan.required and part.valid is not None)
        for k, part in enumerate(parts)
    )
    if kinds is None or wide or (plan.own is not None and plan.own.in_place):
        values = Values(tuple(as_objects(part) for part in parts), valid, count, None)
    else:
        values = Values(tuple(part.data for part in parts), valid, count, kinds)
    refuse_records(plan, values)
    return values


class RefusedRecordError(ValueError):
    """A record holds values that an aggregate has no meaning for."""

    def __init__(self, record: int, what: str) -> None:
        self.record, self.what = record, what
        super().__init__(record, what)

    def __str__(self) -> str:
        return f"record {self.record} of the batch {self.what}"


def refuse_records(plan: FieldPlan, values: Values) -> None:
    """Refuse the first record that a part has no meaning for, before anything has changed."""
    part = plan.part
    if part is None or part.refuses is None:
        return
    at = np.arange(values.count) if values.valid is None else np.flatnonzero(values.valid)
    refused = np.asarray(part.refuses(*(column[at] for column in values.columns)), bool)
    if refused.any():
        record = int(at[int(refused.argmax())])
        held = zip(plan.field.columns, (column[record] for column in values.columns), strict=True)
        told = " and ".join(f"{name!r} is {value}" for name, value in held)
        raise RefusedRecordError(record, f"is refused, where {told}: {part.refusal}")


def as_objects(column: Column) -> NDArray[Any]:
    """Return a column as objects, None where there is no value."""
    if column.data.dtype == object:
        return column.data
    out = np.empty(len(column.data), object)
    out[:] = column.data.tolist()
    if column.valid is not None:
        out[~column.valid] = None
    return out


class Columns(dict[str, pa.Array]):
    """The columns of a batch; what several queries read of one is read once."""

    def __init__(self, arrays: Mapping[str, pa.Array]) -> None:
        super().__init__(arrays)
        self._flags: dict[str, Flags] = {}
        self._valid: dict[str, Flags] = {}
        self._usable: dict[str, Flags] = {}
        self._read: dict[str, columns.Column] = {}

    def read(self, name: str) -> columns.Column:
        """Return a column as numbers, or as objects."""
        if name not in self._read:
            self._read[name] = columns.read_column(self[name])
        return self._read[name]

    def objects(self, name: str) -> list[Any]:
        """Return a column as the values that Python has for it."""
        try:
            values: list[Any] = self[name].to_pylist()
        except UnicodeDecodeError:
            raise
        except (OverflowError, ValueError) as error:
            raise ValueError(
                f"column {name!r} holds a time that Python's datetime does not reach; cast it to integers."
            ) from error
        return values

    def valid(self, name: str, count: int) -> Flags:
        """Return which records have a value."""
        if name not in self._valid:
            valid = self.read(name).valid
            self._valid[name] = frozen(np.ones(count, np.uint8) if valid is None else valid.view(np.uint8))
        return self._valid[name]

    def usable(self, name: str, count: int) -> Flags:
        """Return which records have a value that is not NaN."""
        if name not in self._usable:
            column, usable = self.read(name), self.valid(name, count)
            if column.kind == "f8":
                usable = usable & (column.data == column.data)
            elif column.kind is None:
                usable = usable & np.array([v == v for v in column.data.tolist()], bool)
            self._usable[name] = frozen(usable.astype(np.uint8, copy=False))
        return self._usable[name]

    def flags(self, name: str) -> Flags:
        """Return where a predicate is true; a null is false."""
        if name not in self._flags:
            array = self[name]
            flags = np.zeros(len(array), np.uint8)
            if array.null_count < len(array):
                valid, bits = array.buffers()
                flags = _unpacked(bits, array)
                if array.null_count:
                    flags &= _unpacked(valid, array)
            self._flags[name] = frozen(flags)
        return self._flags[name]


def _unpacked(bits: Any, array: pa.Array) -> Flags:
    """Return a byte for each bit, in a quarter of the time that Arrow takes."""
    begin, count = array.offset, len(array)
    whole = np.unpackbits(np.frombuffer(bits, np.uint8), count=begin + count, bitorder="little")
    return whole[begin:]
