"""Numbers and texts to Arrow and back by their memory.

Arrow's own ways, pa.array and to_numpy, import pandas, if there is one, at the first call, which takes half a
second; and pa.array takes three times as long as sharing the memory of a NumPy array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks == 1 else _one_chunk(array)
    return array


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def plain(array: pa.Array) -> pa.Array:
    """Return the same values in a layout that all of Arrow's functions know.

    >>> plain(pa.array(["a"]).dictionary_encode()).type
    DataType(string)
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        return array.dictionary_decode()
    if pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if pa.types.is_binary_view(kind):
        return array.cast(pa.binary())
    return array.cast(pa.float32()) if pa.types.is_float16(kind) else array
