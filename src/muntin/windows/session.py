"""Session windows: runs of records with no gap between them that is longer than allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from muntin.windows.base import Vanishes, Window
from muntin.windows.durations import Clock, Duration
from muntin.windows.grid import plain


@dataclass(frozen=True, repr=False)
class Session(Window):
    """Maximal runs with consecutive times at most `gap` apart."""

    gap: Duration
    family = "session"
    by_gap = True
    context = "forward context free"
    kind = "session"

    def resolved(self, clock: Clock) -> int:
        """Return the gap in ticks."""
        return self.gap.ticks(clock, "gap")

    def vanishes(self) -> Vanishes:
        """Return that each record that joins it gives it another end."""
        return "always"

    def parameters(self) -> dict[str, Any]:
        """Return the gap."""
        return {"gap": plain(self.gap)}


def session(gap: Any) -> Window:
    """Runs of records at most `gap` apart (exactly `gap` joins): [first, last + gap).

    >>> session("30s")
    session('30s')
    """
    return Session(Duration.of(gap, "gap"))
