"""What queries ask for: their windows in ticks, the fields that their aggregates share, and the decisions.

`decisions` holds Figures 4 to 6 of general stream slicing and is the only place that decides: whether records
are kept, how slices are split, and how a record leaves a slice.
"""

from muntin.engine.plan.decisions import Abilities, Stream, characteristics, decide, merges_ahead, together
from muntin.engine.plan.queries import Plan, PlannedQuery

__all__ = [
    "Abilities",
    "Plan",
    "PlannedQuery",
    "Stream",
    "characteristics",
    "decide",
    "merges_ahead",
    "together",
]
