"""What is combined: aggregates, their laws, and the fields that they share."""

from muntin.algebra.aggregate import Aggregate, Algebra, RowAggregate
from muntin.algebra.bloom import bloom_contains, bloom_filter
from muntin.algebra.extremes import (
    argmax,
    argmin,
    first,
    last,
    m4,
    max,
    max_count,
    min,
    min_count,
    rate,
    relative_variation,
)
from muntin.algebra.fusion import Field, Fusion, fuse
from muntin.algebra.holistic import collect, collect_distinct, concat, count_distinct, median, mode, quantile
from muntin.algebra.laws import LawViolation, check_aggregate
from muntin.algebra.moments import correlation, covariance, regression, stddev, variance
from muntin.algebra.sketches import (
    approx_count_distinct,
    approx_quantile,
    approx_top_k,
    count_min_estimate,
    count_min_sketch,
)
from muntin.algebra.sums import count, ewm, geomean, mean, product, sum, weighted_mean

__all__ = [
    "Aggregate",
    "Algebra",
    "Field",
    "Fusion",
    "LawViolation",
    "RowAggregate",
    "approx_count_distinct",
    "approx_quantile",
    "approx_top_k",
    "argmax",
    "argmin",
    "bloom_contains",
    "bloom_filter",
    "check_aggregate",
    "collect",
    "collect_distinct",
    "concat",
    "correlation",
    "count",
    "count_distinct",
    "count_min_estimate",
    "count_min_sketch",
    "covariance",
    "ewm",
    "first",
    "fuse",
    "geomean",
    "last",
    "m4",
    "max",
    "max_count",
    "mean",
    "median",
    "min",
    "min_count",
    "mode",
    "product",
    "quantile",
    "rate",
    "regression",
    "relative_variation",
    "stddev",
    "sum",
    "variance",
    "weighted_mean",
]
