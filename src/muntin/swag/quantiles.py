"""Quantiles of a whole column in a sliding window: a pointer goes along over the ranks of its values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.swag.bulk import bounds
from muntin.swag.columns import as_columns, masked


def slid_quantile(q: float, values: Any, window: Any, times: Any, length: Any) -> NDArray[Any] | None:
    """Return the q-quantile after each record; None where values are no numbers."""
    from muntin.kernels import ranks

    columns = as_columns(values, 1)
    if columns is None or columns.kinds[0] not in ("i8", "f8"):
        return None
    (column,), count = columns.arrays, len(columns.arrays[0])
    limits = bounds(count, window, times, length)
    if not count:
        return np.empty(0)
    floats = column.dtype == np.float64
    keys = ranks.as_keys(column) if floats else column.astype(np.int64)
    end = np.arange(1, count + 1)
    begin = np.maximum(end - limits.window, 0) if limits.starts is None else limits.starts.astype(np.int64)
    if columns.valid is not None:  # nulls are skipped, and take up room in the window
        before = np.append(0, np.cumsum(columns.valid))
        keys, begin, end = keys[columns.valid], before[begin], before[end]
    there = np.flatnonzero(begin < end)
    out = np.full(count, np.nan)
    if len(there):
        total = np.arange(len(keys) + 1)
        out[there] = ranks.slide(keys, total, begin[there], end[there], (q,), floats=floats)[0]
    return out if len(there) == count else masked(out, begin == end)
