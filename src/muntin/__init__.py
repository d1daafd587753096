"""Streaming window aggregation: cut the stream once into slices, share them among all windows."""

from typing import TYPE_CHECKING

from muntin.algebra import (
    Aggregate,
    LawViolation,
    approx_count_distinct,
    approx_quantile,
    approx_top_k,
    argmax,
    argmin,
    bloom_contains,
    bloom_filter,
    check_aggregate,
    collect,
    collect_distinct,
    concat,
    correlation,
    count,
    count_distinct,
    count_min_estimate,
    count_min_sketch,
    covariance,
    ewm,
    first,
    geomean,
    last,
    m4,
    max,
    max_count,
    mean,
    median,
    min,
    min_count,
    mode,
    product,
    quantile,
    rate,
    regression,
    relative_variation,
    stddev,
    sum,
    variance,
    weighted_mean,
)
from muntin.windows import (
    ContextAwareWindow,
    ContextFreeWindow,
    Query,
    aggregate_frame,
    calendar,
    count_sliding,
    count_tumbling,
    cumulate,
    delta_frame,
    landmark,
    last_n,
    last_span,
    on,
    policies,
    policy_window,
    punctuation,
    rolling,
    session,
    sliding,
    state_window,
    threshold_frame,
    tumbling,
    user_window,
)

__version__ = "0.1.0"

if TYPE_CHECKING:
    from muntin import swag
    from muntin.aggregation import aggregate
    from muntin.expressions import expr
    from muntin.feature_rows import features
    from muntin.folding import fold
    from muntin.operator import PROCESSING_TIME, WindowOperator
    from muntin.streamsql import sql

# What takes a while to load, as Arrow and sqlglot do, comes with its first use.
_LAZY = {
    "PROCESSING_TIME": "muntin.operator",
    "WindowOperator": "muntin.operator",
    "aggregate": "muntin.aggregation",
    "expr": "muntin.expressions",
    "features": "muntin.feature_rows",
    "fold": "muntin.folding",
    "sql": "muntin.streamsql",
}


def __getattr__(name: str) -> object:
    """Load what is asked for, and what it stands on."""
    import importlib

    if name == "swag":
        return importlib.import_module("muntin.swag")
    if name not in _LAZY:
        raise AttributeError(f"module 'muntin' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    """Return all names, those too that are not loaded yet: this is what completion shows."""
    return sorted({*globals(), *__all__})


__all__ = [
    "PROCESSING_TIME",
    "Aggregate",
    "ContextAwareWindow",
    "ContextFreeWindow",
    "LawViolation",
    "Query",
    "WindowOperator",
    "__version__",
    "aggregate",
    "aggregate_frame",
    "approx_count_distinct",
    "approx_quantile",
    "approx_top_k",
    "argmax",
    "argmin",
    "bloom_contains",
    "bloom_filter",
    "calendar",
    "check_aggregate",
    "collect",
    "collect_distinct",
    "concat",
    "correlation",
    "count",
    "count_distinct",
    "count_min_estimate",
    "count_min_sketch",
    "count_sliding",
    "count_tumbling",
    "covariance",
    "cumulate",
    "delta_frame",
    "ewm",
    "expr",
    "features",
    "first",
    "fold",
    "geomean",
    "landmark",
    "last",
    "last_n",
    "last_span",
    "m4",
    "max",
    "max_count",
    "mean",
    "median",
    "min",
    "min_count",
    "mode",
    "on",
    "policies",
    "policy_window",
    "product",
    "punctuation",
    "quantile",
    "rate",
    "regression",
    "relative_variation",
    "rolling",
    "session",
    "sliding",
    "sql",
    "state_window",
    "stddev",
    "sum",
    "swag",
    "threshold_frame",
    "tumbling",
    "user_window",
    "variance",
    "weighted_mean",
]
