"""Windows of one's own whose edges depend on the records around them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from muntin.windows.base import Inputs, PositionWindow, field_names
from muntin.windows.durations import LIMIT, Clock, Duration

Bounds = tuple[int, int]


class Edges:
    """The open windows of one key, and what a user wants to remember of it in `state`."""

    def __init__(self, windows: Sequence[Bounds], state: Any, memory: int | None = None) -> None:
        self.state = state
        self._windows = list(windows)
        self._passed = -LIMIT
        self._memory = memory
        self._least = -LIMIT  # records before this may be gone

    def pass_time(self, t: int) -> list[Bounds]:
        """Let time pass up to a record; return the windows that have ended."""
        self._passed = t
        if self._memory is not None:
            self._least = min([t - self._memory, *(start for start, _ in self._windows)])
        ended = [window for window in self._windows if window[1] <= t]
        if ended:
            self._windows = [window for window in self._windows if window[1] > t]
        return ended

    @property
    def windows(self) -> tuple[Bounds, ...]:
        """The windows [start, end) that have not come out yet, in the order in which they were added."""
        return tuple(self._windows)

    def add(self, start: int, end: int) -> None:
        """Add a window; it may start among records that are already there."""
        for bound in (start, end):
            if type(bound) is not int or not -(2**63) <= bound < 2**63:
                raise TypeError(f"the bounds of a window are integers of 64 bits, not {bound!r}")
        if start < self._least:
            raise ValueError(f"records are kept for the memory of {self._memory}: none can start at {start}")
        if not start < end:
            raise ValueError(f"a window starts before it ends, not at {start} to end at {end}")
        if end <= self._passed:
            raise ValueError(f"it is {self._passed} already: no window can end at {end} any more")
        if (start, end) in self._windows:
            raise ValueError(f"there is a window from {start} to {end} already")
        self._windows.append((start, end))

    def remove(self, start: int, end: int) -> None:
        """Take a window away."""
        if (start, end) not in self._windows:
            raise ValueError(f"there is no window from {start} to {end}")
        self._windows.remove((start, end))

    def move(self, window: Bounds, to: Bounds) -> None:
        """Give a window other bounds."""
        if tuple(window) != tuple(to):
            self.remove(*window)
            self.add(*to)


@dataclass(frozen=True)
class Aware:
    """A window that is told of records, in ticks."""

    window: ContextAwareWindow
    memory: int | None


class ContextAwareWindow(PositionWindow):
    """Windows whose edges are added, moved and removed as records come; provisional.

    Subclasses have `notify(edges, record)`. It is called for each record of a key in canonical order, once
    nothing can come before it. `record` is a named tuple of the time `t` and of `columns`. A window [start,
    end) comes out when the watermark, less the lateness, has reached its end; it then holds the key's records
    from start to end, and is final. An edge can be set between any two records: slices are split there. For
    that, records are kept for `memory`, a duration, before the newest one; None: for ever.

    >>> class Tens(ContextAwareWindow):
    ...     memory = 10
    ...     def notify(self, edges, record):
    ...         start = record.t // 10 * 10
    ...         if (start, start + 10) not in edges.windows:
    ...             edges.add(start, start + 10)
    >>> Tens()
    Tens()
    """

    columns: ClassVar[tuple[str, ...]] = ()
    memory: ClassVar[Any] = None
    kind = "context_aware_window"
    settled_only = True
    context = "forward context aware"

    @abstractmethod
    def notify(self, edges: Edges, record: Any) -> None:
        """Take note of a record: add, move and remove windows."""

    def identity(self) -> tuple[str, ...]:
        """Return what tells a window apart."""
        return ("window_start", "window_end")

    def resolved(self, clock: Clock) -> Aware:
        """Return the window with its memory in ticks."""
        memory = None if self.memory is None else Duration.of(self.memory, "memory").ticks(clock, "memory")
        return Aware(self, memory)

    def inputs(self) -> Inputs:
        """Return the columns that records have."""
        return tuple((name, "any") for name in field_names(self.columns, with_time=True))

    def parameters(self) -> dict[str, Any]:
        """Return what users wrote: snapshots need it again."""
        return {"notify": type(self).notify}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
