"""The aggregate store: a cell of partials for each slice and key, and how ranges of cells are folded.

A batch comes in as `Panes`, one for each slice and key that it touches. `Ordered` is the view of the cells by
key, then time, that windows are ranges of.
"""

from muntin.engine.store.cells import AggregateStore
from muntin.engine.store.ordered import Ordered
from muntin.engine.store.panes import Panes

__all__ = ["AggregateStore", "Ordered", "Panes"]
