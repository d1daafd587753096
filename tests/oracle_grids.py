"""Which windows a time grid has: by its definition, near a time or a measure.

Times are integers; a measure may be a float, and then so are the bounds where a parameter is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tests.window_types import Bounds, Spec

GRIDS = ("tumbling", "sliding", "cumulate", "calendar", "own")
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _near(spec: Spec, low: Any, high: Any) -> Iterator[Bounds]:
    """All windows of a grid that touch [low, high], and some beside it."""
    if spec.kind == "calendar":
        yield from _calendar_near(spec, low, high)
    elif spec.kind == "own":
        period, parts = spec.params
        longest = max(to for _, to in parts)
        for k in range(int((low - longest) // period) - 1, int(high // period) + 2):
            yield from ((k * period + begin, k * period + end) for begin, end in parts)
    elif spec.kind == "cumulate":
        length, step = spec.params
        for k in range(int(low // length) - 1, int(high // length) + 2):
            for j in range(1, length // step + 1):
                yield k * length, k * length + j * step
    else:
        length, offset = spec.params[0], spec.params[-1]
        every = length if spec.kind == "tumbling" else spec.params[1]
        for k in range(int((low - offset - length) // every) - 1, int((high - offset) // every) + 2):
            yield k * every + offset, k * every + offset + length


def grid_windows(spec: Spec, t: Any) -> list[Bounds]:
    """The windows of a grid that hold the time t."""
    return [(start, end) for start, end in _near(spec, t, t) if start <= t < end]


def grid_windows_between(spec: Spec, first: int, last: int) -> list[Bounds]:
    """The windows of a grid with a record before them and one after: `first` and `last` are their times."""
    return [(start, end) for start, end in _near(spec, first, last) if first < start and end <= last]


# ---- calendars ----

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _first_day(unit: str, day: date) -> date:
    """The first day of the unit that a day lies in; a week begins on Monday."""
    match unit:
        case "day":
            return day
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "year":
            return day.replace(month=1, day=1)
    raise ValueError(f"no such unit: {unit}")


_LONGEST = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}


def _midnight(day: date, zone: ZoneInfo) -> int:
    """The first moment of a day, in seconds: the first of two midnights, or the end of a gap over it."""
    local = datetime(day.year, day.month, day.day, tzinfo=zone)
    return (local.astimezone(UTC) - _EPOCH) // timedelta(seconds=1)


def _calendar_near(spec: Spec, low: int, high: int) -> Iterator[Bounds]:
    """The units from the one before `low` to the one after `high`; a day that a zone left out is none."""
    unit, tz, resolution = spec.params
    zone, scale = ZoneInfo(tz), PER_SECOND[resolution]
    days = [(_EPOCH + timedelta(seconds=t // scale)).astimezone(zone).date() for t in (low, high)]
    first = _first_day(unit, _first_day(unit, days[0]) - timedelta(days=1))
    while first <= days[1] + timedelta(days=2):
        after = _first_day(unit, first + timedelta(days=_LONGEST[unit]))
        start, end = _midnight(first, zone) * scale, _midnight(after, zone) * scale
        if start < end:
            yield start, end
        first = after
