"""Streaming window aggregation: cut the stream once into slices, share them among all windows."""

from muntin import swag
from muntin.algebra import (
    Aggregate,
    LawViolation,
    argmax,
    argmin,
    check_aggregate,
    count,
    first,
    geomean,
    last,
    max,
    max_count,
    mean,
    min,
    min_count,
    product,
    relative_variation,
    stddev,
    sum,
    variance,
)

__version__ = "0.1.0"

__all__ = [
    "Aggregate",
    "LawViolation",
    "__version__",
    "argmax",
    "argmin",
    "check_aggregate",
    "count",
    "first",
    "geomean",
    "last",
    "max",
    "max_count",
    "mean",
    "min",
    "min_count",
    "product",
    "relative_variation",
    "stddev",
    "sum",
    "swag",
    "variance",
]
