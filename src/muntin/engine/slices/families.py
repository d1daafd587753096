"""The registry of slice families: which one serves a window is what the window says as its `family`."""

from __future__ import annotations

from muntin.engine.slices.family import SliceFamily
from muntin.engine.slices.grid.slices import GridSlices
from muntin.engine.slices.position.counts import CountSlices
from muntin.engine.slices.position.marked import MarkedSlices
from muntin.engine.slices.sessions import SessionSlices

# In the order in which slices are updated and rows are emitted.
FAMILIES: dict[str, type[SliceFamily]] = {
    family.kind: family for family in (GridSlices, SessionSlices, CountSlices, MarkedSlices)
}
