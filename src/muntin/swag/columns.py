"""Values and times as users hand them over, turned into arrays that kernels read."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LIMIT = 2**62  # of times, so that no difference of two overflows
_NULL_TIMES = "times have nulls; every record needs a time."
_FAR_TIMES = "times must lie within 2^62 of zero."
_ANSWERS: list[tuple[set[type], str]] = [({bool}, "b1"), ({int}, "i8"), ({int, float}, "f8")]


@dataclass(frozen=True)
class Columns:
    """The value columns of a stream: arrays of int64 or float64, and which records have a value."""

    arrays: tuple[NDArray[Any], ...]
    valid: NDArray[np.bool_] | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The type code of each column."""
        return tuple(f"{a.dtype.kind}{a.dtype.itemsize}" for a in self.arrays)


def as_columns(values: Any, arity: int) -> Columns | None:
    """Return values as columns of numbers; None if they are anything else."""
    if arity == 1:
        parts = [_as_numbers(values)]
    elif isinstance(values, tuple) and len(values) == arity:
        parts = [_as_numbers(column) for column in values]
    else:
        return None
    if any(part is None for part in parts):
        return None
    arrays, valids = zip(*[part for part in parts if part is not None], strict=True)
    if len({len(array) for array in arrays}) > 1:
        raise ValueError(f"columns must be of one length, not {[len(a) for a in arrays]}.")
    if any(valid is not None for valid in valids[1:]):
        return None  # a null beside a value is a value of its own: only objects can hold it
    return Columns(tuple(_read_only(array) for array in arrays), valids[0])


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written: Arrow's cannot, and kernels are compiled for one kind only."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_records(values: Any, arity: int) -> list[Any]:
    """Return values as a list of Python objects, tuples where a record has several."""
    if arity > 1 and isinstance(values, tuple) and len(values) == arity:
        return list(zip(*(_as_list(column) for column in values), strict=True))
    return _as_list(values)


def as_times(times: Any, length: Any) -> tuple[NDArray[np.int64], int]:
    """Return times and a window's length as integers of one unit, the length rounded up to it."""
    array = np.asarray(_without_nulls(times))
    if array.dtype == object and len(array) and isinstance(array[0], datetime.datetime):
        array = array.astype("datetime64[us]")
    if array.ndim != 1 or (array.dtype.kind not in "iuM" and len(array)):
        raise TypeError(f"times are a column of integers or timestamps, not {array.dtype}.")
    if array.dtype.kind == "M":
        if np.isnat(array).any():
            raise ValueError(_NULL_TIMES)
        ticks = _ticks(length, array.dtype)
    elif isinstance(length, (int, np.integer)) and not isinstance(length, bool):
        ticks = int(length)
    else:
        raise TypeError(f"length is a whole number where times are integers, not {length!r}.")
    if not 0 < ticks < _LIMIT:
        raise ValueError(f"length must be above zero, not {length!r}.")
    if array.dtype.kind == "u" and len(array) and array.max() >= _LIMIT:
        raise ValueError(_FAR_TIMES)
    column = np.ascontiguousarray(array.astype(np.int64))
    if len(column) and (column.max() >= _LIMIT or column.min() <= -_LIMIT):
        raise ValueError(_FAR_TIMES)
    return column, ticks


def _without_nulls(times: Any) -> Any:
    if not type(times).__module__.startswith("pyarrow"):  # which would take a while to load
        return times
    if times.null_count:
        raise ValueError(_NULL_TIMES)
    return times.to_numpy(**({} if hasattr(times, "num_chunks") else {"zero_copy_only": False}))


def _ticks(length: Any, times: np.dtype[Any]) -> int:
    """Return a length in the unit of timestamps; part of a unit counts as a whole one."""
    if not isinstance(length, (datetime.timedelta, np.timedelta64)):
        raise TypeError(f"length is a timedelta where times are timestamps, not {length!r}.")
    unit, multiple = np.datetime_data(times)
    one: Any = np.timedelta64(multiple, unit)  # type: ignore[call-overload]
    return int(-(-np.timedelta64(length) // one))


def as_answers(answers: Sequence[Any]) -> NDArray[Any]:
    """Return answers as an array: of numbers where they all are, masked where one is null."""
    missing = np.array([answer is None for answer in answers], dtype=bool)
    kinds = {type(answer) for answer in answers if answer is not None}
    code = next((c for types, c in _ANSWERS if kinds <= types), None)
    if code == "i8" and not all(-(2**63) <= a < 2**63 for a in answers if a is not None):
        code = None
    if code is None:
        out = np.empty(len(answers), object)
        out[:] = answers
        return out
    return masked(np.array([0 if a is None else a for a in answers], code), missing)


def masked(data: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the data, masked where answers are null (with NaN beneath, where the type has it)."""
    if not missing.any():
        return data
    if data.dtype.kind == "f":
        data[missing] = np.nan
    return np.ma.MaskedArray(data, missing)


def _as_numbers(values: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None] | None:
    """Return one column as int64 or float64, and its validity if it has nulls."""
    if isinstance(values, np.ma.MaskedArray):
        data = _numeric(values.data)
        mask = np.ma.getmaskarray(values)
        return None if data is None else (data, ~mask if mask.any() else None)
    if isinstance(values, np.ndarray):
        data = _numeric(values)
        return None if data is None else (data, None)
    return _from_arrow(values)


def _numeric(array: NDArray[Any]) -> NDArray[Any] | None:
    if array.ndim != 1:
        raise ValueError(f"values are one column, not an array of shape {array.shape}.")
    if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        return np.ascontiguousarray(array, np.float64)
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and len(array) and array.max() >= 2**63:
        return None  # beyond int64: Python's integers hold them
    if array.dtype.kind in "iub":
        return np.ascontiguousarray(array, np.int64)
    return None


def _from_arrow(values: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None] | None:
    """Read anything else through Arrow, which knows nulls from NaN."""
    import pyarrow as pa

    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise TypeError(f"values are an array or a sequence, not {type(values).__name__}.")
    try:
        if isinstance(values, pa.ChunkedArray) or hasattr(values, "__arrow_c_stream__"):
            array = pa.chunked_array(values).combine_chunks()
        else:
            array = values if isinstance(values, pa.Array) else pa.array(values, from_pandas=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError):
        return None
    kind = array.type
    if pa.types.is_null(kind) and len(array) == 0:
        return np.empty(0), None
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return None
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    filled = array.fill_null(False if pa.types.is_boolean(kind) else 0) if array.null_count else array
    data = _numeric(filled.to_numpy(zero_copy_only=False))
    return None if data is None else (data, valid)


def _as_list(values: Any) -> list[Any]:
    if isinstance(values, np.ma.MaskedArray):
        return list(values.tolist())
    for method in ("tolist", "to_pylist", "to_list"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    return list(values)
