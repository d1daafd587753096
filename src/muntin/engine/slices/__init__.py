"""Slices: the stream slicer cuts a batch once, the slice manager updates, merges and splits slices.

The window manager follows the watermark and tells which windows came into view or changed. `grid` holds what
is special to windows on grids of time, `position` what is special to windows over positions of records.
"""

from muntin.engine.slices.slice_manager import SliceManager
from muntin.engine.slices.window_manager import WindowManager

__all__ = ["SliceManager", "WindowManager"]
