"""Panes: the pieces that a batch is cut into, each with the partials of its records."""

from __future__ import annotations

from dataclasses import dataclass, field

from muntin.columnar import Codes, Indices, Times
from muntin.engine.partials.base import States


@dataclass
class Panes:
    """What a batch adds: partials of stretches of one slice and one key, with the times they span."""

    code: Codes
    start: Times
    first: Times
    last: Times
    rows: Indices
    states: dict[int, States] = field(default_factory=dict)  # by number of the field

    def __len__(self) -> int:
        return len(self.code)

    def take(self, at: Indices) -> Panes:
        """Return some of the panes, in this order."""
        columns = (self.code[at], self.start[at], self.first[at], self.last[at], self.rows[at])
        return Panes(*columns, {number: states[at] for number, states in self.states.items()})

    def starting(self, start: Times) -> Panes:
        """Return the panes with other starts."""
        return Panes(self.code, start, self.first, self.last, self.rows, self.states)
