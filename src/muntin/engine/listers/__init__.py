"""Listers: which stretches of a key's records are windows, found by reading the records in canonical order.

One class for each rule of windows that no grid of edges describes: frames, punctuation, windows that look
back, measures, and windows of users. `make_lister` picks the class.
"""

from muntin.engine.listers.base import Lister
from muntin.engine.listers.factory import check_inputs, make_lister

__all__ = ["Lister", "check_inputs", "make_lister"]
