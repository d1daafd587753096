"""Numbers and texts to Arrow and back by their memory.

Arrow's own ways, pa.array and to_numpy, import pandas, if there is one, at the first call, which takes half a
second; and pa.array takes three times as long as sharing the memory of a NumPy array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# Numbers of cells or records, times in ticks, and numbers of keys: all are 64-bit integers.
Indices = NDArray[np.int64]
Times = NDArray[np.int64]
Codes = NDArray[np.int64]
Flags = NDArray[np.uint8]  # 1 where something holds
_MOST = 2**31 - 1  # bytes that the offsets of strings reach


def numbers(
    data: NDArray[Any], kind: pa.DataType | None = None, missing: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return numbers as an Arrow array that shares their memory.

    >>> numbers(np.array([1, 2, 3]), missing=np.array([False, True, False])).to_pylist()
    [1, None, 3]
    """
    kind = kind or _KINDS.get(data.dtype)
    if kind is None or not data.flags.c_contiguous:
        return pa.array(data, kind, mask=missing)
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(kind, len(data), [valid, pa.py_buffer(data)])


_KINDS = {np.dtype(code): pa.from_numpy_dtype(code) for code in ("i1", "i2", "i4", "i8", "f4", "f8")}


_KINDS |= {np.dtype(code): pa.from_numpy_dtype(code) for code in ("u1", "u2", "u4", "u8")}


_DTYPES = {kind.id: dtype for dtype, kind in _KINDS.items()}


def data(array: pa.Array) -> NDArray[Any]:
    """Return the numbers of an array without nulls, sharing its memory where it can be.

    >>> data(pa.array([1, 2, 3]).slice(1))
    array([2, 3])
    """
    dtype = _DTYPES.get(array.type.id)
    if dtype is None or not len(array):
        found: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return found
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def texts(strings: Sequence[str]) -> pa.Array:
    """Return strings as an Arrow array.

    >>> texts(["a", "bc"]).to_pylist()
    ['a', 'bc']
    """
    parts = [string.encode() for string in strings]
    offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    if offsets[-1] > _MOST:
        return pa.array(strings, pa.string())
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(pa.string(), len(parts), buffers)


def column(values: Any) -> pa.Array:
    """Return a column as a user has it as an Arrow array.

    >>> column([1.5, 2.0]).type
    DataType(double)
    """
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype in _KINDS:
        return numbers(values)
    types = set(map(type, values)) if type(values) is list else None
    if types == {float}:
        return numbers(np.array(values))
    if types == {int}:
        data = np.array(values)
        if data.dtype == np.int64:
            return numbers(data)
    if types == {str}:
        return texts(values)
    return pa.array(values, from_pandas=False)


def named(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    """Return a column of a batch in one piece; say which there are, if it is none of them.

    >>> named(pa.table({"v": [1, 2]}), "v").to_pylist()
    [1, 2]
    """
    try:
        array = table.column(name)
    except KeyError as error:
        have = ", ".join(repr(n) for n in table.column_names)
        how_many = "more than one" if name in table.column_names else "no"
        raise KeyError(f"the batch has {how_many} column {name!r}; it has {have}.") from error
    return one_piece(array)


def one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece.

    >>> one_piece(pa.chunked_array([[1], [2, 3]])).to_pylist()
    [1, 2, 3]
    """
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def no_rows(types: Iterable[tuple[str, pa.DataType]]) -> pa.Table:
    """Return a table of columns of any types, without rows.

    >>> no_rows([("v", pa.int64())]).schema.types
    [DataType(int64)]
    """
    columns = {name: pa.nulls(0, kind) for name, kind in types}
    return pa.table(columns)


def rows(array: pa.Array, at: NDArray[np.int64]) -> pa.Array:
    """Return the values at some places, which ascend.

    >>> rows(pa.array(["a", "b", "c"], pa.string_view()), np.array([0, 2])).to_pylist()
    ['a', 'c']
    """
    try:
        return array.take(numbers(at))
    except pa.ArrowNotImplementedError:  # of views and run-end encoded values; slices there are of any type
        begins = np.append(0, np.flatnonzero(np.diff(at) != 1) + 1)
        stretches = zip(at[begins].tolist(), np.diff(np.append(begins, len(at))).tolist(), strict=True)
        return pa.concat_arrays([array.slice(begin, count) for begin, count in stretches])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same values in a layout that all of Arrow's functions know.

    >>> plain_type(pa.list_(pa.dictionary(pa.uint32(), pa.string_view())))
    ListType(list<item: string>)
    """
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        stored = plain_type(kind.storage_type)
        return kind if stored == kind.storage_type else stored
    if not pa.types.is_nested(kind):
        return _PLAIN.get(kind.id, kind)
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field), kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if pa.types.is_union(kind):
        return pa.union([_plain_field(field) for field in kind], kind.mode, kind.type_codes)
    make: Any = _LISTS[kind.id]
    return make(_plain_field(kind.value_field))


