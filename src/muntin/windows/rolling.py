"""Windows that look back from a record, or from a time: rolling, last_span, last_n, and those of features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from muntin.windows.base import PositionWindow, Vanishes, Window
from muntin.windows.count import record_count
from muntin.windows.durations import Clock, Duration
from muntin.windows.grid import plain


@dataclass(frozen=True)
class LookBack:
    """At each `every`-th record: those up to it at most `length` ticks before it, or the last `rows`."""

    length: int | None
    rows: int | None
    every: int
    rolling: bool
    before: bool = False  # only records of earlier times count
    back: int = 0  # so many records are left out at the newer end
    since: Any = None  # windows end to end: from the start of the one that holds the record's time
    kept: bool = False  # what the last window of each key holds is kept, however old it is


@dataclass(frozen=True, repr=False)
class Rolling(PositionWindow):
    """At each record, those up to it within a stretch of time or a number."""

    length: Duration | None
    rows: int | None
    kind = "rolling"
    each_record = True

    def vanishes(self) -> Vanishes:
        """Return that there is a window at each of its records, whatever comes."""
        return "never"

    def resolved(self, clock: Clock) -> LookBack:
        """Return the rule in ticks."""
        length = None if self.length is None else self.length.ticks(clock, "length")
        return LookBack(length, self.rows, 1, True)

    def parameters(self) -> dict[str, Any]:
        """Return length or rows."""
        return {"length": plain(self.length)} if self.length is not None else {"rows": self.rows}

    def __repr__(self) -> str:
        return f"rolling(rows={self.rows})" if self.length is None else super().__repr__()

    def identity(self) -> tuple[str, ...]:
        """Return what tells a window apart."""
        return ("window_end", "window_id")


@dataclass(frozen=True, repr=False)
class LastSpan(PositionWindow):
    """At every so many records, those up to the last one within a stretch of time."""

    length: Duration
    every: int
    kind = "last_span"
    each_record = True
    context = "forward context aware"

    def vanishes(self) -> Vanishes:
        """Return that there is a window at each of its records, whatever comes."""
        return "never"

    def resolved(self, clock: Clock) -> LookBack:
        """Return the rule in ticks."""
        return LookBack(self.length.ticks(clock, "length"), None, self.every, False)

    def parameters(self) -> dict[str, Any]:
        """Return length and every."""
        return {"length": plain(self.length), "every": self.every}


@dataclass(frozen=True)
class LatestRecords:
    """At each multiple of `every` ticks with a record in the stretch before it: the last n records."""

    n: int
    every: int


@dataclass(frozen=True, repr=False)
class LastN(PositionWindow):
    """At times end to end, the last so many records before."""

    n: int
    every: Duration
    kind = "last_n"
    context = "forward context aware"

    def vanishes(self) -> Vanishes:
        """Return that there is a window at each of its records, whatever comes."""
        return "never"

    def resolved(self, clock: Clock) -> LatestRecords:
        """Return the rule in ticks."""
        return LatestRecords(self.n, self.every.ticks(clock, "every"))

    def parameters(self) -> dict[str, Any]:
        """Return n and every."""
        return {"n": self.n, "every": plain(self.every)}

    def identity(self) -> tuple[str, ...]:
        """Return what tells a window apart."""
        return ("window_end",)


@dataclass(frozen=True, repr=False)
class FeatureWindow(PositionWindow):
    """At each record, what is known of its key: a rolling window, or one of the calendar up to the record."""

    window: Window
    closed: str
    back: int
    kind = "feature_window"
    each_record = True

    def resolved(self, clock: Clock) -> LookBack:
        """Return the rule in ticks."""
        rule, before = self.window.resolved(clock), self.closed == "left"
        if isinstance(rule, LookBack):
            return replace(rule, before=before, back=self.back, kept=True)
        return LookBack(None, None, 1, True, before, self.back, rule, True)

    def parameters(self) -> dict[str, Any]:
        """Return the window, and what of it counts."""
        return {"window": self.window, "closed": self.closed, "back": self.back}

    def identity(self) -> tuple[str, ...]:
        """Return what tells a window apart."""
        return ("window_end", "window_id")


def feature_window(window: Window, closed: str = "right", back: int = 0) -> Window:
    """At each record: those of a rolling, tumbling or calendar window up to it, or before its time ("left").

    The newest `back` of them do not count. What the window of a key's last record holds is kept for good.

    >>> feature_window(rolling("10s"), closed="left")
    feature_window(rolling('10s'), closed='left')
    """
    if not isinstance(window, Window) or window.kind not in ("rolling", "tumbling", "calendar"):
        raise ValueError(f"features look back by rolling, tumbling or calendar windows, not by {window!r}.")
    if closed not in ("right", "left"):
        raise ValueError(f"closed is 'right' or 'left', not {closed!r}.")
    return FeatureWindow(window, closed, record_count(back, "back") if back else 0)


def rolling(length: Any = None, *, rows: int | None = None) -> Window:
    """At each record: the records of its key up to it with a time in (t - length, t], or the last `rows`.

    >>> rolling("10s"), rolling(rows=100)
    (rolling('10s'), rolling(rows=100))
    """
    if (length is None) == (rows is None):
        raise ValueError("rolling() takes a length, as in rolling('10s'), or rows, as in rolling(rows=100).")
    if rows is not None:
        return Rolling(None, record_count(rows, "rows"))
    return Rolling(Duration.of(length, "length"), None)


def last_span(length: Any, every: int) -> Window:
    """At each `every`-th record of a key: the records up to it with a time in (t - length, t].

    >>> last_span("10s", every=5)
    last_span('10s', every=5)
    """
    return LastSpan(Duration.of(length, "length"), record_count(every, "every"))


def last_n(n: int, every: Any) -> Window:
    """At each multiple of `every`, if the key has a record since the one before: its last `n` records.

    >>> last_n(10, every="5s")
    last_n(10, every='5s')
    """
    return LastN(record_count(n, "n"), Duration.of(every, "every"))
