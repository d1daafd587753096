"""Whether numbers and values of a snapshot can have come from columns of their types.

What does not fit would break off the call that reports it, long after the snapshot was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_DIGITS = 100  # sums of decimals, of up to 76 digits, have fewer
_WHOLE = (-(2**63), 2**64 - 1)  # of the integers that columns hold


def limits(kind: pa.DataType) -> tuple[int, int] | None:
    """Return the least and the largest number that is read from a column of a type; None: any.

    >>> limits(pa.int8()), limits(pa.bool_()), limits(pa.float64())
    ((-128, 127), (0, 1), None)
    """
    if pa.types.is_boolean(kind):
        return 0, 1
    if pa.types.is_integer(kind):
        bounds = np.iinfo(kind.to_pandas_dtype())
        return int(bounds.min), int(bounds.max)
    if pa.types.is_time(kind):
        return 0, _DAY[kind.unit] - 1
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind) and kind.bit_width == 32:
        return -(2**31), 2**31 - 1
    return None


def fits(numbers: NDArray[Any], kind: pa.DataType) -> bool:
    """Tell whether numbers can have been read from a column of a type."""
    bounds = limits(kind)
    if bounds is None or not len(numbers):
        return True
    return bounds[0] <= int(numbers.min()) and int(numbers.max()) <= bounds[1]


def fit(values: Sequence[Any], kind: pa.DataType, *, summed: bool = False) -> bool:
    """Tell whether objects can have been read from a column of a type, or be sums of such.

    >>> fit(["a"], pa.string()), fit([3], pa.string()), fit([300], pa.int8())
    (True, False, False)
    """
    held = _class_of(kind)
    if held is None:
        return as_arrow(values, kind)
    if any(type(value) is not held for value in values):
        return False
    if held is int:
        low, high = limits(kind) or _WHOLE
        return summed or all(low <= value <= high for value in values)
    if held is Decimal:
        return all(value.is_finite() and -_DIGITS <= value.adjusted() <= _DIGITS for value in values)
    return True


def _class_of(kind: pa.DataType) -> type | None:
    """Return what values of a column are read as; None: whatever Arrow makes of them."""
    ticks = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or ticks:
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return bytes if binary else None


def as_arrow(values: Sequence[Any], kind: pa.DataType) -> bool:
    """Tell whether Arrow can hold values in a column of a type."""
    try:
        pa.array(list(values), kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True
