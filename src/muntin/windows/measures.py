"""Windows over another advancing column instead of event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.windows.base import Inputs, PositionWindow, Vanishes, Window, column_name
from muntin.windows.durations import Clock
from muntin.windows.grid import Grid

_PLAIN = Clock(None)


@dataclass(frozen=True)
class Measured:
    """A grid over a measure."""

    measure: str
    grid: Grid


@dataclass(frozen=True, repr=False)
class On(PositionWindow):
    """A window on a grid of another measure."""

    measure: str
    window: Window
    kind = "on"
    measured = True

    def vanishes(self) -> Vanishes:
        """Return that a window stays as long as its records do."""
        return "never"

    def resolved(self, clock: Clock) -> Measured:
        """Return the grid in units of the measure."""
        del clock
        return Measured(self.measure, self.window.resolved(_PLAIN))

    def inputs(self) -> Inputs:
        """Return the measure."""
        return ((self.measure, "measure"),)

    def parameters(self) -> dict[str, Any]:
        """Return measure and window."""
        return {"measure": self.measure, "window": self.window}

    def __repr__(self) -> str:
        return f"on({self.measure!r}, {self.window!r})"

    def identity(self) -> tuple[str, ...]:
        """Return what tells a window apart."""
        return ("measure_start", "measure_end")


def on(measure: str, window: Window) -> Window:
    """A window on a grid over another column, one that never goes back from a key's record to the next.

    >>> import muntin as mt
    >>> on("mileage", mt.sliding(10, every=5))
    on('mileage', sliding(10, every=5))
    """
    if not isinstance(window, Window) or window.family != "grid":
        raise TypeError(f"on() takes a window on a grid, such as mt.tumbling(10), not {window!r}.")
    window.resolved(_PLAIN)  # durations with a unit are no lengths of a measure
    return On(column_name(measure, "measure"), window)
