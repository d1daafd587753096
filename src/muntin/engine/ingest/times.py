"""Times as users give them, in ticks of a time column."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.windows.durations import LIMIT

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # in a tick, by Arrow's unit
_SECONDS = {"W": 604_800, "D": 86_400, "h": 3600, "m": 60}  # in a unit of NumPy's that Arrow does not have
_IN_NANOSECOND = {"ps": 10**3, "fs": 10**6, "as": 10**9}
_MONTHS = {"Y": 12, "M": 1}
_EPOCH = datetime.datetime(1970, 1, 1)
Time = Any  # a whole number, or an Arrow timestamp


def as_time(given: Any, what: str) -> Time:
    """Return a time as a whole number or an Arrow timestamp; `what` names it in errors.

    >>> as_time(np.datetime64("2020"), "the watermark")
    <pyarrow.TimestampScalar: '2020-01-01T00:00:00'>
    """
    if hasattr(given, "to_datetime64"):  # of pandas; its NaT is a datetime, too
        given = given.to_datetime64()
    if isinstance(given, np.datetime64) and not np.isnat(given):
        return _of_numpy(given, what)
    if isinstance(given, (int, np.integer)) and not isinstance(given, (bool, np.timedelta64)):
        return int(given)
    if isinstance(given, datetime.datetime):
        return pa.scalar(given)
    if isinstance(given, pa.Scalar) and given.is_valid:
        if pa.types.is_integer(given.type):
            return int(given.as_py())
        if pa.types.is_timestamp(given.type):
            return given
    raise TypeError(f"{what} is an integer, a datetime or an Arrow scalar, not {given!r}.")


def _of_numpy(given: np.datetime64, what: str) -> pa.Scalar:
    """Return a time in a unit that Arrow has; parts of a nanosecond are cut off."""
    unit, multiple = np.datetime_data(given.dtype)
    count = int(given.astype(np.int64)) * multiple
    if unit in _MONTHS and abs(count) < 2**32:  # further away, days would overflow
        days = np.datetime64(count * _MONTHS[unit], "M").astype("datetime64[D]")
        unit, count = "D", int(days.astype(np.int64))
    if unit in _SECONDS:
        unit, count = "s", count * _SECONDS[unit]
    elif unit in _IN_NANOSECOND:
        unit, count = "ns", count // _IN_NANOSECOND[unit]
    if unit not in NANOSECONDS or not -(2**63) <= count < 2**63:
        raise ValueError(f"{what} must lie within 2^62 seconds of 1970, not at {given!r}.")
    return pa.scalar(count, pa.timestamp(unit))


def goes_back(time: Time, earlier: Time) -> bool:
    """Tell whether a time lies before another of its kind."""
    one, other = (t if isinstance(t, int) else t.value * NANOSECONDS[t.type.unit] for t in (time, earlier))
    return bool(one < other)


def ticks_of(given: Any, kind: pa.DataType, what: str = "the watermark", *, up: bool = False) -> int:
    """Return a time in ticks of a time column, rounded down or `up`; `what` names it in errors.

    >>> ticks_of(datetime.datetime(1970, 1, 1, 0, 1), pa.timestamp("ms"))
    60000
    """
    time = as_time(given, what)
    if isinstance(time, int):
        if pa.types.is_timestamp(kind):
            raise TypeError(f"the time column holds {kind}; give {what} as a datetime or an Arrow scalar.")
        ticks = time
    elif not pa.types.is_timestamp(kind):
        raise TypeError(f"the time column holds {kind}; give {what} as a whole number.")
    else:
        nanoseconds, tick = time.value * NANOSECONDS[time.type.unit], NANOSECONDS[kind.unit]
        ticks = -(-nanoseconds // tick) if up else nanoseconds // tick
    if not -LIMIT < ticks < LIMIT:
        raise ValueError(f"{what} must lie {_range(kind)}, not at {shown(time)}.")
    return ticks


def _range(kind: pa.DataType) -> str:
    """Return in words which times a time column can hold."""
    if kind != pa.timestamp("ns", getattr(kind, "tz", None)):  # others reach further than dates do
        return "within 2^62 of zero"
    reach = datetime.timedelta(microseconds=LIMIT // 1000)
    return f"between {_EPOCH - reach:%Y-%m-%d} and {_EPOCH + reach:%Y-%m-%d}, as far as {kind} reaches"


def shown(time: Time) -> str:
    """Return a time as text, however far away it is.

    >>> shown(pa.scalar(0, pa.timestamp("s", "UTC")))
    '1970-01-01 00:00:00'
    """
    if isinstance(time, int):
        return str(time)
    return str(pa.scalar(time.value, pa.timestamp(time.type.unit)).cast(pa.string()).as_py())
