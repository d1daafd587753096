"""Partial aggregates in columns: a field for each fused part of the aggregates of all queries.

`FieldPartials` is the protocol; `make_field` picks the class that implements it, by part and types.
"""

from muntin.engine.partials.base import FieldPartials
from muntin.engine.partials.factory import make_field

__all__ = ["FieldPartials", "make_field"]
