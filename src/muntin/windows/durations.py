"""Durations as users write them, and clocks: what one tick of a time column is."""

from __future__ import annotations

import datetime
import operator
import re
from dataclasses import dataclass, field
from typing import Any

LIMIT = 2**62  # of times and durations, so that no sum of two overflows
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
    "d": 86400 * 1_000_000_000,
    "w": 7 * 86400 * 1_000_000_000,
}
_WORDS = {
    "nanosecond": "ns",
    "microsecond": "us",
    "millisecond": "ms",
    "sec": "s",
    "second": "s",
    "min": "m",
    "minute": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
}
_TERM = re.compile(r"\s*(\d+)\s*([a-zA-Z]+)")
_DIGITS = 19  # of nanoseconds: no number that is longer fits


@dataclass(frozen=True)
class Clock:
    """What one tick of a time column is: so many nanoseconds, or None where times are plain integers."""

    nanoseconds: int | None

    @property
    def unit(self) -> str:
        """The name of a tick, in the plural."""
        names = {1: "nanoseconds", 1_000: "microseconds", 1_000_000: "milliseconds", 1_000_000_000: "seconds"}
        return "integers" if self.nanoseconds is None else names[self.nanoseconds]

    def __str__(self) -> str:
        return self.unit if self.nanoseconds is None else f"timestamps in {self.unit}"


@dataclass(frozen=True)
class Duration:
    """A stretch of time: ticks of an integer column, or nanoseconds. It is the same however it was written.

    >>> Duration.of("1h30m", "length").nanoseconds == 90 * 60 * 10**9
    True
    >>> Duration.of("10 minutes", "length").ticks(Clock(10**9), "length")
    600
    >>> Duration.of("60s", "length") == Duration.of("1 minute", "length")
    True
    """

    text: str = field(compare=False)
    integer: int | None
    nanoseconds: int | None

    @classmethod
    def of(cls, value: Any, what: str, *, least: int | None = 1) -> Duration:
        """Read a duration; `what` names it in errors, and it must be at least `least`."""
        if isinstance(value, Duration):
            return value
        if isinstance(value, str):
            duration = cls(value, None, _parse(value, what))
        elif isinstance(value, datetime.timedelta):
            whole = (value.days * 86400 + value.seconds) * 10**9 + value.microseconds * 1000
            whole += getattr(value, "nanoseconds", 0)  # which those of pandas have
            duration = cls(_written(whole), None, whole)
        elif hasattr(value, "__index__") and not isinstance(value, bool):
            duration = cls(str(operator.index(value)), operator.index(value), None)
        else:
            raise TypeError(
                f"{what} is a duration such as '10s' or '1h30m', a timedelta or an integer, not {value!r}."
            )
        amount = duration.amount
        if least is not None and amount < least:
            raise ValueError(f"{what} must be {'above' if least else 'at least'} zero, not {value!r}.")
        if abs(amount) >= LIMIT:
            raise ValueError(f"{what} must be shorter than {longest(duration)}, not {value!r}.")
        return duration

    @property
    def amount(self) -> int:
        """The number, of whichever unit."""
        return self.nanoseconds if self.integer is None else self.integer  # type: ignore[return-value]

    @property
    def plain(self) -> Any:
        """What it was made of: a number, or a text."""
        return self.text if self.integer is None else self.integer

    def ticks(self, clock: Clock, what: str) -> int:
        """Return it in ticks of a clock."""
        if self.amount == 0:
            return 0
        if clock.nanoseconds is None:
            if self.integer is None:
                raise TypeError(
                    f"{what} is {self.text!r}, but the time column holds integers: give a whole number."
                )
            return self.integer
        if self.nanoseconds is None:
            raise TypeError(
                f"{what} is {self.integer}, but the time column holds {clock}: say which unit, as in '10s'."
            )
        if self.nanoseconds % clock.nanoseconds:
            raise ValueError(
                f"{what} is {self.text!r}, which is no whole number of {clock.unit}: the time column holds "
                f"{clock}."
            )
        return self.nanoseconds // clock.nanoseconds

    def same_unit(self, other: Duration) -> bool:
        """Tell whether two durations can be compared without a clock."""
        return (self.integer is None) == (other.integer is None) or 0 in (self.amount, other.amount)

    def __str__(self) -> str:
        return self.text


def _parse(text: str, what: str) -> int:
    total, at, sign = 0, 0, 1
    body = text.strip()
    if body.startswith("-"):
        sign, body = -1, body[1:]
    while at < len(body):
        term = _TERM.match(body, at)
        unit = _unit(term.group(2)) if term else None
        if term is None or unit is None:
            raise ValueError(
                f"{what} is {text!r}, which is no duration: write '500ms', '10s', '5m', '2h', '1d', '1h30m' "
                "or '10 minutes'."
            )
        if len(term.group(1).lstrip("0")) > _DIGITS:
            raise ValueError(
                f"{what} has a number of {len(term.group(1))} digits: it must be shorter than 146 years."
            )
        total += int(term.group(1)) * _UNITS[unit]
        at = term.end()
    if not body:
        raise ValueError(f"{what} is an empty text: write '500ms', '10s', '5m', '2h' or '1d'.")
    return sign * total


def longest(duration: Duration) -> str:
    """Return what durations must be shorter than, as people read it."""
    return "2^62" if duration.nanoseconds is None else "146 years (2^62 nanoseconds)"


def in_words(ticks: int, clock: Clock) -> str:
    """Return a number of ticks as a duration that people read.

    >>> in_words(90_000, Clock(10**6)), in_words(5, Clock(None))
    ('90s', '5')
    """
    return str(ticks) if clock.nanoseconds is None else _written(ticks * clock.nanoseconds)


def _written(nanoseconds: int) -> str:
    """Return a duration in the largest unit that divides it."""
    if not nanoseconds:
        return "0s"
    unit = next(u for u, size in reversed(_UNITS.items()) if nanoseconds % size == 0)
    return f"{nanoseconds // _UNITS[unit]}{unit}"


def _unit(name: str) -> str | None:
    if name in _UNITS:
        return name
    word = name.lower()
    return _WORDS.get(word) or _WORDS.get(word.removesuffix("s"))
