"""Windows that records open and close: punctuation, and landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.windows.base import Inputs, PositionWindow, Vanishes, Window, column_name
from muntin.windows.durations import Clock, Duration
from muntin.windows.grid import plain


@dataclass(frozen=True)
class Punctuated:
    """From a record where `when` is true to the next one, or to the next where `end` is."""

    when: str
    end: str | None


@dataclass(frozen=True, repr=False)
class Punctuation(PositionWindow):
    """Windows that a record opens, and a later one ends."""

    when: str
    end: str | None
    kind = "punctuation"

    def resolved(self, clock: Clock) -> Punctuated:
        """Return the rule."""
        del clock
        return Punctuated(self.when, self.end)

    def inputs(self) -> Inputs:
        """Return the predicates."""
        return tuple((name, "flag") for name in (self.when, self.end) if name is not None)

    def parameters(self) -> dict[str, Any]:
        """Return when and end."""
        return {"when": self.when, "end": self.end}


def punctuation(when: str, end: str | None = None) -> Window:
    """From a record where column `when` is true to just before the next such record.

    With `end`, to just before the next record where that column is true; other records belong to no window.

    >>> punctuation("is_start", end="is_stop")
    punctuation('is_start', end='is_stop')
    """
    return Punctuation(column_name(when, "when"), None if end is None else column_name(end, "end"))


@dataclass(frozen=True)
class Landmarks:
    """From a landmark on; in ticks. With `every`, windows that grow at each multiple of it."""

    when: str
    until: str | None
    length: int | None
    every: int | None


@dataclass(frozen=True, repr=False)
class Landmark(PositionWindow):
    """Windows from a landmark on."""

    when: str
    until: str | None
    length: Duration | None
    every: Duration | None
    kind = "landmark"

    def identity(self) -> tuple[str, ...]:
        """Return the running number; windows that grow are told apart by where they end."""
        return ("window_id",) if self.every is None else ("window_end",)

    def vanishes(self) -> Vanishes:
        """Return that a record that ends it leaves no window to the next multiple of `every`."""
        return "out of order" if self.every is None else "always"

    def resolved(self, clock: Clock) -> Landmarks:
        """Return the rule in ticks."""
        length = None if self.length is None else self.length.ticks(clock, "length")
        every = None if self.every is None else self.every.ticks(clock, "every")
        return Landmarks(self.when, self.until, length, every)

    def inputs(self) -> Inputs:
        """Return the predicates."""
        return tuple((name, "flag") for name in (self.when, self.until) if name is not None)

    def parameters(self) -> dict[str, Any]:
        """Return all that was given."""
        durations = {"length": self.length, "every": self.every}
        given = {name: None if value is None else plain(value) for name, value in durations.items()}
        return {"when": self.when, "until": self.until, **given}


def landmark(when: str, until: str | None = None, length: Any = None, every: Any = None) -> Window:
    """From a record where column `when` is true to the next one; with `until` or `length`, to what that says.

    That is a record where column `until` is true, or the time `length` after the landmark; not both. With
    `every`, windows from the landmark to each multiple of it before which the key has a record.

    >>> landmark("is_start", every="1m")
    landmark('is_start', every='1m')
    """
    if until is not None and length is not None:
        raise ValueError("a landmark window ends where until= says, or after length=: give one of them.")
    return Landmark(
        column_name(when, "when"),
        None if until is None else column_name(until, "until"),
        None if length is None else Duration.of(length, "length"),
        None if every is None else Duration.of(every, "every"),
    )
