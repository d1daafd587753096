"""Time grids that users write themselves: which windows hold a time, and where the next edge is."""

from __future__ import annotations

import bisect
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muntin.windows.base import Window
from muntin.windows.durations import Clock

Places = NDArray[np.int64]
Bounds = tuple[int, int]
_MANY = 1 << 16  # slices to be remembered
_UNKNOWN = -(2**63)  # where a slice starts that was not asked for
_LAST = 2**63 - 1  # no edge that 64 bits hold lies past it


class ContextFreeWindow(Window):
    """A time grid of one's own: subclasses say which windows hold a time, and where the next edge is.

    Both answers must depend on the time alone, and no window begin or end between two edges.

    >>> class Mornings(ContextFreeWindow):
    ...     def windows(self, t):
    ...         return [(t // 24 * 24 + 6, t // 24 * 24 + 12)] if 6 <= t % 24 < 12 else []
    ...     def next_edge(self, t):
    ...         return min(e for e in (t // 24 * 24 + h for h in (6, 12, 30)) if e > t)
    >>> Mornings().windows(8)
    [(6, 12)]
    """

    kind = "context_free_window"
    family = "grid"
    context = "context free"

    @abstractmethod
    def windows(self, t: int) -> list[Bounds]:
        """Return the windows [start, end) that hold a time, in ticks."""

    @abstractmethod
    def next_edge(self, t: int) -> int:
        """Return the first edge after a time: where a window starts or ends."""

    def resolved(self, clock: Clock) -> OwnGrid:
        """Return the grid; a subclass may look at the clock first."""
        del clock
        return OwnGrid(self)

    def parameters(self) -> dict[str, Any]:
        """Return what users wrote: snapshots need it again."""
        return {"windows": type(self).windows}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class OwnGrid:
    """The slices of a user's grid, each asked for once: where it ends, and which windows hold it."""

    irregular = True
    listed = True

    def __init__(self, window: ContextFreeWindow) -> None:
        self.window = window
        self.length = 1  # of the longest window so far
        self._starts: list[int] = []
        self._slices: dict[int, tuple[int, tuple[Bounds, ...]]] = {}  # end and windows by start
        self._known: Places | None = None

    def check(self, low: int, high: int) -> None:
        """Take all times."""

    def around(self, t: int) -> tuple[int, int]:
        """Return the last edge at or before t, and the first after it.

        Where no window is, a slice may begin anywhere: what lies in none is in no row.
        """
        at = bisect.bisect_right(self._starts, t) - 1
        if at >= 0 and self._slices[self._starts[at]][0] > t:
            start = self._starts[at]
            return start, self._slices[start][0]
        held = self._windows(t)
        start = max((s for s, _ in held), default=t)
        end = self._next(start)
        if end <= t:
            start = self._last_edge(start, t)
            end = self._next(start)
        if at + 1 < len(self._starts):
            end = min(end, self._starts[at + 1])
        if len(self._starts) > _MANY:
            self._forget()
        self.length = max(self.length, *(e - s for s, e in held)) if held else self.length
        # In this order, a call that is broken off in between leaves nothing that is only half known.
        self._known = None
        self._slices[start] = (end, held)
        bisect.insort(self._starts, start)
        return start, end

    def _last_edge(self, low: int, high: int) -> int:
        """Return the last edge after one time, where there is some, and up to another; found by halving."""
        t = high
        while high - low > 1:
            middle = (low + high) // 2
            if self._next(middle) <= t:
                low = middle
            else:
                high = middle
        return self._next(low)

    def _windows(self, t: int) -> tuple[Bounds, ...]:
        held = tuple((self._ticks(s, t), self._ticks(e, t)) for s, e in self.window.windows(t))
        for s, e in held:
            if not s <= t < e:
                raise ValueError(f"{self.window!r} says that [{s}, {e}) holds {t}, which it does not.")
            if s <= _UNKNOWN or e > _LAST or e - s > _LAST:
                raise ValueError(f"{self.window!r} gives [{s}, {e}), which 64 bits do not hold.")
        return held

    def _next(self, t: int) -> int:
        edge = self._ticks(self.window.next_edge(t), t)
        if edge <= t:
            raise ValueError(f"{self.window!r} says that the next edge after {t} is {edge}.")
        return min(edge, _LAST)

    def _ticks(self, bound: Any, t: int) -> int:
        """Return where a window starts or ends, as the user says about a time."""
        whole = isinstance(bound, (int, float, np.integer, np.floating)) and bound % 1 == 0
        if not whole:
            raise ValueError(f"{self.window!r} gives {bound!r} about {t}: edges are whole numbers of ticks.")
        return int(bound)

    def _forget(self) -> None:
        """Forget the older half of all slices; they can be asked for again."""
        gone, self._starts = self._starts[: _MANY // 2], self._starts[_MANY // 2 :]
        for start in gone:
            del self._slices[start]

    def restore(self, length: int) -> None:
        """Know of no slice, and of no window longer than this, until asked again: a call was broken off."""
        # In this order, so that there is never a start without its slice.
        self._starts, self._known, self._slices = [], None, {}
        self.length = length

    def learn(self, starts: Places) -> None:
        """Know of slices that were cut: where no window is, only they tell where one begins.

        From the last to the first, so that each ends where the next begins.
        """
        for start in np.unique(starts)[::-1].tolist():
            self.around(start)

    def floors(self, times: Places) -> Places:
        """Return the last edge at or before each time."""
        out = self._look_up(times)
        missing = out == _UNKNOWN
        if missing.any():
            left = np.unique(times[missing])
            while len(left):
                _, end = self.around(int(left[0]))
                left = left[np.searchsorted(left, end) :]
            out = self._look_up(times)
            for i in np.flatnonzero(out == _UNKNOWN).tolist():  # more than are remembered
                out[i] = self.around(int(times[i]))[0]
        return out

    def _look_up(self, times: Places) -> Places:
        """Return where slices that are known start; _UNKNOWN for the others."""
        if not self._starts:
            return np.full(len(times), _UNKNOWN)
        if self._known is None:
            self._known = np.array([self._starts, [self._slices[s][0] for s in self._starts]], np.int64)
        starts, ends = self._known
        at = np.maximum(np.searchsorted(starts, times, side="right") - 1, 0)
        return np.where((starts[at] <= times) & (times < ends[at]), starts[at], _UNKNOWN)

    def between(self, low: int, high: int, most: int) -> Places | None:
        """Return None: edges are found as they are needed."""
        del low, high, most
        return None

    def held(self, t: int) -> tuple[Bounds, ...]:
        """Return the windows that hold a time."""
        return self._slices[self.around(t)[0]][1]
