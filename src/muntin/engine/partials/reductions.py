"""What NumPy does as fast as a kernel would: sums of neighbouring records, and sums out of scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from muntin.algebra import sums
from muntin.columnar import Indices

if TYPE_CHECKING:
    from muntin.engine.ingest.batch import Values

States = NDArray[Any]


def count_segments(values: Values, bounds: Indices, out: States) -> None:
    """Write the numbers of records between bounds."""
    del values
    np.subtract(bounds[1:], bounds[:-1], out=out)


def _add_segments(values: Values, bounds: Indices, out: States) -> None:
    out[:, 0] = np.add.reduceat(values.columns[0][: bounds[-1]], bounds[:-1])  # pairwise: little rounding


def _add_integer_segments(values: Values, bounds: Indices, out: States) -> None:
    column = values.columns[0][: bounds[-1]]
    out["f0"] = np.add.reduceat(column >> 32, bounds[:-1])
    out["f1"] = np.add.reduceat(column & 4294967295, bounds[:-1])


REDUCTIONS: dict[tuple[str, ...], Callable[[Values, Indices, States], None]] = {
    ("rows",): count_segments,
    ("n", "f8"): count_segments,
    ("n", "i8"): count_segments,
    ("sum", "f8"): _add_segments,
    ("sum", "i8"): _add_integer_segments,
}


def _join_compensated(head: NDArray[Any], rest: NDArray[Any]) -> NDArray[Any]:
    total = head + rest
    lost = np.isnan(total)
    return np.where(lost, head, total) if lost.any() else total


def _join_limbs(high: NDArray[Any], low: NDArray[Any]) -> NDArray[Any]:
    whole = high + (low >> 32)
    if ((whole >= 2**31) | (whole < -(2**31))).any():
        raise OverflowError(sums.TOO_LARGE)
    joined: NDArray[Any] = (whole << 32) | (low & 4294967295)
    return joined


def _float_of_limbs(high: NDArray[Any], low: NDArray[Any]) -> NDArray[Any]:
    whole: NDArray[Any] = (high + (low >> 32)).astype(float)
    total: NDArray[Any] = whole * 4294967296.0 + (low & 4294967295).astype(float)
    return total


READS: dict[Any, Callable[..., NDArray[Any]]] = {
    sums.join_compensated: _join_compensated,
    sums.join_limbs: _join_limbs,
    sums.float_of_limbs: _float_of_limbs,
}
