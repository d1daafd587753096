"""Windows of the calendar of a time zone: days, weeks, months, quarters, years."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.windows.base import Window
from muntin.windows.durations import LIMIT, Clock

Places = NDArray[np.int64]
_DAY = 86400
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MONDAY = datetime.date(1, 1, 1).toordinal()  # day 1 of year 1 was one
_NEVER = -LIMIT

# Each unit numbers days: the number of a date, the first date of a number, and the most days that one has.
# A zone may leave out a day, or have one twice as long, when it changes sides of the date line.
_Unit = tuple[Callable[[datetime.date], int], Callable[[int], datetime.date], int]
_date = datetime.date.fromordinal
_UNITS: dict[str, _Unit] = {
    "day": (lambda d: d.toordinal(), _date, 2),
    "week": (lambda d: (d.toordinal() - _MONDAY) // 7, lambda k: _date(_MONDAY + 7 * k), 8),
    "month": (
        lambda d: 12 * d.year + d.month - 1,
        lambda k: datetime.date(k // 12, k % 12 + 1, 1),
        32,
    ),
    "quarter": (
        lambda d: 4 * d.year + (d.month - 1) // 3,
        lambda k: datetime.date(k // 4, k % 4 * 3 + 1, 1),
        93,
    ),
    "year": (lambda d: d.year, lambda k: datetime.date(k, 1, 1), 367),
}


class CalendarGrid:
    """Windows end to end, one for each unit of a calendar, numbered by it.

    Only numbers near times that were asked for are looked up, each once.
    """

    irregular = True
    listed = False

    def __init__(self, unit: str, zone: str, per_second: int) -> None:
        self.unit, self.zone, self.per_second = unit, zone, per_second
        self._zone = _zone(zone)
        self._number, self._date, days = _UNITS[unit]
        self.length = days * _DAY * per_second  # no window is longer
        self._numbers: Places = np.empty(0, np.int64)
        self._starts: Places = np.empty(0, np.int64)
        self._days: set[int] = set()  # of UTC, near which all is known
        first, last = (self._second(datetime.date(year, 1, 1)) * per_second for year in (5, 9995))
        self._first, self._last = max(first, 1 - LIMIT), min(last, LIMIT)  # nanoseconds reach less far
        self._past = self._last + 2 * self.length  # past the end of each window that holds a time

    def __eq__(self, other: object) -> bool:
        mine = (self.unit, self.zone, self.per_second)
        return isinstance(other, CalendarGrid) and mine == (other.unit, other.zone, other.per_second)

    def __hash__(self) -> int:
        return hash((self.unit, self.zone, self.per_second))

    def _second(self, day: datetime.date) -> int:
        """Return the first moment of a day: the first of two midnights, or the end of a gap over it."""
        midnight = datetime.datetime(day.year, day.month, day.day, tzinfo=self._zone)
        return (midnight.astimezone(datetime.UTC) - _EPOCH) // datetime.timedelta(seconds=1)

    def check(self, low: int, high: int) -> None:
        """Refuse times that the calendar does not reach."""
        if low < self._first or high >= self._last:
            raise ValueError("calendar windows are for times from the year 5 to the year 9994.")

    def _learn(self, numbers: Places) -> None:
        """Look up where windows start."""
        new = np.setdiff1d(numbers, self._numbers)
        if len(new):
            starts = [self._second(self._date(k)) * self.per_second for k in new.tolist()]
            merged = np.concatenate([self._numbers, new])
            order = np.argsort(merged)
            moved = np.concatenate([self._starts, np.array(starts, np.int64)])[order]
            self._numbers, self._starts = merged[order], moved  # at once: a call may be broken off

    def _learn_near(self, times: Places) -> None:
        days = np.unique(times // (_DAY * self.per_second)).tolist()
        new = [day for day in days if day not in self._days]
        if new:
            dates = [datetime.date(1970, 1, 1) + datetime.timedelta(days=day) for day in new]
            near = {self._number(d + datetime.timedelta(days=n)) for d in dates for n in (-2, -1, 0, 1, 2)}
            self._learn(np.array(sorted({k + n for k in near for n in (-1, 0, 1)}), np.int64))
            self._days.update(new)

    def high(self, t: Any) -> Any:
        """Return the window that holds t."""
        times = np.clip(np.atleast_1d(np.asarray(t, np.int64)), self._first, self._past)
        self._learn_near(times)
        found = self._numbers[np.searchsorted(self._starts, times, side="right") - 1]
        return found if np.ndim(t) else int(found[0])

    low = high

    def start(self, k: Any) -> Any:
        """Return where window k starts."""
        numbers = np.atleast_1d(np.asarray(k, np.int64))
        self._learn(np.unique(numbers))
        found = self._starts[np.searchsorted(self._numbers, numbers)]
        return found if np.ndim(k) else int(found[0])

    def end(self, k: Any) -> Any:
        """Return where window k ends."""
        return self.start(k + 1)

    def last_ended(self, watermark: Any) -> Any:
        """Return the last window that ends at or before the watermark."""
        return self.high(watermark) - 1

    def floors(self, times: Places) -> Places:
        """Return the last edge at or before each time."""
        floors: Places = self.start(self.high(times))
        return np.where(times < self._first, _NEVER, floors)

    def around(self, t: int) -> tuple[int, int]:
        """Return the last edge at or before t, and the first after it."""
        k = self.high(t)
        return (_NEVER if t < self._first else self.start(k)), self.start(k + 1)

    def between(self, low: int, high: int, most: int) -> Places | None:
        """Return the edges after one time up to another; None if there are more than so many."""
        first, last = self.high(low) + 1, self.high(high)
        return self.start(np.arange(first, last + 1)) if last - first < most else None


@dataclass(frozen=True, repr=False)
class Calendar(Window):
    """Days, weeks, months, quarters or years of a time zone."""

    unit: str
    tz: str
    kind = "calendar"
    family = "grid"
    context = "context free"

    def resolved(self, clock: Clock) -> CalendarGrid:
        """Return the grid in ticks."""
        if clock.nanoseconds is None:
            raise TypeError(f"{self!r} is for timestamps, but the time column holds integers.")
        return CalendarGrid(self.unit, self.tz, 10**9 // clock.nanoseconds)

    def parameters(self) -> dict[str, Any]:
        """Return unit and time zone."""
        return {"unit": self.unit, "tz": self.tz}


def calendar(unit: str, tz: str = "UTC") -> Window:
    """Each day, week, month, quarter or year of a time zone; weeks begin on Monday.

    >>> calendar("month", tz="Europe/Berlin")
    calendar('month', tz='Europe/Berlin')
    """
    if unit not in _UNITS:
        raise ValueError(f"unit is one of {', '.join(map(repr, _UNITS))}, not {unit!r}.")
    _zone(tz)
    return Calendar(unit, tz)


def _zone(tz: str) -> datetime.tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # takes a while to load

    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        raise ValueError(f"tz is the name of a time zone such as 'Europe/Berlin', not {tz!r}.") from error