_PLAIN = {pa.float16().id: pa.float32(), pa.string_view().id: pa.string(), pa.binary_view().id: pa.binary()}
_LISTS = {make(pa.int8()).id: make for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)}


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))


def holds_values(kind: pa.DataType) -> bool:
    """Tell whether Arrow can make a column of a type out of single values; of a union, it cannot.

    >>> holds_values(pa.dense_union([pa.field("x", pa.int64())]))
    False
    """
    try:
        pa.array([], kind)
    except pa.ArrowNotImplementedError:
        return False
    return True


def plain(array: pa.Array) -> pa.Array:
    """Return the same values in a layout that all of Arrow's functions know.

    >>> plain(pa.array(["a"]).dictionary_encode()).type
    DataType(string)
    """
    kind = array.type
    wanted = plain_type(kind)
    if wanted == kind:
        return array
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(kind):
        ends = np.asarray(array.run_ends, np.int64)
        places = np.searchsorted(ends, np.arange(array.offset, array.offset + len(array)), side="right")
        return plain(array.values).take(numbers(places))
    if isinstance(kind, pa.BaseExtensionType):
        return plain(array.storage)
    if pa.types.is_union(kind):
        return _plain_union(array)
    try:
        return array.cast(wanted)
    except pa.ArrowNotImplementedError:  # dictionaries and runs within lists and structs
        return pa.array(array.to_pylist(), wanted)


def _sort_of(kind: pa.DataType) -> str:
    tests: dict[str, Any] = {
        "number": lambda t: pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t),
        "text": lambda t: pa.types.is_string(t) or pa.types.is_large_string(t),
        "bytes": lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t),
        "time": pa.types.is_temporal,
    }
    return next((name for name, test in tests.items() if test(kind)), str(kind))


def _plain_union(array: pa.Array) -> pa.Array:
    kind = array.type
    values = [plain(array.field(k)) for k in range(kind.num_fields)]
    named = ([field.name for field in kind], kind.type_codes)
    _, *buffers = array.buffers()[
        :3
    ]  # those that pyarrow gives by name leave out that the array may be a slice
    part = slice(array.offset, array.offset + len(array))
    codes = numbers(np.frombuffer(buffers[0], np.int8)[part])
    if kind.mode == "sparse":
        return pa.UnionArray.from_sparse(codes, values, *named)
    offsets = numbers(np.frombuffer(buffers[1], np.int32)[part])
    return pa.UnionArray.from_dense(codes, offsets, values, *named)


def lossless(array: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Return values in another type; None if that would lose something.

    >>> lossless(pa.array([1.0, 2.0]), pa.int64()).to_pylist(), lossless(pa.array([1.5]), pa.int64())
    ([1, 2], None)
    """
    if array.null_count == len(array):
        return pa.nulls(len(array), wanted)
    if _sort_of(array.type) != _sort_of(wanted):
        return None
    try:
        cast = array.cast(wanted)
        back = cast.cast(array.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if pa.types.is_floating(array.type):
        there, again = (a.to_numpy(zero_copy_only=False) for a in (array, back))
        return cast if np.array_equal(there, again, equal_nan=True) else None
    return cast if back.equals(array) else None


def frozen(data: NDArray[Any]) -> NDArray[Any]:
    """Return the data read-only."""
    if data.flags.writeable:
        data = data.view()
        data.flags.writeable = False
    return data


def distinct(ascending: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ascending values once each: with numpy.sort, several times as fast as numpy.unique."""
    values = ascending
    kept = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=kept[1:])
    return values[kept]


def counts_ticks(kind: pa.DataType) -> bool:
    """Tell whether values are whole numbers of ticks, such as dates, times and durations."""
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_interval(kind)
