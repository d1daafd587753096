"""What an operator has done, and what is live in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metrics:
    """What an operator has done, and what is live in it; as much again may wait to be let go.

    Under several conditions (`where`), slices, keys and records are those of all of them together.
    """

    records_in: int
    late_dropped: int
    windows_emitted: int
    slices: int
    keys: int
    records_kept: int
    state_bytes: int
    combines: int
    update_combines: int
    final_combines: int


@dataclass(frozen=True)
class QueryMetrics:
    """What of an operator's slices and work one query accounts for.

    Slices that serve several queries are counted for each; combines that fold windows of several queries
    at once are split by how many slices the windows of each have. Combines are counted since the operator was
    made or restored.
    """

    slices: int
    state_bytes: int
    combines: int
